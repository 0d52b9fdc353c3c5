package hardware

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
)

// BMC sends commands to the BMC of the server over its system interface.
type BMC interface {
	// Command sends an IPMI request and returns the data of its response with the completion code first. It returns ErrNoBMC for a server
	// without a BMC. If the BMC does not answer before ctx ends, the error wraps the cause of ctx.
	Command(ctx context.Context, netFn, command byte, data []byte) ([]byte, error)
}

// ErrNoBMC means that the kernel found no BMC.
var ErrNoBMC = errors.New("the kernel found no BMC")

// The network functions and commands (Intelligent Platform Management Interface Specification v2.0, rev. 1.1, appendix G).
const (
	netFnApp       = 0x06
	netFnTransport = 0x0c

	getDeviceID      = 0x01 // 20.1
	getChannelInfo   = 0x42 // 22.24
	getLANParameters = 0x02 // 23.2

	parameterAddress          = 3
	parameterMAC              = 5
	parameterStaticIPv6       = 56
	parameterDynamicIPv6      = 59
	mediumLAN                 = 4
	maxChannel                = 0x0b
	maxIPv6Sets               = 8
	completionOK              = 0x00
	staticIPv6Enabled    byte = 1 << 7
)

// bmc returns the LAN configuration of the BMC: that of the first LAN channel with an address, or otherwise of the first one with a MAC address.
func (c *collector) bmc(ctx context.Context) *wire.InspectedBMC {
	if c.BMC == nil {
		return nil
	}
	id, err := request(ctx, c.BMC, netFnApp, getDeviceID, nil)
	if errors.Is(err, ErrNoBMC) {
		return nil
	}
	if err != nil {
		c.problemf("BMC: Get Device ID: %v", err)
		return nil
	}
	out := wire.InspectedBMC{FirmwareVersion: parseDeviceID(id)}
	for channel := byte(1); channel <= maxChannel; channel++ {
		info, err := request(ctx, c.BMC, netFnApp, getChannelInfo, []byte{channel})
		if ctx.Err() != nil {
			c.problemf("BMC: Get Channel Info: %v", err)
			break
		}
		if err != nil || len(info) < 2 || info[1]&0x7f != mediumLAN {
			continue // a BMC refuses the numbers of channels that it does not have
		}
		lan, err := readLAN(ctx, c.BMC, channel)
		if err != nil {
			c.problemf("BMC: the LAN configuration of channel %d: %v", channel, err)
		}
		lan.FirmwareVersion = out.FirmwareVersion
		if lan.Address != "" || lan.Address6 != "" {
			return &lan
		}
		if out.MACAddress == "" {
			out = lan
		}
	}
	return &out
}

// readLAN reads the LAN configuration of a channel.
func readLAN(ctx context.Context, bmc BMC, channel byte) (wire.InspectedBMC, error) {
	var lan wire.InspectedBMC
	address, err := lanParameter(ctx, bmc, channel, parameterAddress, 0)
	if err != nil {
		return lan, err
	}
	lan.Address = parseIPv4(address)
	mac, err := lanParameter(ctx, bmc, channel, parameterMAC, 0)
	if err != nil {
		return lan, err
	}
	lan.MACAddress = parseMAC(mac)
	for _, parameter := range []byte{parameterStaticIPv6, parameterDynamicIPv6} {
		for set := range byte(maxIPv6Sets) {
			data, err := lanParameter(ctx, bmc, channel, parameter, set)
			if err != nil {
				break // a BMC without IPv6 refuses the parameter, and one with it refuses the first set that it does not have
			}
			if lan.Address6 == "" {
				lan.Address6 = parseIPv6(data, parameter == parameterStaticIPv6)
			}
		}
	}
	return lan, nil
}

// lanParameter returns the data of a parameter without its revision.
func lanParameter(ctx context.Context, bmc BMC, channel, parameter, set byte) ([]byte, error) {
	data, err := request(ctx, bmc, netFnTransport, getLANParameters, []byte{channel, parameter, set, 0})
	if err == nil && len(data) < 1 {
		err = errors.New("the response is empty")
	}
	if err != nil {
		return nil, fmt.Errorf("parameter %d: %w", parameter, err)
	}
	return data[1:], nil
}

// request sends a request and returns the data behind the completion code.
func request(ctx context.Context, bmc BMC, netFn, command byte, data []byte) ([]byte, error) {
	response, err := bmc.Command(ctx, netFn, command, data)
	switch {
	case err != nil:
		return nil, err
	case len(response) == 0:
		return nil, errors.New("the response has no completion code")
	case response[0] != completionOK:
		return nil, fmt.Errorf("completion code %#02x", response[0])
	default:
		return response[1:], nil
	}
}

// parseDeviceID returns the firmware revision: a binary number and a BCD number.
func parseDeviceID(data []byte) string {
	if len(data) < 4 {
		return ""
	}
	return fmt.Sprintf("%d.%02x", data[2]&0x7f, data[3])
}

func parseIPv4(data []byte) string {
	if len(data) < 4 {
		return ""
	}
	address := netip.AddrFrom4([4]byte(data[:4]))
	if address.IsUnspecified() || address == netip.AddrFrom4([4]byte{255, 255, 255, 255}) {
		return ""
	}
	return address.String()
}

func parseMAC(data []byte) string {
	if len(data) < 6 || [6]byte(data[:6]) == [6]byte{} {
		return ""
	}
	return net.HardwareAddr(data[:6]).String()
}

// parseIPv6 returns a global address of the parameters 56 and 59: set selector, source, address, length of the prefix, status. The status 0 is active.
func parseIPv6(data []byte, static bool) string {
	if len(data) < 20 || data[19] != 0 || static && data[1]&staticIPv6Enabled == 0 {
		return ""
	}
	address := netip.AddrFrom16([16]byte(data[2:18]))
	if !address.IsGlobalUnicast() || address.Is4In6() {
		return ""
	}
	return address.String()
}
