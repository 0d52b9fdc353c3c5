// Package dhcp6 answers the DHCPv6 requests (RFC 8415) of servers that boot over the network (RFC 5970; UEFI 2.10, section 24.3). In each network it works
// either beside another DHCPv6 server or router advertisements that give the addresses (proxy), or as the only DHCPv6 server (authoritative). It does not
// announce routers: DHCPv6 has no option for them. Servers learn their routers and the prefix length of the network from router advertisements.
//
// In the mode proxy it names the boot file and gives no addresses. It answers INFORMATION-REQUEST, which clients send if their addresses
// come from router advertisements. Beside another DHCPv6 server it answers SOLICIT of UEFI firmware with an ADVERTISE without
// addresses: EDK2 takes the boot file from it and the address from the other server, and every other client must ignore it. RFC 8415
// defines no such server: iPXE finds its script beside a stateful DHCPv6 server only if that server names it.
package dhcp6

import (
	"crypto/sha256"

	"github.com/insomniacslk/dhcp/dhcpv6"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
)

// onLink is true for a network whose multicasts arrive at this machine, and false for one behind a relay agent.
func onLink(n bootconfig.Network) bool { return n.Interface != "" || n.Subnet.Contains(n.Address) }

// identifierOf returns the server identifier (DUID). It is derived from the address: so it stays the same without being stored, and two boot servers on one
// link have different ones (RFC 8415, section 11.5).
func identifierOf(n bootconfig.Network) *dhcpv6.DUIDUUID {
	sum := sha256.Sum256([]byte("cluster-api-provider-baremetal DHCPv6 " + n.Address.String()))
	id := &dhcpv6.DUIDUUID{UUID: [16]byte(sum[:])}
	// Version 8 is for UUIDs with a custom derivation (RFC 9562, section 5.8).
	id.UUID[6] = id.UUID[6]&0x0f | 0x80
	id.UUID[8] = id.UUID[8]&0x3f | 0x80
	return id
}
