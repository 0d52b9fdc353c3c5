package boot_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

// newConfigureWorld is newWorld for a free host that restarts with new firmware settings.
func newConfigureWorld(t *testing.T) *world {
	t.Helper()
	w, g := newWorld(), NewWithT(t)
	w.updateHost(g, func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef, h.Spec.ProviderState.SettingsRuns = nil, 1 })
	g.Expect(w.changeBoot(func(b *v1alpha1.BareMetalBootSpec) {
		b.Purpose, b.Agent, b.ClaimID, b.MachineName = v1alpha1.PurposeConfigure, true, "settings-1", ""
	})).To(Succeed())
	return w
}

// TestAgentConfigures: the agent of a restart with new settings gets a plan that does nothing, no data and no image, and ends the boot. The boot server reads no
// BareMetalSettings for that.
func TestAgentConfigures(t *testing.T) {
	for name, claimed := range map[string]bool{"free": false, "claimed meanwhile": true} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w := newConfigureWorld(t)
			r := w.agentRequest(g)
			plan, err := w.Plan(ctx, r, hello)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(plan.Purpose).To(Equal(agent.Configure))
			g.Expect(plan.Configure).NotTo(BeNil())
			g.Expect([]any{plan.Clean, plan.Provision, plan.Inspect}).To(HaveEach(BeNil()))
			g.Expect(plan.Title).To(Equal("dc/h, restart with new firmware settings, attempt 1"))
			if claimed {
				w.updateHost(g, func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef = controllerstest.Claimed("m") })
			}
			_, err = w.Data(ctx, r, sda, "http://boot")
			g.Expect(err).To(MatchError(pxe.ErrRefused))
			g.Expect(w.Commit(ctx, r, agent.CommitRequest{Disk: sda.Disk})).To(MatchError(pxe.ErrRefused))
			g.Expect(w.Inventory(ctx, r, wire.Inspection{})).To(MatchError(pxe.ErrRefused))
			next, err := w.Result(ctx, r, agent.Result{SecureBoot: wire.SecureBootEnabled})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(next.Next).To(Equal(agent.PowerOff))
			g.Expect(w.boot().Spec.AgentDoneTime).NotTo(BeNil())
			g.Expect(w.boot().Spec.AgentSecureBoot).To(Equal(wire.SecureBootEnabled), "it does not depend on the status")
			g.Expect(w.boot().Spec.DataServedTime).To(BeNil())
		})
	}
}

// TestNoAgentWithoutRun: after the end of the run the boot is over, whatever its record says.
func TestNoAgentWithoutRun(t *testing.T) {
	g := NewWithT(t)
	w := newConfigureWorld(t)
	w.updateHost(g, func(h *v1alpha1.BareMetalHost) { h.Spec.ProviderState.SettingsRunsEnded = 1 })
	answer, err := w.Lookup(ctx, booting)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(answer.Agent).To(BeEmpty())
}
