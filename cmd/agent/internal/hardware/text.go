package hardware

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxText is the maximum length of a string in an inventory, in bytes.
const maxText = 256

// clean makes text of a server fit for an inventory: valid UTF-8 without control characters and spaces around it, of at most limit bytes.
func clean(text string, limit int) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case !unicode.IsPrint(r) || r == utf8.RuneError:
			return -1
		default:
			return r
		}
	}, text[:min(len(text), 4*limit)])
	text = strings.TrimSpace(text)
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return strings.TrimSpace(text[:limit])
}

// placeholders are values that vendors leave in SMBIOS tables, in lower case. All of them were seen on sold servers.
var placeholders = map[string]bool{
	"to be filled by o.e.m.": true, "not specified": true, "not available": true, "default string": true, "system serial number": true,
	"system manufacturer": true, "system product name": true, "base board serial number": true, "none": true, "n/a": true, "na": true, "unknown": true,
	"empty": true, "no dimm": true, "nodimm": true, "0123456789": true, "123456789": true, "xxxxxxxx": true, "invalid": true, "undefined": true,
}

// value cleans a string of an SMBIOS table. It is empty for a placeholder.
func value(text string) string {
	text = clean(text, maxText)
	if placeholders[strings.ToLower(text)] || strings.Trim(text, "0 .-_") == "" {
		return ""
	}
	return text
}
