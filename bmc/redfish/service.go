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

// service is the Redfish service of a BMC. All requests of a connection pass through it: it logs in, limits what is read, caches resources,
// and hides secrets in errors. It does not know which system the connection controls.
type service struct {
	driver   *Driver
	endpoint bmc.Endpoint
	wire     *wire
	sessions bool // sessions rather than basic authentication
	// root is read at login.
	root serviceRoot
	// requests and bytes count since the last resetBudget. fatal ends every further request.
	requests, bytes int
	fatal           error
	loggedInAgain   bool // since the last resetCache
	// expand is the service's support for reading resources together with the resources that they link to.
	expand expansion
	// cache contains the resources that were read since the start of an inspection or of the description before it. Otherwise it is nil,
	// and every resource is read from the BMC.
	cache  map[string]resource
	masker masker
}

// resetCache drops the resources that were read. The next job that uses a URL hides it again.
func (s *service) resetCache() { s.cache, s.masker, s.loggedInAgain = nil, masker{}, false }

// login reads the service root, which needs no credentials, and opens a session if the URL has auth=session.
func (s *service) login(ctx context.Context) (err error) {
	w, err := s.driver.newWire(ctx, s.endpoint)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			w.transport.endJob()
		}
	}()
	read, err := w.send(ctx, http.MethodGet, rootPath, nil, nil)
	var root resource
	if err == nil {
		root, err = decode(read.body)
	}
	if err == nil && s.sessions {
		sessions := root.link("Links", "Sessions")
		if service := root.link("SessionService"); sessions == "" && service != "" {
			sessions = service + "/Sessions"
		}
		if sessions == "" {
			return &bmc.Error{Kind: bmc.Unsupported, Op: "Log in", Err: errors.New("the BMC has no sessions: remove auth=session from the address")}
		}
		err = w.openSession(ctx, sessions, s.endpoint.Username, s.endpoint.Password)
		if sessionTableFull(err) {
			err = nil // no session is free, but the BMC did not refuse the credentials: basic authentication may work
		}
	}
	if statusOf(err) == http.StatusForbidden {
		return &bmc.Error{Kind: bmc.Unauthorized, Op: "Connect", Err: wrap("Log in", err)}
	}
	if err != nil {
		return wrap("Connect", err)
	}
	w.username, w.password = s.endpoint.Username, s.endpoint.Password
	if s.wire != nil {
		s.wire.transport.endJob()
	}
	s.wire, s.root, s.expand = w, rootOf(root), expansionOf(root)
	return nil
}

// serviceRoot is what the driver uses of a service root (DSP0266, 6.4) after the login. The resource itself has several KiB in memory, and connections are kept.
type serviceRoot struct {
	version, vendor string
	// systems, chassis, managers and registries are the paths of these collections: the usual ones (DSP0266, 6.3) if the root does not link to them.
	systems, chassis, managers, registries string
	// sessions and updates are empty without a link.
	sessions, updates string
	// skips is true if the service takes $skip.
	skips bool
}

func rootOf(r resource) serviceRoot {
	collection := func(name string) string { return cmp.Or(r.link(name), rootPath+name) }
	return serviceRoot{
		version: r.text("RedfishVersion"), vendor: r.text("Vendor"),
		systems: collection("Systems"), chassis: collection("Chassis"), managers: collection("Managers"), registries: collection("Registries"),
		sessions: r.link("Links", "Sessions"), updates: r.link("UpdateService"),
		skips: r.boolean("ProtocolFeaturesSupported", "TopSkipQuery"),
	}
}

// sessionTableFull is true for the response to a login that found no free session (DSP0268, Base.SessionLimitExceeded; some BMCs
// send 503 without it).
func sessionTableFull(err error) bool {
	return hasMessageID(err, "SessionLimitExceeded") || hasMessageID(err, "RAC0218") // iDRAC's own
}

// resetBudget resets the limits at the start of a call, and clears the fatal error of the previous call, unless a login was refused.
func (s *service) resetBudget() {
	s.requests, s.bytes, s.cache = 0, 0, nil
	if bmc.KindOf(wrap("", s.fatal)) != bmc.Unauthorized {
		s.fatal = nil
	}
}

// maxBusyRetries is how often a request is repeated after 503, and maxBusyWait is the longest accepted Retry-After. The BMC did not execute
// a request that it answered with 503, so it is safe to repeat any method.
const (
	maxBusyRetries = 2
	maxBusyWait    = 5 * time.Second
)

// request sends one request and decodes the response. A session that the BMC has ended is replaced once in a job. After that, and with
// basic authentication, 401 is final for this connection: every further 401 counts towards an account lockout.
func (s *service) request(ctx context.Context, method, path string, body any, headers map[string]string) (resource, http.Header, error) {
	if s.fatal != nil {
		return nil, nil, s.fatal
	}
	r, header, err := s.attempt(ctx, method, path, body, headers)
	s.masker.hide(err)
	if kind := bmc.KindOf(wrap(method, err)); err != nil && (kind == bmc.Unauthorized || kind == bmc.Unreachable) {
		s.fatal = err
	}
	return r, header, err
}

func (s *service) attempt(ctx context.Context, method, path string, body any, headers map[string]string) (resource, http.Header, error) {
	for busy := 0; ; {
		got, err := s.wire.send(ctx, method, path, body, headers)
		var full *busyError
		switch {
		case err == nil:
			r, err := s.read(got.body)
			return r, got.header, err
		case statusOf(err) == http.StatusUnauthorized && s.wire.session != "" && !s.loggedInAgain:
			s.loggedInAgain = true
			_ = s.wire.closeSession(ctx) // the session is still open if only this resource refuses it
			if err := s.login(ctx); err != nil {
				return nil, nil, err
			}
		case errors.As(err, &full) && busy < maxBusyRetries && full.after <= maxBusyWait:
			busy++
			if !sleep(ctx, full.after) {
				return nil, nil, err
			}
		default:
			return nil, nil, err
		}
	}
}

// read decodes a response. The error is errEndless if the BMC has sent more than maxBytes.
func (s *service) read(body []byte) (resource, error) {
	if s.bytes += len(body); s.bytes > maxBytes {
		return nil, errEndless
	}
	return decode(body)
}

// errEndless ends reading a tree that is endless, for example because its links form a circle.
var errEndless = fmt.Errorf("the BMC has more than %d resources, or more than %d MiB of them", maxRequests, maxBytes>>20)

// get reads a resource.
func (s *service) get(ctx context.Context, path string) (resource, error) {
	if r, ok := s.cache[path]; ok {
		return r, nil
	}
	r, err := s.fetch(ctx, path)
	if err == nil && s.cache != nil {
		s.cache[path] = r
	}
	return r, err
}

// fetch reads a resource from the BMC.
func (s *service) fetch(ctx context.Context, path string) (resource, error) {
	if s.requests++; s.requests > maxRequests {
		return nil, errEndless
	}
	r, _, err := s.request(ctx, http.MethodGet, path, nil, nil)
	if err == nil {
		err = r.refusal()
		s.masker.hide(err)
	}
	return r, err
}

// readOptional reads a resource that may not exist. It returns nil if it does not, and after every other error. unavailable is true if
// the reason is an unreachable BMC or a refused login.
func (s *service) readOptional(ctx context.Context, path string) resource {
	if path == "" {
		return nil
	}
	r, err := s.get(ctx, path)
	if err != nil {
		return nil
	}
	return r
}

// Limits for reading from a BMC, which is not trusted.
const (
	maxPages    = 50
	maxMembers  = 512
	maxRequests = 1000 // in one call; a server with the maximum number of drives needs 200
	maxBytes    = 8 << 20
)

// errNoMembers means that the answer is no collection: it proves nothing about its members.
var errNoMembers = errors.New("the BMC's answer has no Members")

// collection returns the members' paths, and the members that the collection contains in full.
func (s *service) collection(ctx context.Context, path string) ([]string, []resource, error) {
	var (
		paths []string
		full  []resource
	)
	for page := 0; path != "" && page < maxPages && len(paths) < maxMembers; page++ {
		r, err := s.getExpanded(ctx, path, true)
		if err != nil {
			return paths, full, err
		}
		if !r.hasProperty("Members") && page == 0 {
			return nil, nil, errNoMembers
		}
		paths = append(paths, r.links("Members")...)
		if page > 0 && s.cache != nil && s.expand.members { // the next link keeps $expand (DSP0266, 7.3.2)
			s.cacheExpanded(r)
		}
		for _, member := range r.list("Members") {
			if member.isWhole() {
				full = append(full, member)
			}
		}
		path = r.link("Members@odata.nextLink")
	}
	return paths[:min(len(paths), maxMembers)], full, nil
}

// members reads a collection and each of its members, and omits those that cannot be read. A path of "" has no members.
func (s *service) members(ctx context.Context, path string) []resource {
	if path == "" {
		return nil
	}
	paths, _, _ := s.collection(ctx, path) // after an error, it returns the paths read so far
	return s.readAll(ctx, paths)
}

// readAll reads the resources at the paths, each once, and omits those that cannot be read.
func (s *service) readAll(ctx context.Context, paths []string) []resource {
	var all []resource
	for i, path := range paths[:min(len(paths), maxMembers)] {
		if s.unavailable(ctx) != nil || s.requests > maxRequests {
			break
		}
		if r := s.readOptional(ctx, path); r != nil && !slices.Contains(paths[:i], path) {
			all = append(all, r.at(path))
		}
	}
	return all
}

// etagForms return the values of If-Match to try, from the ETag of the header and that of the body.
var etagForms = []func(header, body string) string{
	func(header, body string) string { return cmp.Or(header, body) },
	func(header, body string) string { return cmp.Or(header, body) }, // it may have changed in between
	// Weak ETags never match (RFC 9110, 8.8.3.2), and iDRAC adds -gzip to those of compressed responses.
	func(header, body string) string {
		return strings.Replace(strings.TrimPrefix(cmp.Or(header, body), "W/"), `-gzip"`, `"`, 1)
	},
	func(header, body string) string { return cmp.Or(body, strings.Trim(header, `W/"`)) }, // for headers with double or missing quotes
	func(string, string) string { return "*" },
	func(string, string) string { return "" },
}

// patch patches a resource with If-Match (DSP0266, 6.5). It handles ETags that have changed in the meantime, weak ETags that the BMC does
// not accept, and ETags that never match.
func (s *service) patch(ctx context.Context, path string, body any) error {
	_, _, err := s.patchAnswered(ctx, path, body)
	return err
}

// patchAnswered is patch, and returns the answer, which may name a task.
func (s *service) patchAnswered(ctx context.Context, path string, body any) (answered resource, header http.Header, err error) {
	for _, match := range etagForms {
		r, read, getErr := s.request(ctx, http.MethodGet, path, nil, nil)
		if getErr != nil {
			return nil, nil, getErr
		}
		var headers map[string]string
		if m := match(read.Get("ETag"), r.text("@odata.etag")); m != "" {
			headers = map[string]string{"If-Match": m}
		}
		answered, header, err = s.request(ctx, http.MethodPatch, path, body, headers)
		if status := statusOf(err); status != http.StatusPreconditionFailed && status != http.StatusPreconditionRequired {
			return answered, header, err
		}
	}
	return nil, nil, err
}

// refused is true for a response that rejects this request, so that another form of the request may succeed.
func refused(err error) bool {
	switch status := statusOf(err); status {
	case http.StatusUnauthorized, http.StatusServiceUnavailable:
		return false
	default:
		return status/100 == 4 || status == http.StatusInternalServerError || status == http.StatusNotImplemented
	}
}

// unavailable returns the error that prevents further reading. A resource that was not read because of it may exist.
func (s *service) unavailable(ctx context.Context) error { return cmp.Or(s.fatal, ctx.Err()) }
