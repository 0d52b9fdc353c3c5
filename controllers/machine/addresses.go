package machine

import (
	"cmp"
	"net/netip"
	"slices"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// addressesOf returns the addresses of a machine while its host runs it: its name, one IP address and the addresses of its Node. The IP address is
// the one from which the operating system reported in. Without a report it is the one that fetched the bootstrap data. Addresses that the BMC reports
// are left out: they say nothing about the operating system.
func addressesOf(machine string, boot *v1alpha1.BareMetalBootSpec, node *v1alpha1.ObservedStage) clusterv1.MachineAddresses {
	all := clusterv1.MachineAddresses{{Type: clusterv1.MachineHostName, Address: machine}}
	if address := cmp.Or(boot.ReportAddress, boot.DataAddress); address != "" {
		all = append(all, clusterv1.MachineAddress{Type: clusterv1.MachineInternalIP, Address: address})
	}
	if node != nil {
		for _, a := range node.Addresses {
			if !slices.ContainsFunc(all, func(b clusterv1.MachineAddress) bool { return sameAddress(a, b) }) {
				all = append(all, a)
			}
		}
	}
	return all
}

// sameAddress is true for two spellings of the same address.
func sameAddress(a, b clusterv1.MachineAddress) bool {
	if a.Type != b.Type || a.Address == b.Address {
		return a == b
	}
	x, errX := netip.ParseAddr(a.Address)
	y, errY := netip.ParseAddr(b.Address)
	return errX == nil && errY == nil && x.Unmap() == y.Unmap()
}
