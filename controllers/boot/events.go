package boot

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/metrics"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
)

// attemptKey identifies a boot attempt. A cluster that was restored from a backup uses a number again.
type attemptKey struct {
	host    types.NamespacedName
	claim   string
	number  int32
	started int64
}

func keyOf(boot *v1alpha1.BareMetalBoot) attemptKey {
	return attemptKey{client.ObjectKeyFromObject(boot), boot.Spec.ClaimID, boot.Spec.Number, boot.Spec.StartTime.Unix()}
}

// eventRecorder records the events of boots on their hosts.
type eventRecorder struct {
	client   client.Client // reads from the cache
	recorder events.EventRecorder
	refusals *lru.Cache // attemptKeys whose first refusal has an event
}

// recordServedEvent records that the bootstrap data was served, and to which address. Only the boot server that wrote it to the boot records the event.
func (r *eventRecorder) recordServedEvent(a attempt, to netip.Addr) {
	r.recordEvent(a.boot, corev1.EventTypeNormal, controllers.EventServed, "Serve", "Served the bootstrap data of boot attempt %d to %s", a.boot.Spec.Attempt, to)
}

// recordRefusalEvent records the first refusal of a boot attempt. Later ones are only counted: a refused client may ask without end.
func (r *eventRecorder) recordRefusalEvent(a attempt, from netip.Addr, err error) {
	if a.boot == nil || a.boot.Spec.Number == 0 || !errors.Is(err, pxe.ErrRefused) {
		return
	}
	key := keyOf(a.boot)
	if _, recorded := r.refusals.Get(key); recorded {
		return
	}
	r.refusals.Add(key, nil)
	r.recordEvent(a.boot, corev1.EventTypeWarning, controllers.EventRefused, "Refuse", "Refused a request from %s in boot attempt %d: %s", from, a.boot.Spec.Attempt, err)
}

// recordStageEvent records a stage that is a failure. The status of the boot shows the other stages.
func (r *eventRecorder) recordStageEvent(boot *v1alpha1.BareMetalBoot, s v1alpha1.ObservedStage) {
	if s.Stage != v1alpha1.StageBootstrapFailed && s.Stage != v1alpha1.StageRestarted {
		return
	}
	note := fmt.Sprintf("Boot attempt %d reached the stage %s", boot.Spec.Attempt, s.Stage)
	if by := lifecycle.StageClient(s); by != "" {
		note += " (" + by + ")"
	}
	r.recordEvent(boot, corev1.EventTypeWarning, controllers.EventBootStage+string(s.Stage), "Boot", "%s", note)
}

// recordProblemEvent records why a boot cannot be served.
func (r *eventRecorder) recordProblemEvent(boot *v1alpha1.BareMetalBoot, p v1alpha1.BootProblem) {
	r.recordEvent(boot, corev1.EventTypeWarning, controllers.EventBootNotServed, "Boot", "Boot attempt %d: %s: %s", boot.Spec.Attempt, p.Reason, p.Message)
}

// recordFailureEvent records that an attempt failed.
func (r *eventRecorder) recordFailureEvent(a attempt) {
	failure := a.boot.Spec.Failure
	metrics.BootFailed(failure.Reason)
	r.recordEvent(a.boot, corev1.EventTypeWarning, controllers.EventBootFailed, "Boot", "%s: %s", failure.Reason, failure.Message)
}

// recordAgentEvent records an event of an agent's boot.
func (r *eventRecorder) recordAgentEvent(boot *v1alpha1.BareMetalBoot, warning bool, reason, note string, args ...any) {
	kind := corev1.EventTypeNormal
	if warning {
		kind = corev1.EventTypeWarning
	}
	r.recordEvent(boot, kind, reason, "Boot", note, args...)
}

// recordEvent records an event on the host of a boot, which has all events of its life.
//
//nolint:contextcheck,nolintlint // an event outlives the request that it came of; nolintlint does not see that callers are checked
func (r *eventRecorder) recordEvent(boot *v1alpha1.BareMetalBoot, kind, reason, action, note string, args ...any) {
	host := &v1alpha1.BareMetalHost{}
	if err := r.client.Get(context.Background(), client.ObjectKeyFromObject(boot), host); err != nil { // reading the cache does not block
		return
	}
	controllers.RecordEvent(r.recorder, host, nil, kind, reason, action, note, args...)
}

// recordWarningf records a warning event on a host.
func (r *eventRecorder) recordWarningf(host *v1alpha1.BareMetalHost, reason, action, format string, args ...any) {
	controllers.RecordEvent(r.recorder, host, nil, corev1.EventTypeWarning, reason, action, format, args...)
}
