// Package bootclient is the agent's side of the protocol in pxe/agent: an HTTP client of the boot server.
//
// Each method makes one request, and returns an error that package retry can judge: final if the boot server has decided, and otherwise worth another attempt.
// No method depends on the clock of the server, which may be wrong: certificates are known by their keys.
package bootclient

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/failure"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/retry"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

const (
	// answerTimeout is how long an answer may take to begin: longer than a boot server may hold a request (agent.MaxPoll).
	answerTimeout = agent.MaxPoll + 30*time.Second
	// smallTimeout is how long a request with a small answer may take as a whole.
	smallTimeout = 2 * time.Minute
	// dialTimeout is how long a connection may take. It is shorter than smallTimeout, so that the error of a request has that of its connection, and longer
	// than link keeps to the last path that worked.
	dialTimeout = 90 * time.Second
	// maxAnswer bounds a plan, an answer to a result, and a refusal, in bytes.
	maxAnswer = 1 << 20
	// maxWait bounds Retry-After.
	maxWait = 30 * time.Second
)

// ErrBootOver means that the token is not valid any more: the boot is over, and the agent powers the server off.
var ErrBootOver = errors.New("the boot is over: the boot server does not accept the token any more")

// Config says how to reach the boot server. Its fields are the parameters of the kernel command line.
type Config struct {
	// URL is the boot server's, http or https, without a slash at its end.
	URL string
	// Host is "namespace/name", and Token the token of the boot.
	Host, Token string
	// Pins are the digests of the public keys that the boot server may have, in base64url. They are required for https.
	Pins []string
	// Dial makes the connections. Its context ends after dialTimeout, and not with the request. Defaults to that of a net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Client is a client of the boot server.
type Client struct {
	config Config
	http   *http.Client
}

// New returns a client, with a key of its own for https. It makes no request.
func New(c Config) (*Client, error) {
	u, err := url.Parse(c.URL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("%s=%.200q is not the URL of a boot server", agent.ParamServer, c.URL)
	case u.Scheme == "https" && len(c.Pins) == 0:
		return nil, fmt.Errorf("%s is required with an https URL", agent.ParamPins)
	case c.Token == "" || strings.Count(c.Host, "/") != 1:
		return nil, fmt.Errorf("%s and %s are required", agent.ParamToken, agent.ParamHost)
	}
	pins := make([][]byte, len(c.Pins))
	for i, p := range c.Pins {
		if pins[i], err = base64.RawURLEncoding.DecodeString(p); err != nil || len(pins[i]) != sha256.Size {
			return nil, fmt.Errorf("%s has %.100q, which is not a SHA-256 digest in base64url", agent.ParamPins, p)
		}
	}
	c.URL = strings.TrimSuffix(c.URL, "/")
	if c.Dial == nil {
		c.Dial = (&net.Dialer{Timeout: 15 * time.Second, KeepAlive: 15 * time.Second}).DialContext
	}
	secure := pinned(pins)
	if u.Scheme == "https" {
		certificate, err := identity()
		if err != nil {
			return nil, err
		}
		secure.Certificates, secure.NextProtos = []tls.Certificate{certificate}, []string{agent.TLSProtocol, "http/1.1"}
	}
	transport := &http.Transport{
		DialContext:           bounded(c.Dial),
		TLSClientConfig:       secure,
		TLSHandshakeTimeout:   30 * time.Second,
		ResponseHeaderTimeout: answerTimeout,
		MaxIdleConnsPerHost:   2,
		IdleConnTimeout:       time.Minute,
		DisableCompression:    true, // images are sent as they are, and ranges count bytes
	}
	refuse := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // a redirect would carry the token elsewhere
	return &Client{c, &http.Client{Transport: transport, CheckRedirect: refuse}}, nil
}

// bounded ends each connection attempt after dialTimeout. net/http does not end it with its request (context.WithoutCancel in Transport.getConn, since Go
// 1.23): without a bound, each request that times out while the boot server is unreachable would leave an attempt that never ends.
func bounded(dial func(ctx context.Context, network, address string) (net.Conn, error)) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, dialTimeout)
		defer cancel()
		return dial(ctx, network, address)
	}
}

// pinned accepts exactly the certificates with one of the public keys. Names and validity are not checked: a key says more than a name, and the server's
// clock may be wrong.
func pinned(pins [][]byte) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection, which is called for resumed connections too, checks the key
		VerifyConnection: func(state tls.ConnectionState) error {
			if len(state.PeerCertificates) == 0 {
				return errors.New("the boot server has no certificate")
			}
			got := sha256.Sum256(state.PeerCertificates[0].RawSubjectPublicKeyInfo)
			if !slices.ContainsFunc(pins, func(pin []byte) bool { return bytes.Equal(pin, got[:]) }) {
				return fmt.Errorf("the boot server's public key has the digest %s, which is not in %s", base64.RawURLEncoding.EncodeToString(got[:]), agent.ParamPins)
			}
			return nil
		},
	}
}

// Plan introduces the agent, and returns the plan.
func (c *Client) Plan(ctx context.Context, hello agent.Hello) (*agent.Plan, error) {
	plan := &agent.Plan{}
	if err := c.call(ctx, agent.EndpointPlan, hello, plan); err != nil {
		return nil, err
	}
	if plan.Version != agent.Version {
		return nil, failure.New(wire.ReasonVersionDiffers, "the boot server has version %d of the protocol, and the agent %d", plan.Version, agent.Version)
	}
	return plan, nil
}

// Inventory reports what the agent found.
func (c *Client) Inventory(ctx context.Context, inventory wire.Inspection) error {
	return c.call(ctx, agent.EndpointInventory, inventory, nil)
}

// Progress reports what the agent does.
func (c *Client) Progress(ctx context.Context, progress agent.Progress) error {
	return c.call(ctx, agent.EndpointProgress, progress, nil)
}

// Result reports the end of the plan, and returns what follows.
func (c *Client) Result(ctx context.Context, result agent.Result) (agent.Answer, error) {
	var answer agent.Answer
	err := c.call(ctx, agent.EndpointResult, result, &answer)
	return answer, err
}

// call makes a POST request with a JSON body. answer is nil where none is expected. After "not yet" it waits as the boot server says, and returns
// retry.ErrNotYet.
func (c *Client) call(ctx context.Context, endpoint string, body, answer any) error {
	encoded, err := json.Marshal(body)
	if err != nil {
		return retry.Final(fmt.Errorf("cannot encode the request %s: %w", endpoint, err))
	}
	if len(encoded) > agent.MaxBody {
		return retry.Final(fmt.Errorf("the request %s has %d bytes, more than %d", endpoint, len(encoded), agent.MaxBody))
	}
	ctx, cancel := context.WithTimeout(ctx, smallTimeout)
	defer cancel()
	response, err := c.do(ctx, http.MethodPost, endpoint, "", encoded, nil)
	if err != nil {
		return err
	}
	defer drain(response)
	switch response.StatusCode {
	case http.StatusAccepted:
		return notYet(ctx, response)
	case http.StatusNoContent:
		if answer != nil {
			return fmt.Errorf("the boot server answers %s without a body", endpoint)
		}
		return nil
	case http.StatusOK:
		if answer == nil {
			return nil
		}
		return decode(response, answer)
	default:
		return unexpected(endpoint, response)
	}
}

// do makes a request. An answer that is no success is an error.
func (c *Client) do(ctx context.Context, method, endpoint, query string, body []byte, header http.Header) (*http.Response, error) {
	target := c.config.URL + agent.Path(c.config.Host, endpoint) + query
	request, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return nil, retry.Final(err)
	}
	maps.Copy(request.Header, header)
	request.Header.Set("Authorization", "Bearer "+c.config.Token)
	request.Header.Set(agent.HeaderVersion, strconv.Itoa(agent.Version))
	if method == http.MethodPost {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, err // the URL in it has no token
	}
	if response.StatusCode < 300 {
		return response, nil
	}
	defer drain(response)
	return nil, refusal(ctx, endpoint, response)
}

// refusal is the error of an answer that is no success.
func refusal(ctx context.Context, endpoint string, response *http.Response) error {
	var refused agent.Error
	message := response.Status
	if err := decode(response, &refused); err == nil && refused.Message != "" {
		message = fmt.Sprintf("%s: %.500s", response.Status, refused.Message)
	}
	switch code := response.StatusCode; {
	case code == http.StatusUnauthorized:
		return retry.Final(fmt.Errorf("%w: %s", ErrBootOver, message))
	case code == http.StatusConflict && refused.Reason == wire.ReasonOtherServer:
		return failure.New(wire.ReasonOtherServer, "%.1000s", refused.Message)
	case code == http.StatusConflict:
		return failure.New(wire.ReasonVersionDiffers, "the boot server has another version of the protocol: %s", message)
	case code == http.StatusTooManyRequests || code >= 500:
		if err := retry.Pause(ctx, retryAfter(response, 0)); err != nil {
			return err
		}
		return fmt.Errorf("the boot server answers %s with %s", endpoint, message)
	default:
		return retry.Final(&RefusedError{Endpoint: endpoint, Message: message})
	}
}

// RefusedError means that the boot server refused a request, and repeating it does not help: the plan has failed, and the agent reports no more.
type RefusedError struct {
	Endpoint, Message string
}

func (e *RefusedError) Error() string {
	return "the boot server refuses " + e.Endpoint + ": " + e.Message
}

func unexpected(endpoint string, response *http.Response) error {
	return fmt.Errorf("the boot server answers %s with %s, which is not expected", endpoint, response.Status)
}

// decode reads a JSON body of bounded size.
func decode(response *http.Response, to any) error {
	if kind, _, err := mime.ParseMediaType(response.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return fmt.Errorf("the answer has the content type %.50q, and not JSON", response.Header.Get("Content-Type"))
	}
	b, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err != nil {
		return err
	}
	if len(b) > maxAnswer {
		return fmt.Errorf("the answer is larger than %d bytes", maxAnswer)
	}
	return json.Unmarshal(b, to)
}

// drain lets the connection be used again.
func drain(response *http.Response) {
	_, _ = io.CopyN(io.Discard, response.Body, 64<<10) // otherwise the connection is closed, which is no error
	_ = response.Body.Close()                          // nothing was written
}

// notYet waits as the boot server says.
func notYet(ctx context.Context, response *http.Response) error {
	if err := retry.Pause(ctx, retryAfter(response, time.Second)); err != nil {
		return err
	}
	return retry.ErrNotYet
}

// retryAfter reads the header Retry-After in seconds (RFC 9110, 10.2.3). A date is not read: the clock may be wrong.
func retryAfter(response *http.Response, otherwise time.Duration) time.Duration {
	seconds, err := strconv.Atoi(response.Header.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return otherwise
	}
	return min(max(time.Duration(seconds)*time.Second, otherwise), maxWait)
}
