package erasure

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// Format names what is signed, and its version. It is a part of the signed bytes, so a signature for another purpose is not valid here.
const Format = "cluster-api-provider-baremetal/erasure/v1"

// Statement is what is signed.
type Statement struct {
	// Erasure is the spec of the record without its signature.
	Erasure v1alpha1.BareMetalErasureSpec `json:"erasure"`
	// Format is the constant Format.
	Format string `json:"format"`
}

// StatementOf returns what is signed of a record.
func StatementOf(spec *v1alpha1.BareMetalErasureSpec) Statement {
	unsigned := *spec.DeepCopy()
	unsigned.Signature = v1alpha1.ErasureSignature{}
	return Statement{Erasure: unsigned, Format: Format}
}

// Canonical returns the bytes that are signed. The comment of the package describes them.
func Canonical(spec *v1alpha1.BareMetalErasureSpec) ([]byte, error) {
	tree, err := treeOf(StatementOf(spec))
	if err != nil {
		return nil, fmt.Errorf("encode the erasure: %w", err)
	}
	return appendCanonical(nil, tree)
}

// treeOf converts a value to the types of encoding/json.
func treeOf(v any) (tree any, err error) {
	content, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.UseNumber()
	err = decoder.Decode(&tree)
	return tree, err
}

// appendCanonical appends the canonical form of a value. It fails for a number that is no integer, whose form RFC 8785 takes from ECMAScript: the API has no such numbers.
func appendCanonical(out []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case map[string]any:
		return appendObject(out, v)
	case []any:
		return appendList(out, v)
	case string:
		return appendQuoted(out, v), nil
	case bool:
		return strconv.AppendBool(out, v), nil
	case json.Number:
		n, err := v.Int64()
		if err != nil {
			return nil, fmt.Errorf("the number %s is not an integer of 64 bits", v)
		}
		return strconv.AppendInt(out, n, 10), nil
	default:
		return nil, fmt.Errorf("a value of the type %T has no canonical form", v)
	}
}

// appendObject appends an object with its fields in the order of their names. The API server does not keep a field with the value null, so null is absent.
func appendObject(out []byte, v map[string]any) (_ []byte, err error) {
	separator := byte('{')
	for _, name := range slices.Sorted(maps.Keys(v)) {
		if v[name] == nil {
			continue
		}
		out = append(appendQuoted(append(out, separator), name), ':')
		if out, err = appendCanonical(out, v[name]); err != nil {
			return nil, err
		}
		separator = ','
	}
	if separator == '{' {
		out = append(out, separator)
	}
	return append(out, '}'), nil
}

func appendList(out []byte, v []any) (_ []byte, err error) {
	out = append(out, '[')
	for i, item := range v {
		if i > 0 {
			out = append(out, ',')
		}
		if out, err = appendCanonical(out, item); err != nil {
			return nil, err
		}
	}
	return append(out, ']'), nil
}

// shortEscapes are the control characters with an escape of two characters in RFC 8785, section 3.2.2.2.
var shortEscapes = map[rune]byte{'\b': 'b', '\t': 't', '\n': 'n', '\f': 'f', '\r': 'r', '"': '"', '\\': '\\'}

// appendQuoted appends a text as a JSON string.
func appendQuoted(out []byte, text string) []byte {
	out = append(out, '"')
	for _, r := range text {
		switch escape, short := shortEscapes[r]; {
		case short:
			out = append(out, '\\', escape)
		case r < ' ':
			out = fmt.Appendf(out, `\u%04x`, r)
		default:
			out = utf8.AppendRune(out, r)
		}
	}
	return append(out, '"')
}
