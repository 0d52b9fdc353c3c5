package inventory

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// placeholderUUIDs are the UUIDs that identify no server: those that stand for "not present" and "not set" (SMBIOS, DSP0134, section 7.2.1),
// and the one that a widespread firmware has where nobody set another.
var placeholderUUIDs = map[uuid.UUID]bool{
	uuid.Nil: true,
	uuid.Max: true,
	uuid.MustParse("00020003-0004-0005-0006-000700080009"): true,
}

// HardwareID returns the one form of a server's SMBIOS UUID that all its spellings have: in upper and lower case, and with the first three
// fields in either byte order. SMBIOS 2.6 made them little-endian, and what an operating system reads of older firmware, or a BMC
// tells, is often the other way round. It returns "" for what identifies no server.
func HardwareID(text string) string {
	id, err := uuid.Parse(strings.TrimSpace(text))
	if err != nil {
		return ""
	}
	swapped := id
	slices.Reverse(swapped[0:4])
	slices.Reverse(swapped[4:6])
	slices.Reverse(swapped[6:8])
	if bytes.Compare(swapped[:], id[:]) < 0 {
		id = swapped
	}
	if placeholderUUIDs[id] {
		return ""
	}
	return id.String()
}

// SameHardware is false when what two inventories say of their servers shows that they are two: the system UUIDs or the serial numbers are known, and differ.
func SameHardware(uuidA, serialA, uuidB, serialB string) bool {
	a, b := HardwareID(uuidA), HardwareID(uuidB)
	return (a == "" || b == "" || a == b) && (serialA == "" || serialB == "" || serialA == serialB)
}

// Fingerprint stands for a system UUID and a serial number. A BMC may report any text; a fingerprint is safe to be pasted into a command line.
func Fingerprint(systemUUID, serial string) string {
	sum := sha256.Sum256([]byte(HardwareID(systemUUID) + "\x00" + serial))
	return hex.EncodeToString(sum[:6])
}
