package machine

import (
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// ownerLabels are the labels that Cluster API finds a Machine's objects by, and that tell whose machine it is.
var ownerLabels = []string{
	clusterv1.MachineControlPlaneLabel, clusterv1.MachineControlPlaneNameLabel, clusterv1.MachineDeploymentNameLabel, clusterv1.MachineSetNameLabel,
}

// healLabels gives a machine the labels of its Machine back that somebody removed or changed. Without the name of its cluster neither
// `clusterctl describe` nor the watches for paused clusters find it. The owner reference is Cluster API's to set: without
// it the machine is left alone until it is back.
func healLabels(m *v1alpha1.BareMetalMachine, owner *clusterv1.Machine) {
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
