package settings

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Kind is the JSON type of a value.
type Kind string

// The kinds of values. The Bios resource allows no others (DSP0268, Bios.Attributes).
const (
	KindNull    Kind = ""
	KindText    Kind = "string"
	KindNumber  Kind = "number"
	KindBoolean Kind = "boolean"
)

// Value is the value of an attribute. Values are equal if they have the same kind and the same text. The zero value is null.
type Value struct {
	kind Kind
	text string
}

// Text returns a text value.
func Text(text string) Value { return Value{KindText, text} }

// Number returns a number.
func Number(n float64) Value { return Value{KindNumber, strconv.FormatFloat(n, 'f', -1, 64)} }

// Boolean returns a boolean.
func Boolean(b bool) Value { return Value{KindBoolean, strconv.FormatBool(b)} }

// ValueOf returns a value of JSON. The second result is false for a list or an object, which is no value of an attribute.
func ValueOf(v any) (Value, bool) {
	switch v := v.(type) {
	case nil:
		return Value{}, true
	case string:
		return Text(v), true
	case float64:
		return Number(v), true
	case bool:
		return Boolean(v), true
	case json.Number:
		n, err := v.Float64()
		return Number(n), err == nil
	default:
		return Value{}, false
	}
}

// Kind returns the JSON type of the value.
func (v Value) Kind() Kind { return v.kind }

// Null is true for a value that the BMC does not show, such as that of a password.
func (v Value) Null() bool { return v.kind == KindNull }

// String returns the value as a text: "true", "8", "Enabled". It is empty for null.
func (v Value) String() string { return v.text }

// JSON returns the value as encoding/json decodes it: nil, string, float64 or bool.
func (v Value) JSON() any {
	switch v.kind {
	case KindText:
		return v.text
	case KindNumber:
		n, _ := strconv.ParseFloat(v.text, 64) // Number has formatted it
		return n
	case KindBoolean:
		return v.text == "true"
	case KindNull:
	}
	return nil
}

// MarshalJSON writes the value as JSON.
func (v Value) MarshalJSON() ([]byte, error) { return json.Marshal(v.JSON()) }

// same is true for values with the same text. The attribute registry and the Bios resource often write one value in two kinds: "true" and true, "8" and 8.
func (v Value) same(other Value) bool { return v.Null() == other.Null() && v.text == other.text }

// as returns the value in another kind; false if its text is no value of that kind.
func (v Value) as(kind Kind) (Value, bool) {
	switch {
	case v.kind == kind, v.Null():
		return v, v.kind == kind
	case kind == KindText:
		return Text(v.text), true
	case kind == KindNumber:
		n, err := strconv.ParseFloat(strings.TrimSpace(v.text), 64)
		return Number(n), err == nil && !math.IsNaN(n) && !math.IsInf(n, 0)
	case kind == KindBoolean:
		b, err := strconv.ParseBool(strings.ToLower(strings.TrimSpace(v.text)))
		return Boolean(b), err == nil
	default:
		return Value{}, false
	}
}

// Values are the values of attributes by name.
type Values map[string]Value

// ValuesOf returns the attributes of a Bios resource, and the names of those that have no valid value, sorted.
func ValuesOf(attributes map[string]any) (Values, []string) {
	values, invalid := Values{}, []string{}
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		if v, ok := ValueOf(attributes[name]); ok {
			values[name] = v
		} else {
			invalid = append(invalid, name)
		}
	}
	return values, invalid
}

// Names returns the names of the attributes, sorted.
func (v Values) Names() []string { return slices.Sorted(maps.Keys(v)) }
