// Package ipmi speaks IPMI 2.0 over RMCP+ to BMCs. The encoding of commands, records and keys is that of
// github.com/bougou/go-ipmi; sessions and packets are our own, in session.go and packet.go. The library's client reads packets
// in goroutines of its own, where a packet that its decoder panics on ends the process; it does not check the authentication code of
// answers, takes whatever algorithms the BMC picks, also none, and keeps a goroutine for each idle session.
package ipmi

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/bougou/go-ipmi/pkg/command/app"
	"github.com/bougou/go-ipmi/pkg/types"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// Scheme is the URL scheme of this driver.
const Scheme = "ipmi"

// Driver opens IPMI sessions. The zero value is ready.
type Driver struct {
	// Permit is which addresses BMCs may have.
	Permit bmc.AllowList
	// RequestTimeout bounds each request with its repeats and its answer. Defaults to 5 s.
	RequestTimeout time.Duration
	// RepeatAfter is how long an answer is waited for before the request is sent again; then twice as long, and so on. Defaults
	// to 1 s.
	RepeatAfter time.Duration
}

// Driver returns the driver for the scheme.
func (d *Driver) Driver() bmc.Driver {
	return bmc.Driver{Open: d.Open, KeepIdle: keepIdle}
}

// keepIdle is half of the 60 s after which a BMC ends an idle session (IPMI 2.0, 6.12.15): one that the BMC ended is noticed only
// by its silence. A BMC has few sessions, often four.
func keepIdle(bmc.Endpoint) time.Duration { return 30 * time.Second }

// Open opens a session with the BMC that the endpoint's URL names:
//
//	ipmi://host[:port][?cipherSuite=17][&privilege=operator]
//
// The port defaults to 623, the cipher suite to 17 where the BMC offers it and else 3, the privilege level to administrator. A
// refused login is not repeated: it costs the account one refusal. The error is Unauthorized for one, Unsupported for a URL that
// the driver cannot do and for a BMC without the cipher suites, and Unreachable when nothing answers or no session is free.
func (d *Driver) Open(ctx context.Context, endpoint bmc.Endpoint) (bmc.Client, error) {
	opts, err := parseURL(endpoint.URL)
	if err != nil {
		return nil, &bmc.Error{Kind: bmc.Unsupported, Op: "Read the URL", Err: err}
	}
	if err := checkCredentials(endpoint); err != nil {
		return nil, &bmc.Error{Kind: bmc.Unauthorized, Op: "Log in", Err: err}
	}
	socket, err := d.dial(ctx, endpoint, opts.address)
	if err != nil {
		return nil, bmc.Wrap("Connect", err)
	}
	s, err := login(ctx, socket, endpoint, opts)
	if err != nil {
		_ = socket.Close() // its error would only hide why
		return nil, err
	}
	return &conn{bmc: s, suite: s.suite}, nil
}

// The longest name and password that IPMI 2.0 has (22.28, 22.30).
const (
	maxUsername = 16
	maxPassword = 20
)

// checkCredentials refuses credentials that no IPMI BMC can have, before they cost a refused login.
func checkCredentials(e bmc.Endpoint) error {
	if len(e.Username) > maxUsername {
		return errors.New("the user name has more than 16 bytes, which IPMI does not have")
	}
	if len(e.Password) > maxPassword {
		return errors.New("the password has more than 20 bytes, which IPMI does not have")
	}
	return nil
}

// requester is a session: it asks the BMC one question at a time.
type requester interface {
	// send sends a request and returns the completion code and the data of the answer. Its errors have a kind.
	send(ctx context.Context, q ipmiRequest) (types.CompletionCode, []byte, error)
	// close ends the session. It may be called again.
	close(ctx context.Context) error
}

// ipmiRequest is a request to the BMC.
type ipmiRequest struct {
	command types.Command
	lun     uint8
	data    []byte
	// once forbids to send it again when no answer comes, since the BMC might obey twice.
	once bool
}

// conn is a connection to one BMC.
type conn struct {
	bmc      requester
	suite    types.CipherSuiteID
	device   *app.GetDeviceIDResponse // what the BMC said last of itself
	quirk    *quirk                   // of this BMC; nil until it is known
	quirks   []string                 // names of the entries that quirk is made of
	readSize uint8                    // most bytes that the BMC returns at once of a FRU
}

var (
	_ bmc.Client  = &conn{}
	_ bmc.Monitor = &conn{}
)

// Close ends the session. A session that the BMC has ended already is no error.
func (c *conn) Close(ctx context.Context) error { return c.bmc.close(ctx) }

// do sends a request and decodes the answer, for a sentence that begins with op.
func (c *conn) do(ctx context.Context, op string, request types.Request, response types.Response) error {
	return c.doWith(ctx, op, ipmiRequest{}, request, response)
}

// doWith is do with what the question says besides the command.
func (c *conn) doWith(ctx context.Context, op string, q ipmiRequest, request types.Request, response types.Response) error {
	q.command, q.data = request.Command(), request.Pack()
	code, data, err := c.bmc.send(ctx, q)
	if err != nil {
		return err
	}
	if code != types.CodeOK {
		return refusal(op, code)
	}
	if response == nil {
		return nil
	}
	return decode(op, func() error { return response.Unpack(data) })
}

// deviceID reads what the BMC says of itself (IPMI 2.0, 20.1), once for a connection.
func (c *conn) deviceID(ctx context.Context) (*app.GetDeviceIDResponse, error) {
	if c.device != nil {
		return c.device, nil
	}
	device := &deviceID{}
	if err := c.do(ctx, "Read the device ID", &app.GetDeviceIDRequest{}, device); err != nil {
		return nil, err
	}
	c.device = &device.GetDeviceIDResponse
	return c.device, nil
}

// deviceID is the answer to Get Device ID. Its last part, the auxiliary revision, is optional; virtualbmc sends half of it.
type deviceID struct{ app.GetDeviceIDResponse }

// Unpack decodes the answer.
func (d *deviceID) Unpack(data []byte) error {
	const whole = 15
	return d.GetDeviceIDResponse.Unpack(append(slices.Clone(data), make([]byte, max(0, whole-len(data)))...))
}

func (d *Driver) requestTimeout() time.Duration { return cmp.Or(d.RequestTimeout, 5*time.Second) }

func (d *Driver) repeatAfter() time.Duration { return cmp.Or(d.RepeatAfter, time.Second) }
