package node

import (
	"cmp"
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
)

// refresh updates what the status of the boot shows of an observed Node: its addresses, the version of its kubelet, and what it says about a server that may be off. If the
// Node is gone or has no addresses now, they stay as they were. The Node gets the labels of its host. It returns when to read the Node again.
func (r *Reconciler) refresh(ctx context.Context, s *scope) (time.Duration, error) {
	if s.paused {
		return 0, nil // the end of the pause enqueues the machine
	}
	node, err := r.currentNode(ctx, s)
	switch {
	case err != nil && offReported(s.host) && !errors.Is(err, clustercache.ErrClusterNotConnected):
		ctrl.LoggerFrom(ctx).Info("Failed to read the Node of a server that is off", "BareMetalHost", client.ObjectKeyFromObject(s.host), "error", err.Error())
		return rereadOffAfter, r.recordUnreadable(ctx, s)
	case err != nil:
		return 0, err
	case node == nil:
		return 0, r.recordUnreadable(ctx, s) // its creation enqueues the machine
	}
	before := controllers.ObservedStage(s.boot, v1alpha1.StageNode)
	stage := *before.DeepCopy()
	setAddresses(&stage, node)
	if len(stage.Addresses) == 0 {
		stage = *before
	}
	now := observedNode(s.boot, node)
	wait := setReadiness(now, controllers.NodeOf(s.boot), node, offReported(s.host), time.Now(), r.changeInterval())
	if !equality.Semantic.DeepEqual(stage, *before) || !equality.Semantic.DeepEqual(now, controllers.NodeOf(s.boot)) {
		if err := controllers.ApplyNode(ctx, r.Client, s.boot, now, stage); err != nil {
			return wait, err
		}
	}
	labels, err := r.syncLabels(ctx, s, node)
	return earlier(wait, labels), err
}

// currentNode returns the Node of the host, nil if there is none. It asks the API server of the workload cluster if the server is off: the cache may be behind.
func (r *Reconciler) currentNode(ctx context.Context, s *scope) (*corev1.Node, error) {
	if offReported(s.host) {
		return r.liveNode(ctx, s)
	}
	cached, err := r.Clusters.GetReader(ctx, s.cluster)
	if err != nil {
		return nil, err
	}
	return r.findNode(ctx, cached, s.host, s.boot)
}

// changeInterval returns ChangeInterval, or its default.
func (r *Reconciler) changeInterval() time.Duration { return cmp.Or(r.ChangeInterval, time.Minute) }

// rereadOffAfter is how soon the Node of a server that is off is read again without an event if it is Ready, or if it cannot be read: the API server may be lost with the
// server.
const rereadOffAfter = 30 * time.Second

// offReported is true if the status of a host shows that its BMC reports the server as off.
func offReported(host *v1alpha1.BareMetalHost) bool { return host.Status.Power == v1alpha1.PowerOff }

// setReadiness sets the readiness of an observed Node. Only a server that may be off needs it, because every change is a write. It stays empty for a Node that was
// Ready all the time. setReadiness returns when to read the Node again.
func setReadiness(now, before *v1alpha1.ObservedNode, node *corev1.Node, off bool, at time.Time, interval time.Duration) time.Duration {
	if before != nil {
		now.Readiness, now.ReadinessTime = before.Readiness, before.ReadinessTime
	}
	set := func(to v1alpha1.NodeReadiness) {
		if now.Readiness != to {
			now.Readiness, now.ReadinessTime = to, new(metav1.NewTime(at).Rfc3339Copy())
		}
	}
	ready, known := readiness(node), off || now.Readiness != "" // otherwise the Node was Ready all the time
	isReady := ready != nil && ready.Status == corev1.ConditionTrue
	if wait := changeDelay(now, off, at, interval); wait > 0 {
		return wait
	}
	switch {
	case isReady && known:
		set(v1alpha1.NodeReady)
	case isReady, ready == nil && !known:
	case off, ready == nil, now.Readiness == v1alpha1.NodeUnreadable:
		set(v1alpha1.NodeNotReady)
	case at.Sub(ready.LastTransitionTime.Time) < nodeNotReadyFor && now.Readiness != v1alpha1.NodeNotReady:
		return min(nodeNotReadyFor, ready.LastTransitionTime.Add(nodeNotReadyFor).Sub(at))
	default:
		set(v1alpha1.NodeNotReady)
	}
	if isReady && off {
		return rereadOffAfter
	}
	return 0
}

// changeDelay returns how long the next change of a Node's readiness must wait: the API server of its cluster decides how often it changes, and each change is a write and a request
// to the BMC.
func changeDelay(now *v1alpha1.ObservedNode, off bool, at time.Time, interval time.Duration) time.Duration {
	if off {
		interval /= 6
	}
	if now.ReadinessTime == nil {
		return 0
	}
	return min(interval, now.ReadinessTime.Add(interval).Sub(at))
}

// recordUnreadable records that the Node of a server that is off cannot be read. The Node of a server that is on need not be read.
func (r *Reconciler) recordUnreadable(ctx context.Context, s *scope) error {
	before := controllers.NodeOf(s.boot)
	stage := controllers.ObservedStage(s.boot, v1alpha1.StageNode)
	if s.paused || !offReported(s.host) || before == nil || stage == nil || before.Readiness == v1alpha1.NodeUnreadable {
		return nil
	}
	now := before.DeepCopy()
	now.Readiness, now.ReadinessTime = v1alpha1.NodeUnreadable, new(metav1.Now().Rfc3339Copy())
	return controllers.ApplyNode(ctx, r.Client, s.boot, now, *stage)
}
