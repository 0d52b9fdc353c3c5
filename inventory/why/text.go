package why

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxText is the maximum length of each text of an Explanation, in bytes.
const MaxText = 1024

// urlCredentials matches the user and password of a URL. The API refuses them, and an error message of a BMC or a download may quote a URL from elsewhere.
var urlCredentials = regexp.MustCompile(`://[^/?#\s]*@`)

// clean makes a text of an object safe to print: one line of at most MaxText bytes, without characters that are not printed, such as marks that change the
// direction of text, and without the credentials of URLs.
func clean(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case r == utf8.RuneError, !unicode.IsPrint(r):
			return -1
		default:
			return r
		}
	}, strings.ToValidUTF8(text, "?"))
	text = strings.TrimSpace(urlCredentials.ReplaceAllString(text, "://"))
	const mark = "..."
	if len(text) <= MaxText {
		return text
	}
	end := MaxText - len(mark)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + mark
}
