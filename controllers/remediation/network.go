package remediation

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

const (
	// notReadyReason is the reason of a condition Ready that a kubelet reports as False (kubelet v1.36, pkg/kubelet/nodestatus/setters.go).
	notReadyReason = "KubeletNotReady"
	// noNetworkPlugin is the start of the message if the network plugin is all that is missing. The reason in it is that of containerd and CRI-O. With
	// other errors the kubelet makes a list of them in brackets.
	noNetworkPlugin = "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady "
	// registrationGrace is how long after the registration of a Node only its kubelet writes the condition Ready. Kubernetes sets Unknown for a kubelet that
	// was not heard of for this time (node-monitor-grace-period of kube-controller-manager v1.36).
	registrationGrace = 50 * time.Second
)

// lacksNetworkPlugin is true if the Node of a new machine was never Ready because its cluster has no network plugin yet, and sets the status that says so. A
// power cycle or a replacement would not help, and the same holds for every machine of the cluster. So if the Node of another machine is Ready, the fault is
// this server's. In doubt it is false, and the machine is remediated.
func (r *Reconciler) lacksNetworkPlugin(ctx context.Context, s *scope) bool {
	if s.host == nil || s.state != lifecycle.StateProvisioned || annotations.HasRemediateMachine(s.machine) {
		return false
	}
	if c := conditions.Get(s.machine, clusterv1.MachineHealthCheckSucceededCondition); c != nil && c.Reason != clusterv1.MachineHealthCheckUnhealthyNodeReason {
		return false // something other than a condition of the Node is wrong, or nothing
	}
	node, err := r.watchedNode(ctx, s)
	if err != nil || !neverHadNetwork(node) {
		return false
	}
	if ready, err := r.otherNodeReady(ctx, s); err != nil || ready {
		return false
	}
	s.setStatus(v1alpha1.RemediationIdle, v1alpha1.ReasonNetworkPluginMissing, "Node %s was never Ready, because its cluster has no network plugin yet: nothing is done. "+
		"Install a CNI plugin in the workload cluster. A power cycle does not help", node.Name)
	s.requeueAfter = nodePollInterval
	return true
}

// otherNodeReady is true if the Node of another Machine of the Cluster is Ready, as Cluster API reports it.
func (r *Reconciler) otherNodeReady(ctx context.Context, s *scope) (bool, error) {
	var machines clusterv1.MachineList
	err := r.Client.List(ctx, &machines, client.InNamespace(s.cluster.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: s.cluster.Name})
	return slices.ContainsFunc(machines.Items, func(m clusterv1.Machine) bool {
		return m.Name != s.machine.Name && conditions.IsTrue(&m, clusterv1.MachineNodeReadyCondition)
	}), err
}

// neverHadNetwork is true if the kubelet of a Node reports that it is not Ready only for want of a network plugin, since it registered the Node. The status of
// the condition has not changed since the registration then. After an interruption, such as a restart of the server, this is not known any more.
func neverHadNetwork(node *corev1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionFalse && c.Reason == notReadyReason && strings.HasPrefix(c.Message, noNetworkPlugin) &&
				c.LastTransitionTime.Sub(node.CreationTimestamp.Time).Abs() <= registrationGrace // a clock that differs by more proves nothing
		}
	}
	return false
}
