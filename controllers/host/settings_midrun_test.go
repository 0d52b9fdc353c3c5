package host_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory"
)

// TestSettingsInMaintenance: the server of a machine gets the settings in a maintenance whose Node was drained: it is powered off, and on again into its disk. Before
// that, and after it, nothing is changed.
func TestSettingsInMaintenance(t *testing.T) {
	g := NewWithT(t)
	defer startProfiles(t, &shiftedClock{})()
	namespace := env.Namespace(t)
	profileOf(t, namespace, "WorkloadProfile", "LowLatency", func(s *v1alpha1.BareMetalProfileSpec) { s.Rollout.Scope = v1alpha1.ScopeHostsInMaintenance })
	server := machineServer(t, namespace)
	register(t, server)
	wait(t, server, phase(v1alpha1.PhaseProvisioned))
	wait(t, server, reason(v1alpha1.SettingsConformCondition, v1alpha1.ReasonSettingsDiffer))
	controllerstest.Modify(t, env, server.Host, func(h *v1alpha1.BareMetalHost) { h.Spec.Maintenance = &v1alpha1.Maintenance{Reason: "settings"} })
	wait(t, server, phase(v1alpha1.PhaseMaintenance))
	g.Consistently(server.CommandNames, time.Second).Should(BeEmpty())
	controllerstest.Modify(t, env, server.Host, func(h *v1alpha1.BareMetalHost) { h.Spec.Maintenance.DrainedBy = "anna: kubectl drain" })
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(h.Spec.ProviderState.SettingsRunsEnded).To(Equal(int32(1)), "%+v", h.Status)
	})
	g.Expect(server.BIOS()).To(HaveKeyWithValue("WorkloadProfile", "LowLatency"))
	g.Expect(server.On()).To(BeTrue())
	g.Expect(staged(server)).To(Equal(1))
	object := settingsOf(t, server)
	g.Expect(object.Spec.Outcome).To(Equal(v1alpha1.SettingsApplied))
	g.Expect(object.Spec.RequestedBy).To(Equal("anna: kubectl drain"))
	g.Expect(object.Spec.PowerOffTime).NotTo(BeNil())
	g.Expect(object.Spec.PoweredOffTime).NotTo(BeNil())
	g.Expect(server.Host.Spec.ProviderState.Boots).To(BeZero(), "the record of the boot is that of the machine")
	g.Expect(server.Host.Status.Phase).To(Equal(v1alpha1.PhaseMaintenance))
	controllerstest.Modify(t, env, server.Host, func(h *v1alpha1.BareMetalHost) { h.Spec.Maintenance = nil })
	wait(t, server, phase(v1alpha1.PhaseProvisioned))
	wait(t, server, reason(v1alpha1.SettingsConformCondition, v1alpha1.ReasonSettingsConform))
}

// machineServer returns a server that runs the machine "m", to be registered.
func machineServer(t *testing.T, namespace string) *controllerstest.Server {
	t.Helper()
	server := controllerstest.NewServer(t, namespace, "h", bmctest.Options{On: true})
	server.Host.Labels = map[string]string{"profile": "p"}
	server.Host.Spec.ConsumerRef = controllerstest.Claimed("m")
	env.NewClaim(t, namespace, "m", func(c *controllerstest.Claim) {
		c.BareMetalMachine.Finalizers = []string{v1alpha1.MachineFinalizer}
		c.BareMetalMachine.Spec.ProviderID = inventory.ProviderID(namespace, "h", "m")
	})
	return server
}

// TestLostSettingsRecordOfMachine: a host that runs a machine, and whose record of a run is lost, says so. Its server gets no command, and an annotation ends the run.
func TestLostSettingsRecordOfMachine(t *testing.T) {
	g := NewWithT(t)
	defer startProfiles(t, &shiftedClock{})()
	server := machineServer(t, env.Namespace(t))
	server.Host.Spec.ProviderState.SettingsRuns = 3
	register(t, server)
	wait(t, server, reason(v1alpha1.BootedCondition, v1alpha1.ReasonSettingsUnknown))
	g.Expect(server.Host.Status.Phase).To(Equal(v1alpha1.PhaseProvisioned))
	controllerstest.Modify(t, env, server.Host, func(h *v1alpha1.BareMetalHost) {
		h.Annotations = map[string]string{v1alpha1.SettingsEndedAnnotation: "anna: looked at the setup"}
	})
	wait(t, server, reason(v1alpha1.BootedCondition, v1alpha1.ReasonBooted))
	g.Expect(server.Host.Spec.ProviderState.SettingsRunsEnded).To(Equal(int32(3)))
	g.Expect(server.Host.Annotations).NotTo(HaveKey(v1alpha1.SettingsEndedAnnotation))
	g.Expect(server.CommandNames()).To(BeEmpty())
}

// TestSettingsAtRest: hosts that have the settings of their profile, hosts whose profile is paused and differ, and the profile itself are not written at rest, neither
// by the manager that read the settings nor by the next one.
func TestSettingsAtRest(t *testing.T) {
	g := NewWithT(t)
	stop := startProfiles(t, &shiftedClock{})
	namespace := env.Namespace(t)
	p := profileOf(t, namespace, "WorkloadProfile", "LowLatency", func(s *v1alpha1.BareMetalProfileSpec) { s.Rollout.State = v1alpha1.RolloutPaused })
	const hosts = 8
	servers := make([]*controllerstest.Server, hosts)
	for i := range servers {
		servers[i] = controllerstest.NewServer(t, namespace, fmt.Sprintf("h%d", i), bmctest.Options{})
		servers[i].Host.Labels = map[string]string{"profile": "p"}
		if i%2 == 0 {
			servers[i].SetBIOS("WorkloadProfile", "LowLatency")
		}
		register(t, servers[i])
	}
	for i, server := range servers {
		wait(t, server, phase(v1alpha1.PhaseAvailable))
		wait(t, server, reason(v1alpha1.SettingsConformCondition, map[bool]string{true: v1alpha1.ReasonSettingsConform, false: v1alpha1.ReasonSettingsDiffer}[i%2 == 0]))
		g.Eventually(func() error {
			return env.Client.Get(t.Context(), keyOf(server.Host), &v1alpha1.BareMetalSettings{})
		}, time.Minute).Should(Succeed())
	}
	versions := func() (all []string) {
		for _, server := range servers {
			h, s := &v1alpha1.BareMetalHost{}, &v1alpha1.BareMetalSettings{}
			g.Expect(env.Client.Get(t.Context(), keyOf(server.Host), h)).To(Succeed())
			g.Expect(env.Client.Get(t.Context(), keyOf(server.Host), s)).To(Succeed())
			all = append(all, h.ResourceVersion, s.ResourceVersion)
		}
		g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(p), p)).To(Succeed())
		return append(all, p.ResourceVersion)
	}
	var before []string
	g.Eventually(func() bool { // the last write of each status is over
		last := before
		before = versions()
		return slices.Equal(last, before)
	}).WithTimeout(time.Minute).WithPolling(300 * time.Millisecond).Should(BeTrue())
	g.Consistently(versions, time.Second, 100*time.Millisecond).Should(Equal(before))
	stop()
	defer startProfiles(t, &shiftedClock{})()
	g.Consistently(versions, 3*time.Second, 100*time.Millisecond).Should(Equal(before))
	for _, server := range servers {
		g.Expect(server.CommandNames()).To(BeEmpty())
	}
}

// TestSettingsInMove: while a Cluster of the namespace is paused no BareMetalSettings is created for a status: a move may bring the one with the record.
func TestSettingsInMove(t *testing.T) {
	g := NewWithT(t)
	defer startProfiles(t, &shiftedClock{})()
	namespace := env.Namespace(t)
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c"}, Spec: clusterv1.ClusterSpec{Paused: new(true)}}
	env.Create(t, cluster)
	profileOf(t, namespace, "WorkloadProfile", "LowLatency", func(s *v1alpha1.BareMetalProfileSpec) { s.Rollout.State = v1alpha1.RolloutPaused })
	server := profiledServer(t, namespace, "h")
	wait(t, server, reason(v1alpha1.SettingsConformCondition, v1alpha1.ReasonSettingsDiffer))
	created := func() error { return env.Client.Get(t.Context(), keyOf(server.Host), &v1alpha1.BareMetalSettings{}) }
	g.Consistently(created, time.Second).Should(MatchError(apierrors.IsNotFound, "IsNotFound"))
	controllerstest.Modify(t, env, cluster, func(c *clusterv1.Cluster) { c.Spec.Paused = new(false) })
	controllerstest.Modify(t, env, server.Host, func(h *v1alpha1.BareMetalHost) { h.Annotations = map[string]string{"wake": "up"} })
	g.Eventually(created, time.Minute).Should(Succeed())
}

// TestSettingsWithoutStatus: a restore gives back the specs and no status. A host that has the settings, and one that was offered with its old ones, are offered again
// without a write to a server and without a restart.
func TestSettingsWithoutStatus(t *testing.T) {
	g := NewWithT(t)
	stop := startProfiles(t, &shiftedClock{})
	namespace := env.Namespace(t)
	changed, offered := profiledServer(t, namespace, "changed"), profiledServer(t, namespace, "offered")
	wait(t, changed, phase(v1alpha1.PhaseAvailable))
	wait(t, offered, phase(v1alpha1.PhaseAvailable))
	changed.SetBIOS("WorkloadProfile", "LowLatency")
	profileOf(t, namespace, "WorkloadProfile", "LowLatency")
	wait(t, changed, reason(v1alpha1.SettingsConformCondition, v1alpha1.ReasonSettingsConform))
	wait(t, offered, reason(v1alpha1.SettingsConformCondition, v1alpha1.ReasonSettingsDiffer))
	g.Eventually(func() *int32 { return settingsRecordOf(t, offered).OfferedBoots }, time.Minute).ShouldNot(BeNil())
	stop()
	for _, server := range []*controllerstest.Server{changed, offered} {
		for _, o := range []client.Object{server.Host, settingsOf(t, server)} {
			g.Expect(env.Client.Get(t.Context(), keyOf(server.Host), o)).To(Succeed())
			before, ok := o.DeepCopyObject().(client.Object)
			g.Expect(ok).To(BeTrue())
			switch o := o.(type) {
			case *v1alpha1.BareMetalHost:
				o.Status = v1alpha1.BareMetalHostStatus{}
			case *v1alpha1.BareMetalSettings:
				o.Status = v1alpha1.BareMetalSettingsStatus{}
			}
			g.Expect(env.Client.Status().Patch(t.Context(), o, client.MergeFrom(before))).To(Succeed())
		}
	}
	defer startProfiles(t, &shiftedClock{})()
	for _, server := range []*controllerstest.Server{changed, offered} {
		wait(t, server, phase(v1alpha1.PhaseAvailable))
		wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
			g.Expect(conditions.Has(h, v1alpha1.SettingsConformCondition)).To(BeTrue())
		})
		g.Expect(server.CommandNames()).To(BeEmpty())
		g.Expect(server.Host.Spec.ProviderState.SettingsRuns).To(BeZero())
		g.Eventually(func() *int32 { return settingsOf(t, server).Status.DifferenceCount }, time.Minute).ShouldNot(BeNil())
	}
}

// settingsRecordOf returns the record in the BareMetalSettings of a server; empty without the object.
func settingsRecordOf(t *testing.T, server *controllerstest.Server) v1alpha1.BareMetalSettingsSpec {
	t.Helper()
	object := &v1alpha1.BareMetalSettings{}
	if err := env.Client.Get(t.Context(), keyOf(server.Host), object); err != nil {
		return v1alpha1.BareMetalSettingsSpec{}
	}
	return object.Spec
}

// TestSettingsComponentOffInMidRun: a provider without the component finds a run whose settings are staged: it neither offers the host nor sends a command. The next one
// with the component goes on, without staging them again.
func TestSettingsComponentOffInMidRun(t *testing.T) {
	g := NewWithT(t)
	stop := startProfiles(t, &shiftedClock{})
	namespace := env.Namespace(t)
	profileOf(t, namespace, "WorkloadProfile", "LowLatency")
	server := profiledServer(t, namespace, "h")
	g.Eventually(func() *metav1.Time { return settingsRecordOf(t, server).StagedTime }, inspectionTimeout).ShouldNot(BeNil())
	stop()
	before := server.CommandNames()
	off := start(t)
	wait(t, server, reason(v1alpha1.AvailableCondition, v1alpha1.ReasonConfiguring))
	g.Eventually(func() string { return messageOf(t, server, v1alpha1.AvailableCondition) }, time.Minute).Should(ContainSubstring("--profiles"))
	g.Consistently(server.CommandNames, time.Second).Should(HaveLen(len(before)))
	off()
	defer startProfiles(t, &shiftedClock{})()
	endRestart(t, server)
	wait(t, server, phase(v1alpha1.PhaseAvailable))
	g.Expect(server.BIOS()).To(HaveKeyWithValue("WorkloadProfile", "LowLatency"))
	g.Expect(staged(server)).To(Equal(1))
}

// messageOf returns the message of a condition of a server's host.
func messageOf(t *testing.T, server *controllerstest.Server, condition string) string {
	t.Helper()
	h := &v1alpha1.BareMetalHost{}
	if err := env.Client.Get(t.Context(), keyOf(server.Host), h); err != nil {
		return err.Error()
	}
	return conditions.GetMessage(h, condition)
}

// TestSettingsDeletedInMidRun: the profile is deleted in mid-run: the run goes on with what its record has. The record is deleted in mid-run: the host is not offered, and
// its server gets no further command.
func TestSettingsDeletedInMidRun(t *testing.T) {
	stagedRun := func(t *testing.T) (*controllerstest.Server, *v1alpha1.BareMetalProfile) {
		t.Helper()
		namespace := env.Namespace(t)
		p := profileOf(t, namespace, "WorkloadProfile", "LowLatency")
		server := profiledServer(t, namespace, "h")
		NewWithT(t).Eventually(func() *metav1.Time { return settingsRecordOf(t, server).StagedTime }, inspectionTimeout).ShouldNot(BeNil())
		return server, p
	}
	t.Run("the profile", func(t *testing.T) {
		g := NewWithT(t)
		defer startProfiles(t, &shiftedClock{})()
		server, p := stagedRun(t)
		g.Expect(env.Client.Delete(t.Context(), p)).To(Succeed())
		endRestart(t, server)
		wait(t, server, phase(v1alpha1.PhaseAvailable))
		g.Expect(server.BIOS()).To(HaveKeyWithValue("WorkloadProfile", "LowLatency"), "what was set stays set")
		g.Expect(settingsOf(t, server).Spec.Outcome).To(Equal(v1alpha1.SettingsApplied))
	})
	t.Run("the record, while the provider runs", func(t *testing.T) {
		g := NewWithT(t)
		defer startProfiles(t, &shiftedClock{})()
		server, _ := stagedRun(t)
		g.Expect(env.Client.Delete(t.Context(), settingsOf(t, server))).To(Succeed())
		wait(t, server, reason(v1alpha1.AvailableCondition, v1alpha1.ReasonSettingsUnknown))
		g.Consistently(func() error { return env.Client.Get(t.Context(), keyOf(server.Host), &v1alpha1.BareMetalSettings{}) }, time.Second).Should(
			MatchError(apierrors.IsNotFound, "IsNotFound"), "an object without a record would be in the way of a restore")
	})
	t.Run("the record", func(t *testing.T) {
		g := NewWithT(t)
		stop := startProfiles(t, &shiftedClock{})
		server, _ := stagedRun(t)
		stop()
		g.Expect(env.Client.Delete(t.Context(), settingsOf(t, server))).To(Succeed())
		before := server.CommandNames()
		defer startProfiles(t, &shiftedClock{})()
		wait(t, server, reason(v1alpha1.AvailableCondition, v1alpha1.ReasonSettingsUnknown))
		g.Consistently(server.CommandNames, time.Second).Should(HaveLen(len(before)))
	})
}
