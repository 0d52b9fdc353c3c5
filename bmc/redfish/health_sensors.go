package redfish

import (
	"cmp"
	"context"
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// classOfReading are the classes of sensors, by their ReadingType (DSP0268, Sensor) or the kind that sensorsIn gives them. Other sensors are not judged.
var classOfReading = map[string]bmc.PartClass{
	"Temperature": bmc.PartTemperature, "Fan": bmc.PartFan, "Rotational": bmc.PartFan, "Voltage": bmc.PartVoltage, "Current": bmc.PartVoltage,
}

// addSensors adds the fans, and the sensors whose reading crossed a threshold: those of Thermal and Power of each chassis or, without these, of its subsystems.
func (p *parts) addSensors(ctx context.Context) bool {
	complete := p.readsAllChassis(ctx)
	for _, box := range p.ownership.readOwnChassis(ctx) {
		found := false
		for _, name := range []string{"Thermal", "Power"} {
			path := box.link(name)
			if path == "" {
				continue
			}
			source := p.service.readOptional(ctx, path)
			found, complete = true, complete && source != nil
			p.addReadings(source)
		}
		if !found {
			complete = p.addSubsystem(ctx, box) && complete
		}
	}
	return complete
}

// addReadings adds what a Thermal or a Power resource has.
func (p *parts) addReadings(source resource) {
	for _, list := range []struct{ name, kind, reading string }{
		{"Temperatures", "Temperature", "ReadingCelsius"}, {"Fans", "Fan", "Reading"}, {"Voltages", "Voltage", "ReadingVolts"},
	} {
		for _, r := range source.list(list.name) {
			p.addSensor(r, list.kind, list.reading)
		}
	}
}

// addSubsystem adds the fans and the sensors of a chassis without Thermal and Power. Of many sensors it reads those of temperatures and fans.
func (p *parts) addSubsystem(ctx context.Context, box resource) bool {
	if p.service.requests > maxHealthRequests {
		return false
	}
	thermal := p.service.readOptional(ctx, box.link("ThermalSubsystem"))
	fans := p.service.list(ctx, thermal.link("Fans"))
	for _, fan := range fans.members {
		p.addSensor(fan, "Fan", "SpeedPercent")
	}
	complete := (thermal != nil || box.link("ThermalSubsystem") == "") && (fans.source == "" || fans.isRead())
	path := box.link("Sensors")
	if path == "" {
		return complete
	}
	paths, _, err := p.service.collection(ctx, path)
	if err != nil {
		return false
	}
	if len(paths) > maxHealthSensors {
		var some []string
		for _, one := range paths {
			if name := strings.ToLower(one); strings.Contains(name, "temp") || strings.Contains(name, "fan") {
				some = append(some, one)
			}
		}
		paths, p.voltagesOmitted = some[:min(len(some), maxHealthSensors)], true
	}
	sensors := p.service.readAll(ctx, paths)
	for _, r := range sensors {
		p.addSensor(r, r.text("ReadingType"), "Reading")
	}
	return complete && len(sensors) == len(unique(paths))
}

// addSensor adds a sensor or a fan that is not healthy. Without a health of its own its thresholds decide, while the server is on: fans stand while it is off.
func (p *parts) addSensor(r resource, kind, reading string) {
	class, ok := classOfReading[kind]
	if !ok || isAbsent(r) || strings.EqualFold(r.text("Status", "State"), "Disabled") {
		return
	}
	health := healthOf(r)
	if health == "" && p.system.text("PowerState") == "On" {
		health = thresholdHealth(r, reading)
	}
	p.reading.Add(bmc.Part{
		Class: class, Name: cmp.Or(r.text("Name"), r.text("FanName"), r.id(), r.text("MemberId")), Model: dropPlaceholder(r.text("Model")),
		SerialNumber: serialNumber(r.text("SerialNumber")), Health: health,
	})
}

// thresholds are the names of thresholds in both schemas: that of Thermal and Power, and that of Sensor.
var thresholds = []struct {
	old, sensor string
	health      bmc.Health
	upper       bool
}{
	{"UpperThresholdFatal", "UpperFatal", bmc.HealthCritical, true},
	{"UpperThresholdCritical", "UpperCritical", bmc.HealthCritical, true},
	{"LowerThresholdFatal", "LowerFatal", bmc.HealthCritical, false},
	{"LowerThresholdCritical", "LowerCritical", bmc.HealthCritical, false},
	{"UpperThresholdNonCritical", "UpperCaution", bmc.HealthWarning, true},
	{"LowerThresholdNonCritical", "LowerCaution", bmc.HealthWarning, false},
}

// thresholdHealth returns the health by the thresholds that a reading crossed; empty without a reading or a threshold. BMCs write 0 for a threshold that is not set.
func thresholdHealth(r resource, reading string) bmc.Health {
	value, ok := r.number(reading)
	if !ok {
		return ""
	}
	health := bmc.Health("")
	for _, t := range thresholds {
		limit, ok := r.number(t.old)
		if !ok {
			limit, ok = r.number("Thresholds", t.sensor, "Reading")
		}
		if !ok || limit <= 0 {
			continue
		}
		health = bmc.Worst(health, bmc.HealthOK)
		if t.upper && value >= limit || !t.upper && value <= limit {
			health = bmc.Worst(health, t.health)
		}
	}
	return health
}
