package pxetest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/pin/tftp/v3"
)

// Firmware6 is a UEFI server's firmware that boots over IPv6. It sends DHCPv6 through a relay agent.
type Firmware6 struct {
	Firmware

	// Server is the address that the relay agent forwards to, and Link the agent's address on the firmware's link.
	Server netip.AddrPort
	Link   netip.Addr
	// HTTP makes it boot over HTTP instead of TFTP.
	HTTP bool
	// Stateless makes it ask for the boot file only. Its address comes from router advertisements.
	Stateless bool
}

// Boot boots over the network. It returns after the seed was read, when the operating system would start its work.
func (f *Firmware6) Boot(ctx context.Context) (*System, error) {
	offer, err := f.ask(ctx, false)
	if err != nil {
		return nil, fmt.Errorf("DHCPv6 of the firmware: %w", err)
	}
	if err := f.fetchLoader(ctx, offer); err != nil {
		return nil, fmt.Errorf("load the boot loader: %w", err)
	}
	reply, err := f.ask(ctx, true)
	if err != nil {
		return nil, fmt.Errorf("DHCPv6 of iPXE: %w", err)
	}
	// Its requests come from any address of this machine: IPv6 has only one loopback address.
	s := &System{Address: addressIn(reply), client: &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}}
	if err := f.runScript(ctx, s, reply.Options.BootFileURL()); err != nil || s.Disk {
		return s, err
	}
	if s.Agent = agentOf(s.CommandLine); s.Agent != nil {
		return s, nil
	}
	if err := s.readSeed(ctx); err != nil {
		return nil, fmt.Errorf("read the seed: %w", err)
	}
	return s, nil
}

// Ask sends the DHCPv6 request of iPXE. The answer names its script.
func (f *Firmware6) Ask(ctx context.Context) (*dhcpv6.Message, error) { return f.ask(ctx, true) }

func addressIn(reply *dhcpv6.Message) netip.Addr {
	ia := reply.Options.OneIANA()
	if ia == nil || ia.Options.OneAddress() == nil {
		return netip.Addr{}
	}
	a, _ := netip.AddrFromSlice(ia.Options.OneAddress().IPv6Addr)
	return a
}

// ask exchanges SOLICIT, ADVERTISE, REQUEST and REPLY, or INFORMATION-REQUEST and REPLY.
func (f *Firmware6) ask(ctx context.Context, ipxe bool) (*dhcpv6.Message, error) {
	solicit, err := dhcpv6.NewSolicit(f.MAC, f.modifiers6(ipxe)...)
	if err != nil {
		return nil, err
	}
	if f.Stateless {
		solicit.MessageType = dhcpv6.MessageTypeInformationRequest
		solicit.Options.Del(dhcpv6.OptionIANA)
		return f.exchange6(ctx, solicit)
	}
	advertise, err := f.exchange6(ctx, solicit)
	if err != nil {
		return nil, err
	}
	request, err := dhcpv6.NewRequestFromAdvertise(advertise, f.modifiers6(ipxe)...)
	if err != nil {
		return nil, err
	}
	return f.exchange6(ctx, request)
}

// modifiers6 return the options of UEFI firmware, as EDK2 writes them, or of iPXE.
func (f *Firmware6) modifiers6(ipxe bool) []dhcpv6.Modifier {
	class := "PXEClient"
	if f.HTTP && !ipxe {
		class = "HTTPClient"
	}
	class = fmt.Sprintf("%s:Arch:%05d:UNDI:003001", class, f.Arch)
	m := []dhcpv6.Modifier{
		dhcpv6.WithNetboot, dhcpv6.WithArchType(f.Arch),
		func(d dhcpv6.DHCPv6) {
			d.UpdateOption(&dhcpv6.OptVendorClass{EnterpriseNumber: 343, Data: [][]byte{[]byte(class)}})
		},
	}
	if ipxe {
		m = append(m, dhcpv6.WithUserClass([]byte("iPXE")))
	}
	return m
}

// exchange6 sends a message until its answer comes.
func (f *Firmware6) exchange6(ctx context.Context, message *dhcpv6.Message) (*dhcpv6.Message, error) {
	conn, err := (&net.ListenConfig{}).ListenPacket(ctx, "udp6", "[::1]:0")
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	relayed, err := dhcpv6.EncapsulateRelay(message, dhcpv6.MessageTypeRelayForward, f.Link.AsSlice(), net.ParseIP("fe80::1"))
	if err != nil {
		return nil, err
	}
	// The relay agent asks for answers at its source port (RFC 8357).
	relayed.AddOption(dhcpv6.OptRelayPort(0))
	buffer := make([]byte, 1<<16)
	for range cmp.Or(f.Attempts, 10) {
		if _, err := conn.WriteTo(relayed.ToBytes(), net.UDPAddrFromAddrPort(f.Server)); err != nil {
			return nil, err
		}
		if err := conn.SetReadDeadline(time.Now().Add(cmp.Or(f.Timeout, time.Second))); err != nil {
			return nil, err
		}
		n, _, err := conn.ReadFrom(buffer)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			continue // no answer yet
		}
		packet, err := dhcpv6.FromBytes(buffer[:n])
		if err != nil {
			return nil, err
		}
		answer, err := packet.GetInnerMessage()
		if err != nil || answer.TransactionID != message.TransactionID {
			continue
		}
		if answer.Options.BootFileURL() == "" {
			return nil, ErrNothingToBoot
		}
		return answer, nil
	}
	return nil, ErrNothingToBoot
}

// fetchLoader fetches the boot loader over TFTP or HTTP.
func (f *Firmware6) fetchLoader(ctx context.Context, offer *dhcpv6.Message) error {
	from, err := url.Parse(offer.Options.BootFileURL())
	if err != nil {
		return err
	}
	var loader bytes.Buffer
	switch from.Scheme {
	case "http":
		// UEFI HTTP boot ignores an answer without its class.
		if class := offer.Options.VendorClass(343); len(class) == 0 || string(class[0]) != "HTTPClient" {
			return errors.New("the answer is not for HTTP boot")
		}
		content, err := get(ctx, http.DefaultClient, from.String())
		if err != nil {
			return err
		}
		loader.Write(content)
	case "tftp":
		client, err := tftp.NewClient(net.JoinHostPort(from.Hostname(), strconv.Itoa(int(f.TFTPPort))))
		if err != nil {
			return err
		}
		file, err := client.Receive(strings.TrimPrefix(from.Path, "/"), "octet")
		if err != nil {
			return err
		}
		if _, err := file.WriteTo(&loader); err != nil {
			return err
		}
	}
	if loader.Len() == 0 {
		return fmt.Errorf("no boot loader at %s", from)
	}
	return nil
}
