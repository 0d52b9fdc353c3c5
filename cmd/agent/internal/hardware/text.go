package hardware

import (
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent/printable"
)

// maxText is the maximum length of a string in an inventory, in bytes.
const maxText = 256

// placeholders are values that vendors leave in SMBIOS tables, in lower case. All of them were seen on sold servers.
var placeholders = map[string]bool{
	"to be filled by o.e.m.": true, "not specified": true, "not available": true, "default string": true, "system serial number": true,
	"system manufacturer": true, "system product name": true, "base board serial number": true, "none": true, "n/a": true, "na": true, "unknown": true,
	"empty": true, "no dimm": true, "nodimm": true, "0123456789": true, "123456789": true, "xxxxxxxx": true, "invalid": true, "undefined": true,
}

// value cleans a string of an SMBIOS table. It is empty for a placeholder.
func value(text string) string {
	text = printable.Line(text, maxText)
	if placeholders[strings.ToLower(text)] || strings.Trim(text, "0 .-_") == "" {
		return ""
	}
	return text
}
