package crash

import (
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/capbm-io/cluster-api-provider-baremetal/hack/endure/rig"
)

// moment says when a provider is halted by a request that would change something.
type moment string

const (
	// before is before the request goes out.
	before moment = "before"
	// after is when it took effect, and its answer was not seen.
	after moment = "after"
)

// fuse counts what a provider would change, in API servers and in BMCs, and halts it at one of them.
type fuse struct {
	at   int // counts from 1; 0 is never
	when moment

	mu      sync.Mutex
	armed   bool
	kill    func()
	count   int
	writes  int
	what    []string // what was counted
	tripped string
}

func (f *fuse) arm() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed = true
}

// disarm ends the counting.
func (f *fuse) disarm() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed = false
}

// counted returns how many writes to an API server and how many commands to BMCs were counted, and at which the provider was halted: "" if at none.
func (f *fuse) counted() (writes, commands int, tripped string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.writes, f.count - f.writes, f.tripped
}

// connect lets a provider burn the fuse.
func (f *fuse) connect(options *rig.Options) {
	wrap := func(what string) func(http.RoundTripper) http.RoundTripper {
		return func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) { return f.pass(what, next, r) })
		}
	}
	options.WrapTransport, options.WrapBMC = wrap("API"), wrap("BMC")
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (f *fuse) pass(what string, next http.RoundTripper, r *http.Request) (*http.Response, error) {
	fires := f.fires(what, r)
	if fires && f.when == before {
		f.kill()
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, rig.ErrHalted
	}
	response, err := next.RoundTrip(r)
	if fires {
		f.kill() // the gate behind drops the answer
	}
	return response, err
}

func (f *fuse) fires(what string, r *http.Request) bool {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.armed {
		return false
	}
	f.count++
	if what == "API" {
		f.writes++
	}
	path := r.URL.Path[strings.LastIndex(r.URL.Path, "/namespaces/")+1:]
	did := fmt.Sprintf("%s %s %s", what, r.Method, path)
	if manager := r.URL.Query().Get("fieldManager"); manager != "" {
		did += " as " + manager
	}
	f.what = append(f.what, did)
	if f.count == f.at {
		f.tripped = did
		return true
	}
	return false
}
