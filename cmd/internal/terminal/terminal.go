// Package terminal makes texts safe to print. BMCs, agents and other writers of objects are not trusted.
package terminal

import (
	"strings"
	"unicode"
)

// Line returns a text as one line without characters that a terminal does not print, such as escape sequences and marks that change the direction of text. They become
// question marks.
func Line(text string) string {
	printable := strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return ' '
		}
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
	return strings.Join(strings.Fields(printable), " ")
}
