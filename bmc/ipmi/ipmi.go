// Package ipmi controls BMCs with IPMI 2.0 over RMCP+. It encodes and decodes commands, records and keys with
// github.com/bougou/go-ipmi. Sessions and packets are implemented here, in session.go and packet.go, because the client of
// go-ipmi v0.9.1 is not safe against a hostile network:
//
//   - It decodes packets in its own goroutines (udpclient.go), so a packet that makes a decoder panic ends the process.
//   - It does not check the authentication code of responses (ParseRmcpResponse in transport_methods.go).
//   - It accepts any algorithms that the BMC selects, including none (session_setup.go).
//   - It keeps a goroutine for each idle session.
//
// No upstream issue was found; bougou/go-ipmi#66 added the check to the library's server side. Delete session.go, packet.go and
// socket.go when the client checks responses, accepts only the proposed algorithms, and recovers from panics.
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
	// Permit defines the addresses that BMCs may have.
	Permit bmc.AllowList
	// RequestTimeout limits each request, including its repeats and its response. Defaults to 5 s.
	RequestTimeout time.Duration
	// RepeatAfter is how long the driver waits for a response before it sends the request again. The wait doubles with each repeat.
	// Defaults to 1 s.
	RepeatAfter time.Duration
}

// Driver returns the driver for the scheme.
func (d *Driver) Driver() bmc.Driver {
	return bmc.Driver{Open: d.Open, KeepIdle: keepIdle}
}

// keepIdle is half of the 60 s after which a BMC ends an idle session (IPMI 2.0, 6.12.15), because the BMC does not answer requests
// of an ended session. A BMC has few sessions, often four.
func keepIdle(bmc.Endpoint) time.Duration { return 30 * time.Second }

// Open opens a session with the BMC that the endpoint's URL names:
//
//	ipmi://host[:port][?cipherSuite=17][&privilege=operator]
//
// The port defaults to 623. The cipher suite defaults to 17 if the BMC offers it, and otherwise to 3. The privilege level defaults to
// administrator. A refused login is not repeated, so it counts as one refusal of the account, and its error is Unauthorized. The error
// is Unsupported for an invalid URL and for a BMC without the cipher suites, and Unreachable if nothing answers or no session is free.
func (d *Driver) Open(ctx context.Context, endpoint bmc.Endpoint) (bmc.Client, error) {
	opts, err := parseURL(endpoint.URL)
	if err != nil {
		return nil, &bmc.Error{Kind: bmc.Unsupported, Op: "Read the URL", Err: err}
	}
	if err := checkCredentials(endpoint); err != nil {
		return nil, &bmc.Error{Kind: bmc.Unauthorized, Op: "Log in", Err: err}
	}
	for try := 1; ; try++ {
		socket, err := d.dial(ctx, endpoint, opts.address)
		if err != nil {
			return nil, bmc.Wrap("Connect", err)
		}
		s, err := login(ctx, socket, endpoint, opts)
		if err == nil {
			return &conn{bmc: s, suite: s.suite}, nil
		}
		_ = socket.Close() // its error would hide the cause
		if !errors.Is(err, errNoAnswer) || try == maxTries {
			return nil, err
		}
	}
}

// maxTries is the maximum number of logins that get no answer, each from another port. RAKP messages are not repeated: a slow BMC answers each RAKP message 1 with
// a new random number, and would reject the proof for an earlier one as a wrong password. virtualbmc (pyghmi 1.6.19) answers no login from a port that had a session,
// even after the session was closed, and the kernel picks such a port again now and then.
const maxTries = 2

// The longest name and password that IPMI 2.0 has (22.28, 22.30).
const (
	maxUsername = 16
	maxPassword = 20
)

// checkCredentials rejects credentials that IPMI does not allow, before they cause a refused login.
func checkCredentials(e bmc.Endpoint) error {
	if len(e.Username) > maxUsername {
		return errors.New("the user name is longer than the 16 bytes that IPMI allows")
	}
	if len(e.Password) > maxPassword {
		return errors.New("the password is longer than the 20 bytes that IPMI allows")
	}
	return nil
}

// requester is a session: it sends one request at a time.
type requester interface {
	// send sends a request and returns the completion code and the data of the response. Its errors have a kind.
	send(ctx context.Context, q ipmiRequest) (types.CompletionCode, []byte, error)
	// close ends the session. Further calls do nothing.
	close(ctx context.Context) error
}

// ipmiRequest is a request to the BMC.
type ipmiRequest struct {
	command types.Command
	lun     uint8
	data    []byte
	// once forbids repeats, because the BMC might execute the command twice.
	once bool
}

// conn is a connection to one BMC.
type conn struct {
	bmc      requester
	suite    types.CipherSuiteID
	device   *app.GetDeviceIDResponse // nil until it is read
	quirk    *quirk                   // nil until the device ID is read
	quirks   []string                 // names of the entries that quirk is merged from
	readSize uint8                    // maximum number of bytes that the BMC returns at once of a FRU
}

var (
	_ bmc.Client  = &conn{}
	_ bmc.Monitor = &conn{}
)

// Close ends the session. It is no error if the BMC has ended the session already.
func (c *conn) Close(ctx context.Context) error { return c.bmc.close(ctx) }

// do sends a request and decodes the answer, for a sentence that begins with op.
func (c *conn) do(ctx context.Context, op string, request types.Request, response types.Response) error {
	return c.doWith(ctx, op, ipmiRequest{}, request, response)
}

// doWith is do with the options of q, whose command and data it sets.
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

// deviceID reads the device ID (IPMI 2.0, 20.1), once for a connection.
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

// deviceID is the response to Get Device ID. Its last part, the auxiliary revision, is optional; virtualbmc sends half of it.
type deviceID struct{ app.GetDeviceIDResponse }

// Unpack decodes the response.
func (d *deviceID) Unpack(data []byte) error {
	const whole = 15
	return d.GetDeviceIDResponse.Unpack(append(slices.Clone(data), make([]byte, max(0, whole-len(data)))...))
}

func (d *Driver) requestTimeout() time.Duration { return cmp.Or(d.RequestTimeout, 5*time.Second) }

func (d *Driver) repeatAfter() time.Duration { return cmp.Or(d.RepeatAfter, time.Second) }
