package link

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv6"
	. "github.com/onsi/gomega"
	"pgregory.net/rapid"

	_ "github.com/capbm-io/cluster-api-provider-baremetal/inventory/rapidtest" // the seed
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed"
)

// fakeKernel records what it is told.
type fakeKernel struct {
	mu         sync.Mutex
	interfaces []Interface
	later      []Interface // appear after lateAfter
	configs    map[string]Config
	clients    map[string]int
	static     int
	links      []StaticLink
}

// lateAfter is when the late interfaces of a fakeKernel appear.
const lateAfter = 5 * time.Second

func (k *fakeKernel) Interfaces(ctx context.Context, changed func(Interface)) error {
	for _, i := range k.interfaces {
		changed(i)
	}
	if len(k.later) > 0 {
		time.Sleep(lateAfter) // of the bubble's clock
		for _, i := range k.later {
			changed(i)
		}
	}
	<-ctx.Done()
	return ctx.Err()
}

func (k *fakeKernel) Up(Interface) error { return nil }

func (k *fakeKernel) Configure(i Interface, source string, c Config) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.configs[i.Name+" "+source] = c
	return nil
}

// running returns how many DHCP clients run at each interface.
func (k *fakeKernel) running() map[string]int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return maps.Clone(k.clients)
}

func (k *fakeKernel) config(name string) []netip.Prefix {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.configs[name].Addresses
}

func (k *fakeKernel) statics() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.static
}

func (k *fakeKernel) client(ctx context.Context, name string, by int) {
	k.mu.Lock()
	k.clients[name] += by
	k.mu.Unlock()
	if by > 0 {
		<-ctx.Done()
		k.client(ctx, name, -1)
	}
}

// leased is the address that DHCP4 of a fakeKernel gets.
var leased = netip.MustParsePrefix("192.0.2.9/24")

func (k *fakeKernel) DHCP4(ctx context.Context, i Interface, _ <-chan struct{}, set func(Config)) {
	set(Config{Addresses: []netip.Prefix{leased}, Resolvers: []netip.Addr{netip.MustParseAddr("192.0.2.1")}})
	k.client(ctx, i.Name+" dhcp4", 1)
}

func (k *fakeKernel) DHCP6(ctx context.Context, i Interface, _ <-chan struct{}, _ func(Config)) {
	k.client(ctx, i.Name+" dhcp6", 1)
}

func (k *fakeKernel) Static(_ *seed.Network, present []Interface, busy func(Interface)) ([]StaticLink, error) {
	k.mu.Lock()
	k.static++
	k.mu.Unlock()
	busy(present[0])
	links := slices.DeleteFunc(slices.Clone(k.links), func(l StaticLink) bool {
		return l.Physical && !slices.ContainsFunc(present, func(i Interface) bool { return i.Index == l.Index })
	})
	return links, errors.New("one card is not there")
}

func newManager(k *fakeKernel) *Manager {
	k.configs, k.clients = map[string]Config{}, map[string]int{}
	return &Manager{Kernel: k, Log: slog.New(slog.DiscardHandler)}
}

func twoCards() []Interface {
	return []Interface{
		{Index: 2, Name: "eth0", MAC: "52:54:00:00:00:01", Physical: true, Carrier: true},
		{Index: 3, Name: "eth1", MAC: "52:54:00:00:00:02", Physical: true},
		{Index: 4, Name: "bond9", Carrier: true},
	}
}

// TestDialPrefersUsed: the first interface that connects wins; it is then asked alone, and the others when it fails.
func TestDialPrefersUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		k := &fakeKernel{interfaces: twoCards()}
		m := newManager(k)
		var mu sync.Mutex
		tried := map[string]int{}
		works := "eth1"
		m.Dial = func(ctx context.Context, through Path, _, _ string) (net.Conn, error) {
			mu.Lock()
			tried[through.Name]++
			ok := through.Name == works
			mu.Unlock()
			if !ok {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			a, _ := net.Pipe()
			return a, nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = m.Run(ctx) }()
		synctest.Wait()
		dial := func() {
			conn, err := m.DialContext(ctx, "tcp", "192.0.2.1:80")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(conn.Close()).To(Succeed())
			time.Sleep(time.Minute) // of the bubble's clock: connections that are late end
		}
		dial()
		g.Expect(m.used).To(Equal("eth1"))
		dial()
		mu.Lock()
		g.Expect(tried).To(Equal(map[string]int{"eth0": 1, "eth1": 2, "bond9": 1}))
		works = "eth0"
		mu.Unlock()
		dial()
		g.Expect(m.used).To(Equal("eth0"))
		cancel()
		synctest.Wait()
		g.Expect(k.running()).To(Equal(map[string]int{"eth0 dhcp4": 0, "eth0 dhcp6": 0, "eth1 dhcp4": 0, "eth1 dhcp6": 0}), "a bond that nobody asked for gets no DHCP")
	})
}

// from is a connection from an address.
type from struct {
	net.Conn

	local netip.Addr
}

func (f from) LocalAddr() net.Addr { return net.TCPAddrFromAddrPort(netip.AddrPortFrom(f.local, 1)) }

// TestDialKeepsAddress: the boot server knows the agent by its address, so the agent keeps to it although its interface has others. It looks for another path
// only when the address is gone, or when the boot server does not answer there for long.
func TestDialKeepsAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		m := newManager(&fakeKernel{interfaces: twoCards()})
		first, second := netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::2")
		choice, failure := first, error(nil) // of the kernel, and of a connection from an address
		m.Dial = func(_ context.Context, through Path, _, _ string) (net.Conn, error) {
			switch {
			case through.Name != "eth0":
				return nil, errors.New("no answer")
			case through.Local.IsValid() && failure != nil:
				return nil, failure
			case through.Local.IsValid():
				return from{local: through.Local}, nil
			default:
				return from{local: choice}, nil
			}
		}
		go func() { _ = m.Run(t.Context()) }()
		synctest.Wait()
		dial := func() (netip.Addr, time.Duration) {
			start := time.Now()
			conn, err := m.DialContext(t.Context(), "tcp", "[fd00::9]:80")
			g.Expect(err).NotTo(HaveOccurred())
			return conn.LocalAddr().(*net.TCPAddr).AddrPort().Addr(), time.Since(start)
		}
		address, _ := dial()
		g.Expect(address).To(Equal(first))
		choice = second
		address, _ = dial()
		g.Expect(address).To(Equal(first), "the kernel prefers another address now")
		failure = syscall.EADDRNOTAVAIL
		address, took := dial()
		g.Expect(address).To(Equal(second))
		g.Expect(took).To(BeNumerically("<", 5*time.Second))
		choice, failure = first, errors.New("no answer")
		address, took = dial()
		g.Expect(address).To(Equal(first))
		g.Expect(took).To(BeNumerically("~", failoverAfter, 5*time.Second))
	})
}

// TestFromLinkLocal: a connection from a link-local address counts only if the boot server has one as well.
func TestFromLinkLocal(t *testing.T) {
	for _, c := range []struct {
		local, remote string
		want          bool
	}{{"fe80::1", "fd00::9", true}, {"fe80::1", "fe80::9", false}, {"fd00::1", "fd00::9", false}, {"169.254.1.2", "192.0.2.1", true}, {"192.0.2.9", "192.0.2.1", false}} {
		if got := fromLinkLocal(between{c.local, c.remote}); got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
	}
}

// between is a connection between two addresses.
type between struct{ local, remote string }

func (b between) LocalAddr() net.Addr  { return &net.TCPAddr{IP: net.ParseIP(b.local)} }
func (b between) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(b.remote)} }

// TestDialEnds: without an interface that answers the connection fails when its time is over.
func TestDialEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newManager(&fakeKernel{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := m.DialContext(ctx, "tcp", "192.0.2.1:80")
		NewWithT(t).Expect(err).To(MatchError(And(ContainSubstring("deadline"), ContainSubstring("no network interface"))))
	})
}

// TestStaticAfter: the static network is set up if the boot server has not answered after 30 s, again while it does not, and not after it has.
func TestStaticAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		k := &fakeKernel{interfaces: twoCards()}
		address := netip.MustParsePrefix("10.0.0.2/24")
		k.links = []StaticLink{
			{Interface: Interface{Index: 9, Name: "bond0.7"}, Settings: seed.Settings{Addresses: []netip.Prefix{address}, Nameservers: []netip.Addr{netip.MustParseAddr("10.0.0.1")}}},
			{Interface: Interface{Index: 10, Name: "bond0.8"}, Settings: seed.Settings{DHCP4: true}},
		}
		m := newManager(k)
		m.Network = &seed.Network{}
		go func() { _ = m.Run(t.Context()) }()
		time.Sleep(StaticAfter - time.Second) // of the bubble's clock
		synctest.Wait()
		g.Expect(k.statics()).To(Equal(0))
		g.Expect(k.running()["eth0 dhcp4"]).To(Equal(1))
		time.Sleep(2 * time.Second) // of the bubble's clock
		synctest.Wait()
		g.Expect(k.statics()).To(Equal(1))
		g.Expect(k.config("bond0.7 static")).To(Equal([]netip.Prefix{address}))
		g.Expect(k.running()).To(Equal(map[string]int{"eth0 dhcp4": 0, "eth0 dhcp6": 0, "eth1 dhcp4": 1, "eth1 dhcp6": 1, "bond0.8 dhcp4": 1}))
		g.Expect(k.config("eth0 dhcp4")).To(BeEmpty(), "the member of a bond keeps no address")
		time.Sleep(StaticAfter) // of the bubble's clock
		synctest.Wait()
		g.Expect(k.statics()).To(Equal(2))
		m.reach("bond0.7", nil)
		time.Sleep(5 * StaticAfter) // of the bubble's clock
		synctest.Wait()
		g.Expect(k.statics()).To(Equal(2))
	})
}

// TestStaticFirst: with StaticFirst the static network is set up when a card appears, and again with the next one. DHCP runs only where the network has no
// address.
func TestStaticFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		k := &fakeKernel{interfaces: twoCards()[:1], later: twoCards()[1:2]}
		address := netip.MustParsePrefix("10.0.0.2/24")
		k.links = []StaticLink{
			{Interface: Interface{Index: 3, Name: "eth1", Physical: true}, Settings: seed.Settings{Addresses: []netip.Prefix{address}}},
			{Interface: Interface{Index: 9, Name: "eth0.8"}, Settings: seed.Settings{DHCP4: true}},
		}
		m := newManager(k)
		m.Network, m.StaticFirst = &seed.Network{}, true
		go func() { _ = m.Run(t.Context()) }()
		synctest.Wait()
		g.Expect(k.statics()).To(Equal(1))
		time.Sleep(lateAfter) // of the bubble's clock
		synctest.Wait()
		g.Expect(k.statics()).To(Equal(2))
		g.Expect(k.config("eth1 static")).To(Equal([]netip.Prefix{address}))
		g.Expect(k.running()).To(Equal(map[string]int{"eth0 dhcp4": 0, "eth0 dhcp6": 0, "eth1 dhcp4": 0, "eth1 dhcp6": 0, "eth0.8 dhcp4": 1}))
		g.Expect(k.config("eth1 dhcp4")).To(BeEmpty())
		time.Sleep(StaticAfter) // of the bubble's clock
		synctest.Wait()
		g.Expect(k.statics()).To(Equal(3), "as long as the boot server does not answer")
		m.reach("eth1", nil)
		time.Sleep(5 * StaticAfter) // of the bubble's clock
		synctest.Wait()
		g.Expect(k.statics()).To(Equal(3))
	})
}

// TestStaticFirstFamilies: with StaticFirst an interface with addresses in the network has only the DHCP clients that the network asks for, and nothing of the others.
func TestStaticFirstFamilies(t *testing.T) {
	for _, c := range []struct {
		v4, v6 bool
		left   []netip.Prefix // by DHCPv4
	}{{false, false, nil}, {false, true, nil}, {true, false, []netip.Prefix{leased}}, {true, true, []netip.Prefix{leased}}} {
		synctest.Test(t, func(t *testing.T) {
			g := NewWithT(t)
			k := &fakeKernel{interfaces: twoCards()}
			address := netip.MustParsePrefix("10.0.0.2/24")
			k.links = []StaticLink{{Interface: twoCards()[1], Settings: seed.Settings{Addresses: []netip.Prefix{address}, DHCP4: c.v4, DHCP6: c.v6}}}
			m := newManager(k)
			m.Network, m.StaticFirst = &seed.Network{}, true
			go func() { _ = m.Run(t.Context()) }()
			for range 3 { // also when it is set up again
				time.Sleep(StaticAfter) // of the bubble's clock
				synctest.Wait()
				running := k.running()
				g.Expect([]bool{running["eth1 dhcp4"] == 1, running["eth1 dhcp6"] == 1}).To(Equal([]bool{c.v4, c.v6}))
				g.Expect(k.config("eth1 dhcp4")).To(Equal(c.left))
				g.Expect(k.config("eth1 static")).To(Equal([]netip.Prefix{address}))
				m.mu.Lock()
				g.Expect(m.known[3].resolvers["dhcp4"]).To(HaveLen(len(c.left)), "the name servers of a client that ended")
				m.mu.Unlock()
			}
		})
	}
}

func ack(t *testing.T, options ...dhcpv4.Option) *dhcpv4.DHCPv4 {
	t.Helper()
	m, err := dhcpv4.New(dhcpv4.WithYourIP(net.IPv4(192, 0, 2, 9)))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range options {
		m.UpdateOption(o)
	}
	return m
}

func TestConfigOf4(t *testing.T) {
	g := NewWithT(t)
	anywhere := netip.MustParsePrefix("0.0.0.0/0")
	c := configOf4(ack(t, dhcpv4.OptSubnetMask(net.CIDRMask(25, 32)), dhcpv4.OptRouter(net.IPv4(192, 0, 2, 1), net.IPv4(192, 0, 2, 2)),
		dhcpv4.OptDNS(net.IPv4(192, 0, 2, 3)), dhcpv4.OptGeneric(dhcpv4.OptionInterfaceMTU, []byte{0x23, 0x28})))
	g.Expect(c).To(Equal(Config{
		Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.9/25")}, Routes: []seed.Route{{To: anywhere, Via: netip.MustParseAddr("192.0.2.1")}},
		Resolvers: []netip.Addr{netip.MustParseAddr("192.0.2.3")}, MTU: 9000,
	}))
	// RFC 3442: classless routes replace the router.
	_, network, _ := net.ParseCIDR("10.0.0.0/8")
	_, all, _ := net.ParseCIDR("0.0.0.0/0")
	c = configOf4(ack(t, dhcpv4.OptRouter(net.IPv4(192, 0, 2, 1)), dhcpv4.OptGeneric(dhcpv4.OptionInterfaceMTU, []byte{0, 68}), dhcpv4.OptClasslessStaticRoute(
		&dhcpv4.Route{Dest: network, Router: net.IPv4(192, 0, 2, 7)}, &dhcpv4.Route{Dest: all, Router: net.IPv4(192, 0, 2, 8)})))
	g.Expect(c).To(Equal(Config{
		Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.9/24")},
		Routes:    []seed.Route{{To: netip.MustParsePrefix("10.0.0.0/8"), Via: netip.MustParseAddr("192.0.2.7")}, {To: anywhere, Via: netip.MustParseAddr("192.0.2.8")}},
	}))
}

// TestPropertyTimes: the next request is in the future, before the end of the lease, and not in haste, whatever times a server names.
func TestPropertyTimes(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		seconds := func(name string) time.Duration {
			return time.Duration(rapid.Uint32().Draw(r, name)) * time.Second
		}
		lease := seconds("lease")
		m := ack(t, dhcpv4.OptIPAddressLeaseTime(lease), dhcpv4.OptRenewTimeValue(seconds("renew")), dhcpv4.OptGeneric(dhcpv4.OptionRebindingTimeValue, dhcpv4.Duration(seconds("rebind")).ToBytes()))
		times := timesOf4(m)
		if times.lease == 0 {
			if lease > 0 && lease < 0xffffffff*time.Second {
				r.Fatalf("a lease of %s does not end", lease)
			}
			return
		}
		if times.renew <= 0 || times.renew >= times.lease || times.rebind < times.renew || times.rebind >= times.lease {
			r.Fatalf("%+v", times)
		}
		for elapsed, n := time.Duration(0), 0; elapsed < times.lease; n++ {
			next := times.next(elapsed)
			if next <= elapsed && elapsed < times.rebind || n > 200 {
				r.Fatalf("after %s comes %s of %+v", elapsed, next, times)
			}
			elapsed = next
		}
	})
}

func reply(t *testing.T, options ...dhcpv6.Option) *dhcpv6.Message {
	t.Helper()
	m, err := dhcpv6.NewMessage()
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range options {
		m.AddOption(o)
	}
	return m
}

func TestLeaseOf6(t *testing.T) {
	g := NewWithT(t)
	ia := &dhcpv6.OptIANA{T1: time.Hour}
	ia.Options.Add(&dhcpv6.OptIAAddress{IPv6Addr: net.ParseIP("fd00::9"), PreferredLifetime: 20 * time.Minute, ValidLifetime: time.Hour})
	ia.Options.Add(&dhcpv6.OptIAAddress{IPv6Addr: net.ParseIP("fd00::8")}) // withdrawn
	l, err := leaseOf6(reply(t, ia, dhcpv6.OptDNS(net.ParseIP("fd00::53"))))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(l.config).To(Equal(Config{Addresses: []netip.Prefix{netip.MustParsePrefix("fd00::9/128")}, Resolvers: []netip.Addr{netip.MustParseAddr("fd00::53")}}))
	g.Expect(l.renew).To(Equal(10*time.Minute), "before the address is deprecated")
	_, err = leaseOf6(reply(t))
	g.Expect(err).To(MatchError(ContainSubstring("no identity association")))
	_, err = leaseOf6(reply(t, &dhcpv6.OptIANA{}))
	g.Expect(err).To(MatchError(ContainSubstring("no address")))
}

func TestBondOf(t *testing.T) {
	g := NewWithT(t)
	b, err := bondOf(seed.Bond{Name: "bond0", Mode: "802.3ad", LACPRate: "fast", HashPolicy: "layer3+4", Monitor: 200 * time.Millisecond})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect([]any{b.Mode.String(), b.LacpRate.String(), b.XmitHashPolicy.String(), b.Miimon}).To(Equal([]any{"802.3ad", "fast", "layer3+4", 200}))
	for _, bad := range []seed.Bond{{Mode: "x"}, {Mode: "802.3ad", LACPRate: "x"}, {Mode: "802.3ad", HashPolicy: "x"}} {
		_, err := bondOf(bad)
		g.Expect(err).To(MatchError(ContainSubstring("does not know")))
	}
}
