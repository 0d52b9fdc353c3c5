package machine_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
)

// TestPullSecretMoves: `clusterctl move` takes the credentials of an image's registry along, which nothing owns.
func TestPullSecretMoves(t *testing.T) {
	start(t)
	namespace := env.Namespace(t)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "registry"}, StringData: map[string]string{"x": "y"}}
	env.Create(t, secret)
	env.NewClaim(t, namespace, "m", func(c *controllerstest.Claim) {
		c.BareMetalMachine.Spec.Boot = v1alpha1.BootSource{}
		c.BareMetalMachine.Spec.Image = &v1alpha1.Image{URL: "oci://registry.example/os:1", Checksum: "sha256:" + strings.Repeat("0", 64), PullSecret: "registry"}
	})
	controllerstest.Wait(t, env, secret, func(g Gomega, s *corev1.Secret) {
		g.Expect(s.Labels).To(HaveKey(v1alpha1.MoveLabel))
		g.Expect(s.Data).To(HaveKey("x"))
	})
}

// TestBootstrapSecretMoves: `clusterctl move` moves a bootstrap Secret that a user wrote. It finds the Secret of a bootstrap provider by its owner,
// so that one stays unchanged.
func TestBootstrapSecretMoves(t *testing.T) {
	g := NewWithT(t)
	start(t)
	namespace := env.Namespace(t)
	owned := env.NewClaim(t, namespace, "owned", func(c *controllerstest.Claim) {
		c.Bootstrap.OwnerReferences = []metav1.OwnerReference{{APIVersion: "b.example/v1", Kind: "BootstrapConfig", Name: "owned", UID: "a"}}
	})
	byHand := env.NewClaim(t, namespace, "by-hand")
	newHost(t, namespace, "h-1", 1, nil)
	newHost(t, namespace, "h-2", 2, nil)
	labelled := func(g Gomega, s *corev1.Secret) {
		g.Expect(s.Labels).To(HaveKey(v1alpha1.MoveLabel))
		g.Expect(s.Data).To(HaveKey("value"))
	}
	controllerstest.Wait(t, env, byHand.Bootstrap, labelled)
	for _, claim := range []*controllerstest.Claim{owned, byHand} {
		wait(t, claim, func(g Gomega, m *v1alpha1.BareMetalMachine) { g.Expect(m.Status.HostRef).NotTo(BeNil()) })
	}
	controllerstest.Wait(t, env, owned.Bootstrap, func(g Gomega, s *corev1.Secret) { g.Expect(s.Labels).To(BeEmpty()) })
	g.Expect(byHand.Bootstrap.OwnerReferences).To(BeEmpty())
}
