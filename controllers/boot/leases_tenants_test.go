package boot

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
)

// TestAddressesOfTenants: the spec of a tenant's host takes no address from the hosts of other tenants, except 8 addresses of a network in which its server has
// a lease. No message names a host of another namespace.
func TestAddressesOfTenants(t *testing.T) {
	foreign := func(change func(*v1alpha1.BareMetalHost)) *v1alpha1.BareMetalHost {
		h := aHost("0-tenant", 2)
		h.Namespace = "a-tenant"
		change(h)
		return h
	}
	network := func(addresses ...v1alpha1.IPPrefix) *v1alpha1.HostNetwork {
		return &v1alpha1.HostNetwork{Interfaces: []v1alpha1.NetworkInterface{{LinkSettings: v1alpha1.LinkSettings{Addresses: addresses}}}}
	}
	var all []v1alpha1.IPPrefix
	for i := range 16 {
		all = append(all, v1alpha1.IPPrefix(fmt.Sprintf("192.0.2.%d/24", 10+i)))
	}
	t.Run("a host that is only written down reserves nothing", func(t *testing.T) {
		g := NewWithT(t)
		l := newLeasing(t, foreign(func(h *v1alpha1.BareMetalHost) {
			h.Status.Hardware = nil
			h.Spec.BootAddresses, h.Spec.Network = []string{"192.0.2.50"}, network("192.0.2.50/24")
		}), aHost("a", 1, "192.0.2.50"))
		g.Expect(l.ask(1)).To(Equal("+192.0.2.50"))
	})
	t.Run("nor one with the MAC address of another", func(t *testing.T) {
		g := NewWithT(t)
		l := newLeasing(t, foreign(func(h *v1alpha1.BareMetalHost) {
			h.Spec.BootMACAddresses = []string{hw(3).String()}
			h.Spec.BootAddresses = []string{"192.0.2.50"}
		}), aHost("a", 1, "192.0.2.50"))
		g.Expect(l.ask(1)).To(Equal("+192.0.2.50"))
	})
	t.Run("nor one that has no address of the network", func(t *testing.T) {
		g := NewWithT(t)
		l := newLeasing(t, foreign(func(h *v1alpha1.BareMetalHost) {
			h.Spec.BootAddresses, h.Spec.Network = []string{"192.0.2.50"}, network("192.0.2.50/24")
		}), aHost("a", 1, "192.0.2.50"))
		g.Expect(l.ask(1)).To(Equal("+192.0.2.50"))
	})
	t.Run("one server does not empty a network", func(t *testing.T) {
		g := NewWithT(t)
		l := newLeasing(t, foreign(func(h *v1alpha1.BareMetalHost) { h.Spec.Network = network(all...) }), aHost("a", 1))
		l.pool = pool("192.0.2.0/24", "192.0.2.10-192.0.2.25")
		g.Expect(l.ask(2)).To(HavePrefix("+192.0.2."))
		g.Expect(l.ask(1)).To(HavePrefix("+192.0.2."))
	})
	t.Run("of two reservations the older host's counts", func(t *testing.T) {
		g := NewWithT(t)
		own := aHost("a", 1, "192.0.2.50")
		own.CreationTimestamp = metav1.NewTime(time.Unix(1000, 0))
		other := foreign(func(h *v1alpha1.BareMetalHost) {
			h.CreationTimestamp = metav1.NewTime(time.Unix(2000, 0))
		})
		l := newLeasing(t, other, own)
		g.Expect(l.ask(2)).To(HavePrefix("+192.0.2.1"), "it is in the network")
		l.change(other, func(h *v1alpha1.BareMetalHost) {
			h.Spec.BootAddresses, h.Spec.Network = []string{"192.0.2.50"}, network("192.0.2.50/24")
		})
		g.Expect(l.ask(1)).To(Equal("+192.0.2.50"))
		_, err := l.ask(2)
		g.Expect(err).To(MatchError(And(ContainSubstring("a host of another namespace"), Not(ContainSubstring("dc/a")))))
	})
	t.Run("the message of an address in use does not name its user", func(t *testing.T) {
		g := NewWithT(t)
		l := newLeasing(t, foreign(func(h *v1alpha1.BareMetalHost) {
			h.Status.Addresses = clusterv1.MachineAddresses{{Type: clusterv1.MachineInternalIP, Address: "192.0.2.50"}}
		}), aHost("a", 1, "192.0.2.50"))
		_, err := l.ask(1)
		g.Expect(err).To(MatchError(And(ContainSubstring("is used by a host of another namespace"), Not(ContainSubstring("tenant")))))
	})
}

// TestTenantNetworks: a server gets no address in a network that its namespace may not use.
func TestTenantNetworks(t *testing.T) {
	g := NewWithT(t)
	l := newLeasing(t, aHost("a", 1))
	l.Booter = New(&Booter{
		Client: l.Client, APIReader: l.APIReader, Namespace: l.Namespace, Log: l.Log,
		Tenants: bootconfig.Tenants{{Namespaces: []string{"dc"}, DHCPNetworks: []string{"rack-2"}}},
	})
	_, err := l.ask(1)
	g.Expect(err).To(MatchError(ContainSubstring("do not permit namespace dc network rack-1")))
	l.Tenants[0].DHCPNetworks = append(l.Tenants[0].DHCPNetworks, "rack-1")
	g.Expect(l.ask(1)).To(HavePrefix("+192.0.2."))
	l.Tenants[0].MACPrefixes = []string{"02:00"}
	_, err = l.ask(1)
	g.Expect(err).To(MatchError(ContainSubstring("is not a server of the inventory")))
}
