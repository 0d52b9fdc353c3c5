package boot_test

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

// newRequestedErasureWorld is newWorld for a free host whose disks are erased on request. The agent found the disk S1 before.
func newRequestedErasureWorld(t *testing.T, policy wire.ErasePolicy) *world {
	t.Helper()
	w, g := newWorld(), NewWithT(t)
	w.updateHost(g, func(h *v1alpha1.BareMetalHost) {
		h.Spec.ConsumerRef, h.Spec.Inspection = nil, v1alpha1.InspectionBoth
	})
	g.Expect(w.Client.Create(ctx, &v1alpha1.BareMetalInspection{
		ObjectMeta: metav1.ObjectMeta{Namespace: "dc", Name: "h"},
		Spec:       v1alpha1.BareMetalInspectionSpec{Inspection: wire.Inspection{Disks: []wire.InspectedDisk{{SerialNumber: "S1", SizeBytes: 100 << 30}}}},
	})).To(Succeed())
	g.Expect(w.changeBoot(func(b *v1alpha1.BareMetalBootSpec) {
		b.Purpose, b.Agent, b.ClaimID, b.MachineName, b.CleaningPolicy = v1alpha1.PurposeClean, true, "uid-1", "", policy
		b.ErasureRequest = &v1alpha1.BootErasureRequest{Name: "order-1", SerialNumber: "SN1"}
	})).To(Succeed())
	return w
}

// TestAgentErasesAFreeHost: the whole life of an agent that erases the disks of a free host. A disk that is new is erased too.
func TestAgentErasesAFreeHost(t *testing.T) {
	g := NewWithT(t)
	w := newRequestedErasureWorld(t, wire.PolicyPurge)
	answer, err := w.Lookup(ctx, booting)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(answer.Agent).To(Equal("amd64"))
	r := w.agentRequest(g)
	plan, err := w.Plan(ctx, r, hello)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(plan.Title).To(Equal("dc/h, erasure of its disks, attempt 1"))
	g.Expect(plan.Clean).To(Equal(&agent.CleanPlan{Policy: wire.PolicyPurge, AllDisks: true}))
	_, err = w.Data(ctx, r, sda, "http://boot")
	g.Expect(err).To(MatchError(pxe.ErrRefused), "an erasure gets no bootstrap data")
	g.Expect(w.Commit(ctx, r, agent.CommitRequest{Disk: sda.Disk})).To(MatchError(pxe.ErrRefused))
	erasures := erasureCount(t, wire.PolicyPurge, "Succeeded")
	next, err := w.Result(ctx, r, agent.Result{Disks: []agent.ErasedDisk{erasedDisk("S1", wire.PolicyPurge), erasedDisk("new", wire.PolicyPurge)}})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(erasureCount(t, wire.PolicyPurge, "Succeeded") - erasures).To(BeEquivalentTo(1))
	g.Expect(next.Next).To(Equal(agent.PowerOff))
	boot := w.boot().Spec
	g.Expect(boot.AgentDoneTime).NotTo(BeNil())
	g.Expect(boot.Erasure.Disks).To(HaveLen(2))
	_, err = w.Plan(ctx, r, hello)
	g.Expect(err).To(MatchError(pxe.ErrRefused), "the erasure is over")
}

// TestErasureOfAFreeHostIsNotProven: a disk that was found before and is missing, and a report without disks, prove nothing.
func TestErasureOfAFreeHostIsNotProven(t *testing.T) {
	for name, c := range map[string]struct {
		policy wire.ErasePolicy
		disks  []agent.ErasedDisk
		want   string
	}{
		"another disk":          {wire.PolicyPurge, []agent.ErasedDisk{erasedDisk("S2", wire.PolicyPurge)}, "disk S1 is missing"},
		"no disks":              {wire.PolicyClear, nil, "disk S1 is missing"},
		"no disks for Metadata": {wire.PolicyMetadata, nil, "disk S1 is missing"},
		"a weaker class":        {wire.PolicyPurge, []agent.ErasedDisk{erasedDisk("S1", wire.PolicyClear)}, "which is below the policy Purge"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w := newRequestedErasureWorld(t, c.policy)
			r := w.agentRequest(g)
			_, err := w.Plan(ctx, r, hello)
			g.Expect(err).NotTo(HaveOccurred())
			failures := func() float64 {
				return count(t, "capbm_agent_failures_total", map[string]string{"purpose": "Clean", "reason": wire.ReasonEraseFailed})
			}
			failuresBefore, failed, succeeded := failures(), erasureCount(t, c.policy, "Failed"), erasureCount(t, c.policy, "Succeeded")
			for range 2 { // the answer to the first may be lost
				answer, err := w.Result(ctx, r, agent.Result{Disks: c.disks})
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(answer.Next).To(Equal(agent.Wait))
			}
			g.Expect(failures()-failuresBefore).To(BeEquivalentTo(1), "it is counted once")
			g.Expect(erasureCount(t, c.policy, "Failed")-failed).To(BeEquivalentTo(1), "it is counted once")
			g.Expect(erasureCount(t, c.policy, "Succeeded")).To(Equal(succeeded))
			boot := w.boot()
			g.Expect(boot.Spec.AgentDoneTime).To(BeNil())
			g.Expect(boot.Status.Problem.Message).To(ContainSubstring(c.want))
		})
	}
}

// TestAgentOfAClaimedHostGoesOn: a machine that claims the host in mid-erasure does not end it. A host that is out of service does.
func TestAgentOfAClaimedHostGoesOn(t *testing.T) {
	g := NewWithT(t)
	w := newRequestedErasureWorld(t, wire.PolicyClear)
	r := w.agentRequest(g)
	_, err := w.Plan(ctx, r, hello)
	g.Expect(err).NotTo(HaveOccurred())
	w.updateHost(g, func(h *v1alpha1.BareMetalHost) { h.Spec.Maintenance = &v1alpha1.Maintenance{Reason: "new fan"} })
	_, err = w.Plan(ctx, r, hello)
	g.Expect(err).To(MatchError(pxe.ErrRefused))
	w.updateHost(g, func(h *v1alpha1.BareMetalHost) {
		h.Spec.Maintenance = nil
		h.Spec.ConsumerRef = &v1alpha1.ConsumerReference{Name: "m", ClaimID: "claim", BootsBefore: h.Spec.ProviderState.Boots}
	})
	_, err = w.Result(ctx, r, agent.Result{Disks: []agent.ErasedDisk{erasedDisk("S1", wire.PolicyClear)}})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(w.boot().Spec.AgentDoneTime).NotTo(BeNil())
}
