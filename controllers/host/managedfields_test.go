package host_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// TestManagedFields: the managed fields of a host name the inventory as a whole. That also replaces managed fields that name its parts.
func TestManagedFields(t *testing.T) {
	g := NewWithT(t)
	h := &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace(t), Name: "h"}}
	h.Spec.BMC = v1alpha1.BMC{Address: "redfish://192.0.2.1", CredentialsSecretName: "s"}
	h.Spec.BootMACAddresses = []string{"52:54:00:00:00:01"}
	env.Create(t, h)
	write := func(model string) {
		before := h.DeepCopy()
		h.Status.Hardware = &v1alpha1.Hardware{Manufacturer: "v", Model: model}
		g.Expect(env.Client.Status().Patch(t.Context(), h, client.MergeFrom(before), client.FieldOwner("capbm"))).To(Succeed())
	}
	fields := func() *metav1.FieldsV1 {
		for i := range h.ManagedFields {
			if h.ManagedFields[i].Manager == "capbm" {
				return h.ManagedFields[i].FieldsV1
			}
		}
		t.Fatal("no managed fields")
		return nil
	}
	const whole, parts = `"f:hardware":{}`, `"f:hardware":{".":{},"f:manufacturer":{},"f:model":{}}`
	write("a")
	g.Expect(fields().GetRawString()).To(ContainSubstring(whole))
	fields().SetRawString(strings.Replace(fields().GetRawString(), whole, parts, 1))
	g.Expect(env.Client.Update(t.Context(), h)).To(Succeed())
	write("b")
	g.Expect(fields().GetRawString()).To(ContainSubstring(whole))
	g.Expect(h.Status.Hardware).To(HaveValue(HaveField("Model", "b")))
}
