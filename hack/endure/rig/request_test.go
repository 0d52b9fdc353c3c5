package rig_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/endure/rig"
)

// TestErasureRequestThatComesBack: a request is carried out once by the real agent, and its record is the outcome. The same manifest erases nothing when it is applied again
// after its record was pruned, when every status was lost, and when the host was created again from a repository, although the server is off each time.
func TestErasureRequestThatComesBack(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	site := rig.NewSite(t, env)
	settings := controllerstest.Settings()
	settings.BootTimeout = 2 * time.Minute
	s := site.Server(t, "s", rig.ServerOptions{Disk: true})
	git := s.Host.DeepCopy()
	s.Register(t)
	start := func() *rig.Provider { return site.Provider(t, rig.Options{Settings: settings}).Start(t).Ready(t) }
	p := start()
	available := func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(conditions.IsTrue(h, v1alpha1.AvailableCondition)).To(BeTrue(), "%+v", h.Status.Conditions)
	}
	controllerstest.Wait(t, env, s.Host, available)
	request := controllerstest.RequestErasure(t, env, s.Host, bmctest.SerialNumber("s"), wire.PolicyClear)
	manifest := request.Spec
	outcome := func(status metav1.ConditionStatus, reason string) {
		t.Helper()
		controllerstest.Wait(t, env, request, func(g Gomega, r *v1alpha1.BareMetalErasureRequest) {
			c := conditions.Get(r, v1alpha1.ErasedCondition)
			g.Expect(c).To(HaveValue(And(HaveField("Status", status), HaveField("Reason", reason))), s.AgentLog())
		})
	}
	outcome(metav1.ConditionTrue, v1alpha1.ReasonErased)
	keys, err := site.ErasureKeys(t.Context(), env.Client)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(site.Proven(t.Context(), env.Client, keys, "s", wire.PolicyClear, "DISK-s")).To(Succeed())
	ons, _ := s.Switched()
	g.Expect(ons).To(Equal(1))

	reapply := func() {
		t.Helper()
		g.Expect(client.IgnoreNotFound(env.Client.Delete(t.Context(), request))).To(Succeed())
		request = &v1alpha1.BareMetalErasureRequest{ObjectMeta: metav1.ObjectMeta{Namespace: site.Namespace, Name: request.Name}, Spec: manifest}
		env.Create(t, request)
	}
	g.Expect(env.Client.DeleteAllOf(t.Context(), &v1alpha1.BareMetalErasure{}, client.InNamespace(site.Namespace))).To(Succeed())
	reapply()
	outcome(metav1.ConditionFalse, v1alpha1.ReasonHostBooted)
	controllerstest.Wait(t, env, s.Host, available)

	g.Expect(p.Stop()).To(Succeed())
	for _, o := range []client.Object{s.Host, &v1alpha1.BareMetalBoot{ObjectMeta: metav1.ObjectMeta{Namespace: site.Namespace, Name: "s"}}, request} {
		g.Expect(env.Client.Status().Patch(t.Context(), o, client.RawPatch("application/merge-patch+json", []byte(`{"status":null}`)))).To(Succeed())
	}
	p = start()
	outcome(metav1.ConditionFalse, v1alpha1.ReasonHostBooted)
	controllerstest.Wait(t, env, s.Host, available)

	g.Expect(env.Client.Delete(t.Context(), s.Host)).To(Succeed())
	env.Gone(t, s.Host)
	reapply()
	outcome(metav1.ConditionFalse, v1alpha1.ReasonHostNotFound)
	s.Host = git
	env.Create(t, git)
	outcome(metav1.ConditionFalse, v1alpha1.ReasonHostRecreated)
	controllerstest.Wait(t, env, s.Host, available)
	g.Expect(s.Host.Spec.ProviderState.Boots).To(BeZero(), "the count alone would fit")
	ons, _ = s.Switched()
	g.Expect(ons).To(Equal(1), "the server was powered on for a request that came back")
	g.Expect(p.Stop()).To(Succeed())
}
