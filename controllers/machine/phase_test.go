package machine

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// TestPhase: a claimed machine has the phase of its host, also before the status of the host shows the claim.
func TestPhase(t *testing.T) {
	g := NewWithT(t)
	for host, want := range map[v1alpha1.HostPhase]string{
		"": "Claimed", v1alpha1.PhaseRegistering: "Claimed", v1alpha1.PhaseAvailable: "Claimed", v1alpha1.PhaseUnavailable: "Claimed",
		v1alpha1.PhaseClaimed: "Claimed", v1alpha1.PhaseBooting: "Booting", v1alpha1.PhaseProvisioned: "Provisioned", v1alpha1.PhaseReleasing: "Releasing",
	} {
		m, h := &v1alpha1.BareMetalMachine{}, &v1alpha1.BareMetalHost{}
		h.Status.Phase, h.Status.LastOperation = host, &v1alpha1.Operation{Name: "PowerOn"}
		setPhase(m, h)
		g.Expect(m.Status.Phase).To(Equal(want), "host in phase %q", host)
		g.Expect(m.Status.LastOperation).To(Equal(h.Status.LastOperation))
		setPhase(m, nil)
		g.Expect(m.Status.Phase).To(Equal(v1alpha1.MachinePending))
		g.Expect(m.Status.LastOperation).To(BeNil())
		m.Status.FailureReason = v1alpha1.ReasonHostLost
		setPhase(m, nil)
		g.Expect(m.Status.Phase).To(Equal(v1alpha1.MachineHostLost))
	}
}
