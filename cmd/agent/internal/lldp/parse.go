package lldp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent/printable"
)

// The types of TLVs (IEEE 802.1AB-2016, table 8-1).
const (
	tlvEnd               = 0
	tlvChassisID         = 1
	tlvPortID            = 2
	tlvTTL               = 3
	tlvPortDescription   = 4
	tlvSystemName        = 5
	tlvSystemDescription = 6
	tlvManagementAddress = 8
	tlvOrganization      = 127
)

// The subtypes of IDs that are no text (tables 8-2 and 8-3).
const (
	chassisMAC     = 4
	chassisAddress = 5
	portMAC        = 3
	portAddress    = 4
)

// The port VLAN ID (IEEE 802.1Q-2018, D.2.1): the organization 00-80-C2, subtype 1.
const portVLAN = "\x00\x80\xc2\x01"

const (
	// maxTLVs is the maximum number of TLVs that are read. A frame has about 20.
	maxTLVs = 256
	// maxText is the maximum length of a text in bytes: that of a TLV of its kind in the standard.
	maxText = 255
	// familyIPv4 and familyIPv6 are address family numbers of IANA.
	familyIPv4 = 1
	familyIPv6 = 2
)

// Parse parses an LLDPDU: a frame without its Ethernet header. The frame must begin with chassis ID, port ID and TTL (8.2). Damage after these is ignored: what
// precedes it is returned. Texts are valid UTF-8 without control characters, of at most 255 bytes. A TTL of zero means that the switch is going down (8.5.4.1): it is
// an error, because the neighbour is not there any more.
func Parse(frame []byte) (wire.InspectedNeighbor, error) {
	var n wire.InspectedNeighbor
	for i := range maxTLVs {
		kind, value, rest, ok := next(frame)
		if want := i + 1; i < tlvTTL && (!ok || kind != want || len(value) < 2) {
			return wire.InspectedNeighbor{}, fmt.Errorf("the frame has no TLV of the type %d at its place", want)
		}
		if !ok || kind == tlvEnd {
			break
		}
		frame = rest
		if kind == tlvTTL && i == tlvTTL-1 && binary.BigEndian.Uint16(value) == 0 {
			return wire.InspectedNeighbor{}, errors.New("the neighbour says that it goes down")
		}
		// The first three TLVs must not be repeated (8.2).
		if kind > tlvTTL || i < tlvTTL {
			add(&n, kind, value)
		}
	}
	return n, nil
}

// next returns the first TLV: seven bits of type, nine bits of length, and the value (8.4).
func next(frame []byte) (kind int, value, rest []byte, ok bool) {
	if len(frame) < 2 {
		return 0, nil, nil, false
	}
	header := int(binary.BigEndian.Uint16(frame))
	length := header & 0x1ff
	if length > len(frame)-2 {
		return 0, nil, nil, false
	}
	return header >> 9, frame[2 : 2+length], frame[2+length:], true
}

func add(n *wire.InspectedNeighbor, kind int, value []byte) {
	switch kind {
	case tlvChassisID:
		n.ChassisID = id(value, chassisMAC, chassisAddress)
	case tlvPortID:
		n.PortID = id(value, portMAC, portAddress)
	case tlvPortDescription:
		n.PortDescription = printable.Line(string(value), maxText)
	case tlvSystemName:
		n.SystemName = printable.Line(string(value), maxText)
	case tlvSystemDescription:
		n.SystemDescription = printable.Line(string(value), maxText)
	case tlvManagementAddress:
		// The length of subtype and address, and these (8.5.9). A switch may send several: the first one is its own choice.
		if len(value) > 1 && int(value[0]) >= 1 && int(value[0]) < len(value) && n.ManagementAddress == "" {
			n.ManagementAddress = address(value[1 : 1+int(value[0])])
		}
	case tlvOrganization:
		if vlan, ok := strings.CutPrefix(string(value), portVLAN); ok && len(vlan) == 2 {
			// 0 means that the port has no VLAN, and 4095 is reserved.
			if id := binary.BigEndian.Uint16([]byte(vlan)); id > 0 && id < 4095 {
				n.VLAN = int32(id)
			}
		}
	}
}

// id returns a chassis ID or a port ID: a MAC address, a network address or text.
func id(value []byte, mac, network byte) string {
	subtype, value := value[0], value[1:]
	switch {
	case subtype == mac && len(value) == 6:
		return net.HardwareAddr(value).String()
	case subtype == network && address(value) != "":
		return address(value)
	default:
		return printable.Line(string(value), maxText)
	}
}

// address returns an address behind its family, or "" for another family than IPv4 and IPv6.
func address(value []byte) string {
	switch {
	case len(value) == 5 && value[0] == familyIPv4:
		return netip.AddrFrom4([4]byte(value[1:])).String()
	case len(value) == 17 && value[0] == familyIPv6:
		return netip.AddrFrom16([16]byte(value[1:])).String()
	default:
		return ""
	}
}
