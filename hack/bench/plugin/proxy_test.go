package plugin

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"path"
	"path/filepath"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
)

// counts are the requests of a command.
type counts struct {
	total int
	// bytes is the size of the answers, as they were sent.
	bytes int64
	// lists are the lists by resource. The further pages of a list are not in it.
	lists map[string]int
}

// counter counts the requests that pass it.
type counter struct {
	next http.Handler

	mu     sync.Mutex
	counts counts
}

func (c *counter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	counted := &countingWriter{ResponseWriter: w}
	c.next.ServeHTTP(counted, r)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts.total++
	c.counts.bytes += counted.written
	if query := r.URL.Query(); r.Method == http.MethodGet && query.Has("limit") && query.Get("continue") == "" {
		c.counts.lists[path.Base(r.URL.Path)]++
	}
}

// countingWriter counts the bytes of an answer.
type countingWriter struct {
	http.ResponseWriter

	written int64
}

func (w *countingWriter) Write(content []byte) (int, error) {
	n, err := w.ResponseWriter.Write(content)
	w.written += int64(n)
	return n, err
}

func (c *counter) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts = counts{lists: map[string]int{}}
}

func (c *counter) get() counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	counted := c.counts
	counted.lists = maps.Clone(counted.lists)
	return counted
}

// proxy starts a proxy of the API server, with the rights of its administrator, and returns a kubeconfig for it.
func proxy(tb testing.TB) (kubeconfig string, requests *counter) {
	tb.Helper()
	g := NewWithT(tb)
	target, _, err := rest.DefaultServerUrlFor(env.Config)
	g.Expect(err).NotTo(HaveOccurred())
	transport, err := rest.TransportFor(env.Config)
	g.Expect(err).NotTo(HaveOccurred())
	requests = &counter{next: &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, Transport: transport}}
	requests.reset()
	server := httptest.NewServer(requests)
	tb.Cleanup(server.Close)
	kubeconfig = filepath.Join(tb.TempDir(), "kubeconfig")
	content := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: fleet
clusters:
- {name: fleet, cluster: {server: %q}}
contexts:
- {name: fleet, context: {cluster: fleet, namespace: %s, user: fleet}}
users:
- {name: fleet, user: {}}
`, server.URL, namespace)
	g.Expect(os.WriteFile(kubeconfig, []byte(content), 0o600)).To(Succeed())
	return kubeconfig, requests
}
