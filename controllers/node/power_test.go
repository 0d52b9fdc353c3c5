package node_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
)

// says waits until the boot shows what the Node says about its server.
func (p *pair) says(t *testing.T, want v1alpha1.NodeReadiness) {
	t.Helper()
	controllerstest.Wait(t, env, p.boot, func(g Gomega, b *v1alpha1.BareMetalBoot) {
		g.Expect(controllers.NodeOf(b)).To(HaveValue(HaveField("Readiness", want)))
		g.Expect(controllers.ObservedStage(b, v1alpha1.StageNode)).NotTo(BeNil(), "the stage is kept")
	})
}

// power sets the power that the BMC of the host reports.
func (p *pair) power(t *testing.T, state v1alpha1.PowerState) {
	t.Helper()
	g := NewWithT(t)
	g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(p.host), p.host)).To(Succeed())
	before := p.host.DeepCopy()
	p.host.Status.Power = state
	g.Expect(env.Client.Status().Patch(t.Context(), p.host, client.MergeFrom(before))).To(Succeed())
}

// ready sets the condition Ready of the Node.
func (p *pair) ready(t *testing.T, status corev1.ConditionStatus) {
	t.Helper()
	g := NewWithT(t)
	g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(p.node), p.node)).To(Succeed())
	p.node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, LastTransitionTime: metav1.NewTime(time.Now().Add(-time.Hour))}}
	g.Expect(env.Client.Status().Update(t.Context(), p.node)).To(Succeed())
}

// TestNodeOfServerThatIsOff: while the BMC reports "off", the boot shows what the Node says; also while the host is kept off, and when the Node is gone.
func TestNodeOfServerThatIsOff(t *testing.T) {
	g := NewWithT(t)
	start(t)
	p := newPair(t)
	p.adopted(t)
	p.ready(t, corev1.ConditionTrue)
	p.power(t, v1alpha1.PowerOff)
	p.says(t, v1alpha1.NodeReady)
	p.ready(t, corev1.ConditionUnknown)
	p.says(t, v1alpha1.NodeNotReady)
	p.power(t, v1alpha1.PowerOn)
	p.ready(t, corev1.ConditionTrue)
	p.says(t, v1alpha1.NodeReady)

	controllerstest.Modify(t, env, p.host, func(h *v1alpha1.BareMetalHost) {
		h.Spec.PowerHolds = []v1alpha1.PowerHold{{Holder: "anna", Reason: "new disk"}}
	})
	p.power(t, v1alpha1.PowerOff)
	p.ready(t, corev1.ConditionUnknown)
	p.says(t, v1alpha1.NodeNotReady)
	controllerstest.Modify(t, env, p.host, func(h *v1alpha1.BareMetalHost) { h.Spec.PowerHolds = nil })

	g.Expect(env.Client.Delete(t.Context(), p.node)).To(Succeed())
	p.says(t, v1alpha1.NodeUnreadable)
}

// TestNodeThatIsNotReady: a Node that was not Ready for a minute is recorded although the BMC reports "on": the power is read again then.
func TestNodeThatIsNotReady(t *testing.T) {
	start(t)
	p := newPair(t, func(p *pair) { p.host.Status.Power = v1alpha1.PowerOn })
	p.adopted(t)
	p.ready(t, corev1.ConditionFalse)
	p.says(t, v1alpha1.NodeNotReady)
	p.ready(t, corev1.ConditionTrue)
	p.says(t, v1alpha1.NodeReady)
}

// TestClusterOfServerThatIsOff: the cluster does not answer when the provider starts, as its API server was lost together with the server.
func TestClusterOfServerThatIsOff(t *testing.T) {
	g := NewWithT(t)
	start(t)
	p := preparePair(t, func(p *pair) { p.boot.Spec.ReportedTime = new(metav1.Now()) })
	p.create(t)
	node := &v1alpha1.ObservedNode{Name: p.node.Name, Number: p.boot.Spec.Number}
	g.Expect(controllers.ApplyNode(t.Context(), env.Client, p.boot, node, controllers.NewStage(p.boot, v1alpha1.StageNode))).To(Succeed())
	controllerstest.Wait(t, env, p.claim.BareMetalMachine, func(g Gomega, m *v1alpha1.BareMetalMachine) { g.Expect(m.Spec.ProviderID).NotTo(BeEmpty()) })
	p.power(t, v1alpha1.PowerOff)
	p.says(t, v1alpha1.NodeUnreadable)
}
