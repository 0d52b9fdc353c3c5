package bmc

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/outbound"
)

// AllowList defines the addresses that BMCs may have. The zero value refuses the same addresses as the zero outbound.Policy.
type AllowList outbound.Policy

// Check returns an error, with the remedy, if no BMC may have the address. host is the name that resolved to it.
func (p AllowList) Check(host string, ip netip.Addr) error {
	if err := outbound.Policy(p).Check(host, ip); err != nil {
		return fmt.Errorf("%w: the provider connects to BMCs there only if bmcs.allowNetworks of its configuration file contains the network", err)
	}
	return nil
}

// Dial connects to a BMC as net.Dialer.DialContext does, and checks each address before it connects.
func (p AllowList) Dial(ctx context.Context, timeout time.Duration, network, address string) (net.Conn, error) {
	return outbound.Dial(ctx, timeout, p.Check, network, address)
}
