package v1alpha1_test

import (
	"math"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
)

// setting is a wish for a BIOS attribute.
func setting(name string, value intstr.IntOrString) v1alpha1.BIOSSetting {
	return v1alpha1.BIOSSetting{Name: name, Value: &value}
}

func validProfile() *v1alpha1.BareMetalProfile {
	return &v1alpha1.BareMetalProfile{Spec: v1alpha1.BareMetalProfileSpec{
		Hosts:        v1alpha1.ProfileHosts{Models: []string{"PowerEdge R750"}},
		BIOSSettings: []v1alpha1.BIOSSetting{setting("LogicalProc", intstr.FromString("Enabled"))},
	}}
}

func TestProfileRefused(t *testing.T) {
	type profile = *v1alpha1.BareMetalProfile
	on := intstr.FromString("Enabled")
	refuse(t, validProfile, []refused[profile]{
		{"no host", func(p profile) { p.Spec.Hosts = v1alpha1.ProfileHosts{} }, "spec.hosts", "Required value"},
		{"no wish", func(p profile) { p.Spec.BIOSSettings = nil }, "spec", "must have biosSettings or secureBoot"},
		{"a name twice", func(p profile) {
			p.Spec.BIOSSettings = append(p.Spec.BIOSSettings, setting("LogicalProc", intstr.FromString("Disabled")))
		}, "spec.biosSettings[1]", "Duplicate value"},
		{"no name", func(p profile) { p.Spec.BIOSSettings[0].Name = "" }, "spec.biosSettings[0].name", "Required value"},
		{"no value", func(p profile) { p.Spec.BIOSSettings[0].Value = nil }, "spec.biosSettings[0].value", "Required value"},
		{"a long value", func(p profile) { p.Spec.BIOSSettings[0] = setting("A", intstr.FromString(strings.Repeat("x", 257))) }, "spec.biosSettings[0].value", "Too long"},
		{"a long name", func(p profile) { p.Spec.BIOSSettings[0] = setting(strings.Repeat("x", 129), on) }, "spec.biosSettings[0].name", "Too long"},
		{"Secure Boot unknown", func(p profile) { p.Spec.SecureBoot = "On" }, "spec.secureBoot", `supported values: "Enabled", "Disabled"`},
		{"a permission for nothing", func(p profile) { p.Spec.Allow = []v1alpha1.ProfilePermission{v1alpha1.PermitSecureBoot} }, "spec", "unless secureBoot is Disabled"},
		{"a permission for the opposite", func(p profile) {
			p.Spec.SecureBoot, p.Spec.Allow = wire.SecureBootEnabled, []v1alpha1.ProfilePermission{v1alpha1.PermitSecureBoot}
		}, "spec", "unless secureBoot is Disabled"},
		{"kept disks for nothing", func(p profile) { p.Spec.Allow = []v1alpha1.ProfilePermission{v1alpha1.PermitKeptDisks} }, "spec", "must not have KeptDisks without secureBoot"},
		{"a permission unknown", func(p profile) { p.Spec.Allow = []v1alpha1.ProfilePermission{"BootMode"} }, "spec.allow[0]", `supported values: "SecureBoot", "KeptDisks"`},
		{"no host at once", func(p profile) { p.Spec.Rollout.MaxUnavailable = -1 }, "spec.rollout.maxUnavailable", "should be greater than or equal to 1"},
		{"no failure", func(p profile) { p.Spec.Rollout.MaxFailures = -1 }, "spec.rollout.maxFailures", "should be greater than or equal to 1"},
		{"a floor without a rollout", func(p profile) { p.Spec.Rollout.MinAvailable = new(int32(3)) }, "spec.rollout", "no Available host is changed"},
	})
}

func TestProfileAccepted(t *testing.T) {
	type profile = *v1alpha1.BareMetalProfile
	accept(t, validProfile, []accepted[profile]{
		{"Secure Boot only", func(p profile) { p.Spec.BIOSSettings, p.Spec.SecureBoot = nil, wire.SecureBootEnabled }},
		{"Secure Boot off", func(p profile) {
			p.Spec.SecureBoot, p.Spec.Allow = wire.SecureBootDisabled, []v1alpha1.ProfilePermission{v1alpha1.PermitSecureBoot, v1alpha1.PermitKeptDisks}
		}},
		{"values of each kind", func(p profile) {
			p.Spec.BIOSSettings = []v1alpha1.BIOSSetting{
				setting("Integer", intstr.FromInt32(0)), setting("Text", intstr.FromString("")), setting("Boolean", intstr.FromString("true")), setting("Name with spaces", intstr.FromString("x")),
			}
		}},
		{"a floor", func(p profile) {
			p.Spec.Rollout = v1alpha1.ProfileRollout{State: v1alpha1.RolloutActive, Scope: v1alpha1.ScopeAvailableHosts, MinAvailable: new(int32(0))}
		}},
	})
}

// TestProfileInteger: an integer that this provider cannot decode is refused. One such object in the API server would stop every manager.
func TestProfileInteger(t *testing.T) {
	namespace := env.Namespace(t)
	for name, test := range map[string]struct {
		value    any
		accepted bool
	}{
		"the largest":              {int64(math.MaxInt32), true},
		"the smallest":             {int64(math.MinInt32), true},
		"larger than 32 bits":      {int64(5000000000), false},
		"smaller than 32 bits":     {int64(math.MinInt32) - 1, false},
		"larger, with an exponent": {5e9, false},
		"larger than 64 bits":      {1e30, false},
		"a large one in quotes":    {"5000000000", true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(validProfile())
			g.Expect(err).NotTo(HaveOccurred())
			u := &unstructured.Unstructured{Object: content}
			u.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("BareMetalProfile"))
			u.SetNamespace(namespace)
			u.SetGenerateName("profile-")
			g.Expect(unstructured.SetNestedSlice(u.Object, []any{map[string]any{"name": "A", "value": test.value}}, "spec", "biosSettings")).To(Succeed())
			err = env.Client.Create(t.Context(), u)
			if !test.accepted {
				g.Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(u), &v1alpha1.BareMetalProfile{})).To(Succeed())
		})
	}
}

// TestProfileDefaults: a new profile changes nothing.
func TestProfileDefaults(t *testing.T) {
	g := NewWithT(t)
	p := validProfile()
	p.Namespace, p.GenerateName = env.Namespace(t), "profile-"
	g.Expect(env.Client.Create(t.Context(), p)).To(Succeed())
	g.Expect(p.Spec.Enforcement).To(Equal(v1alpha1.EnforcePreferred))
	g.Expect(p.Spec.Rollout).To(Equal(v1alpha1.ProfileRollout{State: v1alpha1.RolloutPaused, Scope: v1alpha1.ScopeReleasedHosts, MaxUnavailable: 1, MaxFailures: 1}))
}

// TestSettingsRecord: what the record of a run says cannot be changed afterwards.
func TestSettingsRecord(t *testing.T) {
	type spec = *v1alpha1.BareMetalSettingsSpec
	namespace, now := env.Namespace(t), metav1.Now()
	create := func(g Gomega) *v1alpha1.BareMetalSettings {
		s := &v1alpha1.BareMetalSettings{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "settings-"}, Spec: v1alpha1.BareMetalSettingsSpec{
			Number: 2, Profile: &v1alpha1.SettingsProfile{Name: "p", UID: "u", Generation: 1, Hash: strings.Repeat("a", 64)}, Changes: []v1alpha1.SettingChange{{Name: "A", Value: "1"}},
			StartTime: &now, StagingTime: &now, StagedTime: &now,
		}}
		g.Expect(env.Client.Create(t.Context(), s)).To(Succeed())
		return s
	}
	for name, test := range map[string]struct {
		change func(spec)
		remedy string // empty if it is accepted
	}{
		"a lower number":     {func(s spec) { s.Number = 1 }, "number must not decrease"},
		"other changes":      {func(s spec) { s.Changes = nil }, "only a new run"},
		"another profile":    {func(s spec) { s.Profile.Generation = 2 }, "only a new run"},
		"Secure Boot":        {func(s spec) { s.SecureBoot = wire.SecureBootEnabled }, "only a new run"},
		"no time of staging": {func(s spec) { s.StagingTime = nil }, "immutable once they are set"},
		"the outcome":        {func(s spec) { s.Outcome = v1alpha1.SettingsApplied }, ""},
		"the end":            {func(s spec) { s.Outcome, s.EndTime = v1alpha1.SettingsFailed, &now }, ""},
		"the next run": {func(s spec) {
			*s = v1alpha1.BareMetalSettingsSpec{Number: 3, Changes: []v1alpha1.SettingChange{{Name: "B"}}}
		}, ""},
		"an attribute twice":    {func(s spec) { s.Number, s.Changes = 3, []v1alpha1.SettingChange{{Name: "B"}, {Name: "B"}} }, "Duplicate value"},
		"an outcome of its own": {func(s spec) { s.Outcome = "Done" }, `supported values: "Applied", "Refused", "Withdrawn", "Failed"`},
		"no number":             {func(s spec) { s.Number = 0 }, "number must not decrease"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := create(g)
			test.change(&s.Spec)
			err := env.Client.Update(t.Context(), s)
			if test.remedy == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(MatchError(ContainSubstring(test.remedy)))
		})
	}
}
