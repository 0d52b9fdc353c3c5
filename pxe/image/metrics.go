package image

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// The image service has no access to the API server, so it cannot check who reads its metrics. A Client shows them in the process of the boot server, which can.
var (
	_ prometheus.Collector = (*Service)(nil)
	_ prometheus.Collector = (*Client)(nil)
)

const (
	preparationsName        = "capbm_image_preparations_total"
	preparationDurationName = "capbm_image_preparation_duration_seconds"
	cacheBytesName          = "capbm_image_cache_bytes"
	cacheLimitName          = "capbm_image_cache_limit_bytes"

	// resultReady is the result of a preparation that succeeded. The results of others are their Reasons.
	resultReady = "Ready"
	// metricsTimeout bounds how long a Client delays a scrape of the boot server.
	metricsTimeout = time.Second
	// maxMetrics bounds the answer that a Client reads, in bytes. The metrics have about 2000.
	maxMetrics = 64 << 10
)

var (
	results = []string{
		resultReady, string(ImageUnreachable), string(ImageUnauthorized), string(ImageNotFound), string(ChecksumDiffers), string(ImageFormatInvalid),
		string(ImageTooLarge), string(NoSpace), string(Interrupted),
	}
	durationBuckets = []float64{1, 5, 15, 30, 60, 120, 300, 600, 1800, 3600}
)

// serviceMetrics are the metrics of a Service.
type serviceMetrics struct {
	preparations           *prometheus.CounterVec
	preparationDuration    prometheus.Histogram
	cacheBytes, cacheLimit prometheus.Gauge
}

// newServiceMetrics returns the metrics with all results, so that the first of each is an increase.
func newServiceMetrics() *serviceMetrics {
	m := &serviceMetrics{
		preparations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: preparationsName, Help: "Preparations of images that ended, by result: Ready, or why the image cannot be used.",
		}, []string{"result"}),
		preparationDuration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: preparationDurationName, Help: "Time to download, check and convert an image that became ready.", Buckets: durationBuckets,
		}),
		cacheBytes: prometheus.NewGauge(prometheus.GaugeOpts{Name: cacheBytesName, Help: "Bytes of the prepared images, and of those in preparation."}),
		cacheLimit: prometheus.NewGauge(prometheus.GaugeOpts{Name: cacheLimitName, Help: "Bytes that these may have (images.maxSize)."}),
	}
	for _, result := range results {
		m.preparations.WithLabelValues(result)
	}
	return m
}

// countPreparation counts a preparation that ended. failure is nil if the image is ready.
func (m *serviceMetrics) countPreparation(failure *Error, took time.Duration) {
	if failure != nil {
		m.preparations.WithLabelValues(string(failure.Reason)).Inc()
		return
	}
	m.preparations.WithLabelValues(resultReady).Inc()
	m.preparationDuration.Observe(took.Seconds())
}

// Describe implements prometheus.Collector.
func (m *serviceMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, c := range []prometheus.Collector{m.preparations, m.preparationDuration, m.cacheBytes, m.cacheLimit} {
		c.Describe(to)
	}
}

// Collect implements prometheus.Collector.
func (m *serviceMetrics) Collect(to chan<- prometheus.Metric) {
	for _, c := range []prometheus.Collector{m.preparations, m.preparationDuration, m.cacheBytes, m.cacheLimit} {
		c.Collect(to)
	}
}

// exportSize exports how full the space is.
func (s *Service) exportSize() {
	complete, partial := s.space.Bytes()
	s.metrics.cacheBytes.Set(float64(complete + partial))
	s.metrics.cacheLimit.Set(float64(s.opts.MaxBytes))
}

// Describe implements prometheus.Collector.
func (s *Service) Describe(to chan<- *prometheus.Desc) { s.metrics.Describe(to) }

// Collect implements prometheus.Collector.
func (s *Service) Collect(to chan<- prometheus.Metric) { s.metrics.Collect(to) }

// metricsHandler serves the metrics as the JSON of Prometheus' metric families. The decoders of its own formats (prometheus/common v0.67.5) are unsafe for answers
// of a process that tenants may have taken over: the text decoder dereferences nil for "{}", and the protobuf decoder allocates as much as the answer says.
func (s *Service) metricsHandler() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(s)
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		families, err := registry.Gather()
		answer(w, http.StatusOK, families, err)
	})
}

// Describe implements prometheus.Collector.
func (*Client) Describe(to chan<- *prometheus.Desc) { newServiceMetrics().Describe(to) }

// Collect implements prometheus.Collector with the metrics of the Service. It collects none while the service does not answer: an error would fail the scrape of
// all metrics of the boot server. For the same reason it takes only what a Service has from an answer, because the service parses files that tenants choose.
func (c *Client) Collect(to chan<- prometheus.Metric) {
	families, err := c.readMetrics(context.Background())
	if err != nil {
		return // the probes of the image service show it
	}
	m := newServiceMetrics()
	for _, counted := range families[preparationsName].GetMetric() {
		labels, value := counted.GetLabel(), counted.GetCounter().GetValue()
		if len(labels) == 1 && slices.Contains(results, labels[0].GetValue()) && value > 0 {
			m.preparations.WithLabelValues(labels[0].GetValue()).Add(value)
		}
	}
	m.cacheBytes.Set(families[cacheBytesName].GetMetric()[0].GetGauge().GetValue())
	m.cacheLimit.Set(families[cacheLimitName].GetMetric()[0].GetGauge().GetValue())
	for _, one := range []prometheus.Collector{m.preparations, m.cacheBytes, m.cacheLimit} {
		one.Collect(to)
	}
	h, buckets := families[preparationDurationName].GetMetric()[0].GetHistogram(), map[float64]uint64{}
	for _, b := range h.GetBucket() {
		if slices.Contains(durationBuckets, b.GetUpperBound()) {
			buckets[b.GetUpperBound()] = b.GetCumulativeCount()
		}
	}
	to <- prometheus.MustNewConstHistogram(m.preparationDuration.Desc(), h.GetSampleCount(), h.GetSampleSum(), buckets)
}

// readMetrics reads the metrics of the Service, by their names.
func (c *Client) readMetrics(ctx context.Context) (map[string]*dto.MetricFamily, error) {
	ctx, cancel := context.WithTimeout(ctx, metricsTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://images"+metricsPath, http.NoBody)
	if err != nil {
		return nil, err
	}
	var answer []*dto.MetricFamily
	if err := c.send(request, maxMetrics, &answer); err != nil {
		return nil, err
	}
	families := map[string]*dto.MetricFamily{}
	for _, f := range answer {
		families[f.GetName()] = f
	}
	for _, name := range []string{preparationsName, preparationDurationName, cacheBytesName, cacheLimitName} {
		if len(families[name].GetMetric()) == 0 {
			return nil, errors.New("the image service did not answer with its metrics")
		}
	}
	return families, nil
}
