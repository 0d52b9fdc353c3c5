package hardware

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

// The types of SMBIOS structures that are read (DMTF DSP0134, "System Management BIOS Reference Specification", version 3.7, section 7).
const (
	typeFirmware  = 0
	typeSystem    = 1
	typeBoard     = 2
	typeProcessor = 4
	typeMemory    = 17
	typeEnd       = 127
)

// maxStructures is the maximum number of structures that are read. Large servers have about a thousand.
const maxStructures = 8192

// Tables is what the SMBIOS tables say.
type Tables struct {
	System wire.InspectedSystem
	// Sockets is the number of sockets that have a processor, and Processor the name of the first one.
	Sockets   int32
	Processor string
	DIMMs     []wire.InspectedDIMM
}

// structure is an SMBIOS structure: its formatted area with the header, and its strings.
type structure struct {
	formatted []byte
	strings   [][]byte
}

func (s structure) byte(offset int) byte {
	if offset >= len(s.formatted) {
		return 0
	}
	return s.formatted[offset]
}

func (s structure) word(offset int) uint16 {
	if offset+2 > len(s.formatted) {
		return 0
	}
	return binary.LittleEndian.Uint16(s.formatted[offset:])
}

func (s structure) dword(offset int) uint32 {
	if offset+4 > len(s.formatted) {
		return 0
	}
	return binary.LittleEndian.Uint32(s.formatted[offset:])
}

// text returns the string whose number is at an offset.
func (s structure) text(offset int) string {
	n := int(s.byte(offset))
	if n == 0 || n > len(s.strings) {
		return ""
	}
	return value(string(s.strings[n-1]))
}

// splitStructures splits a table into its structures (DSP0134 6.1.2 and 6.1.3). After damage it returns the structures before it, with an error.
func splitStructures(table []byte) ([]structure, error) {
	var out []structure
	for len(table) > 0 && len(out) < maxStructures {
		if len(table) < 4 || int(table[1]) < 4 || int(table[1]) > len(table) {
			return out, fmt.Errorf("the SMBIOS table is damaged after %d structures", len(out))
		}
		s := structure{formatted: table[:table[1]]}
		end := bytes.Index(table[len(s.formatted):], []byte{0, 0})
		if end < 0 {
			return out, fmt.Errorf("the SMBIOS table ends in its structure %d", len(out))
		}
		if end > 0 {
			s.strings = bytes.Split(table[len(s.formatted):len(s.formatted)+end], []byte{0})
		}
		out = append(out, s)
		if s.formatted[0] == typeEnd {
			return out, nil
		}
		table = table[len(s.formatted)+end+2:]
	}
	return out, nil
}

// ParseTables parses the SMBIOS table. entry is the entry point, from which only the version is read. What precedes damage is returned with an error.
func ParseTables(entry, table []byte) (Tables, error) {
	structures, err := splitStructures(table)
	if len(structures) == 0 && err == nil {
		err = errors.New("the SMBIOS table is empty")
	}
	var t Tables
	boards := 0
	for _, s := range structures {
		switch s.formatted[0] {
		case typeFirmware:
			t.System.FirmwareVendor, t.System.FirmwareVersion, t.System.FirmwareDate = s.text(4), s.text(5), s.text(8)
		case typeSystem:
			t.System.Manufacturer, t.System.Model, t.System.SerialNumber = s.text(4), s.text(5), s.text(7)
			t.System.SystemUUID = systemUUID(s, mixedEndian(entry))
		case typeBoard:
			// A server may have several boards. Type 10 (offset 13) is the motherboard; the first board is taken if none says so.
			if boards == 0 || s.byte(13) == 10 {
				t.System.BoardSerialNumber = s.text(7)
			}
			boards++
		case typeProcessor:
			// Bit 6 of the status says that the socket is populated (7.5).
			if s.byte(0x18)&(1<<6) == 0 {
				continue
			}
			t.Sockets++
			if t.Processor == "" {
				t.Processor = s.text(0x10)
			}
		case typeMemory:
			if dimm, ok := parseDIMM(s); ok && len(t.DIMMs) < maxEntries {
				t.DIMMs = append(t.DIMMs, dimm)
			}
		}
	}
	return t, err
}

// mixedEndian is true if the first three fields of the UUID are little-endian: from version 2.6 (7.2.1). The entry points are those of 5.2.1 and 5.2.2.
func mixedEndian(entry []byte) bool {
	switch {
	case bytes.HasPrefix(entry, []byte("_SM3_")):
		return true
	case bytes.HasPrefix(entry, []byte("_SM_")) && len(entry) > 7:
		return entry[6] > 2 || entry[6] == 2 && entry[7] >= 6
	default:
		return true // each server of the last 15 years
	}
}

func systemUUID(s structure, mixed bool) string {
	if len(s.formatted) < 24 {
		return ""
	}
	var id uuid.UUID
	copy(id[:], s.formatted[8:24])
	if id == uuid.Nil || id == uuid.Max { // 7.2.1: the ID is not present
		return ""
	}
	if mixed {
		id[0], id[1], id[2], id[3] = id[3], id[2], id[1], id[0]
		id[4], id[5], id[6], id[7] = id[5], id[4], id[7], id[6]
	}
	return id.String()
}

// memoryTypes are the types of memory (7.18.2) that servers of today have.
var memoryTypes = map[byte]string{
	0x07: "RAM", 0x12: "DDR", 0x13: "DDR2", 0x18: "DDR3", 0x1a: "DDR4", 0x1b: "LPDDR", 0x1c: "LPDDR2", 0x1d: "LPDDR3", 0x1e: "LPDDR4",
	memoryNonVolatile: "NVDIMM", 0x20: "HBM", 0x21: "HBM2", 0x22: "DDR5", 0x23: "LPDDR5", 0x24: "HBM3",
}

// memoryNonVolatile is the type "logical non-volatile device".
const memoryNonVolatile = 0x1f

// parseDIMM parses a memory device (7.18). It returns false for an empty slot.
func parseDIMM(s structure) (wire.InspectedDIMM, bool) {
	var size int64
	switch n := s.word(0x0c); {
	case n == 0:
		return wire.InspectedDIMM{}, false
	case n == 0xffff:
		// The size is unknown, and the slot is not empty.
	case n == 0x7fff:
		size = int64(s.dword(0x1c)&(1<<31-1)) << 20
	case n&(1<<15) != 0:
		size = int64(n&(1<<15-1)) << 10
	default:
		size = int64(n) << 20
	}
	d := wire.InspectedDIMM{
		Slot: s.text(0x10), Bytes: size, Type: memoryTypes[s.byte(0x12)], Manufacturer: s.text(0x17), SerialNumber: s.text(0x18), PartNumber: s.text(0x1a),
		SpeedMTs: memorySpeed(s.word(0x20), s.dword(0x58)),
	}
	if d.SpeedMTs == 0 {
		d.SpeedMTs = memorySpeed(s.word(0x15), s.dword(0x54))
	}
	if bank := s.text(0x11); d.Slot == "" {
		d.Slot = bank
	}
	return d, true
}

// memorySpeed returns a speed in MT/s: 0xffff refers to the extended field.
func memorySpeed(speed uint16, extended uint32) int32 {
	if speed == 0xffff {
		return int32(extended & (1<<31 - 1))
	}
	return int32(speed)
}

// Server returns how the firmware identifies the server. Fields that cannot be read are unknown.
func (s *Source) Server() agent.Server {
	system := (&collector{Source: s}).smbios().System
	return agent.Server{SystemUUID: system.SystemUUID, SerialNumber: system.SerialNumber}
}

func (c *collector) smbios() Tables {
	const folder = "sys/firmware/dmi/tables"
	table, err := c.read(maxTables, folder, "DMI")
	if err != nil {
		c.problemf("SMBIOS: %v", err)
		return Tables{}
	}
	tables, err := ParseTables(c.optional(maxAttribute, folder, "smbios_entry_point"), table)
	if err != nil {
		c.problemf("SMBIOS: %v", err)
	}
	return tables
}

// memory returns what the modules have, or otherwise what the kernel uses. Non-volatile modules are listed and not counted.
func (c *collector) memory(t Tables) wire.InspectedMemory {
	m := wire.InspectedMemory{DIMMs: t.DIMMs}
	for _, d := range t.DIMMs {
		if d.Type != memoryTypes[memoryNonVolatile] {
			m.Bytes += d.Bytes
		}
	}
	if m.Bytes > 0 {
		return m
	}
	content, err := c.read(maxAttribute, "proc/meminfo")
	if err != nil {
		c.problemf("memory: %v", err)
	}
	m.Bytes = parseMemTotal(content)
	return m
}
