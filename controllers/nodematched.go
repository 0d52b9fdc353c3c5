package controllers

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// conditioned is an object with conditions.
type conditioned interface {
	client.Object
	conditions.Setter
}

// SetNodeMatched sets the condition NodeMatched of a host or a machine, by the Node that was observed in the boot; without one it is removed. want is the
// version of Kubernetes that the Machine asks for, empty where it asks for none.
func SetNodeMatched(o conditioned, node *v1alpha1.ObservedNode, want string) {
	if node == nil {
		conditions.Delete(o, v1alpha1.NodeMatchedCondition)
		return
	}
	c := metav1.Condition{Type: v1alpha1.NodeMatchedCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonNodeMatched, ObservedGeneration: o.GetGeneration()}
	switch {
	case node.Mismatch != nil:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, node.Mismatch.Reason, node.Mismatch.Message
	case otherVersion(node.KubeletVersion, want):
		c.Reason = v1alpha1.ReasonKubeletVersionDiffers
		c.Message = fmt.Sprintf("The kubelet of Node %q has the version %s, and the Machine asks for %s: check which image spec.boot of the machine names", node.Name, node.KubeletVersion, want)
	}
	conditions.Set(o, c)
}

// otherVersion is true for two versions of Kubernetes that differ. What distributions append behind a plus sign says nothing.
func otherVersion(kubelet, want string) bool {
	a, errA := version.ParseSemantic(kubelet)
	b, errB := version.ParseSemantic(want)
	return errA == nil && errB == nil && !a.EqualTo(b)
}

// BareOperation is an operation without what only says how it goes on: whether it is in progress or succeeded, and when. It is nil unless something is wrong.
func BareOperation(o *v1alpha1.Operation) *v1alpha1.Operation {
	if o == nil || o.Outcome == v1alpha1.OperationSucceeded || o.Outcome == "" && o.Message == "" {
		return nil
	}
	return &v1alpha1.Operation{Name: o.Name, Outcome: v1alpha1.OperationFailed, Message: o.Message}
}
