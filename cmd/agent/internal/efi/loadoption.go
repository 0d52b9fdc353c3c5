package efi

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"

	"github.com/google/uuid"
)

// LoadOption is an EFI_LOAD_OPTION (3.1.3).
type LoadOption struct {
	// Active is LOAD_OPTION_ACTIVE: the firmware tries the entry.
	Active bool
	// Description is what the firmware shows.
	Description string
	// Loader is the file that is started, or nil for an entry with another kind of device path.
	Loader *Loader
}

// Loader is a file on a GPT partition.
type Loader struct {
	// Partition is the number of the partition, from 1.
	Partition uint32
	// Start and Size are in logical blocks of the disk.
	Start, Size uint64
	// GUID is the unique GUID of the partition.
	GUID uuid.UUID
	// Path is the path of the file with backslashes, such as \EFI\BOOT\BOOTX64.EFI.
	Path string
}

// The attributes of a load option.
const attributeActive = 1

// The types of device path nodes (10.3).
const (
	nodeMedia        = 0x04
	nodeEnd          = 0x7f
	mediaHardDrive   = 0x01 // 10.3.5.1
	mediaFilePath    = 0x04 // 10.3.5.4
	endEntire        = 0xff
	hardDriveSize    = 42
	formatGPT        = 2
	signatureGUID    = 2
	nodeHeader       = 4
	maxNodes         = 64
	maxDescription   = 128
	maxPath          = 1024
	optionHeaderSize = 6
)

// EncodeLoadOption encodes a load option with a loader.
func EncodeLoadOption(o LoadOption) ([]byte, error) {
	switch {
	case o.Loader == nil:
		return nil, errors.New("a load option without a loader cannot be encoded")
	case o.Loader.Partition == 0 || o.Loader.Size == 0 || o.Loader.GUID == uuid.Nil:
		return nil, errors.New("the loader has no partition")
	case !strings.HasPrefix(o.Loader.Path, `\`) || len(o.Loader.Path) > maxPath || invalidText(o.Loader.Path):
		return nil, fmt.Errorf("the path of the loader %.80q is not valid", o.Loader.Path)
	case o.Description == "" || len(o.Description) > maxDescription || invalidText(o.Description):
		return nil, fmt.Errorf("the description %.80q is not valid: it must have 1 to %d bytes", o.Description, maxDescription)
	}
	path := encodePath(*o.Loader)
	var attributes uint32
	if o.Active {
		attributes = attributeActive
	}
	out := binary.LittleEndian.AppendUint32(nil, attributes)
	out = binary.LittleEndian.AppendUint16(out, uint16(len(path))) //nolint:gosec // maxPath bounds it
	out = append(out, encodeText(o.Description)...)
	return append(out, path...), nil
}

func invalidText(text string) bool {
	return strings.ContainsRune(text, 0) || strings.ToValidUTF8(text, "") != text
}

// encodePath encodes the device path HD(...)/File(...). It is the short form that firmware completes with the disk that has the partition (3.1.2).
func encodePath(l Loader) []byte {
	le := binary.LittleEndian
	drive := make([]byte, hardDriveSize)
	drive[0], drive[1] = nodeMedia, mediaHardDrive
	le.PutUint16(drive[2:], hardDriveSize)
	le.PutUint32(drive[4:], l.Partition)
	le.PutUint64(drive[8:], l.Start)
	le.PutUint64(drive[16:], l.Size)
	guid := swapGUID(l.GUID)
	copy(drive[24:], guid[:])
	drive[40], drive[41] = formatGPT, signatureGUID
	name := encodeText(l.Path)
	file := []byte{nodeMedia, mediaFilePath, 0, 0}
	le.PutUint16(file[2:], uint16(nodeHeader+len(name))) //nolint:gosec // maxPath bounds it
	return slices.Concat(drive, file, name, []byte{nodeEnd, endEntire, nodeHeader, 0})
}

// swapGUID converts a GUID to the byte order of UEFI and back: the first three fields are little-endian (appendix A).
func swapGUID(id uuid.UUID) uuid.UUID {
	id[0], id[1], id[2], id[3] = id[3], id[2], id[1], id[0]
	id[4], id[5], id[6], id[7] = id[5], id[4], id[7], id[6]
	return id
}

// encodeText encodes text in UTF-16 with a zero at its end.
func encodeText(text string) []byte {
	var out []byte
	for _, c := range utf16.Encode([]rune(text)) {
		out = binary.LittleEndian.AppendUint16(out, c)
	}
	return append(out, 0, 0)
}

// decodeText decodes text in UTF-16 up to a zero, and returns what follows it. It returns false if there is no zero.
func decodeText(data []byte) (text string, rest []byte, ok bool) {
	var characters []uint16
	for len(data) >= 2 {
		c := binary.LittleEndian.Uint16(data)
		data = data[2:]
		if c == 0 {
			return string(utf16.Decode(characters)), data, true
		}
		characters = append(characters, c)
	}
	return "", nil, false
}

// DecodeLoadOption decodes a load option. It returns an error for one that is damaged, and a nil Loader for one that starts something other than a file on a
// GPT partition.
func DecodeLoadOption(data []byte) (LoadOption, error) {
	if len(data) < optionHeaderSize {
		return LoadOption{}, fmt.Errorf("the load option has %d bytes", len(data))
	}
	le := binary.LittleEndian
	out := LoadOption{Active: le.Uint32(data)&attributeActive != 0}
	length := int(le.Uint16(data[4:]))
	description, rest, ok := decodeText(data[optionHeaderSize:])
	if !ok || length > len(rest) {
		return LoadOption{}, errors.New("the load option ends too early")
	}
	out.Description = description
	out.Loader = decodePath(rest[:length])
	return out, nil
}

// decodePath returns the loader of the device path HD(...)/File(...), or nil.
func decodePath(data []byte) *Loader {
	var loader *Loader
	for range maxNodes {
		if len(data) < nodeHeader {
			return nil
		}
		kind, subtype, length := data[0], data[1], int(binary.LittleEndian.Uint16(data[2:]))
		if length < nodeHeader || length > len(data) {
			return nil
		}
		node := data[:length]
		data = data[length:]
		switch {
		case kind == nodeEnd && subtype == endEntire && loader != nil && loader.Path != "":
			return loader
		case kind == nodeMedia && subtype == mediaHardDrive && loader == nil && length == hardDriveSize && bytes.Equal(node[40:], []byte{formatGPT, signatureGUID}):
			le := binary.LittleEndian
			loader = &Loader{Partition: le.Uint32(node[4:]), Start: le.Uint64(node[8:]), Size: le.Uint64(node[16:]), GUID: swapGUID(uuid.UUID(node[24:40]))}
		case kind == nodeMedia && subtype == mediaFilePath && loader != nil && loader.Path == "":
			path, _, ok := decodeText(node[nodeHeader:])
			if !ok {
				return nil
			}
			loader.Path = path
		default:
			return nil
		}
	}
	return nil
}

// EncodeOrder encodes BootOrder.
func EncodeOrder(order []uint16) []byte {
	out := make([]byte, 0, 2*len(order))
	for _, n := range order {
		out = binary.LittleEndian.AppendUint16(out, n)
	}
	return out
}

// DecodeOrder decodes BootOrder. With an error it returns the entries before the damage.
func DecodeOrder(data []byte) ([]uint16, error) {
	var out []uint16
	for len(data) >= 2 {
		out = append(out, binary.LittleEndian.Uint16(data))
		data = data[2:]
	}
	if len(data) > 0 {
		return out, errors.New("it has an odd number of bytes")
	}
	return out, nil
}
