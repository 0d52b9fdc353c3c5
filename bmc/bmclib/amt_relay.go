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

// relay stands between the iamt library and the BMC while a call lasts. iamt connects to it on the loopback interface, without TLS,
// and the relay passes the messages on to the BMC, with TLS that is verified. It does what iamt does not:
//
//   - it verifies the certificate, keeps to the pace, bounds answers, and follows no redirect;
//   - it closes iamt's connections, which iamt keeps open for ever, with two goroutines each;
//   - it logs in once: iamt tries a wrong password twice at each call, and panics on some challenges;
//   - it finds refusals that iamt drops: a ReturnValue that is not 0, and what is in a SOAP fault;
//   - it keeps iamt from taking every power state but one for off, and from asking politely where force is wanted: see normalize.
//
// Who may use it is checked with a random token: other processes on this machine get nothing.
type relay struct {
	wire   *wire
	target string
	login  digest

	// states are the power states that iamt may request; nil leaves it the choice. noWay is set when the BMC offers none of them.
	states      []int
	noneOffered bool
	// server is how the BMC names itself.
	server string
	// loginError is set once the BMC refused the credentials: they are not tried again, since BMCs lock accounts.
	loginError error

	token string

	mu       sync.Mutex      // held while a message is passed on
	ctx      context.Context //nolint:containedctx // of the call that lasts; iamt's requests do not carry its deadline
	messages int
}

// maxMessages bounds the messages of one call. Some BMCs' enumerations never end, and iamt would follow them. The longest call that is
// known has about a dozen.
const maxMessages = 64

// start opens the relay for one call. stop closes it, and waits until nothing of it is left.
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
		r.mu.Lock() // a message that is under way is waited for
		r.ctx = nil
		r.mu.Unlock()
	}, nil
}

// ServeHTTP passes a message of iamt on.
func (r *relay) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx == nil {
		return
	}
	// iamt begins with a request without credentials, to be asked for them.
	want := `Digest username="` + r.token + `",`
	got := request.Header.Get("Authorization")
	if subtle.ConstantTimeCompare([]byte(got[:min(len(got), len(want))]), []byte(want)) != 1 {
		w.Header().Set("WWW-Authenticate", `Digest realm="relay",nonce="0",qop="auth"`)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	message, err := io.ReadAll(io.LimitReader(request.Body, maxBody))
	if err == nil {
		// Messages name the address that they are sent to.
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

// post sends a message to the BMC and returns its answer, as iamt is to see it.
func (r *relay) post(ctx context.Context, message []byte) ([]byte, error) {
	if r.messages++; r.messages > maxMessages {
		return nil, fmt.Errorf("the answers do not end: there were %d", maxMessages)
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
		return nil, statusError(a, "") // what AMT did not write is not quoted
	case err != nil:
		return nil, err
	}
	r.noneOffered = r.noneOffered || seen.noneOffered
	return body, nil
}

// authenticated sends a message with credentials. Those that were refused with a fresh nonce are wrong.
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
	if !fresh { // the nonce is used up
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

// noChallenge is the error of an answer to a request without credentials that should have been 401.
func noChallenge(a *answer) error {
	if a.status >= http.StatusBadRequest {
		return statusError(a, "")
	}
	return errors.New("what answers is no AMT: it asks for no credentials")
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
