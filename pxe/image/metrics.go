package image

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// resultReady is the result of a preparation that succeeded. The results of others are their Reasons.
const resultReady = "Ready"

var (
	preparations        = newPreparations()
	preparationDuration = promauto.With(metrics.Registry).NewHistogram(prometheus.HistogramOpts{
		Name: "capbm_image_preparation_duration_seconds", Help: "Time to download, check and convert an image that became ready.",
		Buckets: []float64{1, 5, 15, 30, 60, 120, 300, 600, 1800, 3600},
	})
	cacheBytes = promauto.With(metrics.Registry).NewGauge(prometheus.GaugeOpts{
		Name: "capbm_image_cache_bytes", Help: "Bytes of the prepared images, and of those in preparation.",
	})
	cacheLimit = promauto.With(metrics.Registry).NewGauge(prometheus.GaugeOpts{
		Name: "capbm_image_cache_limit_bytes", Help: "Bytes that these may have (images.maxSize).",
	})
)

// newPreparations returns the counter with all its results, so that the first of each is an increase.
func newPreparations() *prometheus.CounterVec {
	c := promauto.With(metrics.Registry).NewCounterVec(prometheus.CounterOpts{
		Name: "capbm_image_preparations_total", Help: "Preparations of images that ended, by result: Ready, or why the image cannot be used.",
	}, []string{"result"})
	c.WithLabelValues(resultReady)
	for _, reason := range []Reason{
		ImageUnreachable, ImageUnauthorized, ImageNotFound, ChecksumDiffers, ImageFormatInvalid, ImageTooLarge, NoSpace, Interrupted,
	} {
		c.WithLabelValues(string(reason))
	}
	return c
}

// countPreparation counts a preparation that ended. failure is nil if the image is ready.
func countPreparation(failure *Error, took time.Duration) {
	if failure != nil {
		preparations.WithLabelValues(string(failure.Reason)).Inc()
		return
	}
	preparations.WithLabelValues(resultReady).Inc()
	preparationDuration.Observe(took.Seconds())
}

// exportSize exports how full the space is.
func (s *Service) exportSize() {
	complete, partial := s.space.Bytes()
	cacheBytes.Set(float64(complete + partial))
	cacheLimit.Set(float64(s.opts.MaxBytes))
}
