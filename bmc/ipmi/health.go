package ipmi

import (
	"context"

	"github.com/bougou/go-ipmi/pkg/command/chassis"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

var _ bmc.HealthReader = &conn{}

// selName is the name of the only log that IPMI has.
const selName = "SEL"

// recordSize is the size of an entry of the log in bytes (IPMI 2.0, 32.1).
const recordSize = 16

// classOfSensor are the classes of sensors by the kind that kindAndUnit gives them. Other sensors are not judged.
var classOfSensor = map[string]bmc.PartClass{
	"Temperature": bmc.PartTemperature, "Fan": bmc.PartFan, "Voltage": bmc.PartVoltage, "Current": bmc.PartVoltage, "Power": bmc.PartVoltage,
}

// ReadHealth reads the faults of the chassis status (IPMI 2.0, 28.2): one request. It reads the sensors, which are hundreds of requests, only if details are asked for or the
// faults have changed. A crossed threshold is no fault of the chassis status, and is an entry of the log. If the sensors cannot be read, the faults count all the same: that of the
// cooling is one of the chassis then, because what is known of the fans stays.
func (c *conn) ReadHealth(ctx context.Context, request bmc.HealthRequest) (bmc.HealthReading, error) {
	status := &chassis.GetChassisStatusResponse{}
	if err := c.do(ctx, "Read the health", &chassis.GetChassisStatusRequest{}, status); err != nil {
		return bmc.HealthReading{}, err
	}
	reading := bmc.HealthReading{Rollup: bmc.HealthOK}
	for _, fault := range []struct {
		is    bool
		class bmc.PartClass
		name  string
	}{
		{status.PowerFault || status.PowerOverload, bmc.PartPowerSupply, "main power"},
		{status.CollingFanFault, bmc.PartFan, "cooling"},
		{status.DriveFault, bmc.PartDisk, "a drive"},
	} {
		if fault.is {
			reading.Rollup = bmc.HealthCritical
			reading.Add(bmc.Part{Class: fault.class, Name: fault.name, Health: bmc.HealthCritical})
		}
	}
	if !request.WantsDetails(reading.Rollup) {
		reading.Parts = nil
		return reading, nil
	}
	reading.Read = []bmc.PartClass{bmc.PartPowerSupply, bmc.PartDisk, bmc.PartChassis}
	sensors, err := c.Sensors(ctx)
	for _, s := range sensors {
		if class, ok := classOfSensor[s.Kind]; ok {
			reading.Add(bmc.Part{Class: class, Name: s.Name, Health: s.Health})
		}
	}
	switch {
	case err == nil:
		reading.Read = append(reading.Read, bmc.PartFan, bmc.PartTemperature, bmc.PartVoltage)
	case bmc.KindOf(err) == bmc.Unsupported:
		reading.Read = append(reading.Read, bmc.PartFan) // the chassis status is all that the BMC says of its fans
	default:
		for i := range reading.Parts {
			if reading.Parts[i].Class == bmc.PartFan {
				reading.Parts[i].Class = bmc.PartChassis
			}
		}
	}
	return reading, nil
}

// ReadLogs reads the newest entries of the system event log (IPMI 2.0, 31). A log without a new entry takes two requests.
func (c *conn) ReadLogs(ctx context.Context, sources []bmc.LogSource) ([]bmc.Log, error) {
	info, err := c.logInfo(ctx)
	if err != nil {
		return nil, err
	}
	log := bmc.Log{LogSource: bmc.LogSource{Name: selName}, Count: int(info.Entries)}
	for _, source := range sources {
		if source.Name == selName {
			log.Newest = source.Newest
		}
	}
	if free := int(info.FreeBytes); free < maxFreeBytes {
		log.Max = log.Count + free/recordSize // a BMC takes no entries when the log is full, unless its vendor overwrites the oldest
	}
	entries, err := c.newestEntries(ctx, min(log.Count, bmc.MaxLogEntries), log.Newest)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		log.Entries = append(log.Entries, entryOf(entry))
	}
	log.Entries = bmc.NewestFirst(log.Entries)
	return []bmc.Log{log}, nil
}

// maxFreeBytes and more mean that the space is unknown (IPMI 2.0, 31.2: FFFEh if it is unspecified, FFFFh for that much and more).
const maxFreeBytes = 0xfffe
