package machine

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

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
		h.Status.Phase, h.Status.LastOperation = host, &v1alpha1.Operation{Name: "PowerOn", Outcome: v1alpha1.OperationSucceeded}
		setPhase(m, h)
		g.Expect(m.Status.Phase).To(Equal(want), "host in phase %q", host)
		g.Expect(m.Status.LastOperation).To(BeNil(), "it succeeded")
		h.Status.LastOperation.Outcome = v1alpha1.OperationFailed
		setPhase(m, h)
		g.Expect(m.Status.LastOperation).To(Equal(h.Status.LastOperation))
		setPhase(m, nil)
		g.Expect(m.Status.Phase).To(Equal(v1alpha1.MachinePending))
		g.Expect(m.Status.LastOperation).To(BeNil())
		m.Status.FailureReason = v1alpha1.ReasonHostLost
		setPhase(m, nil)
		g.Expect(m.Status.Phase).To(Equal(v1alpha1.MachineHostLost))
	}
}

// TestPhaseOfABootedMachine: the status that says that a server has booted needs no second write for its phase. A host that is in another phase is not overruled.
func TestPhaseOfABootedMachine(t *testing.T) {
	g := NewWithT(t)
	for host, want := range map[v1alpha1.HostPhase]v1alpha1.HostPhase{
		v1alpha1.PhaseBooting: v1alpha1.PhaseProvisioned, v1alpha1.PhaseProvisioned: v1alpha1.PhaseProvisioned, v1alpha1.PhaseReleasing: v1alpha1.PhaseReleasing,
	} {
		m, h := &v1alpha1.BareMetalMachine{}, &v1alpha1.BareMetalHost{}
		h.Status.Phase = host
		conditions.Set(m, metav1.Condition{Type: v1alpha1.HostBootedCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonBooted})
		setPhase(m, h)
		g.Expect(m.Status.Phase).To(Equal(string(want)), "host in phase %q", host)
	}
}
