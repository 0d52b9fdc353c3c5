package bmc

import "slices"

// FactName names a part of an inventory.
type FactName string

const (
	FactCPU                FactName = "cpu"
	FactMemory             FactName = "memory"
	FactDisks              FactName = "disks"
	FactNICs               FactName = "nics"
	FactDevices            FactName = "devices"
	FactPowerSupplies      FactName = "powerSupplies"
	FactSerialNumber       FactName = "serialNumber"
	FactSystemUUID         FactName = "systemUUID"
	FactFirmwareVersion    FactName = "firmwareVersion"
	FactBMCFirmwareVersion FactName = "bmcFirmwareVersion"
)

// FactNames lists the facts of every inventory, in the order in which Inventory.Facts has them.
var FactNames = []FactName{
	FactCPU, FactMemory, FactDisks, FactNICs, FactDevices, FactPowerSupplies, FactSerialNumber, FactSystemUUID, FactFirmwareVersion,
	FactBMCFirmwareVersion,
}

// FactState is the state of a fact.
type FactState string

const (
	// FactKnown means that the BMC reports it.
	FactKnown FactState = "Known"
	// FactAbsent means that the BMC reports no such part: every bay is empty.
	FactAbsent FactState = "Absent"
	// FactUnknown means that the BMC does not offer it, that it could not be read, or that the inspection timed out. Lists may be
	// incomplete.
	FactUnknown FactState = "Unknown"
)

// Fact describes whether a part of an inventory is known.
type Fact struct {
	Name  FactName
	State FactState
	// Source is the place where it is read: a Redfish path, "FRU 0", "Get System GUID". It is empty if there is no such place.
	Source string
	// Message is the reason why a fact is unknown, or a remark on a known one.
	Message string
	// TimedOut is true for an unknown fact that a later inspection may find.
	TimedOut bool
}

// Fact returns the fact of this name. A fact that is not set is Unknown.
func (i *Inventory) Fact(name FactName) Fact {
	if at := slices.IndexFunc(i.Facts, func(f Fact) bool { return f.Name == name }); at >= 0 {
		return i.Facts[at]
	}
	return Fact{Name: name, State: FactUnknown}
}

// SetFact sets or replaces a fact, and keeps the order of FactNames.
func (i *Inventory) SetFact(fact Fact) {
	i.Facts = slices.DeleteFunc(i.Facts, func(f Fact) bool { return f.Name == fact.Name })
	at := slices.IndexFunc(i.Facts, func(f Fact) bool { return slices.Index(FactNames, f.Name) > slices.Index(FactNames, fact.Name) })
	if at < 0 {
		at = len(i.Facts)
	}
	i.Facts = slices.Insert(i.Facts, at, fact)
}

// SetNotOffered sets each fact that is not set to Unknown, because the protocol does not offer it.
func (i *Inventory) SetNotOffered(message string) {
	for _, name := range FactNames {
		if !slices.ContainsFunc(i.Facts, func(f Fact) bool { return f.Name == name }) {
			i.SetFact(Fact{Name: name, State: FactUnknown, Message: message})
		}
	}
}

// Partial is true if the inspection timed out before everything was read.
func (i *Inventory) Partial() bool {
	return slices.ContainsFunc(i.Facts, func(f Fact) bool { return f.TimedOut })
}
