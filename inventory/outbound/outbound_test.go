package outbound

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func prefixes(texts ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, text := range texts {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}

// at is a policy of a machine with the addresses 192.0.2.5 and 2001:db8::5.
func at(p Policy) Policy {
	p.interfaceAddresses = func() ([]net.Addr, error) {
		return []net.Addr{
			&net.IPNet{IP: net.ParseIP("127.0.0.1"), Mask: net.CIDRMask(8, 32)}, &net.IPNet{IP: net.ParseIP("192.0.2.5"), Mask: net.CIDRMask(24, 32)},
			&net.IPNet{IP: net.ParseIP("2001:db8::5"), Mask: net.CIDRMask(64, 128)},
		}, nil
	}
	return p
}

func TestDefault(t *testing.T) {
	for address, reason := range map[string]string{
		"192.0.2.6": "", "10.96.0.1": "", "2001:db8::6": "", "fd00::1": "", "::ffff:192.0.2.6": "", "64:ff9b::c000:206": "",
		"127.0.0.1": "loopback", "127.9.9.9": "loopback", "::1": "loopback", "::ffff:127.0.0.1": "loopback",
		"169.254.169.254": "link-local", "169.254.170.23": "link-local", "fe80::1": "link-local", "fe80::1%eth0": "link-local", "::ffff:169.254.169.254": "link-local",
		"224.0.0.1": "multicast", "ff02::1": "multicast", "ff05::2": "multicast",
		"0.0.0.0": "reserved", "0.1.2.3": "reserved", "::": "reserved", "255.255.255.255": "reserved", "240.0.0.1": "reserved", "::7f00:1": "reserved",
		"fd00:ec2::254": "metadata", "fd00:ec2::23": "metadata", "fd20:ce::254": "metadata", "100.100.100.200": "metadata", "168.63.129.16": "metadata",
		"192.0.0.192": "metadata",
		"192.0.2.5":   "the provider itself", "::ffff:192.0.2.5": "the provider itself", "2001:db8::5": "the provider itself",
		"64:ff9b::7f00:1": "loopback", "64:ff9b::a9fe:a9fe": "link-local", "64:ff9b::c000:205": "the provider itself",
	} {
		t.Run(address, func(t *testing.T) {
			g := NewWithT(t)
			ip := netip.MustParseAddr(address)
			err := at(Policy{}).Check("images.example.com", ip)
			if reason == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(MatchError(ContainSubstring(reason)))
			g.Expect(errors.As(err, new(*RefusedError))).To(BeTrue())
			g.Expect(at(Policy{AllowHosts: []string{"images.example.com"}}).Check("images.example.com", ip)).NotTo(Succeed(), "a name may resolve to any address")
			unmapped := ip.Unmap().WithZone("")
			g.Expect(at(Policy{AllowNetworks: []netip.Prefix{netip.PrefixFrom(unmapped, unmapped.BitLen())}}).Check("", ip)).To(Succeed())
		})
	}
}

func TestLists(t *testing.T) {
	p := at(Policy{
		AllowNetworks: prefixes("10.96.0.80/32", "127.0.0.0/8"), AllowHosts: []string{"images.svc"}, DenyNetworks: prefixes("10.96.0.0/12", "fd00:96::/108"),
	})
	for _, test := range []struct {
		host, address string
		permitted     bool
	}{
		{"a", "192.0.2.6", true},
		{"a", "10.96.0.1", false},
		{"a", "10.111.255.255", false},
		{"a", "10.112.0.0", true},
		{"a", "fd00:96::1", false},
		{"a", "64:ff9b::a60:1", false},
		{"a", "::ffff:10.96.0.1", false},
		{"a", "10.96.0.80", true},
		{"a", "127.0.0.1", true},
		{"images.svc", "10.96.0.1", true},
		{"IMAGES.svc.", "10.96.0.1", true},
		{"images.svc", "64:ff9b::a60:1", true},
		{"images.svc", "::1", false},
		{"images.svc.example.com", "10.96.0.1", false},
		{"more-images.svc", "10.96.0.1", false},
		{"10.96.0.1", "10.96.0.1", false},
	} {
		g := NewWithT(t)
		err := p.Check(test.host, netip.MustParseAddr(test.address))
		g.Expect(err == nil).To(Equal(test.permitted), "%s at %s: %v", test.host, test.address, err)
	}
}

// TestOwnAddressesUnknown: without the addresses of this machine, no connection is made.
func TestOwnAddressesUnknown(t *testing.T) {
	g := NewWithT(t)
	p := Policy{interfaceAddresses: func() ([]net.Addr, error) { return nil, errors.New("no netlink") }}
	g.Expect(p.Check("a", netip.MustParseAddr("192.0.2.6"))).To(MatchError(ContainSubstring("no netlink")))
	own, err := net.InterfaceAddrs()
	g.Expect(err).NotTo(HaveOccurred())
	for _, a := range own {
		ip, _ := netip.AddrFromSlice(a.(*net.IPNet).IP)
		g.Expect(Policy{}.Check("a", ip)).NotTo(Succeed(), a.String())
	}
}

// TestDial: Dial checks the address to which it connects, with the host that the caller asked for.
func TestDial(t *testing.T) {
	g := NewWithT(t)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = listener.Close() })
	_, port, err := net.SplitHostPort(listener.Addr().String())
	g.Expect(err).NotTo(HaveOccurred())
	dial := func(p Policy, host string) error {
		conn, err := Dial(context.Background(), time.Minute, p.Check, "tcp4", net.JoinHostPort(host, port))
		if err == nil {
			err = conn.Close()
		}
		return err
	}
	for _, host := range []string{"127.0.0.1", "localhost"} {
		refusal := new(RefusedError)
		g.Expect(errors.As(dial(Policy{}, host), &refusal)).To(BeTrue(), host)
		g.Expect(refusal.Address).To(Equal(netip.MustParseAddr("127.0.0.1")))
		g.Expect(dial(Policy{AllowNetworks: prefixes("127.0.0.0/8")}, host)).To(Succeed(), host)
	}
	_, err = Dial(t.Context(), time.Minute, Policy{}.Check, "tcp", "127.0.0.1")
	g.Expect(err).To(HaveOccurred(), "no port")
}
