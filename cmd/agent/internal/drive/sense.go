package drive

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Sense is SCSI sense data (SPC-6, 4.4).
type Sense struct {
	Key, ASC, ASCQ byte
	// Progress is the progress indication as n/65536, -1 without one.
	Progress int
}

// The additional sense codes of SANITIZE (SBC-5, 4.12, and SPC-6, annex F).
const (
	keyNotReady, keyMedium, keyUnitAttention = 0x2, 0x3, 0x6
	ascNotReady, ascqSanitizing              = 0x04, 0x1b // LOGICAL UNIT NOT READY, SANITIZE IN PROGRESS
	ascFailed, ascqSanitizeFailed            = 0x31, 0x03 // SANITIZE COMMAND FAILED
)

// Sanitizing is true if a sanitize operation is in progress.
func (s Sense) Sanitizing() bool {
	return s.Key == keyNotReady && s.ASC == ascNotReady && s.ASCQ == ascqSanitizing
}

// SanitizeFailed is true if a sanitize operation has failed.
func (s Sense) SanitizeFailed() bool {
	return s.Key == keyMedium && s.ASC == ascFailed && s.ASCQ == ascqSanitizeFailed
}

var errNoSense = errors.New("the drive returned no sense data")

// ParseSense parses sense data in the fixed format (SPC-6, 4.4.3) and in the descriptor format (4.4.2).
func ParseSense(data []byte) (Sense, error) {
	if len(data) < 8 {
		return Sense{}, errNoSense
	}
	switch data[0] & 0x7f {
	case 0x70, 0x71:
		return parseFixed(data), nil
	case 0x72, 0x73:
		return parseDescriptors(data), nil
	default:
		return Sense{}, fmt.Errorf("the sense data has the unknown format %#x", data[0]&0x7f)
	}
}

func parseFixed(data []byte) Sense {
	s := Sense{Key: data[2] & 0xf, Progress: -1}
	data = data[:min(len(data), 8+int(data[7]))]
	if len(data) >= 14 {
		s.ASC, s.ASCQ = data[12], data[13]
	}
	if len(data) >= 18 && data[15]&0x80 != 0 && (s.Key == 0 || s.Key == keyNotReady) { // SKSV
		s.Progress = int(binary.BigEndian.Uint16(data[16:]))
	}
	return s
}

// The sense data descriptors (SPC-6, 4.4.2.1, table 27).
const (
	descriptorKeySpecific = 0x02
	descriptorATA         = 0x09
)

func parseDescriptors(data []byte) Sense {
	s := Sense{Key: data[1] & 0xf, ASC: data[2], ASCQ: data[3], Progress: -1}
	if d := descriptor(data, descriptorKeySpecific); len(d) >= 8 && d[4]&0x80 != 0 && (s.Key == 0 || s.Key == keyNotReady) {
		s.Progress = int(binary.BigEndian.Uint16(d[5:]))
	}
	return s
}

// descriptor returns a descriptor with its header, or nil.
func descriptor(data []byte, kind byte) []byte {
	rest := data[8:min(len(data), 8+int(data[7]))]
	for len(rest) >= 2 {
		length := min(len(rest), 2+int(rest[1]))
		if rest[0] == kind {
			return rest[:length]
		}
		rest = rest[length:]
	}
	return nil
}

// Registers are what an ATA drive returns.
type Registers struct {
	Error, Status byte
	Count         uint16
	LBA           uint64
}

// Failed is true if the drive reports an error: bit 0 of STATUS, or a device fault, bit 5 (ACS-5, 6.1).
func (r Registers) Failed() bool { return r.Status&(1<<0|1<<5) != 0 }

// ParseRegisters returns the registers from the ATA Status Return sense data descriptor (SAT-5, 12.2.2.6). The fixed format, which some controllers use, has
// not all bits of the registers: whole is false then.
func ParseRegisters(sense []byte) (r Registers, whole bool, err error) {
	if len(sense) < 8 {
		return Registers{}, false, errNoSense
	}
	switch sense[0] & 0x7f {
	case 0x72, 0x73:
		d := descriptor(sense, descriptorATA)
		if len(d) < 14 {
			return Registers{}, false, errors.New("the controller does not return the registers of the drive")
		}
		r = Registers{Error: d[3], Count: uint16(d[5]), LBA: uint64(d[7]) | uint64(d[9])<<8 | uint64(d[11])<<16, Status: d[13]}
		if d[2]&1 != 0 { // EXTEND
			r.Count |= uint16(d[4]) << 8
			r.LBA |= uint64(d[6])<<24 | uint64(d[8])<<32 | uint64(d[10])<<40
		}
		return r, true, nil
	case 0x70, 0x71: // INFORMATION and COMMAND-SPECIFIC INFORMATION
		// libata returns the registers of a failed command in this format, with the code of the error (Linux, ata_gen_passthru_sense).
		aborted := len(sense) >= 14 && sense[2]&0x0f == keyAborted && Registers{Status: sense[4]}.Failed()
		if len(sense) < 14 || !aborted && (sense[12] != 0 || sense[13] != ascqATA) {
			return Registers{}, false, errors.New("the controller does not return the registers of the drive")
		}
		return Registers{Error: sense[3], Status: sense[4], Count: uint16(sense[6]), LBA: uint64(sense[9]) | uint64(sense[10])<<8 | uint64(sense[11])<<16}, false, nil
	default:
		return Registers{}, false, fmt.Errorf("the sense data has the unknown format %#x", sense[0]&0x7f)
	}
}

// keyAborted is the sense key ABORTED COMMAND (SPC-5, 4.4.8).
const keyAborted = 0x0b

// ascqATA is ATA PASS THROUGH INFORMATION AVAILABLE, with the additional sense code 00h.
const ascqATA = 0x1d
