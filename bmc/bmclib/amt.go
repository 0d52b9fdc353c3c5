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
// Authentication is HTTP digest (MD5), which is all that AMT has besides Kerberos. Without TLS the password stays secret, but whoever
// is on the way can change commands and answers: it has to be asked for.
//
// iamt verifies no certificate, takes no transport and leaves its connections open. So it never speaks to the BMC: it speaks to a
// relay inside this process, which lives as long as one call, and the relay speaks to the BMC. See relay.
//
// AMT overrides the next boot only, from the network only, and the override holds for a power command that AMT itself gives. It does
// not choose between UEFI and legacy: the firmware is taken to be UEFI. An operating system is asked to shut down where it runs
// Intel's agent (LMS); else ShutDown is Unsupported. Sleeping counts as on and hibernated as off. NMI is Unsupported: iamt never
// sends one.
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

// amtBackend speaks AMT. Each call makes a provider of its own, since the relay has another port each time.
type amtBackend struct{ relay *relay }

func (b *amtBackend) explain(_ context.Context, err error) error {
	b.relay.messages = 0
	return b.relay.wire.explain(err)
}

func (b *amtBackend) close() { b.relay.wire.close() }

// withRelay makes one call of a provider that speaks to the relay.
func (b *amtBackend) withRelay(ctx context.Context, call func(*intelamt.Conn) error) error {
	host, port, stop, err := b.relay.start(ctx)
	if err != nil {
		return err
	}
	defer stop()
	// The relay alone knows the credentials. What iamt logs in with opens the relay, for this call.
	return call(intelamt.New(host, b.relay.token, b.relay.token, intelamt.WithPort(port), intelamt.WithHostScheme("http")))
}

// PowerStateGet reads the power state, in which the relay has replaced what iamt would take for off by mistake.
func (b *amtBackend) PowerStateGet(ctx context.Context) (state string, err error) {
	err = b.withRelay(ctx, func(conn *intelamt.Conn) error {
		state, err = conn.PowerStateGet(ctx)
		return err
	})
	return state, err
}

// amtCommand is how a command is given to AMT.
type amtCommand struct {
	// state is what the provider is asked for.
	state string
	// states are the power states that may be requested. iamt picks the one that it likes best among those that the BMC offers: it likes
	// graceful ones best, also for a forced off, and it knows no reset.
	states []int
}

var amtCommands = map[string]amtCommand{
	"on":    {"on", []int{amtOn}},
	"off":   {"off", []int{amtOffSoft, amtOffHard}},
	"soft":  {"off", []int{amtOffSoftGraceful, amtOffHardGraceful}},
	"cycle": {"cycle", []int{amtCycleSoft, amtCycleHard, amtReset}},
	"reset": {"cycle", []int{amtReset}},
}

// PowerSet gives a command.
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
		err = unsupported("Command", "AMT does not offer it now"+map[bool]string{true: ": the operating system runs no agent (LMS)"}[state == "soft"])
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

// BootDeviceSet makes the network the next boot device, or with "none" takes that back. The order is emptied first: some versions
// of AMT do not do that themselves after a boot (MeshCommander knows it, and in iamt it is commented out). iamt cannot empty it,
// so one message is ours.
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

// describe claims what AMT has from version 6 on. Which power states it offers depends on the state it is in.
func (b *amtBackend) describe() bmc.Description {
	d := bmc.Description{Protocol: "Intel AMT", Vendor: "Intel", Capabilities: []bmc.Capability{
		bmc.CanPowerOn, bmc.CanForceOff, bmc.CanShutDown, bmc.CanCycle, bmc.CanReset, bmc.CanBootPXE,
	}}
	if version, ok := strings.CutPrefix(b.relay.server, "Intel(R) Active Management Technology "); ok {
		d.FirmwareVersion = shorten(version)
	}
	return d
}

// emptyBootOrder is the message that takes an override back: CIM_BootConfigSetting.ChangeBootOrder without a source.
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
