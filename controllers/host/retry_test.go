package host_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
)

// TestRefusedLoginIsNotRepeated: refused logins are not repeated, so that the account is not locked. A user can request an immediate retry.
func TestRefusedLoginIsNotRepeated(t *testing.T) {
	g := NewWithT(t)
	defer start(t)()
	server := controllerstest.NewServer(t, env.Namespace(t), "h", bmctest.Options{})
	server.SetPassword("changed at the BMC alone")
	register(t, server)
	wait(t, server, reason(v1alpha1.ReadyCondition, v1alpha1.ReasonCredentialsRefused))
	g.Expect(conditions.GetMessage(server.Host, v1alpha1.BMCReadyCondition)).To(ContainSubstring(v1alpha1.RetryBMCAnnotation))
	// Reconciles cause no request to the BMC.
	controllerstest.Modify(t, env, server.Host, func(h *v1alpha1.BareMetalHost) { h.Spec.FailureDomain = "rack-1" })
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(h.Status.ObservedGeneration).To(Equal(h.Generation))
	})
	g.Expect(server.Refused()).To(Equal(1))
	server.SetPassword(controllerstest.Password)
	controllerstest.Modify(t, env, server.Host, annotated)
	wait(t, server, phase(v1alpha1.PhaseAvailable))
	wait(t, server, withoutAnnotation)
	g.Expect(server.Refused()).To(Equal(1))
}

// TestRetryIsOneLogin: the annotation causes one login, however often the host is reconciled before the cache shows that the annotation is gone.
func TestRetryIsOneLogin(t *testing.T) {
	g := NewWithT(t)
	defer start(t)()
	server := controllerstest.NewServer(t, env.Namespace(t), "h", bmctest.Options{})
	register(t, server)
	wait(t, server, phase(v1alpha1.PhaseAvailable))
	server.SetPassword("changed at the BMC alone")
	wait(t, server, reason(v1alpha1.ReadyCondition, v1alpha1.ReasonCredentialsRefused))
	g.Expect(server.Host.Status.LastOperation.Outcome).To(Equal(v1alpha1.OperationSucceeded))
	for already := range 2 {
		g.Expect(server.Refused()).To(Equal(1 + already))
		controllerstest.Modify(t, env, server.Host, annotated)
		wait(t, server, withoutAnnotation)
		g.Eventually(server.Refused, 30*time.Second).Should(Equal(2 + already))
		g.Consistently(server.Refused, 500*time.Millisecond).Should(Equal(2 + already))
		wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) { // who requested it sees the outcome
			g.Expect(h.Status.LastOperation).To(HaveValue(And(HaveField("Name", "Inspect"), HaveField("Outcome", v1alpha1.OperationFailed))))
		})
	}
}

// TestRetryWhereNothingIsAsked: in a state without requests to the BMC the annotation is removed, so that it does not take effect weeks later.
func TestRetryWhereNothingIsAsked(t *testing.T) {
	defer start(t)()
	namespace := env.Namespace(t)
	t.Run("paused", func(t *testing.T) {
		server := controllerstest.NewServer(t, namespace, "paused", bmctest.Options{})
		annotated(server.Host)
		server.Host.Annotations[clusterv1.PausedAnnotation] = ""
		register(t, server)
		wait(t, server, withoutAnnotation)
		wait(t, server, reason(clusterv1.PausedCondition, clusterv1.PausedReason))
	})
	t.Run("no Secret", func(t *testing.T) {
		server := controllerstest.NewServer(t, namespace, "secret", bmctest.Options{})
		annotated(server.Host)
		env.Create(t, server.Host)
		wait(t, server, withoutAnnotation)
		wait(t, server, reason(v1alpha1.ReadyCondition, v1alpha1.ReasonCredentialsMissing))
	})
	t.Run("orphaned", func(t *testing.T) {
		server := controllerstest.NewServer(t, namespace, "orphaned", bmctest.Options{})
		annotated(server.Host)
		server.Host.Spec.ConsumerRef = controllerstest.Claimed("nobody")
		register(t, server)
		wait(t, server, withoutAnnotation)
		wait(t, server, phase(v1alpha1.PhaseOrphaned))
	})
}

func annotated(h *v1alpha1.BareMetalHost) {
	h.Annotations = map[string]string{v1alpha1.RetryBMCAnnotation: "the night shift"}
}

func withoutAnnotation(g Gomega, h *v1alpha1.BareMetalHost) {
	g.Expect(h.Annotations).NotTo(HaveKey(v1alpha1.RetryBMCAnnotation))
}

// TestIncapableBMC: a host whose BMC cannot boot it from the network is not available, and says why, until it can.
func TestIncapableBMC(t *testing.T) {
	g := NewWithT(t)
	defer start(t)()
	server := controllerstest.NewServer(t, env.Namespace(t), "h", bmctest.Options{})
	misbehave(t, server, bmctest.NoNetworkBoot, -1)
	register(t, server)
	wait(t, server, reason(v1alpha1.ReadyCondition, v1alpha1.ReasonCapabilityMissing))
	wait(t, server, reason(v1alpha1.AvailableCondition, v1alpha1.ReasonNotVerified))
	g.Expect(conditions.GetMessage(server.Host, v1alpha1.VerifiedCondition)).To(ContainSubstring("BootPXE"))
	g.Expect(server.Host.Status.BMC.Capabilities).To(ContainElement("PowerOn"))

	// With the missing licence the host is available, without a restart.
	misbehave(t, server, bmctest.NoNetworkBoot, 0)
	controllerstest.Modify(t, env, server.Host, annotated)
	wait(t, server, phase(v1alpha1.PhaseAvailable))
}
