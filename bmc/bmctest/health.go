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

// SetHealth sets the health of a part, and writes it to the event log. The BMC's summary follows.
func (m *Machine) SetHealth(part string, health bmc.Health) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.health == nil {
		m.health = map[string]bmc.Health{}
	}
	m.health[part] = health
	m.log(health, part+" is "+string(health))
}

// Log adds an entry to the event log.
func (m *Machine) Log(severity bmc.Health, message string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.log(severity, message)
}

// ClearLog empties the event log. Its IDs start again.
func (m *Machine) ClearLog() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.events = nil
}

// statusOf is the Status of a part.
func (m *Machine) statusOf(part string) object {
	m.mu.Lock()
	defer m.mu.Unlock()
	return object{"State": "Enabled", "Health": string(bmc.Worst(bmc.HealthOK, m.health[part]))}
}

// isUnhealthy is true for a part that is critical.
func (m *Machine) isUnhealthy(part string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.health[part] == bmc.HealthCritical
}

// worstHealth is the worst health of the parts. m.mu is held.
func (m *Machine) worstHealth() bmc.Health {
	worst := bmc.HealthOK
	for _, health := range m.health {
		worst = bmc.Worst(worst, health)
	}
	return worst
}

// reading is a reading of the health without a protocol.
func (m *Machine) reading(request bmc.HealthRequest) bmc.HealthReading {
	m.mu.Lock()
	defer m.mu.Unlock()
	reading := bmc.HealthReading{Rollup: m.worstHealth()}
	if !request.WantsDetails(reading.Rollup) {
		return reading
	}
	for _, part := range slices.Sorted(maps.Keys(classOfPart)) {
		reading.Read = append(reading.Read, classOfPart[part])
		reading.Add(bmc.Part{Class: classOfPart[part], Name: part, Health: m.health[part]})
	}
	return reading
}

// readLog is the event log without a protocol.
func (m *Machine) readLog() bmc.Log {
	entries := m.logEntries()
	return bmc.Log{LogSource: bmc.LogSource{Name: "SEL"}, Count: len(entries), Entries: bmc.NewestFirst(entries)}
}
