package host

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// TestNodeMatched: a host shows that it runs a Node which does not belong to its machine. Ready does not depend on that.
func TestNodeMatched(t *testing.T) {
	g := NewWithT(t)
	h := &v1alpha1.BareMetalHost{}
	view := lifecycle.View{Observed: lifecycle.Observed{Node: &v1alpha1.ObservedNode{Name: "n", Mismatch: &v1alpha1.BootFailure{Reason: v1alpha1.ReasonNodeProviderIDDiffers, Message: "m"}}}}
	setConditions(h, view, lifecycle.Step{})
	ready := conditions.Get(h, v1alpha1.ReadyCondition).DeepCopy()
	g.Expect(conditions.Get(h, v1alpha1.NodeMatchedCondition)).To(HaveValue(And(
		HaveField("Status", metav1.ConditionFalse), HaveField("Reason", v1alpha1.ReasonNodeProviderIDDiffers), HaveField("Message", "m"))))
	view.Observed.Node.Mismatch = nil
	setConditions(h, view, lifecycle.Step{})
	g.Expect(conditions.IsTrue(h, v1alpha1.NodeMatchedCondition)).To(BeTrue())
	g.Expect(conditions.Get(h, v1alpha1.ReadyCondition)).To(Equal(ready))
	view.Observed.Node = nil
	setConditions(h, view, lifecycle.Step{})
	g.Expect(conditions.Get(h, v1alpha1.NodeMatchedCondition)).To(BeNil())
}
