package controllers

import (
	"strings"
	"unicode/utf8"
)

// What is taken over into a status of what others say, such as BMCs. The validation of the status's fields allows no more.
const (
	MaxText    = 256
	MaxMessage = 1024
	MaxItems   = 256
)

// Clip cuts text that is longer than so many bytes, between two characters, and shows that it did.
func Clip(text string, most int) string {
	const mark = "..."
	text = strings.ToValidUTF8(text, "?")
	if len(text) <= most {
		return text
	}
	end := most - len(mark)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + mark
}

// ClipAll clips each text of a list, and the list.
func ClipAll(texts []string) []string {
	var clipped []string
	for _, text := range texts[:min(len(texts), MaxItems)] {
		clipped = append(clipped, Clip(text, MaxText))
	}
	return clipped
}
