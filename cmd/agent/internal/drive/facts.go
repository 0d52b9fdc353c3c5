package drive

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
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

// Command is what erases a drive.
type Command string

// The commands. Overwrite is no command of a drive: the agent writes zeros.
const (
	NVMeSanitizeCrypto    Command = "NVMeSanitizeCrypto"
	NVMeSanitizeBlock     Command = "NVMeSanitizeBlock"
	NVMeFormatCrypto      Command = "NVMeFormatCrypto"
	NVMeFormatUser        Command = "NVMeFormatUser"
	ATASanitizeCrypto     Command = "ATASanitizeCrypto"
	ATASanitizeBlock      Command = "ATASanitizeBlock"
	ATASanitizeOverwrite  Command = "ATASanitizeOverwrite"
	ATAEnhancedErase      Command = "ATAEnhancedErase"
	ATAErase              Command = "ATAErase"
	SCSISanitizeCrypto    Command = "SCSISanitizeCrypto"
	SCSISanitizeBlock     Command = "SCSISanitizeBlock"
	SCSISanitizeOverwrite Command = "SCSISanitizeOverwrite"
	Overwrite             Command = "Overwrite"
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
		if only := sanitizesOf(f.Commands); len(only) == 1 {
			f.Running = only[0]
		}
	}
	return f, err
}

// sanitizesOf returns the sanitize commands.
func sanitizesOf(commands []Command) []Command {
	var out []Command
	for _, c := range commands {
		if strings.Contains(string(c), "Sanitize") {
			out = append(out, c)
		}
	}
	return out
}

func (f *Facts) offer(supported bool, c Command) {
	if supported {
		f.Commands = append(f.Commands, c)
	}
}

func (f *Facts) warnf(format string, args ...any) {
	f.Warnings = append(f.Warnings, fmt.Sprintf(format, args...))
}

func (d *Drive) probeNVMe(f *Facts) error {
	data, err := d.identify(cnsController, 0)
	if err != nil {
		return fmt.Errorf("NVMe Identify Controller: %w", err)
	}
	c, err := ParseController(data)
	if err != nil {
		return err
	}
	d.controller = c
	f.Shared, f.FormatsAll = d.mayBeShared(c), c.FormatsAll
	f.offer(c.SanitizeCrypto, NVMeSanitizeCrypto)
	f.offer(c.SanitizeBlock, NVMeSanitizeBlock)
	f.offer(c.Format && c.FormatCrypto, NVMeFormatCrypto)
	f.offer(c.Format, NVMeFormatUser)
	// A crypto erase has to make all user data in the subsystem unreadable (8.1.24): a controller that has it encrypts all of it.
	f.Encrypts = c.SanitizeCrypto
	if c.Security {
		d.probeLocking(f)
	}
	if c.RPMB {
		f.warnf("it has replay protected memory blocks (RPMB), which no command erases")
	}
	if boot, err := d.logPage(logBootPartition, 16); err == nil && binary.LittleEndian.Uint32(boot[4:])&0x7fff != 0 { // BPSZ
		f.warnf("it has boot partitions, which no command of this agent erases")
	}
	if c.SanitizeCrypto || c.SanitizeBlock {
		status, err := d.sanitizeStatusNVMe()
		if err != nil {
			return err
		}
		f.Sanitizing, f.FailureMode, f.Running = status.State == SanitizeRuns, status.State == SanitizeFailed, status.Command
		f.Times[NVMeSanitizeCrypto], f.Times[NVMeSanitizeBlock] = status.Crypto, status.Block
	}
	return d.probeNamespaces(f)
}

// probeNamespaces finds the namespaces that are erased, and those that this server does not have.
func (d *Drive) probeNamespaces(f *Facts) error {
	excluded, err := namespacesOf(d.Excluded)
	if err != nil {
		return err
	}
	if d.targets, err = namespacesOf(append([]Port{d.Port}, d.Others...)); err != nil {
		return err
	}
	for _, id := range d.targets {
		if f.MayNotRead || f.Sanitizing || f.FailureMode {
			continue
		}
		data, err := d.identify(cnsNamespace, id)
		if err != nil {
			return fmt.Errorf("NVMe Identify Namespace %d: %w", id, err)
		}
		n, err := ParseNamespace(data)
		if err != nil {
			return err
		}
		f.MayNotRead = n.Protected || d.reportsDeallocated(id)
	}
	cns := byte(cnsActive)
	if d.controller.Management {
		cns = cnsAllocated
	}
	data, err := d.identify(cns, 0)
	if err != nil {
		return fmt.Errorf("NVMe Identify, namespace list: %w", err)
	}
	all, err := ParseNamespaceList(data)
	if err != nil {
		return err
	}
	for _, id := range all {
		if !slices.Contains(d.targets, id) && !slices.Contains(excluded, id) {
			f.Unattached++
		}
	}
	if d.controller.Several && f.Unattached > 0 {
		f.Shared = true // a controller that is off now may have these namespaces, and not be in the list
	}
	return nil
}

// namespacesOf returns the identifiers of namespaces.
func namespacesOf(ports []Port) ([]uint32, error) {
	var ids []uint32
	for _, port := range ports {
		id, err := port.Namespace()
		if err != nil {
			return nil, fmt.Errorf("the identifier of the namespace: %w", err)
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// reportsDeallocated is true if reads of deallocated blocks return an error: DULBE, bit 16 of the feature Error Recovery (NVM Command Set Specification 1.1,
// 4.1.3.2).
func (d *Drive) reportsDeallocated(namespace uint32) bool {
	c := AdminCommand{Opcode: opGetFeatures, Namespace: namespace, CDW10: featErrors, Timeout: askTimeout}
	return d.Port.Admin(&c) == nil && c.Result&(1<<16) != 0
}

// probeLocking reads the TCG features. A drive without them, or that does not let them be read, is not locked.
func (d *Drive) probeLocking(f *Facts) {
	l, err := d.locking()
	if err != nil {
		return
	}
	f.OpalLocked = l.Enabled && l.Locked
	if l.Encrypts {
		f.Encrypts = true
	}
	if l.Enabled && !l.Locked {
		f.warnf("TCG locking is set up on it, and nothing is locked now: the next owner cannot change that without its password or PSID")
	}
}

func (d *Drive) probeSCSI(f *Facts) error {
	pages, err := d.vitalPages()
	if err != nil {
		return err
	}
	if slices.Contains(pages, vpdATA) {
		d.Kind = ATA
		return d.probeATA(f)
	}
	d.Kind = SCSI
	for _, s := range sanitizeSCSI {
		f.offer(d.supportsSanitize(s.action), s.command)
	}
	// A cryptographic erase has to make all logical blocks unreadable (SBC-5, 4.12): a drive that has it encrypts all of them.
	f.Encrypts = slices.Contains(f.Commands, SCSISanitizeCrypto)
	d.probeLocking(f)
	if len(f.Commands) == 1 {
		return nil
	}
	status, err := d.sanitizeStatusSCSI()
	if err != nil {
		return err
	}
	f.Sanitizing, f.FailureMode = status.State == SanitizeRuns, status.State == SanitizeFailed
	cdb := []byte{opReadCapacity, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0}
	if data, err := d.scsi(cdb, 32); err == nil {
		f.MayNotRead = ParseProtection(data)
	}
	return nil
}

func (d *Drive) probeATA(f *Facts) error {
	id, err := d.identifyATA()
	if err != nil {
		return err
	}
	d.identity = id
	f.Rotational = f.Rotational && !id.SolidState
	f.Encrypts = id.Encrypts
	f.SecurityFrozen, f.Locked = id.Security.Frozen, id.Security.Locked
	f.Commands = append(f.Commands, id.Sanitize...)
	f.offer(id.Security.Supported && id.Security.Enhanced, ATAEnhancedErase)
	f.offer(id.Security.Supported, ATAErase)
	f.Times[ATAErase], f.Times[ATAEnhancedErase] = id.Security.Normal, id.Security.Thorough
	if len(id.Sanitize) > 0 {
		status, err := d.sanitizeStatusATA()
		switch {
		case errors.Is(err, errPartial):
			// How a sanitize operation ends could not be read: a controller that hides that cannot be used for it.
			f.Commands = slices.DeleteFunc(f.Commands, func(c Command) bool { return slices.Contains(id.Sanitize, c) })
			f.warnf("its sanitize commands are not used: %v", err)
		case err != nil:
			return err
		}
		f.Sanitizing, f.FailureMode, f.SanitizeFrozen = status.State == SanitizeRuns, status.State == SanitizeFailed, status.Frozen
	}
	if f.Sanitizing || f.FailureMode || f.Locked {
		return nil // it refuses other commands
	}
	f.Hidden, f.HiddenBy, err = d.hiddenATA(id)
	if err != nil {
		f.warnf("whether a part of it is hidden is unknown: %v", err)
	}
	if f.Hidden > 0 {
		f.warnf("%d bytes of it are hidden by %s: an overwrite does not reach them", f.Hidden, f.HiddenBy)
	}
	return nil
}
