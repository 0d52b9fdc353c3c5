package main

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// TestHostPolicy: while a machine has a host, no user can change the addresses by which the provider reaches and recognises its server, unless the host is
// detached.
func TestHostPolicy(t *testing.T) {
	g := NewWithT(t)
	var installed int
	for _, o := range build(t, "rbac") {
		if o.GetName() == "capbm-system-hosts" {
			env.Create(t, &o)
			installed++
		}
	}
	g.Expect(installed).To(Equal(2))
	host := &v1alpha1.BareMetalHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace(t), Name: "h"},
		Spec: v1alpha1.BareMetalHostSpec{
			BMC: v1alpha1.BMC{Address: "redfish://192.0.2.1", CredentialsSecretName: "s"}, BootMACAddress: "52:54:00:00:09:01",
			ConsumerRef: &v1alpha1.ConsumerReference{Name: "m", ClaimID: "claim"},
		},
	}
	env.Create(t, host)
	patch := func(change func(*v1alpha1.BareMetalHost)) error {
		changed := host.DeepCopy()
		change(changed)
		return env.Client.Patch(t.Context(), changed, client.MergeFrom(host), client.DryRunAll)
	}
	address := func(h *v1alpha1.BareMetalHost) { h.Spec.BMC.Address = "redfish://192.0.2.2" }
	mac := func(h *v1alpha1.BareMetalHost) { h.Spec.BootMACAddress = "52:54:00:00:09:02" }
	// A policy takes effect a moment after it was created.
	g.Eventually(func() error { return patch(address) }, 30*time.Second).Should(MatchError(ContainSubstring("spec.bmc.address must not change while a machine has the host")))
	g.Expect(patch(mac)).To(MatchError(ContainSubstring("spec.bootMACAddress must not change while a machine has the host")))
	detach := func(h *v1alpha1.BareMetalHost) {
		metav1.SetMetaDataAnnotation(&h.ObjectMeta, v1alpha1.DetachedAnnotation, "a new BMC")
	}
	g.Expect(patch(func(h *v1alpha1.BareMetalHost) { detach(h); address(h) })).NotTo(Succeed(), "the host is detached first: the provider may be at work")
	g.Expect(patch(func(h *v1alpha1.BareMetalHost) { h.Spec.FailureDomain = "x" })).To(Succeed())
	g.Expect(patch(func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef = nil })).To(Succeed())

	before := host.DeepCopy()
	detach(host)
	g.Expect(env.Client.Patch(t.Context(), host, client.MergeFrom(before))).To(Succeed())
	g.Expect(patch(address)).To(Succeed())
	g.Expect(patch(mac)).To(Succeed())
	before = host.DeepCopy()
	host.Annotations, host.Spec.ConsumerRef = nil, nil
	g.Expect(env.Client.Patch(t.Context(), host, client.MergeFrom(before))).To(Succeed())
	g.Expect(patch(address)).To(Succeed(), "no machine has it")
}
