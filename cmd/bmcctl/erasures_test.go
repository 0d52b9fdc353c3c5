package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// The golden files of inventory/erasure: two certificates, and the public key that verifies them.
const (
	exportedFile  = "../../inventory/erasure/testdata/certificates.json"
	publicKeyFile = "../../inventory/erasure/testdata/key.pem"
)

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
		{[]string{"erasures"}, "write bmcctl erasures verify erasures.json --key keys.pem"},
		{[]string{"erasures", "server-1"}, "kubectl baremetal erasures prints those of a host"},
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
