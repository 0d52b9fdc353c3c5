package redfish

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// Inspect reads the inventory: what the BMC gives, and what it does not is named in Missing.
func (c *conn) Inspect(ctx context.Context) (bmc.Inventory, error) {
	if err := c.refresh(ctx); err != nil {
		return bmc.Inventory{}, err
	}
	s := c.system
	processors := c.members(ctx, s.link("Processors"))
	i := bmc.Inventory{
		Manufacturer: s.text("Manufacturer"), Model: s.text("Model"), SerialNumber: s.text("SerialNumber"),
		SystemUUID: strings.ToLower(s.text("UUID")), FirmwareVersion: s.text("BiosVersion"), Health: healthOf(s),
		BMCFirmwareVersion: c.readManager(ctx).text("FirmwareVersion"),
	}
	cpus(&i, s, processors)
	if i.MemoryMiB = memoryMiB(s); i.MemoryMiB == 0 {
		for _, m := range c.members(ctx, s.link("Memory")) {
			i.MemoryMiB += m.count("CapacityMiB")
		}
	}
	i.NICs, i.Disks = c.nics(ctx), c.disks(ctx)
	i.Devices = append(gpus(processors), c.devices(ctx)...)
	i.PowerSupplies = c.powerSupplies(ctx)
	for _, part := range []struct {
		name   string
		absent bool
	}{
		{"cpu", i.CPUThreads == 0},
		{"memory", i.MemoryMiB == 0},
		{"nics", len(i.NICs) == 0},
		{"disks", len(i.Disks) == 0},
		{"devices", len(i.Devices) == 0},
		{"powerSupplies", len(i.PowerSupplies) == 0},
		{"systemUUID", i.SystemUUID == ""},
		{"bmcFirmwareVersion", i.BMCFirmwareVersion == ""},
	} {
		if part.absent {
			i.Missing = append(i.Missing, part.name)
		}
	}
	// A part that did not come in time is not missing.
	if err := c.ended(ctx); err != nil {
		return bmc.Inventory{}, wrap("Inspect", err)
	}
	return i, nil
}

// cpus reads the summary of the processors, and what it lacks from the processors themselves.
func cpus(i *bmc.Inventory, system resource, processors []resource) {
	summary := system.object("ProcessorSummary")
	i.CPUModel, i.CPUSockets = summary.text("Model"), bounded32(summary.count("Count"))
	i.CPUCores, i.CPUThreads = bounded32(summary.count("CoreCount")), bounded32(summary.count("LogicalProcessorCount"))
	var sockets, cores, threads int64
	for _, p := range processors {
		if kind := p.text("ProcessorType"); kind != "" && kind != "CPU" || strings.EqualFold(p.text("Status", "State"), "Absent") {
			continue
		}
		sockets, cores, threads = sockets+1, cores+p.count("TotalCores"), threads+p.count("TotalThreads")
		i.CPUModel = cmp.Or(i.CPUModel, p.text("Model"))
		i.Architecture = cmp.Or(i.Architecture, architectureOf(p))
	}
	i.CPUSockets, i.CPUCores = cmp.Or(i.CPUSockets, bounded32(sockets)), cmp.Or(i.CPUCores, bounded32(cores))
	i.CPUThreads = max(cmp.Or(i.CPUThreads, bounded32(threads)), i.CPUCores)
}

func bounded32(n int64) int { return int(min(n, 1<<20)) }

func architectureOf(processor resource) string {
	set := strings.ToLower(processor.text("InstructionSet") + " " + processor.text("ProcessorArchitecture"))
	switch {
	case strings.Contains(set, "x86"):
		return "amd64"
	case strings.Contains(set, "arm"):
		return "arm64"
	default:
		return ""
	}
}

func memoryMiB(system resource) int64 {
	gib, _ := system.number("MemorySummary", "TotalSystemMemoryGiB")
	if gib <= 0 || gib > 1<<40 {
		return 0
	}
	return int64(gib * 1024)
}

// nics reads the system's Ethernet interfaces and, where there are none, the functions of its network adapters.
func (c *conn) nics(ctx context.Context) []bmc.NIC {
	var nics []bmc.NIC
	for _, r := range c.members(ctx, c.system.link("EthernetInterfaces")) {
		nics = appendNIC(nics, r, cmp.Or(r.text("PermanentMACAddress"), r.text("MACAddress")))
	}
	if len(nics) > 0 {
		return nics
	}
	for _, adapter := range c.members(ctx, c.system.link("NetworkInterfaces")) {
		for _, f := range c.members(ctx, adapter.link("NetworkDeviceFunctions")) {
			nics = appendNIC(nics, f, cmp.Or(f.text("Ethernet", "PermanentMACAddress"), f.text("Ethernet", "MACAddress")))
		}
	}
	return nics
}

func appendNIC(nics []bmc.NIC, r resource, mac string) []bmc.NIC {
	mac = macOf(mac)
	if mac == "" || slices.ContainsFunc(nics, func(n bmc.NIC) bool { return n.MACAddress == mac }) {
		return nics
	}
	return append(nics, bmc.NIC{
		Name: r.id(), MACAddress: mac, SpeedMbps: bounded32(r.count("SpeedMbps")), LinkUp: strings.EqualFold(r.text("LinkStatus"), "LinkUp"),
	})
}

// macOf brings a MAC address to lower case with colons: BMCs write it with dashes, with dots, and without anything. "" for what is none.
func macOf(text string) string {
	digits := strings.ToLower(strings.NewReplacer(":", "", "-", "", ".", "").Replace(text))
	if len(digits) != 12 || strings.Trim(digits, "0123456789abcdef") != "" || digits == "000000000000" {
		return ""
	}
	parts := make([]string, 6)
	for i := range parts {
		parts[i] = digits[2*i : 2*i+2]
	}
	return strings.Join(parts, ":")
}
