package bmctest

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// Fault is a way in which an emulated BMC misbehaves.
type Fault string

// The faults. Each is one that BMCs were seen with; docs/bmc-faults.md says what the drivers do about them.
const (
	// Down drops every connection and packet.
	Down Fault = "Down"
	// Hang takes a request and never answers.
	Hang Fault = "Hang"
	// Slow answers each request after 300 ms.
	Slow Fault = "Slow"
	// Drip sends a byte a second.
	Drip Fault = "Drip"
	// EndlessBody never ends its answer.
	EndlessBody Fault = "EndlessBody"
	// TruncatedJSON ends each answer in its middle.
	TruncatedJSON Fault = "TruncatedJSON"
	// WrongTypes writes numbers as strings, strings as numbers and null for lists.
	WrongTypes Fault = "WrongTypes"
	// LowerCaseNames writes the names of properties in lower case.
	LowerCaseNames Fault = "LowerCaseNames"
	// TrailingSlashIs405 refuses paths that end with a slash.
	TrailingSlashIs405 Fault = "TrailingSlashIs405"
	// DecoySystems lists members in the Systems collection that are no servers.
	DecoySystems Fault = "DecoySystems"
	// PartsAre501 answers 501 for processors, storage, PCIe devices and power supplies.
	PartsAre501 Fault = "PartsAre501"
	// OldSchema is a service of Redfish 1.0: no Storage but SimpleStorage, no AllowableValues, LogServices under Managers only.
	OldSchema Fault = "OldSchema"

	// Unauthorized401 forgets every session: requests with its token are refused from then on.
	Unauthorized401 Fault = "Unauthorized401"
	// SessionTableFull refuses new sessions.
	SessionTableFull Fault = "SessionTableFull"
	// Busy503 answers 503 with Retry-After: 1.
	Busy503 Fault = "Busy503"
	// RedirectElsewhere redirects every request to another host.
	RedirectElsewhere Fault = "RedirectElsewhere"
	// RebootMidCall obeys the next command but drops its connection before it answers.
	RebootMidCall Fault = "RebootMidCall"
	// ClockSkew is a BMC's clock that is a hundred days late.
	ClockSkew Fault = "ClockSkew"

	// PowerIgnored acknowledges a power command and does nothing.
	PowerIgnored Fault = "PowerIgnored"
	// RedundantPowerIs4xx answers 400 to a command that asks for what is so already.
	RedundantPowerIs4xx Fault = "RedundantPowerIs4xx"
	// RedundantPowerIs5xx answers 500 to it.
	RedundantPowerIs5xx Fault = "RedundantPowerIs5xx"
	// ShutDownFails answers a graceful shutdown with an error, as many do when nothing hears it.
	ShutDownFails Fault = "ShutDownFails"
	// NoGracefulShutdown does not offer a graceful shutdown.
	NoGracefulShutdown Fault = "NoGracefulShutdown"

	// RefusesBootMode refuses a boot override that names the mode.
	RefusesBootMode Fault = "RefusesBootMode"
	// IgnoresOverrideWithMode acknowledges a boot override that names the mode, and does nothing.
	IgnoresOverrideWithMode Fault = "IgnoresOverrideWithMode"
	// IgnoresOverride acknowledges every boot override and does nothing.
	IgnoresOverride Fault = "IgnoresOverride"
	// IgnoresOnce acknowledges an override for one boot and does nothing; continuous ones hold.
	IgnoresOnce Fault = "IgnoresOnce"
	// OnceReadsContinuous reports an override for one boot as a continuous one.
	OnceReadsContinuous Fault = "OnceReadsContinuous"
	// OverrideNeverResets leaves an override for one boot set.
	OverrideNeverResets Fault = "OverrideNeverResets"
	// OverrideReverts shows the override that was set, and boots the disk.
	OverrideReverts Fault = "OverrideReverts"
	// OverrideAtSettings takes overrides at the @Redfish.Settings object alone.
	OverrideAtSettings Fault = "OverrideAtSettings"
	// OverrideReadsInvalid says that the boot flags are not valid when they are read back (IPMI).
	OverrideReadsInvalid Fault = "OverrideReadsInvalid"
	// NoNetworkBoot does not offer the network among the boot targets.
	NoNetworkBoot Fault = "NoNetworkBoot"
	// NeedsETag refuses changes without If-Match.
	NeedsETag Fault = "NeedsETag"
	// ETagStorm answers 412 to a change, whatever its If-Match.
	ETagStorm Fault = "ETagStorm"

	// MediaUnderSystems has the virtual media under Systems, not under Managers.
	MediaUnderSystems Fault = "MediaUnderSystems"
	// MediaByPatch has no actions to insert and eject: the Image property is written.
	MediaByPatch Fault = "MediaByPatch"
	// NoMedia has no virtual media.
	NoMedia Fault = "NoMedia"
	// SwappedGUID sends the system GUID in the byte order of SMBIOS (IPMI).
	SwappedGUID Fault = "SwappedGUID"
)

// Faults lists every fault.
var Faults = []Fault{
	Down, Hang, Slow, Drip, EndlessBody, TruncatedJSON, WrongTypes, LowerCaseNames, TrailingSlashIs405, DecoySystems, PartsAre501, OldSchema,
	Unauthorized401, SessionTableFull, Busy503, RedirectElsewhere, RebootMidCall, ClockSkew,
	PowerIgnored, RedundantPowerIs4xx, RedundantPowerIs5xx, ShutDownFails, NoGracefulShutdown,
	RefusesBootMode, IgnoresOverrideWithMode, IgnoresOverride, IgnoresOnce, OnceReadsContinuous, OverrideNeverResets, OverrideReverts,
	OverrideAtSettings, OverrideReadsInvalid, NoNetworkBoot, NeedsETag, ETagStorm,
	MediaUnderSystems, MediaByPatch, NoMedia, SwappedGUID,
}

// faults are the faults of a BMC that are switched on. The zero value has none.
type faults struct {
	mu   sync.Mutex
	left map[Fault]int
}

// on is true while the fault is switched on.
func (f *faults) on(fault Fault) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.left[fault] != 0
}

// take is on, and counts one occasion.
func (f *faults) take(fault Fault) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	left := f.left[fault]
	if left > 0 {
		f.left[fault] = left - 1
	}
	return left != 0
}

// Misbehave switches a fault on for so many occasions: -1 for ever, 0 to switch it off.
func (m *Machine) Misbehave(fault Fault, times int) error {
	if !slices.Contains(Faults, fault) {
		return fmt.Errorf("there is no fault %q: it is one of %v", fault, Faults)
	}
	m.faults.mu.Lock()
	defer m.faults.mu.Unlock()
	if m.faults.left == nil {
		m.faults.left = map[Fault]int{}
	}
	m.faults.left[fault] = times
	return nil
}

// Misbehaviour returns the faults that are switched on, each with the occasions left.
func (m *Machine) Misbehaviour() map[Fault]int {
	m.faults.mu.Lock()
	defer m.faults.mu.Unlock()
	on := map[Fault]int{}
	for fault, times := range m.faults.left {
		if times != 0 {
			on[fault] = times
		}
	}
	return on
}

// Loopback permits BMCs on this machine, where the emulators are.
var Loopback = bmc.Permit{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
