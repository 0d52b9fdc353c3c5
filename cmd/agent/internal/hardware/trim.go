package hardware

import (
	"encoding/json"
	"fmt"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent/printable"
)

// reduction leaves a part of an inventory out.
type reduction struct {
	what  string
	apply func(inv *wire.Inspection)
}

// reductions are what Trim leaves out, in this order: first texts that only people read, then details, then lists. After the last of them no list is left but
// four problems, and no text is longer than 64 bytes, so the rest fits.
var reductions = []reduction{
	{"the descriptions of LLDP neighbours", neighbours(func(n *wire.InspectedNeighbor) { n.SystemDescription = "" })},
	{"the descriptions of switch ports", neighbours(func(n *wire.InspectedNeighbor) { n.PortDescription, n.ManagementAddress = "", "" })},
	{"manufacturers and part numbers of memory modules", each(dimms, func(d *wire.InspectedDIMM) { d.Manufacturer, d.PartNumber = "", "" })},
	{"memory modules", func(inv *wire.Inspection) { inv.Memory.DIMMs = nil }},
	{"names of firmware versions", func(inv *wire.Inspection) {
		each(nics, func(n *wire.InspectedNIC) { n.FirmwareVersion = "" })(inv)
		each(disks, func(d *wire.InspectedDisk) { d.FirmwareVersion = "" })(inv)
	}},
	{"paths and holders of disks", each(disks, func(d *wire.InspectedDisk) { d.ByPath, d.HCTL, d.Holders = "", "", nil })},
	{"signatures of disks", each(disks, func(d *wire.InspectedDisk) { d.Signatures = nil })},
	{"problems beyond 16", func(inv *wire.Inspection) { inv.Problems = inv.Problems[:min(len(inv.Problems), 16)] }},
	{"texts beyond 64 bytes", func(inv *wire.Inspection) { printable.Clean(inv, shortText, maxList) }},
	{"LLDP neighbours", each(nics, func(n *wire.InspectedNIC) { n.Neighbor = nil })},
	{"features of the processor", func(inv *wire.Inspection) { inv.CPU.Features = nil }},
	{"erase methods of disks", each(disks, func(d *wire.InspectedDisk) { d.EraseMethods = nil })},
	{"GPUs and other devices", func(inv *wire.Inspection) { inv.Devices = inv.Devices[:min(len(inv.Devices), 16)] }},
	{"problems beyond 4", func(inv *wire.Inspection) { inv.Problems = inv.Problems[:min(len(inv.Problems), 4)] }},
	{"vendors of disks", each(disks, func(d *wire.InspectedDisk) { d.Vendor = "" })},
	{"details of network interfaces", each(nics, func(n *wire.InspectedNIC) { n.Vendor, n.Device, n.Driver, n.NUMANode = "", "", "", nil })},
	{"half of the disks", halve(func(inv *wire.Inspection) *[]wire.InspectedDisk { return &inv.Disks })},
	{"half of the network interfaces", halve(func(inv *wire.Inspection) *[]wire.InspectedNIC { return &inv.NICs })},
	{"three quarters of the disks", halve(func(inv *wire.Inspection) *[]wire.InspectedDisk { return &inv.Disks })},
	{"three quarters of the network interfaces", halve(func(inv *wire.Inspection) *[]wire.InspectedNIC { return &inv.NICs })},
	{"disks", func(inv *wire.Inspection) { inv.Disks = nil }},
	{"network interfaces and devices", func(inv *wire.Inspection) { inv.NICs, inv.Devices = nil, nil }},
}

const (
	// maxList is the maximum length of a list in an inventory. It bounds the work of Trim.
	maxList = 512
	// shortText is the maximum length of strings if an inventory does not fit.
	shortText = 64
	// reserved is the space for the sentence in Problems that says what was left out.
	reserved = 1024
)

// Trim returns an inventory of at most agent.MaxInventory bytes as JSON. It leaves out parts in the order of reductions until the rest fits, and says so in
// Problems. Strings are valid UTF-8 of at most 256 bytes. The argument is not changed.
func Trim(inv wire.Inspection) wire.Inspection {
	out, err := copied(inv)
	if err != nil {
		return wire.Inspection{Problems: []string{printable.Line("the inventory cannot be encoded: "+err.Error(), maxText)}}
	}
	printable.Clean(&out, maxText, maxList)
	if size(out) <= agent.MaxInventory {
		return out
	}
	left := reductions[0].what
	for i, r := range reductions {
		if i > 0 {
			left = fmt.Sprintf("all from %s to %s", reductions[0].what, r.what)
		}
		if r.apply(&out); size(out) <= agent.MaxInventory-reserved {
			break
		}
	}
	out.Problems = append([]string{fmt.Sprintf("the inventory has more than %d bytes; left out: %s", agent.MaxInventory, left)}, out.Problems...)
	return out
}

// copied returns a deep copy. JSON makes strings valid UTF-8, too.
func copied(inv wire.Inspection) (wire.Inspection, error) {
	var out wire.Inspection
	content, err := json.Marshal(inv)
	if err != nil {
		return out, err
	}
	return out, json.Unmarshal(content, &out)
}

func size(inv wire.Inspection) int {
	content, err := json.Marshal(inv)
	if err != nil {
		return agent.MaxInventory + 1 // copied has encoded a larger one before
	}
	return len(content)
}

func disks(inv *wire.Inspection) []wire.InspectedDisk { return inv.Disks }
func nics(inv *wire.Inspection) []wire.InspectedNIC   { return inv.NICs }
func dimms(inv *wire.Inspection) []wire.InspectedDIMM { return inv.Memory.DIMMs }

// each returns a function that changes each element of a list.
func each[T any](list func(*wire.Inspection) []T, change func(*T)) func(*wire.Inspection) {
	return func(inv *wire.Inspection) {
		l := list(inv)
		for i := range l {
			change(&l[i])
		}
	}
}

func neighbours(change func(*wire.InspectedNeighbor)) func(*wire.Inspection) {
	return each(nics, func(n *wire.InspectedNIC) {
		if n.Neighbor != nil {
			change(n.Neighbor)
		}
	})
}

// halve returns a function that removes the second half of a list.
func halve[T any](list func(*wire.Inspection) *[]T) func(*wire.Inspection) {
	return func(inv *wire.Inspection) {
		l := list(inv)
		*l = (*l)[:len(*l)/2]
	}
}
