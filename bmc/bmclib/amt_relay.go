package bmclib

import (
	"bytes"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// relay is an HTTP proxy between the iamt library and the BMC during a call. iamt connects to it on the loopback interface without TLS, and
// the relay forwards the messages to the BMC with verified TLS. It works around these defects of iamt (d7cdbe67d9ef of 2023-05-02):
//
//   - iamt verifies no certificates, has no throttle and no size limits, and follows redirects.
//   - iamt never closes its connections, and keeps two goroutines for each. The relay closes them.
//   - iamt tries a wrong password twice in each call, and panics on some challenges. The relay logs in once.
//   - iamt drops refusals: a ReturnValue that is not 0, and the text of a SOAP fault.
//   - iamt reports every power state except one as off, and requests a graceful power-off if a forced one is wanted: see normalize.
//
// No upstream issue was found for any of them. Delete each workaround when iamt has fixed its defect, or when bmclib replaces iamt.
//
// A random token authenticates iamt, so other processes on this machine cannot use the relay.
type relay struct {
	wire   *wire
	target string
	login  digest

	// states are the power states that iamt may request; nil allows all. noneOffered is set when the BMC offers none of them.
	states      []int
	noneOffered bool
	// server is the Server header of the BMC.
	server string
	// loginError is set after the BMC has refused the credentials. They are not tried again, because BMCs lock accounts.
	loginError error

	token string

	mu       sync.Mutex      // held while a message is forwarded
	ctx      context.Context //nolint:containedctx // of the current call; iamt's requests do not have its deadline
	messages int
}

// maxMessages limits the messages of one call, because the enumerations of some BMCs never end, and iamt would follow them. The longest
// known call has about a dozen.
const maxMessages = 64

// start opens the relay for one call. stop closes it, and waits until its goroutines have ended.
func (r *relay) start(ctx context.Context) (host string, port uint32, stop func(), err error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", 0, nil, fmt.Errorf("open the relay: %w", err)
	}
	host, text, _ := net.SplitHostPort(listener.Addr().String())
	number, _ := strconv.ParseUint(text, 10, 16)
	r.mu.Lock()
	r.ctx, r.token = ctx, secret()
	r.mu.Unlock()
	server := &http.Server{Handler: r, MaxHeaderBytes: 16 << 10} //nolint:gosec // the call has a deadline
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
	return host, uint32(number), func() {
		_ = server.Close()
		<-served
		r.mu.Lock() // waits for a message that is being forwarded
		r.ctx = nil
		r.mu.Unlock()
	}, nil
}

// ServeHTTP forwards a message of iamt.
func (r *relay) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx == nil {
		return
	}
	// iamt sends the first request without credentials, and expects a challenge.
	want := `Digest username="` + r.token + `",`
	got := request.Header.Get("Authorization")
	if subtle.ConstantTimeCompare([]byte(got[:min(len(got), len(want))]), []byte(want)) != 1 {
		w.Header().Set("WWW-Authenticate", `Digest realm="relay",nonce="0",qop="auth"`)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	message, err := io.ReadAll(io.LimitReader(request.Body, maxBody))
	if err == nil {
		// Messages contain the address that they are sent to.
		message = bytes.ReplaceAll(message, []byte("http://"+request.Host+"/wsman"), []byte(r.target))
		err = guard(func() (err error) {
			message, err = r.post(r.ctx, message)
			return err
		})
	}
	if err != nil {
		r.wire.recordError(err)
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	_, _ = w.Write(message)
}

// post sends a message to the BMC and returns the normalized response.
func (r *relay) post(ctx context.Context, message []byte) ([]byte, error) {
	if r.messages++; r.messages > maxMessages {
		return nil, fmt.Errorf("the answers do not end: there were more than %d", maxMessages)
	}
	a, err := r.authenticated(ctx, message)
	if err != nil {
		return nil, err
	}
	r.server = a.header.Get("Server")
	body, seen, err := normalize(a.body, r.states)
	switch {
	case seen.fault != "":
		return nil, faultError(a, seen)
	case a.status != http.StatusOK:
		return nil, statusError(a, "") // a body that is not from AMT is not quoted
	case err != nil:
		return nil, err
	}
	r.noneOffered = r.noneOffered || seen.noneOffered
	return body, nil
}

// authenticated sends a message with credentials. If the BMC refuses them with a new nonce, they are wrong.
func (r *relay) authenticated(ctx context.Context, message []byte) (*answer, error) {
	if r.loginError != nil {
		return nil, r.loginError
	}
	fresh := r.login.nonce == ""
	if fresh {
		a, err := r.send(ctx, nil, "")
		if err != nil {
			return nil, err
		}
		if a.status != http.StatusUnauthorized {
			return nil, noChallenge(a)
		}
		if err := r.login.challenge(a.header); err != nil {
			return nil, err
		}
	}
	a, err := r.signed(ctx, message)
	if err != nil || a.status != http.StatusUnauthorized {
		return a, err
	}
	if !fresh { // the nonce may have expired
		if err := r.login.challenge(a.header); err != nil {
			return nil, err
		}
		if a, err = r.signed(ctx, message); err != nil || a.status != http.StatusUnauthorized {
			return a, err
		}
	}
	r.loginError = statusError(a, "")
	return nil, r.loginError
}

// noChallenge is the error of a response other than 401 to a request without credentials.
func noChallenge(a *answer) error {
	if a.status >= http.StatusBadRequest {
		return statusError(a, "")
	}
	return errors.New("the server is not AMT: it does not request credentials")
}

func (r *relay) signed(ctx context.Context, message []byte) (*answer, error) {
	return r.send(ctx, message, r.login.authorization(http.MethodPost, "/wsman", secret()))
}

func (r *relay) send(ctx context.Context, message []byte, authorization string) (*answer, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.target, bytes.NewReader(message)) //nolint:gosec // Permit checks where it leads
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/soap+xml; charset=utf-8")
	if authorization != "" {
		request.Header.Set("Authorization", authorization)
	}
	return r.wire.exchange(request)
}

// faultError is the error of a SOAP fault. The codes are those of WS-Management (DSP0226, annex on faults).
func faultError(a *answer, seen soapResult) error {
	kind := bmc.Failed
	switch {
	case strings.Contains(seen.fault, "AccessDenied"), a.status == http.StatusForbidden:
		kind = bmc.Unauthorized
	case strings.Contains(seen.fault, "ActionNotSupported"), strings.Contains(seen.fault, "DestinationUnreachable"),
		strings.Contains(seen.fault, "UnsupportedFeature"):
		kind = bmc.Unsupported
	case strings.Contains(seen.fault, "TimedOut"), strings.Contains(seen.fault, "QuotaLimit"), strings.Contains(seen.fault, "Concurrency"),
		a.status == http.StatusServiceUnavailable:
		kind = bmc.Unreachable
	}
	return &bmc.Error{Kind: kind, Op: "Exchange", Err: fmt.Errorf("AMT answers %d with a fault: %s", a.status, shorten(seen.fault))}
}
