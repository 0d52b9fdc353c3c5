package bmctest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// biosAttribute is a BIOS attribute of an emulated server.
type biosAttribute struct {
	name, kind string
	// values are those of an enumeration. The first is the default.
	values []string
	// initial is the value of another kind of attribute.
	initial      any
	lower, upper int
	readOnly     bool
	unique       bool
	// readOnlyWhile is another attribute, and the value with which this one is read-only; empty for no such dependency.
	readOnlyWhile [2]string
	// follows is another attribute, its value, and the value that this one then gets; empty for no such dependency.
	follows [3]string
	// noReset is true for an attribute whose change needs no reset.
	noReset bool
}

// biosAttributes are the BIOS attributes of an emulated server.
var biosAttributes = []biosAttribute{
	{name: "BootMode", kind: "Enumeration", values: []string{"Uefi", "LegacyBios"}},
	{name: "WorkloadProfile", kind: "Enumeration", values: []string{"Custom", "Virtualization", "LowLatency"}},
	{name: "ProcVirtualization", kind: "Enumeration", values: []string{"Enabled", "Disabled"}},
	{
		name: "Sriov", kind: "Enumeration", values: []string{"Disabled", "Enabled"}, readOnlyWhile: [2]string{"ProcVirtualization", "Disabled"},
		follows: [3]string{"WorkloadProfile", "Virtualization", "Enabled"},
	},
	{name: "PatrolScrubHours", kind: "Integer", initial: float64(24), lower: 1, upper: 24},
	{name: "FanOffset", kind: "Integer", initial: float64(0), lower: 0, upper: 100, noReset: true},
	{name: "WakeOnLan", kind: "Boolean", initial: true},
	{name: "AssetTag", kind: "String", initial: "", upper: 32, unique: true},
	{name: "SystemModelName", kind: "String", initial: "bmctest", readOnly: true},
	{name: "SetupPassword", kind: "Password", upper: 32},
}

// biosMemory is the BIOS configuration of an emulated server.
type biosMemory struct {
	values  map[string]any
	pending map[string]any
	// job is the number of the last job, and scheduled is true until that job has run.
	job       int
	scheduled bool
}

func newBIOS() biosMemory {
	b := biosMemory{values: map[string]any{}, pending: map[string]any{}}
	for _, a := range biosAttributes {
		b.values[a.name] = a.initial
		if len(a.values) > 0 {
			b.values[a.name] = a.values[0]
		}
	}
	return b
}

// biosSetup are the BIOS attributes of an emulated server.
type biosSetup struct {
	*core

	secureState *secureBootState
	bios        biosMemory
}

// BIOS returns the current BIOS attributes.
func (b *biosSetup) BIOS() map[string]any {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.bios.values)
}

// PendingBIOS returns the BIOS attributes that are staged for the next boot.
func (b *biosSetup) PendingBIOS() map[string]any {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.bios.pending)
}

// SetBIOS changes a BIOS attribute at once, as a person does in the setup of the firmware.
func (b *biosSetup) SetBIOS(name string, value any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bios.values[name] = value
}

// StageForeignBIOS stages a BIOS attribute for the next boot, as another program does.
func (b *biosSetup) StageForeignBIOS(name string, value any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bios.pending[name] = value
}

// BIOSJobs counts the jobs for BIOS attributes that were made.
func (b *biosSetup) BIOSJobs() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bios.job
}

// biosRefusal says why the BIOS refuses an attribute, as the message ID and the text; empty if it accepts it. b.mu is held.
func (b *biosSetup) biosRefusal(name string, value any, after map[string]any) (id, message string) {
	at := slices.IndexFunc(biosAttributes, func(a biosAttribute) bool { return a.name == name })
	if at < 0 {
		return "PropertyUnknown", "There is no attribute " + name
	}
	a := biosAttributes[at]
	text, isText := value.(string)
	number, isNumber := value.(float64)
	_, isBoolean := value.(bool)
	switch {
	case a.readOnly || a.kind == "Password", a.readOnlyWhile[0] != "" && after[a.readOnlyWhile[0]] == a.readOnlyWhile[1]:
		return "PropertyNotWritable", name + " is read-only"
	case a.kind == "Enumeration" && !slices.Contains(a.values, text):
		return "PropertyValueNotInList", fmt.Sprintf("%v is no value of %s", value, name)
	case a.kind == "Boolean" && !isBoolean, a.kind == "String" && !isText, a.kind == "Integer" && !isNumber:
		return "PropertyValueTypeError", fmt.Sprintf("%v is of the wrong type for %s", value, name)
	case isNumber && (number < float64(a.lower) || number > float64(a.upper)), isText && a.upper > 0 && len(text) > a.upper:
		return "PropertyValueOutOfRange", fmt.Sprintf("%v is out of range for %s", value, name)
	default:
		return "", ""
	}
}

// stageBIOS stages attributes, and records the command.
func (b *biosSetup) stageBIOS(attributes map[string]any, atOnce bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		parts = append(parts, fmt.Sprintf("%s:%v", name, attributes[name]))
	}
	b.commands = append(b.commands, Command{Name: "BIOS=" + strings.Join(parts, ","), At: time.Now()})
	b.etag++
	switch {
	case b.faults.on(BIOSIgnored):
	case atOnce:
		maps.Copy(b.bios.values, attributes)
	default:
		maps.Copy(b.bios.pending, attributes)
	}
}

// applyBIOS applies what is staged when the server boots. b.mu is held.
func (b *biosSetup) applyBIOS() {
	if b.faults.on(BIOSNeverApplied) || b.faults.on(BIOSNeedsJob) && !b.bios.scheduled {
		return
	}
	b.bios.scheduled = false
	for name, value := range b.bios.pending {
		if name == dellSecureBoot {
			b.secureState.secure.Enabled = value == "Enabled"
		} else {
			b.bios.values[name] = value
		}
	}
	for _, a := range biosAttributes {
		_, isPending := b.bios.pending[a.follows[0]]
		if isPending && b.bios.values[a.follows[0]] == a.follows[1] {
			b.bios.values[a.name] = a.follows[2]
		}
	}
	clear(b.bios.pending)
}

// applyStaged applies what is staged of BIOS and Secure Boot when the server boots. b.mu is held.
func (b *biosSetup) applyStaged() {
	b.applyBIOS()
	secure := &b.secureState.secure
	secure.Enabled, secure.Pending = secure.Next(), nil
	secure.Active = secure.Enabled
}

// secureBootState is Secure Boot of an emulated server.
type secureBootState struct {
	*core

	secure bmc.SecureBoot
}

// SecureBoot returns the state of Secure Boot.
func (s *secureBootState) SecureBoot() bmc.SecureBoot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.secure
}

// setSecureBoot enables or disables Secure Boot from the next boot on.
func (s *secureBootState) setSecureBoot(enabled bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commands = append(s.commands, Command{Name: "SecureBoot=" + map[bool]string{true: "On", false: "Off"}[enabled], At: time.Now()})
	switch {
	case !s.faults.on(SecureBootSettings):
		s.secure.Enabled = enabled
	case s.secure.Enabled == enabled:
		s.secure.Pending = nil
	default:
		s.secure.Pending = &enabled
	}
}

// dellSecureBoot is the attribute by which a BMC with BIOSNeedsJob changes Secure Boot.
const dellSecureBoot = "SecureBoot"
