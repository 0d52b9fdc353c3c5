package boot_test

import (
	"context"
	"net/netip"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

// at is a request from another address.
func at(r pxe.AgentRequest, from netip.Addr) pxe.AgentRequest {
	r.From = from
	return r
}

// TestAgentMoves: a second address that presents the token of an agent, before the bootstrap data was served, ends the attempt at any endpoint and in a boot of
// any purpose. Neither address is served any more, and the boot has not failed: its next attempt has another token.
func TestAgentMoves(t *testing.T) {
	provision := func(t *testing.T) *world {
		t.Helper()
		w, _ := newAgentWorld(t)
		return w
	}
	for name, c := range map[string]struct {
		world func(t *testing.T) *world
		ask   func(ctx context.Context, w *world, r pxe.AgentRequest) error
	}{
		"plan": {provision, func(ctx context.Context, w *world, r pxe.AgentRequest) error {
			_, err := w.Plan(ctx, r, hello)
			return err
		}},
		"image": {provision, func(ctx context.Context, w *world, r pxe.AgentRequest) error { _, err := w.Image(ctx, r); return err }},
		"data": {provision, func(ctx context.Context, w *world, r pxe.AgentRequest) error {
			_, err := w.Data(ctx, r, sda, "http://boot")
			return err
		}},
		"progress": {provision, func(ctx context.Context, w *world, r pxe.AgentRequest) error {
			return w.Progress(ctx, r, agent.Progress{Step: wire.StepWriting})
		}},
		"result": {provision, func(ctx context.Context, w *world, r pxe.AgentRequest) error {
			_, err := w.Result(ctx, r, agent.Result{})
			return err
		}},
		"script": {provision, func(ctx context.Context, w *world, r pxe.AgentRequest) error {
			_, err := w.Script(ctx, booting, r.From)
			return err
		}},
		"inventory": {newInspectionWorld, func(ctx context.Context, w *world, r pxe.AgentRequest) error {
			return w.Inventory(ctx, r, wire.Inspection{})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w := c.world(t)
			r := w.agentRequest(g)
			_, err := w.Plan(ctx, r, hello)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(c.ask(ctx, w, at(r, stranger))).To(MatchError(pxe.ErrRefused))
			boot := w.boot().Spec
			g.Expect(boot.AgentRefusedTime).NotTo(BeNil())
			g.Expect(boot.Failure).To(BeNil())
			g.Expect(boot.DataAddress).To(Equal(honest.String()))
			for _, from := range []netip.Addr{honest, stranger} {
				_, err = w.Plan(ctx, at(r, from), hello)
				g.Expect(err).To(MatchError(pxe.ErrRefused))
				_, err = w.Data(ctx, at(r, from), sda, "http://boot")
				g.Expect(err).To(MatchError(pxe.ErrRefused))
			}
			g.Expect(w.boot().Spec.DataServedTime).To(BeNil())

			g.Expect(w.changeBoot(func(b *v1alpha1.BareMetalBootSpec) {
				b.Number, b.Attempt, b.AgentRefusedTime, b.DataAddress, b.ScriptAddress = b.Number+1, b.Attempt+1, nil, "", ""
			})).To(Succeed())
			w.updateHost(g, func(h *v1alpha1.BareMetalHost) { h.Spec.ProviderState.Boots++ })
			_, err = w.Plan(ctx, r, hello)
			g.Expect(err).To(MatchError(pxe.ErrRefused), "the token of the attempt that ended")
			_, err = w.Plan(ctx, at(w.agentRequest(g), stranger), hello)
			g.Expect(err).NotTo(HaveOccurred(), "the next attempt may have another address")
		})
	}
}

// TestAgentMovesAfterData: once the bootstrap data was served, a second address fails the boot, because a stranger may have the data. After the permission it is
// only refused, and that is so for the script too: the machine may run.
func TestAgentMovesAfterData(t *testing.T) {
	g := NewWithT(t)
	w, _ := newAgentWorld(t)
	r := w.agentRequest(g)
	_, err := w.Plan(ctx, r, hello)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = w.Data(ctx, r, sda, "http://boot")
	g.Expect(err).NotTo(HaveOccurred())
	before := w.boot().Spec
	_, err = w.Plan(ctx, at(r, stranger), hello)
	g.Expect(err).To(MatchError(pxe.ErrRefused))
	g.Expect(w.boot().Spec.Failure.Reason).To(Equal(v1alpha1.ReasonSecondRequester))
	g.Expect(w.boot().Spec.AgentRefusedTime).To(BeNil())

	for name, change := range map[string]func(*v1alpha1.BareMetalBootSpec){
		"the permission": func(b *v1alpha1.BareMetalBootSpec) { b.CommitAllowedTime = b.DataServedTime },
		"the result": func(b *v1alpha1.BareMetalBootSpec) {
			b.CommitAllowedTime, b.AgentDoneTime = b.DataServedTime, b.DataServedTime
		},
	} {
		g.Expect(w.changeBoot(func(b *v1alpha1.BareMetalBootSpec) {
			*b = *before.DeepCopy()
			change(b)
		})).To(Succeed())
		for _, ask := range []func() error{
			func() error { _, err := w.Plan(ctx, at(r, stranger), hello); return err },
			func() error { return w.Progress(ctx, at(r, stranger), agent.Progress{Step: wire.StepVerifying}) },
			func() error { _, err := w.Script(ctx, booting, stranger); return err },
		} {
			g.Expect(ask()).To(MatchError(pxe.ErrRefused), name)
			g.Expect(w.boot().Spec.Failure).To(BeNil(), name)
			g.Expect(w.boot().Spec.AgentRefusedTime).To(BeNil(), name)
		}
		_, err = w.Result(ctx, r, agent.Result{})
		g.Expect(err).NotTo(HaveOccurred(), name)
	}
}

// TestAgentMovesToOwnAddress: an address that this provider leased to the server, or that spec.network gives it, is the server's at any time. Other addresses are
// refused by the rules of the network, and end nothing.
func TestAgentMovesToOwnAddress(t *testing.T) {
	static := netip.MustParseAddr("192.0.2.80")
	g := NewWithT(t)
	w, _ := newAgentWorld(t, leasing, leasing6)
	w.updateHost(g, func(h *v1alpha1.BareMetalHost) {
		h.Spec.Network = &v1alpha1.HostNetwork{Interfaces: []v1alpha1.NetworkInterface{{
			Name: "lan0", MACAddress: booting.String(), LinkSettings: v1alpha1.LinkSettings{Addresses: []v1alpha1.IPPrefix{"192.0.2.80/24"}},
		}}}
	})
	w.lease(t, leasing, honest)
	w.lease(t, leasing6, honest6)
	w.dhcp(honest)
	r := w.agentRequest(g)
	_, err := w.Plan(ctx, r, hello)
	g.Expect(err).NotTo(HaveOccurred())
	opened, err := w.Image(ctx, at(r, honest6))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(opened.Data.Close()).To(Succeed())
	g.Expect(w.Progress(ctx, at(r, static), agent.Progress{Step: wire.StepWriting})).To(Succeed())
	_, err = w.Data(ctx, at(r, static), sda, "http://boot")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(w.Commit(ctx, at(r, honest6), agent.CommitRequest{Disk: sda.Disk})).To(Succeed())
	_, err = w.Plan(ctx, at(r, stranger), hello)
	g.Expect(err).To(MatchError(pxe.ErrRefused))
	_, err = w.Result(ctx, at(r, static), agent.Result{})
	g.Expect(err).NotTo(HaveOccurred())
	boot := w.boot().Spec
	g.Expect(boot.DataAddress).To(Equal(honest.String()))
	g.Expect(boot.Failure).To(BeNil())
	g.Expect(boot.AgentRefusedTime).To(BeNil())
	g.Expect(boot.AgentDoneTime).NotTo(BeNil())
}

// TestPartitionGUIDAfterRestore: after a restored backup a boot of the same claim gets the number of a boot that has written a disk. Its partition has another GUID,
// so its agent does not take that disk for its own. The GUID of an earlier boot is the one that was recorded.
func TestPartitionGUIDAfterRestore(t *testing.T) {
	g := NewWithT(t)
	w, _ := newAgentWorld(t)
	backup := w.boot().Spec
	plan := func() *agent.ProvisionPlan {
		g.Expect(w.changeBoot(func(b *v1alpha1.BareMetalBootSpec) { b.ScriptAddress, b.DataAddress = "", "" })).To(Succeed())
		p, err := w.Plan(ctx, w.agentRequest(g), hello)
		g.Expect(err).NotTo(HaveOccurred())
		return p.Provision
	}
	lost := plan().PartitionGUID
	g.Expect(plan().PartitionGUID).To(Equal(lost), "each plan of a boot has the same")
	r := w.agentRequest(g)
	_, err := w.Data(ctx, r, sda, "http://boot")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(w.Commit(ctx, r, agent.CommitRequest{Disk: sda.Disk})).To(Succeed())
	written := w.boot().Spec.WrittenDisks
	g.Expect(written).To(HaveLen(1))

	restored := func(change func(*v1alpha1.BareMetalBootSpec)) {
		g.Expect(w.changeBoot(func(b *v1alpha1.BareMetalBootSpec) {
			*b = *backup.DeepCopy()
			b.StartTime = metav1.NewTime(backup.StartTime.Add(time.Minute))
			change(b)
		})).To(Succeed())
	}
	restored(func(*v1alpha1.BareMetalBootSpec) {})
	p := plan()
	g.Expect(p.PartitionGUID).NotTo(Equal(lost))
	g.Expect(p.CommittedGUID).To(BeEmpty(), "the restored record knows of no permission")

	restored(func(b *v1alpha1.BareMetalBootSpec) {
		b.CommittedNumber, b.WrittenDisks = b.Number, written
		b.Number++
	})
	w.updateHost(g, func(h *v1alpha1.BareMetalHost) { h.Spec.ProviderState.Boots++ })
	p = plan()
	g.Expect(p.CommittedGUID).To(Equal(lost))
	g.Expect(p.CommittedDisk).To(Equal(sda.Disk))
	g.Expect(p.PartitionGUID).NotTo(Equal(lost))

	g.Expect(w.changeBoot(func(b *v1alpha1.BareMetalBootSpec) { b.WrittenDisks = nil })).To(Succeed())
	p = plan()
	g.Expect(p.CommittedGUID).To(Equal(p.PartitionGUID), "no disk has it: without a record of the disk nothing is written")
	g.Expect(p.CommittedDisk).To(Equal(wire.DiskIdentity{}))
}

// TestAgentOfMissingMachine: after the permission an agent that starts again gets an answer, although its machine is gone.
func TestAgentOfMissingMachine(t *testing.T) {
	g := NewWithT(t)
	w, _ := newAgentWorld(t)
	r := w.agentRequest(g)
	_, err := w.Plan(ctx, r, hello)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(w.changeBoot(func(b *v1alpha1.BareMetalBootSpec) {
		b.DataServedTime, b.CommitAllowedTime = &b.StartTime, &b.StartTime
	})).To(Succeed())
	m := &v1alpha1.BareMetalMachine{}
	g.Expect(w.Client.Get(ctx, client.ObjectKey{Namespace: "dc", Name: "m"}, m)).To(Succeed())
	m.Finalizers = nil
	g.Expect(w.Client.Update(ctx, m)).To(Succeed())
	g.Expect(client.IgnoreNotFound(w.Client.Delete(ctx, m))).To(Succeed())
	_, err = w.Plan(ctx, r, hello)
	g.Expect(err).To(MatchError(pxe.ErrRefused))
	_, err = w.Image(ctx, r)
	g.Expect(err).To(MatchError(pxe.ErrRefused))
	_, err = w.Result(ctx, r, agent.Result{})
	g.Expect(err).NotTo(HaveOccurred(), "the result says whether the disk is complete")
}
