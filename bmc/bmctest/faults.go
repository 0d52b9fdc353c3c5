package bmctest

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// Fault is a way in which an emulated BMC misbehaves.
type Fault string

// The faults. Each is one that BMCs were seen with; Faults says what it is, and docs/bmc.md what the drivers do about it.
const (
	Down                    Fault = "Down"
	Hang                    Fault = "Hang"
	Slow                    Fault = "Slow"
	Drip                    Fault = "Drip"
	EndlessBody             Fault = "EndlessBody"
	TruncatedJSON           Fault = "TruncatedJSON"
	WrongTypes              Fault = "WrongTypes"
	LowerCaseNames          Fault = "LowerCaseNames"
	TrailingSlashIs405      Fault = "TrailingSlashIs405"
	DecoySystems            Fault = "DecoySystems"
	PartsAre501             Fault = "PartsAre501"
	OldSchema               Fault = "OldSchema"
	Unauthorized401         Fault = "Unauthorized401"
	SessionTableFull        Fault = "SessionTableFull"
	Busy503                 Fault = "Busy503"
	RedirectElsewhere       Fault = "RedirectElsewhere"
	RebootMidCall           Fault = "RebootMidCall"
	ClockSkew               Fault = "ClockSkew"
	PowerIgnored            Fault = "PowerIgnored"
	RedundantPowerIs4xx     Fault = "RedundantPowerIs4xx"
	RedundantPowerIs5xx     Fault = "RedundantPowerIs5xx"
	ShutDownFails           Fault = "ShutDownFails"
	NoGracefulShutdown      Fault = "NoGracefulShutdown"
	RefusesBootMode         Fault = "RefusesBootMode"
	IgnoresOverrideWithMode Fault = "IgnoresOverrideWithMode"
	IgnoresOverride         Fault = "IgnoresOverride"
	IgnoresOnce             Fault = "IgnoresOnce"
	OnceReadsContinuous     Fault = "OnceReadsContinuous"
	OverrideNeverResets     Fault = "OverrideNeverResets"
	OverrideReverts         Fault = "OverrideReverts"
	OverrideAtSettings      Fault = "OverrideAtSettings"
	OverrideReadsInvalid    Fault = "OverrideReadsInvalid"
	NoNetworkBoot           Fault = "NoNetworkBoot"
	NeedsETag               Fault = "NeedsETag"
	ETagStorm               Fault = "ETagStorm"
	MediaUnderSystems       Fault = "MediaUnderSystems"
	MediaByPatch            Fault = "MediaByPatch"
	NoMedia                 Fault = "NoMedia"
	SwappedGUID             Fault = "SwappedGUID"
)

// Faults lists every fault with what the BMC does then.
var Faults = map[Fault]string{
	Down:                    "drops every connection and packet",
	Hang:                    "takes a request and never answers",
	Slow:                    "answers each request after 300 ms",
	Drip:                    "sends a byte a second",
	EndlessBody:             "never ends its answer",
	TruncatedJSON:           "ends each answer in its middle",
	WrongTypes:              "writes numbers as strings, strings as numbers and null for lists",
	LowerCaseNames:          "writes the names of properties in lower case",
	TrailingSlashIs405:      "refuses paths that end with a slash",
	DecoySystems:            "lists members in the Systems collection that are no servers",
	PartsAre501:             "answers 501 for processors, storage, PCIe devices and power supplies",
	OldSchema:               "is a service of Redfish 1.0: no Storage but SimpleStorage, no AllowableValues, LogServices under Managers only",
	Unauthorized401:         "forgets every session: requests with its token are refused from then on",
	SessionTableFull:        "refuses new sessions",
	Busy503:                 "answers 503 with Retry-After: 1",
	RedirectElsewhere:       "redirects every request to another host",
	RebootMidCall:           "obeys the next command but drops its connection before it answers",
	ClockSkew:               "is a BMC's clock that is a hundred days late",
	PowerIgnored:            "acknowledges a power command and does nothing",
	RedundantPowerIs4xx:     "answers 400 to a command that asks for what is so already",
	RedundantPowerIs5xx:     "answers 500 to it",
	ShutDownFails:           "answers a graceful shutdown with an error, as many do when nothing hears it",
	NoGracefulShutdown:      "does not offer a graceful shutdown",
	RefusesBootMode:         "refuses a boot override that names the mode",
	IgnoresOverrideWithMode: "acknowledges a boot override that names the mode, and does nothing",
	IgnoresOverride:         "acknowledges every boot override and does nothing",
	IgnoresOnce:             "acknowledges an override for one boot and does nothing; continuous ones hold",
	OnceReadsContinuous:     "reports an override for one boot as a continuous one",
	OverrideNeverResets:     "leaves an override for one boot set",
	OverrideReverts:         "shows the override that was set, and boots the disk",
	OverrideAtSettings:      "takes overrides at the @Redfish.Settings object alone",
	OverrideReadsInvalid:    "says that the boot flags are not valid when they are read back (IPMI)",
	NoNetworkBoot:           "does not offer the network among the boot targets",
	NeedsETag:               "refuses changes without If-Match",
	ETagStorm:               "answers 412 to a change, whatever its If-Match",
	MediaUnderSystems:       "has the virtual media under Systems, not under Managers",
	MediaByPatch:            "has no actions to insert and eject: the Image property is written",
	NoMedia:                 "has no virtual media",
	SwappedGUID:             "sends the system GUID in the byte order of SMBIOS (IPMI)",
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
	if _, ok := Faults[fault]; !ok {
		return fmt.Errorf("there is no fault %q: it is one of %v", fault, slices.Sorted(maps.Keys(Faults)))
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
