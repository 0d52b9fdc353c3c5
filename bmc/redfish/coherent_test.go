package redfish

import (
	"fmt"
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
)

var loopback = bmctest.Loopback

// coherent checks the invariants of every inventory.
func coherent(i *bmc.Inventory) error {
	if err := bmctest.Coherent(i); err != nil {
		return err
	}
	if i.CPUSockets < 0 || i.CPUCores < 0 || i.CPUThreads < 0 || i.MemoryMiB < 0 || i.CPUSockets > 1<<20 || i.MemoryMiB > 1<<50 {
		return fmt.Errorf("absurd numbers: %d sockets, %d cores, %d threads, %d MiB", i.CPUSockets, i.CPUCores, i.CPUThreads, i.MemoryMiB)
	}
	if i.SystemUUID != strings.ToLower(i.SystemUUID) {
		return fmt.Errorf("the UUID %s is not in lower case", i.SystemUUID)
	}
	return coherentParts(i)
}

func coherentParts(i *bmc.Inventory) error {
	seen := map[string]bool{}
	twice := func(kind, identity string) bool {
		was := identity != "" && seen[kind+identity]
		seen[kind+identity] = true
		return was
	}
	for _, n := range i.NICs {
		if twice("MAC address", n.MACAddress) || len(n.MACAddress) != 17 || n.SpeedMbps < 0 {
			return fmt.Errorf("the NIC %+v", n)
		}
	}
	for _, d := range i.Disks {
		if twice("disk", d.SerialNumber) || d.SizeBytes < 0 {
			return fmt.Errorf("the disk %+v", d)
		}
	}
	for _, d := range i.Devices {
		if d.Serial != "" && twice("device", d.Serial+" "+d.Name) { // several GPUs of one board have its serial number
			return fmt.Errorf("the device %+v", d)
		}
	}
	for _, d := range i.DIMMs {
		if d.SizeMiB <= 0 {
			return fmt.Errorf("the DIMM %+v", d)
		}
	}
	for _, p := range i.PowerSupplies {
		if p.Watts < 0 {
			return fmt.Errorf("the power supply %+v", p)
		}
	}
	return nil
}
