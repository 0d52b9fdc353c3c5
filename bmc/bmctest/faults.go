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
	BusyInTransition        Fault = "BusyInTransition"
	DropsInTransition       Fault = "DropsInTransition"
	StalePower              Fault = "StalePower"
	TransitionStates        Fault = "TransitionStates"
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
	EjectFails              Fault = "EjectFails"
	SwappedGUID             Fault = "SwappedGUID"
)

// FaultInfo says what a fault is.
type FaultInfo struct {
	// What is what the BMC does.
	What string
	// Redfish and IPMI are true where BMCs of that protocol have it.
	Redfish, IPMI bool
}

// Faults lists every fault.
var Faults = map[Fault]FaultInfo{
	Down:                    {What: "drops every connection and packet", Redfish: true, IPMI: true},
	Hang:                    {What: "takes a request and never answers", Redfish: true, IPMI: true},
	Slow:                    {What: "answers each request after 300 ms", Redfish: true, IPMI: true},
	Drip:                    {What: "sends a byte a second", Redfish: true},
	EndlessBody:             {What: "never ends its answer", Redfish: true},
	TruncatedJSON:           {What: "ends each answer in its middle", Redfish: true, IPMI: true},
	WrongTypes:              {What: "writes numbers as strings, strings as numbers and null for lists", Redfish: true},
	LowerCaseNames:          {What: "writes the names of properties in lower case", Redfish: true},
	TrailingSlashIs405:      {What: "refuses paths that end with a slash", Redfish: true},
	DecoySystems:            {What: "lists members in the Systems collection that are no servers", Redfish: true},
	PartsAre501:             {What: "answers 501 for processors, storage, PCIe devices and power supplies", Redfish: true, IPMI: true},
	OldSchema:               {What: "is a service of Redfish 1.0: no Storage but SimpleStorage, no AllowableValues, LogServices under Managers only", Redfish: true},
	Unauthorized401:         {What: "forgets every session: requests with its token are refused from then on", Redfish: true, IPMI: true},
	SessionTableFull:        {What: "refuses new sessions", Redfish: true, IPMI: true},
	Busy503:                 {What: "answers 503 with Retry-After: 1; node busy over IPMI", Redfish: true, IPMI: true},
	RedirectElsewhere:       {What: "redirects every request to another host", Redfish: true},
	RebootMidCall:           {What: "obeys the next command but drops its connection before it answers", Redfish: true, IPMI: true},
	ClockSkew:               {What: "is a BMC's clock that is a hundred days late", Redfish: true, IPMI: true},
	PowerIgnored:            {What: "acknowledges a power command and does nothing", Redfish: true, IPMI: true},
	BusyInTransition:        {What: "answers 409 to a power command while the power is in transition; node busy over IPMI", Redfish: true, IPMI: true},
	DropsInTransition:       {What: "acknowledges a power command while the power is in transition, and does nothing", Redfish: true, IPMI: true},
	StalePower:              {What: "tells the power state from before a power command until it took effect, and as long again", Redfish: true, IPMI: true},
	TransitionStates:        {What: "tells PoweringOn and PoweringOff while the power is in transition", Redfish: true},
	RedundantPowerIs4xx:     {What: "answers 400 to a command that asks for what is so already", Redfish: true, IPMI: true},
	RedundantPowerIs5xx:     {What: "answers 500 to it", Redfish: true, IPMI: true},
	ShutDownFails:           {What: "answers a graceful shutdown with an error, as many do when nothing hears it", Redfish: true, IPMI: true},
	NoGracefulShutdown:      {What: "does not offer a graceful shutdown", Redfish: true, IPMI: true},
	RefusesBootMode:         {What: "refuses a boot override that names the mode", Redfish: true, IPMI: true},
	IgnoresOverrideWithMode: {What: "acknowledges a boot override that names the mode, and does nothing", Redfish: true, IPMI: true},
	IgnoresOverride:         {What: "acknowledges every boot override and does nothing", Redfish: true, IPMI: true},
	IgnoresOnce:             {What: "acknowledges an override for one boot and does nothing; continuous ones hold", Redfish: true, IPMI: true},
	OnceReadsContinuous:     {What: "reports an override for one boot as a continuous one", Redfish: true, IPMI: true},
	OverrideNeverResets:     {What: "leaves an override for one boot set", Redfish: true, IPMI: true},
	OverrideReverts:         {What: "shows the override that was set, and boots the disk", Redfish: true, IPMI: true},
	OverrideAtSettings:      {What: "takes overrides at the @Redfish.Settings object alone", Redfish: true},
	OverrideReadsInvalid:    {What: "reports boot flags as not valid when they are read back", IPMI: true},
	NoNetworkBoot:           {What: "does not offer the network among the boot targets", Redfish: true},
	NeedsETag:               {What: "refuses changes without If-Match", Redfish: true},
	ETagStorm:               {What: "answers 412 to a change, whatever its If-Match", Redfish: true},
	MediaUnderSystems:       {What: "has the virtual media under Systems, not under Managers", Redfish: true},
	MediaByPatch:            {What: "has no actions to insert and eject: the Image property is written", Redfish: true},
	NoMedia:                 {What: "has no virtual media", Redfish: true},
	EjectFails:              {What: "answers an error when an image is to be ejected, and keeps it in its drive", Redfish: true},
	SwappedGUID:             {What: "sends the system GUID in the byte order of SMBIOS", IPMI: true},
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
var Loopback = bmc.AllowList{AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}}
