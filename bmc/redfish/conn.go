package redfish

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// conn is a connection to one system.
type conn struct {
	driver   *Driver
	endpoint bmc.Endpoint
	wire     *wire
	sessions bool // sessions rather than basic authentication
	// root is the service root, as it was read at the login.
	root resource
	path string
	// system is the system as it was read last.
	system  resource
	quirk   quirk
	quirks  []string // names of the entries that quirk is made of
	manager resource // nil until it is asked for
	// What was spent since the system was read, and the error that ends every further request.
	requests, bytes int
	fatal           error
	loggedInAgain   bool // since the last Rest
	// onlySystemListed is true where the Systems collection was read and lists nothing but the system.
	onlySystemListed bool
	// usesBootOrder is true where what is booted is chosen by the boot order.
	usesBootOrder bool
	// expand is how resources are asked for together with those that they link to.
	expand expansion
	// cache holds what was read since an inspection began, or the description before it; nil otherwise: everything is read afresh.
	cache map[string]resource
}

var (
	_ bmc.Client        = &conn{}
	_ bmc.VirtualMedia  = &conn{}
	_ bmc.SecureBooter  = &conn{}
	_ bmc.Monitor       = &conn{}
	_ bmc.CacheResetter = &conn{}
)

// ResetCache forgets what was read: the resources of real servers have tens of KiB, and are stale by the next job.
func (c *conn) ResetCache() { c.system, c.manager, c.cache, c.loggedInAgain = nil, nil, nil, false }

// login reads the service root, which needs no credentials, and logs in where sessions are asked for.
func (c *conn) login(ctx context.Context) error {
	w, err := c.driver.newWire(c.endpoint)
	if err != nil {
		return err
	}
	read, err := w.send(ctx, http.MethodGet, rootPath, nil, nil)
	if err == nil {
		c.root, err = decode(read.body)
	}
	if err == nil && c.sessions {
		sessions := c.root.link("Links", "Sessions")
		if service := c.root.link("SessionService"); sessions == "" && service != "" {
			sessions = service + "/Sessions"
		}
		if sessions == "" {
			return &bmc.Error{Kind: bmc.Unsupported, Op: "Log in", Err: errors.New("the BMC has no sessions: remove auth=session from the address")}
		}
		err = w.openSession(ctx, sessions, c.endpoint.Username, c.endpoint.Password)
		if sessionTableFull(err) {
			err = nil // Nobody gets in by a session now, and nothing was refused to these credentials: they are sent themselves.
		}
	}
	if statusOf(err) == http.StatusForbidden {
		return &bmc.Error{Kind: bmc.Unauthorized, Op: "Connect", Err: wrap("Log in", err)}
	}
	if err != nil {
		return wrap("Connect", err)
	}
	w.username, w.password = c.endpoint.Username, c.endpoint.Password
	c.wire, c.expand = w, expansionOf(c.root)
	return nil
}

// sessionTableFull is true for the answer to a login that found no free session (DSP0268, Base.SessionLimitExceeded; some BMCs
// send 503 without it).
func sessionTableFull(err error) bool {
	return hasMessageID(err, "SessionLimitExceeded") || hasMessageID(err, "RAC0218") // iDRAC's own
}

// maxBusyRetries is how often a request is repeated that a BMC was too busy for, and most503Wait how long it may ask to wait. Nothing was
// done with a request that got 503, so repeating it is safe for any method.
const (
	maxBusyRetries = 2
	maxBusyWait    = 5 * time.Second
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
		got, err := c.wire.send(ctx, method, path, body, headers)
		var full *busyError
		switch {
		case err == nil:
			r, err := c.read(got.body)
			return r, got.header, err
		case statusOf(err) == http.StatusUnauthorized && c.wire.session != "" && !c.loggedInAgain:
			c.loggedInAgain = true
			_ = c.wire.closeSession(ctx) // where it is only this resource that is refused, the session would stay open
			if err := c.login(ctx); err != nil {
				return nil, nil, err
			}
		case errors.As(err, &full) && busy < maxBusyRetries && full.after <= maxBusyWait:
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
func (c *conn) read(body []byte) (resource, error) {
	if c.bytes += len(body); c.bytes > maxBytes {
		return nil, errEndless
	}
	return decode(body)
}

// errEndless ends what would go on for ever in a tree whose links lead in circles.
var errEndless = fmt.Errorf("the BMC has more than %d resources, or more than %d MiB of them", maxRequests, maxBytes>>20)

// get reads a resource.
func (c *conn) get(ctx context.Context, path string) (resource, error) {
	if r, ok := c.cache[path]; ok {
		return r, nil
	}
	r, err := c.fetch(ctx, path)
	if err == nil && c.cache != nil {
		c.cache[path] = r
	}
	return r, err
}

// fetch reads a resource from the BMC.
func (c *conn) fetch(ctx context.Context, path string) (resource, error) {
	if c.requests++; c.requests > maxRequests {
		return nil, errEndless
	}
	r, _, err := c.request(ctx, http.MethodGet, path, nil, nil)
	if err == nil {
		err = r.refusal()
	}
	return r, err
}

// readOptional reads a resource that may not be there: nil then, and wherever else the BMC has no sensible answer. Whether it was the BMC
// that was gone, or the login that is refused by now, ended says.
func (c *conn) readOptional(ctx context.Context, path string) resource {
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
	maxPages    = 50
	maxMembers  = 512
	maxRequests = 1000 // for one call; a server full of drives needs 200
	maxBytes    = 8 << 20
)

// collection returns the members' paths. Members that are written out in full are returned as resources too.
func (c *conn) collection(ctx context.Context, path string) ([]string, []resource, error) {
	var (
		paths []string
		full  []resource
	)
	for page := 0; path != "" && page < maxPages && len(paths) < maxMembers; page++ {
		r, err := c.getExpanded(ctx, path, true)
		if err != nil {
			return paths, full, err
		}
		paths = append(paths, r.links("Members")...)
		for _, member := range r.list("Members") {
			if member.isWhole() {
				full = append(full, member)
			}
		}
		path = r.link("Members@odata.nextLink")
	}
	return paths[:min(len(paths), maxMembers)], full, nil
}

// members reads a collection and each of its members, as far as the BMC gives them. A path of "" has none.
func (c *conn) members(ctx context.Context, path string) []resource {
	if path == "" {
		return nil
	}
	paths, _, _ := c.collection(ctx, path) // what could be read is what there is
	return c.readAll(ctx, paths)
}

// readAll reads the resources at the paths, each once, as far as the BMC gives them.
func (c *conn) readAll(ctx context.Context, paths []string) []resource {
	var all []resource
	for i, path := range paths[:min(len(paths), maxMembers)] {
		if c.unavailable(ctx) != nil || c.requests > maxRequests {
			break
		}
		if r := c.readOptional(ctx, path); r != nil && !slices.Contains(paths[:i], path) {
			all = append(all, r.at(path))
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

// patch patches a resource with If-Match (DSP0266, 6.5), and copes with what BMCs make of it: an ETag that changed meanwhile, a
// weak one that they do not take back, one that never matches.
func (c *conn) patch(ctx context.Context, path string, body any) error {
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

// refused is true for answers that say that the request is not to the BMC's liking, so that another one may be.
func refused(err error) bool {
	switch status := statusOf(err); status {
	case http.StatusUnauthorized, http.StatusServiceUnavailable:
		return false
	default:
		return status/100 == 4 || status == http.StatusInternalServerError || status == http.StatusNotImplemented
	}
}

// unavailable is why nothing more can be read: what was not read then is not missing.
func (c *conn) unavailable(ctx context.Context) error { return cmp.Or(c.fatal, ctx.Err()) }

// Close ends the session, if there is one.
func (c *conn) Close(ctx context.Context) error { return c.wire.closeSession(ctx) }
