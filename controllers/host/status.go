package host

import (
	"cmp"
	"context"
	"slices"
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

// firstStatusGrace is how soon the BMC of a host that was just registered is expected to have answered everything: until then nobody needs to be told that it
// is asked, and a fleet is registered with one write for each host less.
const firstStatusGrace = 5 * time.Second

// writeStatus tells people where the host stands, with one write if anything changed. While the BMC is asked for the first time in
// this process's life the status stays as it is, so that a restart writes nothing.
//
// It returns how long to wait until it is written what is not written now.
func (r *Reconciler) writeStatus(ctx context.Context, host *v1alpha1.BareMetalHost, view lifecycle.View, step lifecycle.Step) (time.Duration, error) {
	unknown := !view.BMC.Inspected || view.BMC.PowerAt.IsZero()
	asking := view.BMCProblem() == nil && unknown && (view.BMC.Busy || step.Action == lifecycle.Inspect || step.Action == lifecycle.ReadPower)
	key := client.ObjectKeyFromObject(host)
	learned := r.observations.get(key)
	switch {
	case asking && host.Status.ObservedGeneration == host.Generation:
		return 0, nil
	case asking && host.Status.ObservedGeneration == 0 && view.Now.Sub(learned.initializedAt) < firstStatusGrace:
		return firstStatusGrace, nil // if it takes longer, that it does is told
	}
	before := host.DeepCopy()
	r.fillStatus(host, view, step, learned)
	patch := client.MergeFrom(before)
	same, err := sameStatus(before, host, patch)
	if err != nil {
		return 0, err
	}
	if same {
		r.throttle.Done(key)
		return 0, nil
	}
	// A host that is offered no more is told of at once whatever is asked: by its status it would be claimed.
	if asking && !conditions.IsTrue(before, v1alpha1.AvailableCondition) || !isSignificantChange(before.Status, host.Status) {
		if wait := r.throttle.Delay(key, view.Now); wait > 0 {
			return wait, nil
		}
	}
	if err := r.Client.Status().Patch(ctx, host, patch); err != nil {
		return 0, err
	}
	r.writeCache.Record(host)
	r.throttle.Done(key)
	r.recordStatusEvents(before, host, view.Now, step.Message)
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

// isSignificantChange is true for statuses that tell of something that happened, and not only of how it goes on. When the inventory was read is left out, since it tells
// nothing of what was read; so are the addresses of a machine that reported in and does not run yet: they follow from the spec.
func isSignificantChange(before, after v1alpha1.BareMetalHostStatus) bool {
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
func (r *Reconciler) fillStatus(host *v1alpha1.BareMetalHost, view lifecycle.View, step lifecycle.Step, learned hostObservation) {
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
	status.Identity = undisputedIdentity(status.Identity, view)
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

// undisputedIdentity returns what identifies the host's server and is the host's own. A part that is another host's, or is not permitted, stays as it was.
func undisputedIdentity(before *v1alpha1.HostIdentity, view lifecycle.View) *v1alpha1.HostIdentity {
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
