// Package redfish speaks Redfish (DMTF DSP0266, DSP0268) to BMCs. It believes little: names are matched without regard to case,
// properties of a wrong type are as if they were not there, and how vendors deviate stands in one table, in quirks.go.
package redfish

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// The URL schemes of this driver.
const (
	Scheme         = "redfish"
	SchemeInsecure = "redfish+http"
)

// Driver opens connections to Redfish services. They share HTTP transports, one for each way to verify certificates. The
// zero value is ready.
type Driver struct {
	// Permit is which addresses BMCs may have.
	Permit bmc.AllowList
	// RequestTimeout bounds each request with its answer. Defaults to 30 s.
	RequestTimeout time.Duration
	// Wrap, where not nil, wraps what sends the requests, for tests that look at them or hold them back.
	Wrap func(http.RoundTripper) http.RoundTripper

	transports transports
	orders     orders
}

// Driver returns the driver for both schemes.
func (d *Driver) Driver() bmc.Driver {
	return bmc.Driver{Open: d.Open, KeepIdle: keepIdle}
}

// keepIdle: a session counts against the BMC's few, so it is kept for the next step of a boot only. With basic
// authentication there is nothing on the BMC that could be in anybody's way; keeping the connection's knowledge makes a poll one request.
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
// Without a path the service must manage exactly one system. Authentication is HTTP basic, or with auth=session a Redfish
// session that Close ends. Of the errors, NotFound means that the path leads nowhere, or is needed and missing.
func (d *Driver) Open(ctx context.Context, endpoint bmc.Endpoint) (bmc.Client, error) {
	c := &conn{driver: d, endpoint: endpoint, sessions: withSession(endpoint.URL)}
	if err := c.login(ctx); err != nil {
		return nil, err
	}
	if err := c.findSystem(ctx); err != nil {
		closeCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		return nil, errors.Join(err, c.Close(closeCtx))
	}
	return c, nil
}

func baseURL(u *url.URL) string {
	scheme := "https"
	if u.Scheme == SchemeInsecure {
		scheme = "http"
	}
	return scheme + "://" + u.Host
}

// vendor is the maker of the server, or of the service where the system does not tell.
func (c *conn) vendor() string {
	if v := c.system.text("Manufacturer"); v != "" {
		return v
	}
	return c.root.text("Vendor")
}
