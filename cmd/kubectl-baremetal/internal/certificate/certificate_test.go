package certificate

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

// exportedFile is a golden file of inventory/erasure: two certificates.
const exportedFile = "../../../../inventory/erasure/testdata/certificates.json"

// TestCertificateText: the text form is that of the golden file. Control characters that a drive reports do not reach the terminal.
func TestCertificateText(t *testing.T) {
	g := NewWithT(t)
	content, err := os.ReadFile(exportedFile)
	g.Expect(err).NotTo(HaveOccurred())
	document, err := erasure.ParseDocument(content)
	g.Expect(err).NotTo(HaveOccurred())
	var out bytes.Buffer
	for i := range document.Certificates {
		Print(&out, &document.Certificates[i])
	}
	path := filepath.Join("testdata", "certificates.txt")
	if *update {
		g.Expect(os.WriteFile(path, out.Bytes(), 0o600)).To(Succeed())
	}
	want, err := os.ReadFile(path)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(out.String()).To(Equal(string(want)), "go test ./cmd/kubectl-baremetal/internal/certificate -run TestCertificateText -update writes it")

	hostile := document.Certificates[0]
	hostile.Certificate.Media[0].Model = "\x1b]0;owned\x07\nSerial number: FAKE"
	hostile.Certificate.Transport.TLS = false
	out.Reset()
	Print(&out, &hostile)
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
	Print(&out, &document.Certificates[0])
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
	Print(&out, &document.Certificates[1])
	g.Expect(out.String()).NotTo(ContainSubstring("by hand"))
}
