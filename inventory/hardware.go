package inventory

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
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

// ServerID is what one source says of the identity of a server: its BMC, or its firmware (SMBIOS type 1, DSP0134 section 7.2). Empty fields are unknown.
type ServerID struct{ SystemUUID, SerialNumber string }

// Match is whether two sources describe one server.
type Match int

const (
	// MatchUnknown means that the sources have no value in common that identifies a server.
	MatchUnknown Match = iota
	SameServer
	OtherServer
)

// Compare compares what two sources say. The UUIDs decide if both are known, in whatever byte order, and otherwise the serial numbers: vendors put the serial
// number of the board, of the chassis or of the order into one source, and another one of them into the other.
func (a ServerID) Compare(b ServerID) Match {
	values := [][2]string{{HardwareID(a.SystemUUID), HardwareID(b.SystemUUID)}, {serialNumber(a.SerialNumber), serialNumber(b.SerialNumber)}}
	for _, v := range values {
		switch {
		case v[0] == "" || v[1] == "":
		case v[0] == v[1]:
			return SameServer
		default:
			return OtherServer
		}
	}
	return MatchUnknown
}

// DescribeOtherServer says that an agent runs on another server than the one that the BMC of a host describes, and what to do.
func DescribeOtherServer(expected, found ServerID) string {
	return fmt.Sprintf("the agent runs on another server than the host's, and touches no disk: the host's has %s, and the agent found %s. Correct spec.bmc.address or "+
		"spec.bootMACAddresses of the host: the rows of two servers may be swapped. If it is the right server and its BMC reports another UUID, set spec.systemUUID", expected, found)
}

// String describes a server for messages.
func (a ServerID) String() string {
	of := func(name, text, known string) string {
		switch {
		case known != "":
			return name + " " + text
		case text == "":
			return "no " + name
		default:
			return fmt.Sprintf("no %s (%q is a placeholder)", name, text)
		}
	}
	return of("system UUID", a.SystemUUID, HardwareID(a.SystemUUID)) + ", " + of("serial number", a.SerialNumber, serialNumber(a.SerialNumber))
}

// placeholderSerial matches what manufacturers leave in the place of a serial number. All of them were seen on sold servers.
var placeholderSerial = regexp.MustCompile(`(?i)^(to be filled.*|default( string)?|(system|chassis|base board) serial number|not (specified|available|applicable|present)|none|n/?a|null|nil|` +
	`unknown|empty|undefined|invalid|oem|[0xf._ -]*|0?123456789\w*)$`)

// serialNumber returns a serial number in a form that can be compared. It is empty for a placeholder.
func serialNumber(text string) string {
	text = strings.ToLower(strings.TrimSpace(text))
	if placeholderSerial.MatchString(text) {
		return ""
	}
	return text
}

// Fingerprint returns a hash of a system UUID and a serial number. A BMC may report any text, but a fingerprint is safe to paste into a command line.
func Fingerprint(systemUUID, serial string) string {
	sum := sha256.Sum256([]byte(HardwareID(systemUUID) + "\x00" + serial))
	return hex.EncodeToString(sum[:6])
}
