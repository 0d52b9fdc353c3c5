// Package redfish controls BMCs with Redfish (DMTF DSP0266, DSP0268). It tolerates deviations: names match without regard to case,
// and properties of a wrong type count as missing. quirks_table.go lists the known deviations of vendors.
package redfish

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

const (
	Scheme         = "redfish"
	SchemeInsecure = "redfish+http"
)

// Driver opens connections to Redfish services. The connections share HTTP transports, one for each setting of certificate verification.
// The zero value is ready.
type Driver struct {
	// Permit defines the addresses that BMCs may have.
	Permit bmc.AllowList
	// RequestTimeout limits each request including its response. Defaults to 30 s.
	RequestTimeout time.Duration
	// MediaTimeout limits each wait for a virtual drive: until it is empty after an eject, until it accepts an image, and until it reports the image. The
	// requests that insert and eject an image may take twice as long. Defaults to 1 min.
	MediaTimeout time.Duration
	// Wrap, if not nil, wraps the transport, for tests that record or delay requests.
	Wrap func(http.RoundTripper) http.RoundTripper

	transports transports
	orders     orders
}

// Driver returns the driver for both schemes.
func (d *Driver) Driver() bmc.Driver {
	return bmc.Driver{Open: d.Open, KeepIdle: keepIdle}
}

// keepIdle is short for a connection with a session, because BMCs allow few sessions: it is kept for the next step of a boot only. A
// connection with basic authentication uses no resources of the BMC, and its cached resources reduce a poll to one request.
func keepIdle(e bmc.Endpoint) time.Duration {
	if withSession(e.URL) {
		return 30 * time.Second
	}
	return 15 * time.Minute
}

func withSession(u *url.URL) bool { return u.Query().Get("auth") == "session" }

// Open connects to the system that the endpoint's URL names:
//
//	redfish://host[:port][/redfish/v1/Systems/ID][?auth=session]
//
// Without a path, the service must manage exactly one system. Authentication is HTTP basic or, with auth=session, a Redfish session that
// Close ends. The error is NotFound if the path does not exist, or if it is missing and the service manages several systems.
func (d *Driver) Open(ctx context.Context, endpoint bmc.Endpoint) (bmc.Client, error) {
	c := newConn(d, endpoint)
	if err := c.service.login(ctx); err != nil {
		return nil, err
	}
	if err := c.system.find(ctx); err != nil {
		closeCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		return nil, errors.Join(err, c.Close(closeCtx))
	}
	c.order.guess()
	return c, nil
}

func baseURL(u *url.URL) string {
	scheme := "https"
	if u.Scheme == SchemeInsecure {
		scheme = "http"
	}
	return scheme + "://" + u.Host
}
