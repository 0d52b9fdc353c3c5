package node

import (
	"cmp"
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/metrics"
)

// adopt looks for the host's Node, and when it is there notes that the host booted, gives the Node its provider ID, and tells people, in
// this order: each is done again if the next one fails, and what is done last says that all is done.
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
			return nil // the end of the pause brings it back
		}
		if err := r.setProviderID(ctx, s, node); err != nil {
			return err
		}
	}
	seen := controllers.NewStage(s.boot, v1alpha1.StageNode)
	seen.Client = controllers.Clip("kubelet "+kubeletVersion(node), controllers.MaxText)
	setAddresses(&seen, node)
	if err := controllers.ApplyNode(ctx, r.Client, s.boot, observedNode(s.boot, node), seen); err != nil {
		return err
	}
	if controllers.ObservedStage(s.boot, v1alpha1.StageNode) == nil {
		metrics.BootStage(seen.Stage, seen.Time.Sub(s.boot.Spec.StartedAt.Time))
		controllers.RecordEvent(r.Recorder, s.host, nil, corev1.EventTypeNormal, controllers.EventBootStage+string(seen.Stage), "Boot",
			"Boot attempt %d: the Node appeared (%s)", s.boot.Spec.Attempt, seen.Client)
	}
	return nil
}

// observedNode is what the status of a boot shows of the machine's Node.
func observedNode(boot *v1alpha1.BareMetalBoot, node *corev1.Node) *v1alpha1.ObservedNode {
	return &v1alpha1.ObservedNode{Name: node.Name, Number: boot.Spec.Number, KubeletVersion: kubeletVersion(node)}
}

// refresh writes the addresses and the kubelet version of a Node that was observed before to the status of the boot, where they changed. A Node that is
// gone, or has no addresses for now, leaves them as they were.
func (r *Reconciler) refresh(ctx context.Context, s *scope) error {
	if s.paused {
		return nil // the end of the pause brings it back
	}
	cached, err := r.Clusters.GetReader(ctx, s.cluster)
	if err != nil {
		return err
	}
	node, err := r.findNode(ctx, cached, s.host, s.boot)
	if err != nil || node == nil {
		return err
	}
	before := controllers.ObservedStage(s.boot, v1alpha1.StageNode)
	seen := *before.DeepCopy()
	setAddresses(&seen, node)
	if len(seen.Addresses) == 0 {
		seen = *before
	}
	now := observedNode(s.boot, node)
	if equality.Semantic.DeepEqual(seen, *before) && equality.Semantic.DeepEqual(now, controllers.NodeOf(s.boot)) {
		return nil
	}
	return controllers.ApplyNode(ctx, r.Client, s.boot, now, seen)
}

// maxAddresses is how many addresses of a Node are noted: one with more has those of its containers among them.
const maxAddresses = 32

// setAddresses notes the addresses that a Node says it has, those that Cluster API knows the type of. Whoever has the cluster can make them
// say anything: nothing trusts them.
func setAddresses(seen *v1alpha1.ObservedStage, node *corev1.Node) {
	seen.Address, seen.Addresses = "", nil
	for _, a := range node.Status.Addresses {
		kind := clusterv1.MachineAddressType(a.Type)
		if !slices.Contains(addressTypes, kind) || a.Address == "" || len(a.Address) > controllers.MaxText || len(seen.Addresses) == maxAddresses {
			continue
		}
		seen.Addresses = append(seen.Addresses, clusterv1.MachineAddress{Type: kind, Address: a.Address})
		if kind == clusterv1.MachineInternalIP {
			seen.Address = cmp.Or(seen.Address, a.Address)
		}
	}
}

var addressTypes = []clusterv1.MachineAddressType{
	clusterv1.MachineHostName, clusterv1.MachineInternalIP, clusterv1.MachineExternalIP, clusterv1.MachineInternalDNS, clusterv1.MachineExternalDNS,
}

// liveNode returns the host's Node as the workload cluster's API server has it, nil if there is none. The cache tells where to look.
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
		return nil, err // it is another by now, and that brings the machine back
	}
	return node, nil
}

// recordReported records that the host booted, unless it reported in itself. It returns false when the boot is not what the cache showed: the host was released,
// or the boot ended.
func (r *Reconciler) recordReported(ctx context.Context, s *scope) (bool, error) {
	live, err := controllers.GetBoot(ctx, r.APIReader, client.ObjectKeyFromObject(s.boot))
	if err != nil || live == nil {
		return false, err
	}
	if live.Spec.Number != s.boot.Spec.Number || live.Spec.Failure != nil || !served(s.host, live) {
		return false, nil
	}
	if live.Spec.ReportedAt != nil {
		return true, nil
	}
	before := live.DeepCopy()
	live.Spec.ReportedAt = new(metav1.Now())
	if err := r.Client.Patch(ctx, live, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return false, err
	}
	ctrl.LoggerFrom(ctx).Info("The host booted: its Node appeared", "BareMetalHost", client.ObjectKeyFromObject(s.host))
	return true, nil
}

// setProviderID gives a Node its provider ID, which holds for good: so the Node must still be what it was matched as.
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
	ctrl.LoggerFrom(ctx).Info("Gave the Node its provider ID", "Cluster", s.cluster, "Node", node.Name, "providerID", node.Spec.ProviderID)
	return nil
}
