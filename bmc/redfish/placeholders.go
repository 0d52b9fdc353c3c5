package redfish

import (
	"regexp"
	"strings"
)

// placeholders are the values of texts that the manufacturer did not fill in, in lower case.
var placeholders = map[string]bool{
	"n/a": true, "na": true, "null": true, "nil": true, "none": true, "unknown": true, "not available": true, "not specified": true,
	"not applicable": true, "not present": true, "undefined": true, "to be filled by o.e.m.": true, "default string": true, "default": true,
	"system serial number": true, "chassis serial number": true, "system product name": true, "oem": true,
}

// countedSerial matches serial numbers that count the digits, as in reference firmware.
var countedSerial = regexp.MustCompile(`(?i)^0?1234567890?(1234567890?)*(ab|abcdef)?$`)

// dropPlaceholder returns the text, or "" for a placeholder.
func dropPlaceholder(text string) string {
	text = strings.TrimSpace(text)
	if placeholders[strings.ToLower(text)] || strings.Trim(text, "0") == "" {
		return ""
	}
	return text
}

// serialNumber returns the serial number, or "" for a placeholder.
func serialNumber(text string) string {
	text = dropPlaceholder(text)
	if strings.Trim(text, "0-. ") == "" || countedSerial.MatchString(text) {
		return ""
	}
	return text
}

// uuidOf returns the UUID in lower case, or "" for a placeholder: only zeros, only f, or the UUID of AMI's reference firmware.
func uuidOf(text string) string {
	text = strings.ToLower(dropPlaceholder(text))
	digits := strings.ReplaceAll(text, "-", "")
	if len(digits) != 32 || strings.Trim(digits, "0123456789abcdef") != "" {
		return "" // "system0-uuid" is not a UUID
	}
	if strings.Trim(digits, "0") == "" || strings.Trim(digits, "f") == "" || text == "03000200-0400-0500-0006-000700080009" {
		return ""
	}
	return text
}
