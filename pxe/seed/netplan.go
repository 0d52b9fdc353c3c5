package seed

import "net/netip"

// netplan is cloud-init's network-config version 2, which has the format of netplan.
type netplan struct {
	Version   int                    `json:"version"`
	Ethernets map[string]netplanLink `json:"ethernets"`
	Bonds     map[string]netplanLink `json:"bonds,omitempty"`
	VLANs     map[string]netplanLink `json:"vlans,omitempty"`
}

type netplanLink struct {
	Match       *netplanMatch       `json:"match,omitempty"`
	SetName     string              `json:"set-name,omitempty"`
	Interfaces  []string            `json:"interfaces,omitempty"`
	Parameters  *netplanBond        `json:"parameters,omitempty"`
	ID          int                 `json:"id,omitempty"`
	Link        string              `json:"link,omitempty"`
	MTU         int                 `json:"mtu,omitempty"`
	Addresses   []netip.Prefix      `json:"addresses,omitempty"`
	DHCP4       bool                `json:"dhcp4,omitempty"`
	DHCP6       bool                `json:"dhcp6,omitempty"`
	Routes      []netplanRoute      `json:"routes,omitempty"`
	Nameservers *netplanNameservers `json:"nameservers,omitempty"`
}

type netplanMatch struct {
	MACAddress string `json:"macaddress"`
}

type netplanBond struct {
	Mode               string `json:"mode"`
	MIIMonitorInterval int64  `json:"mii-monitor-interval,omitempty"`
	LACPRate           string `json:"lacp-rate,omitempty"`
	TransmitHashPolicy string `json:"transmit-hash-policy,omitempty"`
	Primary            string `json:"primary,omitempty"`
}

// netplanRoute never contains "default": cloud-init 22.4 understands prefixes only.
type netplanRoute struct {
	To     netip.Prefix `json:"to"`
	Via    netip.Addr   `json:"via"`
	Metric int          `json:"metric,omitempty"`
}

type netplanNameservers struct {
	Addresses []netip.Addr `json:"addresses,omitempty"`
	Search    []string     `json:"search,omitempty"`
}

func (n *Network) netplan() netplan {
	out := netplan{Version: 2, Ethernets: map[string]netplanLink{}, Bonds: map[string]netplanLink{}, VLANs: map[string]netplanLink{}}
	for _, i := range n.Interfaces {
		link := i.netplan()
		if i.MAC != "" {
			link.Match, link.SetName = &netplanMatch{i.MAC}, i.Name
		}
		out.Ethernets[i.Name] = link
	}
	for _, b := range n.Bonds {
		link := b.netplan()
		link.Interfaces = b.Interfaces
		link.Parameters = &netplanBond{b.Mode, b.Monitor.Milliseconds(), b.LACPRate, b.HashPolicy, b.Primary}
		out.Bonds[b.Name] = link
	}
	for _, v := range n.VLANs {
		link := v.netplan()
		link.ID, link.Link = v.ID, v.Link
		out.VLANs[v.Name] = link
	}
	return out
}

func (s Settings) netplan() netplanLink {
	link := netplanLink{MTU: s.MTU, Addresses: s.Addresses, DHCP4: s.DHCP4, DHCP6: s.DHCP6}
	for _, r := range s.Routes {
		link.Routes = append(link.Routes, netplanRoute(r))
	}
	if len(s.Nameservers)+len(s.Search) > 0 {
		link.Nameservers = &netplanNameservers{s.Nameservers, s.Search}
	}
	return link
}
