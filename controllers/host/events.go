package host

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/metrics"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// eventRecorder records the events of hosts. Where only memory shows that an event was recorded, it keeps that in the observations.
type eventRecorder struct {
	recorder     events.EventRecorder // nil records no events
	client       client.Client        // records the entries of logs
	clock        clock.PassiveClock
	observations *observations
}

func (r *eventRecorder) recordEvent(host *v1alpha1.BareMetalHost, kind, reason, action, note string, args ...any) {
	controllers.RecordEvent(r.recorder, host, nil, kind, reason, action, note, args...)
}

// recordStepEvents records what a step wrote to the host's spec and metadata.
func (r *eventRecorder) recordStepEvents(ctx context.Context, host *v1alpha1.BareMetalHost, view lifecycle.View, step lifecycle.Step) {
	switch step.Action {
	case lifecycle.RecordBoot:
		r.recordBootEvent(host, view, step)
	case lifecycle.RecordPowerHold:
		r.recordPowerHoldEvent(host, view, step)
	case lifecycle.RecordCleaning:
		ctrl.LoggerFrom(ctx).Info("Recorded the cleaning", "startTime", fmt.Sprint(step.CleaningStartTime), "message", step.Message)
		if step.CleaningStartTime == nil {
			r.recordEvent(host, corev1.EventTypeWarning, controllers.EventCleaningInterrupted, "Release", "%s", step.Message)
		}
	case lifecycle.RecordSettings, lifecycle.CountSettings, lifecycle.EndSettings:
		r.recordSettingsEvent(host, view, step)
	case lifecycle.Release:
		r.recordReleasedEvents(ctx, host, view, step)
	default:
	}
}

// recordBootEvent records the start or the failure of a boot.
func (r *eventRecorder) recordBootEvent(host *v1alpha1.BareMetalHost, view lifecycle.View, step lifecycle.Step) {
	before, now := cmp.Or(view.Host.CurrentBoot(), view.Host.HostBoot()), step.Boot
	switch {
	case now.VoidedTime != nil && lifecycle.IsRequestedErasure(now) && now.AgentDoneTime != nil && now.Failure == nil && view.Host.Spec.Quarantine == nil:
		r.recordEvent(host, corev1.EventTypeNormal, controllers.EventRequestedErasureDone, "Erase", "Erased the disks, as BareMetalErasureRequest %s requested", now.ErasureRequest.Name)
	case now.VoidedTime != nil || now.ClaimID == "":
	case now.Failure != nil:
		metrics.BootFailed(now.Failure.Reason)
		r.recordEvent(host, corev1.EventTypeWarning, controllers.EventBootFailed, "Boot", "%s: %s", now.Failure.Reason, now.Failure.Message)
	case now.Purpose == v1alpha1.PurposeConfigure:
		if before == nil || before.Number != now.Number {
			r.recordEvent(host, corev1.EventTypeNormal, controllers.EventSettingsRestart, "Configure", "%s", step.Message)
		}
	case now.Purpose == v1alpha1.PurposeInspect && (before == nil || before.Number != now.Number):
		r.recordEvent(host, corev1.EventTypeNormal, controllers.EventInspectionStarted, "Inspect", "%s", step.Message)
	case lifecycle.IsRequestedErasure(now) && (before == nil || before.Number != now.Number):
		r.recordEvent(host, corev1.EventTypeNormal, controllers.EventRequestedErasureStarted, "Erase", "%s", step.Message)
	case before == nil:
		metrics.BootStarted()
		r.recordEvent(host, corev1.EventTypeNormal, controllers.EventBootStarted, "Boot", "%s for BareMetalMachine %s", step.Message, view.Host.Spec.ConsumerRef.Name)
	case before.Number != now.Number:
		metrics.BootFailed(v1alpha1.ReasonBootTimedOut)
		metrics.BootStarted()
		r.recordEvent(host, corev1.EventTypeWarning, controllers.EventBootStarted, "Boot", "%s", step.Message)
	}
}

// recordPowerHoldEvent records the progress of a power hold.
func (r *eventRecorder) recordPowerHoldEvent(host *v1alpha1.BareMetalHost, view lifecycle.View, step lifecycle.Step) {
	var reason string
	switch hold := step.PowerHold; {
	case view.Host.Spec.ProviderState.PowerHoldStartTime == nil && hold.Since != nil && len(view.Host.Spec.PowerHolds)+len(view.Requests.Power.Holds)+len(view.Requests.Power.Cycles) == 0:
		return // a request to power the server on, whose end has an event
	case view.Host.Spec.ProviderState.PowerHoldStartTime == nil && hold.Since != nil:
		reason = controllers.EventPowerHoldStarted
	case view.Host.Spec.ProviderState.PowerHoldOffTime == nil && hold.OffTime != nil:
		reason = controllers.EventPowerHoldOff
	case view.Host.Spec.ProviderState.PowerHoldOffTime != nil && hold.OffTime == nil && len(view.Host.Spec.PowerHolds)+len(view.Requests.Power.Holds)+len(view.Requests.Power.Cycles) > 0:
		reason = controllers.EventPowerHoldBroken
	case view.Host.Spec.ProviderState.PowerHoldOffTime != nil && hold.OffTime == nil:
		reason = controllers.EventPowerHoldEnded
	case hold.Since == nil:
		reason = controllers.EventPowerRestored
	default:
		return
	}
	r.recordEvent(host, corev1.EventTypeNormal, reason, "Power", "%s", step.Message)
}

// recordReleasedEvents records the result of a release.
func (r *eventRecorder) recordReleasedEvents(ctx context.Context, host *v1alpha1.BareMetalHost, view lifecycle.View, step lifecycle.Step) {
	machine, quarantine := view.Host.Spec.ConsumerRef.Name, step.Quarantine
	// The event below reports the new phase, so the status must not report the transition again. A maintenance continues after a release, without an event.
	r.observations.update(client.ObjectKeyFromObject(host), func(h *hostObservation) {
		if h.reported.uid != host.UID {
			h.reported = eventStateOf(host)
		}
		if view.Host.Spec.Maintenance == nil {
			h.reported.phase = v1alpha1.PhaseReleasing
		}
	})
	result := metrics.ReleasedFree
	switch {
	case quarantine != nil && quarantine.Reason == v1alpha1.ReasonReleasedUnfenced:
		result = metrics.ReleasedUnfenced
		r.recordEvent(host, corev1.EventTypeWarning, controllers.EventReleasedUnfenced, "Release", "%s", quarantine.Message)
	case quarantine != nil:
		result = metrics.ReleasedQuarantined
		r.recordEvent(host, corev1.EventTypeNormal, controllers.EventReleased, "Release", "Released the host from BareMetalMachine %s", machine)
		r.recordEvent(host, corev1.EventTypeWarning, controllers.EventQuarantined, "Quarantine", "%s: %s", quarantine.Reason, quarantine.Message)
	default:
		r.recordEvent(host, corev1.EventTypeNormal, controllers.EventReleased, "Release", "Released the host from BareMetalMachine %s", machine)
	}
	if quarantine != nil && view.Host.Spec.Quarantine == nil {
		metrics.Quarantined(quarantine.Reason)
	}
	ctrl.LoggerFrom(ctx).Info("Released the host", "BareMetalMachine", host.Namespace+"/"+machine, "result", result)
	if c := view.Consumer; c != nil && !c.DeletingSince.IsZero() {
		metrics.Released(result, view.Now.Sub(c.DeletingSince))
	}
	if started := view.Host.Spec.ProviderState.CleaningStartTime; started != nil && result != metrics.ReleasedUnfenced {
		metrics.Cleaned(view.Now.Sub(started.Time))
	}
}

// recordJobEvent records an event of a job, which has no host object.
func (r *eventRecorder) recordJobEvent(j job, kind, reason, action, note string) {
	r.recordEvent(hostOf(j), kind, reason, action, "%s", note)
}

// transitionEvent is the event of a host that enters or leaves a phase.
type transitionEvent struct {
	phase        v1alpha1.HostPhase
	enter, kind  string
	leave        string
	reportedFrom []v1alpha1.HostPhase // previous phases from which another event reports the transition
}

var transitionEvents = []transitionEvent{
	{phase: v1alpha1.PhaseDetached, enter: controllers.EventDetached, kind: corev1.EventTypeWarning, leave: controllers.EventReattached},
	{phase: v1alpha1.PhaseMaintenance, enter: controllers.EventMaintenanceStarted, kind: corev1.EventTypeNormal, leave: controllers.EventMaintenanceEnded},
	{phase: v1alpha1.PhaseOrphaned, enter: controllers.EventOrphaned, kind: corev1.EventTypeWarning},
	{phase: v1alpha1.PhaseBootUnknown, enter: controllers.EventBootUnknown, kind: corev1.EventTypeWarning},
	{
		phase: v1alpha1.PhaseQuarantined, enter: controllers.EventQuarantined, kind: corev1.EventTypeWarning, leave: controllers.EventQuarantineEnded,
		reportedFrom: []v1alpha1.HostPhase{v1alpha1.PhaseReleasing, v1alpha1.PhaseCleaning},
	},
}

// eventState is the part of a host's status that events report.
type eventState struct {
	uid        types.UID
	registered bool
	phase      v1alpha1.HostPhase
	bmc        metav1.ConditionStatus
	bmcReason  string
	power      string // PoweredOff or one of powerWarnings; empty if nothing is wrong with the power
	health     string // the reason of HardwareHealthy
	parts      string // that are not healthy
	preflight  string // the message of PreflightPassed
}

func eventStateOf(host *v1alpha1.BareMetalHost) eventState {
	s := eventState{uid: host.UID, registered: host.Status.Hardware != nil, phase: host.Status.Phase}
	if c := conditions.Get(host, v1alpha1.BMCReadyCondition); c != nil {
		s.bmc, s.bmcReason = c.Status, c.Reason
	}
	if reason := conditions.GetReason(host, v1alpha1.BootedCondition); reason == v1alpha1.ReasonPoweredOff || slices.Contains(powerWarnings, reason) {
		s.power = reason
	}
	s.health, s.parts = conditions.GetReason(host, v1alpha1.HardwareHealthyCondition), partsKey(host.Status.Health)
	s.preflight = conditions.GetMessage(host, v1alpha1.PreflightPassedCondition)
	return s
}

// recordStatusEvents records changes of the status: user actions, and the state of the BMC. The cache may show the status from before the last write, so
// memory keeps what was recorded: each change is recorded once.
func (r *eventRecorder) recordStatusEvents(before, host *v1alpha1.BareMetalHost, now time.Time, message string) {
	was, is := eventStateOf(before), eventStateOf(host)
	r.observations.update(client.ObjectKeyFromObject(host), func(h *hostObservation) {
		if h.reported.uid == is.uid {
			was = h.reported
		}
		h.reported = is
	})
	if !was.registered && is.registered {
		metrics.Registered(now.Sub(host.CreationTimestamp.Time))
		hw := host.Status.Hardware
		what := strings.TrimSpace(hw.Manufacturer + " " + hw.Model)
		r.recordEvent(host, corev1.EventTypeNormal, controllers.EventRegistered, "Register",
			"Read the inventory: %s, power %s", cmp.Or(what, "unknown model"), host.Status.Power)
	}
	for _, p := range transitionEvents {
		switch {
		case was.phase == "" || was.phase == is.phase:
		case is.phase == p.phase && !slices.Contains(p.reportedFrom, was.phase):
			r.recordEvent(host, p.kind, p.enter, "Observe", "%s", message)
		case was.phase == p.phase && p.leave != "" && is.phase != v1alpha1.PhaseDeleting:
			r.recordEvent(host, corev1.EventTypeNormal, p.leave, "Observe", "The host left the phase %s and is now %s", p.phase, is.phase)
		}
	}
	switch {
	case is.bmc == metav1.ConditionFalse && (was.bmc != is.bmc || was.bmcReason != is.bmcReason):
		r.recordEvent(host, corev1.EventTypeWarning, controllers.EventBMCNotReady, "Contact",
			"%s: %s", is.bmcReason, conditions.GetMessage(host, v1alpha1.BMCReadyCondition))
	case is.bmc == metav1.ConditionTrue && was.bmc == metav1.ConditionFalse:
		r.recordEvent(host, corev1.EventTypeNormal, controllers.EventBMCReady, "Contact", "The BMC answers again without errors")
	}
	r.recordPowerEvents(host, was, is)
	if is.preflight != "" && is.preflight != was.preflight {
		r.recordEvent(host, corev1.EventTypeWarning, controllers.EventPreflightWarnings, "Register", "%s", is.preflight)
	}
	r.recordHealthEvents(host, was, is)
}

// recordPowerEvents records that the server of a provisioned machine is off, or is on again.
func (r *eventRecorder) recordPowerEvents(host *v1alpha1.BareMetalHost, was, is eventState) {
	switch {
	case was.power == is.power:
	case is.power == v1alpha1.ReasonPoweredOff:
		r.recordEvent(host, corev1.EventTypeWarning, controllers.EventPoweredOff, "Observe", "%s", conditions.GetMessage(host, v1alpha1.BootedCondition))
	case is.power != "":
		r.recordEvent(host, corev1.EventTypeWarning, is.power, "Observe", "%s", conditions.GetMessage(host, v1alpha1.BootedCondition))
	case is.phase == v1alpha1.PhaseProvisioned && host.Status.Power == v1alpha1.PowerOn:
		r.recordEvent(host, corev1.EventTypeNormal, controllers.EventPowerReturned, "Observe", "The server is on again")
	}
}
