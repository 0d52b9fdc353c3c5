package claim

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// ownerLabels are the labels, in their order, by which Cluster API says on a Machine and its BareMetalMachine who made it, each with the kind
// that it names. A MachineDeployment's machine has both of the last two, and changes its MachineSet with every rollout.
var ownerLabels = []struct{ label, kind string }{
	{clusterv1.MachineControlPlaneNameLabel, "KubeadmControlPlane"},
	{clusterv1.MachineDeploymentNameLabel, "MachineDeployment"},
	{clusterv1.MachineSetNameLabel, "MachineSet"},
}

// Owner returns who a machine belongs to, as kind/name, by the labels of the first object that has one of Cluster API's: its Machine or its
// BareMetalMachine, as a rule. It is empty for a machine that stands alone. Objects of one kind have a name but once in a namespace, so
// this tells the owners of different clusters apart.
func Owner(objects ...metav1.Object) string {
	for _, o := range objects {
		for _, by := range ownerLabels {
			name := o.GetLabels()[by.label]
			if name == "" {
				continue
			}
			kind := by.kind
			if by.label == clusterv1.MachineControlPlaneNameLabel {
				// A control plane provider other than kubeadm's uses the same label.
				if ref := metav1.GetControllerOf(o); ref != nil && ref.Name == name {
					kind = ref.Kind
				}
			}
			return kind + "/" + name
		}
	}
	return ""
}
