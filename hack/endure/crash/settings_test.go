package crash

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/endure/rig"
)

// configure goes from unregistered servers to free ones with the firmware settings of a profile. Each server gets one change and one restart, also after a crash.
func configure(t *testing.T, f *fuse) { //nolint:thelper // a failure is to name its line
	g := NewWithT(t)
	r := disks(t, func(h *v1alpha1.BareMetalHost) { h.Labels = map[string]string{"profile": "p"} })
	profile := &v1alpha1.BareMetalProfile{ObjectMeta: metav1.ObjectMeta{Namespace: r.site.Namespace, Name: "p"}}
	profile.Spec.Hosts.Selector = &v1alpha1.HostSelector{MatchLabels: map[string]v1alpha1.LabelValue{"profile": "p"}}
	profile.Spec.BIOSSettings = []v1alpha1.BIOSSetting{{Name: "WorkloadProfile", Value: new(intstr.FromString("LowLatency"))}}
	profile.Spec.Rollout = v1alpha1.ProfileRollout{State: v1alpha1.RolloutActive, MaxUnavailable: 2}
	env.Create(t, profile)
	f.arm()
	r.start(env, f, func(o *rig.Options) { o.Profiles = true })
	r.settled(func() {
		r.until("both servers are offered", func() error { return r.phases(v1alpha1.PhaseAvailable, v1alpha1.PhaseAvailable) })
	})
	for _, h := range r.hosts() {
		object := &v1alpha1.BareMetalSettings{ObjectMeta: metav1.ObjectMeta{Namespace: h.Namespace, Name: h.Name}}
		g.Expect(r.get(object)).To(Succeed())
		g.Expect(object.Spec.Outcome).To(Equal(v1alpha1.SettingsApplied), r.scene())
		g.Expect([]int32{h.Spec.ProviderState.SettingsRuns, h.Spec.ProviderState.SettingsRunsEnded}).To(Equal([]int32{object.Spec.Number, object.Spec.Number}), r.scene())
		g.Expect(h.Spec.Quarantine).To(BeNil())
		boot := r.boot(&h)
		g.Expect([]any{boot.Purpose, boot.Attempt, boot.Number}).To(Equal([]any{v1alpha1.PurposeConfigure, int32(1), int32(1)}), r.scene())
		g.Expect(boot.VoidedTime).NotTo(BeNil())
	}
	for _, s := range r.site.Servers() {
		g.Expect(s.BIOS()).To(HaveKeyWithValue("WorkloadProfile", "LowLatency"))
		g.Expect(stagedAt(s)).To(Equal(1), "the settings are staged once")
		g.Expect(r.leftOn(s, false, false)).To(Succeed())
	}
	r.ended(powers{switched: [][2]int{{1, 1}, {1, 1}}})
}

// stagedAt counts the changes of BIOS attributes that a server got.
func stagedAt(s *rig.Server) int {
	staged := 0
	for _, name := range s.CommandNames() {
		if strings.HasPrefix(name, "BIOS=") {
			staged++
		}
	}
	return staged
}

// configureMachine goes from a running machine to one whose server has the settings of a profile, by one power cycle in a maintenance whose Node was drained.
func configureMachine(t *testing.T, f *fuse) { //nolint:thelper // a failure is to name its line
	g := NewWithT(t)
	r := rack(t)
	profile := &v1alpha1.BareMetalProfile{ObjectMeta: metav1.ObjectMeta{Namespace: r.site.Namespace, Name: "p"}}
	profile.Spec.Hosts.Selector = &v1alpha1.HostSelector{MatchLabels: map[string]v1alpha1.LabelValue{"profile": "p"}}
	profile.Spec.BIOSSettings = []v1alpha1.BIOSSetting{{Name: "WorkloadProfile", Value: new(intstr.FromString("LowLatency"))}}
	profile.Spec.Rollout = v1alpha1.ProfileRollout{State: v1alpha1.RolloutActive, Scope: v1alpha1.ScopeHostsInMaintenance}
	env.Create(t, profile)
	r.start(env, f, func(o *rig.Options) { o.Profiles = true })
	r.provisioned()
	h, s := r.host()
	f.arm()
	controllerstest.Modify(t, env, h, func(h *v1alpha1.BareMetalHost) {
		h.Labels = map[string]string{"profile": "p"}
		h.Spec.Maintenance = &v1alpha1.Maintenance{Reason: "settings", DrainedBy: "anna"}
	})
	r.until("the run has ended", func() error {
		h, _ := r.host()
		if state := h.Spec.ProviderState; state.SettingsRuns == 0 || state.SettingsRunsEnded < state.SettingsRuns {
			return fmt.Errorf("runs %d, ended %d", state.SettingsRuns, state.SettingsRunsEnded)
		}
		return nil
	})
	controllerstest.Modify(t, env, h, func(h *v1alpha1.BareMetalHost) { h.Spec.Maintenance = nil })
	r.settled(r.provisioned)
	object := &v1alpha1.BareMetalSettings{ObjectMeta: metav1.ObjectMeta{Namespace: h.Namespace, Name: h.Name}}
	g.Expect(r.get(object)).To(Succeed())
	g.Expect(object.Spec.Outcome).To(Equal(v1alpha1.SettingsApplied), r.scene())
	g.Expect(object.Spec.RequestedBy).To(Equal("anna"))
	g.Expect(s.BIOS()).To(HaveKeyWithValue("WorkloadProfile", "LowLatency"))
	g.Expect(stagedAt(s)).To(Equal(1), "the settings are staged once")
	g.Expect(s.On()).To(BeTrue())
	r.ended(powers{switched: [][2]int{{2, 1}, {0, 0}}, boots: 1})
}
