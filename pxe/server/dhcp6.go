package server

import (
	"context"
	"net"
	"slices"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/dhcp6"
)

// startDHCP6 listens for DHCPv6 if a network needs it.
func (s *Server) startDHCP6(listen func(name, network, address string, serve func(context.Context, net.PacketConn) error) error) error {
	networks := slices.DeleteFunc(slices.Clone(s.Config.Networks), func(n bootconfig.Network) bool { return !n.Address.Is6() })
	if !slices.ContainsFunc(networks, func(n bootconfig.Network) bool { return n.Mode != bootconfig.Off }) {
		return nil
	}
	answers, err := dhcp6.New(&dhcp6.Server{Networks: networks, Booter: s.Booter, Log: s.Log.WithName("dhcp6"), Metrics: s.DHCP6Metrics})
	if err != nil {
		return err
	}
	if err := listen("DHCPv6", "udp6", s.Config.DHCP6Address, answers.Serve); err != nil {
		return err
	}
	if s.Config.DHCP6ProxyAddress == "" || !slices.ContainsFunc(networks, func(n bootconfig.Network) bool { return n.Mode == bootconfig.Proxy }) {
		return nil
	}
	return listen("proxy DHCPv6", "udp6", s.Config.DHCP6ProxyAddress, answers.Serve)
}
