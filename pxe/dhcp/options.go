package dhcp

import (
	"net"
	"net/netip"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
)

const (
	// udpOverhead is the size of the IP and UDP headers.
	udpOverhead = 28
	// minMessageSize is the datagram that every client accepts (RFC 2131, section 2), maxMessageSize the largest that Ethernet does not fragment.
	minMessageSize, maxMessageSize = 576, 1500
	// bootFileFieldSize is the size of the header field for the boot file's name, with its final 0.
	bootFileFieldSize = 128
	// pxeItem, in option 43, names the boot server that a client asks.
	pxeItem = dhcpv4.GenericOptionCode(71)
)

// addAddress adds the address with its lease time.
func (x *exchange) addAddress(address netip.Addr) {
	x.reply.YourIPAddr = address.AsSlice()
	x.reply.UpdateOption(dhcpv4.OptIPAddressLeaseTime(x.network.LeaseTime))
}

// addParameters adds the configuration that belongs to an address.
func (x *exchange) addParameters() {
	n := x.network
	x.reply.UpdateOption(dhcpv4.OptSubnetMask(net.CIDRMask(n.Subnet.Bits(), 32)))
	if n.Router.IsValid() {
		x.reply.UpdateOption(dhcpv4.OptRouter(n.Router.AsSlice()))
	}
	if len(n.DNS) > 0 {
		x.reply.UpdateOption(dhcpv4.OptDNS(slicesOf(n.DNS)...))
	}
	if n.Domain != "" {
		x.reply.UpdateOption(dhcpv4.OptDomainName(n.Domain))
	}
	if len(n.NTP) > 0 {
		x.reply.UpdateOption(dhcpv4.OptNTPServers(slicesOf(n.NTP)...))
	}
	if n.MTU > 0 {
		x.reply.UpdateOption(dhcpv4.Option{Code: dhcpv4.OptionInterfaceMTU, Value: dhcpv4.Uint16(n.MTU)})
	}
}

func slicesOf(addresses []netip.Addr) []net.IP {
	out := make([]net.IP, len(addresses))
	for i, a := range addresses {
		out[i] = a.AsSlice()
	}
	return out
}

// addBootFile names the boot file in the header and in the options. Some firmware reads only one of them, and shim looks for GRUB next to the file that
// the header names.
func (x *exchange) addBootFile() {
	if len(x.file) < bootFileFieldSize {
		x.reply.BootFileName = x.file
	}
	x.reply.UpdateOption(dhcpv4.OptBootFileName(x.file))
	x.reply.ServerIPAddr = x.network.Address.AsSlice()
	// RFC 4578, section 2.3: the server returns the client's UUID.
	dhcpv4.WithOptionCopied(x.request, dhcpv4.OptionClientMachineIdentifier)(x.reply)
	proxy := x.in.proxy || x.network.Mode == bootconfig.Proxy
	switch {
	case x.client.IPXE && !proxy:
		// iPXE does not need to wait for a proxy's offer.
		x.reply.UpdateOption(dhcpv4.OptGeneric(optionIPXE, []byte{ipxeNoProxy, 1, 1}))
	case x.client.HTTP:
		// UEFI 2.10, section 24.7.2: firmware ignores an answer without the class.
		x.reply.UpdateOption(dhcpv4.OptClassIdentifier(classHTTP))
	default:
		// iPXE accepts the answer of a proxy only with the class, too.
		x.reply.UpdateOption(dhcpv4.OptClassIdentifier(classPXE))
		server := x.network.Address.String()
		x.reply.ServerHostName = server
		x.reply.UpdateOption(dhcpv4.OptTFTPServerName(server))
		if x.client.bios() || x.client.IPXE || !proxy {
			x.addDiscoveryControl()
		}
	}
}

// addDiscoveryControl adds PXE_DISCOVERY_CONTROL (43, sub-option 6) = 8: boot the file of this answer, ask no boot server (PXE 2.1, section 2.2.3). A proxy
// must not send it to UEFI: EDK2 drops the first offer of a proxy that has it. Without it EDK2 treats the proxy as a boot server and asks for the file once
// more at port 4011. The answer returns the item that a client asks for.
func (x *exchange) addDiscoveryControl() {
	control := []byte{6, 1, 8}
	asked := dhcpv4.Options{}
	if err := asked.FromBytes(x.request.Options.Get(dhcpv4.OptionVendorSpecificInformation)); err == nil && len(asked.Get(pxeItem)) == 4 {
		control = append(append(control, pxeItem.Code(), 4), asked.Get(pxeItem)...)
	}
	x.reply.UpdateOption(dhcpv4.OptGeneric(dhcpv4.OptionVendorSpecificInformation, append(control, 255)))
}

// droppableOptions are options that a boot does not need, in the order in which they are dropped.
var droppableOptions = []dhcpv4.OptionCode{
	dhcpv4.OptionNTPServers, dhcpv4.OptionDomainName, dhcpv4.OptionInterfaceMTU, dhcpv4.OptionTFTPServerName, dhcpv4.OptionClientMachineIdentifier,
	dhcpv4.OptionDomainNameServer,
}

// fit drops options until the answer fits into the largest message that the client accepts (option 57).
func (x *exchange) fit() error {
	size, err := x.request.MaxMessageSize()
	if err != nil {
		size = minMessageSize
	}
	limit := int(min(max(size, minMessageSize), maxMessageSize)) - udpOverhead
	for _, code := range droppableOptions {
		if len(x.reply.ToBytes()) <= limit {
			return nil
		}
		x.reply.DeleteOption(code)
	}
	// A long client identifier or relay information is returned as it came, so the answer may be longer, but no longer than an Ethernet frame.
	if len(x.reply.ToBytes()) > max(limit, maxMessageSize-udpOverhead) {
		return NoReply(ResultUnsuitable, "the answer would be too long")
	}
	return nil
}
