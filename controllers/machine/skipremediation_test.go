package machine_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
)

// running creates a machine that runs on a host, and its Node.
func running(t *testing.T, number int) (*controllerstest.Claim, *v1alpha1.BareMetalHost) {
	t.Helper()
	namespace := env.Namespace(t)
	h := newHost(t, namespace, "h", number, nil)
	claim := env.NewClaim(t, namespace, "m")
	wait(t, claim, has("h"))
	controllerstest.ModifyBoot(t, env, h, func(b *v1alpha1.BareMetalBootSpec) { b.DataAddress, b.ReportedTime = "192.0.2.9", new(metav1.Now()) })
	wait(t, claim, isReady)
	return claim, h
}

func isReady(g Gomega, m *v1alpha1.BareMetalMachine) {
	g.Expect(conditions.IsTrue(m, v1alpha1.ReadyCondition)).To(BeTrue(), conditions.GetMessage(m, v1alpha1.ReadyCondition))
}

// nodeSays writes what the Node of a machine says to the boot of its host.
func nodeSays(t *testing.T, h *v1alpha1.BareMetalHost, readiness v1alpha1.NodeReadiness) {
	t.Helper()
	boot := &v1alpha1.BareMetalBoot{}
	g := NewWithT(t)
	g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(h), boot)).To(Succeed())
	node := &v1alpha1.ObservedNode{Name: "n", Number: boot.Spec.Number, Readiness: readiness, ReadinessTime: new(metav1.Now())}
	g.Expect(controllers.ApplyNode(t.Context(), env.Client, boot, node, controllers.NewStage(boot, v1alpha1.StageNode))).To(Succeed())
}

// setCondition sets a condition of a host.
func setCondition(t *testing.T, h *v1alpha1.BareMetalHost, c metav1.Condition) {
	t.Helper()
	before := h.DeepCopy()
	conditions.Set(h, c)
	NewWithT(t).Expect(env.Client.Status().Patch(t.Context(), h, client.MergeFrom(before))).To(Succeed())
}

func skips(t *testing.T, claim *controllerstest.Claim, want OmegaMatcher) {
	t.Helper()
	controllerstest.Wait(t, env, claim.Machine, func(g Gomega, m *clusterv1.Machine) {
		g.Expect(m.Annotations).To(want)
	})
}

const skip = clusterv1.MachineSkipRemediationAnnotation

// TestSkipRemediation: MachineHealthChecks are kept from a Machine while its host is kept off or in maintenance, and until its Node is Ready after that.
func TestSkipRemediation(t *testing.T) {
	start(t)
	during, after := HaveKeyWithValue(skip, v1alpha1.SkipRemediationValuePrefix+"h"), HaveKeyWithValue(skip, HavePrefix(v1alpha1.SkipRemediationValuePrefix+"h/2"))
	for name, test := range map[string]struct {
		number     int
		set, unset func(*v1alpha1.BareMetalHost)
		reason     string
	}{
		"power hold": {
			61, func(h *v1alpha1.BareMetalHost) {
				h.Spec.PowerHolds = []v1alpha1.PowerHold{{Holder: "anna", Reason: "new disk"}}
			},
			func(h *v1alpha1.BareMetalHost) { h.Spec.PowerHolds = nil }, v1alpha1.ReasonPowerHold,
		},
		"annotation": {
			62, func(h *v1alpha1.BareMetalHost) {
				metav1.SetMetaDataAnnotation(&h.ObjectMeta, v1alpha1.ForcePowerHoldPrefix+"anna", "new disk")
			},
			func(h *v1alpha1.BareMetalHost) { h.Annotations = nil }, v1alpha1.ReasonPowerHold,
		},
		"maintenance": {
			63, func(h *v1alpha1.BareMetalHost) { h.Spec.Maintenance = &v1alpha1.Maintenance{Reason: "new fan"} },
			func(h *v1alpha1.BareMetalHost) { h.Spec.Maintenance = nil }, v1alpha1.ReasonMaintenance,
		},
		"power cycle": {
			66, func(h *v1alpha1.BareMetalHost) {
				metav1.SetMetaDataAnnotation(&h.ObjectMeta, v1alpha1.PowerCyclePrefix+"anna", "new kernel")
			},
			func(h *v1alpha1.BareMetalHost) { h.Annotations = nil }, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			claim, h := running(t, test.number)
			controllerstest.Modify(t, env, h, test.set)
			skips(t, claim, during)
			nodeSays(t, h, v1alpha1.NodeNotReady)
			if test.reason == v1alpha1.ReasonPowerHold {
				setCondition(t, h, metav1.Condition{Type: v1alpha1.BootedCondition, Status: metav1.ConditionFalse, Reason: test.reason, Message: "kept off"})
			}
			wait(t, claim, func(g Gomega, m *v1alpha1.BareMetalMachine) {
				if test.reason == "" {
					isReady(g, m)
					return
				}
				reason(v1alpha1.ReadyCondition, test.reason)(g, m)
				g.Expect(conditions.IsFalse(m, v1alpha1.ReadyCondition)).To(BeTrue())
			})

			controllerstest.Modify(t, env, h, test.unset)
			setCondition(t, h, metav1.Condition{Type: v1alpha1.BootedCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonBooted})
			skips(t, claim, after)
			wait(t, claim, isReady)
			g.Consistently(func(g Gomega) {
				g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(claim.Machine), claim.Machine)).To(Succeed())
				g.Expect(claim.Machine.Annotations).To(after, "the Node is not Ready yet")
			}, 500*time.Millisecond, 50*time.Millisecond).Should(Succeed())
			nodeSays(t, h, v1alpha1.NodeReady)
			skips(t, claim, Not(HaveKey(skip)))
		})
	}
}

// TestRemediationIsCounted: the power hold of a remediation does not keep MachineHealthChecks from its Machine: a MachineHealthCheck that does not count it starts one more.
func TestRemediationIsCounted(t *testing.T) {
	start(t)
	claim, h := running(t, 67)
	controllerstest.Modify(t, env, h, func(h *v1alpha1.BareMetalHost) {
		h.Spec.PowerHolds = []v1alpha1.PowerHold{{Holder: v1alpha1.RemediationHolderPrefix + "m", Reason: "fenced"}}
	})
	setCondition(t, h, metav1.Condition{Type: v1alpha1.BootedCondition, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonPowerHold, Message: "kept off"})
	wait(t, claim, reason(v1alpha1.ReadyCondition, v1alpha1.ReasonPowerHold))
	skips(t, claim, Not(HaveKey(skip)))
}

// TestSkipRemediationOfUser: an annotation that a user set is neither changed nor removed.
func TestSkipRemediationOfUser(t *testing.T) {
	start(t)
	claim, h := running(t, 64)
	controllerstest.Modify(t, env, claim.Machine, func(m *clusterv1.Machine) { metav1.SetMetaDataAnnotation(&m.ObjectMeta, skip, "") })
	controllerstest.Modify(t, env, h, func(h *v1alpha1.BareMetalHost) { h.Spec.Maintenance = &v1alpha1.Maintenance{Reason: "new fan"} })
	wait(t, claim, reason(v1alpha1.ReadyCondition, v1alpha1.ReasonMaintenance))
	controllerstest.Modify(t, env, h, func(h *v1alpha1.BareMetalHost) { h.Spec.Maintenance = nil })
	wait(t, claim, isReady)
	skips(t, claim, HaveKeyWithValue(skip, ""))
}

// TestMachineOfServerThatIsOff: a machine whose server is off is not Ready.
func TestMachineOfServerThatIsOff(t *testing.T) {
	start(t)
	claim, h := running(t, 65)
	off := metav1.Condition{Type: v1alpha1.BootedCondition, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonPoweredOff, Message: "off since noon"}
	setCondition(t, h, off)
	wait(t, claim, func(g Gomega, m *v1alpha1.BareMetalMachine) {
		for _, kind := range []string{v1alpha1.HostBootedCondition, v1alpha1.ReadyCondition} {
			c := conditions.Get(m, kind)
			g.Expect([]string{string(c.Status), c.Reason, c.Message}).To(Equal([]string{"False", v1alpha1.ReasonPoweredOff, "off since noon"}))
		}
		g.Expect(m.Status.FailureReason).To(BeEmpty(), "it is not lost")
		g.Expect(m.Status.Initialization.Provisioned).To(HaveValue(BeTrue()))
	})
	setCondition(t, h, metav1.Condition{Type: v1alpha1.BootedCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonPowerDisputed, Message: "the Node is Ready"})
	wait(t, claim, func(g Gomega, m *v1alpha1.BareMetalMachine) {
		isReady(g, m)
		g.Expect(conditions.GetMessage(m, v1alpha1.HostBootedCondition)).To(Equal("the Node is Ready"))
	})
	setCondition(t, h, metav1.Condition{Type: v1alpha1.BootedCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonBooted})
	wait(t, claim, reason(v1alpha1.HostBootedCondition, v1alpha1.ReasonBooted))
}
