package hardware

import (
	"fmt"
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
)

const pciFolder = "sys/bus/pci/devices"

// The classes of PCI devices that are recorded (PCI Code and ID Assignment Specification).
const (
	classDisplay     = 0x03
	classProcessor   = 0x0b
	classEncryption  = 0x10
	classAccelerator = 0x12
	// subclassCoProcessor is the only one of classProcessor that is recorded.
	subclassCoProcessor = 0x40
)

// displayVendors are vendors of the class display that make no GPUs: the screens of BMCs (ASPEED, Matrox, Silicon Motion, Nuvoton) and of virtual machines
// (Red Hat, QEMU, Cirrus, VMware). A host with nothing else has no GPU.
var displayVendors = map[string]bool{"1a03": true, "102b": true, "126f": true, "1050": true, "1b36": true, "1af4": true, "1234": true, "1013": true, "15ad": true}

// devices returns the GPUs, accelerators, co-processors and encryption controllers.
func (c *collector) devices() []wire.InspectedDevice {
	var out []wire.InspectedDevice
	for _, address := range c.entries(pciAddress.MatchString, pciFolder) {
		code, ok := c.number(pciFolder, address, "class")
		if !ok {
			c.problemf("PCI device %s has no class", address)
			continue
		}
		d := wire.InspectedDevice{PCIAddress: address, Vendor: c.pciID(address, "vendor"), Device: c.pciID(address, "device")}
		if d.Class = pciClass(code, d.Vendor); d.Class != "" {
			out = append(out, d)
		}
	}
	return out
}

// pciClass returns the class of a device in an inventory, or "" for a device that is not recorded. code has the base class, the subclass and the interface.
func pciClass(code int, vendor string) string {
	base, sub := code>>16&0xff, code>>8&0xff
	switch {
	case base == classDisplay && !displayVendors[vendor]:
		return "GPU"
	case base == classAccelerator:
		return "Accelerator"
	case base == classDisplay, base == classEncryption, base == classProcessor && sub == subclassCoProcessor:
		return fmt.Sprintf("%02x%02x", base, sub)
	default:
		return ""
	}
}

// pciID returns an ID of a PCI device in hexadecimal without 0x.
func (c *collector) pciID(address, file string) string {
	return strings.TrimPrefix(c.attribute(pciFolder, address, file), "0x")
}
