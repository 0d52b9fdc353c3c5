package host

import (
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/settings"
)

// TestSettingsConformNotes: the condition says what was not checked, for a server that has the settings and for one that has not.
func TestSettingsConformNotes(t *testing.T) {
	for value, reason := range map[string]string{"On": v1alpha1.ReasonSettingsConform, "Off": v1alpha1.ReasonSettingsDiffer} {
		g := NewWithT(t)
		plan := settings.NewPlan(settings.Input{Wishes: []settings.Wish{{Name: "VT", Value: "On"}}, Current: settings.Values{"VT": settings.Text(value)}})
		profile := lifecycle.Profile{SettingsProfile: v1alpha1.SettingsProfile{Name: "p", UID: "u", Generation: 1}}
		host := &v1alpha1.BareMetalHost{}
		setSettingsConform(host, lifecycle.View{BIOS: lifecycle.BIOS{
			On: true, Profile: &profile, Reading: &lifecycle.SettingsReading{Profile: profile.SettingsProfile, Plan: &plan},
		}})
		g.Expect(conditions.GetReason(host, v1alpha1.SettingsConformCondition)).To(Equal(reason))
		g.Expect(conditions.GetMessage(host, v1alpha1.SettingsConformCondition)).To(ContainSubstring("no attribute registry"))
	}
}
