package seed

import (
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"slices"
)

// networkData is OpenStack's network_data.json (nova, doc/api_schemas/network_data.json). The fields that OpenStack does not have are marked: cloud-init reads
// them, and other readers ignore them.
type networkData struct {
	Links    []dataLink    `json:"links"`
	Networks []dataNetwork `json:"networks"`
	// Services are the name servers of the system. Those of links with static addresses are with the networks, as in the other formats.
	Services []dataService `json:"services"`
}

type dataLink struct {
	ID   string `json:"id"`
	Type string `json:"type"`
	// Name is an extension.
	Name string  `json:"name,omitempty"`
	MAC  *string `json:"ethernet_mac_address,omitempty"`
	MTU  int     `json:"mtu,omitempty"`

	BondMode       string   `json:"bond_mode,omitempty"`
	BondLinks      []string `json:"bond_links,omitempty"`
	BondHashPolicy string   `json:"bond_xmit_hash_policy,omitempty"`
	BondMonitor    int64    `json:"bond_miimon,omitempty"`
	// BondLACPRate and BondPrimary are extensions: cloud-init takes all keys that start with bond for parameters.
	BondLACPRate string `json:"bond_lacp_rate,omitempty"`
	BondPrimary  string `json:"bond_primary,omitempty"`

	*dataVLAN
}

type dataVLAN struct {
	ID   int    `json:"vlan_id"`
	Link string `json:"vlan_link"`
	// MAC is null: a VLAN has the address of its link. cloud-init demands the key.
	MAC *string `json:"vlan_mac_address"`
}

type dataNetwork struct {
	ID      string      `json:"id"`
	Type    string      `json:"type"`
	Link    string      `json:"link"`
	Address string      `json:"ip_address,omitempty"`
	Netmask string      `json:"netmask,omitempty"`
	Routes  []dataRoute `json:"routes,omitempty"`
	// Services are read by cloud-init from version 23.2, and Nameservers, an extension, by earlier versions.
	Services    []dataService `json:"services,omitempty"`
	Nameservers []netip.Addr  `json:"dns_nameservers,omitempty"`
	// Search is an extension.
	Search []string `json:"dns_search,omitempty"`
}

type dataRoute struct {
	Network string     `json:"network"`
	Netmask string     `json:"netmask"`
	Gateway netip.Addr `json:"gateway"`
	// Metric is an extension.
	Metric int `json:"metric,omitempty"`
}

type dataService struct {
	Type    string     `json:"type"`
	Address netip.Addr `json:"address"`
}

// networkDataFile renders network_data.json. The format has no names for bonds and VLANs: cloud-init calls bonds bond0, bond1 and so on in their order, and
// VLANs LINK.ID. Other names are an error, because the operating system would have other names than the user wrote.
func networkDataFile(n *Network) ([]byte, error) {
	out := networkData{Links: []dataLink{}, Networks: []dataNetwork{}, Services: []dataService{}}
	for _, i := range n.Interfaces {
		link := dataLink{ID: i.Name, Type: "phy", Name: i.Name, MTU: i.MTU}
		if i.MAC != "" {
			link.MAC = &i.MAC
		}
		out.add(link, i.Settings)
	}
	for number, b := range n.Bonds {
		if want := fmt.Sprintf("bond%d", number); b.Name != want {
			return nil, fmt.Errorf("the bond %q: a configuration drive has no names for bonds, cloud-init would call it %q: rename it, or use the data source NoCloud", b.Name, want)
		}
		out.add(dataLink{
			ID: b.Name, Type: "bond", MTU: b.MTU, BondMode: b.Mode, BondLinks: b.Interfaces, BondHashPolicy: b.HashPolicy, BondMonitor: b.Monitor.Milliseconds(),
			BondLACPRate: b.LACPRate, BondPrimary: b.Primary,
		}, b.Settings)
	}
	for _, v := range n.VLANs {
		if want := fmt.Sprintf("%s.%d", v.Link, v.ID); v.Name != want {
			return nil, fmt.Errorf("the VLAN %q: a configuration drive has no names for VLANs, cloud-init would call it %q: rename it, or use the data source NoCloud", v.Name, want)
		}
		out.add(dataLink{ID: v.Name, Type: "vlan", MTU: v.MTU, dataVLAN: &dataVLAN{ID: v.ID, Link: v.Link}}, v.Settings)
	}
	return json.Marshal(out)
}

// add adds a link with its networks: one for each address and each DHCP. Routes are with the first network of their family, name servers with the first of all.
// Static addresses come first: cloud-init 22.4 ignores name servers of a network with DHCP.
func (n *networkData) add(link dataLink, s Settings) {
	n.Links = append(n.Links, link)
	first := len(n.Networks)
	network := func(kind string, v4 bool) *dataNetwork {
		out := dataNetwork{ID: fmt.Sprintf("network%d", len(n.Networks)), Type: kind, Link: link.ID}
		if !slices.ContainsFunc(n.Networks[first:], func(other dataNetwork) bool { return isV4(other.Type) == v4 }) {
			out.Routes = s.dataRoutes(v4)
		}
		if len(n.Networks) == first {
			for _, a := range s.Nameservers {
				out.Services = append(out.Services, dataService{"dns", a})
			}
			out.Nameservers, out.Search = s.Nameservers, s.Search
		}
		n.Networks = append(n.Networks, out)
		return &n.Networks[len(n.Networks)-1]
	}
	for _, a := range s.Addresses {
		kind := "ipv6"
		if a.Addr().Is4() {
			kind = "ipv4"
		}
		added := network(kind, a.Addr().Is4())
		added.Address, added.Netmask = a.Addr().String(), netmask(a)
	}
	if s.DHCP4 {
		network("ipv4_dhcp", true)
	}
	if s.DHCP6 {
		network("ipv6_dhcp", false)
	}
	if len(s.Addresses) == 0 {
		// The name servers of such a link are those of the system.
		for _, a := range s.Nameservers {
			n.Services = append(n.Services, dataService{"dns", a})
		}
	}
}

func isV4(kind string) bool { return kind == "ipv4" || kind == "ipv4_dhcp" }

func (s Settings) dataRoutes(v4 bool) []dataRoute {
	var out []dataRoute
	for _, r := range s.Routes {
		if r.To.Addr().Is4() == v4 {
			out = append(out, dataRoute{r.To.Masked().Addr().String(), netmask(r.To), r.Via, r.Metric})
		}
	}
	return out
}

// netmask returns the length of a prefix as a mask, in the notation of the address.
func netmask(p netip.Prefix) string {
	return net.IP(net.CIDRMask(p.Bits(), p.Addr().BitLen())).String()
}
