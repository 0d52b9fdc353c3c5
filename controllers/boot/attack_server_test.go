package boot_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

const (
	uuid1        = "4c4c4544-0042-3510-8053-b4c04f4d3132"
	uuid1Swapped = "44454c4c-4200-1035-8053-b4c04f4d3132"
	uuid2        = "4c4c4544-0042-3510-8053-b4c04f4d3133"
)

// on is the introduction of an agent on a server.
func on(uuid, serial string) agent.Hello {
	h := hello
	h.Server = agent.Server{SystemUUID: uuid, SerialNumber: serial}
	return h
}

// reports makes the BMC of the host report an identity.
func (w *world) reports(g *WithT, uuid, serial string, facts ...v1alpha1.Fact) {
	h := w.host()
	h.Status.Hardware = &v1alpha1.Hardware{SystemUUID: uuid, SerialNumber: serial, Facts: facts}
	g.Expect(w.Client.Status().Update(ctx, h)).To(Succeed())
}

// drain returns the events since the last call.
func (w *world) drain() (all []string) {
	for len(w.events) > 0 {
		all = append(all, <-w.events)
	}
	return all
}

// TestAttackOtherServer: a server that boots with the MAC address of a host gets no plan that touches a disk if BMC and firmware show that it is another server. It ends the
// attempt, and the message has both identities. What identifies no server stops nothing, and is reported.
func TestAttackOtherServer(t *testing.T) {
	requested := func(t *testing.T) *world { t.Helper(); return newRequestedErasureWorld(t, wire.PolicyClear) }
	image := func(t *testing.T) *world { t.Helper(); w, _ := newAgentWorld(t); return w }
	ipmi := func(t *testing.T) *world {
		t.Helper()
		w := image(t)
		w.updateHost(NewWithT(t), func(h *v1alpha1.BareMetalHost) { h.Spec.BMC.Address = "ipmi://192.0.2.1" })
		return w
	}
	inspection := func(t *testing.T) *world { t.Helper(); return newInspectionWorld(t) }
	for name, c := range map[string]struct {
		world        func(*testing.T) *world
		uuid, serial string // in the BMC
		spec         string // systemUUID in the spec
		hello        agent.Hello
		refused      bool
		unknown      bool
		source       string // of the serial number in the BMC
	}{
		"image, the server":                      {world: image, uuid: uuid1, serial: "S1", hello: on(uuid1Swapped, "other label")},
		"image, another UUID":                    {world: image, uuid: uuid1, serial: "S1", hello: on(uuid2, "S1"), refused: true},
		"image, another serial number":           {world: image, serial: "S1", hello: on(uuid2, "S2"), refused: true},
		"image, the BMC reports another":         {world: image, uuid: uuid2, serial: "S1", spec: uuid1Swapped, hello: on(uuid1, "S1")},
		"image, the spec says another":           {world: image, uuid: uuid1, serial: "S1", spec: uuid2, hello: on(uuid1, "S1"), refused: true},
		"image, the spec instead of the chassis": {world: image, serial: "CHASSIS", spec: uuid1, hello: on("", "S1"), unknown: true},
		"image, a GUID of an IPMI BMC":           {world: ipmi, uuid: uuid2, serial: "S1", hello: on(uuid1, "s1")},
		"image, another server by IPMI":          {world: ipmi, uuid: uuid2, serial: "S2", hello: on(uuid1, "S1"), refused: true},
		"image, placeholders":                    {world: image, uuid: "00000000-0000-0000-0000-000000000000", serial: "To be filled by O.E.M.", hello: on(uuid1, "S1"), unknown: true},
		"image, a serial number of the chassis":  {world: image, serial: "CHASSIS", source: "/redfish/v1/Chassis/1", hello: on(uuid1, "S1"), unknown: true},
		"image, a serial number of the system":   {world: image, serial: "S2", source: "/redfish/v1/Systems/1", hello: on(uuid1, "S1"), refused: true},
		"image, no SMBIOS":                       {world: image, uuid: uuid1, serial: "S1", hello: on("", ""), unknown: true},
		"erasure, the server":                    {world: requested, uuid: uuid1, serial: "SN1", hello: on(uuid1, "SN1")},
		"erasure, another UUID":                  {world: requested, uuid: uuid1, serial: "SN1", hello: on(uuid2, "SN1"), refused: true},
		"erasure, only the request, the same":    {world: requested, hello: on(uuid1, "SN1")},
		"erasure, only the request, another":     {world: requested, hello: on(uuid2, "SN2"), refused: true},
		"inspection, another":                    {world: inspection, uuid: uuid1, serial: "S1", hello: on(uuid2, "S2")},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w := c.world(t)
			w.reports(g, c.uuid, c.serial, v1alpha1.Fact{Name: "serialNumber", State: v1alpha1.FactKnown, Source: c.source})
			w.updateHost(g, func(h *v1alpha1.BareMetalHost) { h.Spec.SystemUUID = c.spec })
			r := w.agentRequest(g)
			w.drain()
			plan, err := w.Plan(ctx, r, c.hello)
			recorded := w.drain()
			if !c.refused {
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(w.boot().Spec.DataAddress).NotTo(BeEmpty())
				if plan.Purpose == agent.Inspect || c.serial == "CHASSIS" && c.uuid+c.spec == "" { // nothing is expected
					g.Expect(plan.Server).To(BeZero())
				} else {
					g.Expect(plan.Server.SystemUUID+plan.Server.SerialNumber).NotTo(BeEmpty(), "the agent compares, too")
				}
				unknown := ContainElement(ContainSubstring(controllers.EventServerUnknown))
				if !c.unknown {
					unknown = Not(unknown)
				}
				g.Expect(recorded).To(unknown)
				return
			}
			g.Expect(err).To(MatchError(pxe.ErrOtherServer))
			g.Expect(plan).To(BeZero())
			g.Expect(w.boot().Spec.DataAddress).To(BeEmpty(), "the boot is not bound to another server")
			g.Expect(recorded).To(ContainElement(And(ContainSubstring(wire.ReasonOtherServer), ContainSubstring(c.hello.Server.SerialNumber), ContainSubstring("spec.bootMACAddresses"))))
			g.Expect(lifecycle.IsPermanent(wire.ReasonOtherServer)).To(BeTrue())
		})
	}
}

// TestAttackOtherServerAtTheAgent: an agent that finds the difference restarts its server, which has its own operating system.
func TestAttackOtherServerAtTheAgent(t *testing.T) {
	g := NewWithT(t)
	w, _ := newAgentWorld(t)
	r := w.agentRequest(g)
	_, err := w.Plan(ctx, r, hello)
	g.Expect(err).NotTo(HaveOccurred())
	answer, err := w.Result(ctx, r, agent.Result{Failure: &agent.Failure{Reason: wire.ReasonOtherServer, Message: "another"}})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(answer.Next).To(Equal(agent.Reboot))
	g.Expect(w.boot().Status.Problem.Reason).To(Equal(wire.ReasonOtherServer))
}
