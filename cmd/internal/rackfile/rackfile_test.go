package rackfile_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/internal/rackfile"
)

const header = "name,bmcAddress,username,password,bootMACAddresses"

// read reads a file, and returns its problems as they are printed.
func read(t *testing.T, lines ...string) ([]rackfile.Server, []string) {
	t.Helper()
	servers, problems, err := rackfile.Read(strings.NewReader(strings.Join(lines, "\n")), "ns")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	said := []string{}
	for _, p := range problems {
		said = append(said, p.Position("f")+": "+p.Text)
	}
	return servers, said
}

// TestEveryColumn: each column becomes its field.
func TestEveryColumn(t *testing.T) {
	g := NewWithT(t)
	servers, problems := read(t, "# a comment",
		"name,bmcAddress,username,password,bootMACAddresses,caSecretName,bootMode,architecture,bootAddresses,failureDomain,labels,taints,power,externallyProvisioned",
		"", `r1-u1,redfish://192.0.2.1,admin,"pa,ss;""1",52-54-00-AA-BB-01,ca,UEFISecureBoot,arm64,192.0.2.10;2001:DB8::1,rack1,a=b; c.d/e=,gpu=yes:PreferNoClaim;old,Off,TRUE`)
	g.Expect(problems).To(BeEmpty())
	g.Expect(servers).To(HaveLen(1))
	g.Expect(servers[0].Line).To(Equal(4))
	host, secret := servers[0].Host, servers[0].Secret
	g.Expect(host.Namespace + "/" + host.Name).To(Equal("ns/r1-u1"))
	g.Expect(host.Labels).To(Equal(map[string]string{"a": "b", "c.d/e": ""}))
	g.Expect(host.Spec).To(Equal(v1alpha1.BareMetalHostSpec{
		BMC:              v1alpha1.BMC{Address: "redfish://192.0.2.1", CredentialsSecretName: "r1-u1-bmc", CASecretName: "ca"},
		BootMACAddresses: []string{"52:54:00:aa:bb:01"}, BootAddresses: []string{"192.0.2.10", "2001:db8::1"},
		BootMode: v1alpha1.BootModeUEFISecureBoot, Architecture: v1alpha1.ArchitectureARM64, FailureDomain: "rack1",
		Taints: []v1alpha1.HostTaint{{Key: "gpu", Value: "yes", Effect: v1alpha1.TaintPreferNoClaim}, {Key: "old", Effect: v1alpha1.TaintNoClaim}},
		Power:  v1alpha1.PowerOff, ExternallyProvisioned: true,
	}))
	g.Expect(secret.Name).To(Equal("r1-u1-bmc"))
	g.Expect(secret.Labels).To(HaveKey(v1alpha1.MoveLabel))
	g.Expect(secret.Data).To(Equal(map[string][]byte{"username": []byte("admin"), "password": []byte(`pa,ss;"1`)}))
}

// TestSpreadsheet: files of spreadsheets in locales with a decimal comma, with byte order mark and CRLF.
func TestSpreadsheet(t *testing.T) {
	g := NewWithT(t)
	servers, problems := read(t, "\ufeffname;bmcAddress;credentialsSecretName;bootMACAddresses;labels\r",
		"a;ipmi://192.0.2.1;shared;5254.0000.0001;\"x=1;y=2\"\r", ";;;;\r", "b;ipmi://192.0.2.2;shared;52:54:00:00:00:02;\r", "")
	g.Expect(problems).To(BeEmpty())
	g.Expect(servers).To(HaveLen(2))
	g.Expect(servers[0].Host.Labels).To(Equal(map[string]string{"x": "1", "y": "2"}))
	g.Expect(servers[0].Host.Spec.BootMACAddresses[0]).To(Equal("52:54:00:00:00:01"))
	g.Expect(servers[1].Line).To(Equal(4))
	g.Expect(servers[1].Secret).To(BeNil())
	g.Expect(servers[1].Host.Spec.BMC.CredentialsSecretName).To(Equal("shared"))
}

// TestEveryProblem: all lines are read, and each problem has its position and the remedy.
func TestEveryProblem(t *testing.T) {
	g := NewWithT(t)
	servers, problems := read(t, header+",externallyProvisioned,bootMode,labels,taints,bootAddresses,credentialsSecretName",
		"a,redfish://192.0.2.1,u,p,52:54:00:00:00:01,,,,,,",
		"A_b,https://192.0.2.2,u,p,52:54:00:00:00,yes,Legacy,x,k:Never,10.0.0.1/24,",
		"a,redfish://192.0.2.1/,u,p,52:54:00:00:00:01,,,,,,",
		"c,redfish://u:sEcret-1@192.0.2.3,,p,52:54:00:00:00:03,,,,,,",
		"d,192.0.2.4,u, sEcret-1,52:54:00:00:00:04,,,\"x=1;x=2\",\"k;k\",,",
		"e,redfish://192.0.2.5,u,sEcret-1,52:54:00:00:00:05,,,,,,mine",
		"f,redfish://192.0.2.6,u,sEcret-1,with,comma,52:54:00:00:00:05,,,,,,",
		"g,redfish://192.0.2.7,u,,,,,,,,",
		`h,redfish://192.0.2.8,u,sEcr"et-1,52:54:00:00:00:08,,,,,,`,
		"i,redfish://192.0.2.9,u,p,52:54:00:00:00:09,,,,,,")
	g.Expect(servers).To(HaveLen(2), "the first and the last")
	g.Expect(problems).To(HaveExactElements(
		And(HavePrefix("f:3: name: "), ContainSubstring("lowercase RFC 1123 subdomain")),
		HavePrefix("f:3: bmcAddress: the scheme https:// is unknown: use one of amt"),
		HavePrefix(`f:3: bootMACAddresses: "52:54:00:00:00" is not a MAC address: write it like`),
		HavePrefix(`f:3: externallyProvisioned: "yes" is neither true nor false`),
		HavePrefix(`f:3: bootMode: "Legacy" is unknown: write one of ["UEFI" "UEFISecureBoot" "BIOS"]`),
		HavePrefix(`f:3: labels: "x" is not a label: write key=value`),
		HavePrefix(`f:3: taints: "k:Never": the effect "Never" is unknown`),
		HavePrefix(`f:3: bootAddresses: "10.0.0.1/24" is not an IP address`),
		Equal(`f:4: name: the name "a" is also in line 2: each server has its own`),
		Equal("f:4: bootMACAddresses: the MAC address 52:54:00:00:00:01 is also in line 2: each server has its own"),
		Equal("f:4: bmcAddress: the BMC redfish://192.0.2.1/ is also in line 2: each server has its own"),
		HavePrefix("f:5: bmcAddress: the URL contains credentials"),
		HavePrefix("f:5: username: it is empty"),
		HavePrefix("f:6: bmcAddress: \"192.0.2.4\" is not the URL of a BMC: write it like redfish://"),
		HavePrefix("f:6: password: the password begins or ends with a space"),
		HavePrefix(`f:6: labels: the label "x" exists twice`),
		HavePrefix(`f:6: taints: the taint "k" exists twice`),
		HavePrefix("f:7: credentialsSecretName: it is set together with username or password"),
		HavePrefix("f:8: it has 13 cells and the header has 11"),
		HavePrefix("f:9: bootMACAddresses: it is empty: every server needs it"),
		HavePrefix("f:9: password: it is empty"),
		HavePrefix("f:10: bare \" in non-quoted"),
	))
	g.Expect(strings.Join(problems, "\n")).NotTo(ContainSubstring("ecret-1"), "a password")
}

// TestHeader: missing columns are reported, and a file without a header is not quoted.
func TestHeader(t *testing.T) {
	for _, test := range []struct {
		name, file string
		says       []string
	}{
		{"an unknown column", header + ",rack", []string{`f:1: the column "rack" is unknown: the columns are name, bmcAddress, username,`}},
		{"a column twice", header + ",name", []string{"f:1: name: the column exists twice"}},
		{"a missing column", "name,username,password", []string{"f:1: bmcAddress: the column is missing", "f:1: bootMACAddresses: the column is missing"}},
		{"no credentials", "name,bmcAddress,bootMACAddresses", []string{"f:1: the file has no credentials: add the columns username and password"}},
		{"half of the credentials", "name,bmcAddress,bootMACAddresses,username", []string{"f:1: one of the columns username and password is missing"}},
		{"no header", "a,redfish://192.0.2.1,u,sEcret-1,52:54:00:00:00:01", []string{"f:1: the first line contains no known column"}},
		{"nothing", "# a comment\n\n", []string{"f: the file has no header"}},
		{"not UTF-8", "name\xff", []string{`f: the file is not in UTF-8: save it as "CSV UTF-8"`}},
		{"too large", strings.Repeat("x", rackfile.MaxBytes+1), []string{"f: the file is larger than 16 MiB: split it"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			servers, problems := read(t, test.file)
			g.Expect(servers).To(BeEmpty())
			g.Expect(problems).To(HaveLen(len(test.says)))
			for i, says := range test.says {
				g.Expect(problems[i]).To(And(HavePrefix(says), Not(ContainSubstring("ecret-1"))))
			}
		})
	}
}

// TestSameBMC: a BMC address has several notations, and a BMC may have several systems.
func TestSameBMC(t *testing.T) {
	g := NewWithT(t)
	g.Expect(rackfile.SameBMC("redfish://BMC-1.example/", "redfish://bmc-1.example?auth=session")).To(BeTrue())
	g.Expect(rackfile.SameBMC("redfish://192.0.2.1", "ipmi://192.0.2.1")).To(BeTrue())
	g.Expect(rackfile.SameBMC("redfish://192.0.2.1/redfish/v1/Systems/1", "redfish://192.0.2.1/redfish/v1/Systems/2")).To(BeFalse())
	g.Expect(rackfile.SameBMC("ipmi://127.0.0.1:6230", "ipmi://127.0.0.1:6231")).To(BeFalse())
}

// FuzzRead: for any file, each server is complete, identities are unique, and each problem has a position.
func FuzzRead(f *testing.F) {
	f.Add(header + "\na,redfish://192.0.2.1,u,p,52:54:00:00:00:01\n")
	f.Add(header + ",labels,taints\na,redfish://192.0.2.1,u,p,52:54:00:00:00:01,a=b;c=d,x=y:NoClaim\na,ipmi://h,u,\"p\n")
	f.Add("name;bmcAddress;credentialsSecretName;bootMACAddresses\r\nb;ipmi://192.0.2.2;shared;5254.0000.0001\r\n")
	f.Add("\"name\"\n\"\n")
	f.Fuzz(func(t *testing.T, file string) {
		servers, problems, err := rackfile.Read(strings.NewReader(file), "ns")
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Count(file, "\n") + 1
		checkServers(t, servers, lines)
		for _, p := range problems {
			if p.Line < 0 || p.Line > lines || p.Text == "" {
				t.Errorf("%+v", p)
			}
		}
		if strings.TrimSpace(file) == "" && len(problems) == 0 {
			t.Errorf("%q is no file of servers", file)
		}
	})
}

func checkServers(t *testing.T, servers []rackfile.Server, lines int) {
	t.Helper()
	seen := map[string]bool{}
	for _, s := range servers {
		if s.Line < 1 || s.Line > lines || len(s.Host.Spec.BootMACAddresses[0]) != 17 || s.Host.Spec.BMC.Address == "" || s.Host.Spec.BMC.CredentialsSecretName == "" ||
			len(validation.IsDNS1123Subdomain(s.Host.Name)) > 0 || s.Secret != nil && (len(s.Secret.Data["username"]) == 0 || len(s.Secret.Data["password"]) == 0) {
			t.Errorf("%+v", s)
		}
		for _, id := range append(rackfile.Hardware(s.Host), rackfile.Identity{Key: "name " + s.Host.Name}) {
			if seen[id.Key] {
				t.Errorf("%s comes out twice", id.Key)
			}
			seen[id.Key] = true
		}
	}
}
