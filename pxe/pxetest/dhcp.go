package pxetest

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// dhcp sends DISCOVER and REQUEST, and waits for OFFER and ACK. After a proxy's offer, which has no address, it stops.
func (f *Firmware) dhcp(ctx context.Context, ipxe bool) (*dhcpv4.DHCPv4, error) {
	conn, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(f.Relay, 0)))
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()

	discover, err := dhcpv4.NewDiscovery(f.MAC, f.modifiers(ipxe)...)
	if err != nil {
		return nil, err
	}
	offer, err := f.exchange(ctx, conn, discover, dhcpv4.MessageTypeOffer)
	if err != nil {
		return nil, err
	}
	if offer.YourIPAddr.IsUnspecified() {
		return offer, nil
	}
	request, err := dhcpv4.NewRequestFromOffer(offer, f.modifiers(ipxe)...)
	if err != nil {
		return nil, err
	}
	return f.exchange(ctx, conn, request, dhcpv4.MessageTypeAck)
}

// modifiers return the options of PXE firmware or of iPXE behind a relay agent.
func (f *Firmware) modifiers(ipxe bool) []dhcpv4.Modifier {
	m := []dhcpv4.Modifier{
		dhcpv4.WithRelay(f.Relay.AsSlice()),
		// The relay agent asks for answers at its source port (RFC 8357).
		dhcpv4.WithOption(dhcpv4.OptRelayAgentInfo(dhcpv4.OptGeneric(dhcpv4.RelaySourcePortSubOption, nil))),
		dhcpv4.WithOption(dhcpv4.OptClassIdentifier(fmt.Sprintf("PXEClient:Arch:%05d:UNDI:003016", f.Arch))),
		dhcpv4.WithOption(dhcpv4.OptClientArch(f.Arch)),
	}
	if ipxe {
		m = append(m, dhcpv4.WithUserClass("iPXE", false))
	}
	return m
}

// exchange sends a packet until its answer comes.
func (f *Firmware) exchange(ctx context.Context, conn *net.UDPConn, packet *dhcpv4.DHCPv4, want dhcpv4.MessageType) (*dhcpv4.DHCPv4, error) {
	timeout, attempts := f.Timeout, f.Attempts
	if timeout == 0 {
		timeout = time.Second
	}
	if attempts == 0 {
		attempts = 10
	}
	buffer := make([]byte, 1<<16)
	for range attempts {
		if _, err := conn.WriteToUDPAddrPort(packet.ToBytes(), f.DHCPServer); err != nil {
			return nil, err
		}
		if err := conn.SetReadDeadline(time.Now().Add(timeout)); err != nil {
			return nil, err
		}
		n, err := conn.Read(buffer)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			continue // no answer yet
		}
		answer, err := dhcpv4.FromBytes(buffer[:n])
		if err != nil || answer.TransactionID != packet.TransactionID || answer.MessageType() != want {
			continue
		}
		if answer.BootFileName == "" {
			return nil, ErrNothingToBoot
		}
		return answer, nil
	}
	return nil, ErrNothingToBoot
}
