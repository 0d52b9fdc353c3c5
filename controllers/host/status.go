package host

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// quickly is how soon the BMC of a host that was just registered is expected to have answered everything: until then nobody needs to be told that it
// is asked, and a fleet is registered with one write for each host less.
const quickly = 5 * time.Second

// writeStatus tells people where the host stands, with one write if anything changed. While the BMC is asked for the first time in
// this process's life the status stays as it is, so that a restart writes nothing.
//
// It returns how long to wait until it is written what is not written now.
func (r *Reconciler) writeStatus(ctx context.Context, host *v1alpha1.BareMetalHost, view lifecycle.View, step lifecycle.Step) (time.Duration, error) {
	unknown := !view.BMC.Inspected || view.BMC.PowerAt.IsZero()
	asking := view.BMCProblem() == nil && unknown && (view.BMC.Busy || step.Action == lifecycle.Inspect || step.Action == lifecycle.ReadPower)
	key := client.ObjectKeyFromObject(host)
	learned := r.facts.get(key)
	switch {
	case asking && host.Status.ObservedGeneration == host.Generation:
		return 0, nil
	case asking && host.Status.ObservedGeneration == 0 && view.Now.Sub(learned.since) < quickly:
		return quickly, nil // if it takes longer, that it does is told
	}
	before := host.DeepCopy()
	r.fillStatus(host, view, step, learned)
	patch := client.MergeFrom(before)
	same, err := sameStatus(before, host, patch)
	if err != nil {
		return 0, err
	}
	if same {
		r.pace.Done(key)
		return 0, nil
	}
	// A host that is offered no more is told of at once whatever is asked: by its status it would be claimed.
	if asking && !conditions.IsTrue(before, v1alpha1.AvailableCondition) || !happened(before.Status, host.Status) {
		if wait := r.pace.Delay(key, view.Now); wait > 0 {
			return wait, nil
		}
	}
	if err := r.Client.Status().Patch(ctx, host, patch); err != nil {
		return 0, err
	}
	r.newest.Record(host)
	r.pace.Done(key)
	r.tellStatus(before, host, view.Now, step.Message)
	return 0, nil
}

// sameStatus is true where nothing would be sent. What would be is looked at only where the statuses differ, as by what JSON cannot say: it was a quarter of
// what the hosts at rest allocated.
func sameStatus(before, host *v1alpha1.BareMetalHost, patch client.Patch) (bool, error) {
	if equality.Semantic.DeepEqual(before.Status, host.Status) {
		return true, nil
	}
	change, err := patch.Data(host)
	return string(change) == "{}", err
}

// happened is true for statuses that tell of something that happened, and not only of how it goes on. When the inventory was read is left out, since it tells
// nothing of what was read; so are the addresses of a machine that reported in and does not run yet: they follow from the spec.
func happened(before, after v1alpha1.BareMetalHostStatus) bool {
	bare := func(s v1alpha1.BareMetalHostStatus) v1alpha1.BareMetalHostStatus {
		s.ObservedGeneration, s.Conditions = 0, controllers.WithoutMessages(s.Conditions)
		s.Conditions = slices.DeleteFunc(s.Conditions, func(c metav1.Condition) bool { return c.Type == v1alpha1.BootProgressCondition })
		if s.Phase == v1alpha1.PhaseBooting {
			s.Addresses = nil
		}
		s.LastOperation = controllers.BareOperation(s.LastOperation)
		if s.BMC != nil {
			said := *s.BMC
			said.BootOverride, said.InspectedAt = nil, nil
			s.BMC = &said
		}
		return s
	}
	return !equality.Semantic.DeepEqual(bare(before), bare(after))
}

// fillStatus makes the status what is known of the host.
func (r *Reconciler) fillStatus(host *v1alpha1.BareMetalHost, view lifecycle.View, step lifecycle.Step, learned hostFacts) {
	status := &host.Status
	status.ObservedGeneration = host.Generation
	if step.Phase != "" {
		status.Phase = step.Phase
	}
	if view.BMC.Power != "" {
		status.Power = view.BMC.Power
	}
	if learned.hardware != nil {
		status.Hardware = learned.hardware
	}
	status.Identity = accepted(status.Identity, view)
	status.BMC = learned.bmcStatus()
	switch operation := learned.lastOperation(); {
	case operation != nil:
		status.LastOperation = operation
	case status.LastOperation != nil && status.LastOperation.EndedAt == nil:
		status.LastOperation = nil // the process that was at it ended
	}
	if view.CurrentBoot() != nil || !view.Provisioned() { // the record of a machine that runs may be lost
		status.Addresses = addressesOf(view)
	}
	setConditions(host, view, step)
	setProgress(host, lifecycle.BootProgress(view, r.Settings, step))
}

// accepted returns what identifies the host's server and is the host's own. A part that is another host's, or is not permitted, stays as it was.
func accepted(before *v1alpha1.HostIdentity, view lifecycle.View) *v1alpha1.HostIdentity {
	if view.NotPermitted != "" {
		return before
	}
	identity := ptr.Deref(before, v1alpha1.HostIdentity{})
	if view.MACTakenBy == "" {
		identity.BootMACAddress = view.Identity.BootMACAddress
	}
	if view.BMCTakenBy == "" {
		identity.BMC = view.Identity.BMC
	}
	if view.HardwareTakenBy == "" && view.Replaced == "" {
		identity.Hardware = cmp.Or(view.Identity.Hardware, identity.Hardware)
	}
	return &identity
}

// addressesOf returns the addresses that the running server was seen with.
func addressesOf(view lifecycle.View) clusterv1.MachineAddresses {
	b := view.CurrentBoot()
	if b == nil || b.ReportedAt == nil {
		return nil
	}
	return clusterv1.MachineAddresses{{Type: clusterv1.MachineInternalIP, Address: cmp.Or(b.ReportAddress, b.DataAddress)}}
}

// setConditions sets every condition of the host.
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
		// It was verified before this process started, and is not asked in this state.
	case view.Verified():
		set(v1alpha1.VerifiedCondition, true, v1alpha1.ReasonVerified, "")
	case doubt != "":
		set(v1alpha1.VerifiedCondition, false, doubt, whose)
	case view.Replaced != "":
		set(v1alpha1.VerifiedCondition, false, v1alpha1.ReasonServerReplaced, view.Replaced)
	case len(view.BMC.Missing) > 0:
		set(v1alpha1.VerifiedCondition, false, v1alpha1.ReasonCapabilityMissing, lifecycle.Incapable(view))
	default:
		set(v1alpha1.VerifiedCondition, false, v1alpha1.ReasonInspecting, "The inventory has not been read yet")
	}
	setAvailable(set, view, step)
	setRunsProvider(host, view)
	controllers.SetNodeMatched(host, view.Node, "")
	if view.Claimed() {
		if view.Provisioned() && !slices.Contains(notBooted, step.State) {
			set(v1alpha1.BootedCondition, true, v1alpha1.ReasonBooted, "")
		} else {
			set(v1alpha1.BootedCondition, false, step.Reason, step.Message)
		}
	} else {
		conditions.Delete(host, v1alpha1.BootedCondition)
	}
	pausedReason, pausedMessage := clusterv1.NotPausedReason, ""
	if step.State == lifecycle.StatePaused {
		pausedReason, pausedMessage = clusterv1.PausedReason, step.Message
	}
	set(clusterv1.PausedCondition, step.State == lifecycle.StatePaused, pausedReason, pausedMessage)
	setReady(host, view, step)
}

// setProgress sets the condition BootProgress. It is no part of Ready: Booted is, and what Booted says too would stand there twice.
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

// notBooted are the states in which the server of a machine that booted once is, or will be, off, or in which nobody knows whether the machine still runs.
var notBooted = []lifecycle.State{
	lifecycle.StateLost, lifecycle.StatePowerHold, lifecycle.StateReleasing, lifecycle.StateCleaning, lifecycle.StateBootUnknown,
}

func setAvailable(set func(kind string, ok bool, reason, message string), view lifecycle.View, step lifecycle.Step) {
	switch {
	case view.Claimed():
		set(v1alpha1.AvailableCondition, false, v1alpha1.ReasonClaimed, fmt.Sprintf("BareMetalMachine %q has the host", view.Spec.ConsumerRef.Name))
	case step.Phase == v1alpha1.PhaseAvailable:
		set(v1alpha1.AvailableCondition, true, v1alpha1.ReasonAvailable, "")
	default:
		set(v1alpha1.AvailableCondition, false, step.Reason, step.Message)
	}
}

// setReady summarises: the first condition that is False speaks for all, else the first that is Unknown.
func setReady(host *v1alpha1.BareMetalHost, view lifecycle.View, step lifecycle.Step) {
	ready := metav1.Condition{Type: v1alpha1.ReadyCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ReadyCondition, ObservedGeneration: host.Generation}
	kinds := []string{v1alpha1.BMCReadyCondition, v1alpha1.VerifiedCondition}
	switch {
	case view.Claimed():
		kinds = []string{v1alpha1.BMCReadyCondition, v1alpha1.BootedCondition, v1alpha1.VerifiedCondition}
	case step.State != lifecycle.StateExternal:
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
	case step.State == lifecycle.StateDetached, // what is known of its BMC is old
		step.State == lifecycle.StateOrphaned, // a server that runs is booted, whatever became of its machine
		step.State == lifecycle.StateMaintenance && ready.Status != metav1.ConditionFalse:
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, step.Reason, controllers.Clip(step.Message, controllers.MaxMessage)
	}
	setDeletion(&ready, view, step)
	conditions.Set(host, ready)
}

// setDeletion says in Ready what the deletion of the host's machine, or of the host itself, waits for, and what ends that.
func setDeletion(ready *metav1.Condition, view lifecycle.View, step lifecycle.Step) {
	if c := view.Consumer; c != nil && c.Deleting {
		if ready.Status != metav1.ConditionFalse {
			ready.Status, ready.Reason = metav1.ConditionFalse, cmp.Or(step.Reason, v1alpha1.ReasonReleasing)
		}
		ready.Message = controllers.Clip(step.Message, controllers.MaxMessage)
	}
	if !view.Deleting {
		return
	}
	waits := "The object goes when the host is not paused any more"
	switch {
	case view.Claimed():
		waits = fmt.Sprintf("The object goes when BareMetalMachine %q is deleted and has released the host", view.Spec.ConsumerRef.Name)
	case step.State == lifecycle.StateLeaving:
		waits = "The object goes when the server is powered off"
	}
	ready.Status, ready.Reason = metav1.ConditionFalse, v1alpha1.ReasonDeleting
	ready.Message = controllers.Clip(strings.TrimSuffix(fmt.Sprintf("%s. The annotation %s=\"who and why\" lets it go at once, without a touch of the server. %s",
		waits, v1alpha1.DetachedAnnotation, step.Message), " "), controllers.MaxMessage)
}
