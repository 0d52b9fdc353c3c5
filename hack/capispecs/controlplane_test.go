package capispecs

import (
	"context"
	"fmt"
	"time"

	"github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/test/e2e"
	"sigs.k8s.io/cluster-api/test/framework"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

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

// The spec holds each control plane machine until it writes a signal into a ConfigMap. Cluster API's own template has a command for that in the bootstrap data, which
// emulated systems do not run: here the server waits before it boots its disk.
var _ = ginkgo.Describe("KCPRemediationSpec", ginkgo.Label("kcp-remediation", nightly), func() {
	const servers = 4 // 3, and 1 for a replacement
	e2e.KCPRemediationSpec(ctx, func() e2e.KCPRemediationSpecInput {
		return e2e.KCPRemediationSpecInput{
			E2EConfig: shared.config, ClusterctlConfigPath: shared.lab.Repository.Config, BootstrapClusterProxy: shared.proxy, ArtifactFolder: artifacts,
			Flavor: new(flavorKCPRemediation),
			PostNamespaceCreated: func(proxy framework.ClusterProxy, namespace string) {
				withHosts(servers)(proxy, namespace)
				writeClusterInfo(proxy)
				for _, host := range hosts(Default, namespace) {
					shared.gates.set(host.Name, bootsDisk, func(ctx context.Context) error { return awaitSignal(ctx, proxy.GetClient(), namespace) })
					ginkgo.DeferCleanup(func() { shared.gates.set(host.Name, bootsDisk, nil) })
				}
			},
		}
	})
})

// writeClusterInfo writes the ConfigMap in which kubeadm publishes the address of an API server. The spec reads it.
func writeClusterInfo(proxy framework.ClusterProxy) {
	server := proxy.GetRESTConfig().Host
	kubeconfig, err := yaml.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "clusters": []any{map[string]any{"name": "", "cluster": map[string]any{"server": server}}},
	})
	Expect(err).NotTo(HaveOccurred())
	info := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespacePublic, Name: "cluster-info"}, Data: map[string]string{"kubeconfig": string(kubeconfig)},
	}
	Expect(client.IgnoreAlreadyExists(proxy.GetClient().Create(ctx, info))).To(Succeed())
}

// The ConfigMap of KCPRemediationSpec, its key, and the values by which a machine may continue and reports that it does.
const (
	signalName = "mhc-test"
	signalKey  = "signal"
	pass       = "pass"
	passed     = "ack-pass"
)

// awaitSignal waits for the signal, and acknowledges it, as the script wait-signal.sh of Cluster API's template does.
func awaitSignal(ctx context.Context, c client.Client, namespace string) error {
	for {
		signal := &corev1.ConfigMap{}
		err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: signalName}, signal)
		if err == nil && signal.Data[signalKey] == pass {
			return c.Patch(ctx, signal, client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"data":{%q:%q}}`, signalKey, passed)))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}
