package redfish

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/stmcginnis/gofish"
	"github.com/stmcginnis/gofish/schemas"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// conn is a connection to one system.
type conn struct {
	driver   *Driver
	endpoint bmc.Endpoint
	api      *gofish.APIClient
	sessions bool // sessions rather than basic authentication
	path     string
	// system is the system as it was read last.
	system  resource
	quirk   quirk
	quirks  []string // names of the entries that quirk is made of
	manager resource // nil until it is asked for
	// What was spent since the system was read, and the error that ends every further request.
	requests, bytes int
	fatal           error
	relogged        bool // since the last Rest
}

var (
	_ bmc.Client       = &conn{}
	_ bmc.VirtualMedia = &conn{}
	_ bmc.SecureBooter = &conn{}
	_ bmc.Monitor      = &conn{}
	_ bmc.Rester       = &conn{}
)

// Rest forgets what was read: the resources of real servers have tens of KiB, and are stale by the next job.
func (c *conn) Rest() { c.system, c.manager, c.relogged = nil, nil, false }

// login connects, and logs in where sessions are asked for. gofish fetches the service root without credentials first.
func (c *conn) login(ctx context.Context) error {
	client, err := c.driver.httpClient(c.endpoint)
	if err != nil {
		return err
	}
	config := gofish.ClientConfig{
		Endpoint: baseURL(c.endpoint.URL), Username: c.endpoint.Username, Password: c.endpoint.Password,
		BasicAuth: !c.sessions, HTTPClient: client, NoModifyTransport: true, ReuseConnections: true,
	}
	api, err := gofish.ConnectContext(ctx, config)
	if c.sessions && sessionTableFull(err) {
		// Nobody gets in by a session now; nothing was refused to these credentials.
		config.BasicAuth = true
		api, err = gofish.ConnectContext(ctx, config)
	}
	if err != nil && strings.Contains(err.Error(), "no target provided") { // gofish's words for a root without a link to sessions
		return &bmc.Error{Kind: bmc.Unsupported, Op: "Log in", Err: errors.New("the BMC has no sessions: remove auth=session from the address")}
	}
	if statusOf(err) == http.StatusForbidden {
		return &bmc.Error{Kind: bmc.Unauthorized, Op: "Connect", Err: wrap("Log in", err)}
	}
	if err != nil {
		return wrap("Connect", err)
	}
	c.api = api
	if !config.BasicAuth && !c.hasSession() {
		return &bmc.Error{Kind: bmc.Failed, Op: "Log in", Err: errors.New(
			"the BMC opened a session and does not say which, so that it could not be closed: remove auth=session from the address")}
	}
	return nil
}

// sessionTableFull is true for the answer to a login that found no free session (DSP0268, Base.SessionLimitExceeded; some BMCs
// send 503 without it).
func sessionTableFull(err error) bool {
	return saysID(err, "SessionLimitExceeded") || saysID(err, "RAC0218") // iDRAC's own
}

// most503 is how often a request is repeated that a BMC was too busy for, and most503Wait how long it may ask to wait. Nothing was
// done with a request that got 503, so repeating it is safe for any method.
const (
	most503     = 2
	most503Wait = 5 * time.Second
)

// request sends one request and decodes the answer. A session that the BMC forgot is replaced once in a job. After that, and with
// basic authentication, a 401 is final for this connection: every further one counts towards a locked account.
func (c *conn) request(ctx context.Context, method, path string, body any, headers map[string]string) (resource, http.Header, error) {
	if c.fatal != nil {
		return nil, nil, c.fatal
	}
	r, header, err := c.attempt(ctx, method, path, body, headers)
	if kind := bmc.KindOf(wrap(method, err)); err != nil && (kind == bmc.Unauthorized || kind == bmc.Unreachable) {
		c.fatal = err
	}
	return r, header, err
}

func (c *conn) attempt(ctx context.Context, method, path string, body any, headers map[string]string) (resource, http.Header, error) {
	for busy := 0; ; {
		response, err := c.send(ctx, method, path, body, headers) //nolint:bodyclose // it is in memory: bounded.RoundTrip read it
		var answer *schemas.Error
		var full *busyError
		switch {
		case err == nil:
			r, err := c.read(response.Body)
			return r, response.Header, err
		case errors.As(err, &answer) && answer.HTTPReturnedStatusCode == http.StatusUnauthorized && c.hasSession() && !c.relogged:
			c.relogged = true
			_ = c.logout(ctx) // where it is only this resource that is refused, the session would stay open
			if err := c.login(ctx); err != nil {
				return nil, nil, err
			}
		case errors.As(err, &full) && busy < most503 && full.after <= most503Wait:
			busy++
			timer := time.NewTimer(full.after)
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
				return nil, nil, err
			}
		default:
			return nil, nil, err
		}
	}
}

// read decodes an answer, as long as the BMC did not say more than a server has to say.
func (c *conn) read(body io.Reader) (resource, error) {
	content, err := io.ReadAll(body)
	if err != nil {
		return nil, err
	}
	if c.bytes += len(content); c.bytes > mostBytes {
		return nil, errEndless
	}
	return decode(content)
}

func (c *conn) send(ctx context.Context, method, path string, body any, headers map[string]string) (*http.Response, error) {
	api := c.api.WithContext(ctx)
	switch method {
	case http.MethodGet:
		return api.GetWithHeaders(path, headers)
	case http.MethodPost:
		return api.PostWithHeaders(path, body, headers)
	case http.MethodPatch:
		return api.PatchWithHeaders(path, body, headers)
	default:
		return nil, fmt.Errorf("the driver sends no %s", method)
	}
}

func (c *conn) hasSession() bool {
	_, err := c.api.GetSession()
	return err == nil
}

// errEndless ends what would go on for ever in a tree whose links lead in circles.
var errEndless = fmt.Errorf("the BMC has more than %d resources, or more than %d MiB of them", mostRequests, mostBytes>>20)

// get reads a resource.
func (c *conn) get(ctx context.Context, path string) (resource, error) {
	if c.requests++; c.requests > mostRequests {
		return nil, errEndless
	}
	r, _, err := c.request(ctx, http.MethodGet, path, nil, nil)
	return r, err
}

// try reads a resource that may not be there: nil then, and wherever else the BMC has no sensible answer. Whether it was the BMC
// that was gone, or the login that is refused by now, ended says.
func (c *conn) try(ctx context.Context, path string) resource {
	if path == "" {
		return nil
	}
	r, err := c.get(ctx, path)
	if err != nil {
		return nil
	}
	return r
}

// Bounds on what is read of a BMC, which may say that it has as many members as it likes.
const (
	mostPages    = 50
	mostMembers  = 512
	mostRequests = 1000 // for one call; a server full of drives needs 200
	mostBytes    = 8 << 20
)

// collection returns the members' paths. Members that are written out in full are returned as resources too.
func (c *conn) collection(ctx context.Context, path string) ([]string, []resource, error) {
	var (
		paths []string
		full  []resource
	)
	for page := 0; path != "" && page < mostPages && len(paths) < mostMembers; page++ {
		r, err := c.get(ctx, path)
		if err != nil {
			return paths, full, err
		}
		paths = append(paths, r.links("Members")...)
		for _, member := range r.list("Members") {
			if len(member) > 1 {
				full = append(full, member)
			}
		}
		path = r.link("Members@odata.nextLink")
	}
	return paths[:min(len(paths), mostMembers)], full, nil
}

// members reads a collection and each of its members, as far as the BMC gives them. A path of "" has none.
func (c *conn) members(ctx context.Context, path string) []resource {
	if path == "" {
		return nil
	}
	paths, _, _ := c.collection(ctx, path) // what could be read is what there is
	return c.all(ctx, paths)
}

// all reads the resources at the paths, as far as the BMC gives them.
func (c *conn) all(ctx context.Context, paths []string) []resource {
	var all []resource
	for _, path := range paths[:min(len(paths), mostMembers)] {
		if c.ended(ctx) != nil || c.requests > mostRequests {
			break
		}
		if r := c.try(ctx, path); r != nil {
			all = append(all, r)
		}
	}
	return all
}

// etagForms are what is sent as If-Match, one after the other, given the ETag of the header and that of the body.
var etagForms = []func(header, body string) string{
	func(header, body string) string { return cmp.Or(header, body) },
	func(header, body string) string { return cmp.Or(header, body) }, // it may have changed in between
	// Weak ones are never equal (RFC 9110, 8.8.3.2), and iDRAC marks those of compressed answers.
	func(header, body string) string {
		return strings.Replace(strings.TrimPrefix(cmp.Or(header, body), "W/"), `-gzip"`, `"`, 1)
	},
	func(header, body string) string { return cmp.Or(body, strings.Trim(header, `W/"`)) }, // a header that is quoted twice, or not at all
	func(string, string) string { return "*" },
	func(string, string) string { return "" },
}

// change patches a resource with If-Match (DSP0266, 6.5), and copes with what BMCs make of it: an ETag that changed meanwhile, a
// weak one that they do not take back, one that never matches.
func (c *conn) change(ctx context.Context, path string, body any) error {
	var err error
	for _, match := range etagForms {
		r, header, getErr := c.request(ctx, http.MethodGet, path, nil, nil)
		if getErr != nil {
			return getErr
		}
		var headers map[string]string
		if m := match(header.Get("ETag"), r.text("@odata.etag")); m != "" {
			headers = map[string]string{"If-Match": m}
		}
		_, _, err = c.request(ctx, http.MethodPatch, path, body, headers)
		if status := statusOf(err); status != http.StatusPreconditionFailed && status != http.StatusPreconditionRequired {
			return err
		}
	}
	return err
}

// statusOf returns the HTTP status of an answer that is an error, or 0.
func statusOf(err error) int {
	var answer *schemas.Error
	if errors.As(err, &answer) {
		return answer.HTTPReturnedStatusCode
	}
	return 0
}

// refused is true for answers that say that the request is not to the BMC's liking, so that another one may be.
func refused(err error) bool {
	switch status := statusOf(err); status {
	case http.StatusUnauthorized, http.StatusServiceUnavailable:
		return false
	default:
		return status/100 == 4 || status == http.StatusInternalServerError || status == http.StatusNotImplemented
	}
}

// ended is why nothing more can be read: what was not read then is not missing.
func (c *conn) ended(ctx context.Context) error { return cmp.Or(c.fatal, ctx.Err()) }

// Close ends the session, if there is one.
func (c *conn) Close(ctx context.Context) error { return c.logout(ctx) }

func (c *conn) logout(ctx context.Context) error {
	session, err := c.api.GetSession()
	if err != nil {
		return nil //nolint:nilerr // basic authentication: there is no session to end
	}
	err = c.api.WithContext(ctx).Service.DeleteSession(session.ID)
	if status := statusOf(err); status == http.StatusUnauthorized || status == http.StatusNotFound {
		return nil // the BMC forgot it already
	}
	return wrap("Log out", err)
}
