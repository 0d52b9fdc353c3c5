package site

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/kubeconfig"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/plane"
)

// A check is nil if what it is named after is true. Otherwise it returns what is missing. Until waits for a check.

// HostsIn is nil if this number of hosts is in a phase. Available hosts must also be powered off.
func HostsIn(p *plane.Plane, phase v1alpha1.HostPhase, want int) func(context.Context) error {
	return func(ctx context.Context) error {
		var hosts v1alpha1.BareMetalHostList
		if err := p.Client.List(ctx, &hosts, client.InNamespace(Namespace)); err != nil {
			return err
		}
		n := 0
		for _, h := range hosts.Items {
			if h.Status.Phase == phase && (phase != v1alpha1.PhaseAvailable || h.Status.Power == v1alpha1.PowerOff) {
				n++
			}
		}
		if n != want {
			return fmt.Errorf("%d of %d hosts are %s", n, want, phase)
		}
		return nil
	}
}

// Available is nil if the Cluster is Available.
func Available(p *plane.Plane) func(context.Context) error {
	return func(ctx context.Context) error {
		var cluster clusterv1.Cluster
		if err := p.Client.Get(ctx, types.NamespacedName{Namespace: Namespace, Name: ClusterName}, &cluster); err != nil {
			return err
		}
		if !conditions.IsTrue(&cluster, clusterv1.ClusterAvailableCondition) {
			return fmt.Errorf("the Cluster is not available: %s", conditions.GetMessage(&cluster, clusterv1.ClusterAvailableCondition))
		}
		return nil
	}
}

// Running is nil if there is this number of Machines, all are Running, and each has a Node with the provider ID of its host.
func Running(p *plane.Plane, want int) func(context.Context) error {
	return func(ctx context.Context) error {
		var machines clusterv1.MachineList
		if err := p.Client.List(ctx, &machines, client.InNamespace(Namespace)); err != nil {
			return err
		}
		for _, m := range machines.Items {
			if m.Status.Phase != string(clusterv1.MachinePhaseRunning) {
				return fmt.Errorf("machine %s is %s", m.Name, m.Status.Phase)
			}
		}
		if len(machines.Items) != want {
			return fmt.Errorf("there are %d Machines and not %d", len(machines.Items), want)
		}
		nodes, err := nodeProviderIDs(ctx, p)
		if err != nil {
			return err
		}
		for _, m := range machines.Items {
			var infra v1alpha1.BareMetalMachine
			if err := p.Client.Get(ctx, types.NamespacedName{Namespace: Namespace, Name: m.Spec.InfrastructureRef.Name}, &infra); err != nil {
				return err
			}
			if id := nodes[m.Status.NodeRef.Name]; id == "" || id != infra.Spec.ProviderID {
				return fmt.Errorf("node %s has the provider ID %q and not %q", m.Status.NodeRef.Name, id, infra.Spec.ProviderID)
			}
		}
		return nil
	}
}

// Ready is nil if the Cluster counts this number of Machines that are ready, and as many that are available.
func Ready(p *plane.Plane, want int) func(context.Context) error {
	return func(ctx context.Context) error {
		var cluster clusterv1.Cluster
		if err := p.Client.Get(ctx, types.NamespacedName{Namespace: Namespace, Name: ClusterName}, &cluster); err != nil {
			return err
		}
		controlPlane, workers := ptr.Deref(cluster.Status.ControlPlane, clusterv1.ClusterControlPlaneStatus{}), ptr.Deref(cluster.Status.Workers, clusterv1.WorkersStatus{})
		ready := int(ptr.Deref(controlPlane.ReadyReplicas, 0) + ptr.Deref(workers.ReadyReplicas, 0))
		available := int(ptr.Deref(controlPlane.AvailableReplicas, 0) + ptr.Deref(workers.AvailableReplicas, 0))
		if ready != want || available != want {
			return fmt.Errorf("the Cluster counts %d ready and %d available Machines, and not %d", ready, available, want)
		}
		return nil
	}
}

// Workload returns a client of the workload cluster.
func Workload(ctx context.Context, p *plane.Plane) (client.Client, error) {
	content, err := kubeconfig.FromSecret(ctx, p.Client, client.ObjectKey{Namespace: Namespace, Name: ClusterName})
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(content)
	if err != nil {
		return nil, err
	}
	return client.New(config, client.Options{})
}

// nodeProviderIDs returns the provider IDs of the Nodes of the workload cluster, by their names.
func nodeProviderIDs(ctx context.Context, p *plane.Plane) (map[string]string, error) {
	workload, err := Workload(ctx, p)
	if err != nil {
		return nil, err
	}
	var nodes corev1.NodeList
	if err := workload.List(ctx, &nodes); err != nil {
		return nil, err
	}
	ids := map[string]string{}
	for _, n := range nodes.Items {
		ids[n.Name] = n.Spec.ProviderID
	}
	return ids, nil
}
