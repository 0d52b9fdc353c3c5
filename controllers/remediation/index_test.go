package remediation

import (
	"context"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// TestRemediationsOfMachine: a change of a Machine enqueues only its own remediations, and reads no others.
func TestRemediationsOfMachine(t *testing.T) {
	g := NewWithT(t)
	scheme := runtime.NewScheme()
	g.Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())
	read := 0
	builder := fake.NewClientBuilder().WithScheme(scheme).WithIndex(&v1alpha1.BareMetalRemediation{}, machineIndex, ownerMachines).
		WithInterceptorFuncs(interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				err := c.List(ctx, list, opts...)
				if all, ok := list.(*v1alpha1.BareMetalRemediationList); ok {
					read += len(all.Items)
				}
				return err
			},
		})
	for i := range 20 {
		builder.WithObjects(&v1alpha1.BareMetalRemediation{ObjectMeta: metav1.ObjectMeta{
			Namespace: "dc", Name: fmt.Sprintf("r-%d", i), OwnerReferences: []metav1.OwnerReference{
				{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: fmt.Sprintf("m-%d", i), UID: "1"},
				{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: "m-7", UID: "2"},
			},
		}})
	}
	r := &Reconciler{Client: builder.Build()}
	machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "dc", Name: "m-7"}}
	g.Expect(r.remediationsOfMachine(t.Context(), machine)).To(Equal([]reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: "dc", Name: "r-7"}}}))
	g.Expect(read).To(Equal(1))
}
