package e2e_test

import (
	"fmt"
	"io"
	"net/netip"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"
)

// segment is a provisioning network: a bridge with an address of this namespace, and a tap for each server.
type segment struct {
	bridge string
	prefix netip.Prefix
	// address is that of this namespace, where the manager is.
	address netip.Addr
}

// numbers makes names of interfaces.
var numbers atomic.Int32

func nextName(prefix string) string { return prefix + strconv.Itoa(int(numbers.Add(1))) }

// newSegment makes a network in the namespace that TestMain made. Its address is the first of the prefix. The network ends with the test.
func newSegment(t *testing.T, prefix string) *segment {
	t.Helper()
	w := newBareSegment(t, prefix)
	w.address = w.at(1)
	address := fmt.Sprintf("address add %s dev %s", netip.PrefixFrom(w.address, w.prefix.Bits()), w.bridge)
	if w.address.Is6() {
		address += " nodad"
	}
	ipf(t, "%s", address)
	return w
}

// newBareSegment makes a network on which this namespace has no address.
func newBareSegment(t *testing.T, prefix string) *segment {
	t.Helper()
	w := &segment{bridge: nextName("br"), prefix: netip.MustParsePrefix(prefix)}
	ipf(t, "link add %s type bridge", w.bridge)
	t.Cleanup(func() { ipf(t, "link delete %s", w.bridge) })
	// The router's address must be usable at once: one that the kernel chooses is first probed for.
	ipf(t, "link set %s addrgenmode none up", w.bridge)
	ipf(t, "address add fe80::1/64 dev %s nodad", w.bridge)
	advertise(t, w)
	return w
}

// at returns an address of the network.
func (w *segment) at(number byte) netip.Addr {
	a := w.prefix.Addr().AsSlice()
	a[len(a)-1] = number
	address, _ := netip.AddrFromSlice(a) // it has the length of an address
	return address
}

// tap makes a tap for a server. It ends with the test.
func (w *segment) tap(t *testing.T, owner string) string {
	t.Helper()
	name := nextName("tap")
	ipf(t, "tuntap add %s mode tap user %s", name, owner)
	t.Cleanup(func() { ipf(t, "link delete %s", name) })
	ipf(t, "link set %s master %s up", name, w.bridge)
	return name
}

// lose drops so many percent of the UDP packets that come and go through a tap.
func lose(t *testing.T, tap string, percent int) {
	t.Helper()
	rule := fmt.Sprintf("meta l4proto udp numgen random mod 100 < %d counter drop", percent)
	run(t, "nft", fmt.Sprintf(`table netdev %[1]s {
		chain in { type filter hook ingress device "%[1]s" priority 0; %[2]s; }
		chain out { type filter hook egress device "%[1]s" priority 0; %[2]s; }
	}`, tap, rule))
	t.Cleanup(func() { run(t, "nft", "delete", "table", "netdev", tap) })
}

// namespace is a machine on the network that is no server of the inventory, with an interface and an address for each leg.
type namespace struct {
	pid int
}

type leg struct {
	segment *segment
	address netip.Prefix
}

// newNamespace makes a namespace. It belongs to a process that waits for the end of its input, and so ends with the test whatever
// way that takes.
func newNamespace(t *testing.T, legs ...leg) *namespace {
	t.Helper()
	g := NewWithT(t)
	holder := exec.Command("cat") //nolint:noctx // ends with its input
	holder.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Setpgid: true}
	input, err := holder.StdinPipe()
	g.Expect(err).NotTo(HaveOccurred())
	holder.Stdout = io.Discard
	g.Expect(holder.Start()).To(Succeed())
	t.Cleanup(func() {
		_ = input.Close()
		_ = holder.Wait()
	})
	n := &namespace{pid: holder.Process.Pid}
	n.ipf(t, "link set lo up")
	for i, l := range legs {
		outer, inner := nextName("veth"), fmt.Sprintf("eth%d", i)
		ipf(t, "link add %s type veth peer name %s netns %d", outer, inner, n.pid)
		ipf(t, "link set %s master %s up", outer, l.segment.bridge)
		n.ipf(t, "link set %s up", inner)
		n.ipf(t, "address add %s dev %s", l.address, inner)
	}
	return n
}

// enter returns the command line that runs a program in the namespace.
func (n *namespace) enter(args ...string) []string {
	return append([]string{"nsenter", "--net", "--target", strconv.Itoa(n.pid)}, args...)
}

func (n *namespace) ipf(t *testing.T, format string, args ...any) {
	t.Helper()
	command := n.enter(append([]string{"ip"}, strings.Fields(fmt.Sprintf(format, args...))...)...)
	run(t, command[0], command[1:]...)
}

func ipf(t *testing.T, format string, args ...any) {
	t.Helper()
	run(t, "ip", strings.Fields(fmt.Sprintf(format, args...))...)
}

// run runs a program, and returns what it says. What is missing is an error of the test: hack/firmware.sh installs it.
func run(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, err := exec.Command(program, args...).CombinedOutput() //nolint:noctx // it also runs in cleanups, when the test's context has ended
	NewWithT(t).Expect(err).NotTo(HaveOccurred(), "%s %s: %s (hack/firmware.sh installs what is needed)", program, strings.Join(args, " "), out)
	return string(out)
}
