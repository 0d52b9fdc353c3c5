package ipmi_test

import (
	"context"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/ipmi"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/leaktest"
)

// TestMain fails if goroutines remain after the tests.
func TestMain(m *testing.M) { leaktest.Main(m) }

// systemUUID is of version 4, as most are.
const systemUUID = "7d0f3a52-9c41-4b6e-a1d3-5e2f8c90b714"

var loopback = bmc.AllowList{AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}}

// driver repeats requests soon, and has a long timeout for busy machines.
var driver = &ipmi.Driver{Permit: loopback, RepeatAfter: 80 * time.Millisecond}

// hasty has a short timeout, for tests without a response.
var hasty = &ipmi.Driver{Permit: loopback, RequestTimeout: time.Second, RepeatAfter: 80 * time.Millisecond}

// calm repeats requests late, even on a busy machine, for tests that count packets.
var calm = &ipmi.Driver{Permit: loopback, RequestTimeout: time.Minute, RepeatAfter: time.Minute}

func options() bmctest.Options {
	return bmctest.Options{Name: "s1", UUID: systemUUID, MAC: "52:54:00:00:00:01", Username: "admin", Password: "secret"}
}

// newMachine starts an emulated server whose packets pass through the wires.
func newMachine(tb testing.TB, opts bmctest.Options, wires ...func(net.PacketConn) net.PacketConn) (*bmctest.Machine, bmc.Endpoint) {
	tb.Helper()
	g := NewWithT(tb)
	machine := bmctest.NewMachine(opts)
	socket, err := (&net.ListenConfig{}).ListenPacket(tb.Context(), "udp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	address := socket.LocalAddr().String()
	for _, wire := range wires {
		socket = wire(socket)
	}
	served := make(chan error, 1)
	go func() { served <- machine.ServeIPMI(socket) }()
	tb.Cleanup(func() {
		g.Expect(socket.Close()).To(Succeed())
		g.Expect(<-served).To(Succeed())
		machine.Close()
	})
	return machine, bmc.Endpoint{URL: &url.URL{Scheme: ipmi.Scheme, Host: address}, Username: "admin", Password: "secret"}
}

func open(tb testing.TB, endpoint bmc.Endpoint) bmc.Client {
	tb.Helper()
	return openBy(tb, driver, endpoint)
}

func openBy(tb testing.TB, d *ipmi.Driver, endpoint bmc.Endpoint) bmc.Client {
	tb.Helper()
	client, err := d.Open(tb.Context(), endpoint)
	NewWithT(tb).Expect(err).NotTo(HaveOccurred())
	tb.Cleanup(func() { _ = client.Close(context.Background()) })
	return client
}

// wire is a socket that records and changes packets.
type wire struct {
	net.PacketConn

	in  func(packet []byte)
	out func(packet []byte) [][]byte // what is sent instead
}

func (w *wire) ReadFrom(b []byte) (int, net.Addr, error) {
	n, from, err := w.PacketConn.ReadFrom(b)
	if err == nil && w.in != nil {
		w.in(b[:n])
	}
	return n, from, err
}

func (w *wire) WriteTo(packet []byte, to net.Addr) (int, error) {
	packets := [][]byte{packet}
	if w.out != nil {
		packets = w.out(packet)
	}
	for _, p := range packets {
		if _, err := w.PacketConn.WriteTo(p, to); err != nil {
			return 0, err
		}
	}
	return len(packet), nil
}

func hearing(in func([]byte)) func(net.PacketConn) net.PacketConn {
	return func(c net.PacketConn) net.PacketConn { return &wire{PacketConn: c, in: in} }
}

func saying(out func([]byte) [][]byte) func(net.PacketConn) net.PacketConn {
	return func(c net.PacketConn) net.PacketConn { return &wire{PacketConn: c, out: out} }
}

// counter counts packets by payload type.
type counter struct {
	mu    sync.Mutex
	kinds map[byte]int
}

func (c *counter) count(packet []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kinds == nil {
		c.kinds = map[byte]int{}
	}
	if len(packet) > 5 {
		c.kinds[packet[5]&0x3f]++
	}
}

func (c *counter) of(kind byte) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kinds[kind]
}

// The payload types of the handshake (IPMI 2.0, table 13-16).
const (
	openRequest = 0x10
	rakp1       = 0x12
	rakp3       = 0x14
)

func TestConformance(t *testing.T) {
	for query, faults := range map[string][]bmctest.Fault{
		"": nil, "cipherSuite=3": nil, "privilege=operator": nil,
		"cipherSuite=17": {bmctest.BusyInTransition, bmctest.DropsInTransition}, // IPMI shows no transitions and records no restarts, so a stale power state would hide a restart
	} {
		t.Run(query, func(t *testing.T) {
			opts := options()
			opts.PowerDelay = 20 * time.Millisecond // so that a cycle can be seen
			machine, endpoint := newMachine(t, opts)
			for _, fault := range faults {
				NewWithT(t).Expect(machine.Misbehave(fault, -1)).To(Succeed())
			}
			endpoint.URL.RawQuery = query
			bmctest.Test(t, bmctest.Subject{
				Open: driver.Open, Endpoint: endpoint, Boots: true, Settle: 5 * time.Second, Poll: time.Millisecond,
				Must: []bmc.Capability{
					bmc.CanBootCD, bmc.CanBootDisk, bmc.CanBootPXE, bmc.CanClock, bmc.CanCycle, bmc.CanEventLog, bmc.CanForceOff, bmc.CanInventory,
					bmc.CanNMI, bmc.CanPowerOn, bmc.CanReset, bmc.CanSensors, bmc.CanShutDown,
				},
			})
		})
	}
}

func TestDescribe(t *testing.T) {
	g := NewWithT(t)
	_, endpoint := newMachine(t, options())
	endpoint.URL.RawQuery = "cipherSuite=3"
	d, err := open(t, endpoint).Describe(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(d.Protocol).To(Equal("IPMI 2.0, cipher suite 3"))
	g.Expect([]string{d.Vendor, d.Model, d.FirmwareVersion}).To(Equal([]string{"Emulated", "bmctest", "1.00"}))
	g.Expect(d.Quirks).To(BeEmpty())
}

func TestInspect(t *testing.T) {
	for _, swapped := range []int{0, -1} {
		g := NewWithT(t)
		machine, endpoint := newMachine(t, options())
		g.Expect(machine.Misbehave(bmctest.SwappedGUID, swapped)).To(Succeed())
		want := bmc.Inventory{
			Manufacturer: "Emulated", Model: "bmctest", SerialNumber: "SN-s1", SystemUUID: systemUUID, BMCFirmwareVersion: "1.00",
			Facts: []bmc.Fact{
				{Name: bmc.FactSerialNumber, State: bmc.FactKnown, Source: "FRU 0"},
				{Name: bmc.FactSystemUUID, State: bmc.FactKnown, Source: "Get System GUID"},
				{Name: bmc.FactBMCFirmwareVersion, State: bmc.FactKnown, Source: "Get Device ID"},
			},
		}
		want.SetNotOffered("IPMI does not offer it")
		g.Expect(open(t, endpoint).Inspect(t.Context())).To(Equal(want), "swapped: %d", swapped)
	}
}

func TestMonitor(t *testing.T) {
	g, ctx := NewWithT(t), t.Context()
	machine, endpoint := newMachine(t, options())
	client := open(t, endpoint)
	monitor := client.(bmc.Monitor)
	g.Expect(monitor.Sensors(ctx)).To(Equal([]bmc.Sensor{
		{Name: "Inlet Temp", Kind: "Temperature", Value: 20, Unit: "Cel", Health: bmc.HealthOK},
		{Name: "System Power", Kind: "Power", Value: 10, Unit: "W", Health: bmc.HealthOK},
	}), "the fan is not read while the server is off")
	machine.SetPower(true)
	g.Expect(monitor.Sensors(ctx)).To(ContainElement(bmc.Sensor{Name: "Fan 1", Kind: "Fan", Value: 5200, Unit: "RPM", Health: bmc.HealthOK}))
	g.Expect(client.NMI(ctx)).To(Succeed())
	logs, err := client.(bmc.HealthReader).ReadLogs(ctx, nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(logs).To(HaveLen(1))
	entries := logs[0].Entries
	g.Expect(entries).To(HaveLen(3))
	g.Expect(entries[0].Message).To(HavePrefix("Critical Interrupt sensor 00h"))
	g.Expect(entries[0].Time).To(BeTemporally("~", time.Now(), time.Minute))
	g.Expect(entries[1].Message).To(HavePrefix("System ACPI Power State sensor 00h"))
}

// TestWrongPassword: a wrong password or an unknown user causes at most one refused login, with all cipher suites and repeats.
func TestWrongPassword(t *testing.T) {
	for name, change := range map[string]func(*bmc.Endpoint){
		"password": func(e *bmc.Endpoint) { e.Password = "guess" },
		"user":     func(e *bmc.Endpoint) { e.Username = "nobody" },
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			packets := &counter{}
			_, endpoint := newMachine(t, options(), hearing(packets.count))
			change(&endpoint)
			_, err := calm.Open(t.Context(), endpoint)
			g.Expect(bmc.KindOf(err)).To(Equal(bmc.Unauthorized), "%v", err)
			g.Expect(err).To(MatchError(ContainSubstring("the password is wrong")), "the emulator does not tell which users it has")
			g.Expect(err.Error()).NotTo(ContainSubstring(endpoint.Password))
			g.Eventually(func() int { return packets.of(rakp3) }).Should(Equal(1), "the session is given up at once")
			g.Expect(packets.of(rakp1)).To(Equal(1))
			g.Expect(packets.of(openRequest)).To(Equal(1))
		})
	}
}

// TestUnknownUser: the error contains the BMC's refusal of the user, which precedes the password check, with the remedy. The same applies to a
// privilege level that the user may not have. The session is not proposed again.
func TestUnknownUser(t *testing.T) {
	for status, said := range map[byte]string{
		0x0d: "with status 0Dh: Unauthorized name: the BMC has no enabled user of that name for IPMI over LAN as administrator, and did not check the password",
		0x09: "with status 09h: Invalid role; if the account may not be administrator, set a lower level",
		0x0a: "with status 0Ah: Unauthorized role of privilege level requested; if the account may not be administrator, set a lower level",
	} {
		g := NewWithT(t)
		packets := &counter{}
		_, endpoint := newMachine(t, options(), hearing(packets.count), saying(func(packet []byte) [][]byte {
			if kindOf(packet) == rakp1+1 {
				packet[payloadAt+1] = status
			}
			return [][]byte{packet}
		}))
		_, err := calm.Open(t.Context(), endpoint)
		g.Expect(bmc.KindOf(err)).To(Equal(bmc.Unauthorized))
		g.Expect(err).To(MatchError(ContainSubstring(said)))
		g.Expect(packets.of(rakp1)).To(Equal(1))
		g.Expect(packets.of(rakp3)).To(BeZero(), "no proof of the password is sent")
	}
}

// TestImpossibleCredentials: credentials that IPMI does not allow are not sent.
func TestImpossibleCredentials(t *testing.T) {
	g := NewWithT(t)
	packets := &counter{}
	_, endpoint := newMachine(t, options(), hearing(packets.count))
	long := endpoint
	long.Password = "a password of more than 20 bytes"
	_, err := driver.Open(t.Context(), long)
	g.Expect(bmc.KindOf(err)).To(Equal(bmc.Unauthorized))
	g.Expect(err.Error()).NotTo(ContainSubstring(long.Password))
	long = endpoint
	long.Username = "a-name-of-17-byte"
	_, err = driver.Open(t.Context(), long)
	g.Expect(bmc.KindOf(err)).To(Equal(bmc.Unauthorized))
	g.Expect(packets.of(openRequest)).To(BeZero())
}

// TestDowngrade: the driver refuses a response without authentication, from a BMC or an attacker.
func TestDowngrade(t *testing.T) {
	for _, algorithm := range []int{16 + 12 + 4, 16 + 20 + 4, 16 + 28 + 4} { // of authentication, integrity, confidentiality (IPMI 2.0, 13.18)
		g := NewWithT(t)
		_, endpoint := newMachine(t, options(), saying(func(packet []byte) [][]byte {
			if packet[5]&0x3f == openRequest+1 && len(packet) > algorithm {
				packet[algorithm] = 0
			}
			return [][]byte{packet}
		}))
		_, err := driver.Open(t.Context(), endpoint)
		g.Expect(err).To(MatchError(ContainSubstring("none of the cipher suites")))
		g.Expect(bmc.KindOf(err)).To(Equal(bmc.Failed))
	}
}

// TestLossyAndReplayed: one of four responses is lost, and the others arrive three times, between invalid packets.
func TestLossyAndReplayed(t *testing.T) {
	g := NewWithT(t)
	var (
		mu   sync.Mutex
		sent int
		old  []byte
	)
	_, endpoint := newMachine(t, options(), saying(func(packet []byte) [][]byte {
		mu.Lock()
		defer mu.Unlock()
		if sent++; sent%4 == 2 {
			return nil
		}
		packets := [][]byte{{}, {6}, old, packet, packet, packet}
		if packet[5]&0x3f == 0 { // packets of a session are authenticated
			broken := slices.Clone(packet)
			broken[len(broken)-1] ^= 1
			packets = append([][]byte{broken, packet[:len(packet)-1]}, packets...)
		}
		old = slices.Clone(packet)
		return packets
	}))
	client := open(t, endpoint)
	for range 3 {
		g.Expect(client.PowerState(t.Context())).To(Equal(bmc.PowerOff))
	}
	g.Expect(client.PowerOn(t.Context())).To(Succeed())
	g.Expect(client.PowerState(t.Context())).To(Equal(bmc.PowerOn))
}

// TestThrottle: each exchange is throttled, and returns the error of the throttle.
func TestThrottle(t *testing.T) {
	g := NewWithT(t)
	_, endpoint := newMachine(t, options())
	turns := 0
	endpoint.Throttle = func(ctx context.Context) error { turns++; return ctx.Err() }
	client, err := calm.Open(t.Context(), endpoint)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = client.Close(context.Background()) })
	g.Expect(turns).To(Equal(4), "open, two proofs, privilege")
	_, err = client.PowerState(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(turns).To(Equal(5))
	over, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = client.PowerState(over)
	g.Expect(bmc.KindOf(err)).To(Equal(bmc.Unreachable))
}

// TestContextEnds: a call returns when its context ends, before the request timeout.
func TestContextEnds(t *testing.T) {
	g := NewWithT(t)
	heard := make(chan struct{}, 100)
	machine, endpoint := newMachine(t, options(), hearing(func([]byte) { heard <- struct{}{} }))
	client, err := calm.Open(t.Context(), endpoint)
	g.Expect(err).NotTo(HaveOccurred())
	for len(heard) > 0 {
		<-heard
	}
	g.Expect(machine.Misbehave(bmctest.Hang, -1)).To(Succeed())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := client.PowerState(ctx)
		done <- err
	}()
	<-heard
	cancel()
	g.Expect(bmc.KindOf(<-done)).To(Equal(bmc.Unreachable))
	g.Expect(machine.Misbehave(bmctest.Hang, 0)).To(Succeed())
	g.Expect(client.PowerState(t.Context())).To(Equal(bmc.PowerOff), "the connection is as good as before")
	g.Expect(client.Close(t.Context())).To(Succeed())
	g.Expect(client.Close(t.Context())).To(Succeed(), "twice")
	_, err = client.PowerState(t.Context())
	g.Expect(err).To(MatchError(ContainSubstring("closed")))
}

// TestSockets: failed and closed connections leave no socket open.
func TestSockets(t *testing.T) {
	g := NewWithT(t)
	sockets := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		g.Expect(err).NotTo(HaveOccurred())
		return len(entries)
	}
	machine, endpoint := newMachine(t, options())
	before := sockets()
	wrong := endpoint
	wrong.Password = "guess"
	for range 10 {
		client, err := driver.Open(t.Context(), endpoint)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(client.Close(t.Context())).To(Succeed())
		_, err = driver.Open(t.Context(), wrong)
		g.Expect(err).To(HaveOccurred())
	}
	client, err := hasty.Open(t.Context(), endpoint)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(machine.Misbehave(bmctest.Down, -1)).To(Succeed())
	_, err = hasty.Open(t.Context(), endpoint)
	g.Expect(bmc.KindOf(err)).To(Equal(bmc.Unreachable))
	g.Expect(client.Close(t.Context())).NotTo(Succeed())
	g.Expect(sockets()).To(Equal(before))
}

// TestUnreachable: no BMC answers, or the address is not allowed.
func TestUnreachable(t *testing.T) {
	g := NewWithT(t)
	endpoint := bmc.Endpoint{URL: &url.URL{Scheme: ipmi.Scheme, Host: "127.0.0.1:1"}, Username: "admin", Password: "secret"}
	_, err := driver.Open(t.Context(), endpoint)
	g.Expect(bmc.KindOf(err)).To(Equal(bmc.Unreachable))
	_, err = (&ipmi.Driver{}).Open(t.Context(), endpoint)
	g.Expect(err).To(MatchError(ContainSubstring("bmcs.allowNetworks")))
}
