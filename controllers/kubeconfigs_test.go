package controllers_test

import (
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/outbound"
)

// kubeconfigSecret returns the kubeconfig Secret of the cluster dc/c, after change modified the kubeconfig.
func kubeconfigSecret(g Gomega, change func(*clientcmdapi.Config)) *corev1.Secret {
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: "https://192.0.2.1:6443", CertificateAuthorityData: certificate}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: "t"}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "x"
	change(config)
	content, err := clientcmd.Write(*config)
	g.Expect(err).NotTo(HaveOccurred())
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "dc", Name: "c-kubeconfig"}, Data: map[string][]byte{"value": content}}
}

// certificate and key are valid.
var certificate, key = func() (certificate, key []byte) {
	certificate, key, err := cert.GenerateSelfSignedCertKey("192.0.2.1", nil, nil)
	if err != nil {
		panic(err)
	}
	return certificate, key
}()

func newKubeconfigs(t *testing.T, secrets client.Reader) *controllers.Kubeconfigs {
	t.Helper()
	k, err := controllers.NewKubeconfigs(t.Context(), secrets, secrets, outbound.Policy{})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return k
}

func onUser(change func(*clientcmdapi.AuthInfo)) func(*clientcmdapi.Config) {
	return func(c *clientcmdapi.Config) { change(c.AuthInfos["u"]) }
}

// TestKubeconfigs: a kubeconfig that refers to something outside itself is refused, whichever entry does so, and its content is not returned.
func TestKubeconfigs(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*clientcmdapi.Config)
		field  string // empty if the kubeconfig is accepted
	}{
		"a token":          {func(*clientcmdapi.Config) {}, ""},
		"a certificate":    {onUser(func(u *clientcmdapi.AuthInfo) { u.ClientCertificateData, u.ClientKeyData = certificate, key }), ""},
		"no certificate":   {onUser(func(u *clientcmdapi.AuthInfo) { u.ClientCertificateData, u.ClientKeyData = []byte("c"), []byte("k") }), "its certificates or keys are not valid"},
		"a password":       {onUser(func(u *clientcmdapi.AuthInfo) { u.Token, u.Username, u.Password = "", "u", "p" }), ""},
		"a token file":     {onUser(func(u *clientcmdapi.AuthInfo) { u.TokenFile = "/var/run/secrets/token" }), "users[\"u\"] has tokenFile"},
		"an entry besides": {func(c *clientcmdapi.Config) { c.AuthInfos["v"] = &clientcmdapi.AuthInfo{TokenFile: "/t"} }, "users[\"v\"] has tokenFile"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			k := newKubeconfigs(t, fake.NewClientBuilder().WithObjects(kubeconfigSecret(g, c.change)).Build())
			var s corev1.Secret
			err := k.Get(t.Context(), client.ObjectKey{Namespace: "dc", Name: "c-kubeconfig"}, &s)
			known, refused := k.Verdict(client.ObjectKey{Namespace: "dc", Name: "c"})
			g.Expect(known).To(BeTrue())
			if c.field == "" {
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(refused).NotTo(HaveOccurred())
				through, err := clientcmd.Load(s.Data["value"])
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(through.Clusters["c"].Server).To(HavePrefix("https://127.0.0.1:"))
				for _, own := range []string{"192.0.2.1", "token: t\n", "password"} {
					g.Expect(string(s.Data["value"])).NotTo(ContainSubstring(own), "only the gateway has it")
				}
				return
			}
			g.Expect(err).To(MatchError(ContainSubstring(c.field)))
			g.Expect(refused).To(MatchError(ContainSubstring(c.field)))
			g.Expect(s.Data).To(BeEmpty())
		})
	}
}

// TestKubeconfigVerdicts: a change of the verdict sends an event, and a corrected kubeconfig is accepted. Other Secrets are not checked, and an error
// quotes no content that cannot be parsed.
func TestKubeconfigVerdicts(t *testing.T) {
	g := NewWithT(t)
	api := fake.NewClientBuilder().WithObjects(
		kubeconfigSecret(g, onUser(func(u *clientcmdapi.AuthInfo) { u.TokenFile = "/t" })),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "dc", Name: "other"}, Data: map[string][]byte{"value": []byte("secret")}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "dc", Name: "d-kubeconfig"}, Data: map[string][]byte{"value": []byte("{secret")}},
	).Build()
	k := newKubeconfigs(t, api)
	get := func(name string) error {
		return k.Get(t.Context(), client.ObjectKey{Namespace: "dc", Name: name}, &corev1.Secret{})
	}
	for range 3 {
		g.Expect(get("c-kubeconfig")).NotTo(Succeed())
	}
	g.Expect(k.Changes()).To(HaveLen(1))
	g.Expect((<-k.Changes()).Object).To(Equal(client.ObjectKey{Namespace: "dc", Name: "c"}))
	g.Expect(api.Update(t.Context(), kubeconfigSecret(g, func(*clientcmdapi.Config) {}))).To(Succeed())
	g.Expect(get("c-kubeconfig")).To(Succeed())
	g.Expect(k.Changes()).To(HaveLen(1))
	<-k.Changes()

	g.Expect(get("other")).To(Succeed())
	known, _ := k.Verdict(client.ObjectKey{Namespace: "dc", Name: "other"})
	g.Expect(known).To(BeFalse())
	g.Expect(get("d-kubeconfig")).To(MatchError(Not(ContainSubstring("{secret"))))
	k.Forget(client.ObjectKey{Namespace: "dc", Name: "d"})
	known, _ = k.Verdict(client.ObjectKey{Namespace: "dc", Name: "d"})
	g.Expect(known).To(BeFalse())
}

// TestRefusedAPIServer: an API server that was refused stays refused for a while, unless the kubeconfig changes, and is reported once.
func TestRefusedAPIServer(t *testing.T) {
	g := NewWithT(t)
	api := fake.NewClientBuilder().WithObjects(kubeconfigSecret(g, func(*clientcmdapi.Config) {})).Build()
	k := newKubeconfigs(t, api)
	cluster := client.ObjectKey{Namespace: "dc", Name: "c"}
	get := func() error {
		return k.Get(t.Context(), client.ObjectKey{Namespace: "dc", Name: "c-kubeconfig"}, &corev1.Secret{})
	}
	g.Expect(get()).To(Succeed())
	k.Refuse(cluster, errors.New("it sent too much"))
	for range 2 {
		g.Expect(get()).To(MatchError(ContainSubstring("it sent too much")))
	}
	_, refused := k.Verdict(cluster)
	g.Expect(refused).To(MatchError("it sent too much"))
	g.Expect(k.Changes()).To(HaveLen(2), "accepted, refused")
	g.Expect(api.Update(t.Context(), kubeconfigSecret(g, func(c *clientcmdapi.Config) { c.Clusters["c"].Server = "https://192.0.2.2:6443" }))).To(Succeed())
	g.Expect(get()).To(Succeed())
}
