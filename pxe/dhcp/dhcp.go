// Package dhcp answers the DHCPv4 (RFC 2131) of servers that boot over the network (PXE 2.1, RFC 4578), either beside another
// DHCP server, which gives the addresses (proxy), or alone (authoritative).
package dhcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/tftp"
)

// Mode says who gives addresses.
type Mode string

// The modes.
const (
	// Off answers nothing: the operator's own DHCP server points at this one.
	Off Mode = "off"
	// Proxy adds the boot file to what another DHCP server answers.
	Proxy Mode = "proxy"
	// Authoritative gives addresses too, to the servers of the inventory and to no other.
	Authoritative Mode = "authoritative"
)

// Config is what the answers are made of.
type Config struct {
	Mode Mode
	// Address is the address of the boot server: of TFTP, and as the DHCP server's identifier.
	Address netip.Addr
	// BaseURL is where HTTP is served, without a slash at its end.
	BaseURL string
	// Network is the network that addresses are given in, in the authoritative mode.
	Network netip.Prefix
	// Router and DNS go with the addresses. Both may be empty.
	Router netip.Addr
	DNS    []netip.Addr
	// LeaseTime is how long an address may be used without asking again. Defaults to an hour.
	LeaseTime time.Duration
}

// Client is what a DHCP client says it is.
type Client struct {
	// PXE is true for firmware that boots over the network.
	PXE bool
	// HTTP is true for UEFI HTTP boot.
	HTTP bool
	// IPXE is true for iPXE: it takes the script right away.
	IPXE bool
	// Arch is the firmware's architecture (RFC 4578, section 2.1).
	Arch iana.Arch
}

func (c Client) String() string {
	kind := "PXE"
	switch {
	case c.IPXE:
		kind = "iPXE"
	case c.HTTP:
		kind = "UEFI HTTP boot"
	case !c.PXE:
		return "DHCP client"
	}
	return kind + ", " + c.Arch.String()
}

// Classify tells what a client is by options 60 (vendor class), 77 (user class) and 93 (architecture).
func Classify(request *dhcpv4.DHCPv4) Client {
	vendor := request.ClassIdentifier()
	c := Client{PXE: strings.HasPrefix(vendor, "PXEClient"), HTTP: strings.HasPrefix(vendor, "HTTPClient")}
	for _, class := range request.UserClass() {
		// iPXE sends its name without the length that RFC 3004 puts before it.
		c.IPXE = c.IPXE || strings.Contains(class, "iPXE")
	}
	if archs := request.ClientArch(); len(archs) > 0 {
		c.Arch = archs[0]
	}
	return c
}

// loaders are the boot loaders by architecture, named as in the folder that TFTP serves. The numbers of the two UEFI x64
// entries were swapped in RFC 4578; firmware sends either.
var loaders = map[iana.Arch]string{
	iana.INTEL_X86PC:     "undionly.kpxe",
	iana.EFI_BC:          "snponly.efi",
	iana.EFI_X86_64:      "snponly.efi",
	iana.EFI_X86_64_HTTP: "snponly.efi",
	iana.EFI_ARM64:       "snponly-arm64.efi",
	iana.EFI_ARM64_HTTP:  "snponly-arm64.efi",
}

// bootFile returns what a client is told to load, empty for nothing.
func (c Config) bootFile(client Client, answer pxe.Answer, mac net.HardwareAddr) string {
	loader := loaders[client.Arch]
	switch {
	case answer.Boot == pxe.Ignore || !client.IPXE && !client.PXE && !client.HTTP:
		return ""
	case client.IPXE:
		return c.BaseURL + pxe.ScriptPath(mac)
	case answer.Boot == pxe.Disk && !answer.Legacy || loader == "":
		// UEFI firmware goes on to the disk when the network has nothing for it; a BIOS may try the network for ever.
		return ""
	case client.HTTP:
		return c.BaseURL + pxe.LoaderPath(mac, loader)
	default:
		return tftp.JoinName(mac, loader)
	}
}

// silentError is why a request gets no answer.
type silentError string

func (e silentError) Error() string { return string(e) }

// Reply returns the answer to a request. The error says why there is none, which is normal: the wire is full of requests that
// are for others.
func (c Config) Reply(ctx context.Context, booter pxe.Booter, request *dhcpv4.DHCPv4) (*dhcpv4.DHCPv4, error) {
	if request.OpCode != dhcpv4.OpcodeBootRequest || len(request.ClientHWAddr) != 6 {
		return nil, silentError("not a request of an Ethernet interface")
	}
	kind, ok := map[dhcpv4.MessageType]dhcpv4.MessageType{
		dhcpv4.MessageTypeDiscover: dhcpv4.MessageTypeOffer,
		dhcpv4.MessageTypeRequest:  dhcpv4.MessageTypeAck,
	}[request.MessageType()]
	if !ok {
		return nil, silentError("neither DISCOVER nor REQUEST")
	}
	if id := request.ServerIdentifier(); id != nil && !id.Equal(c.Address.AsSlice()) {
		return nil, silentError("for another server")
	}
	answer, err := booter.Lookup(ctx, request.ClientHWAddr)
	if err != nil {
		return nil, err
	}
	if !answer.Known {
		return nil, silentError("not a server of the inventory")
	}
	client := Classify(request)
	file := c.bootFile(client, answer, request.ClientHWAddr)
	if file == "" && c.Mode == Proxy {
		return nil, silentError("nothing to boot")
	}
	reply, err := dhcpv4.NewReplyFromRequest(request,
		dhcpv4.WithMessageType(kind), dhcpv4.WithServerIP(c.Address.AsSlice()),
		dhcpv4.WithOption(dhcpv4.OptServerIdentifier(c.Address.AsSlice())),
		// RFC 4578, section 2.3: the client's UUID goes back to it.
		dhcpv4.WithOptionCopied(request, dhcpv4.OptionClientMachineIdentifier),
	)
	if err != nil {
		return nil, err
	}
	if c.Mode == Authoritative {
		if err := c.addAddress(ctx, booter, request, reply); err != nil {
			return nil, err
		}
	}
	if file != "" {
		addBootFile(reply, client, file)
	}
	return reply, nil
}

// addAddress adds the address that the server keeps. A REQUEST for another one is refused, so that the client asks anew.
func (c Config) addAddress(ctx context.Context, booter pxe.Booter, request, reply *dhcpv4.DHCPv4) error {
	address, err := booter.Lease(ctx, request.ClientHWAddr)
	if err != nil {
		return fmt.Errorf("find an address: %w", err)
	}
	wanted := request.RequestedIPAddress()
	if wanted == nil {
		wanted = request.ClientIPAddr
	}
	if request.MessageType() == dhcpv4.MessageTypeRequest && !wanted.Equal(address.AsSlice()) {
		reply.UpdateOption(dhcpv4.OptMessageType(dhcpv4.MessageTypeNak))
		return nil
	}
	lease := c.LeaseTime
	if lease == 0 {
		lease = time.Hour
	}
	reply.YourIPAddr = address.AsSlice()
	reply.UpdateOption(dhcpv4.OptIPAddressLeaseTime(lease))
	reply.UpdateOption(dhcpv4.OptSubnetMask(net.CIDRMask(c.Network.Bits(), 32)))
	if c.Router.IsValid() {
		reply.UpdateOption(dhcpv4.OptRouter(c.Router.AsSlice()))
	}
	if len(c.DNS) > 0 {
		servers := make([]net.IP, len(c.DNS))
		for i, server := range c.DNS {
			servers[i] = server.AsSlice()
		}
		reply.UpdateOption(dhcpv4.OptDNS(servers...))
	}
	return nil
}

// addBootFile names the boot file in the header and in the options: some firmware reads only the one, some only the other.
func addBootFile(reply *dhcpv4.DHCPv4, client Client, file string) {
	reply.BootFileName = file
	reply.UpdateOption(dhcpv4.OptBootFileName(file))
	switch {
	case client.IPXE:
		// no-pxedhcp (175, sub-option 176): iPXE need not wait for a proxy's answer.
		reply.UpdateOption(dhcpv4.OptGeneric(dhcpv4.GenericOptionCode(175), []byte{176, 1, 1}))
	case client.HTTP:
		// UEFI 2.10, section 24.7.2: the answer must carry the class, or firmware passes it over.
		reply.UpdateOption(dhcpv4.OptClassIdentifier("HTTPClient"))
	default:
		reply.UpdateOption(dhcpv4.OptClassIdentifier("PXEClient"))
		reply.UpdateOption(dhcpv4.OptTFTPServerName(reply.ServerIPAddr.String()))
		// PXE_DISCOVERY_CONTROL (43, sub-option 6) = 8: boot what this answer names, ask no boot server (PXE 2.1, section 2.2.3).
		reply.UpdateOption(dhcpv4.OptGeneric(dhcpv4.OptionVendorSpecificInformation, []byte{6, 1, 8, 255}))
	}
}

// silent is true for the errors of Reply that are normal.
func silent(err error) bool {
	var e silentError
	return errors.As(err, &e)
}
