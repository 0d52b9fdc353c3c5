package boot

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed"
)

// Network converts the network of a host's spec for the boot server. It returns nil for nil. The API server has validated it; an address that does not parse
// is an error.
func Network(n *v1alpha1.HostNetwork) (*seed.Network, error) {
	if n == nil {
		return nil, nil //nolint:nilnil // without a network the image decides
	}
	var c networkReader
	out := &seed.Network{}
	for _, i := range n.Interfaces {
		out.Interfaces = append(out.Interfaces, seed.Interface{Name: string(i.Name), MAC: i.MACAddress, Settings: c.settings(i.LinkSettings)})
	}
	for _, b := range n.Bonds {
		out.Bonds = append(out.Bonds, seed.Bond{
			Name: string(b.Name), Interfaces: toStrings(b.Interfaces), Mode: string(b.Parameters.Mode), LACPRate: b.Parameters.LACPRate,
			HashPolicy: b.Parameters.TransmitHashPolicy, Monitor: time.Duration(b.Parameters.MIIMonitorIntervalMilliseconds) * time.Millisecond,
			Primary: string(b.Parameters.Primary), Settings: c.settings(b.LinkSettings),
		})
	}
	for _, v := range n.VLANs {
		out.VLANs = append(out.VLANs, seed.VLAN{Name: string(v.Name), ID: int(v.ID), Link: string(v.Link), Settings: c.settings(v.LinkSettings)})
	}
	if c.err != nil {
		return nil, fmt.Errorf("spec.network of the host: %w", c.err)
	}
	return out, nil
}

// networkReader parses addresses, and collects the errors.
type networkReader struct{ err error }

func (c *networkReader) settings(s v1alpha1.LinkSettings) seed.Settings {
	out := seed.Settings{MTU: int(s.MTU), DHCP4: s.DHCP4, DHCP6: s.DHCP6}
	for _, a := range s.Addresses {
		out.Addresses = append(out.Addresses, c.prefix(string(a)))
	}
	for _, r := range s.Routes {
		route := seed.Route{Via: c.address(r.Via), Metric: int(r.Metric)}
		if r.To == "default" {
			route.To = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
			if route.Via.Is4() {
				route.To = netip.PrefixFrom(netip.IPv4Unspecified(), 0)
			}
		} else {
			route.To = c.prefix(r.To)
		}
		out.Routes = append(out.Routes, route)
	}
	if s.Nameservers != nil {
		for _, a := range s.Nameservers.Addresses {
			out.Nameservers = append(out.Nameservers, c.address(a))
		}
		out.Search = toStrings(s.Nameservers.Search)
	}
	return out
}

func (c *networkReader) prefix(text string) netip.Prefix {
	p, err := netip.ParsePrefix(text)
	c.err = errors.Join(c.err, err)
	return p
}

func (c *networkReader) address(text v1alpha1.IPAddress) netip.Addr {
	a, err := netip.ParseAddr(string(text))
	c.err = errors.Join(c.err, err)
	return a
}

func toStrings[T ~string](in []T) []string {
	var out []string
	for _, t := range in {
		out = append(out, string(t))
	}
	return out
}
