package erasure_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/erasure"
)

func publicKeys(numbers ...byte) map[string]ed25519.PublicKey {
	keys := map[string]ed25519.PublicKey{}
	for _, n := range numbers {
		keys[erasure.KeyID(publicKey(testKey(n)))] = publicKey(testKey(n))
	}
	return keys
}

// exported returns the file of two records.
func exported(t *testing.T) []byte {
	t.Helper()
	g := NewWithT(t)
	plain := purged()
	plain.Server, plain.BootNumber, plain.MachineName, plain.ProviderID = v1alpha1.ErasedServer{}, 6, "", ""
	plain.Report = v1alpha1.ErasureReport{Policy: wire.PolicyMetadata, StartTime: at(0), EndTime: at(1)}
	document := erasure.Export([]v1alpha1.BareMetalErasure{{Spec: *signed(t, purged())}, {Spec: *signed(t, plain)}})
	content, err := document.Encode()
	g.Expect(err).NotTo(HaveOccurred())
	return content
}

// TestDocument: the exported file is that of the golden file, and it is valid with the public key alone.
func TestDocument(t *testing.T) {
	g := NewWithT(t)
	golden(t, "certificates.json", exported(t))
	document, err := erasure.ParseDocument(exported(t))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(document.Certificates).To(HaveLen(2))
	for i := range document.Certificates {
		g.Expect(document.Certificates[i].Verify(publicKeys(2, 1))).To(Succeed())
		g.Expect(document.Certificates[i].Verify(publicKeys(2))).To(MatchError(erasure.ErrUnknownKey))
		g.Expect(document.Certificates[i].Verify(nil)).To(MatchError(erasure.ErrUnknownKey))
	}
}

// TestVerificationTexts: a certificate says that samples were compared only if there was content of before to compare them with.
func TestVerificationTexts(t *testing.T) {
	g := NewWithT(t)
	spec := purged()
	disks := spec.Report.Disks[:1]
	spec.Report.Disks = disks
	disks[0].Verification = &wire.ErasureVerification{Kind: "Samples", Passed: true, Samples: 64, Bytes: 262144, Blank: 64}
	g.Expect(erasure.CertificateOf(spec).Media[0].Verification).To(Equal("representative sampling: 64 samples with 262144 bytes were read after the erasure " +
		"(64 blank, 0 unreadable), and none could be compared with content of before: passed"))
	disks[0].Verification = &wire.ErasureVerification{Kind: "Samples", Passed: true, Samples: 64, Bytes: 262144, Changed: 1, Blank: 64}
	g.Expect(erasure.CertificateOf(spec).Media[0].Verification).To(ContainSubstring("were compared with those before the erasure (1 changed, 64 blank, 0 unreadable)"))
}

// TestChangedDocument: a changed file is refused, and the message names what was changed where that can be known.
func TestChangedDocument(t *testing.T) {
	g := NewWithT(t)
	file := string(exported(t))
	inCertificate, inStatement, _ := strings.Cut(file, `"statement"`)
	inCertificate += `"statement"`
	for name, test := range map[string]struct{ file, says string }{
		"the certificate": {
			strings.Replace(inCertificate, "NVME0001", "NVME0002", 1) + inStatement,
			`the signed statement is unchanged, but the certificate was changed after the export: certificate.media[0].serialNumber is "NVME0002", and by the statement it is "NVME0001"`,
		},
		"the statement": {
			inCertificate + strings.Replace(inStatement, "NVME0001", "NVME0002", 1),
			`a field was changed after it was signed, or the signature was forged. The statement and the certificate differ: certificate.media[0].serialNumber is "NVME0001", and by the statement it is "NVME0002"`,
		},
		"both":                   {strings.ReplaceAll(file, "NVME0001", "NVME0002"), "a field was changed after it was signed"},
		"a field without a copy": {strings.Replace(file, `"name": "nvme0n1"`, `"name": "nvme1n1"`, 1), "a field was changed after it was signed"},
		"a disk is gone":         {strings.Replace(file, `"media": [`, `"media": [], "x": [`, 1), "unknown field"},
		"the text":               {strings.Replace(file, "The provider did not observe the disks itself.", "", 1), "certificate.basis is"},
		"TLS":                    {strings.Replace(file, `"tls": true`, `"tls": false`, 1), `certificate.transport.tls is false, and by the statement it is true`},
		"a field is added":       {strings.Replace(file, `"machine": "workers`, `"approvedBy": "x", "machine": "workers`, 1), `unknown field "approvedBy"`},
		"a field twice":          {strings.Replace(file, `"serialNumber": "SYS0001"`, `"serialNumber": "OTHER", "serialNumber": "SYS0001"`, 1), "a field twice"},
		"in other letters":       {strings.Replace(file, `"serialNumber": "SYS0001"`, `"SerialNumber": "SYS0001"`, 1), "with another name"},
		"null":                   {strings.Replace(file, `"serialNumber": "SYS0001"`, `"serialNumber": null`, 1), "in another form"},
		"another format":         {strings.Replace(file, erasure.DocumentFormat, "x", 1), `its format is "x"`},
		"another statement":      {strings.Replace(file, erasure.Format+`"`, erasure.Format+`0"`, 1), "statement.format is"},
		"more after it":          {file + "{}", "more than one JSON value"},
		"no JSON":                {"Certificate of sanitization", "it is not a file of bmcctl erasures"},
		"a list":                 {"[]", "it is not a file of bmcctl erasures"},
		"empty":                  {"", "it is not a file of bmcctl erasures"},
		"no certificate":         {`{"format": "` + erasure.DocumentFormat + `", "certificates": []}`, "it has no certificate"},
	} {
		g.Expect(test.file).NotTo(Equal(file), name)
		document, err := erasure.ParseDocument([]byte(test.file))
		if err == nil {
			err = document.Certificates[0].Verify(publicKeys(1))
		}
		g.Expect(err).To(MatchError(ContainSubstring(test.says)), name)
	}
}

// TestSpaceMakesNoDifference: another indentation of the file is valid.
func TestSpaceMakesNoDifference(t *testing.T) {
	g := NewWithT(t)
	var compact bytes.Buffer
	g.Expect(json.Compact(&compact, exported(t))).To(Succeed())
	document, err := erasure.ParseDocument(compact.Bytes())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(document.Certificates[0].Verify(publicKeys(1))).To(Succeed())
}

// TestUnprovenIsNotCertified: also a valid signature does not make a certificate of an erasure that is not proven.
func TestUnprovenIsNotCertified(t *testing.T) {
	g := NewWithT(t)
	spec := purged()
	spec.Report.Disks[1].Verification.Passed = false
	document := erasure.Export([]v1alpha1.BareMetalErasure{{Spec: *signed(t, spec)}})
	g.Expect(document.Certificates[0].Verify(publicKeys(1))).To(MatchError(ContainSubstring(`"HDD0001"`)))
}

// FuzzVerify: whatever a file has, it is refused, or it has a statement that was signed: nobody else has the key.
func FuzzVerify(f *testing.F) {
	content, err := os.ReadFile(filepath.Join("testdata", "certificates.json"))
	if err != nil {
		f.Fatal(err)
	}
	genuine, err := erasure.ParseDocument(content)
	if err != nil {
		f.Fatal(err)
	}
	var statements []string
	for i := range genuine.Certificates {
		signed, err := erasure.Canonical(&genuine.Certificates[i].Statement.Erasure)
		if err != nil {
			f.Fatal(err)
		}
		statements = append(statements, string(signed))
	}
	f.Add(content)
	f.Add([]byte(`{"format":"` + erasure.DocumentFormat + `","certificates":[{"statement":{"erasure":{"report":{"disks":[{}]}},"format":"` + erasure.Format + `"}}]}`))
	f.Add([]byte(`{"certificates":[{}]}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		document, err := erasure.ParseDocument(content)
		if err != nil {
			return
		}
		for i := range document.Certificates {
			entry := &document.Certificates[i]
			if entry.Verify(publicKeys(1)) != nil {
				continue
			}
			got, err := erasure.Canonical(&entry.Statement.Erasure)
			if err != nil || string(got) != statements[0] && string(got) != statements[1] {
				t.Fatalf("forged: %s", content)
			}
			shown, err := json.Marshal(entry.Certificate)
			want, err2 := json.Marshal(erasure.CertificateOf(&entry.Statement.Erasure))
			if err != nil || err2 != nil || !bytes.Equal(shown, want) {
				t.Fatalf("it shows something else: %s", content)
			}
		}
	})
}
