package bootstrap

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capbm-io/cluster-api-provider-baremetal/api/bootstrap/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
)

func goodSpec() bootstrapv1.BareMetalConfigSpec {
	return bootstrapv1.BareMetalConfigSpec{
		UserData: "#cloud-config\n# <% .Values.x %>\n", Values: []bootstrapv1.ConfigValue{{Name: "x", Value: new("y")}}, Commands: []string{"true"},
	}
}

func newConfig(namespace, name string) *bootstrapv1.BareMetalConfig {
	return &bootstrapv1.BareMetalConfig{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: goodSpec()}
}

func newTemplate(namespace, name string) *bootstrapv1.BareMetalConfigTemplate {
	return &bootstrapv1.BareMetalConfigTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: bootstrapv1.BareMetalConfigTemplateSpec{
		Template: bootstrapv1.BareMetalConfigTemplateResource{Spec: goodSpec()},
	}}
}

// TestValidation: an invalid template is refused with its field, in configs and in templates.
func TestValidation(t *testing.T) {
	env.StartWebhooks(t, controllerstest.BootstrapWebhooks(), SetupWebhooks)
	namespace := env.Namespace(t)
	for want, change := range map[string]func(*bootstrapv1.BareMetalConfigSpec){
		"userData: Invalid value: user data: .Values.z does not exist: .Values has x": func(s *bootstrapv1.BareMetalConfigSpec) { s.UserData = "#cloud-config\n<% .Values.z %>" },
		"commands[0]: Invalid value: command 1: line 1: unclosed":                     func(s *bootstrapv1.BareMetalConfigSpec) { s.Commands = []string{"<% if"} },
		"userData: Invalid value: user data: it is not valid JSON, line 1": func(s *bootstrapv1.BareMetalConfigSpec) {
			s.Format, s.UserData = bootstrapv1.FormatIgnition, "#cloud-config"
		},
	} {
		config, template := newConfig(namespace, "bad"), newTemplate(namespace, "bad")
		change(&config.Spec)
		change(&template.Spec.Template.Spec)
		for path, o := range map[string]client.Object{"spec.": config, "spec.template.spec.": template} {
			err := env.Client.Create(t.Context(), o)
			NewWithT(t).Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring(path + want)))
		}
	}
	// A move and a restore create a config again that had its Machine.
	moved := newConfig(namespace, "moved")
	moved.Spec.UserData = "#cloud-config\n<% .Values.z %>"
	moved.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: "m", UID: "m"}}
	env.Create(t, moved)
}

// warnings records the warnings of the API server.
type warnings struct{ texts []string }

func (w *warnings) HandleWarningHeader(_ int, _, text string) { w.texts = append(w.texts, text) }

// TestIneffectiveChange: a change of a rendered config is accepted, with a warning.
func TestIneffectiveChange(t *testing.T) {
	g := NewWithT(t)
	env.StartWebhooks(t, controllerstest.BootstrapWebhooks(), SetupWebhooks)
	config := newConfig(env.Namespace(t), "c")
	env.Create(t, config)
	heard := &warnings{}
	rest := rest.CopyConfig(env.Config)
	rest.WarningHandler = heard
	c, err := client.New(rest, client.Options{Scheme: env.Scheme})
	g.Expect(err).NotTo(HaveOccurred())
	config.Spec.Commands = []string{"false"}
	g.Expect(c.Update(t.Context(), config)).To(Succeed())
	g.Expect(heard.texts).To(BeEmpty(), "nothing was rendered")
	config.Status.DataSecretName = "c"
	g.Expect(c.Status().Update(t.Context(), config)).To(Succeed())
	config.Spec.Commands = []string{"true"}
	g.Expect(c.Update(t.Context(), config)).To(Succeed())
	g.Expect(heard.texts).To(ConsistOf(ContainSubstring("the change has no effect, because the bootstrap data of the Machine was rendered")))
}

// TestSentinelWarning: user data that has to write the sentinel file, and does not name it, is accepted with a warning. What userDataFrom has is not known.
func TestSentinelWarning(t *testing.T) {
	g := NewWithT(t)
	env.StartWebhooks(t, controllerstest.BootstrapWebhooks(), SetupWebhooks)
	heard := &warnings{}
	rest := rest.CopyConfig(env.Config)
	rest.WarningHandler = heard
	c, err := client.New(rest, client.Options{Scheme: env.Scheme})
	g.Expect(err).NotTo(HaveOccurred())
	namespace := env.Namespace(t)
	for name, test := range map[string]struct {
		change func(*bootstrapv1.BareMetalConfigSpec)
		warned bool
	}{
		"commands": {func(s *bootstrapv1.BareMetalConfigSpec) {
			s.Sentinel, s.Commands = bootstrapv1.SentinelCommands, []string{"true"}
		}, false},
		"without": {func(*bootstrapv1.BareMetalConfigSpec) {}, true},
		"with": {func(s *bootstrapv1.BareMetalConfigSpec) {
			s.UserData = "#cloud-config\nruncmd: [touch /run/cluster-api/bootstrap-success.complete]\n"
		}, false},
	} {
		config := newConfig(namespace, name)
		config.Spec.Sentinel, config.Spec.Commands, config.Spec.UserData = bootstrapv1.SentinelUserData, nil, "#cloud-config\n# nothing\n"
		test.change(&config.Spec)
		heard.texts = nil
		g.Expect(c.Create(t.Context(), config, client.DryRunAll)).To(Succeed(), name)
		g.Expect(heard.texts).To(HaveLen(map[bool]int{true: 1}[test.warned]), name)
	}
}

// TestTemplateImmutable: the spec of a template cannot be changed, except in a dry run of the topology controller.
func TestTemplateImmutable(t *testing.T) {
	g := NewWithT(t)
	env.StartWebhooks(t, controllerstest.BootstrapWebhooks(), SetupWebhooks)
	template := newTemplate(env.Namespace(t), "t")
	env.Create(t, template)
	changed := func(annotated bool, userData string) *bootstrapv1.BareMetalConfigTemplate {
		o := template.DeepCopy()
		o.Spec.Template.Spec.UserData = userData
		if annotated {
			o.Annotations = map[string]string{clusterv1.TopologyDryRunAnnotation: ""}
		}
		return o
	}
	const good = "#cloud-config\n# another\n"
	const want = "spec.template.spec: Forbidden: cannot be changed"
	g.Expect(env.Client.Update(t.Context(), changed(false, good))).To(MatchError(ContainSubstring(want)))
	g.Expect(env.Client.Update(t.Context(), changed(false, good), client.DryRunAll)).To(MatchError(ContainSubstring(want)))
	g.Expect(env.Client.Update(t.Context(), changed(true, good))).To(MatchError(ContainSubstring(want)))
	g.Expect(env.Client.Update(t.Context(), changed(true, good), client.DryRunAll)).To(Succeed())
	g.Expect(env.Client.Update(t.Context(), changed(true, "<% if"), client.DryRunAll)).To(MatchError(ContainSubstring("unclosed")))
	controllerstest.Modify(t, env, template, func(o *bootstrapv1.BareMetalConfigTemplate) { o.Labels = map[string]string{"a": "b"} })
}

// TestWithoutWebhooks: what the controllers and Cluster API write succeeds while no webhook server answers.
func TestWithoutWebhooks(t *testing.T) {
	g := NewWithT(t)
	namespace := env.Namespace(t)
	config, template := newConfig(namespace, "c"), newTemplate(namespace, "t")
	env.Create(t, config, template)
	env.InstallWebhooks(t, controllerstest.BootstrapWebhooks())
	g.Expect(env.Client.Create(t.Context(), newConfig(namespace, "d"))).To(MatchError(ContainSubstring("failed calling webhook")))
	controllerstest.Modify(t, env, config, func(c *bootstrapv1.BareMetalConfig) { c.Labels = map[string]string{"a": "b"} })
	controllerstest.Modify(t, env, template, func(o *bootstrapv1.BareMetalConfigTemplate) { o.Labels = map[string]string{"a": "b"} })
	config.Status.DataSecretName = "c"
	g.Expect(env.Client.Status().Update(t.Context(), config)).To(Succeed())
}

// TestCRDValidation: the CRD refuses what can be checked without the template engine.
func TestCRDValidation(t *testing.T) {
	namespace := env.Namespace(t)
	for want, change := range map[string]func(*bootstrapv1.BareMetalConfigSpec){
		"set userData or userDataFrom, not both": func(s *bootstrapv1.BareMetalConfigSpec) {
			s.UserDataFrom = &bootstrapv1.ValueSource{ConfigMapKeyRef: ref("a", "b")}
		},
		"commands are required with sentinel: Commands":  func(s *bootstrapv1.BareMetalConfigSpec) { s.Commands = nil },
		"commands must be empty with sentinel: UserData": func(s *bootstrapv1.BareMetalConfigSpec) { s.Sentinel = bootstrapv1.SentinelUserData },
		"userData or userDataFrom is required with sentinel: UserData": func(s *bootstrapv1.BareMetalConfigSpec) {
			s.Sentinel, s.Commands, s.UserData = bootstrapv1.SentinelUserData, nil, ""
		},
		"userData or userDataFrom is required with format: ignition": func(s *bootstrapv1.BareMetalConfigSpec) { s.Format, s.UserData = bootstrapv1.FormatIgnition, "" },
		`supported values: "cloud-config", "ignition"`:               func(s *bootstrapv1.BareMetalConfigSpec) { s.Format = "powershell" },
		`supported values: "Commands", "UserData"`:                   func(s *bootstrapv1.BareMetalConfigSpec) { s.Sentinel = "None" },
		`supported values: "Infrastructure", "ControlPlane"`:         func(s *bootstrapv1.BareMetalConfigSpec) { s.WaitFor = "Nothing" },
		"set one of value, secretKeyRef and configMapKeyRef":         func(s *bootstrapv1.BareMetalConfigSpec) { s.Values[0].SecretKeyRef = ref("a", "b") },
		"spec.values[0].name":                                        func(s *bootstrapv1.BareMetalConfigSpec) { s.Values[0].Name = "a-b" },
		"spec.values[1]: Duplicate value":                            func(s *bootstrapv1.BareMetalConfigSpec) { s.Values = append(s.Values, s.Values[0]) },
		"set one of secretKeyRef and configMapKeyRef": func(s *bootstrapv1.BareMetalConfigSpec) {
			s.UserData, s.UserDataFrom = "", &bootstrapv1.ValueSource{}
		},
		"spec.userData: Too long": func(s *bootstrapv1.BareMetalConfigSpec) { s.UserData = strings.Repeat("x", 262145) },
	} {
		config := newConfig(namespace, "bad")
		change(&config.Spec)
		NewWithT(t).Expect(env.Client.Create(t.Context(), config)).To(MatchError(ContainSubstring(want)))
	}
	planted := newConfig(namespace, "cluster-kubeconfig")
	NewWithT(t).Expect(env.Client.Create(t.Context(), planted)).To(MatchError(ContainSubstring("metadata.name must not end in -kubeconfig, -ca")))
	config := newConfig(namespace, "good")
	env.Create(t, config)
	NewWithT(t).Expect([]any{config.Spec.Format, config.Spec.Sentinel}).To(Equal([]any{bootstrapv1.FormatCloudConfig, bootstrapv1.SentinelCommands}), "the defaults")
}
