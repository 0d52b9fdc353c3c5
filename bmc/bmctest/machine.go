// Package bmctest contains the test doubles of the BMC layer: a fake, and an emulated server with a Redfish and an IPMI BMC that
// misbehave on demand. It also contains the conformance suite for drivers and BMCs.
package bmctest

import (
	"cmp"
	"context"
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

// Machine is an emulated server. Its Redfish BMC is an http.Handler, and ServeIPMI is its IPMI BMC; both may be used at once. It consists of parts, each with what it
// knows of one subject.
type Machine struct {
	*core
	power
	bootOverride
	virtualMedia
	biosSetup
	secureBootState
	sensors
	logins

	requests atomic.Int64 // over Redfish
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
	c := &core{opts: opts}
	m := &Machine{
		core: c, power: power{core: c, on: opts.On, booted: opts.On}, bootOverride: bootOverride{core: c, next: bmc.BootOverride{Target: bmc.BootNone}},
		virtualMedia: virtualMedia{core: c, media: map[string]string{}}, biosSetup: biosSetup{core: c, bios: newBIOS()}, secureBootState: secureBootState{core: c},
		sensors: sensors{core: c}, logins: logins{core: c, sessions: map[string]string{}},
	}
	m.nextBoot, m.firmware, m.secureState = &m.bootOverride, &m.biosSetup, &m.secureBootState
	m.resetAt = m.now()
	m.log(bmc.HealthOK, "The BMC started")
	return m
}

// Requests counts all Redfish requests, including failed ones.
func (m *Machine) Requests() int { return int(m.requests.Load()) }
