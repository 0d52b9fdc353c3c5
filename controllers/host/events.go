package host

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/metrics"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// The life of a host as events and metrics. Nothing here decides anything.

func (r *Reconciler) tell(host *v1alpha1.BareMetalHost, kind, reason, action, note string, args ...any) {
	controllers.RecordEvent(r.Recorder, host, nil, kind, reason, action, note, args...)
}

// tellRelease tells that a release begins, before its first command. It is told once: the status shows that it was, and until then memory.
func (r *Reconciler) tellRelease(host *v1alpha1.BareMetalHost, view lifecycle.View, step lifecycle.Step) {
	if step.Phase != v1alpha1.PhaseReleasing && step.Phase != v1alpha1.PhaseCleaning || view.Consumer == nil ||
		host.Status.Phase == v1alpha1.PhaseReleasing || host.Status.Phase == v1alpha1.PhaseCleaning {
		return
	}
	told := false
	r.facts.with(client.ObjectKeyFromObject(host), func(h *hostFacts) {
		told = h.releaseTold.Equal(view.Consumer.DeletingSince) && !h.releaseTold.IsZero()
		h.releaseTold = view.Consumer.DeletingSince
	})
	if !told {
		r.tell(host, corev1.EventTypeNormal, controllers.EventReleaseStarted, "Release", "The release from BareMetalMachine %s begins", view.Spec.ConsumerRef.Name)
	}
}

// tellStep tells what a step wrote to the host's spec and metadata.
func (r *Reconciler) tellStep(ctx context.Context, host *v1alpha1.BareMetalHost, view lifecycle.View, step lifecycle.Step) {
	switch step.Action {
	case lifecycle.RecordBoot:
		r.tellBoot(host, view, step)
	case lifecycle.RecordHold:
		r.tellHold(host, view, step)
	case lifecycle.RecordCleaning:
		ctrl.LoggerFrom(ctx).Info("Recording how the cleaning goes", "startedAt", step.CleaningStartedAt, "message", step.Message)
		if step.CleaningStartedAt == nil {
			r.tell(host, corev1.EventTypeWarning, controllers.EventCleaningInterrupted, "Release", "%s", step.Message)
		} else {
			r.tell(host, corev1.EventTypeNormal, controllers.EventCleaningStarted, "Release", "%s: the cleaning begins", step.Message)
		}
	case lifecycle.Release:
		r.tellReleased(ctx, host, view, step)
	default:
	}
}

// tellBoot tells of an attempt that begins or fails.
func (r *Reconciler) tellBoot(host *v1alpha1.BareMetalHost, view lifecycle.View, step lifecycle.Step) {
	before, now := view.CurrentBoot(), step.Boot
	switch {
	case now.VoidedAt != nil || now.ClaimID == "":
	case now.Failure != nil:
		metrics.BootFailed(now.Failure.Reason)
		r.tell(host, corev1.EventTypeWarning, controllers.EventBootFailed, "Boot", "%s: %s", now.Failure.Reason, now.Failure.Message)
	case before == nil:
		metrics.BootStarted()
		r.tell(host, corev1.EventTypeNormal, controllers.EventBootStarted, "Boot", "%s for BareMetalMachine %s", step.Message, view.Spec.ConsumerRef.Name)
	case before.Number != now.Number:
		metrics.BootFailed(v1alpha1.ReasonBootTimedOut)
		metrics.BootStarted()
		r.tell(host, corev1.EventTypeWarning, controllers.EventBootStarted, "Boot", "%s", step.Message)
	}
}

// tellHold tells how a server that is held off comes to be off, and on again.
func (r *Reconciler) tellHold(host *v1alpha1.BareMetalHost, view lifecycle.View, step lifecycle.Step) {
	var reason string
	switch held := step.Held; {
	case view.Spec.PowerHoldSince == nil && held.Since != nil:
		reason = controllers.EventPowerHoldStarted
	case view.Spec.PowerHoldOffAt == nil && held.OffAt != nil:
		reason = controllers.EventPowerHoldOff
	case view.Spec.PowerHoldOffAt != nil && held.OffAt == nil && len(view.Spec.PowerHolds)+len(view.PowerRequests.Holds)+len(view.PowerRequests.Cycles) > 0:
		reason = controllers.EventPowerHoldBroken
	case view.Spec.PowerHoldOffAt != nil && held.OffAt == nil:
		reason = controllers.EventPowerHoldEnded
	case held.Since == nil:
		reason = controllers.EventPowerRestored
	default:
		return
	}
	r.tell(host, corev1.EventTypeNormal, reason, "Power", "%s", step.Message)
}

// tellReleased tells what became of a host that was let go.
func (r *Reconciler) tellReleased(ctx context.Context, host *v1alpha1.BareMetalHost, view lifecycle.View, step lifecycle.Step) {
	machine, quarantine := view.Spec.ConsumerRef.Name, step.Quarantine
	// The status may come here from any phase. Where it goes to is told here, and not by the status once more; but a maintenance goes on as it was.
	r.facts.with(client.ObjectKeyFromObject(host), func(h *hostFacts) {
		if h.told.uid != host.UID {
			h.told = standingOf(host)
		}
		if view.Spec.Maintenance == nil {
			h.told.phase = v1alpha1.PhaseReleasing
		}
	})
	result := metrics.ReleasedFree
	switch {
	case quarantine != nil && quarantine.Reason == v1alpha1.ReasonReleasedUnfenced:
		result = metrics.ReleasedUnfenced
		r.tell(host, corev1.EventTypeWarning, controllers.EventReleasedUnfenced, "Release", "%s", quarantine.Message)
	case quarantine != nil:
		result = metrics.ReleasedQuarantined
		r.tell(host, corev1.EventTypeNormal, controllers.EventReleased, "Release", "BareMetalMachine %s has the host no more", machine)
		r.tell(host, corev1.EventTypeWarning, controllers.EventQuarantined, "Quarantine", "%s: %s", quarantine.Reason, quarantine.Message)
	default:
		r.tell(host, corev1.EventTypeNormal, controllers.EventReleased, "Release", "BareMetalMachine %s has the host no more", machine)
	}
	if quarantine != nil && view.Spec.Quarantine == nil {
		metrics.Quarantined(quarantine.Reason)
	}
	ctrl.LoggerFrom(ctx).Info("Released the host", "BareMetalMachine", host.Namespace+"/"+machine, "result", result)
	if c := view.Consumer; c != nil && !c.DeletingSince.IsZero() {
		metrics.Released(result, view.Now.Sub(c.DeletingSince))
	}
	if started := view.Spec.CleaningStartedAt; started != nil && result != metrics.ReleasedUnfenced {
		metrics.Cleaned(view.Now.Sub(started.Time))
	}
}

// commands are the events of power commands.
var commands = map[lifecycle.Command]struct{ reason, note string }{
	lifecycle.CommandPowerOn:  {controllers.EventPowerOn, "The BMC was told to switch the server on"},
	lifecycle.CommandShutDown: {controllers.EventShutDown, "The BMC was told to have the operating system shut down"},
	lifecycle.CommandForceOff: {controllers.EventForceOff, "The BMC was told to switch the server off"},
}

// tellJob tells what a BMC took, while the host itself is not at hand.
func (r *Reconciler) tellJob(j job, reason, action, note string) {
	host := &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: j.key.Namespace, Name: j.key.Name, UID: j.uid}}
	r.tell(host, corev1.EventTypeNormal, reason, action, "%s", note)
}

// passage is an event of a host that comes to a phase, or leaves it.
type passage struct {
	phase       v1alpha1.HostPhase
	enter, kind string
	leave       string
	toldBy      []v1alpha1.HostPhase // where from it is told otherwise
}

var passages = []passage{
	{phase: v1alpha1.PhaseDetached, enter: controllers.EventDetached, kind: corev1.EventTypeWarning, leave: controllers.EventReattached},
	{phase: v1alpha1.PhaseMaintenance, enter: controllers.EventMaintenanceStarted, kind: corev1.EventTypeNormal, leave: controllers.EventMaintenanceEnded},
	{phase: v1alpha1.PhaseOrphaned, enter: controllers.EventOrphaned, kind: corev1.EventTypeWarning},
	{phase: v1alpha1.PhaseBootUnknown, enter: controllers.EventBootUnknown, kind: corev1.EventTypeWarning},
	{
		phase: v1alpha1.PhaseQuarantined, enter: controllers.EventQuarantined, kind: corev1.EventTypeWarning, leave: controllers.EventQuarantineEnded,
		toldBy: []v1alpha1.HostPhase{v1alpha1.PhaseReleasing, v1alpha1.PhaseCleaning},
	},
}

// standing is what people were last told of where a host stands.
type standing struct {
	uid        types.UID
	registered bool
	phase      v1alpha1.HostPhase
	bmc        metav1.ConditionStatus
	bmcReason  string
}

func standingOf(host *v1alpha1.BareMetalHost) standing {
	s := standing{uid: host.UID, registered: host.Status.Hardware != nil, phase: host.Status.Phase}
	if c := conditions.Get(host, v1alpha1.BMCReadyCondition); c != nil {
		s.bmc, s.bmcReason = c.Status, c.Reason
	}
	return s
}

// tellStatus tells what changed in the status: what people did to the host, and how its BMC is. The cache may show the status as it was before
// the last write: what was told is remembered, so that it is told once.
func (r *Reconciler) tellStatus(before, host *v1alpha1.BareMetalHost, now time.Time, message string) {
	was, is := standingOf(before), standingOf(host)
	r.facts.with(client.ObjectKeyFromObject(host), func(h *hostFacts) {
		if h.told.uid == is.uid {
			was = h.told
		}
		h.told = is
	})
	if !was.registered && is.registered {
		metrics.Registered(now.Sub(host.CreationTimestamp.Time))
		hw := host.Status.Hardware
		what := strings.TrimSpace(hw.Manufacturer + " " + hw.Model)
		r.tell(host, corev1.EventTypeNormal, controllers.EventRegistered, "Register", "The inventory was read: %s, power %s", cmp.Or(what, "a server"), host.Status.Power)
	}
	for _, p := range passages {
		switch {
		case was.phase == "" || was.phase == is.phase:
		case is.phase == p.phase && !slices.Contains(p.toldBy, was.phase):
			r.tell(host, p.kind, p.enter, "Observe", "%s", message)
		case was.phase == p.phase && p.leave != "" && is.phase != v1alpha1.PhaseDeleting:
			r.tell(host, corev1.EventTypeNormal, p.leave, "Observe", "The host is %s", is.phase)
		}
	}
	switch {
	case is.bmc == metav1.ConditionFalse && (was.bmc != is.bmc || was.bmcReason != is.bmcReason):
		r.tell(host, corev1.EventTypeWarning, controllers.EventBMCNotReady, "Ask", "%s: %s", is.bmcReason, conditions.GetMessage(host, v1alpha1.BMCReadyCondition))
	case is.bmc == metav1.ConditionTrue && was.bmc == metav1.ConditionFalse:
		r.tell(host, corev1.EventTypeNormal, controllers.EventBMCReady, "Ask", "The BMC does again what it is asked for")
	}
}
