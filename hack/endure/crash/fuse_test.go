package crash

import (
	"fmt"
	"io"
	"net/http"
	"slices"
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
	at point // the zero point is never reached

	mu      sync.Mutex
	armed   bool
	kill    func()
	count   int
	writes  int
	what    []string       // the counted requests, for the log
	labels  []string       // what each of them does
	times   map[string]int // how many had the label
	tripped string
}

// point is a request at which a provider is halted. Its number among all requests differs from run to run, since controllers write concurrently.
type point struct {
	label string // what the request does
	nth   int    // counts the requests with this label from 1
	when  moment
}

// String is a part of the name of a case.
func (p point) String() string { return fmt.Sprintf("%s %d %s", p.label, p.nth, p.when) }

// isRepeated is true for the moment before a write of a status that leaves the same durable state as the moment after the write before it. The stages of a boot are only in its status,
// and the boot server decides by them.
func (p point) isRepeated() bool {
	return p.when == before && strings.Contains(p.label, "status of ") && p.label != "status of baremetalboots"
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
	if fires && f.at.when == before {
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
	label := labelOf(what, r)
	f.what, f.labels = append(f.what, did), append(f.labels, label)
	if f.times == nil {
		f.times = map[string]int{}
	}
	f.times[label]++
	if label == f.at.label && f.times[label] == f.at.nth {
		f.tripped = did
		return true
	}
	return false
}

// writes are a provider's writes to hosts and their boots, each with a part of its patch. The first match names the write.
var writes = map[string][]struct{ name, part string }{
	"baremetalhosts": {
		{"count the boot", `"boots":`},
		{"count the run", `"settingsRuns":`},
		{"count the end of the run", `"settingsRunsEnded":`},
		{"claim", `"consumerRef":{`},
		{"release", `"consumerRef":null`},
		{"begin the cleaning", `"cleaningStartTime":"`},
		{"hold", `"powerHoldStartTime":`},
		{"hold", `"powerHoldOffTime":`},
		{"finalizer of the host", `"finalizers":`},
		{"allow the move", `"clusterctl.cluster.x-k8s.io/block-move":null`},
		{"allow the move", `"annotations":null`},
	},
	"baremetalboots": {
		{"void the boot", `"voidedTime":"`},
		{"end the boot", `"failure":{`},
		{"record the report", `"reportedTime":"`},
		{"record that the agent is done", `"agentDoneTime":"`},
		{"record the permission", `"commitAllowedTime":"`},
		{"record that data is served", `"dataServedTime":"`},
		{"record that the script is served", `"scriptAddress":"`},
		{"record the erasure", `"purpose":"Clean"`},
		{"record the inspection", `"purpose":"Inspect"`},
		{"record the restart", `"purpose":"Configure"`},
		{"record the boot", `"claimID":"`},
		{"record the power-on", `"poweredOnTime":"`},
		{"record the power-off", `"poweredOffTime":"`},
		{"finalizer of the boot", `"finalizers":`},
		{"owner of the boot", `"ownerReferences":`},
	},
	"baremetalsettings": {
		{"record the end of the run", `"endTime":"`},
		{"record the outcome of the run", `"outcome":"`},
		{"record that the server is off", `"poweredOffTime":"`},
		{"record that the settings are pending", `"stagedTime":"`},
		{"record that settings are staged", `"stagingTime":"`},
		{"record the run", `"number":`},
	},
	"baremetalinspections": nil,
	"baremetalerasures":    nil,
}

// labelOf says what a request does, without names of objects and servers. It has no slash, which divides the names of tests.
func labelOf(what string, r *http.Request) string {
	if name := nameOf(r); name != "" {
		return name
	}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if what == "BMC" {
		return strings.ToLower(r.Method) + " " + parts[len(parts)-1] + " of the BMC"
	}
	resource := parts[len(parts)-1]
	if i := slices.Index(parts, "namespaces"); i >= 0 && i+2 < len(parts) {
		resource = parts[i+2]
	} else if i = slices.Index(parts, "v1"); i >= 0 && i+1 < len(parts) {
		resource = parts[i+1] // without a namespace, such as a Node
	}
	if parts[len(parts)-1] == "status" {
		resource = "status of " + resource
	}
	return strings.ToLower(r.Method) + " " + resource
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
