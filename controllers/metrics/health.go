package metrics

import (
	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/health"
)

// severities are those of parts and of entries of logs.
var severities = []wire.Health{wire.HealthWarning, wire.HealthCritical}

// partTally counts hosts by the class of their unhealthy parts. The zero value is ready.
type partTally struct {
	hosts map[v1alpha1.PartClass]map[wire.Health]int
	held  int
}

// add counts a host once for each class, with the worst severity of its parts of that class.
func (t *partTally) add(h *v1alpha1.BareMetalHost) {
	if h.Status.Health == nil || len(h.Status.Health.Parts) == 0 {
		return
	}
	if h.Spec.Maintenance != nil {
		t.held++
		return
	}
	worst := map[v1alpha1.PartClass]wire.Health{}
	for _, p := range h.Status.Health.Parts {
		if worst[p.Class] != wire.HealthCritical {
			worst[p.Class] = p.Health
		}
	}
	if t.hosts == nil {
		t.hosts = map[v1alpha1.PartClass]map[wire.Health]int{}
	}
	for class, severity := range worst {
		if t.hosts[class] == nil {
			t.hosts[class] = map[wire.Health]int{}
		}
		t.hosts[class][severity]++
	}
}

// send exports each class and severity from the start, even if its count is 0.
func (t *partTally) send(to chan<- prometheus.Metric) {
	for _, class := range health.Classes() {
		for _, severity := range severities {
			to <- prometheus.MustNewConstMetric(unhealthyDesc, prometheus.GaugeValue, float64(t.hosts[class][severity]), string(class), string(severity))
		}
	}
	to <- prometheus.MustNewConstMetric(heldDesc, prometheus.GaugeValue, float64(t.held))
}

var logEntries = newLogEntries()

func newLogEntries() *prometheus.CounterVec {
	c := promauto.With(metrics.Registry).NewCounterVec(prometheus.CounterOpts{
		Name: "capbm_bmc_log_entries_total", Help: "New warnings and critical entries in the logs of BMCs, by severity.",
	}, []string{"severity"})
	for _, severity := range severities {
		c.WithLabelValues(string(severity))
	}
	return c
}

// BMCLogEntries counts new entries in the logs of a BMC.
func BMCLogEntries(severity wire.Health, n int) {
	if severity == wire.HealthWarning || severity == wire.HealthCritical {
		logEntries.WithLabelValues(string(severity)).Add(float64(n))
	}
}

// The kinds of sensors that a flag selects. KindInlet is a temperature at the air inlet; the others are those of bmc.Sensor.
const (
	KindInlet       = "InletTemperature"
	KindTemperature = "Temperature"
	KindPower       = "Power"
)

// SensorKinds are all kinds of sensors that a flag selects.
var SensorKinds = []string{KindInlet, KindPower, KindTemperature, "Fan", "Voltage", "Current"}

// Sensor is a reading of a sensor.
type Sensor struct {
	Kind, Name, Unit string
	Value            float64
}

var sensorDesc = prometheus.NewDesc("capbm_sensor_reading", "The last reading of a sensor, of the kinds that --sensor-metrics names. The unit is that of UCUM, such as Cel, RPM and W.",
	[]string{"namespace", "host", "kind", "sensor", "unit"}, nil)

// Sensors exports the readings of sensors. Only the leader reads sensors, so only it exports some.
type Sensors struct {
	// Each calls its argument with each sensor.
	Each func(do func(namespace, host string, sensor Sensor))
	Log  logr.Logger
}

var _ prometheus.Collector = &Sensors{}

// Describe implements prometheus.Collector.
func (s *Sensors) Describe(to chan<- *prometheus.Desc) { to <- sensorDesc }

// Collect implements prometheus.Collector. The readings are copied first: a slow scrape must not hold what jobs record.
func (s *Sensors) Collect(to chan<- prometheus.Metric) {
	var all []prometheus.Metric
	s.Each(func(namespace, host string, sensor Sensor) {
		m, err := prometheus.NewConstMetric(sensorDesc, prometheus.GaugeValue, sensor.Value, namespace, host, sensor.Kind, sensor.Name, sensor.Unit)
		if err != nil {
			s.Log.V(4).Info("Failed to export a sensor", "error", err.Error())
			return
		}
		all = append(all, m)
	})
	for _, m := range all {
		to <- m
	}
}
