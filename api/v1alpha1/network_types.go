package v1alpha1

// HostNetwork is the network configuration of the operating system on a host, in the terms of netplan and of cloud-init's network-config version 2. The
// operating system applies it before it fetches its bootstrap data, so the boot server must be reachable over it. It contains no secrets.
// +kubebuilder:validation:XValidation:rule="(self.interfaces.exists(l, has(l.addresses) || has(l.dhcp4) && l.dhcp4 || has(l.dhcp6) && l.dhcp6)) || has(self.bonds) && self.bonds.exists(l, has(l.addresses) || has(l.dhcp4) && l.dhcp4 || has(l.dhcp6) && l.dhcp6) || has(self.vlans) && self.vlans.exists(l, has(l.addresses) || has(l.dhcp4) && l.dhcp4 || has(l.dhcp6) && l.dhcp6)",message="must give the host an address: set addresses, dhcp4 or dhcp6 on an interface, a bond or a VLAN"
// +kubebuilder:validation:XValidation:rule="self.interfaces.all(i, !has(i.macAddress) || self.interfaces.exists_one(j, has(j.macAddress) && j.macAddress == i.macAddress))",message="two interfaces have the same macAddress: it must be unique"
// +kubebuilder:validation:XValidation:rule="!has(self.bonds) || self.bonds.all(b, !self.interfaces.exists(i, i.name == b.name))",message="a bond and an interface have the same name: link names must be unique"
// +kubebuilder:validation:XValidation:rule="!has(self.vlans) || self.vlans.all(v, !self.interfaces.exists(i, i.name == v.name) && !(has(self.bonds) && self.bonds.exists(b, b.name == v.name)))",message="a VLAN has the name of an interface or a bond: link names must be unique, like bond0.100"
// +kubebuilder:validation:XValidation:rule="!has(self.bonds) || self.bonds.all(b, b.interfaces.all(n, self.interfaces.exists(i, i.name == n)))",message="a bond has an interface that is not in interfaces: add it there, with its macAddress"
// +kubebuilder:validation:XValidation:rule="!has(self.bonds) || self.bonds.all(b, self.bonds.all(c, b.name == c.name || !b.interfaces.exists(n, n in c.interfaces)))",message="an interface is in two bonds: it can be in only one"
// +kubebuilder:validation:XValidation:rule="!has(self.bonds) || self.interfaces.all(i, !(has(i.addresses) || has(i.routes) || has(i.nameservers) || has(i.dhcp4) && i.dhcp4 || has(i.dhcp6) && i.dhcp6) || !self.bonds.exists(b, i.name in b.interfaces))",message="an interface of a bond has addresses, routes, nameservers or DHCP: set them on the bond"
// +kubebuilder:validation:XValidation:rule="!has(self.vlans) || self.vlans.all(v, self.interfaces.exists(i, i.name == v.link) || has(self.bonds) && self.bonds.exists(b, b.name == v.link))",message="a VLAN's link is neither in interfaces nor in bonds: set it to the link that carries the VLAN"
// +kubebuilder:validation:XValidation:rule="!has(self.vlans) || !has(self.bonds) || self.vlans.all(v, !self.bonds.exists(b, v.link in b.interfaces))",message="a VLAN's link is an interface of a bond: set it to the bond"
// +kubebuilder:validation:XValidation:rule="!has(self.vlans) || self.vlans.all(v, self.vlans.exists_one(w, w.link == v.link && w.id == v.id))",message="two VLANs have the same id on the same link"
// +kubebuilder:validation:XValidation:rule="!has(self.vlans) || self.vlans.all(v, !has(v.mtu) || self.interfaces.all(i, i.name != v.link || v.mtu <= (has(i.mtu) ? i.mtu : 1500)) && (!has(self.bonds) || self.bonds.all(b, b.name != v.link || v.mtu <= (has(b.mtu) ? b.mtu : 1500))))",message="a VLAN's mtu is larger than its link's: also set the mtu of the link, which defaults to 1500"
type HostNetwork struct {
	// interfaces are the network interfaces to configure, including those that only carry a bond or a VLAN.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Interfaces []NetworkInterface `json:"interfaces,omitempty"`

	// bonds combine interfaces into one link.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Bonds []NetworkBond `json:"bonds,omitempty"`

	// vlans are VLAN links on an interface or a bond.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	VLANs []NetworkVLAN `json:"vlans,omitempty"`
}

// LinkName is the name of a network link.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=15
// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z][A-Za-z0-9_.-]*$') && self != 'lo'",message="must be the name of a network interface: a letter, then letters, digits, '.', '_' and '-', like eno1 or bond0.100"
type LinkName string

// NetworkInterface is a network interface of the server.
// +kubebuilder:validation:XValidation:rule="!has(self.routes) || self.routes.all(r, !isIP(r.via) || (ip(r.via).family() == 4 ? has(self.dhcp4) && self.dhcp4 : has(self.dhcp6) && self.dhcp6 || ip(r.via).isLinkLocalUnicast()) || has(self.addresses) && self.addresses.exists(a, isCIDR(a) && cidr(a).containsIP(r.via)))",message="a route's via is in none of the networks of the link's addresses: check via and the prefix lengths"
type NetworkInterface struct {
	// name is the name of the interface, which bonds and VLANs refer to. If macAddress is set, cloud-init renames the interface to name;
	// Ignition does not. Without macAddress it must be the name that the operating system assigns, such as eno1.
	// +required
	Name LinkName `json:"name,omitempty"`

	// macAddress is the MAC address that identifies the interface, in lower case with colons. Defaults to none: the name identifies the interface.
	// +optional
	// +kubebuilder:validation:MinLength=17
	// +kubebuilder:validation:MaxLength=17
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9a-f][02468ace](:[0-9a-f]{2}){5}$')",message="must be the MAC address of one network interface in lower case with colons, like 52:54:00:12:34:56"
	MACAddress string `json:"macAddress,omitempty"`

	LinkSettings `json:",inline"`
}

// BondMode is the mode of a bond.
// +kubebuilder:validation:Enum=balance-rr;active-backup;balance-xor;broadcast;"802.3ad";balance-tlb;balance-alb
type BondMode string

// NetworkBond combines interfaces into one link.
// +kubebuilder:validation:XValidation:rule="!has(self.routes) || self.routes.all(r, !isIP(r.via) || (ip(r.via).family() == 4 ? has(self.dhcp4) && self.dhcp4 : has(self.dhcp6) && self.dhcp6 || ip(r.via).isLinkLocalUnicast()) || has(self.addresses) && self.addresses.exists(a, isCIDR(a) && cidr(a).containsIP(r.via)))",message="a route's via is in none of the networks of the link's addresses: check via and the prefix lengths"
// +kubebuilder:validation:XValidation:rule="!has(self.parameters.primary) || self.parameters.primary in self.interfaces",message="parameters.primary is not one of the bond's interfaces"
type NetworkBond struct {
	// name is the name of the bond's link, such as bond0.
	// +required
	Name LinkName `json:"name,omitempty"`

	// interfaces are the names of the interfaces in the bond.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Interfaces []LinkName `json:"interfaces,omitempty"`

	// parameters are the settings of the bond.
	// +required
	Parameters BondParameters `json:"parameters,omitzero"`

	LinkSettings `json:",inline"`
}

// BondParameters are the settings of a bond. The bonding documentation of the Linux kernel describes them.
// +kubebuilder:validation:XValidation:rule="!has(self.lacpRate) || self.mode == '802.3ad'",message="lacpRate is allowed only with mode 802.3ad"
// +kubebuilder:validation:XValidation:rule="!has(self.transmitHashPolicy) || self.mode in ['balance-xor', '802.3ad', 'balance-tlb']",message="transmitHashPolicy is allowed only with the modes balance-xor, 802.3ad and balance-tlb"
// +kubebuilder:validation:XValidation:rule="!has(self.primary) || self.mode in ['active-backup', 'balance-tlb', 'balance-alb']",message="primary is allowed only with the modes active-backup, balance-tlb and balance-alb"
type BondParameters struct {
	// mode is the mode of the bond. 802.3ad (LACP) requires a configuration of the switch. active-backup requires none.
	// +required
	Mode BondMode `json:"mode,omitempty"`

	// miiMonitorIntervalMilliseconds is the interval, in milliseconds, between checks of the interfaces' link state. Defaults to 100.
	// +optional
	// +kubebuilder:default=100
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=10000
	MIIMonitorIntervalMilliseconds int32 `json:"miiMonitorIntervalMilliseconds,omitempty"`

	// lacpRate is how often the switch is asked to send LACP packets: slow (every 30 seconds) or fast (every second). Defaults to slow, the default of the
	// kernel.
	// +optional
	// +kubebuilder:validation:Enum=slow;fast
	LACPRate string `json:"lacpRate,omitempty"`

	// transmitHashPolicy selects the interface that sends a packet. Defaults to layer2, the default of the kernel.
	// +optional
	// +kubebuilder:validation:Enum=layer2;layer2+3;layer3+4;encap2+3;encap3+4
	TransmitHashPolicy string `json:"transmitHashPolicy,omitempty"`

	// primary is the interface that is used whenever it works. Defaults to none.
	// +optional
	Primary LinkName `json:"primary,omitempty"`
}

// NetworkVLAN is a VLAN link.
// +kubebuilder:validation:XValidation:rule="!has(self.routes) || self.routes.all(r, !isIP(r.via) || (ip(r.via).family() == 4 ? has(self.dhcp4) && self.dhcp4 : has(self.dhcp6) && self.dhcp6 || ip(r.via).isLinkLocalUnicast()) || has(self.addresses) && self.addresses.exists(a, isCIDR(a) && cidr(a).containsIP(r.via)))",message="a route's via is in none of the networks of the link's addresses: check via and the prefix lengths"
type NetworkVLAN struct {
	// name is the name of the VLAN's link, such as bond0.100.
	// +required
	Name LinkName `json:"name,omitempty"`

	// id is the VLAN ID, from 1 to 4094.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4094
	ID int32 `json:"id,omitempty"`

	// link is the name of the interface or bond that carries the VLAN.
	// +required
	Link LinkName `json:"link,omitempty"`

	LinkSettings `json:",inline"`
}

// IPPrefix is an IP address with a prefix length.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=43
// +kubebuilder:validation:XValidation:rule="isCIDR(self)",message="must be an IP address with a prefix length, like 192.0.2.10/24 or 2001:db8::10/64"
// +kubebuilder:validation:XValidation:rule="!isCIDR(self) || cidr(self).ip().isGlobalUnicast() || cidr(self).ip().isLinkLocalUnicast()",message="must be the address of a host: this one is a loopback, multicast or unspecified address"
type IPPrefix string

// IPAddress is an IP address.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=39
// +kubebuilder:validation:XValidation:rule="isIP(self)",message="must be an IP address, like 192.0.2.1 or 2001:db8::1"
type IPAddress string

// LinkSettings are the settings of a link.
type LinkSettings struct {
	// mtu is the maximum size of a packet, in bytes. Defaults to 1500, the default of the kernel.
	// +optional
	// +kubebuilder:validation:Minimum=1280
	// +kubebuilder:validation:Maximum=9216
	MTU int32 `json:"mtu,omitempty"`

	// addresses are the static IP addresses of the link with their prefix lengths, such as 192.0.2.10/24 and 2001:db8::10/64.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Addresses []IPPrefix `json:"addresses,omitempty"`

	// dhcp4 enables DHCP for IPv4. Defaults to false.
	// +optional
	DHCP4 bool `json:"dhcp4,omitempty"`

	// dhcp6 enables DHCPv6. Defaults to false.
	// +optional
	DHCP6 bool `json:"dhcp6,omitempty"`

	// routes are the routes over this link.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Routes []NetworkRoute `json:"routes,omitempty"`

	// nameservers are the DNS servers and search domains of this link.
	// +optional
	Nameservers *Nameservers `json:"nameservers,omitempty"`
}

// NetworkRoute is a route.
// +kubebuilder:validation:XValidation:rule="self.to == 'default' || !isCIDR(self.to) || !isIP(self.via) || cidr(self.to).ip().family() == ip(self.via).family()",message="to and via have different address families: an IPv4 route needs an IPv4 gateway, and an IPv6 route an IPv6 gateway"
type NetworkRoute struct {
	// to is the destination network, such as 198.51.100.0/24. "default" is the default route of the address family of via.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=43
	// +kubebuilder:validation:XValidation:rule="self == 'default' || isCIDR(self) && cidr(self) == cidr(self).masked()",message="must be default or a network with a prefix length and no host bits, like 198.51.100.0/24 or 2001:db8:1::/48"
	To string `json:"to,omitempty"`

	// via is the IP address of the gateway. It must be in the network of one of the link's addresses, unless DHCP provides the addresses or via is a
	// link-local IPv6 address.
	// +required
	Via IPAddress `json:"via,omitempty"`

	// metric is the priority among routes to the same network: the route with the smallest metric is used. Without it the operating system chooses.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	Metric int32 `json:"metric,omitempty"`
}

// Nameservers are DNS servers and search domains.
// +kubebuilder:validation:MinProperties=1
type Nameservers struct {
	// addresses are the IP addresses of the DNS servers, in the order in which they are queried.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Addresses []IPAddress `json:"addresses,omitempty"`

	// search are the search domains for names without a dot.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Search []DomainName `json:"search,omitempty"`
}

// DomainName is the name of a DNS domain.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=253
// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?([.][A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?)*$')",message="must be the name of a domain, like example.com"
type DomainName string
