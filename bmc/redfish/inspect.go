package redfish

import (
	"context"
	"strings"

	"github.com/stmcginnis/gofish/schemas"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// Inspect reads the inventory.
func (c *conn) Inspect(ctx context.Context) (bmc.Inventory, error) {
	if err := c.refresh(); err != nil {
		return bmc.Inventory{}, err
	}
	s := c.system
	inventory := bmc.Inventory{
		Manufacturer: s.Manufacturer, Model: s.Model, SerialNumber: s.SerialNumber, SystemUUID: strings.ToLower(s.UUID),
		FirmwareVersion: s.BiosVersion,
		CPUModel:        s.ProcessorSummary.Model, CPUSockets: intOf(s.ProcessorSummary.Count),
		CPUThreads: max(intOf(s.ProcessorSummary.LogicalProcessorCount), intOf(s.ProcessorSummary.CoreCount)),
	}
	if gib := s.MemorySummary.TotalSystemMemoryGiB; gib != nil {
		inventory.MemoryMiB = int64(*gib * 1024)
	}
	missing := func(part string, absent bool) {
		if absent {
			inventory.Missing = append(inventory.Missing, part)
		}
	}
	missing("cpu", inventory.CPUThreads == 0)
	missing("memory", inventory.MemoryMiB == 0)
	inventory.NICs = c.nics()
	missing("nics", len(inventory.NICs) == 0)
	inventory.Disks = c.disks()
	missing("disks", len(inventory.Disks) == 0)
	inventory.BMCFirmwareVersion = c.firmware()
	missing("bmcFirmwareVersion", inventory.BMCFirmwareVersion == "")
	// A part that did not come in time is not missing.
	if err := ctx.Err(); err != nil {
		return bmc.Inventory{}, wrap("Inspect", err)
	}
	return inventory, nil
}

func intOf(n *uint) int {
	if n == nil {
		return 0
	}
	return int(min(*n, 1<<20))
}

// The parts below are read as far as the BMC gives them: gofish returns what it could read beside an error.

func (c *conn) nics() []bmc.NIC {
	interfaces, _ := c.system.EthernetInterfaces()
	var nics []bmc.NIC
	for _, i := range interfaces {
		mac := i.PermanentMACAddress
		if mac == "" {
			mac = i.MACAddress
		}
		nics = append(nics, bmc.NIC{Name: i.ID, MACAddress: strings.ToLower(strings.ReplaceAll(mac, "-", ":")), LinkUp: i.LinkStatus == schemas.LinkUpLinkStatus})
	}
	return nics
}

func (c *conn) disks() []bmc.Disk {
	var disks []bmc.Disk
	controllers, _ := c.system.Storage()
	for _, controller := range controllers {
		drives, _ := controller.Drives()
		for _, d := range drives {
			disk := bmc.Disk{Name: d.ID, Model: d.Model, SerialNumber: d.SerialNumber, Rotational: d.MediaType == schemas.HDDMediaType}
			if d.CapacityBytes != nil {
				disk.SizeBytes = int64(*d.CapacityBytes)
			}
			disks = append(disks, disk)
		}
	}
	if len(disks) > 0 {
		return disks
	}
	simple, _ := c.system.SimpleStorage()
	for _, controller := range simple {
		for _, d := range controller.Devices {
			disk := bmc.Disk{Name: d.Name, Model: d.Model}
			if d.CapacityBytes != nil {
				disk.SizeBytes = int64(*d.CapacityBytes) //nolint:gosec // no drive has 8 EiB
			}
			disks = append(disks, disk)
		}
	}
	return disks
}

func (c *conn) firmware() string {
	managers, _ := c.system.ManagedBy()
	for _, manager := range managers {
		if manager.FirmwareVersion != "" {
			return manager.FirmwareVersion
		}
	}
	return ""
}
