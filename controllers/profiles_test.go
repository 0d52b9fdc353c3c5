package controllers_test

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
)

// TestSettingsProfileOf: a profile wishes the same as long as its settings, Secure Boot and permissions are the same, whatever else changes.
func TestSettingsProfileOf(t *testing.T) {
	profile := func(change func(*v1alpha1.BareMetalProfile)) v1alpha1.SettingsProfile {
		p := &v1alpha1.BareMetalProfile{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u", Generation: 1}}
		p.Spec.BIOSSettings = []v1alpha1.BIOSSetting{{Name: "A", Value: new(intstr.FromInt32(8))}, {Name: "B", Value: new(intstr.FromString("x"))}}
		change(p)
		return controllers.SettingsProfileOf(p)
	}
	first := profile(func(*v1alpha1.BareMetalProfile) {})
	for name, test := range map[string]struct {
		change func(*v1alpha1.BareMetalProfile)
		same   bool
	}{
		"created again": {func(p *v1alpha1.BareMetalProfile) { p.UID, p.Generation = "v", 7 }, true},
		"paused":        {func(p *v1alpha1.BareMetalProfile) { p.Spec.Rollout.State = v1alpha1.RolloutPaused }, true},
		"other hosts":   {func(p *v1alpha1.BareMetalProfile) { p.Spec.Hosts.Models = []string{"R750"} }, true},
		"8 as a text":   {func(p *v1alpha1.BareMetalProfile) { p.Spec.BIOSSettings[0].Value = new(intstr.FromString("8")) }, true},
		"another order": {func(p *v1alpha1.BareMetalProfile) {
			p.Spec.BIOSSettings[0], p.Spec.BIOSSettings[1] = p.Spec.BIOSSettings[1], p.Spec.BIOSSettings[0]
		}, true},
		"another name":   {func(p *v1alpha1.BareMetalProfile) { p.Name = "q" }, false},
		"another value":  {func(p *v1alpha1.BareMetalProfile) { p.Spec.BIOSSettings[0].Value = new(intstr.FromInt32(9)) }, false},
		"a setting less": {func(p *v1alpha1.BareMetalProfile) { p.Spec.BIOSSettings = p.Spec.BIOSSettings[:1] }, false},
		"Secure Boot":    {func(p *v1alpha1.BareMetalProfile) { p.Spec.SecureBoot = wire.SecureBootEnabled }, false},
		"a permission": {func(p *v1alpha1.BareMetalProfile) {
			p.Spec.Allow = []v1alpha1.ProfilePermission{v1alpha1.PermitKeptDisks}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			changed := profile(test.change)
			NewWithT(t).Expect(changed.SameWish(first)).To(Equal(test.same))
		})
	}
}
