package bmclib

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bmc-toolbox/bmclib/v2/providers/ipmitool"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// The cipher suites that may be used (IPMI 2.0, table 22-20). Others lack encryption or integrity. Suite 0 has no authentication.
var cipherSuites = []string{"3", "17"}

const defaultCipherSuite = "17"

// OpenIpmitool connects with IPMI 2.0 (RMCP+) and bmclib's ipmitool provider, which runs the program ipmitool:
//
//	ipmitool://host[:port][?cipherSuite=17]
//
// The port defaults to 623, and the cipher suite to 17 (SHA-256, AES-128). Suite 3 (SHA-1, AES-128) is allowed; other suites are refused.
// Without a suite, the provider of bmclib v2.3.5 would try 3 and then 17, and so log in twice with a wrong password.
//
// The provider reads the power state and sets the boot device. Power commands and NMIs are sent without it: see once.
//
// The password, at most 20 bytes, is passed in the environment of the process, which only its user and root can read. The user name is
// on the command line. The end of a call's context kills the process. A missing program is Unsupported.
//
// ipmitool prints the same text for a BMC that refuses the credentials and for one that does not answer. So if no session is established,
// the driver sends a request that needs no session (Get Channel Authentication Capabilities): if the BMC answers, it refused the
// credentials.
//
// The event log is Unsupported: the provider of bmclib v2.3.5 reads only the whole log, with a request for each entry, and returns times
// without a zone. No upstream issue was found.
func (d *Driver) OpenIpmitool(ctx context.Context, endpoint bmc.Endpoint) (bmc.Client, error) {
	const op = "Read the address"
	host, port, err := address(endpoint.URL, 623)
	if err != nil {
		return nil, err
	}
	if err := onlyParameters(endpoint.URL, "cipherSuite"); err != nil {
		return nil, err
	}
	suite := cmp.Or(endpoint.URL.Query().Get("cipherSuite"), defaultCipherSuite)
	if !slices.Contains(cipherSuites, suite) {
		return nil, unsupported(op, fmt.Sprintf("the cipher suite %q is not allowed: use %s", suite, strings.Join(cipherSuites, " or ")))
	}
	program, err := exec.LookPath(cmp.Or(d.Ipmitool, "ipmitool"))
	if err != nil {
		return nil, unsupported("Start ipmitool", "the program ipmitool is not installed: "+err.Error())
	}
	b := &ipmitoolBackend{program: program, endpoint: endpoint, suite: suite, port: strconv.Itoa(port)}
	c := &client{backend: b, timeout: d.callTimeout()}
	err = c.do(ctx, "Connect", func(ctx context.Context) error {
		if b.ip, err = d.resolve(ctx, host, b.port); err != nil {
			return err
		}
		joined := b.ip
		// The provider of bmclib v2.3.5 joins host and port, and drops the host if the result is invalid, as for IPv6 without brackets. No
		// upstream issue was found. Delete when it uses net.JoinHostPort.
		if strings.Contains(joined, ":") {
			joined = "[" + joined + "]"
		}
		b.provider, err = ipmitool.New(joined, endpoint.Username, endpoint.Password,
			ipmitool.WithPort(b.port), ipmitool.WithCipherSuite(suite), ipmitool.WithIpmitoolPath(program))
		if err != nil {
			return err
		}
		// For an unreachable BMC, ipmitool needs almost a minute.
		if err := b.probe(ctx); err != nil {
			return err
		}
		_, err = b.PowerStateGet(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// resolve resolves a host, and checks that a BMC may have the address. ipmitool gets the address, because the name could resolve to
// another one.
func (d *Driver) resolve(ctx context.Context, host, port string) (string, error) {
	ips := []netip.Addr{}
	ip, err := netip.ParseAddr(host)
	if err == nil {
		ips = append(ips, ip)
	} else if ips, err = net.DefaultResolver.LookupNetIP(ctx, "ip", host); err != nil {
		return "", err
	}
	err = errors.New("the name has no address")
	for _, ip := range ips {
		if err = d.Permit.CheckLogin(ctx, host, ip, port); err == nil {
			return ip.Unmap().String(), nil
		}
	}
	return "", err
}

type ipmitoolBackend struct {
	provider                 *ipmitool.Conn
	program, suite, ip, port string
	endpoint                 bmc.Endpoint
}

func (*ipmitoolBackend) close() {}

// PowerStateGet reads the power state from the output of ipmitool, which the provider returns.
func (b *ipmitoolBackend) PowerStateGet(ctx context.Context) (string, error) {
	if err := b.endpoint.Wait(ctx); err != nil {
		return "", err
	}
	output, err := b.provider.PowerStateGet(ctx)
	if err != nil {
		return "", err
	}
	return chassisPower(output)
}

// chassisPower returns the power state from the output of ipmitool, which may contain warnings, such as that of a missing registry of
// manufacturers.
func chassisPower(output string) (string, error) {
	state := ""
	for line := range strings.Lines(output) {
		value, ok := strings.CutPrefix(strings.TrimSpace(line), "Chassis Power is ")
		switch {
		case !ok:
		case value != "on" && value != "off", state != "" && state != value:
			return "", fmt.Errorf("ipmitool printed %q", shorten(output))
		default:
			state = value
		}
	}
	if state == "" {
		return "", fmt.Errorf("ipmitool printed %q", shorten(output))
	}
	return state, nil
}

// BootDeviceSet sets the next boot device.
func (b *ipmitoolBackend) BootDeviceSet(ctx context.Context, device string, persistent, efi bool) (bool, error) {
	if err := b.endpoint.Wait(ctx); err != nil {
		return false, err
	}
	return b.provider.BootDeviceSet(ctx, device, persistent, efi)
}

// PowerSet sends a command.
func (b *ipmitoolBackend) PowerSet(ctx context.Context, state string) (bool, error) {
	err := b.once(ctx, state)
	return err == nil, err
}

// SendNMI sends an NMI.
func (b *ipmitoolBackend) SendNMI(ctx context.Context) error { return b.once(ctx, "diag") }

// ipmitoolConfirmations are the commands of "chassis power", with the text that ipmitool prints if the BMC accepted the command.
var ipmitoolConfirmations = map[string]string{"on": "Up/On", "off": "Down/Off", "soft": "Soft", "cycle": "Cycle", "reset": "Reset", "diag": "Diag"}

// maxOutput is the maximum size of ipmitool's output that is kept. It prints some lines.
const maxOutput = 16 << 10

// noSessionText is the last output of ipmitool if it could not open a session.
const noSessionText = "Unable to establish"

// once runs a command of "chassis power" without repeats. The provider of bmclib v2.3.5 lets ipmitool repeat a request without a response,
// and a server that gets a cycle or an NMI twice does not start, or loses its crash dump. ipmitool's retries (-R) include the first
// request: 1 sends once, and 0 means its default, 4. No upstream issue was found. Delete when the provider accepts -R.
//
// Without repeats, one lost packet ends the login, which looks like a refused one. So a login that fails here is Unreachable: the command
// was not sent, and the next read of the power state determines the cause.
func (b *ipmitoolBackend) once(ctx context.Context, command string) error {
	confirmation, known := ipmitoolConfirmations[command]
	if !known {
		return unsupported("Command", "ipmitool has no command "+command)
	}
	if err := b.endpoint.Wait(ctx); err != nil {
		return err
	}
	run := exec.CommandContext(ctx, b.program, "-I", "lanplus", "-U", b.endpoint.Username, "-E", "-N", "5", "-R", "1", //nolint:gosec // no shell
		"-H", b.ip, "-p", b.port, "-C", b.suite, "chassis", "power", command)
	run.Env = []string{"IPMITOOL_PASSWORD=" + b.endpoint.Password}
	run.WaitDelay = time.Second
	buffer := &limitedBuffer{}
	run.Stdout, run.Stderr = buffer, buffer
	err := run.Run()
	output := buffer.kept.String()
	switch {
	case err != nil && strings.Contains(output, noSessionText):
		return &bmc.Error{Kind: bmc.Unreachable, Op: "Log in", Err: errors.New("no session could be opened: " + shorten(output))}
	case err != nil:
		return fmt.Errorf("%s: %w", output, err)
	case !strings.Contains(output, "Chassis Power Control: "+confirmation):
		return fmt.Errorf("ipmitool printed %q", shorten(output))
	default:
		return nil
	}
}

// limitedBuffer keeps the first maxOutput bytes that are written to it.
type limitedBuffer struct{ kept bytes.Buffer }

func (h *limitedBuffer) Write(p []byte) (int, error) {
	_, _ = h.kept.Write(p[:min(len(p), maxOutput-h.kept.Len())]) // never fails
	return len(p), nil
}

func (*ipmitoolBackend) device(override bmc.BootOverride) (string, error) {
	return bootDevice(override.Target, "cdrom")
}

// describe returns the capabilities of IPMI. A BMC that lacks one refuses the command.
func (b *ipmitoolBackend) describe() bmc.Description {
	return bmc.Description{Protocol: "IPMI 2.0 by ipmitool, cipher suite " + b.suite, Capabilities: []bmc.Capability{
		bmc.CanPowerOn, bmc.CanForceOff, bmc.CanShutDown, bmc.CanCycle, bmc.CanReset, bmc.CanNMI, bmc.CanBootPXE, bmc.CanBootDisk, bmc.CanBootCD,
	}}
}

// ipmitoolErrors are the kinds of the error texts of ipmitool 1.8.18 and 1.8.19. The first text that matches decides.
var ipmitoolErrors = []struct {
	text string
	kind bmc.Kind
}{
	{"no matching cipher suite", bmc.Unsupported},
	{"invalid authentication algorithm", bmc.Unsupported},
	{"invalid integrity algorithm", bmc.Unsupported},
	{"invalid confidentiality algorithm", bmc.Unsupported},
	{"password is longer than", bmc.Unauthorized},
	{"is too long", bmc.Unauthorized},
	{"Could not open socket", bmc.Unreachable},
	{"nsufficient resources", bmc.Unreachable}, // all sessions are in use
	{"Node busy", bmc.Unreachable},
	{": Timeout", bmc.Unreachable},
	{"nsufficient privilege", bmc.Unauthorized},
	{"not supported in present state", bmc.Failed},
	{"Invalid command", bmc.Unsupported},
	{"Invalid data field", bmc.Unsupported},
	{"arameter not supported", bmc.Unsupported},
	// A refusal has its reason after "failed: ". The texts below mean that there was no response, or a late one.
	{"to ADMINISTRATOR failed: ", bmc.Unauthorized},
	{"to ADMINISTRATOR failed", bmc.Unreachable},
	{"no response from RAKP", bmc.Unreachable},
	{"Unexpected RAKP", bmc.Unreachable},
	{"Unable to set Chassis Power Control", bmc.Unreachable},
	{"Unable to get Chassis Power Status", bmc.Unreachable},
	{"Error setting Chassis Boot Parameter", bmc.Unreachable},
}

// explain returns the error with the kind of ipmitool's output.
func (b *ipmitoolBackend) explain(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err() // the process was killed
	case bmc.KindOf(err) != bmc.Failed:
		return bmc.Wrap("Ask", err)
	}
	for _, s := range ipmitoolErrors {
		if strings.Contains(err.Error(), s.text) {
			return &bmc.Error{Kind: s.kind, Op: "Ask", Err: errors.New(shorten(err.Error()))}
		}
	}
	if !strings.Contains(err.Error(), noSessionText) {
		return err
	}
	if unreachable := b.probe(ctx); unreachable != nil {
		return bmc.Wrap("Ask", unreachable)
	}
	return &bmc.Error{Kind: bmc.Unauthorized, Op: "Log in", Err: errors.New(
		"the BMC answers but refuses the login: user name, password, privilege or cipher suite is wrong")}
}

// The request Get Channel Authentication Capabilities, for this channel and the privilege Administrator (IPMI 2.0, 13.6 and 22.13), the
// number of tries, and the timeout of each.
const (
	authCapabilities = "\x06\x00\xff\x07\x00\x00\x00\x00\x00\x00\x00\x00\x00\x09\x20\x18\xc8\x81\x00\x38\x8e\x04\xb5"
	probeTries       = 3
	probeTimeout     = time.Second
)

// probe returns an error if no BMC answers. It needs no credentials.
func (b *ipmitoolBackend) probe(ctx context.Context) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "udp", net.JoinHostPort(b.ip, b.port)) // resolve has checked the address
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	var packet [512]byte
	for range probeTries {
		if err = b.endpoint.Wait(ctx); err != nil {
			return err
		}
		if _, err = conn.Write([]byte(authCapabilities)); err == nil {
			_ = conn.SetReadDeadline(time.Now().Add(probeTimeout))
			var n int
			if n, err = conn.Read(packet[:]); err == nil && answersProbe(packet[:n]) {
				return nil
			}
		}
	}
	return &bmc.Error{Kind: bmc.Unreachable, Op: "Ask", Err: errors.New("no BMC answers at the address")}
}

// answersProbe is true for a response to the probe: an IPMI message in RMCP with the same command.
func answersProbe(packet []byte) bool {
	return len(packet) >= 21 && packet[0] == 0x06 && packet[3] == 0x07 && packet[19] == 0x38
}
