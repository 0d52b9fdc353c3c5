package server

import (
	"net"
	"net/netip"
	"slices"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
)

// LocalAddresses returns the addresses of this machine's interfaces, each with its prefix length.
func LocalAddresses() ([]netip.Prefix, error) {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	var local []netip.Prefix
	for _, a := range addresses {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			local = append(local, prefix)
		}
	}
	return local, nil
}

// MissingAddresses returns the addresses of networks that no interface of the machine has. Servers send requests there that nobody answers. All addresses
// of a loopback prefix are local: lo has 127.0.0.1/8, and the kernel accepts packets for all of 127.0.0.0/8.
func MissingAddresses(networks []bootconfig.Network, local []netip.Prefix) []netip.Addr {
	var missing []netip.Addr
	for _, n := range networks {
		address := n.Address.Unmap().WithZone("")
		present := slices.ContainsFunc(local, func(p netip.Prefix) bool {
			return p.Addr() == address || p.Addr().IsLoopback() && p.Contains(address)
		})
		if !present && !slices.Contains(missing, address) {
			missing = append(missing, address)
		}
	}
	return missing
}
