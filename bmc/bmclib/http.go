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

// maxBody bounds what is read of one answer. The longest that is known, AMT's boot settings, has some KiB.
const maxBody = 256 << 10

// wire makes HTTP exchanges with one BMC: paced, verified and bounded. It remembers the first that failed, since the providers
// drop errors or turn them into text. It is not safe for concurrent use.
type wire struct {
	endpoint   bmc.Endpoint
	transport  *http.Transport
	firstError error
}

// answer is an answer that has been read.
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

// exchange sends a request and reads the answer, whatever its status. A redirect is an error: requests carry what proves who we
// are, and a power command must not go where the answer sends it.
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
		return nil, fmt.Errorf("the answer is a redirect (%d), which is not followed: give the address where it leads", response.StatusCode)
	}
	return &answer{status: response.StatusCode, header: response.Header, body: body}, nil
}

// recordError remembers an error, unless there is one already.
func (w *wire) recordError(err error) {
	if w.firstError == nil {
		w.firstError = bmc.Wrap("Exchange", err)
	}
}

// explain prefers the error that was remembered over what the provider made of it, and forgets it.
func (w *wire) explain(err error) error {
	if w.firstError != nil {
		err = w.firstError
	}
	w.firstError = nil
	return err
}

func (w *wire) close() { w.transport.CloseIdleConnections() }

// statusError is the error of an answer that is one, with what it says.
func statusError(a *answer, says string) error {
	text := fmt.Sprintf("the answer is %d %s", a.status, http.StatusText(a.status))
	if says = shorten(says); says != "" {
		text += ": " + says
	}
	err := &bmc.Error{Kind: kindOfStatus(a.status), Op: "Exchange", Err: errors.New(text)}
	if seconds, parseErr := strconv.Atoi(strings.TrimSpace(a.header.Get("Retry-After"))); parseErr == nil && err.Kind == bmc.Unreachable {
		// What a stranger asks for may be absurd.
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
