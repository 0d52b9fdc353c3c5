package node

import (
	"cmp"
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/metrics"
)

// adopt finds the Node of the host. Then it records that the host booted, sets the provider ID of the Node, and writes the stage Node to the boot, in
// this order. If a step fails all steps are repeated; the last one shows that all are done.
func (r *Reconciler) adopt(ctx context.Context, s *scope) error {
	node, err := r.liveNode(ctx, s)
	if err != nil {
		return err
	}
	if node == nil {
		return r.reportMismatch(ctx, s)
	}
	current, err := r.recordReported(ctx, s)
	if err != nil || !current {
		return err
	}
	if node.Spec.ProviderID == "" {
		if s.paused {
			return nil // the end of the pause enqueues the machine
		}
		if err := r.setProviderID(ctx, s, node); err != nil {
			return err
		}
	}
	stage := controllers.NewStage(s.boot, v1alpha1.StageNode)
	stage.Client = controllers.Clip("kubelet "+kubeletVersion(node), controllers.MaxText)
	setAddresses(&stage, node)
	if err := controllers.ApplyNode(ctx, r.Client, s.boot, observedNode(s.boot, node), stage); err != nil {
		return err
	}
	if controllers.ObservedStage(s.boot, v1alpha1.StageNode) == nil {
		metrics.BootStage(stage.Stage, stage.Time.Sub(s.boot.Spec.StartTime.Time))
	}
	return nil
}

// observedNode returns what the status of a boot shows of the machine's Node.
func observedNode(boot *v1alpha1.BareMetalBoot, node *corev1.Node) *v1alpha1.ObservedNode {
	return &v1alpha1.ObservedNode{Name: node.Name, Number: boot.Spec.Number, KubeletVersion: kubeletVersion(node)}
}

// maxAddresses is how many addresses of a Node are recorded. A Node with more probably lists addresses of its containers.
const maxAddresses = 32

// setAddresses sets the addresses that a Node reports, of the types that Cluster API knows. Anyone with access to the workload cluster can forge
// them, so nothing trusts them.
func setAddresses(stage *v1alpha1.ObservedStage, node *corev1.Node) {
	stage.Address, stage.Addresses = "", nil
	for _, a := range node.Status.Addresses {
		kind := clusterv1.MachineAddressType(a.Type)
		if !slices.Contains(addressTypes, kind) || a.Address == "" || len(a.Address) > controllers.MaxText || len(stage.Addresses) == maxAddresses {
			continue
		}
		stage.Addresses = append(stage.Addresses, clusterv1.MachineAddress{Type: kind, Address: a.Address})
		if kind == clusterv1.MachineInternalIP {
			stage.Address = cmp.Or(stage.Address, a.Address)
		}
	}
}

var addressTypes = []clusterv1.MachineAddressType{
	clusterv1.MachineHostName, clusterv1.MachineInternalIP, clusterv1.MachineExternalIP, clusterv1.MachineInternalDNS, clusterv1.MachineExternalDNS,
}

// liveNode returns the host's Node, read from the workload cluster's API server, nil if there is none. The cache finds its name.
func (r *Reconciler) liveNode(ctx context.Context, s *scope) (*corev1.Node, error) {
	cached, err := r.Clusters.GetReader(ctx, s.cluster)
	if err != nil {
		return nil, err
	}
	found, err := r.findNode(ctx, cached, s.host, s.boot)
	if err != nil || found == nil {
		return nil, err
	}
	direct, err := r.Clusters.GetUncachedClient(ctx, s.cluster)
	if err != nil {
		return nil, err
	}
	node := &corev1.Node{}
	if err := direct.Get(ctx, client.ObjectKeyFromObject(found), node); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if same, err := r.matches(ctx, node, s.host, s.boot); err != nil || !same {
		return nil, err // the Node changed meanwhile, and its event enqueues the machine
	}
	return node, nil
}

// recordReported records that the host booted, unless it reported in itself. It returns false if the boot is not the one that the cache showed: the
// host was released, or the boot ended.
func (r *Reconciler) recordReported(ctx context.Context, s *scope) (bool, error) {
	live, err := controllers.GetBoot(ctx, r.APIReader, client.ObjectKeyFromObject(s.boot))
	if err != nil || live == nil {
		return false, err
	}
	if live.Spec.Number != s.boot.Spec.Number || live.Spec.Failure != nil || !served(s.host, live) {
		return false, nil
	}
	if live.Spec.ReportedTime != nil {
		return true, nil
	}
	before := live.DeepCopy()
	live.Spec.ReportedTime = new(metav1.Now())
	if err := r.Client.Patch(ctx, live, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return false, err
	}
	ctrl.LoggerFrom(ctx).Info("The host booted: its Node appeared", "BareMetalHost", client.ObjectKeyFromObject(s.host))
	return true, nil
}

// setProviderID sets the provider ID of a Node, which is permanent. The optimistic lock ensures that the Node is the version that was matched.
func (r *Reconciler) setProviderID(ctx context.Context, s *scope, node *corev1.Node) error {
	workload, err := r.Clusters.GetUncachedClient(ctx, s.cluster)
	if err != nil {
		return err
	}
	before := node.DeepCopy()
	node.Spec.ProviderID = providerID(s.host)
	if err := workload.Patch(ctx, node, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return err
	}
	ctrl.LoggerFrom(ctx).Info("Set the provider ID of the Node", "Cluster", s.cluster, "Node", node.Name, "providerID", node.Spec.ProviderID)
	return nil
}
