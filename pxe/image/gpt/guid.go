package gpt

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
)

// GUID is a GUID as it is stored on a disk: the first three fields are little-endian (UEFI specification, appendix A).
type GUID [16]byte

// The types of partitions that this project knows.
var (
	// DataType is the type of the data partition. No other software uses it: a random GUID (RFC 9562, version 4), fixed for ever, by which an agent
	// recognises bootstrap data that it has to erase.
	DataType = mustGUID("6f1c9d2e-8b57-4c63-9a0d-3e5b7f2041d8")
	// systemType is the type of EFI system partitions (UEFI specification, table 5-7).
	systemType = mustGUID("c12a7328-f81f-11d2-ba4b-00a0c93ec93b")
	// The types of the following partitions are those of the vendors.
	vmfsType     = mustGUID("aa31e02a-400f-11db-9590-000c2911d1b8")
	vmkcoreType  = mustGUID("9d275380-40ad-11db-bf97-000c2911d1b8")
	reservedType = mustGUID("9198effc-31c0-11db-8f78-000c2911d1b8")
	gpfsType     = mustGUID("37affc90-ef7d-4e96-91c3-2d7ae055b174")
)

// DataName is the name of the data partition in a GPT.
const DataName = "capbm-data"

// shared returns the file system that a type of a partition stands for, if it is one that several servers share: vmfs or gpfs. Otherwise it is empty.
func (g GUID) shared() string {
	switch g {
	case vmfsType, vmkcoreType, reservedType:
		return "vmfs"
	case gpfsType:
		return "gpfs"
	default:
		return ""
	}
}

// ParseGUID reads a GUID in its text form, such as 6f1c9d2e-8b57-4c63-9a0d-3e5b7f2041d8, without regard to case.
func ParseGUID(text string) (GUID, error) {
	var g GUID
	if len(text) != 36 || text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-' {
		return g, fmt.Errorf("%.50q is not a GUID", text)
	}
	digits, err := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
	if err != nil || len(digits) != len(g) {
		return g, fmt.Errorf("%.50q is not a GUID", text)
	}
	binary.LittleEndian.PutUint32(g[0:], binary.BigEndian.Uint32(digits[0:]))
	binary.LittleEndian.PutUint16(g[4:], binary.BigEndian.Uint16(digits[4:]))
	binary.LittleEndian.PutUint16(g[6:], binary.BigEndian.Uint16(digits[6:]))
	copy(g[8:], digits[8:])
	return g, nil
}

// String returns the text form, in lower case.
func (g GUID) String() string {
	return fmt.Sprintf("%08x-%04x-%04x-%x-%x", binary.LittleEndian.Uint32(g[0:]), binary.LittleEndian.Uint16(g[4:]), binary.LittleEndian.Uint16(g[6:]), g[8:10], g[10:])
}

func mustGUID(text string) GUID {
	g, err := ParseGUID(text)
	if err != nil {
		panic(err)
	}
	return g
}
