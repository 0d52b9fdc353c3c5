package claim

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// ownerLabels are the labels by which Cluster API names the owner of a Machine and its BareMetalMachine, in order of precedence, each with the owner's
// kind. A machine of a MachineDeployment has both of the last two, and its MachineSet changes with every rollout.
var ownerLabels = []struct{ label, kind string }{
	{clusterv1.MachineControlPlaneNameLabel, "KubeadmControlPlane"},
	{clusterv1.MachineDeploymentNameLabel, "MachineDeployment"},
	{clusterv1.MachineSetNameLabel, "MachineSet"},
}

// Owner returns the owner of a machine as kind/name, from the first object with one of Cluster API's labels. The objects are usually the Machine and the
// BareMetalMachine. It is empty for a standalone machine. Names are unique per kind and namespace, so owners of different clusters differ.
func Owner(objects ...metav1.Object) string {
	for _, o := range objects {
		for _, by := range ownerLabels {
			name := o.GetLabels()[by.label]
			if name == "" {
				continue
			}
			kind := by.kind
			if by.label == clusterv1.MachineControlPlaneNameLabel {
				// Control plane providers other than kubeadm's use the same label.
				if ref := metav1.GetControllerOf(o); ref != nil && ref.Name == name {
					kind = ref.Kind
				}
			}
			return kind + "/" + name
		}
	}
	return ""
}
