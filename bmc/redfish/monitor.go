package redfish

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// monitor reads the sensors and the clock of the system and of its BMC.
type monitor struct {
	service *service
	system  *system
}

var _ bmc.Monitor = &monitor{}

// sensorSources returns the paths of the resources with readings: Thermal and Power of each chassis or, in services without these, the
// collection of its Sensors.
func (m *monitor) sensorSources(ctx context.Context) []string {
	var sources []string
	for _, chassis := range m.system.chassis(ctx) {
		before := len(sources)
		for _, name := range []string{"Thermal", "Power"} {
			if path := chassis.link(name); path != "" {
				sources = append(sources, path)
			}
		}
		if path := chassis.link("Sensors"); len(sources) == before && path != "" {
			sources = append(sources, path)
		}
	}
	return sources
}

// Sensors reads the sensors that have a numeric reading.
func (m *monitor) Sensors(ctx context.Context) ([]bmc.Sensor, error) {
	const op = "Read the sensors"
	if err := m.system.refresh(ctx); err != nil {
		return nil, err
	}
	sources := m.sensorSources(ctx)
	if len(sources) == 0 {
		return nil, &bmc.Error{Kind: bmc.Unsupported, Op: op, Err: errors.New("the BMC has no sensors")}
	}
	var sensors []bmc.Sensor
	for _, source := range m.service.readAll(ctx, sources) {
		if source.has("Members") {
			paths := source.links("Members")
			if next := source.link("Members@odata.nextLink"); next != "" {
				more, _, _ := m.service.collection(ctx, next) // after an error, it returns the paths read so far
				paths = append(paths, more...)
			}
			for _, r := range m.service.readAll(ctx, paths[:min(len(paths), maxSensors)]) {
				sensors = appendSensor(sensors, r, kindOfReading(r), r.text("ReadingUnits"), "Reading")
			}
			continue
		}
		sensors = append(sensors, sensorsIn(source)...)
	}
	return sensors, wrap(op, m.service.unavailable(ctx))
}

// maxSensors is how many sensors are read of a chassis that has a resource for each. A BMC takes up to five seconds for a resource.
const maxSensors = 128

// kindOfReading returns the kind of a sensor, by its ReadingType (DSP0268, Sensor). That of a fan in Thermal has no such type.
func kindOfReading(r resource) string {
	if kind := r.text("ReadingType"); kind != "Rotational" {
		return kind
	}
	return "Fan"
}

// sensorsIn returns the readings of a Thermal or a Power resource.
func sensorsIn(source resource) []bmc.Sensor {
	var sensors []bmc.Sensor
	for _, list := range []struct{ name, reading, kind, unit string }{
		{"Temperatures", "ReadingCelsius", "Temperature", "Cel"},
		{"Fans", "Reading", "Fan", "RPM"},
		{"Voltages", "ReadingVolts", "Voltage", "V"},
		{"PowerControl", "PowerConsumedWatts", "Power", "W"},
	} {
		for _, r := range source.list(list.name) {
			unit := list.unit
			if u := r.text("ReadingUnits"); strings.EqualFold(u, "Percent") {
				unit = "%"
			}
			sensors = appendSensor(sensors, r, list.kind, unit, list.reading)
		}
	}
	return sensors
}

func appendSensor(sensors []bmc.Sensor, r resource, kind, unit, reading string) []bmc.Sensor {
	value, ok := r.number(reading)
	if !ok || isAbsent(r) {
		return sensors
	}
	name := cmp.Or(r.text("Name"), r.text("FanName"), r.id())
	return append(sensors, bmc.Sensor{Name: name, Kind: kind, Value: value, Unit: unit, Health: healthOf(r)})
}

// healthOf returns the health of a part.
func healthOf(r resource) bmc.Health {
	switch health := bmc.Health(r.text("Status", "Health")); health {
	case bmc.HealthOK, bmc.HealthWarning, bmc.HealthCritical:
		return health
	default:
		return ""
	}
}

// parseTime reads a date and time (DSP0266, 9.5). Without an offset it is UTC, or has the given one.
func parseTime(text, offset string) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	for _, zone := range []string{offset, "Z"} {
		for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02 15:04:05", time.ANSIC} { // CIMC writes the last one
			if at, err := time.Parse(layout+" Z07:00", text+" "+zone); err == nil {
				return at, nil
			}
		}
	}
	return time.Time{}, fmt.Errorf("%.40q is not a time", text)
}

// clock returns the manager that has the time. It is the manager of the system. If that manager has no time and the service has only this system, it is the only
// other manager with a time. Without such a manager it is nil.
func (m *monitor) clock(ctx context.Context) resource {
	if manager := m.system.readManager(ctx); manager.text("DateTime") != "" {
		return manager
	}
	if systems, err := m.system.systemPaths(ctx); err != nil || len(systems) > 1 {
		return nil
	}
	paths, _, _ := m.service.collection(ctx, m.service.root.managers) // without managers the list is empty
	others := slices.DeleteFunc(m.service.readAll(ctx, paths), func(manager resource) bool { return manager.text("DateTime") == "" })
	if len(others) != 1 {
		return nil
	}
	return others[0]
}

// Clock reads the BMC's clock.
func (m *monitor) Clock(ctx context.Context) (time.Time, error) {
	const op = "Read the clock"
	if err := m.system.refresh(ctx); err != nil {
		return time.Time{}, err
	}
	m.system.manager = nil // the cached time is old
	manager := m.clock(ctx)
	if err := m.service.unavailable(ctx); err != nil {
		return time.Time{}, wrap(op, err)
	}
	if manager == nil {
		return time.Time{}, &bmc.Error{Kind: bmc.Unsupported, Op: op, Err: errors.New("the BMC does not report its time")}
	}
	at, err := parseTime(manager.text("DateTime"), manager.text("DateTimeLocalOffset"))
	return at, bmc.Wrap(op, err)
}
