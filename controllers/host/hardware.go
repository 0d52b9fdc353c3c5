package host

import (
	"math"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
)

// hardwareStatus returns an inventory as the API's type, with texts and lists cut to the limits of the status: a BMC may report anything.
func hardwareStatus(i bmc.Inventory) *v1alpha1.Hardware {
	text := func(s string) string { return controllers.Clip(s, controllers.MaxText) }
	hardware := &v1alpha1.Hardware{
		Manufacturer: text(i.Manufacturer), Model: text(i.Model), SerialNumber: text(i.SerialNumber), SystemUUID: text(i.SystemUUID),
		FirmwareVersion: text(i.FirmwareVersion), BMCFirmwareVersion: text(i.BMCFirmwareVersion), Architecture: text(i.Architecture),
		Health: controllers.HealthOf(i.Health),
		CPU:    v1alpha1.CPU{Model: text(i.CPUModel), Sockets: int32(i.CPUSockets), Threads: int32(i.CPUThreads)}, //nolint:gosec // the drivers limit them
		Memory: quantityOf(i.MemoryMiB, mebibyte),
	}
	for _, f := range i.Facts {
		hardware.Facts = append(hardware.Facts, v1alpha1.Fact{
			Name: string(f.Name), State: v1alpha1.FactState(f.State), Source: text(f.Source), Message: text(f.Message),
		})
	}
	for _, d := range i.DIMMs[:min(len(i.DIMMs), controllers.MaxItems)] {
		hardware.DIMMs = append(hardware.DIMMs, v1alpha1.DIMM{
			Name: text(d.Name), Manufacturer: text(d.Manufacturer), PartNumber: text(d.PartNumber), SerialNumber: text(d.SerialNumber),
			Size: quantityOf(d.SizeMiB, mebibyte), Health: controllers.HealthOf(d.Health),
		})
	}
	for _, d := range i.Disks[:min(len(i.Disks), controllers.MaxItems)] {
		hardware.Disks = append(hardware.Disks, v1alpha1.Disk{
			Name: text(d.Name), Model: text(d.Model), SerialNumber: text(d.SerialNumber), WWN: text(d.WWN), Size: quantityOf(d.SizeBytes/gibibyte, gibibyte),
			Rotational: d.Rotational, Health: controllers.HealthOf(d.Health),
		})
	}
	for _, n := range i.NICs[:min(len(i.NICs), controllers.MaxItems)] {
		hardware.NICs = append(hardware.NICs, v1alpha1.NIC{
			Name: text(n.Name), MACAddress: text(n.MACAddress), SpeedMbps: int32(n.SpeedMbps), LinkUp: n.LinkUp, NetworkBoot: n.NetworkBoot, //nolint:gosec // the drivers limit it
		})
	}
	for _, d := range i.Devices[:min(len(i.Devices), controllers.MaxItems)] {
		hardware.Devices = append(hardware.Devices, v1alpha1.Device{
			Class: text(d.Class), Name: text(d.Name), Manufacturer: text(d.Manufacturer), Model: text(d.Model), SerialNumber: text(d.Serial),
			FirmwareVersion: text(d.Firmware), Health: controllers.HealthOf(d.Health),
		})
	}
	for _, p := range i.PowerSupplies[:min(len(i.PowerSupplies), controllers.MaxItems)] {
		hardware.PowerSupplies = append(hardware.PowerSupplies, v1alpha1.PowerSupply{
			Name: text(p.Name), Model: text(p.Model), Watts: int32(p.Watts), Health: controllers.HealthOf(p.Health), //nolint:gosec // the drivers limit it
		})
	}
	return hardware
}

const (
	mebibyte = int64(1) << 20
	gibibyte = int64(1) << 30
)

// quantityOf returns a number of units as a quantity. It caps the number so that the bytes fit into an int64: a BMC may report any number.
func quantityOf(number, unit int64) resource.Quantity {
	return *resource.NewQuantity(min(number, math.MaxInt64/unit)*unit, resource.BinarySI)
}
