// Package bmctest contains the test doubles of the BMC layer: a fake, and an emulated server with a Redfish and an IPMI BMC that
// misbehave on demand. It also contains the conformance suite for drivers and BMCs.
package bmctest

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// Command is a command that a BMC received.
type Command struct {
	// Name is the Redfish reset type, or "Boot=" with the boot target, or "Media=" with the image, or "SecureBoot=", or "BIOS=" with the attributes.
	Name string
	At   time.Time
	// InTransition is true for a command that arrived during a power transition.
	InTransition bool
}

// SerialNumber is the serial number that BMC and firmware of an emulated server report.
func SerialNumber(name string) string { return "SN-" + name }

// Options describe an emulated server.
type Options struct {
	// Name, MAC and UUID are the server's.
	Name, MAC, UUID string
	// Vendor and Model are those that the BMC reports. They default to Emulated and bmctest.
	Vendor, Model string
	// Username and Password are the BMC's credentials.
	Username, Password string
	// PowerDelay is the duration of a power transition. With zero, power changes at once.
	PowerDelay time.Duration
	// On starts the server switched on, with its operating system running.
	On bool
	// MemoryGiB and Threads size the server. Default to 64 and 16.
	MemoryGiB, Threads int
	// Run runs the server's firmware and operating system. Its context ends when the server is switched off. After the next power-on it is called again once it has
	// returned: a server runs one system. Run calls booted when the operating system accepts shutdown requests.
	Run func(ctx context.Context, boot bmc.BootTarget, booted func())
}

// Machine is an emulated server. Its Redfish BMC is an http.Handler, and ServeIPMI is its IPMI BMC; both may be used at once.
type Machine struct {
	opts     Options
	faults   faults
	requests atomic.Int64 // over Redfish

	mu         sync.Mutex
	on         bool
	changing   *time.Timer // ends the power transition; nil without a transition
	becoming   bool        // the value of on after the transition
	staleOn    bool        // the value of on at the last power command
	staleUntil time.Time   // until when a BMC with StalePower reports staleOn
	readsOff   time.Time   // until when the BMC reports that the server is off
	resetAt    time.Time   // when the server was last powered on or reset, by the BMC's clock
	booted     bool
	next       bmc.BootOverride
	pending    *bmc.BootOverride // written to the settings object: it becomes next when the server boots
	etag       int               // of the system; changes with it
	media      map[string]string // the images in the virtual drives
	lastImage  string            // the previous one of the drive that boots
	copying    string            // the virtual drive into which a BMC with MediaSlowInsert copies an image
	unread     string            // the image that such a BMC could not read
	bootURI    string            // of a BMC with KeepsBootURI
	bootedURI  string            // of the last boot
	secure     bmc.SecureBoot
	bios       biosMemory
	events     []bmc.LogEntry        // oldest first, without IDs
	health     map[string]bmc.Health // of the parts that are not OK, by name
	commands   []Command
	sessions   map[string]string
	lastToken  int
	refused    int // logins
	stop       context.CancelFunc
	ended      chan struct{} // closed when the last Run has returned; nil before the first one
	running    sync.WaitGroup
}

// NewMachine returns an emulated server. The caller closes it.
func NewMachine(opts Options) *Machine {
	if opts.MemoryGiB == 0 {
		opts.MemoryGiB = 64
	}
	if opts.Threads == 0 {
		opts.Threads = 16
	}
	opts.Vendor, opts.Model = cmp.Or(opts.Vendor, "Emulated"), cmp.Or(opts.Model, "bmctest")
	m := &Machine{opts: opts, on: opts.On, booted: opts.On, next: bmc.BootOverride{Target: bmc.BootNone}, sessions: map[string]string{}, media: map[string]string{}, bios: newBIOS()}
	m.resetAt = m.now()
	m.log(bmc.HealthOK, "The BMC started")
	return m
}

// Close switches the server off and waits until Run has returned.
func (m *Machine) Close() {
	m.mu.Lock()
	if m.changing != nil {
		m.changing.Stop()
		m.changing = nil
	}
	m.switchTo(false)
	m.mu.Unlock()
	m.running.Wait()
}

// Commands returns the commands that the BMC received, oldest first.
func (m *Machine) Commands() []Command {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.commands)
}

// CommandNames returns the names of the commands that the BMC received, oldest first.
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

// Override returns the boot override for the next boot.
func (m *Machine) Override() bmc.BootOverride {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pending != nil {
		return *m.pending
	}
	return m.next
}

// Image returns the URL of the image in the virtual drive that boots; empty if there is none.
func (m *Machine) Image() string { return m.imageIn(m.bootDrive()) }

func (m *Machine) imageIn(drive string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.media[drive]
}

// Sessions counts the Redfish sessions that are open.
func (m *Machine) Sessions() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.sessions)
}

// Refused counts the logins that were refused.
func (m *Machine) Refused() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.refused
}

// Requests counts all Redfish requests, including failed ones.
func (m *Machine) Requests() int { return int(m.requests.Load()) }

// SetPassword changes the BMC's password.
func (m *Machine) SetPassword(password string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.opts.Password = password
}

// SetPower switches the server like its power button: at once, and without a command to the BMC.
func (m *Machine) SetPower(on bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.switchTo(on)
}

// log appends an entry to the event log. m.mu is held, or m is not shared yet.
func (m *Machine) log(severity bmc.Health, message string) {
	const most = 100
	m.events = append(m.events, bmc.LogEntry{Time: m.now(), Severity: severity, Message: message})
	m.events = m.events[max(0, len(m.events)-most):]
}

// now is the BMC's clock.
func (m *Machine) now() time.Time {
	now := time.Now().UTC()
	if m.faults.on(ClockSkew) {
		now = now.Add(-100 * 24 * time.Hour)
	}
	return now
}

// switchTo changes the power now. m.mu is held.
func (m *Machine) switchTo(on bool) {
	if m.on == on {
		return
	}
	m.on, m.booted = on, false
	m.etag++
	if !on {
		m.log(bmc.HealthOK, "Power off")
		if m.stop != nil {
			m.stop()
		}
		return
	}
	m.log(bmc.HealthOK, "Power on")
	m.resetAt = m.now()
	m.boot()
}

// boot starts Run. m.mu is held.
func (m *Machine) boot() {
	if m.pending != nil {
		m.next, m.pending = *m.pending, nil
	}
	boot := m.next.Target
	m.bootedURI = m.next.URI
	if boot == bmc.BootNone || m.faults.on(OverrideReverts) {
		boot = bmc.BootDisk
	}
	if !m.next.Continuous && !m.faults.on(OverrideNeverResets) {
		m.next = bmc.BootOverride{Target: bmc.BootNone, Mode: m.next.Mode}
	}
	m.applyBIOS()
	m.secure.Enabled, m.secure.Pending = m.secure.Next(), nil
	m.secure.Active = m.secure.Enabled
	if m.opts.Run == nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	earlier, ended := m.ended, make(chan struct{})
	m.stop, m.ended = cancel, ended
	m.running.Go(func() {
		defer close(ended)
		defer cancel()
		if earlier != nil {
			<-earlier
		}
		m.opts.Run(ctx, boot, func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			if ctx.Err() == nil {
				m.booted = true
			}
		})
	})
}

// BootedURI returns the URI of UEFI HTTP boot with which the server was last booted; empty for none.
func (m *Machine) BootedURI() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bootedURI
}

// reset executes a Redfish reset type. It returns false for an unknown type.
func (m *Machine) reset(kind string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !slices.Contains(resetTypes, kind) {
		return false
	}
	m.commands = append(m.commands, Command{kind, time.Now(), m.changing != nil})
	if m.faults.take(PowerIgnored) || m.changing != nil && m.faults.on(DropsInTransition) {
		return true
	}
	m.staleOn, m.staleUntil = m.on, time.Now().Add(2*m.opts.PowerDelay)
	switch kind {
	case "On":
		m.change(true)
	case "ForceOff":
		m.change(false)
	case "GracefulShutdown":
		if m.booted {
			m.change(false)
		}
	case "Nmi":
		m.log(bmc.HealthCritical, "NMI")
	default:
		m.switchTo(false)
		m.change(true)
	}
	return true
}

// resetTypes are the supported Redfish reset types.
var resetTypes = []string{"On", "ForceOff", "GracefulShutdown", "ForceRestart", "PowerCycle", "Nmi"}

// override sets the boot override for the next boot.
func (m *Machine) override(boot bmc.BootOverride) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.commands = append(m.commands, Command{Name: "Boot=" + string(boot.Target), At: time.Now()})
	if m.faults.on(OverrideAtSettings) {
		m.pending = &boot
	} else {
		m.next = boot
	}
	m.etag++
}

// insert inserts an image into a virtual drive, or ejects the image if it is empty.
func (m *Machine) insert(drive, image string) {
	boots := m.bootDrive()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.commands = append(m.commands, Command{Name: "Media=" + image, At: time.Now()})
	if drive == boots && m.media[drive] != "" {
		m.lastImage = m.media[drive]
	}
	m.media[drive] = image
	if drive == m.copying {
		m.copying = "" // an eject ends the copy, and its task
	}
}

// logEntries returns the event log, newest first. IDs count from 1.
func (m *Machine) logEntries() []bmc.LogEntry {
	m.mu.Lock()
	defer m.mu.Unlock()
	entries := slices.Clone(m.events)
	for i := range entries {
		entries[i].ID = strconv.Itoa(i + 1)
	}
	slices.Reverse(entries)
	return entries
}
