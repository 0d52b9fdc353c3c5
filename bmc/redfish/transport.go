package redfish

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// maxBody is the maximum size of a response. The largest resources of real BMCs have some hundred KiB.
const maxBody = 2 << 20

// maxTransports limits the number of transports: there is one for each CA, and CAs are replaced over time.
const maxTransports = 256

// transports contains one HTTP transport for each setting of certificate verification, so that connections and TLS sessions are shared.
type transports struct {
	mu       sync.Mutex
	byPolicy map[trust]*http.Transport
}

type trust struct {
	ca   [sha256.Size]byte
	skip bool
}

func (d *Driver) httpClient(ctx context.Context, endpoint bmc.Endpoint) (*http.Client, *loginTransport, error) {
	transport := &loginTransport{driver: d, endpoint: endpoint, trust: trust{ca: sha256.Sum256(endpoint.CA), skip: endpoint.InsecureSkipVerify}}
	if _, err := transport.choose(ctx); err != nil {
		return nil, nil, err
	}
	timeout := d.RequestTimeout
	if timeout == 0 {
		timeout = 30 * time.Second
	}
	next := http.RoundTripper(transport)
	if d.Wrap != nil {
		next = d.Wrap(next)
	}
	return &http.Client{
		Transport: &limitedTransport{next: next, endpoint: endpoint, timeout: timeout},
		CheckRedirect: func(next *http.Request, via []*http.Request) error {
			// A redirect to another host would receive the credentials.
			if next.URL.Host != via[0].URL.Host || next.URL.Scheme != via[0].URL.Scheme {
				return errors.New("the BMC redirects to another host")
			}
			if len(via) > 3 {
				return errors.New("the BMC redirects too often")
			}
			return nil
		},
	}, transport, nil
}

// loginTransport sends the requests of one client. In a job that may be the first login it uses an HTTP transport of its own (see bmc.LoginAccepted), and otherwise the one that clients share.
type loginTransport struct {
	driver   *Driver
	endpoint bmc.Endpoint
	trust    trust
	own      *http.Transport // of the current job; nil for the shared one
}

func (l *loginTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	transport, err := l.choose(request.Context())
	if err != nil {
		return nil, err
	}
	return transport.RoundTrip(request)
}

func (l *loginTransport) choose(ctx context.Context) (transport *http.Transport, err error) {
	if bmc.LoginAccepted(ctx) {
		return l.driver.sharedTransport(l.endpoint, l.trust)
	}
	if l.own == nil {
		l.own, err = l.endpoint.Transport(l.driver.Permit)
	}
	return l.own, err
}

// endJob closes the connections of the client's own transport. While a fleet registers there would be one for each BMC, with tens of KiB.
func (l *loginTransport) endJob() {
	if l.own != nil {
		l.own.CloseIdleConnections()
		l.own = nil
	}
}

func (d *Driver) sharedTransport(endpoint bmc.Endpoint, p trust) (*http.Transport, error) {
	t := &d.transports
	t.mu.Lock()
	defer t.mu.Unlock()
	if transport := t.byPolicy[p]; transport != nil {
		return transport, nil
	}
	transport, err := endpoint.Transport(d.Permit)
	if err != nil {
		return nil, err
	}
	if len(t.byPolicy) >= maxTransports {
		for old, transport := range t.byPolicy {
			transport.CloseIdleConnections()
			delete(t.byPolicy, old)
			break
		}
	}
	if t.byPolicy == nil {
		t.byPolicy = map[trust]*http.Transport{}
	}
	t.byPolicy[p] = transport
	return transport, nil
}

// limitedTransport throttles the requests to one BMC, and limits the duration and size of each response, because BMCs are not trusted.
type limitedTransport struct {
	next     http.RoundTripper
	endpoint bmc.Endpoint
	timeout  time.Duration
}

// slowRequest is the key of the time that a request may take, if that is more than the usual one.
type slowRequest struct{}

func (b *limitedTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	// Paths from the BMC, such as that of a session, are appended to the address: "@evil.example/" would be another host, which would
	// receive the credentials. cleanLink and localPath remove such paths; this is the second check.
	if request.URL.Host != b.endpoint.URL.Host || request.URL.User != nil {
		return nil, errors.New("the BMC refers to another host")
	}
	if err := b.endpoint.Wait(request.Context()); err != nil {
		return nil, err
	}
	timeout := b.timeout
	if longer, ok := request.Context().Value(slowRequest{}).(time.Duration); ok {
		timeout = max(timeout, longer)
	}
	ctx, cancel := context.WithTimeout(request.Context(), timeout)
	defer cancel()
	response, err := b.next.RoundTrip(request.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := bmc.ReadBody(response, maxBody)
	if err != nil {
		return nil, err
	}
	if busy := busyOf(response); busy != nil {
		return nil, busy
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	return response, nil
}

// busyOf returns the error of a response with Retry-After (RFC 9110, 10.2.3), or nil.
func busyOf(response *http.Response) *busyError {
	if response.StatusCode != http.StatusServiceUnavailable && response.StatusCode != http.StatusTooManyRequests {
		return nil
	}
	value := strings.TrimSpace(response.Header.Get("Retry-After"))
	if value == "" {
		return nil
	}
	busy := &busyError{status: response.StatusCode}
	if seconds, err := strconv.Atoi(value); err == nil {
		busy.after = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(value); err == nil {
		busy.after = time.Until(at)
	}
	// The BMC's clock, or its value, may be wrong.
	busy.after = min(max(busy.after, time.Second), 10*time.Minute)
	return busy
}

// CloseIdleConnections closes idle connections.
func (d *Driver) CloseIdleConnections() {
	d.transports.mu.Lock()
	defer d.transports.mu.Unlock()
	for _, transport := range d.transports.byPolicy {
		transport.CloseIdleConnections()
	}
}
