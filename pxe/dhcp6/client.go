package dhcp6

import (
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/iana"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/dhcp"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/internal/tftp"
)

const (
	classPXE  = "PXEClient"
	classHTTP = "HTTPClient"
	// intelEnterprise is Intel's enterprise number. EDK2 sends it in its vendor class, and requires it in answers.
	intelEnterprise = 343
)

// Classify classifies a client by options 15 (user class), 16 (vendor class) and 61 (architecture).
func Classify(m *dhcpv6.Message) dhcp.Client {
	var c dhcp.Client
	c.Arch = noArch
	for _, vendor := range m.Options.VendorClasses() {
		for _, data := range vendor.Data {
			class := string(data)
			c.PXE = c.PXE || strings.HasPrefix(class, classPXE)
			c.HTTP = c.HTTP || strings.HasPrefix(class, classHTTP)
			if arch, ok := dhcp.ArchIn(class); ok {
				c.Arch = arch
			}
		}
	}
	for _, class := range m.Options.UserClasses() {
		c.IPXE = c.IPXE || strings.Contains(string(class), "iPXE")
	}
	if archs := m.Options.ArchTypes(); len(archs) > 0 {
		c.Arch = archs[0]
		if i := slices.IndexFunc(archs, func(a iana.Arch) bool { return dhcp.LoaderFor(a, false) != "" }); i >= 0 {
			c.Arch = archs[i]
		}
	}
	return c
}

// noArch is the architecture of a client that sends none. There is no boot loader for it.
const noArch = iana.Arch(0xffff)

// bootURL returns the boot file of a client, empty for none. No BIOS boots over IPv6.
func bootURL(n bootconfig.Network, client dhcp.Client, answer pxe.Answer, mac net.HardwareAddr) string {
	loader := dhcp.LoaderFor(client.Arch, answer.SecureBoot)
	switch {
	case answer.Boot == pxe.Ignore || answer.Boot == pxe.NotYet:
		return ""
	case client.IPXE:
		return n.URL + pxe.ScriptPath(mac)
	case answer.Boot == pxe.Disk || loader == "" || client.Arch == iana.INTEL_X86PC:
		return ""
	case client.HTTP:
		return n.URL + pxe.LoaderPath(mac, loader)
	case client.PXE:
		// RFC 5970, section 3.1: an IPv6 address is in brackets. EDK2 accepts no host name there, and no port.
		return "tftp://[" + n.Address.String() + "]/" + tftp.JoinName(mac, loader)
	default:
		return ""
	}
}

// macs returns the MAC addresses that the client may have, the most likely first. The address that a relay agent reports (RFC 6939) is conclusive. Otherwise
// the sources are the DUID, which may have the address of another interface of the same server, and the client's link-local address, which firmware derives
// from its MAC address (RFC 4291, appendix A). EDK2 needs the latter: its DUID is a UUID.
func (x *exchange) macs() []net.HardwareAddr {
	client := x.in.Source.Addr()
	if len(x.relays) > 0 {
		relay := x.relays[len(x.relays)-1] // the one nearest to the client
		if kind, mac := relay.Options.ClientLinkLayerAddress(); kind == iana.HWTypeEthernet && len(mac) == 6 {
			return []net.HardwareAddr{mac}
		}
		client = addrOf(relay.PeerAddr)
	}
	var macs []net.HardwareAddr
	switch id := x.request.Options.ClientID().(type) {
	case *dhcpv6.DUIDLL:
		macs = appendEthernet(macs, id.HWType, id.LinkLayerAddr)
	case *dhcpv6.DUIDLLT:
		macs = appendEthernet(macs, id.HWType, id.LinkLayerAddr)
	}
	if mac := macIn(client); mac != nil {
		macs = append(macs, mac)
	}
	return macs
}

func appendEthernet(macs []net.HardwareAddr, kind iana.HWType, mac net.HardwareAddr) []net.HardwareAddr {
	if kind == iana.HWTypeEthernet && len(mac) == 6 {
		macs = append(macs, mac)
	}
	return macs
}

// macIn returns the MAC address that a link-local address was derived from, nil if there is none.
func macIn(a netip.Addr) net.HardwareAddr {
	b := a.As16()
	if !a.Is6() || !a.IsLinkLocalUnicast() || b[11] != 0xff || b[12] != 0xfe {
		return nil
	}
	return net.HardwareAddr{b[8] ^ 2, b[9], b[10], b[13], b[14], b[15]}
}

// addrOf returns an IPv6 address of a packet, an invalid one if there is none.
func addrOf(ip net.IP) netip.Addr {
	a, _ := netip.AddrFromSlice(ip)
	if a.IsUnspecified() || a.Is4In6() {
		return netip.Addr{}
	}
	return a
}
