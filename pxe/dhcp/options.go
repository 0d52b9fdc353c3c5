package dhcp

import (
	"net"
	"net/netip"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
)

const (
	// udpOverhead is what IP and UDP put before a message.
	udpOverhead = 28
	// leastSize is the datagram that every client takes (RFC 2131, section 2), mostSize one that no Ethernet breaks up.
	leastSize, mostSize = 576, 1500
	// fileSize is the space for a boot file's name in the header, with the 0 at its end.
	fileSize = 128
	// pxeItem, in option 43, says which boot server a client asks.
	pxeItem = dhcpv4.GenericOptionCode(71)
)

// addAddress adds the address and how long it may be used.
func (x *exchange) addAddress(address netip.Addr) {
	x.reply.YourIPAddr = address.AsSlice()
	x.reply.UpdateOption(dhcpv4.OptIPAddressLeaseTime(x.network.LeaseTime))
}

// addParameters adds what an address needs to be of use.
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

// addBootFile names the boot file in the header and in the options: some firmware reads only the one, some only the other, and shim
// looks for GRUB beside what the header names.
func (x *exchange) addBootFile() {
	if len(x.file) < fileSize {
		x.reply.BootFileName = x.file
	}
	x.reply.UpdateOption(dhcpv4.OptBootFileName(x.file))
	x.reply.ServerIPAddr = x.network.Address.AsSlice()
	// RFC 4578, section 2.3: the client's UUID goes back to it.
	dhcpv4.WithOptionCopied(x.request, dhcpv4.OptionClientMachineIdentifier)(x.reply)
	proxy := x.in.proxy || x.network.Mode == bootconfig.Proxy
	switch {
	case x.client.IPXE && !proxy:
		// iPXE need not wait for a proxy's offer.
		x.reply.UpdateOption(dhcpv4.OptGeneric(optionIPXE, []byte{ipxeNoProxy, 1, 1}))
	case x.client.HTTP:
		// UEFI 2.10, section 24.7.2: the answer must carry the class, or firmware passes it over.
		x.reply.UpdateOption(dhcpv4.OptClassIdentifier(classHTTP))
	default:
		// iPXE too takes the answer of a proxy only with the class.
		x.reply.UpdateOption(dhcpv4.OptClassIdentifier(classPXE))
		server := x.network.Address.String()
		x.reply.ServerHostName = server
		x.reply.UpdateOption(dhcpv4.OptTFTPServerName(server))
		if x.client.bios() || x.client.IPXE || !proxy {
			x.addDiscoveryControl()
		}
	}
}

// addDiscoveryControl adds PXE_DISCOVERY_CONTROL (43, sub-option 6) = 8: boot what this answer names, ask no boot server (PXE 2.1,
// section 2.2.3). A proxy must not send it to UEFI: EDK2 drops the first offer of a proxy that has it. Without it EDK2 takes
// the proxy for a boot server and asks for the file once more at port 4011. The item that a client asks for goes back to it.
func (x *exchange) addDiscoveryControl() {
	control := []byte{6, 1, 8}
	asked := dhcpv4.Options{}
	if err := asked.FromBytes(x.request.Options.Get(dhcpv4.OptionVendorSpecificInformation)); err == nil && len(asked.Get(pxeItem)) == 4 {
		control = append(append(control, pxeItem.Code(), 4), asked.Get(pxeItem)...)
	}
	x.reply.UpdateOption(dhcpv4.OptGeneric(dhcpv4.OptionVendorSpecificInformation, append(control, 255)))
}

// dispensable are options that a boot can do without, the most dispensable first.
var dispensable = []dhcpv4.OptionCode{
	dhcpv4.OptionNTPServers, dhcpv4.OptionDomainName, dhcpv4.OptionInterfaceMTU, dhcpv4.OptionTFTPServerName, dhcpv4.OptionClientMachineIdentifier,
	dhcpv4.OptionDomainNameServer,
}

// fit leaves out what does not fit into the largest message that the client takes (option 57).
func (x *exchange) fit() error {
	size, err := x.request.MaxMessageSize()
	if err != nil {
		size = leastSize
	}
	most := int(min(max(size, leastSize), mostSize)) - udpOverhead
	for _, code := range dispensable {
		if len(x.reply.ToBytes()) <= most {
			return nil
		}
		x.reply.DeleteOption(code)
	}
	// A long client identifier or relay information goes back as it came, in an answer that is no longer than what was asked with.
	if len(x.reply.ToBytes()) > max(most, mostSize-udpOverhead) {
		return silent(unsuitable, "the answer would be too long")
	}
	return nil
}
