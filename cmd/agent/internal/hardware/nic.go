package hardware

import (
	"path/filepath"
	"regexp"
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent/printable"
)

// Links asks network drivers about their interfaces.
type Links interface {
	// Link returns what the driver of an interface knows. Fields that it does not know are empty. It returns an error if nothing can be asked.
	Link(name string) (Link, error)
}

// Link is what a driver knows of its interface.
type Link struct {
	// PermanentMAC is the address in the hardware, in lower case with colons.
	PermanentMAC string
	Driver       string
	Firmware     string
}

// etherType is ARPHRD_ETHER: the type of an Ethernet interface in sysfs.
const etherType = 1

var pciAddress = regexp.MustCompile(`^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)

// nics returns the Ethernet interfaces that have a device: neither lo nor bonds.
func (c *collector) nics() []wire.InspectedNIC {
	const folder = "sys/class/net"
	var out []wire.InspectedNIC
	for _, name := range c.entries(func(string) bool { return true }, folder) {
		kind, ok := c.number(folder, name, "type")
		device, err := filepath.EvalSymlinks(c.path(folder, name, "device"))
		if !ok || kind != etherType || err != nil {
			continue
		}
		out = append(out, c.nic(name, device))
	}
	return out
}

// HasLink is true if an interface has a carrier now.
func (s *Source) HasLink(name string) bool {
	c := &collector{Source: s}
	return c.attribute("sys/class/net", name, "carrier") == "1"
}

func (c *collector) nic(name, device string) wire.InspectedNIC {
	const folder = "sys/class/net"
	nic := wire.InspectedNIC{Name: printable.Line(name, maxText), MACAddress: c.attribute(folder, name, "address"), LinkUp: c.HasLink(name)}
	if speed, ok := c.number(folder, name, "speed"); ok && speed > 0 {
		nic.SpeedMbps = limited(speed)
	}
	if node, ok := c.number(folder, name, "device/numa_node"); ok && node >= 0 {
		nic.NUMANode = new(limited(node))
	}
	if driver, err := filepath.EvalSymlinks(c.path(folder, name, "device/driver")); err == nil {
		nic.Driver = printable.Line(filepath.Base(driver), maxText)
	}
	// The device of a virtio interface is below its PCI device.
	for element := range strings.SplitSeq(filepath.ToSlash(device), "/") {
		if pciAddress.MatchString(element) {
			nic.PCIAddress = element
		}
	}
	if nic.PCIAddress != "" {
		nic.Vendor, nic.Device = c.pciID(nic.PCIAddress, "vendor"), c.pciID(nic.PCIAddress, "device")
	}
	if c.Links == nil {
		return nic
	}
	link, err := c.Links.Link(name)
	if err != nil {
		c.problemf("network interface %s: %v", name, err)
		return nic
	}
	if link.PermanentMAC != "" {
		nic.MACAddress = printable.Line(link.PermanentMAC, maxText)
	}
	if link.Driver != "" {
		nic.Driver = printable.Line(link.Driver, maxText)
	}
	nic.FirmwareVersion = value(link.Firmware)
	return nic
}
