// Package printable makes text of hardware, switches and agents fit to be shown. Such text is not trusted: control characters move the cursor of a terminal or
// change what it shows, and invisible characters make two different texts look the same. Agents and boot servers use the same rules, so the serial number of a
// disk is the same text on both sides.
package printable

import (
	"reflect"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Line returns text as one line of at most limit bytes, without spaces around it. It leaves out what is no printable character (unicode.IsPrint) and what is no
// valid UTF-8. Line breaks and tabs become spaces.
func Line(text string, limit int) string {
	if len(text) > utf8.UTFMax*limit {
		text = text[:utf8.UTFMax*limit] // bounds the work
	}
	text = strings.TrimSpace(strings.Map(inLine, text))
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return strings.TrimSpace(text[:limit])
}

func inLine(r rune) rune {
	switch {
	case r == '\n' || r == '\t':
		return ' '
	case r == utf8.RuneError || !unicode.IsPrint(r):
		return -1
	default:
		return r
	}
}

// lines is Line for a text with several lines, of any length.
func lines(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' {
			return r
		}
		return inLine(r)
	}, text)
}

// Clean makes each string of a value a Line of at most limit bytes, and cuts each list to at most items elements. A field with the tag printable:"lines" keeps
// its line breaks and its length. v is a pointer to a value without maps, such as a type of package agent.
func Clean(v any, limit, items int) {
	Apply(v, Rules{Text: func(text string) string { return Line(text, limit) }, Items: items})
}

// Rules are what Apply makes of the fields of a value.
type Rules struct {
	// Text returns what replaces a text.
	Text func(string) string
	// Items is the maximum length of a list.
	Items int
	// NonNegative replaces negative numbers by 0.
	NonNegative bool
}

// Apply applies rules to each field of a value, whatever fields its types have. v is a pointer to a value without maps.
func Apply(v any, rules Rules) { rules.apply(reflect.ValueOf(v)) }

func (r Rules) apply(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(r.Text(v.String()))
	case reflect.Int, reflect.Int32, reflect.Int64:
		if r.NonNegative {
			v.SetInt(max(v.Int(), 0))
		}
	case reflect.Slice:
		if v.Len() > r.Items {
			v.Set(v.Slice(0, r.Items))
		}
		for i := range v.Len() {
			r.apply(v.Index(i))
		}
	case reflect.Struct:
		for field, value := range v.Fields() {
			switch {
			case !field.IsExported(): // the zone of a time.Time
			case field.Tag.Get("printable") == "lines":
				value.SetString(lines(value.String()))
			default:
				r.apply(value)
			}
		}
	case reflect.Pointer:
		if !v.IsNil() {
			r.apply(v.Elem())
		}
	default: // booleans
	}
}
