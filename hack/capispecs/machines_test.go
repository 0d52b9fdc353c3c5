package capispecs

import (
	"slices"

	"github.com/onsi/ginkgo/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/test/e2e"
)

var _ = ginkgo.Describe("MachineDeploymentScaleSpec", ginkgo.Label("md-scale", nightly), func() {
	e2e.MachineDeploymentScaleSpec(ctx, func() e2e.MachineDeploymentScaleSpecInput {
		return e2e.MachineDeploymentScaleSpecInput{
			E2EConfig: shared.config, ClusterctlConfigPath: shared.lab.Repository.Config, BootstrapClusterProxy: shared.proxy, ArtifactFolder: artifacts,
			Flavor:               flavorImage,
			PostNamespaceCreated: withHosts(4), // 1 and 3 machines
		}
	})
})

var _ = ginkgo.Describe("MachineDeploymentRemediationSpec", ginkgo.Label("md-remediation", nightly), func() {
	e2e.MachineDeploymentRemediationSpec(ctx, func() e2e.MachineDeploymentRemediationSpecInput {
		return e2e.MachineDeploymentRemediationSpecInput{
			E2EConfig: shared.config, ClusterctlConfigPath: shared.lab.Repository.Config, BootstrapClusterProxy: shared.proxy, ArtifactFolder: artifacts,
			Flavor:               new(flavorMDRemediation),
			PostNamespaceCreated: withHosts(3), // 1 and 1, and 1 for the replacement
		}
	})
})

var _ = ginkgo.Describe("KCPAndMachineDeploymentRolloutSpec", ginkgo.Label("kcp-md-rollout", nightly), func() {
	e2e.KCPAndMachineDeploymentRolloutSpec(ctx, func() e2e.KCPAndMachineDeploymentRolloutSpecInput {
		return e2e.KCPAndMachineDeploymentRolloutSpecInput{
			E2EConfig: shared.config, ClusterctlConfigPath: shared.lab.Repository.Config, BootstrapClusterProxy: shared.proxy, ArtifactFolder: artifacts,
			Flavor:               flavorTaints,
			PostNamespaceCreated: withHosts(2), // the old worker goes before the new one comes
		}
	})
})

var _ = ginkgo.Describe("ClusterDeletionSpec", ginkgo.Label("cluster-deletion", nightly), func() {
	e2e.ClusterDeletionSpec(ctx, func() e2e.ClusterDeletionSpecInput {
		return e2e.ClusterDeletionSpecInput{
			E2EConfig: shared.config, ClusterctlConfigPath: shared.lab.Repository.Config, BootstrapClusterProxy: shared.proxy, ArtifactFolder: artifacts,
			Flavor:               new(flavorTopology),
			PostNamespaceCreated: withHosts(2),
			// Workers go first, then the control plane, then the infrastructure of the cluster. The spec holds the machines and the BareMetalCluster.
			ClusterDeletionPhases: []e2e.ClusterDeletionPhase{
				{ObjectFilter: ofKind(workers, "MachineDeployment", "MachineSet"), BlockingObjectFilter: ofKind(nil, "Machine")},
				{ObjectFilter: ofKind(controlPlanes, "KubeadmControlPlane"), BlockingObjectFilter: ofKind(nil, "Machine")},
				{ObjectFilter: ofKind(nil, "BareMetalCluster"), BlockingObjectFilter: ofKind(nil, "BareMetalCluster")},
			},
		}
	})
})

// The kinds that own the Machines of workers and of the control plane.
var (
	workers       = []string{"MachineDeployment", "MachineSet"}
	controlPlanes = []string{"KubeadmControlPlane"}
)

// ofKind returns a filter that accepts objects of some kinds, and the Machines of some owners.
func ofKind(machinesOf []string, kinds ...string) func(corev1.ObjectReference, []metav1.OwnerReference) bool {
	return func(object corev1.ObjectReference, owners []metav1.OwnerReference) bool {
		owned := object.Kind == "Machine" && slices.ContainsFunc(owners, func(o metav1.OwnerReference) bool { return slices.Contains(machinesOf, o.Kind) })
		return owned || slices.Contains(kinds, object.Kind)
	}
}
