package bootstrap

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capbm-io/cluster-api-provider-baremetal/api/bootstrap/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
)

func ref(name, key string) *bootstrapv1.KeyReference {
	return &bootstrapv1.KeyReference{Name: name, Key: key}
}

func labeledSecret(namespace, name string, data map[string]string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{bootstrapv1.ValueSecretLabel: ""}}, StringData: data,
	}
}

// TestValues: values come from the spec, from Secrets and from ConfigMaps, each missing part is reported, and the data is rendered once all are there.
// clusterctl's move label is set on what was used.
func TestValues(t *testing.T) {
	g := NewWithT(t)
	start(t, "")
	w := newWorld(t)
	w.config.Spec.UserData = ""
	w.config.Spec.UserDataFrom = &bootstrapv1.ValueSource{ConfigMapKeyRef: ref("data", "user-data")}
	w.config.Spec.Values = []bootstrapv1.ConfigValue{
		{Name: "plain", Value: new("a")}, {Name: "token", SecretKeyRef: ref("tokens", "join")}, {Name: "mirror", ConfigMapKeyRef: ref("site", "mirror")},
	}
	w.config.Spec.Commands = []string{"join <% .Values.token %> <% .Values.plain %> <% .Values.mirror %>"}
	w.create(t)
	g.Expect(w.expect(t, bootstrapv1.ReasonUserDataMissing)).To(Equal("spec.userDataFrom: ConfigMap data does not exist. Create it"))
	data := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "data"}}
	env.Create(t, data)
	g.Eventually(func() string { return w.expect(t, bootstrapv1.ReasonUserDataMissing) }).Should(Equal("spec.userDataFrom: ConfigMap data has no key user-data. Add it"))
	controllerstest.Modify(t, env, data, func(c *corev1.ConfigMap) {
		c.BinaryData = map[string][]byte{"user-data": []byte("#cloud-config\n# from a ConfigMap, <% .Values.plain %>\n")}
	})
	g.Expect(w.expect(t, bootstrapv1.ReasonValueMissing)).To(Equal("spec.values[token]: Secret tokens does not exist. Create it"))
	tokens := labeledSecret(w.namespace, "tokens", map[string]string{"other": "x"})
	tokens.Labels = nil
	env.Create(t, tokens)
	g.Expect(w.expect(t, bootstrapv1.ReasonSecretNotLabeled)).To(ContainSubstring(
		"kubectl label secret -n " + w.namespace + " tokens baremetalconfig.bootstrap.cluster.x-k8s.io/value-secret="))
	controllerstest.Modify(t, env, tokens, func(s *corev1.Secret) { s.Labels = map[string]string{bootstrapv1.ValueSecretLabel: ""} })
	g.Expect(w.expect(t, bootstrapv1.ReasonValueMissing)).To(Equal("spec.values[token]: Secret tokens has no key join. Add it"))
	controllerstest.Modify(t, env, tokens, func(s *corev1.Secret) { s.StringData = map[string]string{"join": "secret-token"} })
	g.Eventually(func() string { return w.expect(t, bootstrapv1.ReasonValueMissing) }).Should(Equal("spec.values[mirror]: ConfigMap site does not exist. Create it"))
	w.noSecret(t)
	g.Expect(w.config.Status.FailureReason).To(BeEmpty(), "it may come")
	site := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "site"}, Data: map[string]string{"mirror": "http://192.0.2.1"}}
	env.Create(t, site)
	w.expect(t, bootstrapv1.ReasonDataSecretCreated)
	g.Expect(string(w.secret(t).Data["value"])).To(And(ContainSubstring("# from a ConfigMap, a\n"), ContainSubstring("join secret-token a http://192.0.2.1\n")))
	for _, o := range []client.Object{data, tokens, site} {
		g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o)).To(Succeed())
		g.Expect(o.GetLabels()).To(HaveKey(v1alpha1.MoveLabel), o.GetName())
	}
}

// TestUserDataSecret: user data in a Secret needs the label, too.
func TestUserDataSecret(t *testing.T) {
	start(t, "")
	w := newWorld(t)
	w.config.Spec.UserData, w.config.Spec.Commands, w.config.Spec.Sentinel = "", nil, bootstrapv1.SentinelUserData
	w.config.Spec.UserDataFrom = &bootstrapv1.ValueSource{SecretKeyRef: ref("kubeconfig", "value")}
	env.Create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "kubeconfig"}, StringData: map[string]string{"value": "admin"}})
	w.create(t)
	w.expect(t, bootstrapv1.ReasonSecretNotLabeled)
	w.noSecret(t)
	secret := labeledSecret(w.namespace, "kubeconfig", nil)
	controllerstest.Modify(t, env, secret, func(s *corev1.Secret) { s.Labels = map[string]string{bootstrapv1.ValueSecretLabel: ""} })
	w.expect(t, bootstrapv1.ReasonDataSecretCreated)
	NewWithT(t).Expect(string(w.secret(t).Data["value"])).To(Equal("admin"), "without a template it is used as it is")
}

// TestInvalid: what cannot be rendered is a condition and a failure, until the user corrects it. No value is in the condition.
func TestInvalid(t *testing.T) {
	start(t, "")
	big := strings.Repeat("x", 700<<10)
	for _, test := range []struct {
		reason, says string
		change       func(*bootstrapv1.BareMetalConfigSpec)
	}{
		{bootstrapv1.ReasonTemplateInvalid, "User data: line 2: unclosed action", func(s *bootstrapv1.BareMetalConfigSpec) { s.UserData = "#cloud-config\n<% .Machine" }},
		{bootstrapv1.ReasonTemplateInvalid, "Command 1: ", func(s *bootstrapv1.BareMetalConfigSpec) { s.Commands = []string{"<% .Values.none %>"} }},
		{bootstrapv1.ReasonUserDataInvalid, "its first line is not one of", func(s *bootstrapv1.BareMetalConfigSpec) { s.UserData = "<% .Values.token %>" }},
		{bootstrapv1.ReasonDataTooLarge, "the result is too large", func(s *bootstrapv1.BareMetalConfigSpec) {
			s.UserData = "#cloud-config\n# <% .Values.big %><% .Values.big %>"
		}},
	} {
		t.Run(test.reason+" "+test.says, func(t *testing.T) {
			g := NewWithT(t)
			w := newWorld(t)
			env.Create(t, labeledSecret(w.namespace, "values", map[string]string{"token": "secret-token", "big": big}))
			w.config.Spec.Values = []bootstrapv1.ConfigValue{{Name: "token", SecretKeyRef: ref("values", "token")}, {Name: "big", SecretKeyRef: ref("values", "big")}}
			good := *w.config.Spec.DeepCopy()
			test.change(&w.config.Spec)
			w.create(t)
			message := w.expect(t, test.reason)
			g.Expect(message).To(ContainSubstring(test.says))
			g.Expect(message).NotTo(ContainSubstring("secret-token"))
			g.Expect([]string{w.config.Status.FailureReason, w.config.Status.FailureMessage}).To(Equal([]string{test.reason, message}))
			w.noSecret(t)
			controllerstest.Modify(t, env, w.config, func(c *bootstrapv1.BareMetalConfig) { c.Spec = *good.DeepCopy() })
			w.expect(t, bootstrapv1.ReasonDataSecretCreated)
			g.Expect(w.config.Status.FailureReason).To(BeEmpty())
		})
	}
}
