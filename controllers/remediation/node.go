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

// outOfService is the taint for a Node on which nothing runs any more: Kubernetes deletes its Pods and detaches its volumes at once. It may be set
// only for a server that is off.
var outOfService = corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute}

// clusterTimeout limits one step in the workload cluster.
const clusterTimeout = 15 * time.Second

// errNoNode is the error for a machine without a Node.
var errNoNode = errors.New("the Machine has no Node")

// node returns the machine's Node, read from the workload cluster's API server, and a client for that cluster.
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
		return nil, nil, errNoNode // a Node of that name may also belong to another machine
	}
	return node, workload, err
}

// evictionTimeout is how long the server stays off while Pods and volumes of its tainted Node are removed.
const evictionTimeout = 2 * time.Minute

// connectTimeout is how long the workload cluster may not answer, or the Machine may not name its Node, before a server that is off is powered on
// without the taint. It starts again when the provider starts, which has to reconnect then, and after a move, which loses the status of the Machine.
const connectTimeout = time.Minute

// clusterUnanswered is the message for a workload cluster that does not answer. The error itself is logged: its text may differ each time, for
// example in the port of a connection. A status that changes each time would be written and reconciled without end.
const clusterUnanswered = "the workload cluster does not answer; the manager's log says more"

// fence adds the out-of-service taint to the Node of a server that is confirmed to be off, and returns false while Pods or volumes are left. It stops
// waiting for a workload cluster that does not answer, and sets notFenced: the control plane of that cluster may run on this server.
func (r *Reconciler) fence(ctx context.Context, s *scope) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	node, workload, err := r.node(ctx, s, s.machine.Status.NodeRef.Name)
	tainted := err == nil && s.remediation.Spec.TaintedNode == node.Name
	switch {
	case err != nil:
	case hasTaint(node) && !tainted: // another controller or a user added the taint, and removes it
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
			r.event(s, corev1.EventTypeNormal, "NodeFenced", "Taint", "The server is off: added the out-of-service taint to Node %s, so that its Pods and volumes move", node.Name)
		}
	}
	var left string
	if err == nil {
		left, err = remainingOn(ctx, workload, node.Name)
	}
	switch {
	case errors.Is(err, errNoNode) && s.machine.Status.NodeRef.IsDefined(), err != nil && r.unansweredDuration(s) > connectTimeout:
		s.notFenced = err
		return true, nil
	case errors.Is(err, errNoNode):
		s.message += ". It is off, but the Machine does not name its Node yet"
	case err != nil:
		ctrl.LoggerFrom(ctx).Info("Failed to taint or read the Node of a server that is off", "error", err.Error())
		s.message += ". It is off, but its Node cannot be tainted or read yet: " + clusterUnanswered
	case left == "", time.Since(s.host.Spec.ProviderState.PowerHoldOffTime.Time) > evictionTimeout:
		return true, nil
	default:
		s.message += fmt.Sprintf(". It is off. Waiting until %s removed from its Node", left)
	}
	s.requeueAfter = 2 * time.Second
	return false, nil
}

// unansweredDuration returns for how long the workload cluster has not answered since the server is off.
func (r *Reconciler) unansweredDuration(s *scope) time.Duration {
	from := s.host.Spec.ProviderState.PowerHoldOffTime.Time
	for _, t := range []time.Time{s.pausedAt(), r.Started} {
		if t.After(from) {
			from = t
		}
	}
	return time.Since(from)
}

// offConfirmationMaxAge is how long a server counts as off after its power-off was confirmed. While the host or its Cluster is paused its power is
// not read, and a server whose power supply returns may power itself on.
const offConfirmationMaxAge = 30 * time.Second

// confirmedOff is true if the API server shows the remediation's power hold on the host and a recent confirmation that the server is off. It deletes
// an old confirmation: the host controller then reads the power again, and confirms it or powers the server off.
func (r *Reconciler) confirmedOff(ctx context.Context, s *scope) (bool, error) {
	host := &v1alpha1.BareMetalHost{}
	if err := r.APIReader.Get(ctx, client.ObjectKeyFromObject(s.host), host); err != nil {
		return false, err
	}
	if !s.hasPowerHold(host) || host.Spec.ProviderState.PowerHoldOffTime == nil {
		return false, conflictError("baremetalhosts", host)
	}
	at := host.Spec.ProviderState.PowerHoldOffTime.Time
	if time.Since(at) < offConfirmationMaxAge && !s.pausedAt().After(at) {
		return true, nil
	}
	s.message += ". It was off. Waiting for a new confirmation that it still is"
	return false, r.changeHost(ctx, host, func(h *v1alpha1.BareMetalHost) {
		h.Spec.ProviderState.PowerHoldStartTime, h.Spec.ProviderState.PowerHoldOffTime = new(metav1.Now()), nil
	})
}

// conflictError is the error for an object of which the API server has a newer version than the decision was based on.
func conflictError(resource string, o client.Object) error {
	return apierrors.NewConflict(v1alpha1.GroupVersion.WithResource(resource).GroupResource(), o.GetName(), errors.New("the object was changed meanwhile"))
}

// remainingOn describes a Pod or VolumeAttachment on a Node that the taint is to remove, empty if there is none.
func remainingOn(ctx context.Context, workload client.Client, name string) (string, error) {
	var pods corev1.PodList
	if err := workload.List(ctx, &pods, client.MatchingFields{"spec.nodeName": name}); err != nil {
		return "", err
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		tolerates := slices.ContainsFunc(p.Spec.Tolerations, func(t corev1.Toleration) bool { return t.ToleratesTaint(ctrl.Log, &outOfService, false) })
		if !tolerates && p.Annotations[corev1.MirrorPodAnnotationKey] == "" {
			return fmt.Sprintf("Pod %s/%s is", p.Namespace, p.Name), nil
		}
	}
	var volumes storagev1.VolumeAttachmentList
	if err := workload.List(ctx, &volumes); err != nil {
		return "", err
	}
	for i := range volumes.Items {
		if volumes.Items[i].Spec.NodeName == name {
			return fmt.Sprintf("VolumeAttachment %s is", volumes.Items[i].Name), nil
		}
	}
	return "", nil
}

func hasTaint(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&outOfService) })
}

// removeTaint removes the taint from the recorded Node. It returns false while that is not possible, and sets the status: a Node with the taint gets
// no Pods.
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
		s.setStatus(v1alpha1.RemediationWaiting, v1alpha1.ReasonTaintLeft, "The out-of-service taint cannot be removed from Node %s yet: %s", name, clusterUnanswered)
		ctrl.LoggerFrom(ctx).Info("Failed to remove the out-of-service taint from a Node", "node", name, "error", err.Error())
		s.requeueAfter = nodePollInterval
		return false, nil
	}
	return true, r.record(ctx, s, func(spec *v1alpha1.BareMetalRemediationSpec) { spec.TaintedNode = "" })
}

// nodeHealth is true if the Node is Ready by a heartbeat of its kubelet after offTime. An older report may remain in the status for a while. state
// describes the Node and what is awaited. err is why the Node cannot be read; a missing Node is no error.
func (r *Reconciler) nodeHealth(ctx context.Context, s *scope, offTime time.Time) (healthy bool, state string, err error) {
	node, err := r.watchedNode(ctx, s)
	switch {
	case errors.Is(err, errNoNode):
		return false, "Its Node does not exist", nil
	case err != nil:
		ctrl.LoggerFrom(ctx).Info("Failed to read the Node", "error", err.Error())
		return false, "Its Node cannot be read: " + clusterUnanswered, err
	}
	for _, c := range node.Status.Conditions {
		if c.Type != corev1.NodeReady {
			continue
		}
		if c.Status == corev1.ConditionTrue && !c.LastHeartbeatTime.After(offTime) {
			return false, fmt.Sprintf("The kubelet of Node %s has not sent a heartbeat since the server was off", node.Name), nil
		}
		return c.Status == corev1.ConditionTrue, fmt.Sprintf("Node %s is not Ready yet (%s: %s)", node.Name, c.Status, c.Reason), nil
	}
	return false, fmt.Sprintf("Node %s has no condition Ready", node.Name), nil
}

// watchedNode returns the machine's Node. A change of its readiness enqueues the remediation.
func (r *Reconciler) watchedNode(ctx context.Context, s *scope) (*corev1.Node, error) {
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	if err := r.watch(ctx, s); err != nil && !errors.Is(err, clustercache.ErrClusterNotConnected) {
		ctrl.LoggerFrom(ctx).Error(err, "Failed to watch the Nodes of the cluster")
	}
	node, _, err := r.node(ctx, s, s.machine.Status.NodeRef.Name)
	return node, err
}

// watch enqueues the remediations of a cluster when the readiness of its Nodes changes. It adds one watch per connection.
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
