package hardware

import (
	"encoding/json"
	"fmt"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent/printable"
)

// reduction leaves a part of an inventory out.
type reduction struct {
	what  string
	apply func(inv *agent.Inventory)
}

// reductions are what Trim leaves out, in this order: first texts that only people read, then details, then lists. After the last of them no list is left but
// four problems, and no text is longer than 64 bytes, so the rest fits.
var reductions = []reduction{
	{"the descriptions of LLDP neighbours", neighbours(func(n *agent.Neighbor) { n.SystemDescription = "" })},
	{"the descriptions of switch ports", neighbours(func(n *agent.Neighbor) { n.PortDescription, n.ManagementAddress = "", "" })},
	{"manufacturers and part numbers of memory modules", each(dimms, func(d *agent.DIMM) { d.Manufacturer, d.PartNumber = "", "" })},
	{"memory modules", func(inv *agent.Inventory) { inv.Memory.DIMMs = nil }},
	{"names of firmware versions", func(inv *agent.Inventory) {
		each(nics, func(n *agent.NIC) { n.Firmware = "" })(inv)
		each(disks, func(d *agent.Disk) { d.Firmware = "" })(inv)
	}},
	{"paths and holders of disks", each(disks, func(d *agent.Disk) { d.ByPath, d.HCTL, d.Holders = "", "", nil })},
	{"signatures of disks", each(disks, func(d *agent.Disk) { d.Signatures = nil })},
	{"problems beyond 16", func(inv *agent.Inventory) { inv.Problems = inv.Problems[:min(len(inv.Problems), 16)] }},
	{"texts beyond 64 bytes", func(inv *agent.Inventory) { printable.Clean(inv, shortText, maxList) }},
	{"LLDP neighbours", each(nics, func(n *agent.NIC) { n.LLDP = nil })},
	{"features of the processor", func(inv *agent.Inventory) { inv.CPU.Features = nil }},
	{"erase methods of disks", each(disks, func(d *agent.Disk) { d.Erase = nil })},
	{"GPUs and other devices", func(inv *agent.Inventory) { inv.Devices = inv.Devices[:min(len(inv.Devices), 16)] }},
	{"problems beyond 4", func(inv *agent.Inventory) { inv.Problems = inv.Problems[:min(len(inv.Problems), 4)] }},
	{"vendors of disks", each(disks, func(d *agent.Disk) { d.Vendor = "" })},
	{"details of network interfaces", each(nics, func(n *agent.NIC) { n.Vendor, n.Device, n.Driver, n.NUMANode = "", "", "", nil })},
	{"half of the disks", halve(func(inv *agent.Inventory) *[]agent.Disk { return &inv.Disks })},
	{"half of the network interfaces", halve(func(inv *agent.Inventory) *[]agent.NIC { return &inv.NICs })},
	{"three quarters of the disks", halve(func(inv *agent.Inventory) *[]agent.Disk { return &inv.Disks })},
	{"three quarters of the network interfaces", halve(func(inv *agent.Inventory) *[]agent.NIC { return &inv.NICs })},
	{"disks", func(inv *agent.Inventory) { inv.Disks = nil }},
	{"network interfaces and devices", func(inv *agent.Inventory) { inv.NICs, inv.Devices = nil, nil }},
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
func Trim(inv agent.Inventory) agent.Inventory {
	out, err := copied(inv)
	if err != nil {
		return agent.Inventory{Problems: []string{printable.Line("the inventory cannot be encoded: "+err.Error(), maxText)}}
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
func copied(inv agent.Inventory) (agent.Inventory, error) {
	var out agent.Inventory
	content, err := json.Marshal(inv)
	if err != nil {
		return out, err
	}
	return out, json.Unmarshal(content, &out)
}

func size(inv agent.Inventory) int {
	content, err := json.Marshal(inv)
	if err != nil {
		return agent.MaxInventory + 1 // copied has encoded a larger one before
	}
	return len(content)
}

func disks(inv *agent.Inventory) []agent.Disk { return inv.Disks }
func nics(inv *agent.Inventory) []agent.NIC   { return inv.NICs }
func dimms(inv *agent.Inventory) []agent.DIMM { return inv.Memory.DIMMs }

// each returns a function that changes each element of a list.
func each[T any](list func(*agent.Inventory) []T, change func(*T)) func(*agent.Inventory) {
	return func(inv *agent.Inventory) {
		l := list(inv)
		for i := range l {
			change(&l[i])
		}
	}
}

func neighbours(change func(*agent.Neighbor)) func(*agent.Inventory) {
	return each(nics, func(n *agent.NIC) {
		if n.LLDP != nil {
			change(n.LLDP)
		}
	})
}

// halve returns a function that removes the second half of a list.
func halve[T any](list func(*agent.Inventory) *[]T) func(*agent.Inventory) {
	return func(inv *agent.Inventory) {
		l := list(inv)
		*l = (*l)[:len(*l)/2]
	}
}
