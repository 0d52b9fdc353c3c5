package remediation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// outOfService tells Kubernetes that nothing runs on a Node any more: its Pods are deleted and its volumes detached at once. It is true only of
// a server that is off.
var outOfService = corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute}

// clusterTimeout is how long the workload cluster may take to answer one step.
const clusterTimeout = 15 * time.Second

// errNoNode means that the machine has no Node.
var errNoNode = errors.New("the Machine has no Node")

// node returns the machine's Node as the workload cluster's API server has it, and a client for that cluster.
func (r *Reconciler) node(ctx context.Context, s *scope, name string) (*corev1.Node, client.Client, error) {
	if name == "" {
		return nil, nil, errNoNode
	}
	workload, err := r.Clusters.GetUncachedClient(ctx, client.ObjectKeyFromObject(s.cluster))
	if err != nil {
		return nil, nil, err
	}
	node := &corev1.Node{}
	err = workload.Get(ctx, client.ObjectKey{Name: name}, node)
	if apierrors.IsNotFound(err) || err == nil && s.infra != nil && node.Spec.ProviderID != s.infra.Spec.ProviderID {
		return nil, nil, errNoNode // or a Node of that name that is another machine's
	}
	return node, workload, err
}

// evictionTimeout is how long the Pods and volumes of a tainted Node may take to go before its server is switched on all the same.
const evictionTimeout = 2 * time.Minute

// connectTimeout is how long the workload cluster may not answer, or the Machine not name its Node, before a server that is off is switched on
// without the taint. It begins anew with the provider, which makes its connections anew then, and after a move, which loses the Machine's status.
const connectTimeout = time.Minute

// clusterUnanswered is what people are told of a workload cluster that does not answer. How it does not may read otherwise each time, as with the port of a
// connection, so that stands in the log: a status that never rests would be written, and reconciled, without end.
const clusterUnanswered = "the workload cluster does not answer; the manager's log says more"

// fence puts the out-of-service taint on the Node of a server that is confirmed to be off, and waits until that did its work. It returns
// false while that is waited for. A workload cluster that does not answer for long is no reason to leave the server off: its control plane may
// be what runs on it.
func (r *Reconciler) fence(ctx context.Context, s *scope) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	node, workload, err := r.node(ctx, s, s.machine.Status.NodeRef.Name)
	ours := err == nil && s.remediation.Spec.TaintedNode == node.Name
	switch {
	case err != nil:
	case hasTaint(node) && !ours: // somebody else's, who takes it away
	case !hasTaint(node):
		if off, err := r.confirmedOff(ctx, s); err != nil || !off {
			return false, err
		}
		if err := r.record(ctx, s, func(spec *v1alpha1.BareMetalRemediationSpec) { spec.TaintedNode = node.Name }); err != nil {
			return false, err
		}
		before := node.DeepCopy()
		node.Spec.Taints = append(node.Spec.Taints, outOfService)
		err = workload.Patch(ctx, node, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		if apierrors.IsConflict(err) {
			return false, err
		}
		if err == nil {
			r.event(s, corev1.EventTypeNormal, "NodeFenced", "Taint", "The server is off: Node %s has the out-of-service taint, so its Pods and volumes move", node.Name)
		}
	}
	var left string
	if err == nil {
		left, err = remainingOn(ctx, workload, node.Name)
	}
	switch {
	case errors.Is(err, errNoNode) && s.machine.Status.NodeRef.IsDefined(), err != nil && r.unansweredDuration(s) > connectTimeout:
		r.event(s, corev1.EventTypeWarning, "NodeNotFenced", "Taint", "The server is off, but its Node cannot be given the out-of-service taint, or looked at: %s. It goes on without", err)
		return true, nil
	case errors.Is(err, errNoNode):
		s.message += ". It is off, and the Machine does not name its Node yet"
	case err != nil:
		ctrl.LoggerFrom(ctx).Info("The Node of a server that is off cannot be tainted or looked at yet", "error", err.Error())
		s.message += ". It is off, and its Node cannot be tainted or looked at yet: " + clusterUnanswered
	case left == "", time.Since(s.host.Spec.PowerHoldOffAt.Time) > evictionTimeout:
		return true, nil
	default:
		s.message += fmt.Sprintf(". It is off, and %s still to go from its Node", left)
	}
	s.requeueAfter = 2 * time.Second
	return false, nil
}

// unansweredDuration is for how long the workload cluster had to answer since the server is off.
func (r *Reconciler) unansweredDuration(s *scope) time.Duration {
	from := s.host.Spec.PowerHoldOffAt.Time
	for _, t := range []time.Time{s.pausedAt(), r.Started} {
		if t.After(from) {
			from = t
		}
	}
	return time.Since(from)
}

// offConfirmationMaxAge is how long a server that was confirmed to be off counts as off without a new look. While the host or its Cluster is paused nobody looks,
// and a server whose power comes back may switch itself on.
const offConfirmationMaxAge = 30 * time.Second

// confirmedOff is true when the API server has the remediation's hold on the host, and the confirmation that the server is off, and that is fresh.
// One that is old is taken away: the host controller looks anew then, and confirms it again or switches the server off.
func (r *Reconciler) confirmedOff(ctx context.Context, s *scope) (bool, error) {
	host := &v1alpha1.BareMetalHost{}
	if err := r.APIReader.Get(ctx, client.ObjectKeyFromObject(s.host), host); err != nil {
		return false, err
	}
	if !s.hasPowerHold(host) || host.Spec.PowerHoldOffAt == nil {
		return false, conflictError("baremetalhosts", host)
	}
	at := host.Spec.PowerHoldOffAt.Time
	if time.Since(at) < offConfirmationMaxAge && !s.pausedAt().After(at) {
		return true, nil
	}
	s.message += ". It was off, and it is being confirmed that it still is"
	return false, r.changeHost(ctx, host, func(h *v1alpha1.BareMetalHost) { h.Spec.PowerHoldSince, h.Spec.PowerHoldOffAt = new(metav1.Now()), nil })
}

// conflictError is the error for an object that the API server has in a newer version than the one that something was decided for.
func conflictError(resource string, o client.Object) error {
	return apierrors.NewConflict(v1alpha1.GroupVersion.WithResource(resource).GroupResource(), o.GetName(), errors.New("it was changed meanwhile"))
}

// remainingOn says what is left on a Node that the taint is to remove.
func remainingOn(ctx context.Context, workload client.Client, name string) (string, error) {
	var pods corev1.PodList
	if err := workload.List(ctx, &pods, client.MatchingFields{"spec.nodeName": name}); err != nil {
		return "", err
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		tolerates := slices.ContainsFunc(p.Spec.Tolerations, func(t corev1.Toleration) bool { return t.ToleratesTaint(ctrl.Log, &outOfService, false) })
		if !tolerates && p.Annotations[corev1.MirrorPodAnnotationKey] == "" {
			return fmt.Sprintf("Pod %s/%s has", p.Namespace, p.Name), nil
		}
	}
	var volumes storagev1.VolumeAttachmentList
	if err := workload.List(ctx, &volumes); err != nil {
		return "", err
	}
	for i := range volumes.Items {
		if volumes.Items[i].Spec.NodeName == name {
			return fmt.Sprintf("VolumeAttachment %s has", volumes.Items[i].Name), nil
		}
	}
	return "", nil
}

func hasTaint(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&outOfService) })
}

// removeTaint takes the taint off the Node that the record names. It returns false while that cannot be done, and tells so: a Node that keeps
// the taint gets no Pods.
func (r *Reconciler) removeTaint(ctx context.Context, s *scope) (bool, error) {
	name := s.remediation.Spec.TaintedNode
	if name == "" {
		return true, nil
	}
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	node, workload, err := r.node(ctx, s, name)
	if err == nil && hasTaint(node) {
		before := node.DeepCopy()
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&outOfService) })
		err = workload.Patch(ctx, node, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	}
	switch {
	case apierrors.IsConflict(err):
		return false, err
	case err != nil && !errors.Is(err, errNoNode) && !apierrors.IsNotFound(err):
		s.setStatus(v1alpha1.RemediationWaiting, v1alpha1.ReasonTaintLeft, "The out-of-service taint cannot be taken off Node %s yet: %s", name, clusterUnanswered)
		ctrl.LoggerFrom(ctx).Info("The out-of-service taint cannot be taken off a Node yet", "node", name, "error", err.Error())
		s.requeueAfter = nodePollInterval
		return false, nil
	}
	return true, r.record(ctx, s, func(spec *v1alpha1.BareMetalRemediationSpec) { spec.TaintedNode = "" })
}

// nodeHealth is true when the Node is Ready by the word of a kubelet that spoke after the server was off: what it said before may stand there
// for a while. state says how the Node is, and what is awaited. err is why it cannot be looked at, which errNoNode is not.
func (r *Reconciler) nodeHealth(ctx context.Context, s *scope, offAt time.Time) (healthy bool, state string, err error) {
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	if err := r.watch(ctx, s); err != nil && !errors.Is(err, clustercache.ErrClusterNotConnected) {
		ctrl.LoggerFrom(ctx).Error(err, "Watch the Nodes of the cluster")
	}
	node, _, err := r.node(ctx, s, s.machine.Status.NodeRef.Name)
	switch {
	case errors.Is(err, errNoNode):
		return false, "Its Node is not there", nil
	case err != nil:
		ctrl.LoggerFrom(ctx).Info("The Node cannot be looked at", "error", err.Error())
		return false, "Its Node cannot be looked at: " + clusterUnanswered, err
	}
	for _, c := range node.Status.Conditions {
		if c.Type != corev1.NodeReady {
			continue
		}
		if c.Status == corev1.ConditionTrue && !c.LastHeartbeatTime.After(offAt) {
			return false, fmt.Sprintf("The kubelet of Node %s has not spoken since the server was off", node.Name), nil
		}
		return c.Status == corev1.ConditionTrue, fmt.Sprintf("Node %s is not Ready yet (%s: %s)", node.Name, c.Status, c.Reason), nil
	}
	return false, fmt.Sprintf("Node %s does not say whether it is Ready", node.Name), nil
}

// watch makes the Nodes of a cluster bring their remediations here when their readiness changes. It does so once for each connection.
func (r *Reconciler) watch(ctx context.Context, s *scope) error {
	return r.Clusters.Watch(ctx, client.ObjectKeyFromObject(s.cluster), clustercache.NewWatcher(clustercache.WatcherOptions{
		Name: "remediation", Watcher: r.controller, Kind: &corev1.Node{}, EventHandler: handler.EnqueueRequestsFromMapFunc(r.remediationsOfNode(s.cluster.Namespace)),
		Predicates: []predicate.Predicate{predicate.Funcs{UpdateFunc: readinessChanged}},
	}))
}

func readinessChanged(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*corev1.Node)
	after, alsoOK := e.ObjectNew.(*corev1.Node)
	return !ok || !alsoOK || readiness(before) != readiness(after)
}

func readiness(node *corev1.Node) corev1.ConditionStatus {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status
		}
	}
	return ""
}
