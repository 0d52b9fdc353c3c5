package bmc

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// Transport returns an HTTP transport to the endpoint's BMC. It verifies the BMC's certificate with the endpoint's settings, and makes no
// connection that permit refuses. It does not limit the duration or size of requests. The error is BadCertificate if the CA is invalid.
func (e Endpoint) Transport(permit AllowList) (*http.Transport, error) {
	config := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: e.InsecureSkipVerify, //nolint:gosec // only where the host's spec says so
	}
	if len(e.CA) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(e.CA) {
			return nil, &Error{Kind: BadCertificate, Op: "Read the CA certificates", Err: errors.New("ca.crt contains no PEM certificate")}
		}
	}
	return &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return permit.Dial(ctx, 10*time.Second, network, address)
		},
		TLSClientConfig: config, TLSHandshakeTimeout: 15 * time.Second, ForceAttemptHTTP2: true,
		// A kept-alive connection costs tens of KiB, and an idle BMC is polled only every few minutes.
		MaxIdleConns: 256, MaxIdleConnsPerHost: 1, IdleConnTimeout: 20 * time.Second, MaxResponseHeaderBytes: 64 << 10,
	}, nil
}

// ReadBody reads the body of a response. It is an error if the body is larger than limit bytes, because BMCs are not trusted. The caller closes the body.
func ReadBody(response *http.Response, limit int64) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(response.Body, limit+1))
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	if int64(len(body)) > limit {
		return nil, fmt.Errorf("the BMC's answer is larger than %d KiB", limit>>10)
	}
	return body, nil
}
