package ipmi

import (
	"net/url"
	"strings"
	"testing"

	"github.com/bougou/go-ipmi/pkg/types"
	. "github.com/onsi/gomega"
)

func TestParseURL(t *testing.T) {
	for in, want := range map[string]options{
		"ipmi://h":                                   {"h:623", cipherSuites, types.PrivilegeLevelAdministrator},
		"ipmi://10.0.0.1:6230/":                      {"10.0.0.1:6230", cipherSuites, types.PrivilegeLevelAdministrator},
		"ipmi://[2001:db8::1]":                       {"[2001:db8::1]:623", cipherSuites, types.PrivilegeLevelAdministrator},
		"ipmi://h?cipherSuite=3":                     {"h:623", []types.CipherSuiteID{3}, types.PrivilegeLevelAdministrator},
		"ipmi://h?cipherSuite=17&privilege=operator": {"h:623", []types.CipherSuiteID{17}, types.PrivilegeLevelOperator},
	} {
		g := NewWithT(t)
		u, err := url.Parse(in)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(parseURL(u)).To(Equal(want), in)
	}
}

// TestParseURLErrors: each error contains the remedy.
func TestParseURLErrors(t *testing.T) {
	for in, remedy := range map[string]string{
		"redfish://h":                       "the scheme is not ipmi",
		"ipmi:h":                            "write ipmi://host",
		"ipmi:///x":                         "write ipmi://host",
		"ipmi://h/redfish/v1":               "remove \"/redfish/v1\"",
		"ipmi://h#top":                      "remove \"#top\"",
		"ipmi://h:0":                        "from 1 to 65535",
		"ipmi://h:70000":                    "from 1 to 65535",
		"ipmi://admin:hunter2@h":            "put them into the Secret",
		"ipmi://h?cipherSuite=0":            "write cipherSuite=17 or cipherSuite=3",
		"ipmi://h?cipherSuite=4":            "write cipherSuite=17",
		"ipmi://h?cipherSuite=":             "write cipherSuite=17",
		"ipmi://h?privilege=root":           "administrator, operator, user",
		"ipmi://h?auth=session":             "IPMI has cipherSuite and privilege",
		"ipmi://h?cipherSuite=3;x":          "write ?cipherSuite=17",
		"ipmi://h?privilege=user&privilege": "more than once",
	} {
		g := NewWithT(t)
		u, err := url.Parse(in)
		g.Expect(err).NotTo(HaveOccurred())
		_, err = parseURL(u)
		g.Expect(err).To(MatchError(ContainSubstring(remedy)), in)
		g.Expect(err.Error()).NotTo(ContainSubstring("hunter2"))
	}
}

// FuzzURL: a valid URL has a host and a port and proposes only cipher suites with authentication. The error of an invalid URL has a reason
// and does not contain the password.
func FuzzURL(f *testing.F) {
	for _, in := range []string{"ipmi://h", "ipmi://h:623?cipherSuite=17&privilege=user", "ipmi://u:p@h", "ipmi://[::1%25eth0]:1", "ipmi://h?cipherSuite=0", "ipmi://h/%2f"} {
		f.Add(in)
	}
	f.Fuzz(func(t *testing.T, in string) {
		u, err := url.Parse(in)
		if err != nil {
			return
		}
		opts, err := parseURL(u)
		if err != nil {
			if password, ok := u.User.Password(); ok && len(password) > 8 && strings.Contains(err.Error(), password) {
				t.Errorf("the error names the password: %v", err)
			}
			return
		}
		if !strings.Contains(opts.address, ":") || len(opts.suites) == 0 {
			t.Errorf("%q became %+v", in, opts)
		}
		for _, suite := range opts.suites {
			auth, integrity, confidentiality, ok := types.GetCipherSuiteAlgorithms(suite)
			if !ok || auth == types.AuthAlg_None || integrity == types.IntegrityAlg_None || confidentiality == types.CryptAlg_None {
				t.Errorf("%q proposes cipher suite %d", in, suite)
			}
		}
	})
}
