package redfish

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// maxBody bounds what is read of one answer. The largest resources of real BMCs have some hundred KiB.
const maxBody = 8 << 20

// transports holds one HTTP transport for each way to verify certificates, so that connections and TLS sessions are shared.
type transports struct {
	mu       sync.Mutex
	byPolicy map[policy]*http.Transport
}

type policy struct {
	ca   [sha256.Size]byte
	skip bool
}

func (d *Driver) httpClient(endpoint bmc.Endpoint) (*http.Client, error) {
	transport, err := d.transports.get(endpoint)
	if err != nil {
		return nil, err
	}
	return &http.Client{
		Transport: limited{transport},
		CheckRedirect: func(next *http.Request, via []*http.Request) error {
			// The credentials go along with a redirect: it must not lead elsewhere.
			if next.URL.Host != via[0].URL.Host || next.URL.Scheme != via[0].URL.Scheme {
				return errors.New("the BMC redirects to another host")
			}
			if len(via) > 3 {
				return errors.New("the BMC redirects without end")
			}
			return nil
		},
	}, nil
}

func (t *transports) get(endpoint bmc.Endpoint) (*http.Transport, error) {
	p := policy{ca: sha256.Sum256(endpoint.CA), skip: endpoint.InsecureSkipVerify}
	t.mu.Lock()
	defer t.mu.Unlock()
	if transport := t.byPolicy[p]; transport != nil {
		return transport, nil
	}
	config := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: endpoint.InsecureSkipVerify, //nolint:gosec // only where the host's spec says so
	}
	if len(endpoint.CA) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(endpoint.CA) {
			return nil, errors.New("ca.crt holds no PEM certificate")
		}
	}
	transport := &http.Transport{
		TLSClientConfig: config, TLSHandshakeTimeout: 15 * time.Second, ForceAttemptHTTP2: true,
		// A kept-alive connection costs tens of KiB; a BMC at rest is asked every few minutes only.
		MaxIdleConns: 256, MaxIdleConnsPerHost: 1, IdleConnTimeout: 20 * time.Second,
	}
	if t.byPolicy == nil {
		t.byPolicy = map[policy]*http.Transport{}
	}
	t.byPolicy[p] = transport
	return transport, nil
}

// limited bounds the size of answers: a BMC is a stranger.
type limited struct{ next http.RoundTripper }

func (l limited) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := l.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	response.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(response.Body, maxBody), response.Body}
	return response, nil
}
