package bmclib

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/bmc-toolbox/bmclib/v2/providers/rpc"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// OpenRPC connects to a webhook in place of a BMC, with the protocol of bmclib's rpc provider:
//
//	rpc+https://host[:port][/path]?host=NAME[&signed=body]
//
// NAME is the webhook's name of the BMC. Other parameters are sent to the webhook unchanged. rpc+http has no TLS: an attacker on the network
// can forge the response that a server is off.
//
// Each request is a POST of {"id", "host", "method", "params"}; the methods are ping, getPowerState (the result is "on" or
// "off"), setPowerState ({"state": on, off, soft, cycle or reset}) and setBootDevice ({"device": pxe, disk, cdrom or none,
// "persistent", "efiBoot"}). The header X-BMCLIB-Signature-256 is "sha256=" and the HMAC-SHA256, in hexadecimal, of the body with the
// value of X-BMCLIB-Timestamp (RFC 3339) appended, so that a webhook can refuse old requests. With signed=body it is the HMAC of the body
// only, for webhooks that expect bmclib's default. The password is the HMAC's secret; the user name is not used.
//
// The webhook answers 200 with {"id", "host", "result"} or with {"error": {"code", "message"}}, where the code is an HTTP status, or
// -32601 for a method that it does not have. Source: bmclib v2.3.5, providers/rpc.
func (d *Driver) OpenRPC(ctx context.Context, endpoint bmc.Endpoint) (bmc.Client, error) {
	target := *endpoint.URL
	target.Scheme = "https"
	if endpoint.URL.Scheme == SchemeRPCInsecure {
		target.Scheme = "http"
	}
	if _, _, err := address(&target, 443); err != nil {
		return nil, err
	}
	query := target.Query()
	name, signed := query.Get("host"), query.Get("signed")
	query.Del("host")
	query.Del("signed")
	target.RawQuery, target.User, target.Fragment = query.Encode(), nil, ""
	const op = "Read the address"
	switch {
	case name == "":
		return nil, &bmc.Error{Kind: bmc.NotFound, Op: op, Err: errors.New("the address names no BMC: append ?host=NAME")}
	case signed != "" && signed != "body":
		return nil, unsupported(op, fmt.Sprintf("the parameter signed is %q: use body, or omit it", signed))
	case endpoint.Password == "":
		// Without a secret, the provider of bmclib v2.3.5 sends requests without a signature. No upstream issue was found. Delete when it
		// returns an error.
		return nil, &bmc.Error{Kind: bmc.Unauthorized, Op: "Sign", Err: errors.New("the password is missing, which signs the requests")}
	}
	w, err := d.newWire(endpoint)
	if err != nil {
		return nil, err
	}
	p := rpc.New(target.String(), name, rpc.Secrets{rpc.SHA256: {endpoint.Password}})
	p.HTTPClient = &http.Client{Transport: webhook{w}}
	p.LogNotificationsDisabled = true
	if signed != "body" {
		p.Opts.Signature.IncludedPayloadHeaders = []string{p.Opts.Request.TimestampHeader}
	}
	c := &client{backend: &rpcBackend{Provider: p, wire: w}, timeout: d.callTimeout()}
	if err := c.do(ctx, "Connect", p.Open); err != nil {
		w.close()
		return nil, err
	}
	return c, nil
}

type rpcBackend struct {
	*rpc.Provider

	wire *wire
}

func (b *rpcBackend) explain(_ context.Context, err error) error { return b.wire.explain(err) }

func (b *rpcBackend) close() { b.wire.close() }

func (*rpcBackend) device(override bmc.BootOverride) (string, error) {
	return bootDevice(override.Target, "cdrom")
}

// describe returns the capabilities of the protocol, because a webhook does not report its own.
func (*rpcBackend) describe() bmc.Description {
	return bmc.Description{Protocol: "bmclib RPC webhook", Capabilities: []bmc.Capability{
		bmc.CanPowerOn, bmc.CanForceOff, bmc.CanShutDown, bmc.CanCycle, bmc.CanReset, bmc.CanBootPXE, bmc.CanBootDisk, bmc.CanBootCD,
	}}
}

// webhook is the transport of the provider's HTTP client. It works around the rpc provider of bmclib v2.3.5, which refuses responses without
// a length, and ignores errors with code 0 and errors of a ping: it returns responses with a length, and checks errors itself. No
// upstream issue was found. Delete when the provider does both.
type webhook struct{ wire *wire }

func (h webhook) RoundTrip(request *http.Request) (*http.Response, error) {
	a, err := h.wire.exchange(request)
	if err == nil {
		err = webhookError(a)
	}
	if err != nil {
		h.wire.recordError(err)
		return nil, err
	}
	return &http.Response{
		StatusCode: a.status, Header: a.header, Request: request, ProtoMajor: 1, ProtoMinor: 1,
		Body: io.NopCloser(bytes.NewReader(a.body)), ContentLength: int64(len(a.body)),
	}, nil
}

// methodNotFound is the code of JSON-RPC 2.0 for an unknown method.
const methodNotFound = -32601

// webhookError is the error in a response, or nil.
func webhookError(a *answer) error {
	var content struct {
		Error *rpc.ResponseError `json:"error"`
	}
	err := json.Unmarshal(a.body, &content)
	switch {
	case a.status != http.StatusOK && err == nil && content.Error != nil:
		return statusError(a, content.Error.Message)
	case a.status != http.StatusOK:
		return statusError(a, "") // a body that is not from a webhook is not quoted
	case err != nil:
		return errors.New("the answer is not the JSON of a webhook")
	case content.Error == nil, *content.Error == rpc.ResponseError{}:
		return nil // some webhooks always write the field
	}
	kind := kindOfStatus(content.Error.Code)
	if content.Error.Code == methodNotFound {
		kind = bmc.Unsupported
	}
	return &bmc.Error{Kind: kind, Op: "Exchange", Err: fmt.Errorf("the webhook answered with error %d: %s", content.Error.Code, shorten(content.Error.Message))}
}
