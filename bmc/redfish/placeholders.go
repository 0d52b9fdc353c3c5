package redfish

import (
	"regexp"
	"strings"
)

// placeholders are what firmware has in place of a text that nobody filled in, in lower case.
var placeholders = map[string]bool{
	"n/a": true, "na": true, "null": true, "nil": true, "none": true, "unknown": true, "not available": true, "not specified": true,
	"not applicable": true, "not present": true, "undefined": true, "to be filled by o.e.m.": true, "default string": true, "default": true,
	"system serial number": true, "chassis serial number": true, "system product name": true, "oem": true,
}

// countedSerial matches serial numbers that are the digits in their order, as reference firmware has them.
var countedSerial = regexp.MustCompile(`(?i)^0?1234567890?(1234567890?)*(ab|abcdef)?$`)

// dropPlaceholder returns a text that a BMC gave, or "" for a placeholder.
func dropPlaceholder(text string) string {
	text = strings.TrimSpace(text)
	if placeholders[strings.ToLower(text)] || strings.Trim(text, "0") == "" {
		return ""
	}
	return text
}

// serialNumber returns a serial number, or "" for a placeholder.
func serialNumber(text string) string {
	text = dropPlaceholder(text)
	if strings.Trim(text, "0-. ") == "" || countedSerial.MatchString(text) {
		return ""
	}
	return text
}

// uuidOf returns a UUID in lower case, or "" for a placeholder: one digit only, or the one that reference firmware of AMI has.
func uuidOf(text string) string {
	text = strings.ToLower(dropPlaceholder(text))
	digits := strings.ReplaceAll(text, "-", "")
	if strings.Trim(digits, "0") == "" || strings.Trim(digits, "f") == "" || text == "03000200-0400-0500-0006-000700080009" {
		return ""
	}
	return text
}
