package agenttest_test

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent/agenttest"
)

// segment is a network: a bridge, whose address is the first of its prefix.
type segment struct {
	bridge string
	prefix netip.Prefix
}

// numbers makes names of interfaces.
var numbers atomic.Int32

func newSegment(t *testing.T, prefix string) *segment {
	t.Helper()
	w := &segment{bridge: fmt.Sprintf("br%d", numbers.Add(1)), prefix: netip.MustParsePrefix(prefix)}
	ipf(t, "link add %s type bridge", w.bridge)
	t.Cleanup(func() { ipf(t, "link delete %s", w.bridge) })
	address := fmt.Sprintf("address add %s/%d dev %s", w.address(), w.prefix.Bits(), w.bridge)
	if w.address().Is6() {
		address += " nodad"
	}
	ipf(t, "%s", address)
	ipf(t, "link set %s up", w.bridge)
	return w
}

func (w *segment) address() netip.Addr { return w.prefix.Addr().Next() }

// tap makes a tap at the bridge.
func (w *segment) tap(t *testing.T) string {
	t.Helper()
	name := fmt.Sprintf("tap%d", numbers.Add(1))
	ipf(t, "tuntap add %s mode tap", name)
	t.Cleanup(func() { ipf(t, "link delete %s", name) })
	ipf(t, "link set %s master %s up", name, w.bridge)
	return name
}

// dnsmasq is a DHCP server.
type dnsmasq struct {
	t    *testing.T
	file string
}

func (w *segment) dnsmasq(t *testing.T, ranges string, args ...string) *dnsmasq {
	t.Helper()
	d := &dnsmasq{t, filepath.Join(t.TempDir(), "log")}
	log, err := os.Create(d.file)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = log.Close() })
	args = append([]string{
		"--no-daemon", "--conf-file=/dev/null", "--port=0", "--interface=" + w.bridge, "--bind-interfaces", "--dhcp-range=" + ranges, "--log-dhcp",
		"--dhcp-leasefile=" + filepath.Join(t.TempDir(), "leases"), "--enable-ra",
	}, args...)
	command := exec.Command("dnsmasq", args...) //nolint:noctx // ended with the test
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	NewWithT(t).Expect(command.Start()).To(Succeed(), "hack/agenttest.sh installs it")
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		if t.Failed() {
			t.Logf("the DHCP server:\n%s", d.log())
		}
	})
	return d
}

// resolve starts a name server that knows one name.
func (w *segment) resolve(t *testing.T, name string, address netip.Addr) {
	t.Helper()
	args := []string{
		"--no-daemon", "--conf-file=/dev/null", "--no-resolv", "--no-hosts", "--interface=" + w.bridge, "--bind-interfaces", "--address=/" + name + "/" + address.String(),
	}
	command := exec.Command("dnsmasq", args...) //nolint:noctx // ended with the test
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	NewWithT(t).Expect(command.Start()).To(Succeed(), "hack/agenttest.sh installs it")
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
}

func (d *dnsmasq) log() string {
	content, err := os.ReadFile(d.file)
	if err != nil {
		return err.Error()
	}
	return string(content)
}

// server is a boot server.
type server struct {
	agenttest.Server

	url   string
	first sync.Once
	hook  atomic.Pointer[func()]
	// clients are the addresses from which requests came, with their number.
	mu      sync.Mutex
	clients map[netip.Addr]int
}

const (
	host  = "default/host-1"
	token = "a-token"
)

func serve(t *testing.T, at netip.Addr, next agent.Next) *server {
	t.Helper()
	s := &server{clients: map[netip.Addr]int{}}
	s.Server = agenttest.Server{
		Host: host, Token: token, Next: next,
		Plan: agent.Plan{Title: "a test", Purpose: "Nothing"},
	}
	listener, err := net.Listen("tcp", netip.AddrPortFrom(at, 0).String()) //nolint:noctx // at an address of this test
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	s.url = "http://" + listener.Addr().String()
	h := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if hook := s.hook.Load(); hook != nil {
			s.first.Do(*hook)
		}
		s.mu.Lock()
		s.clients[netip.MustParseAddrPort(r.RemoteAddr).Addr()]++
		s.mu.Unlock()
		s.ServeHTTP(w, r)
	})}
	h.SetKeepAlivesEnabled(false) // the agent connects for each request, as after a restart of the boot server
	go func() { _ = h.Serve(listener) }()
	t.Cleanup(func() { _ = h.Close() })
	return s
}

// onFirst calls a function before the next request is answered.
func (s *server) onFirst(hook func()) { s.hook.Store(&hook) }

// ethernetSwitch is a switch whose ports have one tagged VLAN, which is untagged at a segment. This machine may have no VLAN devices, so it moves the frames
// itself.
type ethernetSwitch struct {
	tap  *os.File
	vlan int

	mu sync.Mutex
	// last is the port from which the last frame came.
	last *net.UDPConn
}

// maxFrame is the largest frame.
const maxFrame = 65536

func newSwitch(t *testing.T, w *segment, vlan int) *ethernetSwitch {
	t.Helper()
	g := NewWithT(t)
	name := w.tap(t)
	socket, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	g.Expect(err).NotTo(HaveOccurred())
	request, err := unix.NewIfreq(name)
	g.Expect(err).NotTo(HaveOccurred())
	request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
	g.Expect(unix.IoctlIfreq(socket, unix.TUNSETIFF, request)).To(Succeed())
	g.Expect(unix.SetNonblock(socket, true)).To(Succeed())
	s := &ethernetSwitch{tap: os.NewFile(uintptr(socket), name), vlan: vlan}
	t.Cleanup(func() { _ = s.tap.Close() })
	go func() {
		frame := make([]byte, maxFrame)
		for {
			n, err := s.tap.Read(frame)
			if err != nil {
				return
			}
			s.mu.Lock()
			last := s.last
			s.mu.Unlock()
			if last != nil && n > 14 {
				tagged := append(append([]byte{}, frame[:12]...), 0x81, 0, byte(vlan>>8), byte(vlan))
				_, _ = last.Write(append(tagged, frame[12:n]...))
			}
		}
	}()
	return s
}

// port returns the arguments of QEMU's -netdev for a new port, apart from its ID.
func (s *ethernetSwitch) port(t *testing.T) string {
	t.Helper()
	g := NewWithT(t)
	ours, theirs := freePort(t), freePort(t)
	conn, err := net.DialUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: ours}, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: theirs})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		frame := make([]byte, maxFrame)
		for {
			n, err := conn.Read(frame)
			if err != nil && !strings.Contains(err.Error(), "connection refused") { // QEMU has not begun
				return
			}
			// Only frames with the tag belong to the segment.
			if n > 18 && frame[12] == 0x81 && frame[13] == 0 && int(frame[14]&0xf)<<8|int(frame[15]) == s.vlan {
				s.mu.Lock()
				s.last = conn
				s.mu.Unlock()
				_, _ = s.tap.Write(append(append([]byte{}, frame[:12]...), frame[16:n]...))
			}
		}
	}()
	return "dgram,local.type=inet,local.host=127.0.0.1,local.port=" + strconv.Itoa(theirs) + ",remote.type=inet,remote.host=127.0.0.1,remote.port=" + strconv.Itoa(ours)
}

func freePort(t *testing.T) int {
	t.Helper()
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	defer func() { _ = conn.Close() }()
	return conn.LocalAddr().(*net.UDPAddr).Port
}

func ipf(t *testing.T, format string, args ...any) {
	t.Helper()
	words := strings.Fields(fmt.Sprintf(format, args...))
	out, err := exec.Command("ip", words...).CombinedOutput() //nolint:noctx // it also runs in cleanups, when the test's context has ended
	NewWithT(t).Expect(err).NotTo(HaveOccurred(), "ip %s: %s", strings.Join(words, " "), out)
}
