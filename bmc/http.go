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

// Transport returns an HTTP transport to the endpoint's BMC that verifies its certificate as the endpoint says, and makes no
// connection that permit refuses. Callers bound the requests themselves. The error is BadCertificate where the CA is none.
func (e Endpoint) Transport(permit AllowList) (*http.Transport, error) {
	config := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: e.InsecureSkipVerify, //nolint:gosec // only where the host's spec says so
	}
	if len(e.CA) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(e.CA) {
			return nil, &Error{Kind: BadCertificate, Op: "Read the CA certificates", Err: errors.New("ca.crt holds no PEM certificate")}
		}
	}
	return &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return permit.Dial(ctx, 10*time.Second, network, address)
		},
		TLSClientConfig: config, TLSHandshakeTimeout: 15 * time.Second, ForceAttemptHTTP2: true,
		// A kept-alive connection costs tens of KiB; a BMC at rest is asked every few minutes only.
		MaxIdleConns: 256, MaxIdleConnsPerHost: 1, IdleConnTimeout: 20 * time.Second, MaxResponseHeaderBytes: 64 << 10,
	}, nil
}

// ReadBody reads the body of an answer, at most so many bytes: a BMC is a stranger. Closing it is the caller's.
func ReadBody(response *http.Response, most int64) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(response.Body, most+1))
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	if int64(len(body)) > most {
		return nil, fmt.Errorf("the BMC's answer is larger than %d KiB", most>>10)
	}
	return body, nil
}
