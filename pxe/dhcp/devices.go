package dhcp

import (
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// deviceLife is how long what is known of an interface is believed.
const deviceLife = 10 * time.Second

// Devices knows the interfaces of this machine by their index. Interfaces come and go, and asking the kernel for each packet is dear.
type Devices struct {
	// look asks the kernel. Defaults to kernelDevice.
	look func(index int) Device

	mu    sync.Mutex
	known map[int]knownDevice
}

// Device is an interface of this machine. One that is gone has no name.
type Device struct {
	Name string
	// Prefixes are its addresses, each with the length of its network's prefix.
	Prefixes []netip.Prefix
}

// Addresses returns the addresses of the interface.
func (d Device) Addresses() []netip.Addr {
	all := make([]netip.Addr, len(d.Prefixes))
	for i, p := range d.Prefixes {
		all[i] = p.Addr()
	}
	return all
}

// Neighbors is true for an address of a network that the interface has an address in: no router stands between.
func (d Device) Neighbors(a netip.Addr) bool {
	return slices.ContainsFunc(d.Prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
}

type knownDevice struct {
	Device

	until time.Time
}

// Get returns an interface by its index.
func (d *Devices) Get(index int) Device {
	d.mu.Lock()
	defer d.mu.Unlock()
	known, ok := d.known[index]
	if !ok || time.Now().After(known.until) {
		look := d.look
		if look == nil {
			look = kernelDevice
		}
		known = knownDevice{look(index), time.Now().Add(deviceLife)}
		if d.known == nil {
			d.known = map[int]knownDevice{}
		}
		d.known[index] = known
	}
	return known.Device
}

// kernelDevice returns what the kernel knows of an interface.
func kernelDevice(index int) Device {
	found, err := net.InterfaceByIndex(index)
	if err != nil {
		return Device{}
	}
	device := Device{Name: found.Name}
	addresses, err := found.Addrs()
	if err != nil {
		return device
	}
	for _, a := range addresses {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			device.Prefixes = append(device.Prefixes, prefix)
		}
	}
	return device
}
