package machine

import (
	"cmp"
	"net/netip"
	"slices"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// addressesOf returns the addresses that a machine has while its host runs it: its name, the address that the operating system reported in
// from or, where it only got its bootstrap data, the one that it had then, and what its Node says. What the BMC told of network
// interfaces is none of them: it says nothing of the operating system.
func addressesOf(machine string, boot *v1alpha1.BareMetalBootSpec, node *v1alpha1.ObservedStage) clusterv1.MachineAddresses {
	all := clusterv1.MachineAddresses{{Type: clusterv1.MachineHostName, Address: machine}}
	if address := cmp.Or(boot.ReportAddress, boot.DataAddress); address != "" {
		all = append(all, clusterv1.MachineAddress{Type: clusterv1.MachineInternalIP, Address: address})
	}
	if node != nil {
		for _, a := range node.Addresses {
			if !slices.ContainsFunc(all, func(b clusterv1.MachineAddress) bool { return same(a, b) }) {
				all = append(all, a)
			}
		}
	}
	return all
}

// same is true for addresses that are the same, however they are written.
func same(a, b clusterv1.MachineAddress) bool {
	if a.Type != b.Type || a.Address == b.Address {
		return a == b
	}
	x, errX := netip.ParseAddr(a.Address)
	y, errY := netip.ParseAddr(b.Address)
	return errX == nil && errY == nil && x.Unmap() == y.Unmap()
}
