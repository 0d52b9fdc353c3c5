package machine

import (
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// ownerLabels are the labels by which Cluster API finds the objects of a Machine and its owner.
var ownerLabels = []string{
	clusterv1.MachineControlPlaneLabel, clusterv1.MachineControlPlaneNameLabel, clusterv1.MachineDeploymentNameLabel, clusterv1.MachineSetNameLabel,
}

// restoreLabels restores the labels of a machine that Cluster API copied from its Machine. Without the label of its cluster neither `clusterctl
// describe` nor the watches for paused clusters find the machine. Only Cluster API sets the owner reference: without it the machine is not
// reconciled.
func restoreLabels(m *v1alpha1.BareMetalMachine, owner *clusterv1.Machine) {
	if m.Labels == nil {
		m.Labels = map[string]string{}
	}
	m.Labels[clusterv1.ClusterNameLabel] = owner.Spec.ClusterName
	for _, label := range ownerLabels {
		if value, ok := owner.Labels[label]; ok {
			m.Labels[label] = value
		}
	}
}
