package dhcp

import (
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// deviceCacheTTL is how long facts about an interface are cached.
const deviceCacheTTL = 10 * time.Second

// Devices caches the interfaces of this machine by their index. Interfaces come and go, and asking the kernel for each packet is expensive.
type Devices struct {
	// readDevice reads an interface from the kernel. Defaults to kernelDevice.
	readDevice func(index int) Device

	mu     sync.Mutex
	cached map[int]cachedDevice
}

// Device is an interface of this machine. A removed interface has no name.
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

// Neighbors is true for an address of a network that the interface has an address in, so that no router is between them.
func (d Device) Neighbors(a netip.Addr) bool {
	return slices.ContainsFunc(d.Prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
}

type cachedDevice struct {
	Device

	until time.Time
}

// Get returns an interface by its index.
func (d *Devices) Get(index int) Device {
	d.mu.Lock()
	defer d.mu.Unlock()
	known, ok := d.cached[index]
	if !ok || time.Now().After(known.until) {
		read := d.readDevice
		if read == nil {
			read = kernelDevice
		}
		known = cachedDevice{read(index), time.Now().Add(deviceCacheTTL)}
		if d.cached == nil {
			d.cached = map[int]cachedDevice{}
		}
		d.cached[index] = known
	}
	return known.Device
}

// kernelDevice reads an interface from the kernel.
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
