// Package bmctest holds what the BMC layer is tested against: a hand-written fake and an emulated server with a Redfish BMC.
// The server is stateful, takes its time to change its power, and keeps a log of every command it was given.
package bmctest

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Boot is what an emulated server boots when it is switched on.
type Boot string

// The boot devices of an emulated server.
const (
	BootDisk    Boot = "Hdd"
	BootNetwork Boot = "Pxe"
)

// Command is a command that a BMC was given.
type Command struct {
	// Name is the Redfish reset type, or "Boot=" with the boot device.
	Name string
	At   time.Time
}

// Options describe an emulated server.
type Options struct {
	// Name, MAC and UUID are the server's.
	Name, MAC, UUID string
	// Username and Password are the BMC's credentials.
	Username, Password string
	// PowerDelay is how long a change of power takes. Zero is at once.
	PowerDelay time.Duration
	// ShutDownFails makes the BMC answer a graceful shutdown with an error, as many do when nothing hears it.
	ShutDownFails bool
	// On starts the server switched on, with its operating system running.
	On bool
	// MemoryGiB and Threads size the server. Default to 64 and 16.
	MemoryGiB, Threads int
	// Run plays the server while it is on: its firmware, then its operating system. Its context ends when the server is
	// switched off. booted is to be called once the operating system hears a request to shut down.
	Run func(ctx context.Context, boot Boot, booted func())
}

// Machine is an emulated server. Its BMC is an http.Handler.
type Machine struct {
	opts Options

	mu        sync.Mutex
	on        bool
	changing  *time.Timer
	booted    bool
	next      Boot
	commands  []Command
	sessions  map[string]string
	lastToken int
	stop      context.CancelFunc
	running   sync.WaitGroup
	down      bool
}

// NewMachine returns an emulated server. Close it.
func NewMachine(opts Options) *Machine {
	if opts.MemoryGiB == 0 {
		opts.MemoryGiB = 64
	}
	if opts.Threads == 0 {
		opts.Threads = 16
	}
	return &Machine{opts: opts, on: opts.On, booted: opts.On, next: BootDisk, sessions: map[string]string{}}
}

// Close switches the server off and waits for what ran on it.
func (m *Machine) Close() {
	m.mu.Lock()
	if m.changing != nil {
		m.changing.Stop()
	}
	m.switchTo(false)
	m.mu.Unlock()
	m.running.Wait()
}

// Commands returns the commands that the BMC was given, oldest first.
func (m *Machine) Commands() []Command {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.commands)
}

// CommandNames returns the names of the commands that the BMC was given, oldest first.
func (m *Machine) CommandNames() []string {
	names := []string{}
	for _, c := range m.Commands() {
		names = append(names, c.Name)
	}
	return names
}

// On is true while the server is switched on.
func (m *Machine) On() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.on
}

// Sessions counts the Redfish sessions that are open.
func (m *Machine) Sessions() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.sessions)
}

// SetDown makes the BMC drop every connection, or answer again.
func (m *Machine) SetDown(down bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.down = down
}

// SetPassword changes the BMC's password.
func (m *Machine) SetPassword(password string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.opts.Password = password
}

// SetPower switches the server as a person at its front would: at once, and without a command to the BMC.
func (m *Machine) SetPower(on bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.switchTo(on)
}

// change lets the power change after the delay. A later change replaces one that has not happened.
func (m *Machine) change(on bool) {
	if m.changing != nil {
		m.changing.Stop()
	}
	if m.opts.PowerDelay == 0 {
		m.switchTo(on)
		return
	}
	m.changing = time.AfterFunc(m.opts.PowerDelay, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.switchTo(on)
	})
}

// switchTo changes the power now. m.mu is held.
func (m *Machine) switchTo(on bool) {
	if m.on == on {
		return
	}
	m.on, m.booted = on, false
	if !on {
		if m.stop != nil {
			m.stop()
		}
		return
	}
	boot := m.next
	m.next = BootDisk // an override holds for one boot
	if m.opts.Run == nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	m.stop = cancel
	m.running.Go(func() {
		defer cancel()
		m.opts.Run(ctx, boot, func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			if ctx.Err() == nil {
				m.booted = true
			}
		})
	})
}

// resetTypes are what the BMC offers.
var resetTypes = []string{"On", "ForceOff", "GracefulShutdown", "ForceRestart", "PowerCycle"}

// reset obeys a Redfish reset. It returns false for a type that the BMC does not offer.
func (m *Machine) reset(kind string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !slices.Contains(resetTypes, kind) {
		return false
	}
	m.commands = append(m.commands, Command{kind, time.Now()})
	switch kind {
	case "On":
		m.change(true)
	case "ForceOff":
		m.change(false)
	case "GracefulShutdown":
		if m.booted {
			m.change(false)
		}
	default:
		m.switchTo(false)
		m.change(true)
	}
	return true
}

// override sets the device of the next boot.
func (m *Machine) override(boot Boot) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.commands = append(m.commands, Command{"Boot=" + string(boot), time.Now()})
	m.next = boot
}
