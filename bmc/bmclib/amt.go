package bmclib

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/bmc-toolbox/bmclib/v2/providers/intelamt"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// OpenAMT connects to Intel AMT (vPro) through bmclib's intelamt provider and the iamt library under it:
//
//	amt://host[:port]        WS-Management with TLS, port 16993
//	amt+http://host[:port]   without TLS, port 16992
//
// Authentication is HTTP digest (MD5); AMT's only alternative is Kerberos. Without TLS the password stays secret, but an attacker on the
// network can change commands and responses, so TLS is the default.
//
// iamt (github.com/jacobweinstock/iamt at d7cdbe67d9ef of 2023-05-02, which bmclib v2.3.5 pins) verifies no certificates, accepts no
// transport and leaves its connections open. Therefore it connects to a relay inside this process, which exists during one call and
// connects to the BMC. No upstream issue was found. Delete the relay when iamt accepts an http.Client; see relay for the other reasons.
//
// The override applies to the next boot and to the network only, and takes effect with a power command of AMT. AMT does not select UEFI or
// legacy: the firmware is assumed to use UEFI. ShutDown needs Intel's agent (LMS) in the operating system; otherwise it is Unsupported.
// Sleeping counts as on, and hibernated as off. NMI is Unsupported, because iamt does not send it.
func (d *Driver) OpenAMT(ctx context.Context, endpoint bmc.Endpoint) (bmc.Client, error) {
	target := url.URL{Scheme: "https", Path: "/wsman"}
	port := 16993
	if endpoint.URL.Scheme == SchemeAMTInsecure {
		target.Scheme, port = "http", 16992
	}
	host, port, err := address(endpoint.URL, port)
	if err != nil {
		return nil, err
	}
	if err := onlyParameters(endpoint.URL); err != nil {
		return nil, err
	}
	if endpoint.Username == "" || endpoint.Password == "" {
		return nil, &bmc.Error{Kind: bmc.Unauthorized, Op: "Log in", Err: errors.New("AMT needs a user name and a password")}
	}
	target.Host = net.JoinHostPort(host, strconv.Itoa(port))
	w, err := d.newWire(endpoint)
	if err != nil {
		return nil, err
	}
	b := &amtBackend{relay: &relay{
		wire: w, target: target.String(), login: digest{username: endpoint.Username, password: endpoint.Password},
	}}
	c := &client{backend: b, timeout: d.callTimeout()}
	if err := c.do(ctx, "Connect", func(ctx context.Context) error {
		_, err := b.PowerStateGet(ctx)
		return err
	}); err != nil {
		w.close()
		return nil, err
	}
	return c, nil
}

// amtBackend controls AMT. Each call creates a provider, because the relay has another port for each call.
type amtBackend struct{ relay *relay }

func (b *amtBackend) explain(_ context.Context, err error) error {
	b.relay.messages = 0
	return b.relay.wire.explain(err)
}

func (b *amtBackend) close() { b.relay.wire.close() }

// withRelay makes one call of a provider that connects to the relay.
func (b *amtBackend) withRelay(ctx context.Context, call func(*intelamt.Conn) error) error {
	host, port, stop, err := b.relay.start(ctx)
	if err != nil {
		return err
	}
	defer stop()
	// Only the relay has the credentials. iamt logs in to the relay with the token of this call.
	return call(intelamt.New(host, b.relay.token, b.relay.token, intelamt.WithPort(port), intelamt.WithHostScheme("http")))
}

// PowerStateGet reads the power state. The relay has replaced the states that iamt would report as off by mistake.
func (b *amtBackend) PowerStateGet(ctx context.Context) (state string, err error) {
	err = b.withRelay(ctx, func(conn *intelamt.Conn) error {
		state, err = conn.PowerStateGet(ctx)
		return err
	})
	return state, err
}

// amtCommand is a power command.
type amtCommand struct {
	// state is the state for the provider's PowerSet.
	state string
	// states are the power states that may be requested. iamt selects one of those that the BMC offers. It prefers graceful ones even for a
	// forced off, and has no reset, so the relay removes the others. Delete when iamt accepts the power state.
	states []int
}

var amtCommands = map[string]amtCommand{
	"on":    {"on", []int{amtOn}},
	"off":   {"off", []int{amtOffSoft, amtOffHard}},
	"soft":  {"off", []int{amtOffSoftGraceful, amtOffHardGraceful}},
	"cycle": {"cycle", []int{amtCycleSoft, amtCycleHard, amtReset}},
	"reset": {"cycle", []int{amtReset}},
}

// PowerSet sends a command.
func (b *amtBackend) PowerSet(ctx context.Context, state string) (ok bool, err error) {
	command, known := amtCommands[state]
	if !known {
		return false, unsupported("Command", "AMT has no command "+state)
	}
	b.relay.states, b.relay.noneOffered = command.states, false
	defer func() { b.relay.states = nil }()
	err = b.withRelay(ctx, func(conn *intelamt.Conn) error {
		ok, err = conn.PowerSet(ctx, command.state)
		return err
	})
	if err != nil && b.relay.noneOffered {
		err = unsupported("Command", "AMT does not offer the command now"+map[bool]string{true: ": the operating system runs no agent (LMS)"}[state == "soft"])
	}
	return ok, err
}

func (*amtBackend) device(override bmc.BootOverride) (string, error) {
	const op = "Set the boot override"
	switch {
	case override.Target == bmc.BootNone:
		return "none", nil
	case override.Target != bmc.BootPXE:
		return "", unsupported(op, "the provider can boot AMT from the network only")
	case override.Continuous:
		return "", unsupported(op, "AMT overrides the next boot only")
	case override.Mode == bmc.BootLegacy:
		return "", unsupported(op, "AMT does not choose the boot mode")
	default:
		return "pxe", nil
	}
}

// BootDeviceSet sets the network as the next boot device, or with "none" removes the override. It clears the boot order first, because some
// versions of AMT do not clear it after a boot (MeshCommander does the same). iamt cannot clear it: its code for that is commented out at
// d7cdbe67d9ef. No upstream issue was found. Delete emptyBootOrder when iamt has the call.
func (b *amtBackend) BootDeviceSet(ctx context.Context, device string, _, _ bool) (ok bool, err error) {
	if _, err := b.relay.post(ctx, emptyBootOrder(b.relay.target)); err != nil || device == "none" {
		return err == nil, err
	}
	err = b.withRelay(ctx, func(conn *intelamt.Conn) error {
		ok, err = conn.BootDeviceSet(ctx, device, false, false)
		return err
	})
	return ok, err
}

// describe returns the capabilities of AMT from version 6 on. The power states that AMT offers depend on its current state.
func (b *amtBackend) describe() bmc.Description {
	d := bmc.Description{Protocol: "Intel AMT", Vendor: "Intel", Capabilities: []bmc.Capability{
		bmc.CanPowerOn, bmc.CanForceOff, bmc.CanShutDown, bmc.CanCycle, bmc.CanReset, bmc.CanBootPXE,
	}}
	if version, ok := strings.CutPrefix(b.relay.server, "Intel(R) Active Management Technology "); ok {
		d.FirmwareVersion = shorten(version)
	}
	return d
}

// emptyBootOrder is the message that removes an override: CIM_BootConfigSetting.ChangeBootOrder without a source.
func emptyBootOrder(target string) []byte {
	const setting = "http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_BootConfigSetting"
	var b bytes.Buffer
	fmt.Fprintf(&b, `<?xml version="1.0" encoding="UTF-8"?>
<s:Envelope xmlns:s="http://www.w3.org/2003/05/soap-envelope" xmlns:a="http://schemas.xmlsoap.org/ws/2004/08/addressing" `+
		`xmlns:w="http://schemas.dmtf.org/wbem/wsman/1/wsman.xsd"><s:Header>`+
		`<a:Action s:mustUnderstand="true">%[1]s/ChangeBootOrder</a:Action><a:To s:mustUnderstand="true">%[2]s</a:To>`+
		`<w:ResourceURI s:mustUnderstand="true">%[1]s</w:ResourceURI><a:MessageID s:mustUnderstand="true">uuid:%[3]s</a:MessageID>`+
		`<a:ReplyTo><a:Address>http://schemas.xmlsoap.org/ws/2004/08/addressing/role/anonymous</a:Address></a:ReplyTo>`+
		`</s:Header><s:Body><r:ChangeBootOrder_INPUT xmlns:r="%[1]s"/></s:Body></s:Envelope>`, setting, target, newUUID())
	return b.Bytes()
}
