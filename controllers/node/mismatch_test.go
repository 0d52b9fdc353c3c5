package node_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
)

// TestOtherProviderID: the host reported in, but runs a Node of a distribution with an embedded cloud controller, which Cluster API does not find.
// The machine reports the problem and the remedy until that Node is deleted and the machine's Node exists.
func TestOtherProviderID(t *testing.T) {
	g := NewWithT(t)
	start(t)
	p := newPair(t, withHardware(hardware), onHardware(swapped), withUnknownNode, nodeWithID("k3s://m"), func(p *pair) { p.boot.Spec.ReportedTime = new(metav1.Now()) })
	controllerstest.Wait(t, env, p.claim.BareMetalMachine, func(g Gomega, m *v1alpha1.BareMetalMachine) {
		c := conditions.Get(m, v1alpha1.NodeMatchedCondition)
		g.Expect(c).To(HaveValue(And(HaveField("Status", metav1.ConditionFalse), HaveField("Reason", v1alpha1.ReasonNodeProviderIDDiffers))))
		g.Expect(c.Message).To(And(ContainSubstring(`"k3s://m"`), ContainSubstring("--kubelet-arg=provider-id="+p.providerID())))
		g.Expect(m.Status.NodeName).To(BeEmpty())
	})
	g.Expect(env.Client.Delete(t.Context(), p.node)).To(Succeed())
	controllerstest.Wait(t, env, p.claim.BareMetalMachine, func(g Gomega, m *v1alpha1.BareMetalMachine) {
		g.Expect(conditions.Get(m, v1alpha1.NodeMatchedCondition)).To(BeNil())
	})
	status := p.node.Status
	p.node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: p.node.Name + "-again"}}
	env.Create(t, p.node)
	p.node.Status = status
	g.Expect(env.Client.Status().Update(t.Context(), p.node)).To(Succeed())
	p.adopted(t)
	g.Expect(env.Client.Delete(t.Context(), p.host)).To(Succeed())
}

// TestKubeletVersion: a kubelet with another version than the Machine asks for is reported, and nothing fails.
func TestKubeletVersion(t *testing.T) {
	g := NewWithT(t)
	start(t)
	p := newPair(t)
	p.adopted(t)
	version := func(want, reason string) {
		controllerstest.Modify(t, env, p.claim.Machine, func(m *clusterv1.Machine) { m.Spec.Version = want })
		controllerstest.Wait(t, env, p.claim.BareMetalMachine, func(g Gomega, m *v1alpha1.BareMetalMachine) {
			g.Expect(conditions.GetReason(m, v1alpha1.NodeMatchedCondition)).To(Equal(reason))
			g.Expect(conditions.IsTrue(m, v1alpha1.ReadyCondition)).To(BeTrue())
		})
	}
	version("v1.37.0", v1alpha1.ReasonKubeletVersionDiffers)
	g.Expect(conditions.GetMessage(p.claim.BareMetalMachine, v1alpha1.NodeMatchedCondition)).To(And(ContainSubstring("v1.36.3"), ContainSubstring("v1.37.0")))
	version("v1.36.3+k3s1", v1alpha1.ReasonNodeMatched)
	controllerstest.Modify(t, env, p.claim.Machine, func(m *clusterv1.Machine) { m.Spec.Version = "v1.37.0" })
	controllerstest.Modify(t, env, p.node, func(n *corev1.Node) { n.Labels = map[string]string{"any": "change"} })
	node := p.node.DeepCopy()
	node.Status.NodeInfo.KubeletVersion = "v1.37.0"
	g.Expect(env.Client.Status().Update(t.Context(), node)).To(Succeed())
	controllerstest.Wait(t, env, p.claim.BareMetalMachine, func(g Gomega, m *v1alpha1.BareMetalMachine) {
		g.Expect(conditions.GetReason(m, v1alpha1.NodeMatchedCondition)).To(Equal(v1alpha1.ReasonNodeMatched))
	})
}
