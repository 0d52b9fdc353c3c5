package redfish

import (
	"regexp"
	"strconv"
	"strings"
)

const (
	classGPU = "GPU"
	// classBridge is the class of PCIe bridges and of the switches between GPUs. They are a part of the board, and a server with GPUs has a hundred.
	classBridge = "Bridge"
)

// The PCI vendor IDs of GPU vendors, and of the graphics of BMCs.
const (
	vendorNVIDIA = 0x10de
	vendorAMD    = 0x1002
	vendorIntel  = 0x8086
	vendorMatrox = 0x102b
	vendorASPEED = 0x1a03
)

const (
	pciDisplay = 0x03
	pci3D      = 0x0302
)

// pciClasses are the names in DSP0268, PCIeFunction.DeviceClass, of the first byte of a class code.
var pciClasses = map[int64]string{
	0x00: "UnclassifiedDevice", 0x01: "MassStorageController", 0x02: "NetworkController", pciDisplay: "DisplayController", 0x04: "MultimediaController",
	0x05: "MemoryController", 0x06: "Bridge", 0x07: "CommunicationController", 0x08: "GenericSystemPeripheral", 0x09: "InputDeviceController",
	0x0a: "DockingStation", 0x0b: "Processor", 0x0c: "SerialBusController", 0x0d: "WirelessController", 0x0e: "IntelligentController",
	0x0f: "SatelliteCommunicationsController", 0x10: "EncryptionController", 0x11: "SignalProcessingController", 0x12: "ProcessingAccelerators",
	0x13: "NonEssentialInstrumentation", 0x40: "Coprocessor", 0xff: "UnassignedClass",
}

// gpuVendors are the manufacturers of GPUs, by their vendor ID.
var gpuVendors = map[int64]string{vendorNVIDIA: "NVIDIA", vendorAMD: "AMD", vendorIntel: "Intel"}

// busAddress matches the address of a PCIe device on its bus, which some BMCs write as its name.
var busAddress = regexp.MustCompile(`(?i)^([0-9a-f]{2,4}[_:.-])?[0-9a-f]{2}[_:.-][0-9a-f]{1,2}([_:.-][0-9a-f])?$`)

// code returns a number that is written in hexadecimal with 0x, or in decimal; -1 for any other text.
func (r resource) code(name string) int64 {
	text := strings.ToLower(r.text(name))
	digits, base := text, 10
	if hex, ok := strings.CutPrefix(text, "0x"); ok {
		digits, base = hex, 16
	}
	n, err := strconv.ParseInt(digits, base, 64)
	if err != nil || n < 0 {
		return -1
	}
	return n
}

// classOf returns the class of a PCIe function: GPU, or its DeviceClass. A 3D controller is a GPU. A display controller is a GPU if its
// vendor makes GPUs, because BMCs have graphics too. Class codes have three bytes, or only the first one.
func classOf(function resource, slot bool) string {
	if function == nil {
		return ""
	}
	code, vendor, class := function.code("ClassCode"), function.code("VendorId"), function.text("DeviceClass")
	base := code
	if code == 0 { // a placeholder: devices without a class are older than PCI 2.0
		code, base = -1, -1
	}
	if code > 0xff {
		base = code >> 16
		if base == 0 {
			base = code & 0xff
		}
	}
	if class == "" && base >= 0 {
		class = pciClasses[base]
	}
	switch {
	case class != "DisplayController" && base != pciDisplay, vendor == vendorMatrox, vendor == vendorASPEED:
		return class
	case code>>8 == pci3D, vendor == vendorNVIDIA, vendor == vendorAMD, vendor == vendorIntel && slot:
		return classGPU
	default:
		return class
	}
}

// inSlot is true for a part in a slot (DSP0268, Resource.PartLocation).
func inSlot(r resource) bool {
	for _, path := range [][]string{{"Location", "PartLocation"}, {"Slot", "Location", "PartLocation"}, {"PhysicalLocation", "PartLocation"}} {
		if r.text(append(path, "LocationType")...) == "Slot" {
			return true
		}
	}
	return false
}
