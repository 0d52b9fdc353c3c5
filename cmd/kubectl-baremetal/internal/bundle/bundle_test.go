package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// TestText: what identifies a server or could be a secret is not in the bundle, and the same thing has the same word.
func TestText(t *testing.T) {
	r := NewRedactor()
	r.Learn(map[string]any{"status": map[string]any{"hardware": map[string]any{"serialNumber": "CZ3104ABCD", "dimms": []any{map[string]any{"serialNumber": "X1"}}}}})
	r.Learn(map[string]any{"spec": map[string]any{"bmc": map[string]any{"address": "redfish://bmc-7.site.example/redfish/v1/Systems/1"}}})
	r.Learn(map[string]any{"spec": map[string]any{"image": map[string]any{"url": "https://images.site.example/a.qcow2"}}})
	for _, test := range []struct{ text, want string }{
		{"https://images.site.example/a.qcow2", "https://host-1/a.qcow2"},
		{"anna@site.example: new DIMM", "mail-1: new DIMM"},
		{"dial tcp 192.0.2.10:443: connection refused", "dial tcp ip-1:443: connection refused"},
		{"192.0.2.10, 192.0.2.11 and 127.0.0.1", "ip-1, ip-2 and 127.0.0.1"},
		{"from 2001:db8::7 and ::1", "from ip-3 and ::1"},
		{"at 10:30:00 it was 10:31", "at 10:30:00 it was 10:31"},
		{"MAC 52:54:00:12:34:56, 52-54-00-12-34-56", "MAC mac-1, mac-1"},
		{"UUID 4C4C4544-0034-4b10-8057-b4c04f4d5031", "UUID uuid-1"},
		{"serial cz3104abcd of X1", "serial serial-1 of X1"},
		{"redfish://admin:geheim@bmc-7.site.example/redfish/v1", "redfish://bmc-1/redfish/v1"},
		{"https://files.example/a.img?X-Token=abc", "https://files.example/a.img?(removed)"},
		{`password=geheim token: "two words" x=1`, `password=(removed) token: (removed) x=1`},
		{`--bmc-password geheim --user u`, `--bmc-password (removed) --user u`},
		{`--token "two words" x`, `--token (removed) x`},
		{`["--password","geheim","x"]`, `["--password",(removed),"x"]`},
		{`{"password":"ge\"heim","x":1}`, `{"password":(removed),"x":1}`},
		{`"{\"adminPassword\": \"two words\",\"x\":1}"`, `"{\"adminPassword\": (removed),\"x\":1}"`},
		{`"{\"password\":\"ge\\\"heim\",\"x\":1}"`, `"{\"password\":(removed),\"x\":1}"`},
		{"password: \"two words\nnext: \"line\"", "password: (removed)\nnext: \"line\""},
		{"passwordHash=$6$x access_key: y", "passwordHash=(removed) access_key: (removed)"},
		{"Authorization: Bearer abcdefghijkl", "Authorization: Bearer (removed)"},
		{"version 1.2.3", "version 1.2.3"},
		{"the secret is missing", "the secret is missing"},
	} {
		NewWithT(t).Expect(r.Text(test.text)).To(Equal(test.want))
	}
}

// TestTree: identities in fields are replaced even if they are short, names stay, and what no reader needs is gone.
func TestTree(t *testing.T) {
	g := NewWithT(t)
	r := NewRedactor()
	tree := map[string]any{
		"metadata": map[string]any{
			"name": "server-1", "uid": "4c4c4544-0034-4b10-8057-b4c04f4d5031", "managedFields": []any{"x"},
			"annotations": map[string]any{"kubectl.kubernetes.io/last-applied-configuration": "{}", "a": "b"},
		},
		"spec": map[string]any{"bootMACAddresses": []any{"52:54:00:12:34:56"}, "bmc": map[string]any{"address": "ipmi://192.0.2.10"}, "endpoints": []any{
			map[string]any{"host": "api.site.example"}, map[string]any{"host": "192.0.2.10"},
		}},
		"status": map[string]any{"hardware": map[string]any{"serialNumber": "A1", "model": "R640"}, "count": float64(3), "on": true},
	}
	r.Learn(tree)
	r.Tree(tree)
	g.Expect(tree).To(Equal(map[string]any{
		"metadata": map[string]any{"name": "server-1", "uid": "4c4c4544-0034-4b10-8057-b4c04f4d5031", "annotations": map[string]any{"a": "b"}},
		"spec": map[string]any{"bootMACAddresses": []any{"mac-1"}, "bmc": map[string]any{"address": "ipmi://ip-1"}, "endpoints": []any{
			map[string]any{"host": "endpoint-1"}, map[string]any{"host": "ip-1"},
		}},
		"status": map[string]any{"hardware": map[string]any{"serialNumber": "serial-1", "model": "R640"}, "count": float64(3), "on": true},
	}))
}

// TestIdentities: what identifies a server or a site by its field is replaced, there and in the texts of other objects.
func TestIdentities(t *testing.T) {
	for field, want := range map[string]string{
		"serialNumber": "serial-1", "serial": "serial-1", "systemUUID": "uuid-1", "machineID": "uuid-1", "macAddress": "mac-1", "wwn": "wwn-1", "assetTag": "asset-1", "chassisID": "chassis-1",
		"systemName": "switch-1", "portID": "port-1", "host": "endpoint-1", "holder": "user-1",
	} {
		g, r := NewWithT(t), NewRedactor()
		tree := map[string]any{"status": map[string]any{field: "Rack7-Unit12"}}
		r.Learn(tree)
		r.Tree(tree)
		g.Expect(tree).To(Equal(map[string]any{"status": map[string]any{field: want}}))
		g.Expect(r.Text("of RACK7-UNIT12.")).To(Equal("of " + want + "."))
	}
}

// TestHolders: the user in the key of an annotation that controls power is replaced, there and in all texts. The remediation that holds the power off stays.
func TestHolders(t *testing.T) {
	g := NewWithT(t)
	const holder, remediation = "anna-example.com-f7d54c22", v1alpha1.RemediationHolderPrefix + "worker-1"
	tree := func() map[string]any {
		return map[string]any{
			"metadata": map[string]any{"annotations": map[string]any{v1alpha1.PowerHoldPrefix + holder: "anna@example.com: new DIMM", v1alpha1.PowerOnPrefix + "bo": "bo: now"}},
			"spec":     map[string]any{"powerHolds": []any{map[string]any{"holder": remediation}}},
		}
	}
	r := NewRedactor()
	r.Learn(tree())
	redacted := tree()
	r.Tree(redacted)
	word := r.Text(holder)
	g.Expect(word).To(HavePrefix("user-"))
	g.Expect(redacted["metadata"]).To(HaveKeyWithValue("annotations", And(HaveLen(2), HaveKeyWithValue(v1alpha1.PowerHoldPrefix+word, "mail-1: new DIMM"))))
	g.Expect(fmt.Sprint(redacted)).NotTo(Or(ContainSubstring("anna"), ContainSubstring(v1alpha1.PowerOnPrefix+"bo")))
	g.Expect(fmt.Sprint(redacted)).To(ContainSubstring(remediation))
	g.Expect(r.Text("The annotation " + v1alpha1.PowerHoldPrefix + holder + " keeps the server off")).NotTo(ContainSubstring(holder))

	kept := tree()
	(&Redactor{KeepIdentities: true, words: map[string]string{}, count: map[string]int{}}).Tree(kept)
	g.Expect(kept).To(Equal(tree()))
}

// TestTreeWithoutSecrets: what could be a secret by its field or its name is removed, with or without the identities, and so are the variables of a Cluster. Names of Secrets stay.
func TestTreeWithoutSecrets(t *testing.T) {
	for _, keep := range []bool{false, true} {
		g := NewWithT(t)
		r := NewRedactor()
		r.KeepIdentities = keep
		variables := func() []any { return []any{map[string]any{"name": "x", "value": map[string]any{"y": "geheim"}}} }
		tree := map[string]any{
			"metadata": map[string]any{"annotations": map[string]any{"example.org/api-token": "geheim", "baremetal/bmc-secret": ""}},
			"spec": map[string]any{
				"credentialsSecretName": "server-1-bmc", "pullSecret": "registry", "secretRef": map[string]any{"name": "a"},
				"adminPassword": "geheim", "tokens": []any{"geheim", map[string]any{"a": "geheim", "count": int64(1)}},
				"env": []any{map[string]any{"name": "DB_PASSWORD", "value": "geheim"}, map[string]any{"name": "a", "value": "b"}},
				"topology": map[string]any{
					"classRef": map[string]any{"name": "c"}, "variables": variables(), "controlPlane": map[string]any{"variables": map[string]any{"overrides": variables()}},
					"workers": map[string]any{"machineDeployments": []any{map[string]any{"class": "w", "variables": map[string]any{"overrides": variables()}}}},
				},
			},
		}
		r.Learn(tree)
		r.Tree(tree)
		g.Expect(tree).To(Equal(map[string]any{
			"metadata": map[string]any{"annotations": map[string]any{"example.org/api-token": "(removed)", "baremetal/bmc-secret": ""}},
			"spec": map[string]any{
				"credentialsSecretName": "server-1-bmc", "pullSecret": "registry", "secretRef": map[string]any{"name": "a"},
				"adminPassword": "(removed)", "tokens": []any{"(removed)", map[string]any{"a": "(removed)", "count": int64(1)}},
				"env": []any{map[string]any{"name": "DB_PASSWORD", "value": "(removed)"}, map[string]any{"name": "a", "value": "b"}},
				"topology": map[string]any{
					"classRef": map[string]any{"name": "c"}, "controlPlane": map[string]any{},
					"workers": map[string]any{"machineDeployments": []any{map[string]any{"class": "w"}}},
				},
			},
		}))
	}
}

// TestLines: only lines about the host are kept, whatever the length of the others, and at most the last ones.
func TestLines(t *testing.T) {
	g := NewWithT(t)
	log := `I1 "Powered on" BareMetalHost="prod/server-1"
I2 "Powered on" BareMetalHost="prod/server-10"
{"BareMetalHost":{"name":"server-1","namespace":"prod"}}
` + strings.Repeat("x", 3*maxLogLine) + ` server-1
I3 server-1.rack server-1-bmc
I4 the host is server-1.`
	got, err := Lines(strings.NewReader(log), Words("server-1", ""))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(got)).To(Equal("I1 \"Powered on\" BareMetalHost=\"prod/server-1\"\n{\"BareMetalHost\":{\"name\":\"server-1\",\"namespace\":\"prod\"}}\nI4 the host is server-1.\n"))

	var many strings.Builder
	for i := range MaxLogLines + 10 {
		fmt.Fprintf(&many, "%d server-1\n", i)
	}
	got, err = Lines(strings.NewReader(many.String()), Words("server-1"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(bytes.Count(got, []byte("\n"))).To(Equal(MaxLogLines))
	g.Expect(string(got)).To(HavePrefix("10 server-1\n"))

	got, err = Lines(io.MultiReader(strings.NewReader("server-1\n"), broken{}), Words("server-1"))
	g.Expect(err).To(HaveOccurred())
	g.Expect(string(got)).To(Equal("server-1\n"))
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("connection lost") }

// TestWrite: the archive has all files in one folder.
func TestWrite(t *testing.T) {
	g := NewWithT(t)
	var b bytes.Buffer
	g.Expect(Write(&b, "report", []File{{"why.txt", []byte("because")}, {"objects/host.yaml", []byte("kind: x")}}, time.Unix(0, 0))).To(Succeed())
	compressed, err := gzip.NewReader(&b)
	g.Expect(err).NotTo(HaveOccurred())
	archive := tar.NewReader(compressed)
	var names []string
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		g.Expect(err).NotTo(HaveOccurred())
		names = append(names, header.Name)
	}
	g.Expect(names).To(Equal([]string{"report/why.txt", "report/objects/host.yaml"}))
}
