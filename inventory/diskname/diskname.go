// Package diskname compares the serial numbers and the WWNs of disks with what users write. The agent and the controllers use it, so that a name means the same disk
// to both. It imports only the standard library.
package diskname

import "strings"

// Identifies is true if a name is the serial number or the WWN of a disk. Both may be empty.
func Identifies(name, serial, wwn string) bool {
	name = strings.TrimSpace(name)
	return name != "" && SameSerial(name, serial) || NormalWWN(name) != "" && NormalWWN(name) == NormalWWN(wwn)
}

// SameSerial compares serial numbers, without regard to case and to spaces around them.
func SameSerial(a, b string) bool {
	return strings.EqualFold(strings.TrimSpace(a), strings.TrimSpace(b))
}

// NormalWWN returns a WWN in lower case and without the prefix that says what kind it is.
func NormalWWN(wwn string) string {
	wwn = strings.ToLower(strings.TrimSpace(wwn))
	for _, prefix := range []string{"naa.", "eui.", "wwn-", "0x"} {
		wwn = strings.TrimPrefix(wwn, prefix)
	}
	return wwn
}
