package host

import (
	"context"
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// TestSettingsConflict: a record that conflicted is not sent again for the same version: the API server would answer with another conflict.
func TestSettingsConflict(t *testing.T) {
	g := NewWithT(t)
	scheme := runtime.NewScheme()
	g.Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())
	meta := metav1.ObjectMeta{Namespace: "dc", Name: "h"}
	spec := v1alpha1.BareMetalSettingsSpec{Number: 1, Outcome: v1alpha1.SettingsApplied}
	patches, conflicts := 0, true
	api := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).WithObjects(&v1alpha1.BareMetalSettings{ObjectMeta: meta, Spec: spec}).Build(), interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption) error {
			if patches++; conflicts {
				return apierrors.NewConflict(settingsResource, "h", errors.New("changed"))
			}
			return c.Patch(ctx, o, patch, options...)
		},
	})
	r := &settingsRecords{client: api, apiReader: api}
	host := &v1alpha1.BareMetalHost{ObjectMeta: meta}
	record := func() error {
		return r.record(t.Context(), host, lifecycle.View{BIOS: lifecycle.BIOS{Record: &spec}}, lifecycle.Step{Settings: &v1alpha1.BareMetalSettingsSpec{Number: 2}})
	}
	for range 2 {
		g.Expect(record()).To(MatchError(apierrors.IsConflict, "IsConflict"))
		g.Expect(patches).To(Equal(1))
	}
	conflicts = false
	var changed v1alpha1.BareMetalSettings
	g.Expect(api.Get(t.Context(), client.ObjectKeyFromObject(host), &changed)).To(Succeed())
	changed.Labels = map[string]string{"a": "b"} // another version
	g.Expect(api.Update(t.Context(), &changed)).To(Succeed())
	g.Expect(record()).To(Succeed())
	g.Expect(patches).To(Equal(2))
}
