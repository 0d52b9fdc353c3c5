package host

import (
	"context"
	"slices"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// inspect reads what the BMC can do and what the server is made of.
func (r *Reconciler) inspect(ctx context.Context, j job, c bmc.Client) error {
	description, err := c.Describe(ctx)
	if err != nil {
		return err
	}
	inventory, err := c.Inspect(ctx)
	if err != nil {
		return err
	}
	hardware := hardwareOf(inventory)
	status := &v1alpha1.BMCStatus{Protocol: description.Protocol, Quirks: description.Quirks}
	for _, capability := range description.Capabilities {
		status.Capabilities = append(status.Capabilities, string(capability))
	}
	r.learn(j, func(h *hostFacts) {
		h.bmc.Inspected, h.bmc.Lacks, h.hardware, h.description = true, lacks(description.Capabilities), hardware, status
	})
	return nil
}

// lacks lists what a boot over the network needs and the BMC does not offer. Either kind of network boot will do.
func lacks(can []bmc.Capability) []string {
	var missing []string
	for _, needed := range []bmc.Capability{bmc.CanPowerOn, bmc.CanForceOff, bmc.CanBootPXE} {
		if !slices.Contains(can, needed) && (needed != bmc.CanBootPXE || !slices.Contains(can, bmc.CanBootHTTP)) {
			missing = append(missing, string(needed))
		}
	}
	return missing
}

// mergeBMC returns what is known of a BMC: what was learned since this process started and, where that is nothing, what the
// status says.
func mergeBMC(status *v1alpha1.BMCStatus, learned hostFacts) *v1alpha1.BMCStatus {
	merged := status.DeepCopy()
	if merged == nil {
		merged = &v1alpha1.BMCStatus{}
	}
	override := merged.BootOverride
	if learned.description != nil {
		merged = learned.description.DeepCopy()
	}
	merged.BootOverride = override
	if learned.override != nil {
		merged.BootOverride = learned.override.DeepCopy()
	}
	return merged
}

func hardwareOf(i bmc.Inventory) *v1alpha1.Hardware {
	hardware := &v1alpha1.Hardware{
		Manufacturer: i.Manufacturer, Model: i.Model, SerialNumber: i.SerialNumber, SystemUUID: i.SystemUUID,
		FirmwareVersion: i.FirmwareVersion, BMCFirmwareVersion: i.BMCFirmwareVersion, Architecture: i.Architecture, Health: string(i.Health),
		CPU:       v1alpha1.CPU{Model: i.CPUModel, Sockets: int32(i.CPUSockets), Threads: int32(i.CPUThreads)}, //nolint:gosec // the drivers bound them
		MemoryMiB: i.MemoryMiB, Missing: i.Missing,
	}
	for _, d := range i.Disks {
		hardware.Disks = append(hardware.Disks, v1alpha1.Disk{
			Name: d.Name, Model: d.Model, SerialNumber: d.SerialNumber, WWN: d.WWN, SizeGiB: d.SizeBytes >> 30, Rotational: d.Rotational, Health: string(d.Health),
		})
	}
	for _, n := range i.NICs {
		hardware.NICs = append(hardware.NICs, v1alpha1.NIC{
			Name: n.Name, MACAddress: n.MACAddress, SpeedMbps: int32(n.SpeedMbps), LinkUp: n.LinkUp, //nolint:gosec // the drivers bound it
		})
	}
	for _, d := range i.Devices {
		hardware.Devices = append(hardware.Devices, v1alpha1.Device{
			Class: d.Class, Name: d.Name, Manufacturer: d.Manufacturer, Model: d.Model, SerialNumber: d.Serial, FirmwareVersion: d.Firmware, Health: string(d.Health),
		})
	}
	for _, p := range i.PowerSupplies {
		hardware.PowerSupplies = append(hardware.PowerSupplies, v1alpha1.PowerSupply{
			Name: p.Name, Model: p.Model, Watts: int32(p.Watts), Health: string(p.Health), //nolint:gosec // the drivers bound it
		})
	}
	return hardware
}
