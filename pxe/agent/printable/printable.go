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
	clean(reflect.ValueOf(v), limit, items)
}

func clean(v reflect.Value, limit, items int) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(Line(v.String(), limit))
	case reflect.Slice:
		if v.Len() > items {
			v.Set(v.Slice(0, items))
		}
		for i := range v.Len() {
			clean(v.Index(i), limit, items)
		}
	case reflect.Struct:
		for field, value := range v.Fields() {
			if !field.IsExported() {
				continue // the zone of a time.Time
			}
			if field.Tag.Get("printable") == "lines" {
				value.SetString(lines(value.String()))
				continue
			}
			clean(value, limit, items)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			clean(v.Elem(), limit, items)
		}
	default: // numbers
	}
}
