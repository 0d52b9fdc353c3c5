package bmctest

import (
	"maps"
	"slices"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// The parts of an emulated server whose health SetHealth sets.
const (
	PartDisk        = "Disk 1"
	PartPowerSupply = "PSU 1"
	PartFan         = "Fan 1"
	PartInlet       = "Inlet"
)

var classOfPart = map[string]bmc.PartClass{
	PartDisk: bmc.PartDisk, PartPowerSupply: bmc.PartPowerSupply, PartFan: bmc.PartFan, PartInlet: bmc.PartTemperature,
}

// sensors are the parts of an emulated server that report their health, and the event log.
type sensors struct {
	*core

	health map[string]bmc.Health // of the parts that are not OK, by name
}

// SetHealth sets the health of a part, and writes it to the event log. The BMC's summary follows.
func (s *sensors) SetHealth(part string, health bmc.Health) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.health == nil {
		s.health = map[string]bmc.Health{}
	}
	s.health[part] = health
	s.log(health, part+" is "+string(health))
}

// Log adds an entry to the event log.
func (s *sensors) Log(severity bmc.Health, message string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log(severity, message)
}

// ClearLog empties the event log. Its IDs start again.
func (s *sensors) ClearLog() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = nil
}

// statusOf is the Status of a part.
func (s *sensors) statusOf(part string) object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return object{"State": "Enabled", "Health": string(bmc.Worst(bmc.HealthOK, s.health[part]))}
}

// isUnhealthy is true for a part that is critical.
func (s *sensors) isUnhealthy(part string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.health[part] == bmc.HealthCritical
}

// worstHealth is the worst health of the parts. s.mu is held.
func (s *sensors) worstHealth() bmc.Health {
	worst := bmc.HealthOK
	for _, health := range s.health {
		worst = bmc.Worst(worst, health)
	}
	return worst
}

// reading is a reading of the health without a protocol.
func (s *sensors) reading(request bmc.HealthRequest) bmc.HealthReading {
	s.mu.Lock()
	defer s.mu.Unlock()
	reading := bmc.HealthReading{Rollup: s.worstHealth()}
	if !request.WantsDetails(reading.Rollup) {
		return reading
	}
	for _, part := range slices.Sorted(maps.Keys(classOfPart)) {
		reading.Read = append(reading.Read, classOfPart[part])
		reading.Add(bmc.Part{Class: classOfPart[part], Name: part, Health: s.health[part]})
	}
	return reading
}

// readLog is the event log without a protocol.
func (s *sensors) readLog() bmc.Log {
	entries := s.logEntries()
	return bmc.Log{LogSource: bmc.LogSource{Name: "SEL"}, Count: len(entries), Entries: bmc.NewestFirst(entries)}
}
