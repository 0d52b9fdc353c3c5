package chain

import (
	"cmp"
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/access"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/why"
)

// anyOwner is an owner of Machines of any kind, such as the control plane of another provider.
type anyOwner struct{ *unstructured.Unstructured }

// GetConditions returns the conditions in the status. They are empty if they do not have the usual form.
func (o anyOwner) GetConditions() []metav1.Condition {
	content, _, _ := unstructured.NestedFieldNoCopy(o.Object, "status")
	fields, ok := content.(map[string]any)
	if !ok {
		return nil
	}
	var status struct {
		Conditions []metav1.Condition `json:"conditions,omitempty"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(map[string]any{"conditions": fields["conditions"]}, &status); err != nil {
		return nil
	}
	return status.Conditions
}

// owner reads an owner of Machines. apiVersion may be empty for the kinds that this program knows.
func (r *reading) owner(ctx context.Context, kind, name, apiVersion string) bool {
	if name == "" || r.err != nil {
		return false
	}
	known := clusterv1.GroupVersion.String()
	if kind == kindKubeadmControlPlane {
		known = clusterv1.GroupVersionControlPlane.String()
	}
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(cmp.Or(apiVersion, known))
	object.SetKind(kind)
	r.requests++
	if err := access.Get(ctx, r.Client, client.ObjectKey{Namespace: r.Namespace, Name: name}, object); err != nil {
		r.unread(kind, name, err)
		return false
	}
	r.objects.Owner = why.Owner{Kind: kind, Object: anyOwner{object}}
	return true
}
