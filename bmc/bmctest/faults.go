package bmctest

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// Fault is a misbehavior of an emulated BMC.
type Fault string

// The faults. Each was observed on BMCs. Faults describes them, and docs/development/bmc-faults.md describes how the drivers handle them.
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
	MediaStaysInserted      Fault = "MediaStaysInserted"
	MediaStaysStale         Fault = "MediaStaysStale"
	MediaNotConnected       Fault = "MediaNotConnected"
	MediaDecoyDrives        Fault = "MediaDecoyDrives"
	MediaTwoDrives          Fault = "MediaTwoDrives"
	MediaDVDOnly            Fault = "MediaDVDOnly"
	MediaImageOnly          Fault = "MediaImageOnly"
	MediaNeedsProtocol      Fault = "MediaNeedsProtocol"
	MediaPlainURLs          Fault = "MediaPlainURLs"
	MediaNoHTTPS            Fault = "MediaNoHTTPS"
	MediaUnlicensed         Fault = "MediaUnlicensed"
	MediaUnreachable        Fault = "MediaUnreachable"
	MediaSlowInsert         Fault = "MediaSlowInsert"
	MediaRewritesURL        Fault = "MediaRewritesURL"
	InsertFails             Fault = "InsertFails"
	IgnoresBootURI          Fault = "IgnoresBootURI"
	KeepsBootURI            Fault = "KeepsBootURI"
	NoBootURIReadsNone      Fault = "NoBootURIReadsNone"
	BIOSFullCopy            Fault = "BIOSFullCopy"
	BIOSNoAttributes        Fault = "BIOSNoAttributes"
	BIOSNoSettings          Fault = "BIOSNoSettings"
	BIOSUnlinkedSettings    Fault = "BIOSUnlinkedSettings"
	BIOSNoRegistry          Fault = "BIOSNoRegistry"
	BIOSOtherRegistry       Fault = "BIOSOtherRegistry"
	BIOSLanguages           Fault = "BIOSLanguages"
	BIOSNeedsJob            Fault = "BIOSNeedsJob"
	BIOSNeverApplied        Fault = "BIOSNeverApplied"
	BIOSIgnored             Fault = "BIOSIgnored"
	SecureBootSettings      Fault = "SecureBootSettings"
	SwappedGUID             Fault = "SwappedGUID"
)

// FaultInfo describes a fault.
type FaultInfo struct {
	// What describes the BMC's behavior.
	What string
	// Redfish and IPMI are true if BMCs of that protocol have the fault.
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
	DecoySystems:            {What: "lists members in the Systems collection that are not servers", Redfish: true},
	PartsAre501:             {What: "answers 501 for processors, storage, PCIe devices and power supplies", Redfish: true, IPMI: true},
	OldSchema:               {What: "is a service of Redfish 1.0: no Storage but SimpleStorage, no AllowableValues, LogServices under Managers only", Redfish: true},
	Unauthorized401:         {What: "forgets every session: requests with its token are refused from then on", Redfish: true, IPMI: true},
	SessionTableFull:        {What: "refuses new sessions", Redfish: true, IPMI: true},
	Busy503:                 {What: "answers 503 with Retry-After: 1; node busy over IPMI", Redfish: true, IPMI: true},
	RedirectElsewhere:       {What: "redirects every request to another host", Redfish: true},
	RebootMidCall:           {What: "executes the next command but drops its connection before it answers", Redfish: true, IPMI: true},
	ClockSkew:               {What: "has a clock that is a hundred days late", Redfish: true, IPMI: true},
	PowerIgnored:            {What: "acknowledges a power command and does nothing", Redfish: true, IPMI: true},
	BusyInTransition:        {What: "answers 409 to a power command while the power is in transition; node busy over IPMI", Redfish: true, IPMI: true},
	DropsInTransition:       {What: "acknowledges a power command while the power is in transition, and does nothing", Redfish: true, IPMI: true},
	StalePower:              {What: "reports the power state from before a power command until it takes effect, and for the same time afterwards", Redfish: true, IPMI: true},
	TransitionStates:        {What: "reports PoweringOn and PoweringOff while the power is in transition", Redfish: true},
	RedundantPowerIs4xx:     {What: "answers 400 to a power command if the server is already in that state", Redfish: true, IPMI: true},
	RedundantPowerIs5xx:     {What: "answers 500 to a power command if the server is already in that state", Redfish: true, IPMI: true},
	ShutDownFails:           {What: "answers a graceful shutdown with an error, as many do when the operating system does not respond", Redfish: true, IPMI: true},
	NoGracefulShutdown:      {What: "does not offer a graceful shutdown", Redfish: true, IPMI: true},
	RefusesBootMode:         {What: "refuses a boot override that contains the mode", Redfish: true, IPMI: true},
	IgnoresOverrideWithMode: {What: "acknowledges a boot override that contains the mode, and does nothing", Redfish: true, IPMI: true},
	IgnoresOverride:         {What: "acknowledges every boot override and does nothing", Redfish: true, IPMI: true},
	IgnoresOnce:             {What: "acknowledges an override for one boot and does nothing; continuous overrides work", Redfish: true, IPMI: true},
	OnceReadsContinuous:     {What: "reports an override for one boot as a continuous one", Redfish: true, IPMI: true},
	OverrideNeverResets:     {What: "leaves an override for one boot set", Redfish: true, IPMI: true},
	OverrideReverts:         {What: "shows the override that was set, and boots the disk", Redfish: true, IPMI: true},
	OverrideAtSettings:      {What: "accepts overrides only at the @Redfish.Settings object", Redfish: true},
	OverrideReadsInvalid:    {What: "reports boot flags as not valid when they are read back", IPMI: true},
	NoNetworkBoot:           {What: "does not offer the network as a boot target", Redfish: true},
	NeedsETag:               {What: "refuses changes without If-Match", Redfish: true},
	ETagStorm:               {What: "answers 412 to a change with any If-Match", Redfish: true},
	MediaUnderSystems:       {What: "has the virtual media under Systems, not under Managers", Redfish: true},
	MediaByPatch:            {What: "has no actions to insert and eject: the Image property is written", Redfish: true},
	NoMedia:                 {What: "has no virtual media", Redfish: true},
	EjectFails:              {What: "answers an eject with an error, and keeps the image in its drive", Redfish: true},
	MediaStaysInserted:      {What: "reports an image as inserted after its ejection; one occasion is one read of the drive", Redfish: true},
	MediaStaysStale:         {What: "reports the previous image after an insert; one occasion is one read of the drive", Redfish: true},
	MediaNotConnected:       {What: "has no Inserted, and keeps Image after an eject: ConnectedVia is NotConnected then", Redfish: true},
	MediaDecoyDrives:        {What: "lists optical drives first that answer 400 or 405 to an insert, or have no action for it", Redfish: true},
	MediaTwoDrives:          {What: "lists the virtual drives 2 and 1, and boots only from drive 1", Redfish: true},
	MediaDVDOnly:            {What: "has a virtual DVD drive and no CD drive", Redfish: true},
	MediaImageOnly:          {What: "refuses an insert with Inserted or WriteProtected", Redfish: true},
	MediaNeedsProtocol:      {What: "refuses an insert without TransferProtocolType", Redfish: true},
	MediaPlainURLs:          {What: "refuses image URLs that contain ? or =, or do not end in .iso, and quotes them", Redfish: true},
	MediaNoHTTPS:            {What: "refuses https image URLs", Redfish: true},
	MediaUnlicensed:         {What: "refuses an insert, because a licence is missing", Redfish: true},
	MediaUnreachable:        {What: "accepts an image that it cannot fetch, and its drive stays empty", Redfish: true},
	MediaSlowInsert:         {What: "answers 202 to an insert, and reports it as done once it has copied the image; one occasion is one read of the drive", Redfish: true},
	MediaRewritesURL:        {What: "reports a shortened URL of the inserted image", Redfish: true},
	InsertFails:             {What: "answers 503 to an insert, as some do while they eject another image", Redfish: true},
	IgnoresBootURI:          {What: "accepts the URI of UEFI HTTP boot and drops it", Redfish: true},
	KeepsBootURI:            {What: "keeps the URI of UEFI HTTP boot when the override is removed", Redfish: true},
	NoBootURIReadsNone:      {What: "reports the text None if there is no URI of UEFI HTTP boot", Redfish: true},
	BIOSFullCopy:            {What: "has all BIOS attributes in the settings object, not only the pending ones, and offers no apply time", Redfish: true},
	BIOSNoAttributes:        {What: "has a settings object of the BIOS without Attributes while nothing is pending", Redfish: true},
	BIOSNoSettings:          {What: "has no settings object of the BIOS: the Bios resource is written", Redfish: true},
	BIOSUnlinkedSettings:    {What: "does not link to the settings object of the BIOS, which is at SD, and refuses changes of the Bios resource", Redfish: true},
	BIOSNoRegistry:          {What: "has no attribute registry of the BIOS", Redfish: true},
	BIOSOtherRegistry:       {What: "names another version of the attribute registry than the one that it has", Redfish: true},
	BIOSLanguages:           {What: "has the attribute registry in several languages, English last", Redfish: true},
	BIOSNeedsJob:            {What: "applies staged BIOS attributes only by a job, refuses others while one is scheduled, and has Secure Boot as an attribute", Redfish: true},
	BIOSNeverApplied:        {What: "keeps staged BIOS attributes pending over every boot", Redfish: true},
	BIOSIgnored:             {What: "acknowledges a change of BIOS attributes and does nothing", Redfish: true},
	SecureBootSettings:      {What: "stages a change of Secure Boot in a settings object, and refuses changes of the resource", Redfish: true},
	SwappedGUID:             {What: "sends the system GUID in the byte order of SMBIOS", IPMI: true},
}

// faults are the active faults of a BMC. With the zero value no fault is active.
type faults struct {
	mu   sync.Mutex
	left map[Fault]int
}

// on is true while the fault is active.
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

// Misbehave activates a fault for a number of occasions: -1 for no limit, 0 to deactivate it.
func (c *core) Misbehave(fault Fault, times int) error {
	if _, ok := Faults[fault]; !ok {
		return fmt.Errorf("there is no fault %q: it is one of %v", fault, slices.Sorted(maps.Keys(Faults)))
	}
	c.faults.mu.Lock()
	defer c.faults.mu.Unlock()
	if c.faults.left == nil {
		c.faults.left = map[Fault]int{}
	}
	c.faults.left[fault] = times
	return nil
}

// Misbehaviour returns the active faults, each with the remaining occasions.
func (c *core) Misbehaviour() map[Fault]int {
	c.faults.mu.Lock()
	defer c.faults.mu.Unlock()
	on := map[Fault]int{}
	for fault, times := range c.faults.left {
		if times != 0 {
			on[fault] = times
		}
	}
	return on
}

// Loopback allows BMCs on this machine, where the emulators run.
var Loopback = bmc.AllowList{AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}}
