package inventory

import (
	"bytes"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// noHardware are the UUIDs that identify no server: those that stand for "not present" and "not set" (SMBIOS, DSP0134, section 7.2.1),
// and the one that a widespread firmware has where nobody set another.
var noHardware = map[uuid.UUID]bool{
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
	if noHardware[id] {
		return ""
	}
	return id.String()
}
