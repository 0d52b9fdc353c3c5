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

// BIOS returns the current BIOS attributes.
func (m *Machine) BIOS() map[string]any {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.bios.values)
}

// PendingBIOS returns the BIOS attributes that are staged for the next boot.
func (m *Machine) PendingBIOS() map[string]any {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.bios.pending)
}

// SetBIOS changes a BIOS attribute at once, as a person does in the setup of the firmware.
func (m *Machine) SetBIOS(name string, value any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.bios.values[name] = value
}

// StageForeignBIOS stages a BIOS attribute for the next boot, as another program does.
func (m *Machine) StageForeignBIOS(name string, value any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.bios.pending[name] = value
}

// BIOSJobs counts the jobs for BIOS attributes that were made.
func (m *Machine) BIOSJobs() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bios.job
}

// biosRefusal says why the BIOS refuses an attribute, as the message ID and the text; empty if it accepts it. m.mu is held.
func (m *Machine) biosRefusal(name string, value any, after map[string]any) (id, message string) {
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
func (m *Machine) stageBIOS(attributes map[string]any, atOnce bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		parts = append(parts, fmt.Sprintf("%s:%v", name, attributes[name]))
	}
	m.commands = append(m.commands, Command{Name: "BIOS=" + strings.Join(parts, ","), At: time.Now()})
	m.etag++
	switch {
	case m.faults.on(BIOSIgnored):
	case atOnce:
		maps.Copy(m.bios.values, attributes)
	default:
		maps.Copy(m.bios.pending, attributes)
	}
}

// applyBIOS applies what is staged when the server boots. m.mu is held.
func (m *Machine) applyBIOS() {
	if m.faults.on(BIOSNeverApplied) || m.faults.on(BIOSNeedsJob) && !m.bios.scheduled {
		return
	}
	m.bios.scheduled = false
	for name, value := range m.bios.pending {
		if name == dellSecureBoot {
			m.secure.Enabled = value == "Enabled"
		} else {
			m.bios.values[name] = value
		}
	}
	for _, a := range biosAttributes {
		_, isPending := m.bios.pending[a.follows[0]]
		if isPending && m.bios.values[a.follows[0]] == a.follows[1] {
			m.bios.values[a.name] = a.follows[2]
		}
	}
	clear(m.bios.pending)
}

// SecureBoot returns the state of Secure Boot.
func (m *Machine) SecureBoot() bmc.SecureBoot {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.secure
}

// setSecureBoot enables or disables Secure Boot from the next boot on.
func (m *Machine) setSecureBoot(enabled bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.commands = append(m.commands, Command{Name: "SecureBoot=" + map[bool]string{true: "On", false: "Off"}[enabled], At: time.Now()})
	switch {
	case !m.faults.on(SecureBootSettings):
		m.secure.Enabled = enabled
	case m.secure.Enabled == enabled:
		m.secure.Pending = nil
	default:
		m.secure.Pending = &enabled
	}
}

// dellSecureBoot is the attribute by which a BMC with BIOSNeedsJob changes Secure Boot.
const dellSecureBoot = "SecureBoot"
