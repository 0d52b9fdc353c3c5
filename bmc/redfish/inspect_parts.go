package redfish

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// disks reads the drives of the system's storage and, in services older than Redfish 1.4, its simple storage.
func (c *conn) disks(ctx context.Context) []bmc.Disk {
	var disks []bmc.Disk
	for _, storage := range c.members(ctx, c.system.link("Storage")) {
		for _, d := range c.all(ctx, storage.links("Drives")) {
			if strings.EqualFold(d.text("Status", "State"), "Absent") {
				continue
			}
			disks = append(disks, bmc.Disk{
				Name: d.id(), Model: d.text("Model"), SerialNumber: d.text("SerialNumber"), WWN: wwnOf(d), SizeBytes: d.count("CapacityBytes"),
				Rotational: strings.EqualFold(d.text("MediaType"), "HDD"), Health: healthOf(d),
			})
		}
	}
	if len(disks) > 0 {
		return disks
	}
	for _, storage := range c.members(ctx, c.system.link("SimpleStorage")) {
		for _, d := range storage.list("Devices") {
			disks = append(disks, bmc.Disk{Name: d.text("Name"), Model: d.text("Model"), SizeBytes: d.count("CapacityBytes"), Health: healthOf(d)})
		}
	}
	return disks
}

// wwnOf returns the World Wide Name of a drive, among its durable names (DSP0268, Resource.Identifier).
func wwnOf(drive resource) string {
	for _, identifier := range drive.list("Identifiers") {
		format := identifier.text("DurableNameFormat")
		if format == "NAA" || format == "EUI" {
			name := strings.ToLower(identifier.text("DurableName"))
			for _, prefix := range []string{"0x", "naa.", "eui."} {
				name = strings.TrimPrefix(name, prefix)
			}
			return strings.NewReplacer(":", "", "-", "", " ", "").Replace(name)
		}
	}
	return ""
}

const classGPU = "GPU"

// gpus are among the processors in newer services.
func gpus(processors []resource) []bmc.Device {
	var devices []bmc.Device
	for _, p := range processors {
		if strings.EqualFold(p.text("ProcessorType"), classGPU) {
			devices = append(devices, bmc.Device{
				Class: classGPU, Name: p.id(), Manufacturer: p.text("Manufacturer"), Model: p.text("Model"), Serial: p.text("SerialNumber"),
				Firmware: p.text("FirmwareVersion"), Health: healthOf(p),
			})
		}
	}
	return devices
}

// devices reads the PCIe devices, each with the class that its first function has.
func (c *conn) devices(ctx context.Context) []bmc.Device {
	paths := c.system.links("PCIeDevices")
	for _, chassis := range c.chassis(ctx) {
		paths = append(paths, chassis.links("Links", "PCIeDevices")...)
		if collection := chassis.link("PCIeDevices"); collection != "" {
			more, _, _ := c.collection(ctx, collection) // what could be read is what there is
			paths = append(paths, more...)
		}
	}
	slices.Sort(paths)
	var devices []bmc.Device
	for _, d := range c.all(ctx, slices.Compact(paths)) {
		devices = append(devices, bmc.Device{
			Class: c.classOf(ctx, d), Name: cmp.Or(d.text("Name"), d.id()), Manufacturer: d.text("Manufacturer"), Model: d.text("Model"),
			Serial: d.text("SerialNumber"), Firmware: d.text("FirmwareVersion"), Health: healthOf(d),
		})
	}
	return devices
}

// classOf tells what a PCIe device is (DSP0268, PCIeFunction.DeviceClass). Display controllers in servers that are not made by a
// maker of management controllers are GPUs.
func (c *conn) classOf(ctx context.Context, device resource) string {
	functions := device.links("Links", "PCIeFunctions")
	if collection := device.link("PCIeFunctions"); len(functions) == 0 && collection != "" {
		functions, _, _ = c.collection(ctx, collection) // a device without functions has no class
	}
	if len(functions) == 0 {
		return ""
	}
	f := c.try(ctx, functions[0])
	class := f.text("DeviceClass")
	// PCI class 03h is a display controller; 03h with subclass 02h is a 3D controller, which only GPUs are.
	if class == "ProcessingAccelerators" || strings.HasPrefix(strings.ToLower(f.text("ClassCode")), "0x0302") {
		return classGPU
	}
	return class
}

// powerSupplies reads the power supplies: those of the power subsystem, or the older list of the chassis' Power.
func (c *conn) powerSupplies(ctx context.Context) []bmc.PowerSupply {
	var supplies []bmc.PowerSupply
	add := func(r resource) {
		if strings.EqualFold(r.text("Status", "State"), "Absent") {
			return
		}
		supplies = append(supplies, bmc.PowerSupply{
			Name: cmp.Or(r.text("Name"), r.id()), Model: r.text("Model"), Watts: bounded32(r.count("PowerCapacityWatts")), Health: healthOf(r),
		})
	}
	for _, chassis := range c.chassis(ctx) {
		before := len(supplies)
		if subsystem := c.try(ctx, chassis.link("PowerSubsystem")); subsystem != nil {
			for _, r := range c.members(ctx, subsystem.link("PowerSupplies")) {
				add(r)
			}
		}
		if len(supplies) > before {
			continue
		}
		for _, r := range c.try(ctx, chassis.link("Power")).list("PowerSupplies") {
			add(r)
		}
	}
	return supplies
}
