package link

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/nclient4"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed"
)

// VendorClass is the vendor class of the agent's requests (option 60). It is no class of firmware, so that no boot file is given.
const VendorClass = "capbm-agent"

const (
	// firstDelay and maxDelay are between attempts without an answer: RFC 2131, section 4.1, doubles from 4 s to 64 s; a rack that boots wants it faster.
	firstDelay, maxDelay = time.Second, 16 * time.Second
	// answerWait is how long an attempt waits for an answer before it repeats the packet, and answerTries how many packets it sends.
	answerWait  = 2 * time.Second
	answerTries = 2
	// exchangeTimeout bounds DISCOVER to ACK.
	exchangeTimeout = 15 * time.Second
	// minRenew is the shortest time between renewals (RFC 2131, section 4.4.5).
	minRenew = 60 * time.Second
)

// DHCP4 implements Kernel.
func (s *System) DHCP4(ctx context.Context, i Interface, up <-chan struct{}, set func(Config)) {
	var last netip.Addr
	for delay := firstDelay; ctx.Err() == nil; {
		awaitCarrier(ctx, i, up)
		lease, err := s.request4(ctx, i, last)
		if err != nil {
			s.Log.Debug("No answer to DHCPv4", "interface", i.Name, "error", err)
			if sleep(ctx, up, jitter(delay)) {
				delay = firstDelay // the cable is in
			} else {
				delay = min(2*delay, maxDelay)
			}
			continue
		}
		delay = firstDelay
		last = addrOf(lease.ACK.YourIPAddr)
		set(configOf4(lease.ACK))
		s.keep4(ctx, i, lease, set)
		if ctx.Err() == nil {
			set(Config{}) // the address is not this server's any more
		}
	}
}

// carrierWait is how long an interface without a carrier is given before a request is sent all the same: some drivers never report one.
const carrierWait = 8 * time.Second

// awaitCarrier waits until an interface has a carrier. What is sent before is lost, and repeated only after seconds.
func awaitCarrier(ctx context.Context, i Interface, up <-chan struct{}) {
	device, err := net.InterfaceByIndex(i.Index)
	if err == nil && device.Flags&net.FlagRunning == 0 {
		sleep(ctx, up, carrierWait)
	}
}

// jitter spreads the requests of servers that were powered on together (RFC 2131, section 4.1).
func jitter(d time.Duration) time.Duration {
	return d + rand.N(d/4) //nolint:gosec // no secret
}

// sleep waits until the time is over, or the interface got a carrier, which it returns.
func sleep(ctx context.Context, up <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-up:
		return true
	case <-timer.C:
	}
	return false
}

// request4 gets an address, if possible the one that the server had.
func (s *System) request4(ctx context.Context, i Interface, last netip.Addr) (*nclient4.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	client, err := newClient4(i)
	if err != nil {
		return nil, err
	}
	defer func() { _ = client.Close() }()
	modifiers := options4()
	if last.IsValid() {
		modifiers = append(modifiers, dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(last.AsSlice())))
	}
	offer, err := client.DiscoverOffer(ctx, modifiers...)
	if err != nil {
		return nil, err
	}
	return client.RequestFromOffer(ctx, offer, options4()...)
}

func newClient4(i Interface) (*nclient4.Client, error) {
	return nclient4.New(i.Name, nclient4.WithTimeout(answerWait), nclient4.WithRetry(answerTries))
}

// options4 are what the agent asks for. There is no client identifier (option 61): firmware and iPXE are known by their MAC address as well, so a server
// gives the agent the address that it gave them (RFC 2131, section 4.2).
func options4() []dhcpv4.Modifier {
	return []dhcpv4.Modifier{
		dhcpv4.WithOption(dhcpv4.OptClassIdentifier(VendorClass)),
		dhcpv4.WithRequestedOptions(dhcpv4.OptionSubnetMask, dhcpv4.OptionRouter, dhcpv4.OptionDomainNameServer, dhcpv4.OptionInterfaceMTU,
			dhcpv4.OptionClasslessStaticRoute),
	}
}

// keep4 renews a lease until it ends (RFC 2131, section 4.4.5): at half of its time from the server that gave it, and at seven eighths from any.
func (s *System) keep4(ctx context.Context, i Interface, lease *nclient4.Lease, set func(Config)) {
	for {
		times := timesOf4(lease.ACK)
		if times.lease == 0 {
			<-ctx.Done() // it never ends
			return
		}
		begin := time.Now()
		renewed := (*nclient4.Lease)(nil)
		for elapsed := time.Duration(0); renewed == nil; elapsed = time.Since(begin) {
			if elapsed >= times.lease {
				return
			}
			sleep(ctx, nil, max(min(times.next(elapsed)-elapsed, times.lease-elapsed), time.Second))
			if ctx.Err() != nil {
				return
			}
			var err error
			renewed, err = s.renew4(ctx, i, lease, time.Since(begin) >= times.rebind)
			if nak := (*nclient4.ErrNak)(nil); errors.As(err, &nak) {
				return
			}
			if err != nil {
				s.Log.Warn("Failed to renew an address", "interface", i.Name, "error", err)
			}
		}
		lease = renewed
		set(configOf4(lease.ACK))
	}
}

// renew4 extends a lease. The request is broadcast: the client's socket is a raw one, and every server knows from ciaddr that it is a renewal. Before the
// time of rebinding only the answer of the server that gave the address counts.
func (s *System) renew4(ctx context.Context, i Interface, lease *nclient4.Lease, rebind bool) (*nclient4.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	if rebind {
		return s.request4(ctx, i, addrOf(lease.ACK.YourIPAddr))
	}
	client, err := newClient4(i)
	if err != nil {
		return nil, err
	}
	defer func() { _ = client.Close() }()
	return client.Renew(ctx, lease, options4()...)
}

// times are the times of a lease, from its start.
type times struct{ renew, rebind, lease time.Duration }

// timesOf4 returns the times of a lease; zero for one that does not end.
func timesOf4(ack *dhcpv4.DHCPv4) times {
	const infinite = 0xffffffff * time.Second // RFC 2131, section 3.3
	lease := ack.IPAddressLeaseTime(infinite)
	if lease >= infinite || lease <= 0 {
		return times{}
	}
	t := times{renew: ack.IPAddressRenewalTime(lease / 2), rebind: ack.IPAddressRebindingTime(lease / 8 * 7), lease: lease}
	if t.renew <= 0 || t.renew >= t.lease {
		t.renew = lease / 2
	}
	if t.rebind <= t.renew || t.rebind >= t.lease {
		t.rebind = t.renew + (t.lease-t.renew)/4*3
	}
	return t
}

// next returns when to ask next: half of the time to the next limit, but not more often than each minute (RFC 2131, section 4.4.5).
func (t times) next(elapsed time.Duration) time.Duration {
	switch {
	case elapsed < t.renew:
		return t.renew
	case elapsed < t.rebind:
		return min(elapsed+max((t.rebind-elapsed)/2, minRenew), t.rebind)
	default:
		return elapsed + max((t.lease-elapsed)/2, minRenew)
	}
}

// configOf4 reads an ACK. Classless routes (option 121) replace the router (RFC 3442).
func configOf4(ack *dhcpv4.DHCPv4) Config {
	address := addrOf(ack.YourIPAddr)
	ones, bits := ack.SubnetMask().Size()
	if bits != 32 || ones == 0 {
		ones, _ = net.IP(address.AsSlice()).DefaultMask().Size() // RFC 1122, section 3.3.6
	}
	c := Config{Addresses: []netip.Prefix{netip.PrefixFrom(address, ones)}, MTU: mtuOf(ack)}
	for _, ip := range ack.DNS() {
		if a := addrOf(ip); a.IsValid() {
			c.Resolvers = append(c.Resolvers, a)
		}
	}
	if routes := ack.ClasslessStaticRoute(); len(routes) > 0 {
		for _, r := range routes {
			ones, _ := r.Dest.Mask.Size()
			if to := addrOf(r.Dest.IP.To4()); to.IsValid() {
				c.Routes = append(c.Routes, seed.Route{To: netip.PrefixFrom(to, ones), Via: addrOf(r.Router)})
			} else {
				c.Routes = append(c.Routes, seed.Route{To: netip.PrefixFrom(netip.IPv4Unspecified(), ones), Via: addrOf(r.Router)})
			}
		}
		return c
	}
	for _, ip := range ack.Router() {
		if via := addrOf(ip); via.IsValid() {
			c.Routes = append(c.Routes, seed.Route{To: netip.PrefixFrom(netip.IPv4Unspecified(), 0), Via: via})
			break
		}
	}
	return c
}

// mtuOf returns the MTU of option 26, 0 for none or one that IPv6 could not use (RFC 8200, section 5).
func mtuOf(ack *dhcpv4.DHCPv4) int {
	content := ack.Options.Get(dhcpv4.OptionInterfaceMTU)
	if len(content) != 2 {
		return 0
	}
	mtu := int(content[0])<<8 | int(content[1])
	if mtu < 1280 {
		return 0
	}
	return mtu
}

// addrOf returns an address of a packet, an invalid one if there is none.
func addrOf(ip net.IP) netip.Addr {
	a, _ := netip.AddrFromSlice(ip)
	if a.IsUnspecified() {
		return netip.Addr{}
	}
	return a.Unmap()
}
