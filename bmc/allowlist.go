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

// CheckLogin is Check for a job of a Pool that is about to log in at a port of the address. It also returns an error if the BMC refused so many logins that it would lock the
// account.
func (p AllowList) CheckLogin(ctx context.Context, host string, ip netip.Addr, port string) error {
	if err := p.Check(host, ip); err != nil {
		return err
	}
	return admitLogin(ctx, ip, port)
}

// Dial connects to a BMC as net.Dialer.DialContext does, and checks each address as CheckLogin does before it connects.
func (p AllowList) Dial(ctx context.Context, timeout time.Duration, network, address string) (net.Conn, error) {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	return outbound.Dial(ctx, timeout, func(host string, ip netip.Addr) error { return p.CheckLogin(ctx, host, ip, port) }, network, address)
}
