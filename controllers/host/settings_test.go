package host_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/host"
)

// startProfiles runs the host controller with the component that applies profiles.
func startProfiles(t *testing.T, clock *shiftedClock) func() {
	t.Helper()
	return startReconciler(t, &host.Reconciler{Settings: controllerstest.Settings(), Clock: clock, Profiles: true})
}

// profileOf creates a profile for all hosts of a namespace with a model that bmctest emulates, which wishes one attribute.
func profileOf(t *testing.T, namespace, attribute, value string, change ...func(*v1alpha1.BareMetalProfileSpec)) *v1alpha1.BareMetalProfile {
	t.Helper()
	p := &v1alpha1.BareMetalProfile{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "p"}}
	p.Spec.Hosts.Selector = &v1alpha1.HostSelector{MatchLabels: map[string]v1alpha1.LabelValue{"profile": "p"}}
	p.Spec.BIOSSettings = []v1alpha1.BIOSSetting{{Name: attribute, Value: new(intstr.FromString(value))}}
	p.Spec.Rollout.State = v1alpha1.RolloutActive
	for _, c := range change {
		c(&p.Spec)
	}
	env.Create(t, p)
	return p
}

// profiledServer registers a server that the profile selects.
func profiledServer(t *testing.T, namespace, name string) *controllerstest.Server {
	t.Helper()
	server := controllerstest.NewServer(t, namespace, name, bmctest.Options{})
	server.Host.Labels = map[string]string{"profile": "p"}
	register(t, server)
	return server
}

// endRestart does what the boot server does when the agent of a settings run is done.
func endRestart(t *testing.T, server *controllerstest.Server) {
	t.Helper()
	g := NewWithT(t)
	wait(t, server, phase(v1alpha1.PhaseConfiguring))
	g.Eventually(server.On, inspectionTimeout).Should(BeTrue())
	boot := controllerstest.BootOf(t, env, server.Host)
	g.Expect(boot.Spec.Purpose).To(Equal(v1alpha1.PurposeConfigure))
	controllerstest.Modify(t, env, boot, func(b *v1alpha1.BareMetalBoot) { b.Spec.AgentDoneTime = new(metav1.Now().Rfc3339Copy()) })
}

// settingsOf returns the BareMetalSettings of a server.
func settingsOf(t *testing.T, server *controllerstest.Server) *v1alpha1.BareMetalSettings {
	t.Helper()
	object := &v1alpha1.BareMetalSettings{}
	NewWithT(t).Expect(env.Client.Get(t.Context(), keyOf(server.Host), object)).To(Succeed())
	return object
}

// staged counts the changes of BIOS attributes that a server got.
func staged(server *controllerstest.Server) (n int) {
	for _, name := range server.CommandNames() {
		if strings.HasPrefix(name, "BIOS=") {
			n++
		}
	}
	return n
}

// TestSettingsRun: a new host gets the settings of its profile before it is available: one change, one restart, and the values are read again.
func TestSettingsRun(t *testing.T) {
	g := NewWithT(t)
	defer startProfiles(t, &shiftedClock{})()
	namespace := env.Namespace(t)
	profileOf(t, namespace, "WorkloadProfile", "LowLatency")
	server := profiledServer(t, namespace, "h")
	endRestart(t, server)
	wait(t, server, phase(v1alpha1.PhaseAvailable))
	g.Expect(server.BIOS()).To(HaveKeyWithValue("WorkloadProfile", "LowLatency"))
	g.Expect(server.On()).To(BeFalse())
	g.Expect(staged(server)).To(Equal(1))
	g.Expect(server.Host.Spec.ProviderState.SettingsRuns).To(Equal(int32(1)))
	g.Expect(server.Host.Spec.ProviderState.SettingsRunsEnded).To(Equal(int32(1)))
	g.Expect(controllerstest.BootOf(t, env, server.Host).Spec.VoidedTime).NotTo(BeNil())
	object := settingsOf(t, server)
	g.Expect(object.Spec.Outcome).To(Equal(v1alpha1.SettingsApplied))
	g.Expect(object.Spec.Changes).To(ConsistOf(v1alpha1.SettingChange{Name: "WorkloadProfile", Before: "Custom", Value: "LowLatency"}))
	g.Expect(object.Spec.StagingTime).NotTo(BeNil())
	g.Expect(object.OwnerReferences).To(ConsistOf(HaveField("Name", "h")))
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(conditions.IsTrue(h, v1alpha1.SettingsConformCondition)).To(BeTrue(), conditions.GetMessage(h, v1alpha1.SettingsConformCondition))
	})
	g.Eventually(func() *int32 { return settingsOf(t, server).Status.DifferenceCount }, time.Minute).Should(HaveValue(BeZero()))
}

// TestSettingsConform: a server that has the settings gets no write and no restart.
func TestSettingsConform(t *testing.T) {
	g := NewWithT(t)
	defer startProfiles(t, &shiftedClock{})()
	namespace := env.Namespace(t)
	profileOf(t, namespace, "PatrolScrubHours", "24")
	server := profiledServer(t, namespace, "h")
	wait(t, server, phase(v1alpha1.PhaseAvailable))
	wait(t, server, reason(v1alpha1.SettingsConformCondition, v1alpha1.ReasonSettingsConform))
	g.Expect(server.Host.Status.SettingsProfile).To(Equal("p"), "a machine can demand it")
	g.Expect(server.CommandNames()).To(BeEmpty())
	g.Expect(server.Host.Spec.ProviderState.SettingsRuns).To(BeZero())
}

// TestSettingsPaused: a profile that is paused shows what it would change, and changes nothing. Also a profile that is refused changes nothing.
func TestSettingsPaused(t *testing.T) {
	for name, test := range map[string]struct {
		attribute, value string
		change           func(*v1alpha1.BareMetalProfileSpec)
		phase            v1alpha1.HostPhase
		reason           string
	}{
		"paused":            {"WorkloadProfile", "LowLatency", func(s *v1alpha1.BareMetalProfileSpec) { s.Rollout.State = v1alpha1.RolloutPaused }, v1alpha1.PhaseAvailable, v1alpha1.ReasonSettingsDiffer},
		"refused":           {"WorkloadProfil", "LowLatency", func(*v1alpha1.BareMetalProfileSpec) {}, v1alpha1.PhaseAvailable, v1alpha1.ReasonSettingsRefused},
		"refused, required": {"WorkloadProfil", "LowLatency", func(s *v1alpha1.BareMetalProfileSpec) { s.Enforcement = v1alpha1.EnforceRequired }, v1alpha1.PhaseUnavailable, v1alpha1.ReasonSettingsRefused},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			defer startProfiles(t, &shiftedClock{})()
			namespace := env.Namespace(t)
			profileOf(t, namespace, test.attribute, test.value, test.change)
			server := profiledServer(t, namespace, "h")
			wait(t, server, reason(v1alpha1.SettingsConformCondition, test.reason))
			wait(t, server, phase(test.phase))
			g.Expect(conditions.GetMessage(server.Host, v1alpha1.SettingsConformCondition)).To(ContainSubstring("WorkloadProfile"), "the nearest name, or the difference")
			g.Expect(staged(server)).To(BeZero())
			g.Expect(server.Host.Spec.ProviderState.SettingsRuns).To(BeZero())
		})
	}
}

// TestSettingsOfTwoProfiles: a host that two profiles select gets the settings of neither, and names both.
func TestSettingsOfTwoProfiles(t *testing.T) {
	g := NewWithT(t)
	defer startProfiles(t, &shiftedClock{})()
	namespace := env.Namespace(t)
	first := profileOf(t, namespace, "WorkloadProfile", "LowLatency")
	second := &v1alpha1.BareMetalProfile{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "q"}, Spec: *first.Spec.DeepCopy()}
	env.Create(t, second)
	server := profiledServer(t, namespace, "h")
	wait(t, server, phase(v1alpha1.PhaseAvailable))
	wait(t, server, reason(v1alpha1.SettingsConformCondition, v1alpha1.ReasonSettingsProfilesConflict))
	g.Expect(conditions.GetMessage(server.Host, v1alpha1.SettingsConformCondition)).To(And(ContainSubstring(`"p"`), ContainSubstring(`"q"`)))
	g.Expect(server.Host.Status.SettingsProfile).To(BeEmpty())
	g.Expect(server.Host.Spec.ProviderState.SettingsRuns).To(BeZero())
	g.Expect(server.CommandNames()).To(BeEmpty())
	g.Expect(env.Client.Delete(t.Context(), second)).To(Succeed())
	wait(t, server, reason(v1alpha1.SettingsConformCondition, v1alpha1.ReasonSettingsDiffer))
}

// TestSettingsNotApplied: a server that does not have the settings after its restart goes into quarantine, with what was wished and what was observed. It is not tried
// again with the same profile.
func TestSettingsNotApplied(t *testing.T) {
	g := NewWithT(t)
	clock := &shiftedClock{}
	defer startProfiles(t, clock)()
	namespace := env.Namespace(t)
	profileOf(t, namespace, "WorkloadProfile", "LowLatency")
	server := failedServer(t, namespace, "h", clock)
	g.Expect(server.Host.Spec.Quarantine.Reason).To(Equal(v1alpha1.ReasonSettingsNotApplied))
	g.Expect(server.Host.Spec.Quarantine.Message).To(And(ContainSubstring("WorkloadProfile"), ContainSubstring("LowLatency"), ContainSubstring("Custom")))
	g.Expect(settingsOf(t, server).Spec.Outcome).To(Equal(v1alpha1.SettingsFailed))
	g.Expect(staged(server)).To(Equal(1))
}

// failedServer registers a server that the profile selects, and whose firmware ignores what is pending. It returns when its run has failed, and the host is in quarantine.
func failedServer(t *testing.T, namespace, name string, clock *shiftedClock) *controllerstest.Server {
	t.Helper()
	server := controllerstest.NewServer(t, namespace, name, bmctest.Options{})
	server.Host.Labels = map[string]string{"profile": "p"}
	misbehave(t, server, bmctest.BIOSNeverApplied, -1)
	register(t, server)
	endRestart(t, server)
	NewWithT(t).Eventually(server.On, time.Minute).Should(BeFalse())
	clock.forward(11 * time.Minute)
	controllerstest.Modify(t, env, server.Host, func(h *v1alpha1.BareMetalHost) { h.Annotations = map[string]string{"wake": "up"} })
	wait(t, server, phase(v1alpha1.PhaseQuarantined))
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(h.Spec.ProviderState.SettingsRunsEnded).To(Equal(int32(1)))
	})
	return server
}

// TestSettingsLeftPending: what a run that failed has left pending keeps the host from being offered after its quarantine, also when the profile is deleted, and after a
// restart of the provider.
func TestSettingsLeftPending(t *testing.T) {
	g := NewWithT(t)
	clock := &shiftedClock{}
	stop := startProfiles(t, clock)
	namespace := env.Namespace(t)
	p := profileOf(t, namespace, "WorkloadProfile", "LowLatency")
	server := failedServer(t, namespace, "h", clock)
	stop()
	g.Expect(env.Client.Delete(t.Context(), p)).To(Succeed())
	controllerstest.Modify(t, env, server.Host, func(h *v1alpha1.BareMetalHost) { h.Spec.Quarantine = nil })
	defer startProfiles(t, clock)()
	wait(t, server, reason(v1alpha1.AvailableCondition, v1alpha1.ReasonSettingsForeign))
	g.Expect(conditions.GetMessage(server.Host, v1alpha1.AvailableCondition)).To(ContainSubstring("WorkloadProfile=LowLatency"))
}

// TestForeignSettings: values that somebody else has staged keep the host from being offered, and stop every run.
func TestForeignSettings(t *testing.T) {
	g := NewWithT(t)
	defer startProfiles(t, &shiftedClock{})()
	namespace := env.Namespace(t)
	profileOf(t, namespace, "WorkloadProfile", "LowLatency")
	server := controllerstest.NewServer(t, namespace, "h", bmctest.Options{})
	server.Host.Labels = map[string]string{"profile": "p"}
	server.StageForeignBIOS("BootMode", "LegacyBios")
	register(t, server)
	wait(t, server, reason(v1alpha1.AvailableCondition, v1alpha1.ReasonSettingsForeign))
	g.Expect(conditions.GetMessage(server.Host, v1alpha1.AvailableCondition)).To(ContainSubstring("BootMode=LegacyBios"))
	g.Expect(staged(server)).To(BeZero())
	g.Expect(server.On()).To(BeFalse())
}

// TestPendingAtBoot: a boot for a machine that applies what somebody else has staged is not held up, and says so in one event.
func TestPendingAtBoot(t *testing.T) {
	g := NewWithT(t)
	defer startProfiles(t, &shiftedClock{})()
	server := controllerstest.NewServer(t, env.Namespace(t), "h", bmctest.Options{})
	register(t, server)
	wait(t, server, phase(v1alpha1.PhaseAvailable))
	server.StageForeignBIOS("BootMode", "LegacyBios")
	claimed(t, server, "m")
	g.Eventually(server.On, inspectionTimeout).Should(BeTrue())
	notes := []string{}
	g.Eventually(func(g Gomega) {
		var all eventsv1.EventList
		g.Expect(env.Client.List(t.Context(), &all, client.InNamespace(server.Host.Namespace))).To(Succeed())
		notes = notes[:0]
		for _, e := range all.Items {
			if e.Reason == controllers.EventSettingsPending {
				notes = append(notes, e.Note)
			}
		}
		g.Expect(notes).NotTo(BeEmpty())
	}).Should(Succeed())
	g.Expect(notes).To(ConsistOf("This boot applies firmware settings that the provider has not staged: BootMode"))
}

// TestLostSettingsRecord: a host whose run is open and whose record is lost is not offered, and gets no command. An annotation ends the run.
func TestLostSettingsRecord(t *testing.T) {
	g := NewWithT(t)
	defer startProfiles(t, &shiftedClock{})()
	server := controllerstest.NewServer(t, env.Namespace(t), "h", bmctest.Options{})
	server.Host.Spec.ProviderState.SettingsRuns = 3
	register(t, server)
	wait(t, server, reason(v1alpha1.AvailableCondition, v1alpha1.ReasonSettingsUnknown))
	g.Expect(server.CommandNames()).To(BeEmpty())
	controllerstest.Modify(t, env, server.Host, func(h *v1alpha1.BareMetalHost) {
		h.Annotations = map[string]string{v1alpha1.SettingsEndedAnnotation: "anna: looked at the setup"}
	})
	wait(t, server, phase(v1alpha1.PhaseAvailable))
	g.Expect(server.Host.Spec.ProviderState.SettingsRunsEnded).To(Equal(int32(3)))
	g.Expect(server.Host.Annotations).NotTo(HaveKey(v1alpha1.SettingsEndedAnnotation))
}

// TestSettingsComponentOff: a provider that does not change settings honours an open run: it neither offers the host nor sends a command.
func TestSettingsComponentOff(t *testing.T) {
	g := NewWithT(t)
	defer start(t)()
	server := controllerstest.NewServer(t, env.Namespace(t), "h", bmctest.Options{})
	server.Host.Spec.ProviderState.SettingsRuns = 1
	register(t, server)
	wait(t, server, reason(v1alpha1.AvailableCondition, v1alpha1.ReasonConfiguring))
	g.Expect(conditions.GetMessage(server.Host, v1alpha1.AvailableCondition)).To(ContainSubstring("--profiles"))
	g.Expect(server.CommandNames()).To(BeEmpty())
}

// TestClaimAndRunContend: machines claim hosts while a profile starts runs on them. Each host has one of them: no run is open on a host that was claimed after the
// run was counted, and no run is counted on a claimed host.
func TestClaimAndRunContend(t *testing.T) {
	g := NewWithT(t)
	defer startProfiles(t, &shiftedClock{})()
	namespace := env.Namespace(t)
	const hosts = 12
	servers := make([]*controllerstest.Server, hosts)
	for i := range servers {
		servers[i] = profiledServer(t, namespace, fmt.Sprintf("h%d", i))
	}
	for _, server := range servers {
		wait(t, server, phase(v1alpha1.PhaseAvailable))
	}
	var claims sync.WaitGroup
	profileOf(t, namespace, "WorkloadProfile", "LowLatency", func(s *v1alpha1.BareMetalProfileSpec) {
		s.Rollout.Scope, s.Rollout.MaxUnavailable = v1alpha1.ScopeAvailableHosts, hosts
	})
	for _, server := range servers {
		claims.Go(func() { claimOnce(t, server.Host) })
	}
	claims.Wait()
	g.Eventually(func(g Gomega) {
		for _, server := range servers {
			h := &v1alpha1.BareMetalHost{}
			g.Expect(env.Client.Get(t.Context(), keyOf(server.Host), h)).To(Succeed())
			state := h.Spec.ProviderState
			g.Expect(h.Spec.ConsumerRef != nil || state.SettingsRuns > 0).To(BeTrue(), "neither won host %s", h.Name)
			g.Expect(h.Spec.ConsumerRef != nil && state.SettingsRuns > state.SettingsRunsEnded).To(BeFalse(), "both won host %s", h.Name)
		}
	}, time.Minute, 200*time.Millisecond).Should(Succeed())
	g.Consistently(func(g Gomega) {
		for _, server := range servers {
			h := &v1alpha1.BareMetalHost{}
			g.Expect(env.Client.Get(t.Context(), keyOf(server.Host), h)).To(Succeed())
			g.Expect(h.Spec.ConsumerRef != nil && h.Spec.ProviderState.SettingsRuns > h.Spec.ProviderState.SettingsRunsEnded).To(BeFalse(), "both won host %s", h.Name)
		}
	}, 2*time.Second, 200*time.Millisecond).Should(Succeed())
}

// claimOnce claims a host as inventory/claim does, if its status allows that: with a patch at the version that was read.
func claimOnce(t *testing.T, host *v1alpha1.BareMetalHost) {
	t.Helper()
	for range 3 {
		h := &v1alpha1.BareMetalHost{}
		if err := env.Client.Get(t.Context(), keyOf(host), h); err != nil {
			t.Error(err)
			return
		}
		if state := h.Spec.ProviderState; h.Spec.ConsumerRef != nil || !conditions.IsTrue(h, v1alpha1.AvailableCondition) || state.SettingsRuns > state.SettingsRunsEnded {
			return
		}
		before := h.DeepCopy()
		h.Spec.ConsumerRef = controllerstest.Claimed("m-" + h.Name)
		if env.Client.Patch(t.Context(), h, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})) == nil {
			return
		}
	}
}
