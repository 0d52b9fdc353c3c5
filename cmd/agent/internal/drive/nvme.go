package drive

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"
)

// The admin commands (NVM Express Base Specification 2.1, figure 142).
const (
	opGetLogPage      = 0x02 // 5.1.12
	opIdentify        = 0x06 // 5.1.13
	opGetFeatures     = 0x0a // 5.1.11
	opFormat          = 0x80 // 5.1.10
	opSecurityReceive = 0x82 // 5.1.23
	opSanitize        = 0x84 // 5.1.22
)

// The data structures of Identify (5.1.13.1, figure 310).
const (
	cnsNamespace   = 0x00
	cnsController  = 0x01
	cnsActive      = 0x02
	cnsAllocated   = 0x10
	cnsControllers = 0x13
	identifySize   = 4096
)

const (
	logSanitize      = 0x81 // Sanitize Status
	logBootPartition = 0x15 // Boot Partition
	featErrors       = 0x05 // Error Recovery
	allNamespaces    = 0xffffffff
)

// Controller is what an NVMe controller says in its Identify Controller data structure (5.1.13.2.1, figure 313).
type Controller struct {
	Serial, Model, Firmware string
	// ID identifies it in its subsystem (CNTLID). Several is true if the subsystem may have several controllers (CMIC bit 1), also if it has one now.
	ID      uint16
	Several bool
	// Security, Format and Management are the support of Security Receive, Format NVM and Namespace Management (OACS bits 0, 1 and 3).
	Security, Format, Management bool
	// FormatsAll is true if a format applies to all namespaces (FNA bit 0), or its secure erase does (FNA bit 1). ErasesAll is true for the secure erase alone.
	// FormatCrypto is the support of the cryptographic erase (FNA bit 2).
	FormatsAll, ErasesAll, FormatCrypto bool
	// SanitizeCrypto and SanitizeBlock are the support of the sanitize operations (SANICAP bits 0 and 1).
	SanitizeCrypto, SanitizeBlock bool
	// RPMB is true for a drive with replay protected memory blocks (RPMBS bits 2:0).
	RPMB bool
}

// ParseController parses the Identify Controller data structure.
func ParseController(data []byte) (Controller, error) {
	if len(data) < identifySize {
		return Controller{}, fmt.Errorf("the Identify Controller data structure has %d bytes instead of %d", len(data), identifySize)
	}
	oacs, fna, sanicap := binary.LittleEndian.Uint16(data[256:]), data[524], binary.LittleEndian.Uint32(data[328:])
	return Controller{
		Serial: asciiText(data[4:24]), Model: asciiText(data[24:64]), Firmware: asciiText(data[64:72]),
		ID: binary.LittleEndian.Uint16(data[78:]), Several: data[76]&(1<<1) != 0,
		Security: oacs&1 != 0, Format: oacs&(1<<1) != 0, Management: oacs&(1<<3) != 0,
		FormatsAll: fna&3 != 0, ErasesAll: fna&(1<<1) != 0, FormatCrypto: fna&(1<<2) != 0,
		SanitizeCrypto: sanicap&1 != 0, SanitizeBlock: sanicap&(1<<1) != 0,
		RPMB: data[312]&7 != 0,
	}, nil
}

// asciiText is a text that is padded with spaces or zeros.
func asciiText(b []byte) string { return strings.TrimSpace(string(bytes.Trim(b, "\x00"))) }

// Namespace is what an NVMe namespace says in its Identify Namespace data structure (NVM Command Set Specification 1.1, 4.1.5.1, figure 114).
type Namespace struct {
	// Blocks is the size (NSZE), and BlockSize that of a logical block, in bytes.
	Blocks    uint64
	BlockSize int
	// Format are the bits of Format NVM that keep the format: LBA format, metadata, and protection information.
	Format uint32
	// Protected is true if the blocks have protection information (DPS bits 2:0), which a read may find wrong after an erase.
	Protected bool
}

// ParseNamespace parses the Identify Namespace data structure.
func ParseNamespace(data []byte) (Namespace, error) {
	if len(data) < identifySize {
		return Namespace{}, fmt.Errorf("the Identify Namespace data structure has %d bytes instead of %d", len(data), identifySize)
	}
	flbas, dps := data[26], data[29]
	index := uint32(flbas&0x0f) | uint32(flbas>>5&3)<<4
	shift := data[128+4*index+2] // LBADS of the format in use
	if shift < 9 || shift > 24 {
		return Namespace{}, fmt.Errorf("the namespace has logical blocks of 2^%d bytes", shift)
	}
	return Namespace{
		Blocks: binary.LittleEndian.Uint64(data), BlockSize: 1 << shift, Protected: dps&7 != 0,
		// Format NVM, dword 10: LBAFL 3:0, MSET 4, PI 7:5, PIL 8, LBAFU 13:12 (5.1.10, figure 189).
		Format: index&0x0f | uint32(flbas>>4&1)<<4 | uint32(dps&7)<<5 | uint32(dps>>3&1)<<8 | index>>4<<12,
	}, nil
}

// ParseNamespaceList parses a namespace list: identifiers in ascending order, of which the first zero is the end (4.4.2).
func ParseNamespaceList(data []byte) ([]uint32, error) {
	if len(data) < identifySize {
		return nil, fmt.Errorf("the namespace list has %d bytes instead of %d", len(data), identifySize)
	}
	var out []uint32
	for at := 0; at < identifySize; at += 4 {
		id := binary.LittleEndian.Uint32(data[at:])
		if id == 0 {
			break
		}
		if len(out) > 0 && id <= out[len(out)-1] {
			return nil, fmt.Errorf("the namespace list has %d after %d", id, out[len(out)-1])
		}
		out = append(out, id)
	}
	return out, nil
}

// ParseControllerList parses a controller list: the number of identifiers, and the identifiers in ascending order (4.4.1).
func ParseControllerList(data []byte) ([]uint16, error) {
	if len(data) < identifySize {
		return nil, fmt.Errorf("the controller list has %d bytes instead of %d", len(data), identifySize)
	}
	count := int(binary.LittleEndian.Uint16(data))
	if count > identifySize/2-1 {
		return nil, fmt.Errorf("the controller list has %d controllers, and at most %d fit", count, identifySize/2-1)
	}
	out := make([]uint16, count)
	for i := range out {
		out[i] = binary.LittleEndian.Uint16(data[2+2*i:])
		if i > 0 && out[i] <= out[i-1] {
			return nil, fmt.Errorf("the controller list has %d after %d", out[i], out[i-1])
		}
	}
	return out, nil
}

// mayBeShared is true for a drive that another server may use, through another controller of its subsystem. A drive that does not list its controllers may be.
func (d *Drive) mayBeShared(c Controller) bool {
	if !c.Several {
		return false
	}
	data, err := d.identify(cnsControllers, 0)
	if err != nil {
		return true
	}
	list, err := ParseControllerList(data)
	return err != nil || len(list) != 1 || list[0] != c.ID
}

// SanitizeState is the state of the most recent sanitize operation.
type SanitizeState int

const (
	SanitizeNever SanitizeState = iota
	SanitizeRuns
	SanitizeDone
	SanitizeFailed
)

// SanitizeStatus is how far a sanitize operation is.
type SanitizeStatus struct {
	State SanitizeState
	// Percent is how much of it is done.
	Percent int
	// Command is the operation, empty where the drive does not say.
	Command Command
	// Crypto and Block are estimates of how long operations take, 0 where there is none.
	Crypto, Block time.Duration
}

// The sanitize actions: dword 10 of the command, bits 2:0 (5.1.22, figure 372).
const (
	actionBlock  = 2
	actionCrypto = 4
)

// sanitizeLogSize is how much of the log page Sanitize Status has a meaning here.
const sanitizeLogSize = 32

// ParseSanitizeStatus parses the log page Sanitize Status (5.1.12.1, Log Page Identifier 81h).
func ParseSanitizeStatus(data []byte) (SanitizeStatus, error) {
	if len(data) < sanitizeLogSize {
		return SanitizeStatus{}, fmt.Errorf("the log page Sanitize Status has %d bytes, and %d are needed", len(data), sanitizeLogSize)
	}
	word := func(at int) uint32 { return binary.LittleEndian.Uint32(data[at:]) }
	// FFFFFFFFh: no estimate.
	seconds := func(n uint32) time.Duration {
		if n == 0xffffffff {
			return 0
		}
		return time.Duration(n) * time.Second
	}
	out := SanitizeStatus{Percent: percentOf(binary.LittleEndian.Uint16(data)), Block: seconds(word(12)), Crypto: seconds(word(16))}
	switch sstat := data[2] & 7; sstat {
	case 0:
		out.State = SanitizeNever
	case 1, 4: // 4: completed, and deallocated although that was not asked for
		out.State, out.Percent = SanitizeDone, 100
	case 2:
		out.State = SanitizeRuns
	case 3:
		out.State = SanitizeFailed
	default:
		return out, fmt.Errorf("the drive reports the unknown sanitize state %d", sstat)
	}
	switch word(4) & 7 {
	case actionBlock:
		out.Command = NVMeSanitizeBlock
	case actionCrypto:
		out.Command = NVMeSanitizeCrypto
	}
	return out, nil
}

// percentOf is a progress of n/65536.
func percentOf(n uint16) int { return int(n) * 100 >> 16 }

func (d *Drive) identify(cns byte, namespace uint32) ([]byte, error) {
	c := AdminCommand{Opcode: opIdentify, Namespace: namespace, CDW10: uint32(cns), Data: make([]byte, identifySize), Timeout: askTimeout}
	return c.Data, d.Port.Admin(&c)
}

// logPage reads size bytes of a log page. NUMDL counts 32 bit words from zero (5.1.12, figure 199).
func (d *Drive) logPage(id byte, size int) ([]byte, error) {
	words := uint32(size/4 - 1) //nolint:gosec // at most 4096
	c := AdminCommand{Opcode: opGetLogPage, Namespace: allNamespaces, CDW10: words<<16 | uint32(id), Data: make([]byte, size), Timeout: askTimeout}
	return c.Data, d.Port.Admin(&c)
}

func (d *Drive) sanitizeStatusNVMe() (SanitizeStatus, error) {
	data, err := d.logPage(logSanitize, 512)
	if err != nil {
		return SanitizeStatus{}, fmt.Errorf("NVMe Sanitize Status: %w", err)
	}
	return ParseSanitizeStatus(data)
}

// sanitizeNVMe starts a sanitize operation of the whole subsystem (5.1.22). AUSE, bit 3, stays 0: a drive on which the operation fails gives no access to data
// until another one succeeds.
func (d *Drive) sanitizeNVMe(action uint32) error {
	err := d.Port.Admin(&AdminCommand{Opcode: opSanitize, CDW10: action, Timeout: startTimeout})
	if err != nil {
		return fmt.Errorf("NVMe Sanitize: %w", err)
	}
	return nil
}

// The secure erase settings of Format NVM, bits 11:9 of dword 10 (5.1.10, figure 189).
const (
	sesUser   = 1
	sesCrypto = 2
)

// formatNVMe formats each namespace in the format that it has. A drive whose secure erase applies to all namespaces does it once. If only the format does (FNA bit 0), the
// secure erase applies to the named namespace alone.
func (d *Drive) formatNVMe(ctx context.Context, ses uint32, targets []uint32) error {
	if d.controller.ErasesAll {
		targets = targets[:1]
	}
	for _, id := range targets {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		data, err := d.identify(cnsNamespace, id)
		if err != nil {
			return fmt.Errorf("NVMe Identify Namespace %d: %w", id, err)
		}
		n, err := ParseNamespace(data)
		if err != nil {
			return err
		}
		c := AdminCommand{Opcode: opFormat, Namespace: id, CDW10: n.Format | ses<<9, Timeout: formatTimeout}
		if err := d.Port.Admin(&c); err != nil {
			return fmt.Errorf("NVMe Format NVM of namespace %d: %w", id, err)
		}
	}
	return nil
}

// format formats the namespaces that are erased.
func format(command Command, ses uint32) func(context.Context, *Drive, Facts, Watcher) error {
	return func(ctx context.Context, d *Drive, f Facts, watch Watcher) error {
		return d.blocking(ctx, watch, f.Times[command], time.Duration(len(d.targets))*formatTimeout, func() error { return d.formatNVMe(ctx, ses, d.targets) })
	}
}

// formatTimeout is how long a format may take. Drives that erase block by block take minutes.
const formatTimeout = 4 * time.Hour

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
