package bmclib

import (
	"context"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
)

// script simulates ipmitool and its server. It keeps its state in files in its folder, and records its arguments. Its output
// is that of ipmitool 1.8.19, with the warning about a missing registry of manufacturers first.
const script = `#!/bin/sh
here=${0%/*}
echo "$@" >>"$here/args"
echo "IANA PEN registry open failed: No such file or directory" >&2
[ -f "$here/says" ] && { /bin/cat "$here/says"; exit 1; }
[ -f "$here/hang" ] && exec /bin/sleep 60
if [ "$IPMITOOL_PASSWORD" != "` + password + `" ]; then
	echo "Error: Unable to establish IPMI v2 / RMCP+ session" >&2
	exit 1
fi
case "$*" in
"-I lanplus -U admin -E -N 5 -R 1 -H 127.0.0.1 -p "*" -C 17 chassis power "*) ;;
"-I lanplus -U admin -E -N 5 -H 127.0.0.1 -p "*" -C 17 chassis power status") ;;
"-I lanplus -U admin -E -N 5 -H 127.0.0.1 -p "*" -C 17 chassis bootdev "*) ;;
*) echo "unexpected: $*"; exit 1 ;;
esac
case "$*" in
*"chassis power status")
	if [ -f "$here/on" ]; then echo "Chassis Power is on"; else echo "Chassis Power is off"; fi ;;
*"chassis power on") echo >"$here/on"; echo "Chassis Power Control: Up/On" ;;
*"chassis power off") /bin/rm -f "$here/on"; echo "Chassis Power Control: Down/Off" ;;
*"chassis power soft") /bin/rm -f "$here/on"; echo "Chassis Power Control: Soft" ;;
*"chassis power cycle") echo "Chassis Power Control: Cycle" ;;
*"chassis power reset") echo "Chassis Power Control: Reset" ;;
*"chassis power diag") echo "Chassis Power Control: Diag" ;;
*"chassis bootdev "*) set -- $(echo "${*#*bootdev }"); echo "Set Boot Device to $1" ;;
*) echo "Invalid command"; exit 1 ;;
esac
`

// fakeIpmitool returns a driver that runs the script, the folder of the script, and an endpoint where a BMC answers the probe.
func fakeIpmitool(t *testing.T) (*Driver, string, bmc.Endpoint) {
	t.Helper()
	folder := t.TempDir()
	d := testDriver()
	d.Ipmitool = filepath.Join(folder, "ipmitool")
	if err := os.WriteFile(d.Ipmitool, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return d, folder, bmc.Endpoint{URL: parse(t, "ipmitool://"+probed(t)), Username: username, Password: password}
}

// probed answers only the probe.
func probed(t *testing.T) (host string) {
	t.Helper()
	conn, err := new(net.ListenConfig).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { _ = conn.Close(); <-done })
	go func() {
		defer close(done)
		var packet [512]byte
		for {
			n, from, err := conn.ReadFrom(packet[:])
			if err != nil {
				return
			}
			if string(packet[:n]) == authCapabilities {
				_, _ = conn.WriteTo([]byte("\x06\x00\xff\x07\x00\x00\x00\x00\x00\x00\x00\x00\x00\x10\x81\x1c\x63\x20\x00\x38\x00\x01\x80\x04\x03\x00\x00\x00\x00\x20"), from)
			}
		}
	}()
	return conn.LocalAddr().String()
}

func TestIpmitoolConforms(t *testing.T) {
	d, _, endpoint := fakeIpmitool(t)
	bmctest.Test(t, bmctest.Subject{Open: d.OpenIpmitool, Endpoint: endpoint, Settle: settle, Must: []bmc.Capability{
		bmc.CanBootCD, bmc.CanBootDisk, bmc.CanBootPXE, bmc.CanCycle, bmc.CanForceOff, bmc.CanNMI, bmc.CanPowerOn, bmc.CanReset, bmc.CanShutDown,
	}})
}

// TestIpmitoolArguments: the command line contains the command, but not the password.
func TestIpmitoolArguments(t *testing.T) {
	g := NewWithT(t)
	d, folder, endpoint := fakeIpmitool(t)
	waits := 0
	endpoint.Throttle = func(ctx context.Context) error { waits++; return ctx.Err() }
	c, err := d.OpenIpmitool(t.Context(), endpoint)
	g.Expect(err).NotTo(HaveOccurred())
	for _, o := range []bmc.BootOverride{
		{Target: bmc.BootPXE, Mode: bmc.BootUEFI, Continuous: true}, {Target: bmc.BootPXE, Mode: bmc.BootLegacy}, {Target: bmc.BootDisk},
		{Target: bmc.BootCD}, {Target: bmc.BootNone},
	} {
		result, err := c.SetBootOverride(t.Context(), o, "")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(result).To(Equal(bmc.BootResult{Method: methodBootDevice}))
	}
	_, err = c.SetBootOverride(t.Context(), bmc.BootOverride{Target: bmc.BootHTTP}, "")
	g.Expect(bmc.KindOf(err)).To(Equal(bmc.Unsupported))
	g.Expect(c.PowerOn(t.Context())).To(Succeed())
	g.Expect(c.NMI(t.Context())).To(Succeed())
	args, err := os.ReadFile(filepath.Join(folder, "args"))
	g.Expect(err).NotTo(HaveOccurred())
	lines := strings.Split(strings.TrimSpace(string(args)), "\n")
	for _, want := range []string{
		"bootdev pxe options=persistent,efiboot", "bootdev pxe", "bootdev disk options=efiboot", "bootdev cdrom options=efiboot", "bootdev none",
		"power on", "power diag",
	} {
		g.Expect(lines).To(ContainElement(HaveSuffix(want)))
	}
	g.Expect(string(args)).NotTo(ContainSubstring(password))
	g.Expect(waits).To(BeNumerically(">=", len(lines)))
}

// TestIpmitoolKinds: the kind of an error follows from ipmitool's output, because it has one exit code.
func TestIpmitoolKinds(t *testing.T) {
	for says, want := range map[string]bmc.Kind{
		"Error in open session response message : no matching cipher suite\nError: Unable to establish IPMI v2 / RMCP+ session":     bmc.Unsupported,
		"Error: Unable to establish IPMI v2 / RMCP+ session":                                                                        bmc.Unauthorized, // it answers the probe
		"Set Session Privilege Level to ADMINISTRATOR failed: Unknown (0x81)\nError: Unable to establish IPMI v2":                   bmc.Unauthorized,
		"Set Session Privilege Level to ADMINISTRATOR failed: Node busy\nError: Unable to establish IPMI v2":                        bmc.Unreachable,
		"Set Session Privilege Level to ADMINISTRATOR failed\nError: Unable to establish IPMI v2":                                   bmc.Unreachable,
		"> Error: no response from RAKP 1 message\nError: Unable to establish IPMI v2 / RMCP+ session":                              bmc.Unreachable,
		"> Error: no response from RAKP 3 message\nSet Session Privilege Level to ADMINISTRATOR failed\nError: Unable to establish": bmc.Unreachable,
		"Error: Received an Unexpected RAKP 2 message\nError: Unable to establish IPMI v2 / RMCP+ session":                          bmc.Unreachable,
		"Error in open session response message : insufficient resources for session\n\nError: Unable to establish IPMI v2":         bmc.Unreachable,
		"Unable to get Chassis Power Status":                                                bmc.Unreachable,
		"lanplus: password is longer than 20 bytes.":                                        bmc.Unauthorized,
		"Set Chassis Power Control to Reset failed: Invalid command":                        bmc.Unsupported,
		"Set Chassis Power Control to Reset failed: Command not supported in present state": bmc.Failed,
		"Set Chassis Power Control to Up/On failed: Node busy":                              bmc.Unreachable,
		"Chassis Power is unknown":                                                          bmc.Failed,
		"":                                                                                  bmc.Failed,
	} {
		t.Run(says, func(t *testing.T) {
			g := NewWithT(t)
			d, folder, endpoint := fakeIpmitool(t)
			g.Expect(os.WriteFile(filepath.Join(folder, "says"), []byte(says), 0o600)).To(Succeed())
			expectKind(t, d.OpenIpmitool, endpoint, want)
		})
	}
}

// TestIpmitoolNoSession: a command is sent once, so one lost packet looks like a refused login, but is Unreachable.
func TestIpmitoolNoSession(t *testing.T) {
	g := NewWithT(t)
	d, folder, endpoint := fakeIpmitool(t)
	c, err := d.OpenIpmitool(t.Context(), endpoint)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(os.WriteFile(filepath.Join(folder, "says"), []byte("Error: Unable to establish IPMI v2 / RMCP+ session"), 0o600)).To(Succeed())
	g.Expect(bmc.KindOf(c.NMI(t.Context()))).To(Equal(bmc.Unreachable))
	_, err = c.PowerState(t.Context())
	g.Expect(bmc.KindOf(err)).To(Equal(bmc.Unauthorized)) // four lost packets are unlikely
}

func TestHead(t *testing.T) {
	g := NewWithT(t)
	h := &limitedBuffer{}
	for _, size := range []int{10, maxOutput, 0, 10} {
		g.Expect(h.Write(make([]byte, size))).To(Equal(size))
	}
	g.Expect(h.kept.Len()).To(Equal(maxOutput))
}

func TestIpmitoolFaults(t *testing.T) {
	t.Run("no program", func(t *testing.T) {
		d, _, endpoint := fakeIpmitool(t)
		d.Ipmitool = ""
		t.Setenv("PATH", t.TempDir())
		expectKind(t, d.OpenIpmitool, endpoint, bmc.Unsupported)
	})
	t.Run("the program hangs", func(t *testing.T) {
		g := NewWithT(t)
		d, folder, endpoint := fakeIpmitool(t)
		c, err := d.OpenIpmitool(t.Context(), endpoint)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(os.WriteFile(filepath.Join(folder, "hang"), nil, 0o600)).To(Succeed())
		for _, call := range []func(context.Context) error{
			func(ctx context.Context) error { _, err := c.PowerState(ctx); return err }, c.NMI,
		} {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			start := time.Now()
			err := call(ctx)
			cancel()
			g.Expect(bmc.KindOf(err)).To(Equal(bmc.Unreachable), "%v", err)
			g.Expect(time.Since(start)).To(BeNumerically("<", 5*time.Second))
		}
	})
	t.Run("silence", func(t *testing.T) {
		conn, err := new(net.ListenConfig).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		defer func() { _ = conn.Close() }()
		d, _, endpoint := fakeIpmitool(t)
		endpoint.URL = parse(t, "ipmitool://"+conn.LocalAddr().String())
		expectKind(t, d.OpenIpmitool, endpoint, bmc.Unreachable)
		d.CallTimeout = 100 * time.Millisecond
		expectKind(t, d.OpenIpmitool, endpoint, bmc.Unreachable)
	})
	t.Run("the address is not permitted", func(t *testing.T) {
		d, _, endpoint := fakeIpmitool(t)
		d.Permit = bmc.AllowList{}
		expectKind(t, d.OpenIpmitool, endpoint, bmc.Failed)
	})
	for name, c := range map[string]struct {
		suffix string
		want   bmc.Kind
	}{
		"cipher suite 0": {"?cipherSuite=0", bmc.Unsupported},
		"cipher suite 1": {"?cipherSuite=1", bmc.Unsupported},
		"no number":      {"?cipherSuite=x", bmc.Unsupported},
		"misspelt":       {"?cipher=17", bmc.Unsupported},
		"a path":         {"/1", bmc.Unsupported},
	} {
		t.Run(name, func(t *testing.T) {
			d, _, endpoint := fakeIpmitool(t)
			endpoint.URL = parse(t, endpoint.URL.String()+c.suffix)
			expectKind(t, d.OpenIpmitool, endpoint, c.want)
		})
	}
}

// needIpmitool fails the test if the real program is not installed.
func needIpmitool(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("ipmitool"); err != nil {
		t.Fatalf("%v: hack/peers.sh installs it (Debian: apt-get install ipmitool)", err)
	}
}

// emulated returns a server with an emulated IPMI BMC, and its endpoint.
func emulated(t *testing.T) (*bmctest.Machine, bmc.Endpoint) {
	t.Helper()
	conn, err := new(net.ListenConfig).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := bmctest.NewMachine(bmctest.Options{
		Name: "m", UUID: "6f2a1b34-0c5d-4e6f-8a9b-0c1d2e3f4a5b", MAC: "52:54:00:00:00:01", Username: username, Password: password,
	})
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = m.ServeIPMI(conn)
	}()
	t.Cleanup(func() { _ = conn.Close(); <-served; m.Close() })
	return m, bmc.Endpoint{URL: parse(t, "ipmitool://"+conn.LocalAddr().String()), Username: username, Password: password}
}

// TestRealIpmitoolConforms runs the real program against the emulated BMC. bmc/peertest runs it against ipmi_sim.
func TestRealIpmitoolConforms(t *testing.T) {
	needIpmitool(t)
	for _, suite := range cipherSuites {
		t.Run("cipher suite "+suite, func(t *testing.T) {
			_, endpoint := emulated(t)
			endpoint.URL.RawQuery = "cipherSuite=" + suite
			bmctest.Test(t, bmctest.Subject{Open: testDriver().OpenIpmitool, Endpoint: endpoint, Settle: settle, Must: []bmc.Capability{
				bmc.CanBootPXE, bmc.CanCycle, bmc.CanForceOff, bmc.CanNMI, bmc.CanPowerOn, bmc.CanReset, bmc.CanShutDown,
			}})
		})
	}
}

// TestRealIpmitoolOverride: the BMC has the override that was set.
func TestRealIpmitoolOverride(t *testing.T) {
	needIpmitool(t)
	g := NewWithT(t)
	m, endpoint := emulated(t)
	c, err := testDriver().OpenIpmitool(t.Context(), endpoint)
	g.Expect(err).NotTo(HaveOccurred())
	for _, o := range []bmc.BootOverride{
		{Target: bmc.BootPXE, Mode: bmc.BootUEFI}, {Target: bmc.BootPXE, Mode: bmc.BootLegacy}, {Target: bmc.BootDisk, Mode: bmc.BootUEFI, Continuous: true},
		{Target: bmc.BootCD, Mode: bmc.BootUEFI},
	} {
		_, err := c.SetBootOverride(t.Context(), o, "")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(m.Override()).To(Equal(o))
	}
	_, err = c.SetBootOverride(t.Context(), bmc.BootOverride{Target: bmc.BootNone}, "")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(m.Override().Target).To(Equal(bmc.BootNone))
}

// TestRealIpmitoolLostAnswer: a command without a response is not repeated.
func TestRealIpmitoolLostAnswer(t *testing.T) {
	needIpmitool(t)
	for name, c := range map[string]struct {
		off  bool
		call func(bmc.Client, context.Context) error
		want bmc.Kind // empty where the power state shows that the BMC obeyed
	}{
		"On":               {off: true, call: bmc.Client.PowerOn},
		"ForceOff":         {call: bmc.Client.ForceOff},
		"GracefulShutdown": {call: bmc.Client.ShutDown, want: bmc.Unreachable}, // no operating system hears it
		"PowerCycle":       {call: bmc.Client.Cycle, want: bmc.Unreachable},
		"ForceRestart":     {call: bmc.Client.Reset, want: bmc.Unreachable},
		"Nmi":              {call: bmc.Client.NMI, want: bmc.Unreachable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // ipmitool waits 5 s for an answer
			g := NewWithT(t)
			m, endpoint := emulated(t)
			m.SetPower(!c.off)
			driver := testDriver()
			driver.CallTimeout = time.Minute // ipmitool's own 5 s are what ends the call
			client, err := driver.OpenIpmitool(t.Context(), endpoint)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(m.Misbehave(bmctest.RebootMidCall, 1)).To(Succeed())
			err = c.call(client, t.Context())
			g.Expect(m.CommandNames()).To(Equal([]string{name}))
			if c.want == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(HaveOccurred())
			g.Expect(bmc.KindOf(err)).To(Equal(c.want), "%v", err)
		})
	}
}

// TestRealIpmitoolSessionTableFull: a full session table is not a refused login.
func TestRealIpmitoolSessionTableFull(t *testing.T) {
	needIpmitool(t)
	g := NewWithT(t)
	m, endpoint := emulated(t)
	g.Expect(m.Misbehave(bmctest.SessionTableFull, -1)).To(Succeed())
	expectKind(t, testDriver().OpenIpmitool, endpoint, bmc.Unreachable)
}

// TestRealIpmitoolFaults runs the real program against BMCs that do not accept a login.
func TestRealIpmitoolFaults(t *testing.T) {
	needIpmitool(t)
	d := testDriver()
	d.CallTimeout = time.Second
	expectKind(t, d.OpenIpmitool, bmc.Endpoint{URL: parse(t, "ipmitool://"+probed(t)), Username: username, Password: password}, bmc.Unreachable)
	expectKind(t, d.OpenIpmitool, bmc.Endpoint{
		URL: parse(t, "ipmitool://"+probed(t)), Username: username, Password: strings.Repeat("x", 21),
	}, bmc.Unauthorized)
}

func TestResolve(t *testing.T) {
	g := NewWithT(t)
	d := &Driver{Permit: bmc.AllowList{AllowNetworks: []netip.Prefix{netip.MustParsePrefix("::1/128")}}}
	g.Expect(d.resolve(t.Context(), "::1", "623")).To(Equal("::1"))
	g.Expect(d.resolve(t.Context(), "::ffff:192.0.2.1", "623")).To(Equal("192.0.2.1"))
	_, err := d.resolve(t.Context(), "127.0.0.1", "623")
	g.Expect(err).To(HaveOccurred())
}

func FuzzChassisPower(f *testing.F) {
	f.Add("Chassis Power is on\n")
	f.Add("IANA PEN registry open failed\nChassis Power is off")
	f.Add("Chassis Power is on\nChassis Power is off")
	f.Fuzz(func(t *testing.T, printed string) {
		state, err := chassisPower(printed)
		if err == nil && (state != "on" && state != "off" || !strings.Contains(printed, "Chassis Power is "+state)) {
			t.Errorf("%s is read from %s", state, strconv.Quote(printed))
		}
	})
}
