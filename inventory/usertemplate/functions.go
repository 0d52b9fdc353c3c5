package usertemplate

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"text/template"
	"time"
)

// maxIndent is the maximum number of spaces of indent.
const maxIndent = 64

// functions returns the functions of the language. Together they produce at most budget bytes, until a deadline.
func (l Language) functions(budget int, deadline time.Time) template.FuncMap {
	compare := &comparer{left: maxCompared, deadline: deadline}
	all := template.FuncMap{"eq": compare.eq, "ne": compare.ne}
	if !l.TextFunctions {
		return all
	}
	spend := func(text string) (string, error) {
		if budget -= len(text); budget < 0 {
			return "", ErrResultTooLarge
		}
		if time.Now().After(deadline) {
			return "", ErrTooSlow
		}
		return text, nil
	}
	// bounded refuses a text before memory is taken for what it becomes.
	bounded := func(become func(string) string) func(string) (string, error) {
		return func(text string) (string, error) {
			if len(text) > budget {
				return "", ErrResultTooLarge
			}
			return spend(become(text))
		}
	}
	maps.Copy(all, template.FuncMap{
		"quote":      bounded(quote),
		"shellQuote": bounded(func(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }),
		"base64":     bounded(func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }),
		"indent": func(spaces int, text string) (string, error) {
			if spaces < 0 || spaces > maxIndent {
				return "", fmt.Errorf("indent: the number of spaces must be from 0 to %d", maxIndent)
			}
			if strings.Count(text, "\n")*spaces > budget { // before the memory is taken
				return "", ErrResultTooLarge
			}
			return spend(strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", spaces)))
		},
	})
	return all
}

// quote returns a JSON string (RFC 8259), which is a string of YAML too, and which Jinja leaves as it is.
func quote(text string) string {
	var encoded, out strings.Builder
	encoder := json.NewEncoder(&encoded)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text) // a string can always be encoded
	all := strings.TrimSuffix(encoded.String(), "\n")
	for i, r := range all {
		startsJinja := r == '{' && i+1 < len(all) && strings.IndexByte("{%#", all[i+1]) >= 0
		if startsJinja || notInYAML(r) {
			_, _ = fmt.Fprintf(&out, `\u%04x`, r)
			continue
		}
		_, _ = out.WriteRune(r)
	}
	return out.String()
}

// notInYAML is true for the characters that JSON strings may contain, but that YAML 1.1 does not permit in a text, or takes for a line break or a byte order
// mark. cloud-init rejects a file with such a character.
func notInYAML(r rune) bool {
	return r >= 0x7f && r <= 0x9f || r == 0xfeff || r == 0xfffe || r == 0xffff
}
