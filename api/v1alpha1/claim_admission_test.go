package v1alpha1_test

import (
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
)

// claimRules are the rules of a machine's requirements for a host, which also apply in a template. The fields are relative to the spec.
func claimRules() []refused[*v1alpha1.BareMetalMachineSpec] {
	type spec = *v1alpha1.BareMetalMachineSpec
	preferred := func(weight int32, key string) v1alpha1.HostPreference {
		return v1alpha1.HostPreference{Weight: weight, HostSelector: v1alpha1.HostSelector{MatchLabels: map[string]v1alpha1.LabelValue{key: "a"}}}
	}
	prefer := func(preferences ...v1alpha1.HostPreference) func(spec) {
		return func(s spec) { s.Preferences = preferences }
	}
	tolerate := func(t v1alpha1.HostToleration) func(spec) {
		return func(s spec) { s.Tolerations = []v1alpha1.HostToleration{t} }
	}
	const (
		preference = "preferences[0]"
		toleration = "tolerations[0]"
		wantKey    = "must be a label key, like gpu or example.com/gpu, with at most 63 characters after the slash"
	)
	return []refused[spec]{
		{"preference without a weight", prefer(preferred(0, "rack")), preference + ".weight", "Required value"},
		{"preference with too little weight", prefer(preferred(-1, "rack")), preference + ".weight", "should be greater than or equal to 1"},
		{"preference with too much weight", prefer(preferred(101, "rack")), preference + ".weight", "should be less than or equal to 100"},
		{"preference for nothing", prefer(v1alpha1.HostPreference{Weight: 1}), preference + ".hostSelector", "Required value"},
		{"preference with a bad key", prefer(preferred(1, "-rack")), preference + ".hostSelector.matchLabels", "keys must be label keys, like gpu"},
		{"too many preferences", prefer(slices.Repeat([]v1alpha1.HostPreference{preferred(1, "rack")}, 9)...), "preferences", "must have at most 8 items"},

		{"cleaning policy of a host", func(s spec) { s.CleaningPolicy = wire.PolicyManual }, "cleaningPolicy", "must be Metadata, Clear or Purge"},

		{"toleration without a key", tolerate(v1alpha1.HostToleration{Operator: "Exists"}), toleration + ".key", "Required value"},
		{"toleration with a bad key", tolerate(v1alpha1.HostToleration{Key: "g pu"}), toleration + ".key", wantKey},
		{"toleration with a prefix too long", tolerate(v1alpha1.HostToleration{Key: v1alpha1.LabelKey(strings.Repeat("a", 254) + "/a")}), toleration + ".key", "at most 253 characters before the slash"},
		{"toleration with a bad operator", tolerate(v1alpha1.HostToleration{Key: "gpu", Operator: "In"}), toleration + ".operator", `supported values: "Equal", "Exists"`},
		{"toleration with a bad value", tolerate(v1alpha1.HostToleration{Key: "gpu", Value: "a/b"}), toleration + ".value", "must be a label value"},
		{"toleration of any value with a value", tolerate(v1alpha1.HostToleration{Key: "gpu", Operator: "Exists", Value: "a100"}), toleration, "remove it, or set operator: Equal"},
	}
}

func TestClaimRefused(t *testing.T) {
	var machines []refused[*v1alpha1.BareMetalMachine]
	var templates []refused[*v1alpha1.BareMetalMachineTemplate]
	for _, c := range claimRules() {
		inMachine := func(m *v1alpha1.BareMetalMachine) { c.change(&m.Spec) }
		machines = append(machines, refused[*v1alpha1.BareMetalMachine]{c.name, inMachine, "spec." + c.field, c.remedy})
		inTemplate := func(m *v1alpha1.BareMetalMachineTemplate) { c.change(&m.Spec.Template.Spec) }
		templates = append(templates, refused[*v1alpha1.BareMetalMachineTemplate]{c.name, inTemplate, "spec.template.spec." + c.field, c.remedy})
	}
	t.Run("machine", func(t *testing.T) { refuse(t, validMachine, machines) })
	t.Run("template", func(t *testing.T) { refuse(t, validMachineTemplate, templates) })
}

func TestClaimAccepted(t *testing.T) {
	accept(t, validMachine, []accepted[*v1alpha1.BareMetalMachine]{
		{"everything that a machine may ask for", func(m *v1alpha1.BareMetalMachine) {
			m.Spec.ReuseHost = true
			m.Spec.Hardware = v1alpha1.HardwareRequirements{CPU: 1, Memory: new(resource.MustParse("64Gi")), Disk: new(resource.MustParse("400"))}
			m.Spec.Preferences = []v1alpha1.HostPreference{
				{Weight: 1, HostSelector: v1alpha1.HostSelector{MatchLabels: map[string]v1alpha1.LabelValue{"disk": "nvme"}}},
				{Weight: 100, HostSelector: v1alpha1.HostSelector{MatchExpressions: []v1alpha1.HostSelectorRequirement{{Key: "old", Operator: "DoesNotExist"}}}},
			}
			m.Spec.Tolerations = []v1alpha1.HostToleration{{Key: "gpu", Operator: "Exists"}, {Key: "example.com/team", Value: "a"}, {Key: "empty", Operator: "Equal"}}
		}},
	})
}

func TestTaintRefused(t *testing.T) {
	type host = *v1alpha1.BareMetalHost
	taint := func(taints ...v1alpha1.HostTaint) func(host) { return func(h host) { h.Spec.Taints = taints } }
	last := func(l v1alpha1.LastConsumer) func(host) {
		return func(h host) { h.Spec.ProviderState.LastConsumer = &l }
	}
	const key = "spec.taints[0].key"
	refuse(t, validHost, []refused[host]{
		{"taint without a key", taint(v1alpha1.HostTaint{Value: "a"}), key, "Required value"},
		{"taint with a bad key", taint(v1alpha1.HostTaint{Key: "-gpu"}), key, "must be a label key, like gpu or example.com/gpu"},
		{"taint with a prefix too long", taint(v1alpha1.HostTaint{Key: v1alpha1.LabelKey(strings.Repeat("a", 254) + "/a")}), key, "at most 253 characters before the slash"},
		{"taint with a bad value", taint(v1alpha1.HostTaint{Key: "gpu", Value: "a b"}), "spec.taints[0].value", "must be a label value"},
		{"taint with an effect of Nodes", taint(v1alpha1.HostTaint{Key: "gpu", Effect: "NoSchedule"}), "spec.taints[0].effect", `supported values: "NoClaim", "PreferNoClaim"`},
		{"taint twice", taint(v1alpha1.HostTaint{Key: "gpu"}, v1alpha1.HostTaint{Key: "gpu", Value: "a"}), "spec.taints[1]", "Duplicate value"},
		{"last consumer without a name", last(v1alpha1.LastConsumer{ReleaseTime: metav1.Now()}), "spec.providerState.lastConsumer.name", "Required value"},
	})
	accept(t, validHost, []accepted[host]{
		{"taints", taint(v1alpha1.HostTaint{Key: "gpu", Value: "a100", Effect: v1alpha1.TaintNoClaim}, v1alpha1.HostTaint{Key: "example.com/old", Effect: v1alpha1.TaintPreferNoClaim})},
	})
}

// TestClaimDefaults: the effect of a taint defaults to NoClaim, and the operator of a toleration to Equal.
func TestClaimDefaults(t *testing.T) {
	g := NewWithT(t)
	namespace := env.Namespace(t)
	host, machine := validHost(), validMachine()
	host.Namespace, host.Name, host.Spec.Taints = namespace, "h", []v1alpha1.HostTaint{{Key: "gpu"}}
	machine.Namespace, machine.Name, machine.Spec.Tolerations = namespace, "m", []v1alpha1.HostToleration{{Key: "gpu"}}
	env.Create(t, host, machine)
	g.Expect(host.Spec.Taints[0].Effect).To(Equal(v1alpha1.TaintNoClaim))
	g.Expect(machine.Spec.Tolerations[0].Operator).To(BeEquivalentTo("Equal"))
	g.Expect(machine.Spec.ReuseHost).To(BeFalse())
}
