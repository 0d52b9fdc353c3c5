// Package diskname compares the serial numbers and the WWNs of disks with what users write. The agent and the controllers use it, so that a name means the same disk
// to both. It imports only the standard library.
package diskname

import "strings"

// SameSerial compares serial numbers, without regard to case and to spaces around them. An unknown serial number equals no other.
func SameSerial(a, b string) bool {
	a, b = strings.TrimSpace(a), strings.TrimSpace(b)
	return a != "" && strings.EqualFold(a, b)
}

// SameWWN compares WWNs, without regard to case and to the prefix. An unknown WWN equals no other.
func SameWWN(a, b string) bool {
	return NormalWWN(a) != "" && NormalWWN(a) == NormalWWN(b)
}

// NormalWWN returns a WWN in lower case and without the prefixes that say what kind it is, such as wwn-0x and eui.
func NormalWWN(wwn string) string {
	wwn = strings.ToLower(strings.TrimSpace(wwn))
	for _, prefix := range []string{"wwn-", "naa.", "eui.", "0x"} {
		wwn = strings.TrimPrefix(wwn, prefix)
	}
	return wwn
}
