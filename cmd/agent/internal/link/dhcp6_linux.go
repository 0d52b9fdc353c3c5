package link

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/dhcpv6/nclient6"
	"github.com/insomniacslk/dhcp/iana"
)

// DHCP6 implements Kernel. It asks without waiting for a router advertisement: a network may have a DHCPv6 server and no router. Addresses of advertised
// prefixes and the routes are the kernel's work.
func (s *System) DHCP6(ctx context.Context, i Interface, up <-chan struct{}, set func(Config)) {
	for delay := firstDelay; ctx.Err() == nil; {
		awaitCarrier(ctx, i, up)
		lease, err := s.request6(ctx, i)
		if err != nil {
			s.Log.Debug("No answer to DHCPv6", "interface", i.Name, "error", err)
			if sleep(ctx, up, jitter(delay)) {
				delay = firstDelay
			} else {
				delay = min(2*delay, maxDelay)
			}
			continue
		}
		delay = firstDelay
		set(lease.config)
		// Another exchange before the address ends takes the place of RENEW and REBIND (RFC 8415, section 18.2.4): the server gives a client the same address.
		sleep(ctx, nil, lease.renew)
	}
}

// lease6 is an address of DHCPv6.
type lease6 struct {
	config Config
	renew  time.Duration
}

// request6 gets an address. The client identifier is made of the MAC address, without a time (RFC 8415, section 11.4): the server's firmware, its agent and
// each next boot are the same client.
func (s *System) request6(ctx context.Context, i Interface) (*lease6, error) {
	ctx, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	mac, err := net.ParseMAC(i.MAC)
	if err != nil {
		return nil, err
	}
	// It fails until the kernel has checked the link-local address (RFC 4862, section 5.4), for a second after the carrier.
	client, err := nclient6.New(i.Name, nclient6.WithTimeout(answerWait), nclient6.WithRetry(answerTries))
	if err != nil {
		return nil, err
	}
	defer func() { _ = client.Close() }()
	identity := dhcpv6.WithClientID(&dhcpv6.DUIDLL{HWType: iana.HWTypeEthernet, LinkLayerAddr: mac})
	reply, err := client.RapidSolicit(ctx, identity)
	if err != nil {
		return nil, err
	}
	return leaseOf6(reply)
}

// leaseOf6 reads a REPLY.
func leaseOf6(reply *dhcpv6.Message) (*lease6, error) {
	ia := reply.Options.OneIANA()
	if ia == nil {
		return nil, errors.New("the answer has no identity association")
	}
	l := &lease6{renew: ia.T1}
	shortest := time.Duration(0)
	for _, a := range ia.Options.Addresses() {
		address := addrOf(a.IPv6Addr)
		if !address.Is6() || a.ValidLifetime == 0 {
			continue
		}
		// The prefix of the network is what routers advertise, and not the server's (RFC 5942, section 4).
		l.config.Addresses = append(l.config.Addresses, netip.PrefixFrom(address, address.BitLen()))
		if shortest == 0 || a.PreferredLifetime < shortest {
			shortest = a.PreferredLifetime
		}
	}
	if len(l.config.Addresses) == 0 {
		return nil, errors.New("the server has no address for this client")
	}
	if l.renew <= 0 || l.renew > shortest {
		l.renew = shortest / 2 // RFC 8415, section 14.2
	}
	l.renew = max(l.renew, minRenew/2)
	for _, ip := range reply.Options.DNS() {
		if a := addrOf(ip); a.IsValid() {
			l.config.Resolvers = append(l.config.Resolvers, a)
		}
	}
	return l, nil
}
