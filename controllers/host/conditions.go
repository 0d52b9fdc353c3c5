package host

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// setConditions sets all conditions of the host.
func setConditions(host *v1alpha1.BareMetalHost, view lifecycle.View, step lifecycle.Step) {
	set := func(kind string, ok bool, reason, message string) {
		status := metav1.ConditionFalse
		if ok {
			status = metav1.ConditionTrue
		}
		conditions.Set(host, metav1.Condition{
			Type: kind, Status: status, Reason: reason, Message: controllers.Clip(message, controllers.MaxMessage), ObservedGeneration: host.Generation,
		})
	}
	switch p := view.BMCProblem(); {
	case p != nil:
		set(v1alpha1.BMCReadyCondition, false, p.Reason, p.Message)
	case view.BMC.PowerAt.IsZero():
		conditions.Set(host, metav1.Condition{
			Type: v1alpha1.BMCReadyCondition, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonBMCNotContacted, ObservedGeneration: host.Generation,
		})
	default:
		set(v1alpha1.BMCReadyCondition, true, v1alpha1.ReasonBMCReachable, "")
	}
	doubt, whose := lifecycle.Conflict(view)
	switch {
	case !view.BMC.Inspected && doubt == "" && conditions.IsTrue(host, v1alpha1.VerifiedCondition):
		// The host was verified before this process started, and its BMC gets no requests in this state.
	case view.Verified():
		set(v1alpha1.VerifiedCondition, true, v1alpha1.ReasonVerified, "")
	case doubt != "":
		set(v1alpha1.VerifiedCondition, false, doubt, whose)
	case view.Identity.Replacement != nil:
		set(v1alpha1.VerifiedCondition, false, v1alpha1.ReasonServerReplaced, lifecycle.ReplacementMessage(view))
	case view.Incapable():
		set(v1alpha1.VerifiedCondition, false, v1alpha1.ReasonCapabilityMissing, lifecycle.MissingCapabilityMessage(view))
	default:
		set(v1alpha1.VerifiedCondition, false, v1alpha1.ReasonInspecting, "The inventory has not been read yet")
	}
	setAvailable(set, view, step)
	setRunsProvider(host, view)
	setPreflightPassed(host)
	setSettingsConform(host, view)
	controllers.SetNodeMatched(host, view.Observed.Node, "")
	if view.Host.Claimed() {
		setBooted(set, view, step)
	} else {
		conditions.Delete(host, v1alpha1.BootedCondition)
	}
	switch {
	case step.State == lifecycle.StatePaused:
		set(clusterv1.PausedCondition, true, clusterv1.PausedReason, step.Message)
	case view.PauseRequested() && view.InFlight() && step.State == lifecycle.StateBooting: // its server may already write to its disk
		set(clusterv1.PausedCondition, true, clusterv1.PausedReason, "The boot attempt in progress is completed first. "+step.Message)
	default:
		set(clusterv1.PausedCondition, false, clusterv1.NotPausedReason, "")
	}
	setReady(host, view, step)
}

// setBooted sets the condition Booted of a claimed host. While the host is paused, what was reported about its power stays.
func setBooted(set func(kind string, ok bool, reason, message string), view lifecycle.View, step lifecycle.Step) {
	switch {
	case step.State == lifecycle.StatePaused && !step.PoweredOffTime.IsZero():
	case !view.Provisioned(), slices.Contains(notBootedStates, step.State), !step.PoweredOffTime.IsZero():
		set(v1alpha1.BootedCondition, false, step.Reason, step.Message)
	case slices.Contains(powerWarnings, step.Reason) || step.Reason == v1alpha1.ReasonSettingsUnknown:
		set(v1alpha1.BootedCondition, true, step.Reason, step.Message)
	default:
		set(v1alpha1.BootedCondition, true, v1alpha1.ReasonBooted, "")
	}
}

// powerWarnings are the reasons of a server that is reported as off and counts as running.
var powerWarnings = []string{v1alpha1.ReasonPowerDisputed, v1alpha1.ReasonPowerUnconfirmed}

// notBootedStates are the states in which a server that booted once is off or is being powered off, or in which it is unknown whether its machine still
// runs.
var notBootedStates = []lifecycle.State{
	lifecycle.StateLost, lifecycle.StatePowerHold, lifecycle.StateReleasing, lifecycle.StateCleaning, lifecycle.StateBootUnknown,
}

func setAvailable(set func(kind string, ok bool, reason, message string), view lifecycle.View, step lifecycle.Step) {
	switch {
	case view.Host.Claimed():
		set(v1alpha1.AvailableCondition, false, v1alpha1.ReasonClaimed, fmt.Sprintf("BareMetalMachine %q has claimed the host", view.Host.Spec.ConsumerRef.Name))
	case step.Phase == v1alpha1.PhaseAvailable:
		set(v1alpha1.AvailableCondition, true, v1alpha1.ReasonAvailable, "")
	default:
		set(v1alpha1.AvailableCondition, false, step.Reason, step.Message)
	}
}

// setProgress sets the condition BootProgress. It is not part of Ready: Booted is, and would repeat its message.
func setProgress(host *v1alpha1.BareMetalHost, progress *lifecycle.Progress) {
	if progress == nil {
		conditions.Delete(host, v1alpha1.BootProgressCondition)
		return
	}
	status := metav1.ConditionFalse
	if progress.Complete {
		status = metav1.ConditionTrue
	}
	conditions.Set(host, metav1.Condition{
		Type: v1alpha1.BootProgressCondition, Status: status, Reason: progress.Reason,
		Message: controllers.Clip(progress.Message, controllers.MaxMessage), ObservedGeneration: host.Generation,
	})
}

// setReady sets the summary Ready. It copies the first condition that is False, or otherwise the first that is Unknown.
func setReady(host *v1alpha1.BareMetalHost, view lifecycle.View, step lifecycle.Step) {
	ready := metav1.Condition{Type: v1alpha1.ReadyCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ReadyCondition, ObservedGeneration: host.Generation}
	kinds := []string{v1alpha1.BMCReadyCondition, v1alpha1.VerifiedCondition}
	switch {
	case view.Host.Claimed():
		kinds = []string{v1alpha1.BMCReadyCondition, v1alpha1.BootedCondition, v1alpha1.VerifiedCondition}
	case step.State != lifecycle.StateExternallyProvisioned:
		kinds = append(kinds, v1alpha1.AvailableCondition)
	}
	for _, kind := range kinds {
		c := conditions.Get(host, kind)
		if c != nil && (c.Status == metav1.ConditionFalse && ready.Status != metav1.ConditionFalse ||
			c.Status == metav1.ConditionUnknown && ready.Status == metav1.ConditionTrue) {
			ready.Status, ready.Reason, ready.Message = c.Status, c.Reason, c.Message
		}
	}
	switch {
	case step.State == lifecycle.StateDetached, // the observations of its BMC are old
		step.State == lifecycle.StateOrphaned, // its server is booted, although its machine is missing
		step.State == lifecycle.StateMaintenance && ready.Status != metav1.ConditionFalse:
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, step.Reason, controllers.Clip(step.Message, controllers.MaxMessage)
	}
	setDeletion(&ready, view, step)
	conditions.Set(host, ready)
}

// setDeletion reports in Ready what the deletion of the host or of its machine waits for, and how a user can end the wait.
func setDeletion(ready *metav1.Condition, view lifecycle.View, step lifecycle.Step) {
	if c := view.Consumer; c != nil && c.Deleting {
		if ready.Status != metav1.ConditionFalse {
			ready.Status, ready.Reason = metav1.ConditionFalse, cmp.Or(step.Reason, v1alpha1.ReasonReleasing)
		}
		ready.Message = controllers.Clip(step.Message, controllers.MaxMessage)
	}
	if !view.Host.Deleting {
		return
	}
	waits := "The object is removed when the host is no longer paused"
	switch {
	case view.Host.Claimed():
		waits = fmt.Sprintf("The object is removed when BareMetalMachine %q is deleted and has released the host", view.Host.Spec.ConsumerRef.Name)
	case step.State == lifecycle.StateDeleting:
		waits = "The object is removed when the server is powered off"
	}
	ready.Status, ready.Reason = metav1.ConditionFalse, v1alpha1.ReasonDeleting
	ready.Message = controllers.Clip(strings.TrimSuffix(fmt.Sprintf("%s. The annotation %s=\"who and why\" removes it immediately and leaves the server as it is. %s",
		waits, v1alpha1.DetachedAnnotation, step.Message), " "), controllers.MaxMessage)
}
