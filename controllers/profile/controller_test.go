package profile

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
)

// hostOf is a host of a model, with the status of SettingsConform.
func hostOf(model string, conforms metav1.ConditionStatus) v1alpha1.BareMetalHost {
	host := v1alpha1.BareMetalHost{Status: v1alpha1.BareMetalHostStatus{Hardware: &v1alpha1.Hardware{Model: model}}}
	conditions.Set(&host, metav1.Condition{Type: v1alpha1.SettingsConformCondition, Status: conforms, Reason: "X"})
	return host
}

// wishing is a profile that wishes a state of Secure Boot.
func wishing(secureBoot wire.SecureBoot) *v1alpha1.BareMetalProfile {
	p := &v1alpha1.BareMetalProfile{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "uid-p", Generation: 3}}
	p.Spec.SecureBoot = secureBoot
	return p
}

// failedRun is the record of a run of a profile that failed.
func failedRun(profile *v1alpha1.BareMetalProfile) v1alpha1.BareMetalSettings {
	return v1alpha1.BareMetalSettings{Spec: v1alpha1.BareMetalSettingsSpec{Profile: new(controllers.SettingsProfileOf(profile)), Outcome: v1alpha1.SettingsFailed}}
}

// TestStatus: the counts and the reason of Ready.
func TestStatus(t *testing.T) {
	again, other := wishing(wire.SecureBootEnabled), wishing(wire.SecureBootEnabled)
	again.UID, again.Generation, other.Name = "uid-again", 1, "q"
	yes, no := hostOf("R750", metav1.ConditionTrue), hostOf("R750", metav1.ConditionFalse)
	for name, test := range map[string]struct {
		state                        v1alpha1.RolloutState
		hosts                        []v1alpha1.BareMetalHost
		runs                         []v1alpha1.BareMetalSettings
		matching, conforming, failed int32
		reason                       string
	}{
		"no hosts":            {v1alpha1.RolloutActive, []v1alpha1.BareMetalHost{hostOf("R650", metav1.ConditionTrue)}, nil, 0, 0, 0, v1alpha1.ReasonProfileNoHosts},
		"all":                 {v1alpha1.RolloutActive, []v1alpha1.BareMetalHost{yes, yes}, nil, 2, 2, 0, v1alpha1.ReasonProfileRolledOut},
		"all, paused":         {v1alpha1.RolloutPaused, []v1alpha1.BareMetalHost{yes}, nil, 1, 1, 0, v1alpha1.ReasonProfileRolledOut},
		"paused":              {v1alpha1.RolloutPaused, []v1alpha1.BareMetalHost{yes, no}, nil, 2, 1, 0, v1alpha1.ReasonProfilePaused},
		"some":                {v1alpha1.RolloutActive, []v1alpha1.BareMetalHost{yes, no}, nil, 2, 1, 0, v1alpha1.ReasonProfileRollingOut},
		"one failed":          {v1alpha1.RolloutActive, []v1alpha1.BareMetalHost{yes, no}, []v1alpha1.BareMetalSettings{failedRun(wishing(wire.SecureBootEnabled))}, 2, 1, 1, v1alpha1.ReasonProfileStopped},
		"one failed before":   {v1alpha1.RolloutActive, []v1alpha1.BareMetalHost{yes, no}, []v1alpha1.BareMetalSettings{failedRun(wishing(wire.SecureBootDisabled))}, 2, 1, 0, v1alpha1.ReasonProfileRollingOut},
		"created again":       {v1alpha1.RolloutActive, []v1alpha1.BareMetalHost{yes, no}, []v1alpha1.BareMetalSettings{failedRun(again)}, 2, 1, 1, v1alpha1.ReasonProfileStopped},
		"another profile":     {v1alpha1.RolloutActive, []v1alpha1.BareMetalHost{yes, no}, []v1alpha1.BareMetalSettings{failedRun(other)}, 2, 1, 0, v1alpha1.ReasonProfileRollingOut},
		"one of another kind": {v1alpha1.RolloutActive, []v1alpha1.BareMetalHost{yes, no, hostOf("R650", metav1.ConditionTrue)}, nil, 2, 1, 0, v1alpha1.ReasonProfileRollingOut},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			profile := wishing(wire.SecureBootEnabled)
			profile.Spec.Hosts.Models, profile.Spec.Rollout.State = []string{"R750"}, test.state
			compute(profile, test.hosts, test.runs, "")
			s := profile.Status
			g.Expect([]int32{*s.MatchingHosts, *s.ConformingHosts, *s.FailedHosts}).To(Equal([]int32{test.matching, test.conforming, test.failed}))
			g.Expect(s.ObservedGeneration).To(Equal(int64(3)))
			g.Expect(conditions.GetReason(profile, v1alpha1.ReadyCondition)).To(Equal(test.reason))
		})
	}
}
