// Package diskname says which disks are the same, and which disk a name means that a user wrote. The agent and the controllers use it, so that an identity means the
// same disk to both. It imports only the standard library and api/wire.
package diskname

import (
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
)

// Same is true if a disk that was found is surely the known one: all that is known on both sides is the same. Namespaces of an NVMe drive and LUNs have one serial number
// in common and several WWNs. The path identifies a disk only if neither serial number nor WWN does, because cables are moved. The sizes are not compared.
func Same(known, found wire.DiskIdentity) bool {
	sameSerial, sameWWN := SameSerial(known.SerialNumber, found.SerialNumber), SameWWN(known.WWN, found.WWN)
	knownWWN, foundWWN := NormalWWN(known.WWN), NormalWWN(found.WWN)
	switch {
	case known.SerialNumber == "" && knownWWN == "":
		return known.ByPath != "" && known.ByPath == found.ByPath
	case known.SerialNumber != "" && found.SerialNumber != "" && !sameSerial, knownWWN != "" && foundWWN != "" && !sameWWN:
		return false
	default:
		return sameSerial || sameWWN
	}
}

// IsNamed is true if a user named a disk by its serial number or its WWN. Labels are not compared: only the agent can read them.
func IsNamed(disk wire.DiskIdentity, by wire.KeptDisk) bool {
	return SameSerial(by.SerialNumber, disk.SerialNumber) || SameWWN(by.WWN, disk.WWN)
}

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
