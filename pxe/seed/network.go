package seed

import (
	"net/netip"
	"slices"
	"time"
)

// Network is the network of an operating system. The names of links are unique and valid, every reference to a link has a target, and every gateway can be
// reached: the caller ensures that.
type Network struct {
	Interfaces []Interface `json:"interfaces,omitempty"`
	Bonds      []Bond      `json:"bonds,omitempty"`
	VLANs      []VLAN      `json:"vlans,omitempty"`
}

// Settings are the settings of a link.
type Settings struct {
	// MTU is in bytes. Zero is the kernel's default.
	MTU int `json:"mtu,omitempty"`
	// Addresses are static addresses with the lengths of their networks' prefixes.
	Addresses []netip.Prefix `json:"addresses,omitempty"`
	// DHCP4 and DHCP6 request addresses of the family from DHCP.
	DHCP4  bool    `json:"dhcp4,omitempty"`
	DHCP6  bool    `json:"dhcp6,omitempty"`
	Routes []Route `json:"routes,omitempty"`
	// Nameservers and Search are for names that are resolved over this link.
	Nameservers []netip.Addr `json:"nameservers,omitempty"`
	Search      []string     `json:"search,omitempty"`
}

// Interface is a network interface.
type Interface struct {
	// Name is the new name of an interface with a MAC, and the existing name of one without.
	Name string `json:"name"`
	// MAC matches the interface, in lower case with colons. An interface without it is matched by its name.
	MAC string `json:"mac,omitempty"`
	Settings
}

// Bond joins interfaces.
type Bond struct {
	Name       string   `json:"name"`
	Interfaces []string `json:"interfaces"`
	// Mode, LACPRate and HashPolicy have the values of the kernel's documentation. All except Mode may be empty.
	Mode       string `json:"mode"`
	LACPRate   string `json:"lacpRate,omitempty"`
	HashPolicy string `json:"hashPolicy,omitempty"`
	// Monitor is the interval of link monitoring, in whole milliseconds.
	Monitor time.Duration `json:"monitor,omitempty"`
	// Primary is the preferred interface, or empty.
	Primary string `json:"primary,omitempty"`
	Settings
}

// VLAN is a tagged link on an interface or a bond.
type VLAN struct {
	Name string `json:"name"`
	ID   int    `json:"id"`
	// Link is the name of the interface or the bond.
	Link string `json:"link"`
	Settings
}

// Route is a route. The default route is the one to 0.0.0.0/0 or ::/0.
type Route struct {
	To  netip.Prefix `json:"to"`
	Via netip.Addr   `json:"via,omitzero"`
	// Metric orders routes. Zero is the system's default.
	Metric int `json:"metric,omitempty"`
}

func (r Route) isDefault() bool { return r.To.Bits() == 0 }

// addressed is true for a link with addresses.
func (s Settings) addressed() bool { return len(s.Addresses) > 0 || s.DHCP4 || s.DHCP6 }

// has is true if the link has static addresses of a family.
func (s Settings) has(v4 bool) bool {
	for _, a := range s.Addresses {
		if a.Addr().Is4() == v4 {
			return true
		}
	}
	return false
}

// bondOf returns the bond that an interface is part of, or nil.
func (n *Network) bondOf(name string) *Bond {
	for i, b := range n.Bonds {
		if slices.Contains(b.Interfaces, name) {
			return &n.Bonds[i]
		}
	}
	return nil
}

// vlansOn returns the VLANs on a link.
func (n *Network) vlansOn(name string) []string {
	var names []string
	for _, v := range n.VLANs {
		if v.Link == name {
			names = append(names, v.Name)
		}
	}
	return names
}
