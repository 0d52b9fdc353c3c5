package bmc

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/outbound"
)

// AllowList is which addresses BMCs may have. The zero value refuses what outbound.Policy refuses by default.
type AllowList outbound.Policy

// Check returns an error, with the remedy, for an address of a host that no BMC may have.
func (p AllowList) Check(host string, ip netip.Addr) error {
	if err := outbound.Policy(p).Check(host, ip); err != nil {
		return fmt.Errorf("%w: the provider speaks to no BMC there, unless bmcs.allowNetworks of its configuration file has the network", err)
	}
	return nil
}

// Dial connects to a BMC like net.Dialer.DialContext, and checks each address before the connection to it.
func (p AllowList) Dial(ctx context.Context, timeout time.Duration, network, address string) (net.Conn, error) {
	return outbound.Dial(ctx, timeout, p.Check, network, address)
}
