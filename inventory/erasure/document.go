package erasure

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// DocumentFormat names the format of exported certificates, and its version.
const DocumentFormat = "cluster-api-provider-baremetal/erasure-certificates/v1"

// Document is a file of exported certificates.
type Document struct {
	// Format is DocumentFormat.
	Format       string  `json:"format"`
	Certificates []Entry `json:"certificates"`
}

// Entry is one certificate with what was signed.
type Entry struct {
	// Certificate is for people and other programs. It follows from Statement.
	Certificate Certificate `json:"certificate"`
	// Statement is what Signature signs, in the form of Canonical.
	Statement Statement                 `json:"statement"`
	Signature v1alpha1.ErasureSignature `json:"signature"`
}

// Export returns the document of records. It does not verify them.
func Export(records []v1alpha1.BareMetalErasure) Document {
	d := Document{Format: DocumentFormat, Certificates: []Entry{}}
	for i := range records {
		spec := &records[i].Spec
		d.Certificates = append(d.Certificates, Entry{Certificate: CertificateOf(spec), Statement: StatementOf(spec), Signature: spec.Signature})
	}
	return d
}

// Encode returns the document as indented JSON.
func (d Document) Encode() ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(d)
	return out.Bytes(), err
}

// ParseDocument reads an exported file, which is not trusted. It accepts only what Encode writes, with any white space. Otherwise a file could show a person
// something else than this program reads: a field twice, a field that this program does not know, or a name in other letters.
func ParseDocument(content []byte) (Document, error) {
	var d Document
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&d); err != nil {
		return Document{}, fmt.Errorf("it is not a file of bmcctl erasures: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return Document{}, errors.New("it has more than one JSON value")
	}
	if d.Format != DocumentFormat {
		return Document{}, fmt.Errorf("its format is %q, and this program reads %q", d.Format, DocumentFormat)
	}
	if len(d.Certificates) == 0 {
		return Document{}, errors.New("it has no certificate")
	}
	written, err := d.Encode()
	if err != nil {
		return Document{}, err
	}
	got, want := compact(content), compact(written)
	if at := firstDifference(got, want); at >= 0 {
		return Document{}, fmt.Errorf("it has a field twice, with another name, or in another form than bmcctl writes, near %q", got[max(0, at-30):min(len(got), at+30)])
	}
	return d, nil
}

// compact removes the white space between the parts of valid JSON.
func compact(content []byte) []byte {
	var out bytes.Buffer
	_ = json.Compact(&out, content) // it was decoded before
	return out.Bytes()
}

// firstDifference returns where two texts differ first, or -1.
func firstDifference(a, b []byte) int {
	if bytes.Equal(a, b) {
		return -1
	}
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// Verify checks one certificate offline with public keys by their IDs. It returns nil only if the statement has a valid signature of one of the keys, proves an
// erasure, and the certificate says the same. Its error names the field that differs, if that can be known.
func (e *Entry) Verify(keys map[string]ed25519.PublicKey) error {
	spec := e.Statement.Erasure
	if e.Statement.Format != Format {
		return fmt.Errorf("statement.format is %q, and this program verifies %q", e.Statement.Format, Format)
	}
	if spec.Signature != (v1alpha1.ErasureSignature{}) {
		return errors.New("statement.erasure has a field signature, which nothing signs")
	}
	spec.Signature = e.Signature
	key, known := keys[e.Signature.KeyID]
	if !known {
		return fmt.Errorf("%w: its key has the ID %q, and the given keys have %q", ErrUnknownKey, e.Signature.KeyID, slices.Sorted(maps.Keys(keys)))
	}
	differs, err := e.difference()
	if err != nil {
		return err
	}
	switch err := Verify(&spec, key); {
	case err != nil && differs != nil:
		return fmt.Errorf("%w. The statement and the certificate differ: %w", err, differs)
	case err != nil:
		return err
	case differs != nil:
		return fmt.Errorf("the signed statement is unchanged, but the certificate was changed after the export: %w", differs)
	}
	return Check(&spec.Report)
}

// difference returns how the certificate differs from what the statement says; nil if it does not.
func (e *Entry) difference() (differs, err error) {
	want, err := treeOf(CertificateOf(&e.Statement.Erasure))
	if err != nil {
		return nil, err
	}
	got, err := treeOf(e.Certificate)
	if err != nil {
		return nil, err
	}
	return compare("certificate", got, want), nil
}

// compare returns the first difference of two values of encoding/json.
func compare(path string, got, want any) error {
	switch w := want.(type) {
	case map[string]any:
		if g, ok := got.(map[string]any); ok {
			return compareObjects(path, g, w)
		}
	case []any:
		if g, ok := got.([]any); ok && len(g) == len(w) {
			return compareLists(path, g, w)
		}
	}
	if reflect.DeepEqual(got, want) {
		return nil
	}
	return fmt.Errorf("%s is %s, and by the statement it is %s", path, shown(got), shown(want))
}

func compareObjects(path string, got, want map[string]any) error {
	names := slices.Concat(slices.Collect(maps.Keys(got)), slices.Collect(maps.Keys(want)))
	slices.Sort(names)
	for _, name := range names {
		if err := compare(path+"."+name, got[name], want[name]); err != nil {
			return err
		}
	}
	return nil
}

func compareLists(path string, got, want []any) error {
	for i := range want {
		if err := compare(fmt.Sprintf("%s[%d]", path, i), got[i], want[i]); err != nil {
			return err
		}
	}
	return nil
}

// shown returns a value for a message.
func shown(v any) string {
	const maxShown = 200
	if v == nil {
		return "absent"
	}
	text, err := json.Marshal(v)
	if err != nil {
		return unknown
	}
	return string(text[:min(len(text), maxShown)])
}
