package matrix

import (
	"context"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// noRecord says where a host has no record of a boot yet.
func noRecord(s step) string {
	if s.is(registering) {
		return "there is none"
	}
	return ""
}

// notInDoubt returns where it does not matter what was served to the server for its claim: no machine has the host, or it continues without the record.
func notInDoubt(s step) string {
	if s.is(registering, available, waiting, quarantined, freeing, configuring) {
		return "no boot of the server is of a claim"
	}
	if s.is(leaving...) {
		return "it is being released, whatever it was given"
	}
	return ""
}

// noBackup says where a host cannot be restored as it was.
func noBackup(s step) string {
	if s.is(leaving...) {
		return "a machine that is being deleted is gone when its host is, and with it who could release the host"
	}
	return noRecord(s)
}

// saved is a record as a backup holds it: without what the API server makes, and without its status.
func saved(boot *v1alpha1.BareMetalBoot) *v1alpha1.BareMetalBoot {
	return &v1alpha1.BareMetalBoot{ObjectMeta: metav1.ObjectMeta{Namespace: boot.Namespace, Name: boot.Name}, Spec: boot.Spec}
}

// takeRecord removes the record like a user who removes its finalizer, and returns it.
func (l *life) takeRecord() *v1alpha1.BareMetalBoot {
	l.Helper()
	boot := l.record()
	l.Expect(boot).NotTo(BeNil())
	l.remove(boot)
	l.dropFinalizers(boot.DeepCopy())
	return saved(boot)
}

// restore creates an object again, whatever the provider made in its place.
func (l *life) restore(boot *v1alpha1.BareMetalBoot) {
	l.Helper()
	l.Eventually(func() error {
		if now := l.record(); now != nil {
			l.remove(now)
			l.dropFinalizers(now)
		}
		return env.Client.Create(context.Background(), boot.DeepCopy())
	}, stepTimeout).Should(Succeed())
}

// loses takes the record away and puts another in its place, if any, until the fault ends: then the record is restored. If it does not matter what was served, the other
// record is only deleted, as the condition says: the provider may claim the host and make a record of its own at once.
func loses(instead func(l *life, lost *v1alpha1.BareMetalBoot) *v1alpha1.BareMetalBoot) func(*life, step) {
	return func(l *life, s step) {
		l.Helper()
		lost := l.takeRecord()
		if instead != nil {
			l.restore(instead(l, lost))
		}
		l.stops = append(l.stops, func() {
			if notInDoubt(s) == "" {
				l.restore(lost)
			} else {
				l.takeRecord()
			}
		})
	}
}

// isUnknown demands that nothing is done to a server if it is unknown what was served to it, and that a condition says so.
func isUnknown(why string) func(*life, step) {
	return func(l *life, s step) {
		l.Helper()
		switch {
		case s.is(reported), l.persistence == v1alpha1.PersistenceInstalled && s.is(running, heldOff, maintenance):
			l.until(moment, func() bool { return false }) // it runs its machine, which needs no record, or does so in a moment
			return
		}
		l.powerWanted() // a machine that runs from memory is not Provisioned in this time
		if s.is(withAgent...) {
			l.extraOns++ // an agent that is refused powers its server off
		}
		l.wait(func(g Gomega, h *v1alpha1.BareMetalHost) {
			g.Expect(h.Status.Phase).To(Equal(v1alpha1.PhaseBootUnknown))
		})
		l.told(v1alpha1.BootedCondition, v1alpha1.ReasonBootUnknown, why)
		l.told(v1alpha1.BootedCondition, v1alpha1.ReasonBootUnknown, ", or delete the Machine to have it replaced")
		commands, lives := l.countCommands(), len(l.server.Lives())
		l.until(moment, func() bool { return false })
		l.Expect(l.server.Commands()).To(HaveLen(commands), "the server got a command, and nobody knows what it was given: %s", l.story())
		l.Expect(l.server.Lives()).To(HaveLen(lives), "the server was served, and nobody knows what it was given before")
		l.explained()
	}
}

// isReplaced deletes the machine in place of restoring the record: its host is released, off and cleaned.
func isReplaced(l *life, s step) {
	l.Helper()
	isUnknown("")(l, s)
	l.stops = nil
	l.deleteMachine()
}

// older is the record as it was before the last boot.
func older(_ *life, lost *v1alpha1.BareMetalBoot) *v1alpha1.BareMetalBoot {
	boot := saved(lost)
	boot.Spec = v1alpha1.BareMetalBootSpec{Number: lost.Spec.Number - 1}
	return boot
}

// ofAnother is the record of another claim, which has not ended.
func ofAnother(_ *life, lost *v1alpha1.BareMetalBoot) *v1alpha1.BareMetalBoot {
	boot := saved(lost)
	boot.Spec.Number++
	boot.Spec.Attempt, boot.Spec.ClaimID, boot.Spec.MachineName, boot.Spec.StartTime = 1, "another", "another", metav1.Now()
	boot.Spec.Purpose = v1alpha1.PurposeProvision
	boot.Spec.VoidedTime = nil
	return boot
}

// isKept demands that a deleted record stays as long as a machine has the host, and is recreated then.
func isKept(l *life, s step) {
	l.Helper()
	l.reach(s.end)
	if s.end == endProvisioned && !s.is(waiting) {
		l.Expect(l.record().DeletionTimestamp).NotTo(BeNil())
		l.Expect(l.record().Spec.ClaimID).To(Equal(l.host().Spec.ConsumerRef.ClaimID))
		return
	}
	l.Eventually(func() bool { boot := l.record(); return boot != nil && boot.DeletionTimestamp.IsZero() }, stepTimeout).Should(BeTrue(), func() string { return l.story() })
}

// restores takes host and record away, and restores them from a backup in an order.
func restores(hostFirst bool) func(*life, step) {
	return func(l *life, _ step) {
		l.Helper()
		host, boot := l.host(), l.takeRecord()
		l.remove(host)
		l.dropFinalizers(host.DeepCopy())
		env.Gone(l.T, host.DeepCopy())
		backup := &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: host.Namespace, Name: host.Name, Annotations: host.Annotations}, Spec: host.Spec}
		if hostFirst {
			l.Expect(env.Client.Create(l.Context(), backup)).To(Succeed())
			l.until(time.Second, func() bool { return false })
			l.restore(boot)
			return
		}
		l.restore(boot)
		l.until(time.Second, func() bool { return false })
		l.Expect(env.Client.Create(l.Context(), backup)).To(Succeed())
	}
}

// recordFaults are those of the records of boots.
var recordFaults = []fault{
	{name: "boot deleted", stays: true, na: noRecord, inject: func(l *life, _ step) { l.remove(l.record()) }, want: isKept},
	{name: "all boots deleted", stays: true, na: noRecord, inject: func(l *life, _ step) {
		l.Expect(env.Client.DeleteAllOf(l.Context(), &v1alpha1.BareMetalBoot{}, client.InNamespace(l.site.Namespace))).To(Succeed())
	}, want: isKept},
	{name: "boot deleted by force", na: notInDoubt, inject: loses(nil), during: isUnknown("is missing, and spec.providerState.boots is")},
	{name: "boot deleted by force, its Machine deleted", stays: true, na: notInDoubt, inject: loses(nil), during: isReplaced, want: func(l *life, s step) {
		if s.is(writing, written, bootable) { // nobody knows what the agent wrote
			notErased("")(l, s)
			return
		}
		isReleased(l, s)
	}},
	{name: "boot of a free host deleted by force", stays: true, na: func(s step) string {
		if s.is(registering) || notInDoubt(s) == "" {
			return "a machine has the host, or there is no boot"
		}
		if s.is(erasing, clearing, purging) {
			return "the host is being released: see the boot that is deleted in mid-erasure"
		}
		if s.is(configuring) {
			return "the server is on: the run waits until a person powers it off"
		}
		return ""
	}, inject: func(l *life, s step) {
		if s.is(freeing) {
			l.unrecorded = true
		}
		l.takeRecord()
	}},
	{name: "boot of another claim", na: func(s step) string {
		if s.is(leaving...) {
			return notInDoubt(s)
		}
		if s.is(freeing, configuring) {
			return "the server is on"
		}
		return noRecord(s)
	}, inject: loses(ofAnother), during: func(l *life, s step) {
		if notInDoubt(s) == "" {
			isUnknown("is that of another claim")(l, s)
			return
		}
		l.told(v1alpha1.AvailableCondition, v1alpha1.ReasonBootUnknown, "power the server off, then delete BareMetalBoot")
		l.explained()
		l.Expect(l.host().Spec.ConsumerRef).To(BeNil(), "a host was claimed whose boot is not void")
	}},
	{name: "boot without its status", stays: true, na: func(s step) string {
		if s.is(clearing, purging, freeing, configuring) {
			return "the record is missing for a moment, which ends the erasure, or the restart of the run: that is a fault of its own"
		}
		return noRecord(s)
	}, inject: func(l *life, _ step) { l.restore(l.takeRecord()) }},
	{name: "boot from before", na: notInDoubt, inject: loses(older), during: isUnknown("is older than the host")},
	{name: "backup restored, host first", stays: true, na: noBackup, inject: restores(true)},
	{name: "backup restored, boot first", stays: true, na: noBackup, inject: restores(false)},
	{name: "backup restored, an older boot", na: notInDoubt, inject: func(l *life, s step) {
		restores(true)(l, s)
		loses(older)(l, s)
	}, during: isUnknown("is older than the host")},
}
