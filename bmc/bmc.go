// Package bmc controls servers through their baseboard management controllers (BMCs). It does not depend on Kubernetes: its terms are URLs,
// credentials and MAC addresses. Each driver has its own folder. The Pool runs the drivers, with one request at a time for each BMC.
package bmc

import (
	"context"
	"net/url"
	"time"
)

// Client is a connection to one server's BMC. It is not safe for concurrent use. Optional capabilities have their own interfaces:
// VirtualMedia, SecureBooter, SecureBootKeyReader, BIOSConfigurer, Monitor, HealthReader and BootRecorder. As converts a client to one of them.
//
// Every error is an *Error, whose Kind determines what the caller can do about it.
type Client interface {
	Power
	BootOverrider
	Inspector
	// Describe returns the BMC's model and capabilities, and the known deviations that the driver works around. It changes nothing.
	Describe(ctx context.Context) (Description, error)
	// Close ends the connection and, if there is one, the session on the BMC. The caller may repeat it after an error.
	Close(ctx context.Context) error
}

// CacheResetter is a client that keeps responses and connections for the time of a job. The Pool calls ResetCache after each job, unless it closes the client.
type CacheResetter interface{ ResetCache() }

// Endpoint is the data that a driver needs to connect to a BMC.
type Endpoint struct {
	// URL is the address. Its scheme selects the driver.
	URL *url.URL
	// Username and Password are the credentials.
	Username, Password string
	// CA contains the PEM certificates that verify the BMC's certificate. If it is empty, the system's roots are used.
	CA []byte
	// InsecureSkipVerify accepts any certificate.
	InsecureSkipVerify bool
	// Throttle, if not nil, delays each request of the driver until the BMC's request rate allows it. The Pool sets it.
	Throttle func(ctx context.Context) error
}

// Wait calls Throttle. Drivers call it before each request.
func (e Endpoint) Wait(ctx context.Context) error {
	if e.Throttle == nil {
		return ctx.Err()
	}
	return e.Throttle(ctx)
}

// Driver opens connections of one URL scheme.
type Driver struct {
	// Open opens a connection. It logs in at most once, because BMCs lock accounts.
	Open func(context.Context, Endpoint) (Client, error)
	// Limit is the maximum number of jobs that use this driver at once. Zero means that only the Pool's limits apply.
	Limit int
	// KeepIdle returns how long an idle connection is kept for the next job. If it is nil, PoolOptions.Idle applies.
	KeepIdle func(Endpoint) time.Duration
	// Peer names the BMC of an endpoint, which gets one request at a time. If it is nil, the CanonicalHost of the URL names the BMC, so
	// that several systems of one BMC share its queue.
	Peer func(Endpoint) string
}

// Description is what a BMC reports about itself.
type Description struct {
	// Protocol is the protocol and its version: "Redfish 1.15.0", "IPMI 2.0, cipher suite 17".
	Protocol string
	// Vendor and Model are the server's. FirmwareVersion is the BMC's. They are empty if the BMC does not report them.
	Vendor, Model, FirmwareVersion string
	// Path is the path of the managed system, if the protocol has paths.
	Path string
	// Capabilities are those that the BMC reports, sorted.
	Capabilities []Capability
	// Quirks name the applicable entries of the driver's table of known deviations.
	Quirks []string
	// PowerRestorePolicy is what the firmware does when the power returns: AlwaysOn, AlwaysOff or LastState; empty if the BMC does not report it.
	PowerRestorePolicy string
	// OpenSessions is how many sessions are open in the BMC, also of this program; zero if it is unknown.
	OpenSessions int
	// ClockAhead is how far the clock of the BMC is ahead of this machine's; nil if it is unknown.
	ClockAhead *time.Duration `json:"-"` // bmcctl prints clockAheadSeconds
}
