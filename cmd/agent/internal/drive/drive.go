// Package drive erases drives with the commands of their own protocols, and reads from them what that takes: which commands they have, what they are worth on
// this drive, and what stands in their way.
//
// The commands are those of the NVM Express Base Specification 2.1, of ATA (ACS-5, through the translation of SAT-5), of SCSI (SPC-6 and SBC-5) and of the TCG
// Storage Architecture Core Specification 2.01. Nothing here decides what is erased, or which command is chosen: package erase does.
//
// A new command is a constant and a row in command.go, what offers and sends it in the file of its protocol, and a row in the table of package erase.
package drive

import (
	"fmt"
	"time"
)

// Port sends commands to one drive. A command returns when the drive has answered, or when the kernel has given it up.
type Port interface {
	// Admin sends an NVMe admin command. A status other than success is an *NVMeError.
	Admin(c *AdminCommand) error
	// Namespace returns the identifier of the namespace that the block device is.
	Namespace() (uint32, error)
	// SCSI sends a SCSI command. A status other than GOOD is a *SenseError.
	SCSI(c *SCSICommand) error
}

// AdminCommand is an NVMe admin command. The two lowest bits of the operation code say in which direction the data goes (3.3.3.1, figure 91).
type AdminCommand struct {
	Opcode       byte
	Namespace    uint32
	CDW10, CDW11 uint32
	Data         []byte
	Timeout      time.Duration
	// Result is dword 0 of the completion.
	Result uint32
}

// SCSICommand is a SCSI command.
type SCSICommand struct {
	CDB []byte
	// Data goes to the drive if Send is true, and otherwise comes from it.
	Data    []byte
	Send    bool
	Timeout time.Duration
	// Received is how many bytes came.
	Received int
}

// NVMeError is a status of an NVMe command.
type NVMeError struct {
	// Status is the status code type in bits 10:8 and the status code in bits 7:0 (4.2.3).
	Status uint16
}

// The status values that mean something to this package (4.2.3.1).
const (
	nvmeSanitizeFailed     = 0x1c
	nvmeSanitizeInProgress = 0x1d
)

func (e *NVMeError) Error() string {
	switch e.Status {
	case 0x01:
		return "the controller does not know the command (status 0x1)"
	case 0x02:
		return "the controller does not accept a field of the command (status 0x2)"
	case 0x15:
		return "the drive denies the command: it may be locked (status 0x15)"
	case nvmeSanitizeFailed:
		return "a sanitize operation has failed, and the drive refuses other commands (status 0x1c)"
	case nvmeSanitizeInProgress:
		return "a sanitize operation is in progress (status 0x1d)"
	case 0x20:
		return "the namespace is write-protected (status 0x20)"
	case 0x10a:
		return "the controller does not accept the format (status 0x10a)"
	default:
		return fmt.Sprintf("the controller answers with the status %#x", e.Status)
	}
}

// SenseError is a SCSI status other than GOOD, with the sense data.
type SenseError struct {
	Status byte
	Sense  []byte
}

func (e *SenseError) Error() string {
	s, err := ParseSense(e.Sense)
	if err != nil {
		return fmt.Sprintf("the drive answers with the status %#x", e.Status)
	}
	return fmt.Sprintf("the drive answers with the status %#x, sense key %#x, additional sense code %02x/%02x", e.Status, s.Key, s.ASC, s.ASCQ)
}

const (
	// askTimeout is how long a drive may take for a command that reads.
	askTimeout = 20 * time.Second
	// startTimeout is how long a drive may take to start an operation that goes on in the background.
	startTimeout = 2 * time.Minute
)
