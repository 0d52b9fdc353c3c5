package boot_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

// newInspectionWorld is newWorld for a free host that is being inspected.
func newInspectionWorld(t *testing.T) *world {
	t.Helper()
	w, g := newWorld(), NewWithT(t)
	w.updateHost(g, func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef, h.Spec.Inspection = nil, v1alpha1.InspectionAgent })
	g.Expect(w.changeBoot(func(b *v1alpha1.BareMetalBootSpec) {
		b.Purpose, b.Agent, b.ClaimID, b.MachineName = v1alpha1.PurposeInspect, true, "inspection-1", ""
	})).To(Succeed())
	return w
}

func (w *world) inspection(g *WithT) *v1alpha1.BareMetalInspection {
	report := &v1alpha1.BareMetalInspection{}
	g.Expect(w.Client.Get(ctx, client.ObjectKey{Namespace: "dc", Name: "h"}, report)).To(Succeed())
	return report
}

// TestAgentInspects: the whole life of an agent that inspects a free host.
func TestAgentInspects(t *testing.T) {
	g := NewWithT(t)
	w := newInspectionWorld(t)
	answer, err := w.Lookup(ctx, booting)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(answer.Agent).To(Equal("amd64"))
	r := w.agentRequest(g)
	plan, err := w.Plan(ctx, r, hello)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(plan.Purpose).To(Equal(agent.Inspect))
	g.Expect(plan.Inspect.LLDPSeconds).To(BeNumerically(">", 30), "most switches send a frame every 30 s")
	g.Expect(plan.Title).To(Equal("dc/h, inspection, attempt 1"))
	g.Expect(w.Progress(ctx, r, agent.Progress{Step: wire.StepReading})).To(Succeed())

	_, err = w.Result(ctx, r, agent.Result{})
	g.Expect(err).To(MatchError(pxe.ErrRefused), "without a report there is no success")
	_, err = w.Data(ctx, r, sda, "http://boot")
	g.Expect(err).To(MatchError(pxe.ErrRefused), "an inspection gets no bootstrap data")
	g.Expect(w.Commit(ctx, r, agent.CommitRequest{Disk: sda.Disk})).To(MatchError(pxe.ErrRefused))
	_, err = w.Image(ctx, r)
	g.Expect(err).To(MatchError(pxe.ErrRefused))

	g.Expect(w.Inventory(ctx, r, wire.Inspection{AgentRelease: "v1", CPU: wire.InspectedCPU{Threads: 8}})).To(Succeed())
	g.Expect(w.Inventory(ctx, r, wire.Inspection{AgentRelease: "v1", CPU: wire.InspectedCPU{Threads: 16}})).To(Succeed(), "the answer to the first may have been lost")
	report := w.inspection(g)
	g.Expect(report.Spec.CPU.Threads).To(BeEquivalentTo(16))
	g.Expect(report.Spec.BootNumber).To(Equal(w.boot().Spec.Number))
	g.Expect(report.Spec.ReceivedTime.IsZero()).To(BeFalse())
	g.Expect(report.OwnerReferences).To(ConsistOf(HaveField("Name", "h")))

	next, err := w.Result(ctx, r, agent.Result{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(next.Next).To(Equal(agent.PowerOff))
	g.Expect(w.boot().Spec.AgentDoneTime).NotTo(BeNil())
	g.Expect(w.Inventory(ctx, r, wire.Inspection{})).To(MatchError(pxe.ErrRefused), "the inspection is over")
}

// TestInventoryBudget: who has the token of an inspection cannot fill etcd with reports.
func TestInventoryBudget(t *testing.T) {
	g := NewWithT(t)
	w := newInspectionWorld(t)
	r := w.agentRequest(g)
	written := 0
	for threads := range 30 {
		err := w.Inventory(ctx, r, wire.Inspection{CPU: wire.InspectedCPU{Threads: int32(threads)}})
		if err != nil {
			g.Expect(err).To(And(MatchError(pxe.ErrNotYet), MatchError(ContainSubstring("reports its inventory too often"))))
			continue
		}
		written++
	}
	g.Expect(written).To(BeNumerically("~", 4, 1))
	g.Expect(w.inspection(g).Spec.CPU.Threads).To(BeNumerically("<", 10))
	_, err := w.Result(ctx, r, agent.Result{})
	g.Expect(err).NotTo(HaveOccurred(), "the inspection ends")
}

// TestReportOfEarlierInspection: the report of an earlier inspection does not end one.
func TestReportOfEarlierInspection(t *testing.T) {
	g := NewWithT(t)
	w := newInspectionWorld(t)
	r := w.agentRequest(g)
	g.Expect(w.Client.Create(ctx, &v1alpha1.BareMetalInspection{
		ObjectMeta: metav1.ObjectMeta{Namespace: "dc", Name: "h"}, Spec: v1alpha1.BareMetalInspectionSpec{BootNumber: w.boot().Spec.Number - 1},
	})).To(Succeed())
	_, err := w.Result(ctx, r, agent.Result{})
	g.Expect(err).To(MatchError(pxe.ErrRefused))
	g.Expect(w.Inventory(ctx, r, wire.Inspection{})).To(Succeed())
	_, err = w.Result(ctx, r, agent.Result{})
	g.Expect(err).NotTo(HaveOccurred())
}

// TestInventoryRefused: only the agent of an inspection of a free host reports what it found.
func TestInventoryRefused(t *testing.T) {
	for name, change := range map[string]func(g *WithT, w *world, r *pxe.AgentRequest){
		"another token":   func(_ *WithT, _ *world, r *pxe.AgentRequest) { r.Token = "x" },
		"another address": func(_ *WithT, _ *world, r *pxe.AgentRequest) { r.From = stranger },
		"the host was claimed": func(g *WithT, w *world, _ *pxe.AgentRequest) {
			w.updateHost(g, func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef = controllerstest.Claimed("m") })
		},
		"the agent is not wanted any more": func(g *WithT, w *world, _ *pxe.AgentRequest) {
			w.updateHost(g, func(h *v1alpha1.BareMetalHost) { h.Spec.Inspection = v1alpha1.InspectionBMC })
		},
		"the boot is void": func(g *WithT, w *world, _ *pxe.AgentRequest) {
			g.Expect(w.changeBoot(func(b *v1alpha1.BareMetalBootSpec) { b.VoidedTime = &metav1.Time{Time: w.Clock.Now()} })).To(Succeed())
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w := newInspectionWorld(t)
			r := w.agentRequest(g)
			_, err := w.Plan(ctx, r, hello)
			g.Expect(err).NotTo(HaveOccurred())
			change(g, w, &r)
			g.Expect(w.Inventory(ctx, r, wire.Inspection{})).To(MatchError(pxe.ErrRefused))
			err = w.Get(ctx, client.ObjectKey{Namespace: "dc", Name: "h"}, &v1alpha1.BareMetalInspection{})
			g.Expect(client.IgnoreNotFound(err)).NotTo(HaveOccurred())
			g.Expect(err).To(HaveOccurred())
		})
	}
	t.Run("the agent of a machine", func(t *testing.T) {
		g := NewWithT(t)
		w, _ := newAgentWorld(t)
		r := w.agentRequest(g)
		g.Expect(w.Inventory(ctx, r, wire.Inspection{})).To(MatchError(pxe.ErrRefused))
	})
}

// TestReportIsBounded: a report of the maximum size of the protocol fits, and whatever an agent reports, an object is at most as large as its bound.
func TestReportIsBounded(t *testing.T) {
	g := NewWithT(t)
	w := newInspectionWorld(t)
	r := w.agentRequest(g)
	largest := wire.Inspection{}
	for i := 0; ; i++ {
		next := largest
		next.Disks = append(next.Disks, wire.InspectedDisk{Name: fmt.Sprintf("sd%d", i), SerialNumber: "S", WWN: "5000", SizeBytes: 1, LogicalSectorBytes: 512, PhysicalSectorBytes: 4096, EraseMethods: []string{"discard"}})
		next.NICs = append(next.NICs, wire.InspectedNIC{Name: "e", MACAddress: "52:54:00:00:00:01", PCIAddress: "0000:00:01.0", SpeedMbps: 10, Neighbor: &wire.InspectedNeighbor{SystemName: "s", PortID: "p"}})
		content, err := json.Marshal(next)
		g.Expect(err).NotTo(HaveOccurred())
		if len(content) > agent.MaxInventory {
			break
		}
		largest = next
	}
	g.Expect(w.Inventory(ctx, r, largest)).To(Succeed())
	content, err := json.Marshal(w.inspection(g).Spec)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(len(content)).To(BeNumerically("<=", 32<<10))

	hostile := wire.Inspection{AgentRelease: strings.Repeat("x", 1<<10), CPU: wire.InspectedCPU{Threads: -1}}
	for range 1000 {
		hostile.Problems = append(hostile.Problems, strings.Repeat("p", 100))
	}
	g.Expect(w.Inventory(ctx, r, hostile)).To(MatchError(ContainSubstring("the maximum is 32768")))
	hostile.Problems = hostile.Problems[:10]
	g.Expect(w.Inventory(ctx, r, hostile)).To(Succeed())
	g.Expect(w.inspection(g).Spec.CPU.Threads).To(BeZero())
	g.Expect(len(w.inspection(g).Spec.AgentRelease)).To(BeNumerically("<=", 256))
}
