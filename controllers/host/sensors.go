package host

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/metrics"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// maxSensorName is the maximum length of the name of a sensor in a metric, and maxSensors the maximum number of sensors of a host.
const (
	maxSensorName = 64
	maxSensors    = 64
)

// sensorsInterval is the age from which the sensors that metrics show are read again.
const sensorsInterval = 5 * time.Minute

// inletWords are parts of the names of the sensor at the air inlet.
var inletWords = []string{"inlet", "intake", "ambient"}

// readSensors reads the sensors of the kinds that a flag names. Without a kind it reads none.
func (e *jobExecutor) readSensors(ctx context.Context, j job, c bmc.Client, now time.Time) error {
	if len(e.sensorKinds) == 0 || now.Sub(e.observations.get(j.key).sensorsAt) < sensorsInterval {
		return nil
	}
	monitor, err := bmc.As[bmc.Monitor](c, "Read the sensors")
	if err != nil {
		return nil //nolint:nilerr // the protocol has no sensors
	}
	read, err := monitor.Sensors(ctx)
	sensors := e.chosenSensors(read)
	e.observations.updateByJob(j, func(h *hostObservation) { h.sensors, h.sensorsAt = sensors, now })
	return onlyRefused(ctx, err)
}

// chosenSensors returns the sensors of the kinds that a flag names, each name once.
func (e *jobExecutor) chosenSensors(read []bmc.Sensor) []metrics.Sensor {
	var sensors []metrics.Sensor
	for _, s := range read {
		kind := s.Kind
		if kind == metrics.KindTemperature && isInlet(s.Name) && slices.Contains(e.sensorKinds, metrics.KindInlet) {
			kind = metrics.KindInlet
		}
		one := metrics.Sensor{Kind: kind, Name: controllers.Clip(s.Name, maxSensorName), Unit: controllers.Clip(s.Unit, maxSensorName), Value: s.Value}
		same := func(other metrics.Sensor) bool {
			return other.Kind == one.Kind && other.Name == one.Name && other.Unit == one.Unit
		}
		if slices.Contains(e.sensorKinds, kind) && len(sensors) < maxSensors && !slices.ContainsFunc(sensors, same) {
			sensors = append(sensors, one)
		}
	}
	return sensors
}

func isInlet(name string) bool {
	lower := strings.ToLower(name)
	return slices.ContainsFunc(inletWords, func(word string) bool { return strings.Contains(lower, word) })
}

// EachSensor calls do with the sensors of each host that the flag asks for, unless they are too old.
func (r *Reconciler) EachSensor(do func(namespace, host string, sensor metrics.Sensor)) {
	interval := lifecycle.HealthInterval(lifecycle.View{Provider: lifecycle.Provider{Hosts: r.observations.count()}}, r.Settings)
	r.observations.eachSensor(r.Clock.Now(), max(3*sensorsInterval, 2*interval), do)
}

// eachSensor calls do with the sensors that are not older than maxAge.
func (o *observations) eachSensor(now time.Time, maxAge time.Duration, do func(namespace, host string, sensor metrics.Sensor)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for key, h := range o.hosts {
		if now.Sub(h.sensorsAt) > maxAge {
			continue
		}
		for _, s := range h.sensors {
			do(key.Namespace, key.Name, s)
		}
	}
}
