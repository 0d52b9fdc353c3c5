package capispecs

import (
	"github.com/onsi/ginkgo/v2"
	"sigs.k8s.io/cluster-api/test/e2e"

	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/node"
)

// The conformance tests of Kubernetes need containers, so the spec only upgrades. It checks the version of kube-proxy, whose objects the lab creates as kubeadm does.
var _ = ginkgo.Describe("ClusterUpgradeConformanceSpec", ginkgo.Label("cluster-upgrade", nightly), func() {
	e2e.ClusterUpgradeConformanceSpec(ctx, func() e2e.ClusterUpgradeConformanceSpecInput {
		return e2e.ClusterUpgradeConformanceSpecInput{
			E2EConfig: shared.config, ClusterctlConfigPath: shared.lab.Repository.Config, BootstrapClusterProxy: shared.proxy, ArtifactFolder: artifacts,
			Flavor:               new(flavorUpgrade),
			WorkerMachineCount:   new(int64(1)),
			SkipConformanceTests: true,
			PostNamespaceCreated: withExtras(node.Extras{KubeProxy: true}, 3), // 1 and 1, and 1 for the rollout of the control plane
		}
	})
})

// Pods run in the memory of the kubelets. A real scheduler places them.
var _ = ginkgo.Describe("NodeDrainTimeoutSpec", ginkgo.Label("node-drain", nightly), func() {
	e2e.NodeDrainTimeoutSpec(ctx, func() e2e.NodeDrainTimeoutSpecInput {
		return e2e.NodeDrainTimeoutSpecInput{
			E2EConfig: shared.config, ClusterctlConfigPath: shared.lab.Repository.Config, BootstrapClusterProxy: shared.proxy, ArtifactFolder: artifacts,
			Flavor:               new(flavorTopology),
			PostNamespaceCreated: withExtras(node.Extras{Scheduler: true}, 4), // 3 control plane machines and 1 worker
		}
	})
})

// The template has no KubeadmControlPlane at first, and then one that adopts the control plane machine.
var _ = ginkgo.Describe("KCPAdoptionSpec", ginkgo.Label("kcp-adoption", nightly), func() {
	e2e.KCPAdoptionSpec(ctx, func() e2e.KCPAdoptionSpecInput {
		return e2e.KCPAdoptionSpecInput{
			E2EConfig: shared.config, ClusterctlConfigPath: shared.lab.Repository.Config, BootstrapClusterProxy: shared.proxy, ArtifactFolder: artifacts,
			Flavor:               new(flavorKCPAdoption),
			PostNamespaceCreated: withHosts(1),
		}
	})
})

// The spec deletes all objects of a cluster without their finalizers, as the loss of a management cluster does, and creates them again. The server goes on running, and
// gets its machine back.
var _ = ginkgo.Describe("KCPInfraAdoptionSpec", ginkgo.Label("kcp-infra-adoption", nightly), func() {
	e2e.KCPInfraAdoptionSpec(ctx, func() e2e.KCPInfraAdoptionSpecInput {
		return e2e.KCPInfraAdoptionSpecInput{
			E2EConfig: shared.config, ClusterctlConfigPath: shared.lab.Repository.Config, BootstrapClusterProxy: shared.proxy, ArtifactFolder: artifacts,
			Flavor:               new(flavorTopology),
			PostNamespaceCreated: withHosts(2), // 1, and 1 for the rollout at the end
		}
	})
})
