// Package bmc speaks to baseboard management controllers. It knows nothing of Kubernetes: it speaks URLs, credentials and
// MAC addresses. Drivers stand in folders of their own and are handed to the Pool, which gives each BMC one request at a time.
package bmc

import (
	"context"
	"errors"
	"net/url"
	"time"
)

// Client is a connection to one server's BMC. It is not safe for concurrent use. What not every BMC can do stands in interfaces
// of its own: VirtualMedia, SecureBooter and Monitor. Use As to ask for one.
//
// Every error is an *Error, whose Kind says what can be done about it.
type Client interface {
	Power
	BootOverrider
	Inspector
	// Describe tells what the BMC says of itself: which model it is, what it can do, and which of its known deviations the
	// driver works around. It changes nothing.
	Describe(ctx context.Context) (Description, error)
	// Close ends the connection and, where there is one, the session on the BMC. It may be called again where it failed.
	Close(ctx context.Context) error
}

// CacheResetter is a client that holds what it read for the rest of a job. The Pool calls Rest before it keeps the client for another one.
type CacheResetter interface{ ResetCache() }

// As returns the client as one that can do more, such as VirtualMedia. The error is Unsupported where its driver cannot.
func As[T any](c Client, op string) (T, error) {
	can, ok := c.(T)
	if !ok {
		return can, &Error{Kind: Unsupported, Op: op, Err: errors.New("the protocol has no such command")}
	}
	return can, nil
}

// Endpoint is what a driver needs to reach a BMC.
type Endpoint struct {
	// URL is the address. Its scheme picks the driver.
	URL *url.URL
	// Username and Password are the credentials.
	Username, Password string
	// CA holds PEM certificates that the BMC's certificate is verified with. Without it the system's roots are used.
	CA []byte
	// InsecureSkipVerify accepts any certificate.
	InsecureSkipVerify bool
	// Pace, where not nil, is called by the driver before each request, and holds it back until the BMC may be asked again.
	// The Pool sets it.
	Pace func(ctx context.Context) error
}

// Wait calls Pace.
func (e Endpoint) Wait(ctx context.Context) error {
	if e.Pace == nil {
		return ctx.Err()
	}
	return e.Pace(ctx)
}

// Driver opens connections of one URL scheme.
type Driver struct {
	// Open opens a connection. It logs in once at most: BMCs lock accounts.
	Open func(context.Context, Endpoint) (Client, error)
	// Limit is how many BMCs may be spoken to at once through this driver. Zero leaves it to the Pool's limit.
	Limit int
	// KeepIdle tells how long an idle connection may be kept for the next job. nil takes the Pool's default.
	KeepIdle func(Endpoint) time.Duration
	// Peer names the BMC behind an endpoint, which gets one request at a time. nil takes the URL's host and port, so that one
	// BMC that is spoken to for several systems is one.
	Peer func(Endpoint) string
}

// Capability is something that a BMC may be able to do.
type Capability string

// The capabilities of BMCs.
const (
	CanPowerOn      Capability = "PowerOn"
	CanForceOff     Capability = "ForceOff"
	CanShutDown     Capability = "ShutDown"
	CanCycle        Capability = "Cycle"
	CanReset        Capability = "Reset"
	CanNMI          Capability = "NMI"
	CanBootPXE      Capability = "BootPXE"
	CanBootHTTP     Capability = "BootHTTP"
	CanBootDisk     Capability = "BootDisk"
	CanBootCD       Capability = "BootCD"
	CanInventory    Capability = "Inventory"
	CanVirtualMedia Capability = "VirtualMedia"
	CanSecureBoot   Capability = "SecureBoot"
	CanSensors      Capability = "Sensors"
	CanEventLog     Capability = "EventLog"
	CanClock        Capability = "Clock"
)

// Description is what a BMC says of itself.
type Description struct {
	// Protocol is the protocol spoken, with its version: "Redfish 1.15.0", "IPMI 2.0, cipher suite 17".
	Protocol string
	// Vendor and Model are the server's. FirmwareVersion is the BMC's. Empty where the BMC does not tell.
	Vendor, Model, FirmwareVersion string
	// Path is the path of the system that is managed, where the protocol has one.
	Path string
	// Capabilities are what the BMC says it can do, sorted.
	Capabilities []Capability
	// Quirks name the entries of the driver's table of known deviations that apply.
	Quirks []string
}
