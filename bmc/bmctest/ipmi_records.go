package bmctest

import (
	"context"
	"encoding/binary"
	"sync"

	"github.com/bougou/go-ipmi/pkg/hal"
	"github.com/bougou/go-ipmi/pkg/types"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// ipmiStorage contains the records of an IPMI BMC. It is read-only.
type ipmiStorage struct{ state *ipmiState }

// FRU contains FRU 0.
func (s ipmiStorage) FRU() hal.FRUStore { return fruStore(s) }

// SDR contains the sensor repository.
func (s ipmiStorage) SDR() hal.SDRStore { return sdrStore(s) }

type fruStore struct{ state *ipmiState }

func (f fruStore) Read(_ context.Context, device uint8) ([]byte, error) {
	m := f.state.machine
	if device != 0 || m.faults.on(PartsAre501) {
		return nil, hal.ErrNotFound
	}
	return types.PackFRUInventory(&types.FRU{
		ChassisInfoArea: &types.FRUChassisInfoArea{ChassisType: 0x17, SerialNumber: []byte("CH-" + m.opts.Name)},
		BoardInfoArea:   &types.FRUBoardInfoArea{Manufacturer: []byte("Emulated"), ProductName: []byte("board"), SerialNumber: []byte("B-" + m.opts.Name)},
		ProductInfoArea: &types.FRUProductInfoArea{Manufacturer: []byte("Emulated"), Name: []byte("bmctest"), SerialNumber: []byte(SerialNumber(m.opts.Name))},
	})
}

func (fruStore) Write(context.Context, uint8, []byte) error { return hal.ErrNotSupported }

func (fruStore) Delete(context.Context, uint8) error { return hal.ErrNotSupported }

func (fruStore) DeviceIDs(context.Context) ([]uint8, error) { return []uint8{0}, nil }

type sdrStore struct{ state *ipmiState }

func (s sdrStore) Read(_ context.Context, id uint16) ([]byte, error) {
	if id < 1 || int(id) > len(sdrRecords()) {
		return nil, hal.ErrNotFound
	}
	return sdrRecords()[id-1], nil
}

func (sdrStore) Write(context.Context, uint16, []byte) error { return hal.ErrNotSupported }

func (sdrStore) Delete(context.Context, uint16) error { return hal.ErrNotSupported }

func (s sdrStore) RecordIDs(context.Context) ([]uint16, error) {
	if s.state.machine.faults.on(PartsAre501) {
		return nil, nil
	}
	ids := make([]uint16, len(sdrRecords()))
	for i := range ids {
		ids[i] = uint16(i + 1)
	}
	return ids, nil
}

// ipmiSensor is a sensor with its readings while the server is on and off.
type ipmiSensor struct {
	name    string
	kind    types.SensorType
	unit    types.SensorUnitType
	factor  int16
	on, off uint8 // raw
	needsOn bool
}

// ipmiSensors are the sensors, by number from 1 on.
var ipmiSensors = []ipmiSensor{
	{name: "Inlet Temp", kind: types.SensorTypeTemperature, unit: types.SensorUnitType_DegreesC, factor: 1, on: 21, off: 20},
	{name: "Fan 1", kind: types.SensorTypeFan, unit: types.SensorUnitType_RPM, factor: 100, on: 52, needsOn: true},
	{name: "System Power", kind: types.SensorTypeCurrent, unit: types.SensorUnitType_Watts, factor: 2, on: 120, off: 5},
}

// sdrRecords are the records of the sensors, the same for every BMC.
var sdrRecords = sync.OnceValue(func() [][]byte {
	var records [][]byte
	for i, s := range ipmiSensors {
		full := &types.SDRFull{
			GeneratorID: types.GeneratorBMC, SensorNumber: types.SensorNumber(i + 1), SensorType: s.kind,
			SensorEventReadingType: types.EventReadingTypeThreshold,
			SensorUnit:             types.SensorUnit{BaseUnit: s.unit},
			ReadingFactors:         types.ReadingFactors{M: s.factor},
			IDStringTypeLength:     types.TypeLength(0xc0 | len(s.name)), IDStringBytes: []byte(s.name),
		}
		records = append(records, full.Pack(uint16(i+1)))
	}
	return records
})

func (s *ipmiState) sensorReading(request []byte) ([]byte, types.CompletionCode) {
	if len(request) < 1 || request[0] < 1 || int(request[0]) > len(ipmiSensors) {
		return nil, types.CodeRequestedDataNotPresent
	}
	sensor, on := ipmiSensors[request[0]-1], s.machine.On()
	const scanning, unavailable = 0x40, 0x20
	switch {
	case on:
		return []byte{sensor.on, scanning, 0xc0}, types.CodeOK
	case sensor.needsOn:
		return []byte{0, scanning | unavailable, 0xc0}, types.CodeOK
	default:
		return []byte{sensor.off, scanning, 0xc0}, types.CodeOK
	}
}

func (s *ipmiState) logInfo([]byte) ([]byte, types.CompletionCode) {
	if s.machine.faults.on(PartsAre501) {
		return nil, types.CodeInvalidCommand
	}
	answer := make([]byte, 14)
	answer[0] = types.SDRCommandSetVersion
	binary.LittleEndian.PutUint16(answer[1:], uint16(len(s.machine.logEntries()))) //nolint:gosec // at most 100
	binary.LittleEndian.PutUint16(answer[3:], 0x4000)                              // free bytes
	return answer, types.CodeOK
}

// logEntry handles Get SEL Entry (IPMI 2.0, 31.5). The record IDs count from 1.
func (s *ipmiState) logEntry(request []byte) ([]byte, types.CompletionCode) {
	if len(request) < 6 {
		return nil, types.CodeRequestDataTruncated
	}
	const first, last = 0x0000, 0xffff
	events := s.machine.logEntries()
	id := int(binary.LittleEndian.Uint16(request[2:]))
	switch id {
	case first:
		id = 1
	case last:
		id = len(events)
	}
	if id < 1 || id > len(events) || s.machine.faults.on(PartsAre501) {
		return nil, types.CodeRequestedDataNotPresent
	}
	next := uint16(last)
	if id < len(events) {
		next = uint16(id + 1)
	}
	return append(binary.LittleEndian.AppendUint16(nil, next), recordOf(uint16(id), events[len(events)-id])...), types.CodeOK
}

// recordOf converts an entry of the machine's log to an event record.
func recordOf(id uint16, e bmc.LogEntry) []byte {
	standard := &types.SELStandard{Timestamp: e.Time, GeneratorID: types.GeneratorBMC, EvMRev: 0x04, EventReadingType: types.EventReadingTypeSensorSpecific}
	switch e.Message {
	case "Power on":
		standard.SensorType = types.SensorTypeSystemACPIPowerState // offset 0: S0
	case "Power off":
		standard.SensorType, standard.EventData.EventData1 = types.SensorTypeSystemACPIPowerState, 6 // S4/S5
	case "NMI":
		standard.SensorType = types.SensorTypeCriticalInterrupt // offset 0: front panel NMI
	default:
		standard.SensorType = types.SensorTypeSystemEvent
	}
	entry := &types.SEL{RecordID: id, RecordType: 0x02, Standard: standard}
	return entry.Pack()
}
