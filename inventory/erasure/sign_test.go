package erasure_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/erasure"
)

var update = flag.Bool("update", false, "write the golden files")

// golden compares content with a file of testdata, byte for byte.
func golden(t *testing.T, name string, content []byte) {
	t.Helper()
	g := NewWithT(t)
	path := filepath.Join("testdata", name)
	if *update {
		g.Expect(os.WriteFile(path, content, 0o600)).To(Succeed())
	}
	want, err := os.ReadFile(path)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(content)).To(Equal(string(want)), "go test ./inventory/erasure -update writes %s. If its bytes change, records that exist are not valid any more", path)
}

// TestCanonical: the signed bytes are those of the golden file, and the signature over them is, too.
func TestCanonical(t *testing.T) {
	g := NewWithT(t)
	spec := signed(t, purged())
	content, err := erasure.Canonical(spec)
	g.Expect(err).NotTo(HaveOccurred())
	golden(t, "canonical.json", content)
	golden(t, "signature.txt", []byte(spec.Signature.KeyID+"\n"+spec.Signature.Value+"\n"))
	golden(t, "key.pem", erasure.EncodePublicKey(publicKey(testKey(1))))
	g.Expect(json.Valid(content)).To(BeTrue())
}

// TestCanonicalForm: the form is that of RFC 8785, and integers have all digits.
func TestCanonicalForm(t *testing.T) {
	g := NewWithT(t)
	spec := &v1alpha1.BareMetalErasureSpec{
		HostName: "\x00\b\t\n\f\r\x1f\x7f\"\\/<>&\u2028é€\U0001F600\xff",
		Report: v1alpha1.ErasureReport{
			StartTime: metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 6, time.FixedZone("", 3600))),
			Disks:     []v1alpha1.ErasedDisk{{DiskErasure: wire.DiskErasure{Disk: wire.DiskIdentity{SizeBytes: 1<<63 - 1}}, StartTime: &metav1.Time{}}},
		},
	}
	content, err := erasure.Canonical(spec)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(content)).To(Equal(`{"erasure":{"hostName":"\u0000\b\t\n\f\r\u001f` + "\x7f" + `\"\\/<>&` + "\u2028é€\U0001F600\ufffd" +
		`","report":{"disks":[{"disk":{"sizeBytes":9223372036854775807}}],"startTime":"2026-01-02T02:04:05Z"}},"format":"cluster-api-provider-baremetal/erasure/v1"}`))
}

// TestMetadataIsNotSigned: a record that was created again with other metadata has the same bytes.
func TestMetadataIsNotSigned(t *testing.T) {
	g := NewWithT(t)
	record := v1alpha1.BareMetalErasure{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "b", UID: "c", ResourceVersion: "1"}, Spec: *signed(t, purged())}
	content, err := json.Marshal(record)
	g.Expect(err).NotTo(HaveOccurred())
	var moved v1alpha1.BareMetalErasure
	g.Expect(json.Unmarshal(content, &moved)).To(Succeed())
	moved.ObjectMeta = metav1.ObjectMeta{Name: "d", Namespace: "e", UID: "f", Labels: map[string]string{"x": "y"}}
	g.Expect(erasure.Verify(&moved.Spec, publicKey(testKey(1)))).To(Succeed())
}

// TestVerify: what is not a signature of this record with this key is refused.
func TestVerify(t *testing.T) {
	g := NewWithT(t)
	key := publicKey(testKey(1))
	g.Expect(erasure.Verify(signed(t, purged()), key)).To(Succeed())
	other := purged()
	other.BootNumber = 8
	foreign := signed(t, other).Signature.Value
	for name, test := range map[string]struct {
		change func(*v1alpha1.BareMetalErasureSpec)
		is     error
		says   string
	}{
		"a field":          {func(s *v1alpha1.BareMetalErasureSpec) { s.Server.SerialNumber = "SYS0002" }, erasure.ErrSignature, ""},
		"another record's": {func(s *v1alpha1.BareMetalErasureSpec) { s.Signature.Value = foreign }, erasure.ErrSignature, ""},
		"no value":         {func(s *v1alpha1.BareMetalErasureSpec) { s.Signature.Value = "" }, erasure.ErrSignature, "64 bytes"},
		"not base64":       {func(s *v1alpha1.BareMetalErasureSpec) { s.Signature.Value = "!" }, erasure.ErrSignature, "64 bytes"},
		"too short":        {func(s *v1alpha1.BareMetalErasureSpec) { s.Signature.Value = "AAAA" }, erasure.ErrSignature, "64 bytes"},
		"with a new line":  {func(s *v1alpha1.BareMetalErasureSpec) { s.Signature.Value += "\n" }, erasure.ErrSignature, "64 bytes"},
		"another text of the same bytes": {func(s *v1alpha1.BareMetalErasureSpec) {
			last := s.Signature.Value[85]
			s.Signature.Value = s.Signature.Value[:85] + string(last+1) + "=="
		}, erasure.ErrSignature, "64 bytes"},
		"another key":   {func(s *v1alpha1.BareMetalErasureSpec) { s.Signature.KeyID = erasure.KeyID(publicKey(testKey(2))) }, erasure.ErrUnknownKey, ""},
		"no key":        {func(s *v1alpha1.BareMetalErasureSpec) { s.Signature.KeyID = "" }, erasure.ErrUnknownKey, ""},
		"its algorithm": {func(s *v1alpha1.BareMetalErasureSpec) { s.Signature.Algorithm = "None" }, nil, `"None"`},
		"no signature":  {func(s *v1alpha1.BareMetalErasureSpec) { s.Signature = v1alpha1.ErasureSignature{} }, nil, "algorithm"},
		"another time": {func(s *v1alpha1.BareMetalErasureSpec) {
			s.RecordedTime = metav1.NewTime(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC))
		}, erasure.ErrSignature, ""},
	} {
		spec := signed(t, purged())
		test.change(spec)
		err := erasure.Verify(spec, key)
		g.Expect(err).To(HaveOccurred(), name)
		if test.is != nil {
			g.Expect(err).To(MatchError(test.is), name)
		}
		g.Expect(err.Error()).To(ContainSubstring(test.says), name)
	}
	g.Expect(erasure.Verify(signed(t, purged()), nil)).To(MatchError(ContainSubstring("not a public key")))
	spec := signed(t, purged())
	spec.Signature.KeyID = erasure.KeyID(publicKey(testKey(2)))
	g.Expect(erasure.Verify(spec, publicKey(testKey(2)))).To(MatchError(erasure.ErrSignature), "signed by one key, labelled with another")
	g.Expect(erasure.Sign(purged(), nil)).NotTo(Succeed())
}

// leaves calls visit for each value of a tree that is neither an object nor a list, with a function that replaces it; nil removes a field of an object.
func leaves(v any, path string, replace func(any), visit func(path string, old any, replace func(any))) {
	switch v := v.(type) {
	case map[string]any:
		for name, item := range v {
			leaves(item, path+"."+name, func(n any) {
				if v[name] = n; n == nil {
					delete(v, name)
				}
			}, visit)
		}
	case []any:
		for i, item := range v {
			leaves(item, fmt.Sprintf("%s[%d]", path, i), func(n any) { v[i] = n }, visit)
		}
	default:
		visit(path, v, replace)
	}
}

// mutated returns values of the same type that differ.
func mutated(t *rapid.T, old any) any {
	switch old := old.(type) {
	case bool:
		return !old
	case float64:
		return old + float64(rapid.Int32Range(1, 100).Draw(t, "added"))
	case string:
		if when, err := time.Parse(time.RFC3339, old); err == nil {
			return when.Add(time.Second).Format(time.RFC3339)
		}
		if old != "" && rapid.Bool().Draw(t, "shorter") {
			return old[:len(old)-1]
		}
		return old + rapid.StringMatching(`[ -~]{1,3}`).Draw(t, "appended")
	default:
		panic(fmt.Sprintf("%T", old))
	}
}

// TestEveryFieldIsSigned: each change and each removal of any field of a record breaks its signature. Fields that the types get later are covered without a change of
// this test: fill fills every field, or fails.
func TestEveryFieldIsSigned(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		content, err := json.Marshal(signed(t, drawSpec(t)))
		if err != nil {
			t.Fatal(err)
		}
		decoded := func() (tree any) {
			if err := json.Unmarshal(content, &tree); err != nil {
				t.Fatal(err)
			}
			return tree
		}
		var paths []string
		leaves(decoded(), "", nil, func(path string, _ any, _ func(any)) { paths = append(paths, path) })
		slices.Sort(paths)
		for _, changed := range rapid.SliceOfN(rapid.SampledFrom(paths), 8, 8).Draw(t, "changed") {
			remove := rapid.Bool().Draw(t, "removed")
			tree := decoded()
			leaves(tree, "", nil, func(path string, old any, replace func(any)) {
				switch {
				case path != changed:
				case remove:
					replace(nil)
				default:
					replace(mutated(t, old))
				}
			})
			text, err := json.Marshal(tree)
			if err != nil {
				t.Fatal(err)
			}
			var forged v1alpha1.BareMetalErasureSpec
			if err := json.Unmarshal(text, &forged); err != nil {
				t.Fatalf("%s: %v", changed, err)
			}
			if erasure.Verify(&forged, publicKey(testKey(1))) == nil {
				t.Fatalf("%s can be changed (removed: %v)", changed, remove)
			}
		}
	})
}

// TestListsAreSigned: a disk that is removed, repeated or moved to another place breaks the signature.
func TestListsAreSigned(t *testing.T) {
	g := NewWithT(t)
	for name, change := range map[string]func([]v1alpha1.ErasedDisk) []v1alpha1.ErasedDisk{
		"removed":  func(d []v1alpha1.ErasedDisk) []v1alpha1.ErasedDisk { return d[:2] },
		"none":     func([]v1alpha1.ErasedDisk) []v1alpha1.ErasedDisk { return nil },
		"repeated": func(d []v1alpha1.ErasedDisk) []v1alpha1.ErasedDisk { return append(d, d[0]) },
		"moved":    func(d []v1alpha1.ErasedDisk) []v1alpha1.ErasedDisk { return []v1alpha1.ErasedDisk{d[1], d[0], d[2]} },
	} {
		spec := signed(t, purged())
		spec.Report.Disks = change(spec.Report.Disks)
		g.Expect(erasure.Verify(spec, publicKey(testKey(1)))).To(MatchError(erasure.ErrSignature), name)
	}
}

// TestSignedOnce: a signature remains valid after the record was stored and read, whatever its fields have.
func TestSignedOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := signed(t, drawSpec(t))
		content, err := json.Marshal(spec)
		if err != nil {
			t.Fatal(err)
		}
		var read v1alpha1.BareMetalErasureSpec
		if err := json.Unmarshal(content, &read); err != nil {
			t.Fatal(err)
		}
		if err := erasure.Verify(&read, publicKey(testKey(1))); err != nil {
			t.Fatalf("%v\n%s", err, content)
		}
		document := erasure.Export([]v1alpha1.BareMetalErasure{{Spec: read}})
		file, err := document.Encode()
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := erasure.ParseDocument(file)
		if err != nil {
			t.Fatalf("%v\n%s", err, file)
		}
		if err := parsed.Certificates[0].Verify(publicKeys(1)); err != nil {
			t.Fatalf("%v\n%s", err, file)
		}
	})
}

// drawSpec fills every field of a spec with a value that is not zero, whatever fields the types have. The report proves an erasure.
func drawSpec(t *rapid.T) *v1alpha1.BareMetalErasureSpec {
	spec := &v1alpha1.BareMetalErasureSpec{}
	fill(t, reflect.ValueOf(spec).Elem())
	spec.Report.Policy = rapid.SampledFrom([]wire.ErasePolicy{wire.PolicyMetadata, wire.PolicyClear, wire.PolicyPurge}).Draw(t, "policy")
	for i := range spec.Report.Disks {
		d := &spec.Report.Disks[i]
		d.Outcome = rapid.SampledFrom([]wire.ErasureOutcome{wire.Erased, wire.LeftOut}).Draw(t, "outcome")
		d.Class = wire.PolicyPurge
		d.Verification.Kind = rapid.SampledFrom([]wire.VerificationKind{wire.ReadBack, wire.Samples, wire.DriveStatus}).Draw(t, "kind")
	}
	return spec
}

func fill(t *rapid.T, v reflect.Value) {
	if when, ok := v.Addr().Interface().(*metav1.Time); ok {
		*when = metav1.NewTime(time.Unix(rapid.Int64Range(1, 1<<35).Draw(t, "time"), rapid.Int64Range(0, 1e9-1).Draw(t, "nanoseconds")))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for _, field := range v.Fields() {
			fill(t, field)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), rapid.IntRange(1, 2).Draw(t, "length"), 2))
		for i := range v.Len() {
			fill(t, v.Index(i))
		}
	case reflect.String:
		v.SetString(rapid.StringN(1, 8, -1).Draw(t, "text"))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int32, reflect.Int64:
		v.SetInt(int64(rapid.Int32Range(1, 1<<30).Draw(t, "number")))
	default:
		t.Fatalf("fill cannot fill a %s: extend it", v.Type())
	}
}

// TestKeys: keys survive their PEM form, IDs follow from the key, and other files are refused without showing what they contain.
func TestKeys(t *testing.T) {
	g := NewWithT(t)
	content, err := erasure.EncodePrivateKey(testKey(1))
	g.Expect(err).NotTo(HaveOccurred())
	key, err := erasure.ParsePrivateKey(content)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(key).To(Equal(testKey(1)))
	public, other := publicKey(testKey(1)), publicKey(testKey(2))
	two := string(erasure.EncodePublicKey(public)) + "a comment\n" + string(erasure.EncodePublicKey(other))
	keys, err := erasure.ParsePublicKeys([]byte(two))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(keys).To(Equal(map[string]ed25519.PublicKey{erasure.KeyID(public): public, erasure.KeyID(other): other}))
	g.Expect(erasure.KeyID(public)).To(MatchRegexp(`^[0-9a-f]{64}$`))

	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	g.Expect(err).NotTo(HaveOccurred())
	block := func(kind string, der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}) }
	rsaPrivate, err := x509.MarshalPKCS8PrivateKey(rsaKey)
	g.Expect(err).NotTo(HaveOccurred())
	rsaPublic, err := x509.MarshalPKIXPublicKey(rsaKey.Public())
	g.Expect(err).NotTo(HaveOccurred())
	secret := []byte("no key at all, but secret")
	for name, test := range map[string]struct{ content, says string }{
		"empty": {"", "no PEM block"}, "text": {string(secret), "no PEM block"}, "RSA": {string(block("PRIVATE KEY", rsaPrivate)), "not of Ed25519"},
		"a public key": {string(erasure.EncodePublicKey(public)), "no PEM block"}, "no DER": {string(block("PRIVATE KEY", secret)), "PKCS #8"},
	} {
		_, err := erasure.ParsePrivateKey([]byte(test.content))
		g.Expect(err).To(MatchError(ContainSubstring(test.says)), name)
		g.Expect(err.Error()).NotTo(Or(ContainSubstring("secret"), ContainSubstring(base64.StdEncoding.EncodeToString(secret))), name)
	}
	for name, test := range map[string]struct{ content, says string }{
		"empty": {"", "no PEM block"}, "RSA": {string(block("PUBLIC KEY", rsaPublic)), "not of Ed25519"}, "private": {two + string(content), `"PRIVATE KEY"`},
		"no DER": {string(block("PUBLIC KEY", secret)), "cannot be read"},
	} {
		_, err := erasure.ParsePublicKeys([]byte(test.content))
		g.Expect(err).To(MatchError(ContainSubstring(test.says)), name)
		g.Expect(err.Error()).NotTo(ContainSubstring("secret"), name)
		g.Expect(strings.ToLower(err.Error())).NotTo(ContainSubstring("begin"), name)
	}
}
