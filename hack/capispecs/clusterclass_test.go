package capispecs

import (
	"maps"

	"github.com/onsi/ginkgo/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/test/e2e"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

var _ = ginkgo.Describe("ClusterClassChangesSpec", ginkgo.Label("clusterclass-changes", nightly), func() {
	e2e.ClusterClassChangesSpec(ctx, func() e2e.ClusterClassChangesSpecInput {
		return e2e.ClusterClassChangesSpecInput{
			E2EConfig: shared.config, ClusterctlConfigPath: shared.lab.Repository.Config, BootstrapClusterProxy: shared.proxy, ArtifactFolder: artifacts,
			Flavor:                   flavorTopology,
			PostNamespaceCreated:     withHosts(3), // 1 and 1, and 1 for the rollouts of the control plane
			ModifyControlPlaneFields: map[string]any{"spec.kubeadmConfigSpec.verbosity": int64(4)},
			ModifyMachineDeploymentBootstrapConfigTemplateFields: map[string]any{"spec.template.spec.verbosity": int64(4)},
			// A patch of the ClusterClass writes the spec of machines from the variables of the Cluster. So the change is in their metadata.
			ModifyMachineDeploymentInfrastructureMachineTemplateFields: map[string]any{
				"spec.template.metadata": map[string]any{"annotations": map[string]any{"example.com/changed": "yes"}},
			},
		}
	})
})

var _ = ginkgo.Describe("ClusterClassRolloutSpec", ginkgo.Label("clusterclass-rollout", nightly), func() {
	e2e.ClusterClassRolloutSpec(ctx, func() e2e.ClusterClassRolloutSpecInput {
		return e2e.ClusterClassRolloutSpecInput{
			E2EConfig: shared.config, ClusterctlConfigPath: shared.lab.Repository.Config, BootstrapClusterProxy: shared.proxy, ArtifactFolder: artifacts,
			Flavor:               flavorTopologyTaints,
			PostNamespaceCreated: withHosts(4), // the spec makes the MachineDeployment create new machines first
			FilterMetadataBeforeValidation: func(object client.Object) clusterv1.ObjectMeta {
				annotations := maps.Clone(object.GetAnnotations())
				delete(annotations, v1alpha1.ChosenHostAnnotation) // this provider's own, on a BareMetalMachine
				return clusterv1.ObjectMeta{Labels: object.GetLabels(), Annotations: annotations}
			},
		}
	})
})
