package drive

import (
	"fmt"
	"slices"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
)

// Kind is the command set of a drive.
type Kind string

// The kinds of drives. Block is a disk of which only reads and writes are known: virtio, eMMC, a file.
const (
	NVMe  Kind = "NVMe"
	ATA   Kind = "ATA"
	SCSI  Kind = "SCSI"
	Block Kind = "Block"
)

// Facts are what is known of a drive before it is erased.
type Facts struct {
	Kind Kind
	// Rotational is true for a hard disk.
	Rotational bool
	// Commands are what the drive offers, with Overwrite.
	Commands []Command
	// Encrypts is true if the drive states that it always encrypts all user data.
	Encrypts bool
	// Sanitizing is true if a sanitize operation is in progress, with the command Running, where that is known.
	Sanitizing bool
	Running    Command
	// FailureMode is true if a sanitize operation has failed: the drive accepts no other command than to sanitize.
	FailureMode bool
	// SecurityFrozen and SanitizeFrozen are true for an ATA drive that refuses security or sanitize commands until its next power cycle. Locked is true for one
	// that is locked by a password.
	SecurityFrozen, SanitizeFrozen, Locked bool
	// OpalLocked is true if a part of the drive is locked by TCG Opal or Enterprise.
	OpalLocked bool
	// Hidden is how many bytes are not accessible, and HiddenBy why.
	Hidden   int64
	HiddenBy string
	// Shared is true if another server may use the drive: its NVMe subsystem has several controllers, or does not say how many.
	Shared bool
	// FormatsAll is true if an NVMe format applies to all namespaces. Unattached is how many namespaces of the drive this controller does not have.
	FormatsAll bool
	Unattached int
	// ExcludesPart is set by the caller if a disk that must not be touched is a part of the same drive.
	ExcludesPart bool
	// MayNotRead is true if a read of what was erased may fail: logical blocks with protection information, or deallocated ones that return an error.
	MayNotRead bool
	// Warnings are what an erase does not reach, and what could not be read.
	Warnings []string
	// Times are how long commands take, as the drive says.
	Times map[Command]time.Duration
}

// Drive is a drive, with what Probe learned.
type Drive struct {
	Port Port
	Kind Kind
	// Others are the ports of the other namespaces of an NVMe drive, and Excluded those of its namespaces that are not erased.
	Others, Excluded []Port

	controller Controller
	identity   Identity
	targets    []uint32 // the namespaces that are erased
}

// KindOf returns the kind of a disk by its transport. SCSI may turn out to be ATA.
func KindOf(transport wire.DiskTransport) Kind {
	switch transport {
	case wire.TransportNVMe:
		return NVMe
	case wire.TransportSATA, wire.TransportSAS, wire.TransportSCSI:
		return SCSI
	default:
		return Block
	}
}

// Probe asks the drive. rotational is what the kernel says. It corrects the kind of the drive. An error means that the drive does not answer.
func (d *Drive) Probe(rotational bool) (Facts, error) {
	f := Facts{Rotational: rotational, Commands: []Command{Overwrite}, Times: map[Command]time.Duration{}}
	var err error
	switch d.Kind {
	case NVMe:
		err = d.probeNVMe(&f)
	case ATA, SCSI:
		err = d.probeSCSI(&f)
	default:
	}
	f.Kind = d.Kind
	if f.Sanitizing && f.Running == "" && d.Kind != NVMe { // ATA and SCSI drives do not say which one it is
		only := slices.DeleteFunc(slices.Clone(f.Commands), func(c Command) bool { return !c.Sanitizes() })
		if len(only) == 1 {
			f.Running = only[0]
		}
	}
	return f, err
}

func (f *Facts) offer(supported bool, c Command) {
	if supported {
		f.Commands = append(f.Commands, c)
	}
}

func (f *Facts) warnf(format string, args ...any) {
	f.Warnings = append(f.Warnings, fmt.Sprintf(format, args...))
}
