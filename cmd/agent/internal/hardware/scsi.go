package hardware

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ParseVPDPages returns the numbers of the vital product data pages that a device has, from the page 00h (SPC-6, 7.7.16).
func ParseVPDPages(data []byte) ([]byte, error) {
	if len(data) < 4 || data[1] != 0 {
		return nil, errors.New("the device has no list of vital product data pages")
	}
	length := int(binary.BigEndian.Uint16(data[2:]))
	if length > len(data)-4 {
		return nil, fmt.Errorf("the list of vital product data pages has %d bytes of %d", len(data)-4, length)
	}
	return data[4 : 4+length], nil
}

// vpdATA is the page ATA Information: a device that has it is an ATA device behind a translation (SAT-5, 12.4.2).
const vpdATA = 0x89

// The operation code and service actions of SANITIZE (SBC-5, 5.34).
const opSanitize = 0x48

// sanitizeActions are the service actions of SANITIZE with their methods.
var sanitizeActions = []struct {
	action byte
	method string
}{{0x03, "scsi-sanitize-crypto"}, {0x02, "scsi-sanitize-block"}, {0x01, "scsi-sanitize-overwrite"}}

// ParseSupportedOperation is true if a device supports a command, from the answer to REPORT SUPPORTED OPERATION CODES for one command (SPC-6, 6.37.3). The
// value 3 of SUPPORT is "as in a standard", 5 is "in a vendor specific manner": that is not relied on.
func ParseSupportedOperation(data []byte) bool {
	return len(data) >= 4 && data[1]&7 == 3
}

// inquiryCDB is INQUIRY for a vital product data page (SPC-6, 6.7).
func inquiryCDB(page byte, length uint16) []byte {
	cdb := []byte{0x12, 1, page, 0, 0, 0}
	binary.BigEndian.PutUint16(cdb[3:], length)
	return cdb
}

// supportedOperationCDB is REPORT SUPPORTED OPERATION CODES (MAINTENANCE IN with service action 0Ch) for an operation code with a service action.
func supportedOperationCDB(op, action byte, length uint32) []byte {
	cdb := []byte{0xa3, 0x0c, 2, op, 0, action, 0, 0, 0, 0, 0, 0}
	binary.BigEndian.PutUint32(cdb[6:], length)
	return cdb
}

// ataIdentifySize is the size of the IDENTIFY DEVICE data, in bytes.
const ataIdentifySize = 512

// ataIdentifyCDB is ATA PASS-THROUGH (16) with IDENTIFY DEVICE (SAT-5, 12.2.2): PIO data-in, one block of 512 bytes whose number is in the field COUNT.
func ataIdentifyCDB() []byte {
	const pioIn, fromDevice, inBlocks, lengthInCount, identify = 4 << 1, 1 << 3, 1 << 2, 2, 0xec
	return []byte{0x85, pioIn, fromDevice | inBlocks | lengthInCount, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, identify, 0}
}

// ATAIdentity is what IDENTIFY DEVICE says about erasing.
type ATAIdentity struct {
	Methods []string
	// Frozen and Locked are states of the security feature set. A drive in one of them refuses a security erase.
	Frozen, Locked bool
}

// ParseATAIdentify parses the IDENTIFY DEVICE data (ACS-5, 7.13.6).
func ParseATAIdentify(data []byte) (ATAIdentity, error) {
	if len(data) < ataIdentifySize {
		return ATAIdentity{}, fmt.Errorf("the IDENTIFY DEVICE data has %d bytes instead of %d", len(data), ataIdentifySize)
	}
	// Word 255: if the low byte is A5h, all bytes add up to zero.
	if data[510] == 0xa5 {
		var sum byte
		for _, b := range data[:ataIdentifySize] {
			sum += b
		}
		if sum != 0 {
			return ATAIdentity{}, errors.New("the IDENTIFY DEVICE data has a wrong checksum")
		}
	}
	word := func(n int) uint16 { return binary.LittleEndian.Uint16(data[2*n:]) }
	var id ATAIdentity
	// Word 59: bit 12 is the feature set SANITIZE, bits 13 to 15 are its commands.
	if sanitize := word(59); sanitize&(1<<12) != 0 {
		for _, c := range []struct {
			bit    int
			method string
		}{{13, "ata-sanitize-crypto"}, {15, "ata-sanitize-block"}, {14, "ata-sanitize-overwrite"}} {
			if sanitize&(1<<c.bit) != 0 {
				id.Methods = append(id.Methods, c.method)
			}
		}
	}
	// Word 82 bit 1 and word 128 bit 0: the security feature set. Word 82 is valid if bit 14 of word 83 is one and bit 15 is zero.
	status := word(128)
	if word(83)>>14 != 1 || word(82)&(1<<1) == 0 || status&1 == 0 {
		return id, nil
	}
	id.Locked, id.Frozen = status&(1<<2) != 0, status&(1<<3) != 0
	if !id.Locked && !id.Frozen {
		if status&(1<<5) != 0 {
			id.Methods = append(id.Methods, "ata-secure-erase-enhanced")
		}
		id.Methods = append(id.Methods, "ata-secure-erase")
	}
	return id, nil
}
