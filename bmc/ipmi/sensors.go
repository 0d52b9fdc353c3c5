package ipmi

import (
	"context"
	"math"
	"strings"

	"github.com/bougou/go-ipmi/pkg/command/sensor"
	"github.com/bougou/go-ipmi/pkg/command/storage"
	"github.com/bougou/go-ipmi/pkg/types"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// maxRecords limits the records that are read from the sensor repository. The largest servers have some hundred records.
const maxRecords = 1024

// lastRecord marks the end of the repository as the ID of a next record, and requests the newest entry of the event log as the ID of a record.
const lastRecord = 0xffff

// Sensors reads each sensor of the sensor repository (IPMI 2.0, 33) that has a numeric reading and belongs to the BMC itself. It omits
// sensors without a current reading, such as a fan while the server is off.
func (c *conn) Sensors(ctx context.Context) ([]bmc.Sensor, error) {
	const op = "Read the sensors"
	reservation, err := c.reserve(ctx, op)
	if err != nil {
		return nil, err
	}
	var sensors []bmc.Sensor
	seen := map[uint16]bool{}
	for id := uint16(0); id != lastRecord && len(seen) < maxRecords && !seen[id]; {
		seen[id] = true
		next, record, err := c.readReserved(ctx, &reservation, id)
		if err != nil {
			if id == 0 && isRefusal(err) {
				return nil, &bmc.Error{Kind: bmc.Unsupported, Op: op, Err: err}
			}
			if err := ignoreOptional(err); err != nil {
				return nil, err
			}
			break // the rest cannot be read
		}
		id = next
		s, ok, err := c.readSensor(ctx, record)
		if err != nil {
			return nil, err
		}
		if ok {
			sensors = append(sensors, s)
		}
	}
	return sensors, nil
}

// reserve reserves the sensor repository (IPMI 2.0, 33.11). A BMC without reservations accepts 0.
func (c *conn) reserve(ctx context.Context, op string) (uint16, error) {
	reservation := &storage.ReserveSDRRepoResponse{}
	if err := c.do(ctx, op, &storage.ReserveSDRRepoRequest{}, reservation); err != nil && !isRefusal(err) {
		return 0, err
	}
	return reservation.ReservationID, nil
}

// readReserved is readSDR, with a new reservation if another client has canceled this one.
func (c *conn) readReserved(ctx context.Context, reservation *uint16, id uint16) (next uint16, record []byte, err error) {
	next, record, err = c.readSDR(ctx, *reservation, id)
	if code, _ := codeOf(err); code != types.CodeReservationCanceled {
		return next, record, err
	}
	if *reservation, err = c.reserve(ctx, "Reserve the sensor repository"); err != nil {
		return 0, nil, err
	}
	return c.readSDR(ctx, *reservation, id)
}

// sdrPiece is the number of bytes that are read at once of a record that the BMC does not return as a whole.
const sdrPiece = 16

// readSDR reads a record (IPMI 2.0, 33.12): as a whole or, if the BMC's messages are too short, in pieces.
func (c *conn) readSDR(ctx context.Context, reservation, id uint16) (next uint16, record []byte, err error) {
	const op = "Read the sensor repository"
	read := func(offset, count int) (*storage.GetSDRResponse, error) {
		answer := &storage.GetSDRResponse{}
		return answer, c.do(ctx, op, &storage.GetSDRRequest{
			ReservationID: reservation, RecordID: id, ReadOffset: uint8(offset), ReadBytes: uint8(count), //nolint:gosec // below 256, see the loop
		}, answer)
	}
	answer, err := read(0, 0xff)
	if code, ok := codeOf(err); !ok || !storage.ReadFRUDataLength2Big(code) {
		return answer.NextRecordID, answer.RecordData, err
	}
	answer, err = read(0, types.SDRRecordHeaderSize)
	if err != nil || len(answer.RecordData) < types.SDRRecordHeaderSize {
		return answer.NextRecordID, nil, err
	}
	next, record = answer.NextRecordID, answer.RecordData[:types.SDRRecordHeaderSize]
	if types.SDRRecordType(record[3]) != types.SDRRecordTypeFullSensor {
		return next, record, nil // only full records describe numbers
	}
	for end := min(types.SDRRecordHeaderSize+int(record[4]), 0xff); len(record) < end; {
		count := min(sdrPiece, end-len(record))
		answer, err := read(len(record), count)
		if err != nil || len(answer.RecordData) < count {
			return next, nil, err
		}
		record = append(record, answer.RecordData[:count]...)
	}
	return next, record, nil
}

// readSensor reads the sensor that a record describes. ok is false for a sensor without a numeric reading.
func (c *conn) readSensor(ctx context.Context, record []byte) (s bmc.Sensor, ok bool, err error) {
	full := fullRecord(record)
	if full == nil {
		return s, false, nil
	}
	reading := &sensor.GetSensorReadingResponse{}
	q := ipmiRequest{lun: uint8(full.GeneratorID >> 8 & 0x03)}
	if err := c.doWith(ctx, "Read a sensor", q, &sensor.GetSensorReadingRequest{SensorNumber: uint8(full.SensorNumber)}, reading); err != nil {
		return s, false, ignoreOptional(err)
	}
	if reading.ReadingUnavailable || reading.SensorScanningDisabled {
		return s, false, nil
	}
	value := math.NaN()
	if err := decode("Read a sensor", func() error { value = full.ConvertReading(reading.Reading); return nil }); err != nil {
		return s, false, nil //nolint:nilerr // its record is invalid
	}
	s = bmc.Sensor{Name: text(full.IDStringTypeLength, full.IDStringBytes), Value: math.Round(value*1000) / 1000, Health: healthOf(full, reading)}
	s.Kind, s.Unit = kindAndUnit(full)
	return s, !math.IsNaN(s.Value) && !math.IsInf(s.Value, 0), nil
}

// fullRecord decodes the record of a sensor of the BMC that has a numeric reading. It returns nil for other records, and for sensors with
// non-linear readings, which have a table for each reading (70h and more, IPMI 2.0, 36.2).
func fullRecord(record []byte) *types.SDRFull {
	var sdr *types.SDR
	err := decode("Read the sensor repository", func() (err error) {
		sdr, err = types.ParseSDR(record, 0)
		return err
	})
	if err != nil || sdr.Full == nil {
		return nil
	}
	full := sdr.Full
	if uint8(full.GeneratorID) != types.BMC_SA || !full.HasAnalogReading() || full.LinearizationFunc.IsNonLinear() || !full.SensorUnit.IsAnalog() { //nolint:gosec // the low byte is meant
		return nil
	}
	return full
}

// healthOf returns the health by the thresholds that the reading exceeds. It is empty for sensors without thresholds.
func healthOf(full *types.SDRFull, r *sensor.GetSensorReadingResponse) bmc.Health {
	switch {
	case !full.SensorEventReadingType.IsThreshold():
		return ""
	case r.Above_UNR, r.Above_UCR, r.Below_LNR, r.Below_LCR:
		return bmc.HealthCritical
	case r.Above_UNC, r.Below_LNC:
		return bmc.HealthWarning
	default:
		return bmc.HealthOK
	}
}

// units have the names that Redfish uses (UCUM).
var units = map[types.SensorUnitType]string{
	types.SensorUnitType_DegreesC: "Cel", types.SensorUnitType_DegreesF: "[degF]", types.SensorUnitType_DegreesK: "K",
	types.SensorUnitType_Volts: "V", types.SensorUnitType_Amps: "A", types.SensorUnitType_Watts: "W", types.SensorUnitType_Joules: "J",
	types.SensorUnitType_RPM: "RPM", types.SensorUnitType_CFM: "[ft_i]3/min", types.SensorUnitType_Hz: "Hz",
}

func kindAndUnit(full *types.SDRFull) (kind, unit string) {
	kind = strings.ReplaceAll(full.SensorType.String(), " ", "")
	unit, known := units[full.SensorUnit.BaseUnit]
	switch {
	case full.SensorUnit.Percentage:
		unit = "%"
	case full.SensorUnit.BaseUnit == types.SensorUnitType_Watts:
		kind = "Power"
	case !known && full.SensorUnit.BaseUnit != types.SensorUnitType_Unspecified:
		unit = full.SensorUnit.BaseUnit.String()
	}
	return kind, unit
}
