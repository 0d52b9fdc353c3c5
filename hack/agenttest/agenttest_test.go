// Package agenttest_test boots the agent's kernel and ramdisk in QEMU, in networks of its own, until it has reported the end of its plan to a boot server that
// is made for tests. It needs root, and what hack/agenttest.sh installs and builds; it fails where either is missing. How real firmware gets to the agent is
// tested in hack/e2e.
package agenttest_test

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/netns"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image/manifest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed"
)

func TestMain(m *testing.M) {
	controllerstest.Need(m, "make agenttest", "out/agent/amd64/ramdisk", ".cache/osimage/stamp", ".cache/volumes")
	os.Exit(netns.Main(m, func() int {
		if err := netns.Do("ip link set lo up"); err != nil {
			fmt.Fprintf(os.Stderr, "agenttest: %v (hack/agenttest.sh installs what is needed)\n", err)
			return 1
		}
		return m.Run()
	}))
}

// bootTimeout is how long a boot to the end of the plan may take: at least five times what it takes on a quiet machine.
const bootTimeout = 2 * time.Minute

// maxSeconds is how long the kernel and the agent may take to the request for the plan: three times the 20 s that they may take on a quiet machine, since
// this one may be busy. The test logs what they took.
const maxSeconds = 60.0

// TestDHCP: with each kind of card the agent gets an address, asks for the plan, reports its end, and does what follows.
func TestDHCP(t *testing.T) {
	for _, c := range []struct {
		name, card string
		next       agent.Next
	}{{"virtio-net", "virtio-net-pci", agent.PowerOff}, {"e1000e", "e1000e", agent.Reboot}, {"vmxnet3", "vmxnet3", agent.PowerOff}} {
		t.Run(c.name, func(t *testing.T) {
			g := NewWithT(t)
			w := newSegment(t, "10.91.0.0/24")
			d := w.dnsmasq(t, "10.91.0.100,10.91.0.150,2m")
			s := serve(t, w.address(), c.next)
			m := start(t, machine{cards: []card{{model: c.card, tap: w.tap(t)}}, server: s.url})
			m.awaitEnd(s)
			g.Expect(from(s)).To(Equal("10.91.0.0/24"))
			g.Expect(d.log()).To(ContainSubstring("vendor class: capbm-agent"))
			var hello agent.Hello
			g.Expect(json.Unmarshal(s.Requests(agent.EndpointPlan)[0].Body, &hello)).To(Succeed())
			g.Expect(hello.Firmware).To(Equal(wire.FirmwareBIOS))
			g.Expect(hello.Architecture).To(Equal("amd64"))
			g.Expect(hello.Kernel).To(HavePrefix("6."))
			seconds := m.secondsToPlan(s)
			t.Logf("%s: %.1f s from the kernel's start to the request for the plan, %.1f s from QEMU's start", c.name, seconds, m.secondsFromStart(s))
			g.Expect(seconds).To(BeNumerically("<", maxSeconds))
		})
	}
}

// TestIPv6: the network has no IPv4. The address is from DHCPv6, or made of the prefix that a router advertises.
func TestIPv6(t *testing.T) {
	for _, c := range []struct{ name, ranges string }{
		{"DHCPv6", "fd91::100,fd91::150,64,2m"},
		{"SLAAC", "fd91::,ra-only,64"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newSegment(t, "fd91::/64")
			w.dnsmasq(t, c.ranges)
			s := serve(t, w.address(), agent.PowerOff)
			m := start(t, machine{cards: []card{{model: "virtio-net-pci", tap: w.tap(t)}}, server: s.url})
			m.awaitEnd(s)
			address := netip.MustParseAddrPort(s.Requests(agent.EndpointPlan)[0].From).Addr()
			leased := address.Compare(netip.MustParseAddr("fd91::100")) >= 0 && address.Compare(netip.MustParseAddr("fd91::150")) <= 0
			if leased != (c.name == "DHCPv6") {
				t.Errorf("the agent has the address %s", address)
			}
			t.Logf("%.1f s from the kernel's start to the request for the plan", m.secondsToPlan(s))
		})
	}
}

// TestOneAddress: the network gives the server an address by DHCPv6 and another one by SLAAC, at different moments, and each request has a connection of its
// own. All requests come from one address: by it the boot server knows the agent.
func TestOneAddress(t *testing.T) {
	g := NewWithT(t)
	w := newSegment(t, "fd92::/64")
	w.dnsmasq(t, "fd92::100,fd92::150,slaac,64,2m")
	s := serve(t, w.address(), agent.PowerOff)
	s.NotYet = 12 // for longer than both addresses take
	m := start(t, machine{cards: []card{{model: "virtio-net-pci", tap: w.tap(t)}}, server: s.url})
	m.awaitEnd(s)
	g.Expect(m.said()).To(ContainSubstring("source=dhcp6"), "the server has an address by DHCPv6")
	s.mu.Lock()
	defer s.mu.Unlock()
	t.Logf("requests: %v", s.clients)
	g.Expect(s.clients).To(HaveLen(1))
	for client := range s.clients {
		g.Expect(client.IsLinkLocalUnicast()).To(BeFalse())
	}
}

// TestSecondInterface: both cards get an address, and only the network of the second one has the boot server.
func TestSecondInterface(t *testing.T) {
	first, second := newSegment(t, "10.92.0.0/24"), newSegment(t, "10.93.0.0/24")
	first.dnsmasq(t, "10.92.0.100,10.92.0.150,2m", "--dhcp-option=3,10.92.0.77") // a router that is not there
	second.dnsmasq(t, "10.93.0.100,10.93.0.150,2m")
	s := serve(t, second.address(), agent.PowerOff)
	// The boot server's address is beyond the first network's default route as well.
	m := start(t, machine{cards: []card{{model: "virtio-net-pci", tap: first.tap(t)}, {model: "e1000e", tap: second.tap(t)}}, server: s.url})
	m.awaitEnd(s)
	NewWithT(t).Expect(from(s)).To(Equal("10.93.0.0/24"))
}

// TestLateLink: the cable is plugged in after the agent has begun to try.
func TestLateLink(t *testing.T) {
	w := newSegment(t, "10.94.0.0/24")
	w.dnsmasq(t, "10.94.0.100,10.94.0.150,2m")
	s := serve(t, w.address(), agent.PowerOff)
	m := start(t, machine{cards: []card{{model: "e1000e", tap: w.tap(t)}}, server: s.url, unplugged: true})
	m.awaitConsole("The boot server does not answer")
	m.monitor("set_link net0 on")
	m.awaitEnd(s)
}

// TestLinkDrops: the cable is pulled between the plan and the result. The result arrives when it is back.
func TestLinkDrops(t *testing.T) {
	w := newSegment(t, "10.95.0.0/24")
	w.dnsmasq(t, "10.95.0.100,10.95.0.150,2m")
	s := serve(t, w.address(), agent.PowerOff)
	s.NotYet = 3
	dropped := make(chan struct{})
	m := start(t, machine{cards: []card{{model: "e1000e", tap: w.tap(t)}}, server: s.url})
	s.onFirst(func() {
		m.monitor("set_link net0 off")
		close(dropped)
	})
	select {
	case <-dropped:
	case <-time.After(bootTimeout):
		t.Fatal("the agent did not ask for the plan")
	}
	m.awaitConsole("A request failed")
	m.monitor("set_link net0 on")
	m.awaitEnd(s)
}

// TestLinkDropsWhileWriting: the cable is pulled for a minute while the agent writes an image. The agent continues where it stopped.
func TestLinkDropsWhileWriting(t *testing.T) {
	g := NewWithT(t)
	service, from := prepared(t, debianImage)
	w := newSegment(t, "10.95.0.0/24")
	w.dnsmasq(t, "10.95.0.100,10.95.0.150,2m")
	s, sent := serve(t, w.address(), agent.PowerOff), &atomic.Int64{}
	info := s.provide(t, service, from, sent)
	m := start(t, machine{cards: []card{{model: "e1000e", tap: w.tap(t)}}, server: s.url, args: diskArgs(blankDisk(t))})
	g.Eventually(sent.Load, bootTimeout, "20ms").Should(BeNumerically(">", info.DataBytes/4))
	m.monitor("set_link net0 off")
	atDrop := sent.Load()
	g.Consistently(m.isOff, time.Minute, "1s").Should(BeFalse(), "the agent gave up")
	g.Expect(sent.Load()).To(BeNumerically("<", info.DataBytes/2), "the image was written before")
	m.monitor("set_link net0 on")
	m.awaitImage(s)
	t.Logf("%d of %d bytes were sent before the link dropped, and %d in all", atDrop, info.DataBytes, sent.Load())
	g.Expect(m.said()).To(ContainSubstring("The boot server does not answer"))
	// What was on its way is sent again, and not the whole image.
	g.Expect(sent.Load()).To(BeNumerically("<", info.DataBytes*5/4))
	// The first chunk is written at the end, and not counted.
	g.Expect(s.Result().Written.ImageBytes).To(Equal(info.DataBytes - manifest.ChunkSize))
}

// TestStatic: the network has no DHCP server. The host has a bond of two cards with a VLAN on it, of which the boot server's network is the tagged one.
func TestStatic(t *testing.T) {
	for _, mode := range []string{"active-backup", "802.3ad"} {
		t.Run(mode, func(t *testing.T) {
			g := NewWithT(t)
			w := newSegment(t, "10.96.0.0/24")
			s := serve(t, w.address(), agent.PowerOff)
			sw := newSwitch(t, w, 7)
			bond := seed.Bond{Name: "bond0", Interfaces: []string{"lan0", "lan1"}, Mode: mode, Monitor: 100 * time.Millisecond}
			if mode == "active-backup" {
				bond.Primary = "lan1"
			} else {
				bond.LACPRate, bond.HashPolicy = "fast", "layer3+4"
			}
			network := &seed.Network{
				Interfaces: []seed.Interface{{Name: "lan0", MAC: macOf(0)}, {Name: "lan1", MAC: macOf(1)}},
				Bonds:      []seed.Bond{bond},
				VLANs: []seed.VLAN{{Name: "bond0.7", ID: 7, Link: "bond0", Settings: seed.Settings{
					MTU: 1400, Addresses: []netip.Prefix{netip.MustParsePrefix("10.96.0.20/24")},
					Routes: []seed.Route{{To: netip.MustParsePrefix("0.0.0.0/0"), Via: netip.MustParseAddr("10.96.0.1")}},
				}}},
			}
			content, err := json.Marshal(network)
			g.Expect(err).NotTo(HaveOccurred())
			m := start(t, machine{
				cards:       []card{{model: "virtio-net-pci", netdev: sw.port(t)}, {model: "e1000e", netdev: sw.port(t)}},
				server:      s.url,
				commandLine: agent.ParamNetwork + "=" + base64.RawURLEncoding.EncodeToString(content),
			})
			m.awaitEnd(s)
			g.Expect(netip.MustParseAddrPort(s.Requests(agent.EndpointPlan)[0].From).Addr().String()).To(Equal("10.96.0.20"))
		})
	}
}

// TestStaticFirst: the network has no DHCP server, and the agent does not wait for one. The boot server has a name, and is behind a router.
func TestStaticFirst(t *testing.T) {
	g := NewWithT(t)
	w, far := newSegment(t, "10.95.0.0/24"), newSegment(t, "10.94.0.0/24")
	w.resolve(t, "boot.example.com", far.address())
	s := serve(t, far.address(), agent.PowerOff)
	network := &seed.Network{Interfaces: []seed.Interface{{Name: "lan0", MAC: macOf(0), Settings: seed.Settings{
		Addresses: []netip.Prefix{netip.MustParsePrefix("10.95.0.20/24")}, Nameservers: []netip.Addr{w.address()},
		Routes: []seed.Route{{To: netip.MustParsePrefix("0.0.0.0/0"), Via: w.address()}},
	}}}}
	content, err := json.Marshal(network)
	g.Expect(err).NotTo(HaveOccurred())
	m := start(t, machine{
		cards:       []card{{model: "virtio-net-pci", tap: w.tap(t)}},
		server:      strings.Replace(s.url, far.address().String(), "boot.example.com", 1),
		commandLine: agent.ParamNetwork + "=" + base64.RawURLEncoding.EncodeToString(content) + " " + agent.ParamStatic + "=" + agent.StaticFirst,
	})
	m.awaitEnd(s)
	g.Expect(netip.MustParseAddrPort(s.Requests(agent.EndpointPlan)[0].From).Addr().String()).To(Equal("10.95.0.20"))
	m.awaitConsole("Setting up the static network of the host")
	g.Expect(m.said()).NotTo(ContainSubstring("trying the static network"), "that is after 30 s without an answer")
}

// TestNoParameters: a ramdisk that was not booted by the boot server says so, and powers the server off.
func TestNoParameters(t *testing.T) {
	w := newSegment(t, "10.97.0.0/24")
	m := start(t, machine{cards: []card{{model: "virtio-net-pci", tap: w.tap(t)}}})
	m.awaitConsole("has no capbm.server")
	m.awaitOff()
}

// minMemory is the memory of servers that write an image, in MiB. It has a reserve: 224 MiB were enough (docs/agent.md).
const minMemory = 320

// TestMemory finds the smallest memory with which the agent writes an image: AGENT_MEMORY=256,224,192 tries these, in MiB. The suite tries one.
func TestMemory(t *testing.T) {
	service, from := prepared(t, smallImage)
	for text := range strings.SplitSeq(cmp.Or(os.Getenv("AGENT_MEMORY"), strconv.Itoa(minMemory)), ",") {
		size, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(text, func(t *testing.T) {
			w := newSegment(t, "10.98.0.0/24")
			w.dnsmasq(t, "10.98.0.100,10.98.0.150,2m")
			s := serve(t, w.address(), agent.PowerOff)
			s.provide(t, service, from, &atomic.Int64{})
			m := start(t, machine{cards: []card{{model: "virtio-net-pci", tap: w.tap(t)}}, server: s.url, memory: size, args: diskArgs(blankDisk(t))})
			m.awaitImage(s)
		})
	}
}

// from is the network from which the plan was asked for.
func from(s *server) string {
	address := netip.MustParseAddrPort(s.Requests(agent.EndpointPlan)[0].From).Addr()
	prefix, _ := address.Prefix(24) // an IPv4 address
	return prefix.String()
}
