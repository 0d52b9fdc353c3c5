package controllers

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/claim"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

const (
	// ConsumerIndex finds the hosts that a BareMetalMachine has, by the machine's name.
	ConsumerIndex = claim.ConsumerField
	// LastOwnerIndex finds the free hosts that a machine of an owner had last, by that owner (claim.Owner).
	LastOwnerIndex = "spec.providerState.lastConsumer.owner"
	// MACIndex finds the hosts with a boot MAC address.
	MACIndex = "spec.bootMACAddresses"
	// BMCIndex finds the hosts behind a BMC, by its BMCOf. See SameServer.
	BMCIndex = "spec.bmc.address"
	// SecretIndex finds the hosts that refer to a Secret, by its name.
	SecretIndex = "spec.bmc.secrets"
	// HardwareIndex finds the hosts whose BMC reported a UUID, by its inventory.HardwareID.
	HardwareIndex = "status.hardware.systemUUID"
	// MachineIndex finds the boots of a BareMetalMachine that are not void, by the machine's name.
	MachineIndex = "spec.machineName"
	// AddressIndex finds hosts by the IP addresses that are reserved for them or that were observed on them, and boots by the addresses that were
	// served.
	AddressIndex = "addresses"
	// RequestIndex finds the BareMetalErasureRequests of a host, by its name. The host controller adds it: the boot server may not read them.
	RequestIndex = "spec.hostName"
)

// AddIndexes adds the indexes of BareMetalHosts to the manager's cache.
func AddIndexes(ctx context.Context, mgr manager.Manager) error {
	return IndexHosts(ctx, mgr.GetFieldIndexer())
}

// IndexHosts adds the indexes of BareMetalHosts.
func IndexHosts(ctx context.Context, indexer client.FieldIndexer) error {
	for name, values := range map[string]func(*v1alpha1.BareMetalHost) []string{
		ConsumerIndex: func(h *v1alpha1.BareMetalHost) []string {
			if h.Spec.ConsumerRef == nil {
				return nil
			}
			return []string{h.Spec.ConsumerRef.Name}
		},
		LastOwnerIndex: func(h *v1alpha1.BareMetalHost) []string {
			if h.Spec.ConsumerRef != nil || h.Spec.ProviderState.LastConsumer == nil || h.Spec.ProviderState.LastConsumer.Owner == "" {
				return nil
			}
			return []string{h.Spec.ProviderState.LastConsumer.Owner}
		},
		MACIndex: func(h *v1alpha1.BareMetalHost) []string { return h.Spec.BootMACAddresses },
		BMCIndex: func(h *v1alpha1.BareMetalHost) []string { return []string{BMCOf(h)} },
		SecretIndex: func(h *v1alpha1.BareMetalHost) []string {
			return slices.DeleteFunc([]string{h.Spec.BMC.CredentialsSecretName, h.Spec.BMC.CASecretName}, func(name string) bool { return name == "" })
		},
		HardwareIndex: func(h *v1alpha1.BareMetalHost) []string {
			if h.Status.Hardware == nil || inventory.HardwareID(h.Status.Hardware.SystemUUID) == "" {
				return nil
			}
			return []string{inventory.HardwareID(h.Status.Hardware.SystemUUID)}
		},
		AddressIndex: func(h *v1alpha1.BareMetalHost) []string {
			return addressStrings(append(UsedAddresses(h, nil), ReservedAddresses(h)...))
		},
	} {
		extract := func(o client.Object) []string { return values(o.(*v1alpha1.BareMetalHost)) } //nolint:forcetypeassert // the index is of hosts
		if err := indexer.IndexField(ctx, &v1alpha1.BareMetalHost{}, name, extract); err != nil {
			return fmt.Errorf("index hosts by %s: %w", name, err)
		}
	}
	return indexBoots(ctx, indexer)
}

func indexBoots(ctx context.Context, indexer client.FieldIndexer) error {
	for name, values := range map[string]func(*v1alpha1.BareMetalBoot) []string{
		AddressIndex: func(b *v1alpha1.BareMetalBoot) []string { return addressStrings(servedAddresses(b)) },
		MachineIndex: func(b *v1alpha1.BareMetalBoot) []string {
			if !lifecycle.IsOpen(&b.Spec) {
				return nil
			}
			return []string{b.Spec.MachineName}
		},
	} {
		extract := func(o client.Object) []string { return values(o.(*v1alpha1.BareMetalBoot)) } //nolint:forcetypeassert // the index is of boots
		if err := indexer.IndexField(ctx, &v1alpha1.BareMetalBoot{}, name, extract); err != nil {
			return fmt.Errorf("index boots by %s: %w", name, err)
		}
	}
	return nil
}

// BMCOf returns what the addresses of one BMC have in common, whatever the protocol. It is the host name, with the port unless it is a standard port
// of one of the protocols: emulators and port forwards distinguish BMCs by port. One webhook serves many BMCs, which its query distinguishes.
func BMCOf(h *v1alpha1.BareMetalHost) string {
	address, err := url.Parse(h.Spec.BMC.Address)
	if err != nil {
		return h.Spec.BMC.Address
	}
	if strings.HasPrefix(address.Scheme, "rpc+") {
		return bmc.CanonicalHost(address) + address.RequestURI()
	}
	if slices.Contains(protocolPorts, address.Port()) {
		return bmc.CanonicalHostname(address.Hostname())
	}
	return bmc.CanonicalHost(address)
}

// protocolPorts are the standard ports of the BMC protocols: HTTPS, HTTP, IPMI (RMCP), AMT without and with TLS. The empty port means one of them.
var protocolPorts = []string{"", "443", "80", "623", "16992", "16993"}

// SameServer is true if the addresses of two hosts with the same BMCOf may name the same server. The path names a server behind a BMC of several; an
// address without a path names every server behind it.
func SameServer(a, b *v1alpha1.BareMetalHost) bool {
	one, other := systemPath(a), systemPath(b)
	return one == "" || other == "" || one == other
}

func systemPath(h *v1alpha1.BareMetalHost) string {
	address, err := url.Parse(h.Spec.BMC.Address)
	if err != nil {
		return ""
	}
	return strings.TrimRight(address.Path, "/")
}

// ReservedAddresses returns the addresses that DHCP reserves for a host.
func ReservedAddresses(h *v1alpha1.BareMetalHost) []netip.Addr {
	return parseAddresses(h.Spec.BootAddresses)
}

// servedAddresses returns the addresses that a server used in its last boot, the address of its operating system first.
func servedAddresses(boot *v1alpha1.BareMetalBoot) []netip.Addr {
	if boot == nil {
		return nil
	}
	return parseAddresses([]string{boot.Spec.ReportAddress, boot.Spec.DataAddress, boot.Spec.ScriptAddress})
}

// UsedAddresses returns the addresses that were observed on a host or that spec.network configures. The address of its operating system comes first.
// boot is the last boot of the host, or nil.
func UsedAddresses(h *v1alpha1.BareMetalHost, boot *v1alpha1.BareMetalBoot) []netip.Addr {
	var seen []string
	for _, a := range h.Status.Addresses {
		seen = append(seen, a.Address)
	}
	return slices.Concat(servedAddresses(boot), ConfiguredAddresses(h), parseAddresses(seen))
}

// ConfiguredAddresses returns the addresses that spec.network gives a host.
func ConfiguredAddresses(h *v1alpha1.BareMetalHost) []netip.Addr {
	var configured []string
	for _, a := range NetworkAddresses(h) {
		address, _, _ := strings.Cut(a, "/")
		configured = append(configured, address)
	}
	return parseAddresses(configured)
}

// NetworkAddresses returns the addresses that spec.network gives a host, each with its prefix length.
func NetworkAddresses(h *v1alpha1.BareMetalHost) []string {
	var all []string
	for _, link := range links(h.Spec.Network) {
		for _, a := range link.Addresses {
			all = append(all, string(a))
		}
	}
	return all
}

// links returns the settings of every link of a host.
func links(network *v1alpha1.HostNetwork) []v1alpha1.LinkSettings {
	if network == nil {
		return nil
	}
	var all []v1alpha1.LinkSettings
	for _, l := range network.Interfaces {
		all = append(all, l.LinkSettings)
	}
	for _, l := range network.Bonds {
		all = append(all, l.LinkSettings)
	}
	for _, l := range network.VLANs {
		all = append(all, l.LinkSettings)
	}
	return all
}

// parseAddresses skips values that are not IP addresses, such as host names.
func parseAddresses(all []string) []netip.Addr {
	var out []netip.Addr
	for _, s := range all {
		if a, err := netip.ParseAddr(s); err == nil {
			out = append(out, a.Unmap().WithZone(""))
		}
	}
	return out
}

func addressStrings(all []netip.Addr) []string {
	var out []string
	for _, a := range all {
		out = append(out, a.String())
	}
	return out
}
