package host_test

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
)

// TestSecretsOfOthers: the provider does not send a Secret to a BMC address if the Secret is not labeled as a BMC Secret, or does not list that address.
// It does not write to such a Secret either.
func TestSecretsOfOthers(t *testing.T) {
	g := NewWithT(t)
	defer start(t)()
	var got atomic.Value
	stranger := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, ok := r.BasicAuth(); ok {
			got.Store(user + ":" + password)
		}
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(stranger.Close)
	server := controllerstest.NewServer(t, env.Namespace(t), "h", bmctest.Options{})
	own := server.Host.Spec.BMC.Address
	server.Host.Spec.BMC.Address = strings.Replace(stranger.URL, "http://", "redfish+http://", 1)
	server.Secret.Labels, server.Secret.Type = nil, corev1.SecretTypeBasicAuth
	register(t, server)
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
		reason(v1alpha1.BMCReadyCondition, v1alpha1.ReasonCredentialsNotLabeled)(g, h)
		g.Expect(conditions.GetMessage(h, v1alpha1.ReadyCondition)).To(ContainSubstring("kubectl label secret h-bmc --namespace %s %s=", h.Namespace, v1alpha1.BMCSecretLabel))
	})
	g.Expect(env.Client.Get(t.Context(), keyOf(server.Secret), server.Secret)).To(Succeed())
	g.Expect(server.Secret.Labels).To(BeEmpty())

	controllerstest.Modify(t, env, server.Secret, func(s *corev1.Secret) {
		s.Labels, s.Annotations = map[string]string{v1alpha1.BMCSecretLabel: ""}, map[string]string{v1alpha1.BMCHostsAnnotation: "192.0.2.1, " + server.BMCIP}
	})
	wait(t, server, reason(v1alpha1.BMCReadyCondition, v1alpha1.ReasonCredentialsNotForBMC))
	g.Expect(got.Load()).To(BeNil(), "the stranger was sent credentials")

	controllerstest.Modify(t, env, server.Host, func(h *v1alpha1.BareMetalHost) { h.Spec.BMC.Address = own })
	wait(t, server, phase(v1alpha1.PhaseAvailable))
	controllerstest.Modify(t, env, server.Secret, func(s *corev1.Secret) { s.Labels = nil })
	wait(t, server, reason(v1alpha1.BMCReadyCondition, v1alpha1.ReasonCredentialsNotLabeled))
	g.Expect(got.Load()).To(BeNil(), "the stranger was sent credentials")
}

// TestServerReplaced: a BMC that reports another server than the inventory gets no power command, also after a restart, until a user confirms that the
// server was replaced.
func TestServerReplaced(t *testing.T) {
	g := NewWithT(t)
	stop := start(t)
	namespace := env.Namespace(t)
	server := controllerstest.NewServer(t, namespace, "h", bmctest.Options{UUID: "8b7a1c2e-0d3f-4a5b-9c6d-00000000007b"})
	other := controllerstest.NewServer(t, namespace, "other", bmctest.Options{UUID: "8b7a1c2e-0d3f-4a5b-9c6d-00000000007c", On: true})
	server.Host.Spec.Power = v1alpha1.PowerOff
	register(t, server)
	wait(t, server, phase(v1alpha1.PhaseAvailable))
	controllerstest.Modify(t, env, server.Host, func(h *v1alpha1.BareMetalHost) { h.Spec.BMC.Address = other.Host.Spec.BMC.Address })
	replaced := func(g Gomega, h *v1alpha1.BareMetalHost) {
		reason(v1alpha1.VerifiedCondition, v1alpha1.ReasonServerReplaced)(g, h)
		g.Expect(conditions.IsTrue(h, v1alpha1.AvailableCondition)).To(BeFalse())
		g.Expect(h.Status.Hardware.SerialNumber).To(Equal("SN-h"), "the inventory stays that of the server that was registered")
	}
	wait(t, server, replaced)
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(h.Status.ObservedGeneration).To(Equal(h.Generation))
	})
	stop()
	before := other.Requests()
	stop = start(t)
	defer func() { stop() }()
	g.Eventually(other.Requests).Should(BeNumerically(">", before), "the next process reads the inventory again")
	controllerstest.Modify(t, env, server.Host, func(h *v1alpha1.BareMetalHost) { h.Spec.FailureDomain = "moved" })
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(h.Status.ObservedGeneration).To(Equal(h.Generation))
		replaced(g, h)
	})
	confirm := func(value string) {
		controllerstest.Modify(t, env, server.Host, func(h *v1alpha1.BareMetalHost) {
			metav1.SetMetaDataAnnotation(&h.ObjectMeta, v1alpha1.ConfirmServerAnnotation, value)
		})
	}
	confirm("yes")
	wait(t, server, replaced)
	g.Expect(other.CommandNames()).To(BeEmpty())

	command := regexp.MustCompile(regexp.QuoteMeta(v1alpha1.ConfirmServerAnnotation) + "=([0-9a-f]{12})").
		FindStringSubmatch(conditions.GetMessage(server.Host, v1alpha1.VerifiedCondition))
	g.Expect(command).To(HaveLen(2))
	confirm(command[1])
	wait(t, server, phase(v1alpha1.PhaseAvailable))
	g.Expect(server.Host.Status.Hardware.SerialNumber).To(Equal("SN-other"))
	g.Expect(other.CommandNames()).To(Equal([]string{"GracefulShutdown"}))
}
