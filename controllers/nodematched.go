package controllers

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// conditionSetter is an object with conditions.
type conditionSetter interface {
	client.Object
	conditions.Setter
}

// SetNodeMatched sets the condition NodeMatched of a host or a machine from the Node that was observed in the boot. Without a Node it deletes the
// condition. wantVersion is the Kubernetes version of the Machine, empty if it asks for none.
func SetNodeMatched(o conditionSetter, node *v1alpha1.ObservedNode, wantVersion string) {
	if node == nil {
		conditions.Delete(o, v1alpha1.NodeMatchedCondition)
		return
	}
	c := metav1.Condition{Type: v1alpha1.NodeMatchedCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonNodeMatched, ObservedGeneration: o.GetGeneration()}
	switch {
	case node.Mismatch != nil:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, node.Mismatch.Reason, node.Mismatch.Message
	case versionsDiffer(node.KubeletVersion, wantVersion):
		c.Reason = v1alpha1.ReasonKubeletVersionDiffers
		c.Message = fmt.Sprintf("The kubelet of Node %q has the version %s, but the Machine asks for %s: check which image spec.boot of the BareMetalMachine names", node.Name, node.KubeletVersion, wantVersion)
	}
	conditions.Set(o, c)
}

// versionsDiffer is true for two different versions of Kubernetes. The build metadata that distributions append after a plus sign is ignored.
func versionsDiffer(kubelet, want string) bool {
	a, errA := version.ParseSemantic(kubelet)
	b, errB := version.ParseSemantic(want)
	return errA == nil && errB == nil && !a.EqualTo(b)
}
