package crash

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/capbm-io/cluster-api-provider-baremetal/hack/endure/rig"
)

// moment is when a changing request halts a provider.
type moment string

const (
	// before is before the request is sent.
	before moment = "before"
	// after is when it has taken effect, and its answer is lost.
	after moment = "after"
)

// fuse counts a provider's changes in API servers and BMCs, and halts the provider at one of them.
type fuse struct {
	at   int // counts from 1; 0 is never
	when moment

	mu      sync.Mutex
	armed   bool
	kill    func()
	count   int
	writes  int
	what    []string // the counted requests
	tripped string
}

func (f *fuse) arm() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed = true
}

// disarm stops the counting.
func (f *fuse) disarm() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed = false
}

// counted returns the number of counted writes to an API server and of commands to BMCs, and the request at which the provider was halted: "" if it was
// not.
func (f *fuse) counted() (writes, commands int, tripped string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.writes, f.count - f.writes, f.tripped
}

// connect makes the requests of a provider pass the fuse.
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
		f.kill() // the gate behind it drops the answer
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
	if write := nameOf(r); write != "" {
		did += ": " + write
	}
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

// writes are a provider's writes to hosts and their boots, each with a part of its patch. The first match names the write.
var writes = map[string][]struct{ name, part string }{
	"baremetalhosts": {
		{"count the boot", `"boots":`},
		{"claim", `"consumerRef":{`},
		{"release", `"consumerRef":null`},
		{"end the erasure", `"eraseOnce":null`},
		{"begin the cleaning", `"cleaningStartedAt":"`},
		{"hold", `"powerHoldSince":`},
		{"hold", `"powerHoldOffAt":`},
		{"finalizer of the host", `"finalizers":`},
		{"allow the move", `"clusterctl.cluster.x-k8s.io/block-move":null`},
		{"allow the move", `"annotations":null`},
	},
	"baremetalboots": {
		{"void the boot", `"voidedAt":"`},
		{"end the boot", `"failure":{`},
		{"record the report", `"reportedAt":"`},
		{"record that the agent is done", `"agentDoneAt":"`},
		{"record the permission", `"commitAllowedAt":"`},
		{"record that data is served", `"dataServedAt":"`},
		{"record that the script is served", `"scriptAddress":"`},
		{"record the erasure", `"purpose":"Clean"`},
		{"record the inspection", `"purpose":"Inspect"`},
		{"record the boot", `"claimID":"`},
		{"record the power-on", `"poweredOnAt":"`},
		{"record the power-off", `"poweredOffAt":"`},
		{"finalizer of the boot", `"finalizers":`},
		{"owner of the boot", `"ownerReferences":`},
	},
	"baremetalinspections": nil,
	"baremetalerasures":    nil,
}

// nameOf names a write to a host or its boot. It is empty for other requests.
func nameOf(r *http.Request) string {
	for kind, names := range writes {
		if !strings.Contains(r.URL.Path, "/"+kind) {
			continue
		}
		switch {
		case r.Method == http.MethodPost:
			return "create of " + kind
		case strings.HasSuffix(r.URL.Path, "/status"):
			return "status of " + kind
		case r.GetBody == nil:
			return ""
		}
		body, err := r.GetBody()
		if err != nil {
			return ""
		}
		content, err := io.ReadAll(body)
		if err != nil {
			return ""
		}
		for _, name := range names {
			if strings.Contains(string(content), name.part) {
				return name.name
			}
		}
	}
	return ""
}
