package bmclib

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// maxBody is the maximum size of a response. The longest known one, AMT's boot settings, has some KiB.
const maxBody = 256 << 10

// wire sends HTTP requests to one BMC, with throttling, certificate verification and size limits. It keeps the first error of a call,
// because the providers of bmclib v2.3.5 drop errors or convert them to text. No upstream issue was found. Delete firstError when they
// wrap errors. It is not safe for concurrent use.
type wire struct {
	endpoint   bmc.Endpoint
	transport  *http.Transport
	firstError error
}

// answer is a response with its body.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (d *Driver) newWire(endpoint bmc.Endpoint) (*wire, error) {
	transport, err := endpoint.Transport(d.Permit)
	if err != nil {
		return nil, err
	}
	return &wire{endpoint: endpoint, transport: transport}, nil
}

// exchange sends a request and returns the response of any status. A redirect is an error: requests contain credentials, and a power
// command must not go to another server.
func (w *wire) exchange(request *http.Request) (*answer, error) {
	if err := w.endpoint.Wait(request.Context()); err != nil {
		return nil, err
	}
	response, err := w.transport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := bmc.ReadBody(response, maxBody)
	if err != nil {
		return nil, err
	}
	if response.StatusCode/100 == 3 {
		return nil, fmt.Errorf("the answer is a redirect (%d), which the provider does not follow: use the address that it redirects to", response.StatusCode)
	}
	return &answer{status: response.StatusCode, header: response.Header, body: body}, nil
}

// recordError keeps an error, unless there is one already.
func (w *wire) recordError(err error) {
	if w.firstError == nil {
		w.firstError = bmc.Wrap("Exchange", err)
	}
}

// explain returns the recorded error if there is one, otherwise the provider's error, and clears the recorded one.
func (w *wire) explain(err error) error {
	if w.firstError != nil {
		err = w.firstError
	}
	w.firstError = nil
	return err
}

func (w *wire) close() { w.transport.CloseIdleConnections() }

// statusError is the error of a response with an error status, and its message.
func statusError(a *answer, message string) error {
	text := fmt.Sprintf("the answer is %d %s", a.status, http.StatusText(a.status))
	if message = shorten(message); message != "" {
		text += ": " + message
	}
	err := &bmc.Error{Kind: kindOfStatus(a.status), Op: "Exchange", Err: errors.New(text)}
	if seconds, parseErr := strconv.Atoi(strings.TrimSpace(a.header.Get("Retry-After"))); parseErr == nil && err.Kind == bmc.Unreachable {
		// The value is untrusted, so it is limited.
		err.RetryAfter = time.Duration(min(max(seconds, 1), 600)) * time.Second
	}
	return err
}

func kindOfStatus(status int) bmc.Kind {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return bmc.Unauthorized
	case http.StatusNotFound, http.StatusGone:
		return bmc.NotFound
	case http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return bmc.Unsupported
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return bmc.Unreachable
	default:
		return bmc.Failed
	}
}
