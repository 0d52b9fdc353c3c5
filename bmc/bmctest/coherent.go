package bmctest

import (
	"fmt"
	"slices"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// Coherent returns an error if the facts of an inventory do not match its content. The content of a fact that is TimedOut may be incomplete.
func Coherent(i *bmc.Inventory) error {
	there := map[bmc.FactName]bool{
		bmc.FactCPU: i.CPUSockets > 0, bmc.FactMemory: i.MemoryMiB > 0, bmc.FactDisks: len(i.Disks) > 0, bmc.FactNICs: len(i.NICs) > 0,
		bmc.FactDevices: len(i.Devices) > 0, bmc.FactPowerSupplies: len(i.PowerSupplies) > 0, bmc.FactSerialNumber: i.SerialNumber != "",
		bmc.FactSystemUUID: i.SystemUUID != "", bmc.FactFirmwareVersion: i.FirmwareVersion != "", bmc.FactBMCFirmwareVersion: i.BMCFirmwareVersion != "",
	}
	for _, name := range bmc.FactNames {
		fact := i.Fact(name)
		switch {
		case !slices.ContainsFunc(i.Facts, func(f bmc.Fact) bool { return f.Name == name }):
			return fmt.Errorf("the facts do not have %s", name)
		case fact.TimedOut:
		case (fact.State == bmc.FactKnown) != there[name]:
			return fmt.Errorf("fact %s is %s, but its presence in the inventory is %t", name, fact.State, there[name])
		case fact.State == bmc.FactKnown && fact.Source == "":
			return fmt.Errorf("fact %s is Known and has no source", name)
		}
	}
	return nil
}
