package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/erasure"
)

var update = flag.Bool("update", false, "write the golden files")

// The golden files of inventory/erasure: two certificates, and the public key that verifies them.
const (
	exportedFile  = "../../inventory/erasure/testdata/certificates.json"
	publicKeyFile = "../../inventory/erasure/testdata/key.pem"
)

// TestCertificateText: the text form is that of the golden file. Control characters that a drive reports do not reach the terminal.
func TestCertificateText(t *testing.T) {
	g := NewWithT(t)
	content, err := os.ReadFile(exportedFile)
	g.Expect(err).NotTo(HaveOccurred())
	document, err := erasure.ParseDocument(content)
	g.Expect(err).NotTo(HaveOccurred())
	var out bytes.Buffer
	for i := range document.Certificates {
		printCertificate(&out, &document.Certificates[i])
	}
	path := filepath.Join("testdata", "certificates.txt")
	if *update {
		g.Expect(os.WriteFile(path, out.Bytes(), 0o600)).To(Succeed())
	}
	want, err := os.ReadFile(path)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(out.String()).To(Equal(string(want)), "go test ./cmd/bmcctl -run TestCertificateText -update writes it")

	hostile := document.Certificates[0]
	hostile.Certificate.Media[0].Model = "\x1b]0;owned\x07\nSerial number: FAKE"
	hostile.Certificate.Transport.TLS = false
	out.Reset()
	printCertificate(&out, &hostile)
	g.Expect(out.String()).To(And(ContainSubstring("?]0;owned? Serial number: FAKE\n"), Not(ContainSubstring("\x1b")), Not(MatchRegexp(`(?m)^Serial number: FAKE`))))
	g.Expect(out.String()).To(ContainSubstring("could have changed the report"))
}

// TestCertificateForm: the text form ends with an empty line for each field of NIST SP 800-88 that only people know. A record of an erasure of metadata has no such fields.
func TestCertificateForm(t *testing.T) {
	g := NewWithT(t)
	content, err := os.ReadFile(exportedFile)
	g.Expect(err).NotTo(HaveOccurred())
	document, err := erasure.ParseDocument(content)
	g.Expect(err).NotTo(HaveOccurred())
	var out bytes.Buffer
	printCertificate(&out, &document.Certificates[0])
	_, form, found := strings.Cut(out.String(), "\nTo be completed by hand\n")
	g.Expect(found).To(BeTrue())
	var fields []string
	for line := range strings.Lines(form) {
		name, value, field := strings.Cut(strings.TrimSpace(line), ":")
		fields = append(fields, name)
		if field {
			g.Expect(strings.Trim(value, " _")).To(BeEmpty(), line)
		}
	}
	person := []string{"Name", "Title", "Organization", "Date", "Location", "Phone", "Signature"}
	g.Expect(fields).To(Equal(slices.Concat(
		[]string{"Property no., medium 1", "Property no., medium 2", "Property no., medium 3"},
		[]string{"Media source", "Confidentiality before", "Confidentiality after", "Media destination"},
		[]string{"Sanitization performed by"}, person, []string{"Validated by"}, person,
	)))

	out.Reset()
	printCertificate(&out, &document.Certificates[1])
	g.Expect(out.String()).NotTo(ContainSubstring("by hand"))
}

// TestVerifyOffline: exported certificates are verified with the public key alone, and a changed field is named.
func TestVerifyOffline(t *testing.T) {
	g := NewWithT(t)
	content, err := os.ReadFile(exportedFile)
	g.Expect(err).NotTo(HaveOccurred())
	got := bmcctl(t, nil, "erasures", "verify", exportedFile, "--key", publicKeyFile)
	g.Expect(got.code).To(Equal(exitOK), got.err)
	g.Expect(got.out).To(Equal("valid    certificate 1 (host rack1/server-1, boot 7): Purge of 2 disks, 1 left out, erased 2026-11-25 18:09 UTC\n" +
		"valid    certificate 2 (host rack1/server-1, boot 6): Metadata of 0 disks, 0 left out, erased 2026-11-25 18:01 UTC\n"))

	write := func(content string) string {
		path := filepath.Join(t.TempDir(), "changed")
		g.Expect(os.WriteFile(path, []byte(content), 0o600)).To(Succeed())
		return path
	}
	before, after, _ := strings.Cut(string(content), `"statement"`)
	changed := write(before + `"statement"` + strings.Replace(after, `"NVME0001"`, `"NVME0002"`, 1))
	got = bmcctl(t, nil, "erasures", "verify", changed, "--key", publicKeyFile)
	g.Expect(got.code).To(Equal(exitFailed))
	g.Expect(got.out).To(ContainSubstring(`INVALID  certificate 1 (host rack1/server-1, boot 7): the signature does not match the record: a field was changed after it was signed`))
	g.Expect(got.out).To(ContainSubstring(`certificate.media[0].serialNumber is "NVME0001", and by the statement it is "NVME0002"`))
	g.Expect(got.out).To(ContainSubstring("valid    certificate 2"))
	g.Expect(got.err).To(ContainSubstring("1 of 2 certificates are not valid"))

	_, other, _ := strings.Cut(string(content), "{")
	for name, test := range map[string]struct {
		file, key, says string
	}{
		"a certificate changed": {write(strings.Replace(string(content), `"NVME0001"`, `"NVME0002"`, 1)), publicKeyFile, "the certificate was changed after the export"},
		"no JSON":               {write(other), publicKeyFile, "it is not a file of bmcctl erasures"},
		"no key":                {exportedFile, exportedFile, "no PEM block"},
		"another key": {
			exportedFile, write("-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n"), "it was signed with another key",
		},
	} {
		got := bmcctl(t, nil, "erasures", "verify", test.file, "--key", test.key)
		g.Expect(got.code).To(Equal(exitFailed), name)
		g.Expect(got.out+got.err).To(ContainSubstring(test.says), name)
	}
}

// TestErasuresUsage: a mistake in the command line has the remedy.
func TestErasuresUsage(t *testing.T) {
	g := NewWithT(t)
	for _, test := range []struct {
		args []string
		says string
	}{
		{[]string{"erasures"}, "takes one host, but got 0: write bmcctl erasures server-1, or use --all"},
		{[]string{"erasures", "a", "b"}, "takes one host, but got 2"},
		{[]string{"erasures", "a", "--all"}, "do not name a host"},
		{[]string{"erasures", "a", "-o", "yaml"}, `"yaml" is unknown: use text or json`},
		{[]string{"erasures", "a", "--key", publicKeyFile}, "--key is for bmcctl erasures verify"},
		{[]string{"erasures", "a", "--kubeconfig", "/none"}, "the kubeconfig: "},
		{[]string{"erasures", "verify"}, "takes one file, but got 0"},
		{[]string{"erasures", "verify", exportedFile}, "needs --key FILE"},
		{[]string{"erasures", "verify", exportedFile, "--key", "/none"}, "--key: open /none"},
		{[]string{"erasures", "verify", "/none", "--key", publicKeyFile}, "open /none"},
		{[]string{"erasures", "--nothing"}, "unknown flag: --nothing"},
	} {
		got := bmcctl(t, nil, test.args...)
		g.Expect(got.code).To(Equal(exitUsage), "%v", test.args)
		g.Expect(got.err).To(ContainSubstring(test.says), "%v", test.args)
	}
}
