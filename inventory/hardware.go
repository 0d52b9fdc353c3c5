package inventory

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// placeholderUUIDs are the UUIDs that identify no server: the values for "not present" and "not set" (SMBIOS, DSP0134, section 7.2.1), and the default value
// of a widespread firmware.
var placeholderUUIDs = map[uuid.UUID]bool{
	uuid.Nil: true,
	uuid.Max: true,
	uuid.MustParse("00020003-0004-0005-0006-000700080009"): true,
}

// HardwareID returns the canonical form of a server's SMBIOS UUID. It is the same for upper and lower case, and for both byte orders of the first three
// fields. SMBIOS 2.6 made these fields little-endian, but BMCs, and operating systems on older firmware, often report them in the other order. It
// returns "" for a text that identifies no server.
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

// SameHardware is false when two inventories describe different servers: both system UUIDs, or both serial numbers, are known and differ.
func SameHardware(uuidA, serialA, uuidB, serialB string) bool {
	a, b := HardwareID(uuidA), HardwareID(uuidB)
	return (a == "" || b == "" || a == b) && (serialA == "" || serialB == "" || serialA == serialB)
}

// Fingerprint returns a hash of a system UUID and a serial number. A BMC may report any text, but a fingerprint is safe to paste into a command line.
func Fingerprint(systemUUID, serial string) string {
	sum := sha256.Sum256([]byte(HardwareID(systemUUID) + "\x00" + serial))
	return hex.EncodeToString(sum[:6])
}
