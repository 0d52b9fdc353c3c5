package controllers

import (
	"strings"
	"unicode/utf8"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent/printable"
)

// Limits for text and lists from other sources, such as BMCs, in a status. The validation of the status fields allows no more.
const (
	MaxText    = 256
	MaxMessage = 1024
	MaxItems   = 256
)

// Clip makes text of other sources fit for a status or an event: one line without control characters. It cuts text to at most maxBytes, between two characters,
// and marks the cut with "...".
func Clip(text string, maxBytes int) string {
	const mark = "..."
	text = printable.Line(strings.ToValidUTF8(text, "?"), len(text))
	if len(text) <= maxBytes {
		return text
	}
	end := maxBytes - len(mark)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + mark
}

// OneOf returns the word that equals a text of another source, and "" for a text that is not one of the words: the API server would refuse the whole status.
func OneOf[T, From ~string](text From, words ...T) T {
	for _, word := range words {
		if string(word) == string(text) {
			return word
		}
	}
	return ""
}

// HealthOf returns the health that a BMC or an agent reports, and "" if that is unknown.
func HealthOf[From ~string](text From) wire.Health {
	return OneOf(text, wire.HealthOK, wire.HealthWarning, wire.HealthCritical)
}

// ClipReport makes the report of an agent fit for the API: it clips each text to maxText bytes, cuts each list to maxItems elements, and replaces negative numbers by 0. report is
// a pointer to a struct without maps.
func ClipReport(report any, maxText, maxItems int) {
	printable.Apply(report, printable.Rules{Text: func(text string) string { return Clip(text, maxText) }, Items: maxItems, NonNegative: true})
}

// ClipAll clips each text of a list to MaxText, and the list to MaxItems.
func ClipAll(texts []string) []string {
	var clipped []string
	for _, text := range texts[:min(len(texts), MaxItems)] {
		clipped = append(clipped, Clip(text, MaxText))
	}
	return clipped
}
