// Package drivetest has drives for tests that behave as the specifications say: they have a medium, the states of sanitize operations and of ATA security, and
// answer the commands of NVMe, ATA and SCSI. They fail on demand, and a restart keeps what a power cycle keeps.
package drivetest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"

	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/disk"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/disk/disktest"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/drive"
)

// State is the state of a sanitize operation.
type State int

const (
	Idle State = iota
	Running
	Done
	Failed
)

// Drive is a drive with its namespaces. A drive that is no NVMe drive has one.
type Drive struct {
	// Kind is its command set.
	Kind drive.Kind
	// Sector is the size of a logical sector, in bytes.
	Sector int
	// Crypto, BlockErase, SanitizeOverwrite, FormatCrypto, Format, Enhanced and SecurityErase are what it offers.
	Crypto, BlockErase, SanitizeOverwrite, FormatCrypto, Format, Enhanced, SecurityErase bool
	// Encrypts is what word 69 of an ATA drive says.
	Encrypts bool
	// Several, FormatsAll, Unattached, RPMB and Boot are of an NVMe drive. With ErasesNamed the secure erase of a format applies to the named namespace alone, although
	// a format applies to all.
	Several, FormatsAll, ErasesNamed bool
	Unattached                       int
	RPMB, Boot                       bool
	// Controllers are those of its NVMe subsystem. The one that answers is 1. Without any, it does not list them.
	Controllers []uint16
	// DULBE is true if reads of deallocated blocks fail.
	DULBE bool
	// SMART are the critical warnings of its log page SMART / Health Information.
	SMART byte
	// Frozen and SanitizeFrozen are of an ATA drive, and Hidden how many of its sectors are not accessible.
	Frozen, SanitizeFrozen bool
	Hidden                 uint64
	// Opal is true if a part of it is locked.
	Opal bool
	// Steps is how many questions a sanitize operation takes. Fails makes it fail at its end. Lies makes it succeed without effect.
	Steps       int
	Fails, Lies bool
	// Loses makes writes succeed without effect.
	Loses bool
	// Hook is called before each command, write, read and flush, with its name. Its error is that of the operation, which has no effect then.
	Hook func(operation string) error
	// Revision changes with each command that may change the medium.
	Revision int

	mu         sync.Mutex
	media      [][]byte
	gone       [][]bool // deallocated, by sectors
	state      State
	left       int
	action     string
	password   string
	locked     bool
	prepared   bool
	random     *rand.Rand
	operations []string
}

// New returns a drive with namespaces of size bytes, which have random content.
func New(kind drive.Kind, namespaces, size int, seed uint64) *Drive {
	d := &Drive{Kind: kind, Sector: 512, Steps: 3, random: rand.New(rand.NewPCG(seed, 1))} //nolint:gosec // a fake: the test gives the sizes
	for range namespaces {
		d.media = append(d.media, make([]byte, size))
		d.gone = append(d.gone, make([]bool, size/512))
	}
	for i := range d.media {
		d.scramble(i)
	}
	return d
}

// scramble fills a namespace with random content.
func (d *Drive) scramble(i int) {
	copy(d.media[i], disktest.Random(d.random.Uint64(), len(d.media[i])))
	clear(d.gone[i])
}

// Namespaces is how many namespaces it has.
func (d *Drive) Namespaces() int { return len(d.media) }

// Medium returns what is on a namespace.
func (d *Drive) Medium(i int) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	return bytes.Clone(d.media[i])
}

// Fill sets what is on a namespace.
func (d *Drive) Fill(i int, b byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	copy(d.media[i], bytes.Repeat([]byte{b}, len(d.media[i])))
}

// Write puts content on a namespace.
func (d *Drive) Write(i, offset int, content []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	copy(d.media[i][offset:], content)
}

// Operations returns the names of all commands and writes so far.
func (d *Drive) Operations() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string{}, d.operations...)
}

// State returns the state of the sanitize operation.
func (d *Drive) State() State {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.state
}

// Start begins a sanitize operation, as another host would: action is crypto, block or overwrite.
func (d *Drive) Start(action string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.state, d.action, d.left = Running, action, d.Steps
}

// SetPassword locks an ATA drive, as after a power failure.
func (d *Drive) SetPassword(password string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.password, d.locked = password, true
}

// Locked is true for a drive with a password.
func (d *Drive) Locked() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.password != ""
}

// Restart is a power cycle: an ATA drive with a password is locked then. A sanitize operation goes on.
func (d *Drive) Restart() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.Hook, d.prepared, d.locked = nil, false, d.password != ""
}

// The names of sanitize commands. Those that give access to data after a failed operation are not recorded as Sanitize.
const (
	Sanitize = "sanitize"
	// SanitizeUnrestricted permits ExitFailureMode after a failure.
	SanitizeUnrestricted = "unrestricted sanitize"
	ExitFailureMode      = "exit failure mode"
)

func sanitizeName(unrestricted, exit bool) string {
	switch {
	case exit:
		return ExitFailureMode
	case unrestricted:
		return SanitizeUnrestricted
	default:
		return Sanitize
	}
}

// begin records an operation, and calls the hook without the lock.
func (d *Drive) begin(operation string) error {
	d.mu.Lock()
	d.operations = append(d.operations, operation)
	hook := d.Hook
	d.mu.Unlock()
	if hook != nil {
		return hook(operation)
	}
	return nil
}

// poll is one question for the progress of a sanitize operation.
func (d *Drive) poll() {
	if d.state != Running {
		return
	}
	if d.left--; d.left > 0 {
		return
	}
	d.state = Done
	switch {
	case d.Fails:
		d.state = Failed
	case !d.Lies:
		d.wipe(d.action)
	}
}

// wipe is the effect of an erase on all namespaces.
func (d *Drive) wipe(action string) {
	for i := range d.media {
		d.wipeOne(i, action)
	}
}

func (d *Drive) wipeOne(i int, action string) {
	d.Revision++
	if action == "crypto" {
		d.scramble(i)
		return
	}
	clear(d.media[i])
	for s := range d.gone[i] {
		d.gone[i][s] = action == "block"
	}
}

// Namespace returns the block device of a namespace.
func (d *Drive) Namespace(i int) disk.Device { return &device{d, i} }

type device struct {
	d *Drive
	i int
}

// usable is the error of reads and writes in the states in which the drive refuses them.
func (d *Drive) usable() error {
	switch {
	case d.state == Running || d.state == Failed:
		return fmt.Errorf("a sanitize operation blocks it: %w", syscall.EIO)
	case d.locked || d.Opal:
		return fmt.Errorf("it is locked: %w", syscall.EIO)
	default:
		return nil
	}
}

func (v *device) ReadAt(b []byte, offset int64) (int, error) {
	if err := v.d.begin("read"); err != nil {
		return 0, err
	}
	v.d.mu.Lock()
	defer v.d.mu.Unlock()
	if err := v.d.usable(); err != nil {
		return 0, err
	}
	if offset < 0 || offset+int64(len(b)) > int64(len(v.d.media[v.i])) {
		return 0, syscall.EINVAL
	}
	for s := offset / 512; v.d.DULBE && s*512 < offset+int64(len(b)); s++ {
		if v.d.gone[v.i][s] {
			return 0, fmt.Errorf("a deallocated block: %w", syscall.EIO)
		}
	}
	return copy(b, v.d.media[v.i][offset:]), nil
}

func (v *device) WriteAt(b []byte, offset int64) (int, error) {
	if err := v.d.begin("write"); err != nil {
		return 0, err
	}
	v.d.mu.Lock()
	defer v.d.mu.Unlock()
	if err := v.d.usable(); err != nil {
		return 0, err
	}
	if offset < 0 || offset%int64(v.d.Sector) != 0 || len(b)%v.d.Sector != 0 || offset+int64(len(b)) > int64(len(v.d.media[v.i])) {
		return 0, syscall.EINVAL
	}
	if v.d.Loses {
		return len(b), nil
	}
	v.d.Revision++
	for s := offset / 512; s*512 < offset+int64(len(b)); s++ {
		v.d.gone[v.i][s] = false
	}
	return copy(v.d.media[v.i][offset:], b), nil
}

// ZeroRange is a discard: it must not be used to erase.
func (v *device) ZeroRange(int64, int64) error {
	return errors.New("the drive was asked to write zeros, which proves nothing")
}

func (v *device) Flush() error {
	if err := v.d.begin("flush"); err != nil {
		return err
	}
	v.d.mu.Lock()
	defer v.d.mu.Unlock()
	return v.d.usable()
}

func (v *device) Size() int64     { return int64(len(v.d.media[v.i])) }
func (v *device) SectorSize() int { return v.d.Sector }
func (*device) Close() error      { return nil }

// Port returns the port of a namespace.
func (d *Drive) Port(i int) drive.Port { return &port{d, i} }

type port struct {
	d *Drive
	i int
}

func (p *port) Namespace() (uint32, error) { return uint32(p.i + 1), nil } //nolint:gosec // a fake: the test gives the sizes
