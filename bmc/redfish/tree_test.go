package redfish

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
)

// tree serves the resources of a service as they were recorded, or written by hand: the answer to a GET for each path, and 404 for
// others. It takes $expand where its service root offers it.
type tree struct {
	mu        sync.Mutex
	resources map[string]any
	// requests are the received requests, and written the bodies of the PATCH requests.
	requests []string
	written  []string
	// before, if not nil, is called before each response. If it returns true, it has sent the response.
	before func(w http.ResponseWriter, r *http.Request) bool
}

// loadTree reads a recording.
func loadTree(t *testing.T, file string) *tree {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	unpacked, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	s := &tree{}
	if err := json.NewDecoder(unpacked).Decode(&s.resources); err != nil {
		t.Fatal(err)
	}
	return s
}

// newTree makes a service of resources that are written as JSON. Each gets its path, which is part of every resource.
func newTree(t *testing.T, resources map[string]string) *tree {
	t.Helper()
	s := &tree{resources: map[string]any{}}
	for path, text := range resources {
		var r any
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if object, ok := r.(map[string]any); ok && object["@odata.id"] == nil {
			object["@odata.id"] = path
		}
		s.resources[path] = r
	}
	return s
}

func (s *tree) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.before != nil && s.before(w, r) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	path := strings.TrimSuffix(r.URL.Path, "/")
	s.requests = append(s.requests, r.Method+" "+r.URL.RequestURI())
	found, ok := s.resources[path]
	query := r.URL.Query().Get("$expand")
	switch {
	case !ok:
		w.WriteHeader(http.StatusNotFound)
		return
	case r.Method == http.MethodPatch:
		s.patch(path, r)
	case query != "" && !s.expands():
		w.WriteHeader(http.StatusNotImplemented)
		return
	case query != "":
		found = s.expand(found, strings.HasPrefix(query, "*"), true)
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(found); err != nil {
		panic(err)
	}
}

// patch merges the Boot property of a request into the resource.
func (s *tree) patch(path string, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	s.written = append(s.written, path+" "+string(body))
	var change struct {
		Boot map[string]any `json:"Boot"`
	}
	if err := json.Unmarshal(body, &change); err != nil {
		panic(err)
	}
	found, _ := s.resources[path].(map[string]any)
	if boot, ok := found["Boot"].(map[string]any); ok {
		maps.Copy(boot, change.Boot)
	}
}

// expands is true if the service root offers $expand.
func (s *tree) expands() bool {
	root, _ := s.resources["/redfish/v1"].(map[string]any)
	return expansionOf(root).query != ""
}

// expand puts resources in place of the links to them (DSP0266, 7.3.2): all or, as "." wants it, those outside of Links.
func (s *tree) expand(value any, links, top bool) any {
	switch v := value.(type) {
	case map[string]any:
		if to, ok := v["@odata.id"].(string); ok && len(v) == 1 && !top {
			if r, ok := s.resources[strings.TrimSuffix(to, "/")]; ok {
				return r
			}
			return v
		}
		out := map[string]any{}
		for name, inner := range v {
			if out[name] = inner; links || name != "Links" {
				out[name] = s.expand(inner, links, false)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = s.expand(v[i], links, false)
		}
		return out
	default:
		return value
	}
}

// count returns the number of requests.
func (s *tree) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.requests)
}

// serve starts the service, and returns the endpoint of one of its systems.
func (s *tree) serve(t *testing.T, system string) bmc.Endpoint {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	u, err := url.Parse(server.URL + system)
	if err != nil {
		t.Fatal(err)
	}
	u.Scheme = SchemeInsecure
	return bmc.Endpoint{URL: u, Username: "admin", Password: "secret"}
}

// open opens a connection to one of the systems.
func (s *tree) open(t *testing.T, system string) *conn {
	t.Helper()
	driver := &Driver{Permit: bmctest.Loopback}
	t.Cleanup(driver.CloseIdleConnections)
	opened, err := driver.Open(t.Context(), s.serve(t, system))
	if err != nil {
		t.Fatal(err)
	}
	return opened.(*conn)
}
