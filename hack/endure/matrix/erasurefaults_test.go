package matrix

import (
	. "github.com/onsi/gomega"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/endure/rig"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/promise"
)

// firstDisk is the prefix of the serial number of the disk with the image.
const firstDisk = "DISK-"

// proven demands that a host whose disks were all to be erased is either free, with the signed record of the erasure and without a byte of the machine, or in quarantine.
func (l *life) proven(s step) {
	l.Helper()
	policy := policies[s.name]
	if policy == "" || l.wiped || !l.exists(l.server.Host) {
		return
	}
	h := l.host()
	if h.Spec.Quarantine != nil {
		return
	}
	l.Expect(h.Spec.ConsumerRef).To(BeNil(), "%s", l.story())
	if l.unrecorded { // nothing is erased because a fact is missing: the request says that the server booted, and that no record shows what for
		var requests v1alpha1.BareMetalErasureRequestList
		l.Expect(env.Client.List(l.Context(), &requests, client.InNamespace(h.Namespace))).To(Succeed())
		l.Expect(requests.Items).To(HaveLen(1))
		l.Expect(conditions.GetReason(&requests.Items[0], v1alpha1.ErasedCondition)).To(Equal(v1alpha1.ReasonHostBooted), "%s", l.story())
		return
	}
	keys, err := l.site.ErasureKeys(l.Context(), env.Client)
	l.Expect(err).NotTo(HaveOccurred())
	l.Expect(l.site.Proven(l.Context(), env.Client, keys, h.Name, policy, firstDisk+h.Name, rig.SecondDisk+h.Name)).To(Succeed(), promise.Proven)
	if policy == wire.PolicyMetadata { // it leaves data, and there was no machine
		return
	}
	l.Expect(l.server.Data()).To(BeEmpty(), promise.Erased)
}

// again powers a server off whose agent has erased the disks and is held at its result: the agent of the next attempt gets the plan again.
func (l *life) again(s step) {
	if s.is(clearing, freeing) {
		l.extraOns++
		l.server.SetPower(false)
	}
}

// notErased demands the end of an erasure that cannot be proven: after the last attempt the host is in quarantine, and the message names a disk. It is offered again when
// a person has ended the quarantine.
func notErased(prefix string) func(*life, step) {
	return func(l *life, _ step) {
		l.Helper()
		l.machineGone()
		l.wait(func(g Gomega, h *v1alpha1.BareMetalHost) {
			phase(v1alpha1.PhaseQuarantined)(g, h)
			g.Expect(h.Spec.ConsumerRef).To(BeNil())
			g.Expect(h.Spec.Quarantine.Reason).To(Equal(v1alpha1.ReasonDisksNotErased))
			g.Expect(h.Spec.Quarantine.Message).To(ContainSubstring(prefix + h.Name))
		})
		l.Expect(l.server.On()).To(BeFalse())
		var records v1alpha1.BareMetalErasureList
		l.Expect(env.Client.List(l.Context(), &records, client.InNamespace(l.site.Namespace))).To(Succeed())
		l.Expect(records.Items).To(BeEmpty(), "an erasure was recorded")
		l.wiped = true // by a person, who ends the quarantine
		l.modify(func(h *v1alpha1.BareMetalHost) { h.Spec.Quarantine = nil })
		l.reach(endAvailable)
	}
}

// erasureFaults are those of a server all of whose disks are erased.
var erasureFaults = []fault{
	{name: "disk missing at the erasure", stays: true, na: only(clearing, purging, freeing), inject: func(l *life, s step) {
		l.server.RemoveDisk(l.T, rig.SecondDisk)
		l.again(s)
	}, want: notErased(rig.SecondDisk)},
	{name: "new disk at the erasure", stays: true, na: only(clearing, purging), inject: func(l *life, s step) {
		l.server.AddDisk(l.T, rig.ThirdDisk)
		l.again(s)
	}, want: func(l *life, s step) {
		notErased(rig.ThirdDisk)(l, s)
		l.Expect(l.server.Data()).To(ConsistOf(rig.ThirdDisk+l.server.Name), "a new disk was erased")
	}},
	{name: "agent reports an unverified disk", stays: true, na: only(clearing, purging, freeing), inject: func(l *life, _ step) {
		l.server.SetUnverified()
	}, want: notErased(firstDisk)},
	{name: "server restarts in mid-erasure", na: only(clearing, purging, freeing), inject: func(l *life, _ step) {
		l.extraOns++
		l.server.Restart()
	}},
	{name: "boot deleted by force in mid-erasure", stays: true, na: only(erasing, clearing, purging), inject: func(l *life, _ step) {
		l.takeRecord()
	}, want: func(l *life, s step) {
		prefix := firstDisk
		if s.is(erasing) { // the message is about all that the provider wrote
			prefix = ""
		}
		notErased(prefix)(l, s)
	}},
}
