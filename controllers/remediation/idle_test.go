package remediation_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory"
)

func (b *stepper) is(g Gomega, phase v1alpha1.RemediationPhase, reason string) {
	g.Expect(b.remediation.Status.Phase).To(Equal(phase), conditions.GetMessage(b.remediation, v1alpha1.ReadyCondition))
	g.Expect(conditions.GetReason(b.remediation, v1alpha1.ReadyCondition)).To(Equal(reason))
	g.Expect(b.remediation.Status.Attempt).To(BeZero())
	g.Expect(b.Host.Spec.PowerHolds).NotTo(ContainElement(HaveField("Holder", ContainSubstring("BareMetalRemediation"))))
}

// TestBootAfterLeftAlone: a server that was left alone is not powered off while it boots. It has the time of a power cycle to recover, counted from
// the end of that state.
func TestBootAfterLeftAlone(t *testing.T) {
	long := metav1.NewTime(time.Now().Add(-24 * time.Hour))
	for name, test := range map[string]struct{ take, give, on func(*v1alpha1.BareMetalHost) }{
		"maintenance": {
			take: func(h *v1alpha1.BareMetalHost) { h.Spec.Maintenance = &v1alpha1.Maintenance{Reason: "new fan"} },
			give: func(h *v1alpha1.BareMetalHost) { h.Spec.Maintenance = nil },
		},
		"a hold": {
			take: func(h *v1alpha1.BareMetalHost) {
				h.Spec.PowerHolds = []v1alpha1.PowerHold{{Holder: "anna", Reason: "new fan"}}
				h.Spec.ProviderState.PowerHoldStartTime, h.Spec.ProviderState.PowerHoldOffTime = &long, &long
			},
			give: func(h *v1alpha1.BareMetalHost) { h.Spec.PowerHolds, h.Spec.ProviderState.PowerHoldOffTime = nil, nil },
			on:   func(h *v1alpha1.BareMetalHost) { h.Spec.ProviderState.PowerHoldStartTime = nil },
		},
		"a power hold without a record": {
			take: func(h *v1alpha1.BareMetalHost) { h.Spec.ProviderState.PowerHoldStartTime = &long },
			on:   func(h *v1alpha1.BareMetalHost) { h.Spec.ProviderState.PowerHoldStartTime = nil },
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			b := newStepper(t, func(p *fixture) { test.take(p.Host) })
			b.setHealthCheck(t, metav1.ConditionFalse)
			if test.give != nil {
				b.steps(t, func() bool { return b.remediation.Status.Phase == v1alpha1.RemediationIdle })
				controllerstest.Modify(t, env, b.remediation, func(r *v1alpha1.BareMetalRemediation) { r.Spec.PowerCycle.StartTime = long })
				b.unpaused(t, -24*time.Hour)
				controllerstest.Modify(t, env, b.Host, test.give)
			}
			if test.on != nil {
				b.steps(t, func() bool { return b.remediation.Status.Phase == v1alpha1.RemediationPoweringOn })
				b.unpaused(t, -24*time.Hour)
				b.is(g, v1alpha1.RemediationPoweringOn, v1alpha1.ReasonPoweringOn)
				controllerstest.Modify(t, env, b.Host, test.on)
			}
			b.step(t)
			b.is(g, v1alpha1.RemediationWaiting, v1alpha1.ReasonWaitingForNode)
			b.step(t)
			b.is(g, v1alpha1.RemediationWaiting, v1alpha1.ReasonWaitingForNode)
			controllerstest.Modify(t, env, b.remediation, func(r *v1alpha1.BareMetalRemediation) { r.Spec.PowerCycle.StartTime = long })
			b.steps(t, b.hasPowerHold)
			g.Expect(b.remediation.Spec.PowerCycle.Attempt).To(Equal(int32(1)))
		})
	}
}

// TestHealthyNode: a healthy server is not power-cycled although its remediation still exists. A former healthy result of the MachineHealthCheck does
// not prevent a power cycle when the Node is lost.
func TestHealthyNode(t *testing.T) {
	g := NewWithT(t)
	b := newStepper(t)
	b.setHealthCheck(t, metav1.ConditionTrue)
	b.setNodeReady(t, corev1.ConditionTrue)
	b.steps(t, func() bool { return b.remediation.Status.Phase == v1alpha1.RemediationIdle })
	b.is(g, v1alpha1.RemediationIdle, v1alpha1.ReasonNodeHealthy)
	g.Expect(b.step(t).RequeueAfter).NotTo(BeZero())
	b.setNodeReady(t, corev1.ConditionUnknown)
	b.steps(t, b.hasPowerHold)
}

// TestClusterUnreachable: if no MachineHealthCheck finds the machine unhealthy, and its workload cluster does not answer yet, the remediation waits.
func TestClusterUnreachable(t *testing.T) {
	g := NewWithT(t)
	b := newStepper(t)
	b.r.Clusters = clusterless(t)
	b.steps(t, func() bool { return b.remediation.Status.Phase == v1alpha1.RemediationIdle })
	b.is(g, v1alpha1.RemediationIdle, v1alpha1.ReasonNodeHealthy)
	b.setHealthCheck(t, metav1.ConditionFalse)
	b.steps(t, b.hasPowerHold)
}

// TestHealthyAfterLeftAlone: a server that was healthy while it was left alone counts as recovered.
func TestHealthyAfterLeftAlone(t *testing.T) {
	g := NewWithT(t)
	b := newStepper(t, func(p *fixture) { p.Host.Spec.Maintenance = &v1alpha1.Maintenance{Reason: "new fan"} })
	b.steps(t, func() bool { return b.remediation.Status.Phase == v1alpha1.RemediationIdle })
	b.setNodeReady(t, corev1.ConditionTrue)
	b.node.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(time.Now().Add(-4 * time.Minute))
	g.Expect(env.Client.Status().Update(t.Context(), b.node)).To(Succeed())
	controllerstest.Modify(t, env, b.Host, func(h *v1alpha1.BareMetalHost) { h.Spec.Maintenance = nil })
	b.step(t)
	b.is(g, v1alpha1.RemediationRecovered, v1alpha1.ReasonRecovered)
}

// TestQuarantineEnded: a quarantine that a user ends does not return while the Machine still exists.
func TestQuarantineEnded(t *testing.T) {
	g := NewWithT(t)
	b := newStepper(t, func(p *fixture) {
		p.boot = &v1alpha1.BareMetalBootSpec{Attempt: 3, Failure: &v1alpha1.BootFailure{Reason: v1alpha1.ReasonBootTimedOut, Message: "because"}}
		p.claim.BareMetalMachine.Spec.ProviderID = ""
	})
	b.steps(t, func() bool { return b.remediation.Status.Phase == v1alpha1.RemediationHandedOver })
	g.Expect(b.Host.Spec.Quarantine).NotTo(BeNil())
	controllerstest.Modify(t, env, b.Host, func(h *v1alpha1.BareMetalHost) { h.Spec.Quarantine = nil })
	b.step(t)
	g.Expect(b.Host.Spec.Quarantine).To(BeNil())
	g.Expect(b.replaced(t)).To(BeTrue())
}

// TestTwoHosts: of two hosts with the same consumer only the one that runs the machine is power-cycled. If neither is known to run it, no host is.
func TestTwoHosts(t *testing.T) {
	for name, host := range map[string]string{"the one that runs it": "z", "none that runs it": "other"} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var second *v1alpha1.BareMetalHost
			b := newStepper(t, func(p *fixture) {
				second = p.Host.DeepCopy()
				second.Name, second.Spec.BootMACAddresses = "z", []string{"52:54:00:00:00:ff"}
				p.node.Spec.ProviderID = inventory.ProviderID(p.Host.Namespace, host, p.claim.Machine.Name)
				p.claim.BareMetalMachine.Spec.ProviderID = p.node.Spec.ProviderID
			})
			env.Create(t, second)
			b.setHealthCheck(t, metav1.ConditionFalse)
			for range 4 {
				b.step(t)
			}
			g.Expect(b.Host.Spec.PowerHolds).To(BeEmpty())
			g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(second), second)).To(Succeed())
			if host == "z" {
				g.Expect(second.Spec.PowerHolds).To(HaveLen(1))
				return
			}
			g.Expect(second.Spec.PowerHolds).To(BeEmpty())
			b.is(g, v1alpha1.RemediationIdle, v1alpha1.ReasonHostNotReady)
			g.Expect(b.message()).To(ContainSubstring("Several hosts name"))
		})
	}
}

// TestBootstrapFailedOnce: a machine with a Node is power-cycled even if its first boot reported a failed bootstrap.
func TestBootstrapFailedOnce(t *testing.T) {
	g := NewWithT(t)
	b := newStepper(t, func(p *fixture) {
		p.boot = &v1alpha1.BareMetalBootSpec{Attempt: 1, ReportedTime: new(metav1.Now())}
	})
	boot := controllerstest.BootOf(t, env, b.Host)
	g.Expect(controllers.ApplyStages(t.Context(), env.Client, boot, controllers.NewStage(boot, v1alpha1.StageBootstrapFailed))).To(Succeed())
	b.steps(t, b.hasPowerHold)
	g.Expect(b.remediation.Spec.HandOver).To(BeNil())
}
