package image

import (
	"bytes"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// clientOf returns a client of a handler that is served at a unix socket.
func clientOf(t *testing.T, handler http.Handler) *Client {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	var wg sync.WaitGroup
	wg.Go(func() { _ = server.Serve(listener) })
	t.Cleanup(func() {
		_ = server.Close()
		wg.Wait()
	})
	return NewClient(t.TempDir(), socket)
}

// scrape returns what a scrape shows of a collector and of another metric. As with the metrics of a manager, one error fails the scrape.
func scrape(t *testing.T, c prometheus.Collector) string {
	t.Helper()
	g := NewWithT(t)
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c, prometheus.NewGauge(prometheus.GaugeOpts{Name: "capbm_hosts", Help: "Another metric of the process."}))
	w := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}).
		ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	g.Expect(w.Code).To(Equal(http.StatusOK), w.Body.String())
	g.Expect(w.Body.String()).To(ContainSubstring("capbm_hosts 0\n"))
	return w.Body.String()
}

// TestClientMetrics: a client shows the metrics of the service in the other process, exactly as the service has them.
func TestClientMetrics(t *testing.T) {
	g := NewWithT(t)
	content := disk(1<<20, 5)
	o := serve(t, map[string][]byte{"/disk": content})
	s := newService(t, Options{Log: logr.Discard(), MaxBytes: 5 << 30})
	c := clientOf(t, s.Handler())
	_, err := await(t, c, "dc", Source{URL: o.URL + "/disk", Checksum: sum(content)})
	g.Expect(err).NotTo(HaveOccurred())
	_, err = await(t, c, "dc", Source{URL: o.URL + "/none", Checksum: sum([]byte("x"))})
	g.Expect(reasonOf(err)).To(Equal(ImageUnreachable))
	g.Eventually(func() string { return scrape(t, c) }).Should(And(
		ContainSubstring(`capbm_image_preparations_total{result="Ready"} 1`), ContainSubstring(`capbm_image_preparations_total{result="ImageUnreachable"} 1`),
		ContainSubstring(`capbm_image_preparations_total{result="NoSpace"} 0`), ContainSubstring(`capbm_image_preparation_duration_seconds_count 1`),
		ContainSubstring(`capbm_image_preparation_duration_seconds_bucket{le="3600"} 1`), ContainSubstring("capbm_image_cache_limit_bytes 5.36870912e+09"),
	))
	g.Expect(scrape(t, c)).To(Equal(scrape(t, s)))
}

// TestClientMetricsFail: an image service that does not answer, or answers with something else, fails no scrape of the boot server and adds no metric to it.
func TestClientMetricsFail(t *testing.T) {
	w := httptest.NewRecorder()
	newService(t, Options{}).Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, metricsPath, nil))
	valid := w.Body.Bytes()
	NewWithT(t).Expect(len(valid)).To(BeNumerically("<", maxMetrics/10))
	answers := map[string]http.HandlerFunc{
		"late": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"error": func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, string(valid), http.StatusInternalServerError)
		},
		"object":  func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) },
		"nulls":   func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("[null,{}]")) },
		"nothing": func(http.ResponseWriter, *http.Request) {},
		"large": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(append(bytes.Repeat([]byte(" "), maxMetrics), valid...))
		},
	}
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(scrape(t, clientOf(t, answer))).NotTo(ContainSubstring("capbm_image"))
		})
	}
	t.Run("no socket", func(t *testing.T) {
		NewWithT(t).Expect(scrape(t, NewClient(t.TempDir(), filepath.Join(t.TempDir(), "none")))).NotTo(ContainSubstring("capbm_image"))
	})
	t.Run("hostile", func(t *testing.T) {
		g := NewWithT(t)
		shown := scrape(t, clientOf(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`[
{"name": "capbm_image_preparations_total", "type": 0, "metric": [null, {"label": [null]},
	{"label": [{"name": "result", "value": "Ready"}], "counter": {"value": -1}}, {"label": [{"name": "result", "value": "Other"}], "counter": {"value": 1}},
	{"label": [{"name": "namespace", "value": "dc"}], "counter": {"value": 1}}, {"label": [{"name": "result", "value": "NoSpace"}], "counter": {"value": 1}},
	{"label": [{"name": "result", "value": "NoSpace"}], "counter": {"value": 1}}, {"label": [{"name": "result", "value": "ImageTooLarge"}], "gauge": {"value": 1}}]},
{"name": "capbm_image_cache_bytes", "type": 0, "metric": [null]},
{"name": "capbm_image_cache_limit_bytes", "metric": [{"gauge": {"value": 9}}]},
{"name": "capbm_image_preparation_duration_seconds", "type": 4, "metric": [{"histogram": {"sample_count": 4, "bucket": [null,
	{"upper_bound": 7, "cumulative_count": 4}, {"upper_bound": 60, "cumulative_count": 4}]}}]},
{"name": "capbm_hosts", "type": 1, "metric": [{"label": [{"name": "phase", "value": "Available"}], "gauge": {"value": 7}}]}]
`))
		})))
		g.Expect(shown).To(And(ContainSubstring(`{result="NoSpace"} 2`), ContainSubstring(`{result="Ready"} 0`), ContainSubstring("capbm_image_cache_limit_bytes 9")))
		g.Expect(shown).NotTo(Or(ContainSubstring("Other"), ContainSubstring("namespace"), ContainSubstring("phase"), ContainSubstring(`le="7"`)))
	})
}
