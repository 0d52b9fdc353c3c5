package kubeconfig

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

func onUser(change func(*clientcmdapi.AuthInfo)) func(*clientcmdapi.Config) {
	return func(c *clientcmdapi.Config) { change(c.AuthInfos["u"]) }
}

// TestCheck: a kubeconfig that refers to something outside itself is refused, whichever entry does so. The error names the entry and the field, and quotes no value.
func TestCheck(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*clientcmdapi.Config)
		field  string // empty if the kubeconfig is accepted
	}{
		"a token": {func(*clientcmdapi.Config) {}, ""},
		"certificates": {onUser(func(u *clientcmdapi.AuthInfo) {
			u.Token, u.ClientCertificateData, u.ClientKeyData = "", []byte("c"), []byte("k")
		}), ""},
		"a strange name":     {func(c *clientcmdapi.Config) { c.AuthInfos["\x1b[2J"] = &clientcmdapi.AuthInfo{TokenFile: "/t"} }, `users["\x1b[2J"] has tokenFile`},
		"a token file":       {onUser(func(u *clientcmdapi.AuthInfo) { u.TokenFile = "/t" }), "users[\"u\"] has tokenFile"},
		"a certificate file": {onUser(func(u *clientcmdapi.AuthInfo) { u.ClientCertificate = "/c" }), "users[\"u\"] has client-certificate"},
		"a key file":         {onUser(func(u *clientcmdapi.AuthInfo) { u.ClientKey = "/k" }), "users[\"u\"] has client-key"},
		"a program":          {onUser(func(u *clientcmdapi.AuthInfo) { u.Exec = &clientcmdapi.ExecConfig{Command: "/bin/true"} }), "users[\"u\"] has exec"},
		"an auth provider":   {onUser(func(u *clientcmdapi.AuthInfo) { u.AuthProvider = &clientcmdapi.AuthProviderConfig{Name: "oidc"} }), "users[\"u\"] has auth-provider"},
		"another user":       {onUser(func(u *clientcmdapi.AuthInfo) { u.Impersonate = "root" }), "users[\"u\"] has as"},
		"another UID":        {onUser(func(u *clientcmdapi.AuthInfo) { u.ImpersonateUID = "1" }), "users[\"u\"] has as"},
		"other groups":       {onUser(func(u *clientcmdapi.AuthInfo) { u.ImpersonateGroups = []string{"g"} }), "users[\"u\"] has as"},
		"other extras":       {onUser(func(u *clientcmdapi.AuthInfo) { u.ImpersonateUserExtra = map[string][]string{"a": {"b"}} }), "users[\"u\"] has as"},
		"plain HTTP":         {func(c *clientcmdapi.Config) { c.Clusters["c"].Server = "http://192.0.2.1:6443" }, "clusters[\"c\"] has a server that is not https://"},
		"no scheme":          {func(c *clientcmdapi.Config) { c.Clusters["c"].Server = "192.0.2.1:6443" }, "clusters[\"c\"] has a server that is not https://"},
		"a query":            {func(c *clientcmdapi.Config) { c.Clusters["c"].Server = "https://192.0.2.1/?a=b" }, "clusters[\"c\"] has a server that is not https://"},
		"a proxy":            {func(c *clientcmdapi.Config) { c.Clusters["c"].ProxyURL = "http://192.0.2.1:3128" }, "clusters[\"c\"] has proxy-url"},
		"a CA file":          {func(c *clientcmdapi.Config) { c.Clusters["c"].CertificateAuthority = "/ca" }, "clusters[\"c\"] has certificate-authority"},
		"a cluster besides":  {func(c *clientcmdapi.Config) { c.Clusters["d"] = &clientcmdapi.Cluster{CertificateAuthority: "/ca"} }, "clusters[\"d\"] has certificate-authority"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			config := clientcmdapi.NewConfig()
			config.Clusters["c"] = &clientcmdapi.Cluster{Server: "https://192.0.2.1:6443", CertificateAuthorityData: []byte("ca")}
			config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: "t"}
			c.change(config)
			content, err := clientcmd.Write(*config)
			g.Expect(err).NotTo(HaveOccurred())
			if c.field == "" {
				g.Expect(Check(content)).To(Succeed())
				return
			}
			g.Expect(Check(content)).To(MatchError(ContainSubstring(c.field)))
		})
	}
	g := NewWithT(t)
	g.Expect(Check([]byte("{a: s3cret"))).To(MatchError(Not(ContainSubstring("s3cret"))))
}
