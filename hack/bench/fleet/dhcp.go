package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// answersDHCP waits until the boot server answers the firmware of a host.
func (f *fleet) answersDHCP(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	server, relay := netip.AddrPortFrom(f.lab.Rack.Address(1), f.lab.Rack.DHCP), f.lab.Rack.Address(2)
	conn, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(relay, 0)))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	mac, err := net.ParseMAC(f.servers[0].MAC)
	if err != nil {
		return err
	}
	discover, err := dhcpv4.NewDiscovery(mac, dhcpv4.WithRelay(relay.AsSlice()),
		dhcpv4.WithOption(dhcpv4.OptRelayAgentInfo(dhcpv4.OptGeneric(dhcpv4.RelaySourcePortSubOption, nil))))
	if err != nil {
		return err
	}
	buffer := make([]byte, 1<<16)
	for ctx.Err() == nil {
		_, sendErr := conn.WriteToUDPAddrPort(discover.ToBytes(), server)
		if err := conn.SetReadDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
			return err
		}
		n, err := conn.Read(buffer)
		if err = errors.Join(sendErr, err); err != nil {
			continue // there is no listener yet
		}
		if answer, err := dhcpv4.FromBytes(buffer[:n]); err == nil && answer.TransactionID == discover.TransactionID {
			return nil
		}
	}
	return fmt.Errorf("the boot server does not answer DHCP: %w", ctx.Err())
}
