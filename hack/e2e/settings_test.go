package e2e_test

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/peertest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
)

// testSettings gives a machine of libvirt, which sushy-tools gives a Redfish BMC, a BIOS attribute and Secure Boot before it is offered, and takes Secure Boot away again.
// Its OVMF has the keys that servers are sold with while Secure Boot is on: the agent boots by shim, and reads the variable SecureBoot from inside. The attribute is a
// number in sushy-tools' memory: it applies at once, and nothing of the machine follows from it.
func testSettings(t *testing.T, s *site) {
	t.Helper()
	g := NewWithT(t)
	machine := peertest.Machine{Name: "settings", UUID: "27946b59-9e44-4fa7-8e91-f3527a1e0042", MAC: nextMAC(), Tap: s.hosts.tap(t, peertest.TapOwner)}
	libvirt := peertest.StartLibvirtWith(t, machine)
	machine = libvirt.Machines[0]
	sushy := peertest.StartSushyLibvirt(t, libvirt)
	r := s.enlist(machine.Name, machine.MAC, v1alpha1.BootModeUEFISecureBoot, sushy.Endpoint(machine.UUID))
	r.console = consoleOf(t, machine)

	profile := &v1alpha1.BareMetalProfile{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: machine.Name}}
	profile.Spec.Hosts.Selector = &v1alpha1.HostSelector{MatchLabels: map[string]v1alpha1.LabelValue{label: v1alpha1.LabelValue(machine.Name)}}
	profile.Spec.BIOSSettings = []v1alpha1.BIOSSetting{{Name: "ProcTurboMode", Value: new(intstr.FromString("Disabled"))}}
	profile.Spec.SecureBoot, profile.Spec.Rollout.State = wire.SecureBootEnabled, v1alpha1.RolloutPaused
	env.Create(t, profile)

	// While the profile is paused, the host is offered as it is, and says what would change, and that its firmware does not do what spec.bootMode declares.
	r.register(t)
	controllerstest.Wait(t, env, r.host, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(conditions.GetReason(h, v1alpha1.SettingsConformCondition)).To(Equal(v1alpha1.ReasonSettingsDiffer))
		g.Expect(conditions.GetMessage(h, v1alpha1.SettingsConformCondition)).To(And(ContainSubstring("ProcTurboMode"), ContainSubstring("Secure Boot")))
		g.Expect(conditions.GetMessage(h, v1alpha1.PreflightPassedCondition)).To(ContainSubstring("Secure Boot is disabled in the firmware"))
		g.Expect(h.Spec.ProviderState.SettingsRuns).To(BeZero())
	})

	rollOut(t, profile, func(spec *v1alpha1.BareMetalProfileSpec) {
		spec.Rollout.State, spec.Rollout.Scope = v1alpha1.RolloutActive, v1alpha1.ScopeAvailableHosts
	})
	r.configured(t, 1)
	g.Expect(r.record.Spec.Purpose).To(Equal(v1alpha1.PurposeConfigure))
	g.Expect(r.record.Spec.AgentSecureBoot).To(Equal(wire.SecureBootEnabled), "the agent reads it from inside")
	g.Expect(r.host.Status.SettingsProfile).To(Equal(profile.Name))

	rollOut(t, profile, func(spec *v1alpha1.BareMetalProfileSpec) {
		spec.SecureBoot, spec.Allow = wire.SecureBootDisabled, []v1alpha1.ProfilePermission{v1alpha1.PermitSecureBoot}
	})
	controllerstest.Wait(t, env, r.host, func(g Gomega, h *v1alpha1.BareMetalHost) { // its spec.bootMode declares Secure Boot
		g.Expect(conditions.GetReason(h, v1alpha1.SettingsConformCondition)).To(Equal(v1alpha1.ReasonSettingsRefused))
	})
	controllerstest.Modify(t, env, r.host, func(h *v1alpha1.BareMetalHost) { h.Spec.BootMode = v1alpha1.BootModeUEFI })
	r.configured(t, 2)
	g.Expect(r.record.Spec.AgentSecureBoot).To(Equal(wire.SecureBootDisabled))
}

// rollOut changes a profile.
func rollOut(t *testing.T, profile *v1alpha1.BareMetalProfile, change func(*v1alpha1.BareMetalProfileSpec)) {
	t.Helper()
	controllerstest.Modify(t, env, profile, func(p *v1alpha1.BareMetalProfile) { change(&p.Spec) })
}

// configured waits until a settings run has ended, and demands that it was applied by one restart.
func (r *server) configured(t *testing.T, run int32) {
	t.Helper()
	g := NewWithT(t)
	r.await(t, 3*bootTimeout, "the settings run has ended, and the host is Available", func() bool {
		return r.host.Spec.ProviderState.SettingsRunsEnded >= run && r.host.Status.Phase == v1alpha1.PhaseAvailable
	})
	object := &v1alpha1.BareMetalSettings{}
	g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(r.host), object)).To(Succeed())
	g.Expect(object.Spec.Outcome).To(Equal(v1alpha1.SettingsApplied), object.Spec.Message)
	g.Expect(object.Spec.Number).To(Equal(run))
	g.Expect(r.host.Spec.ProviderState.Boots).To(Equal(run), "each run restarts the server once")
	controllerstest.Wait(t, env, r.host, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(conditions.IsTrue(h, v1alpha1.SettingsConformCondition)).To(BeTrue(), conditions.GetMessage(h, v1alpha1.SettingsConformCondition))
	})
}
