package bmc

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

// HealthReader reads the health of a server over time. It changes nothing. The error of each method is Unsupported if the BMC does not offer the data.
type HealthReader interface {
	// ReadHealth reads the health by which the BMC summarises the server and, if the request wants it, the parts. When ctx reaches its deadline, or the BMC has too many parts,
	// the reading contains what was read so far, and HealthReading.Read says what that is.
	ReadHealth(ctx context.Context, request HealthRequest) (HealthReading, error)
	// ReadLogs reads the newest entries of logs, whatever their severity. Without a source it finds the logs of the server, of its BMC and of its chassis. It returns at most
	// MaxLogs logs.
	ReadLogs(ctx context.Context, sources []LogSource) ([]Log, error)
}

// PartClass is the class of a part of a server.
type PartClass string

const (
	PartDisk        PartClass = "Disk"
	PartVolume      PartClass = "Volume"
	PartMemory      PartClass = "Memory"
	PartCPU         PartClass = "CPU"
	PartPowerSupply PartClass = "PowerSupply"
	PartFan         PartClass = "Fan"
	PartTemperature PartClass = "Temperature"
	PartVoltage     PartClass = "Voltage"
	PartNIC         PartClass = "NIC"
	PartBMC         PartClass = "BMC"
	PartChassis     PartClass = "Chassis"
)

// HealthRequest says how much of the health is read.
type HealthRequest struct {
	// Rollup is the rollup of the last reading; empty for the first one.
	Rollup Health
	// Details reads the parts in any case. Otherwise they are read when the rollup has changed.
	Details bool
}

// WantsDetails is true if the parts are read. A first reading that is OK reads none.
func (r HealthRequest) WantsDetails(rollup Health) bool {
	changed := rollup != "" && rollup != cmp.Or(r.Rollup, HealthOK)
	return r.Details || changed
}

// HealthReading is one reading of the health.
type HealthReading struct {
	// Rollup is the worst health by which the BMC summarises the server; empty if it reports none.
	Rollup Health
	// Server is the health of the server itself, as Inventory.Health.
	Server Health
	// Parts are the parts that are not healthy, at most MaxParts.
	Parts []Part
	// Read are the classes of which all parts were read. It is empty if no details were read.
	Read []PartClass
	// Partial is true if a summary could not be read, so that Rollup may be better than the server.
	Partial bool
}

// Part is a part of a server that is not healthy.
type Part struct {
	Class                     PartClass
	Name, Model, SerialNumber string
	// Health is Warning or Critical.
	Health Health
}

// Limits of what a BMC, which is not trusted, gives for a reading.
const (
	MaxParts      = 64
	MaxLogs       = 4
	MaxLogEntries = 64
	maxLogText    = 1024
	maxLogID      = 64
)

// Add adds a part, unless it is healthy, its health is unknown, or there are too many.
func (r *HealthReading) Add(p Part) {
	if (p.Health == HealthWarning || p.Health == HealthCritical) && len(r.Parts) < MaxParts {
		r.Parts = append(r.Parts, p)
	}
}

// Worst returns the worse of two healths. Any health is worse than an unknown one.
func Worst(a, b Health) Health {
	order := []Health{"", HealthOK, HealthWarning, HealthCritical}
	return order[max(slices.Index(order, a), slices.Index(order, b), 0)]
}

// LogSource is a log of a BMC.
type LogSource struct {
	// Name identifies the log: the path of its entries, or SEL.
	Name string
	// Max is how many entries the log can have before it takes no more; 0 if it overwrites the oldest, or if that is unknown.
	Max int
	// Newest is the ID of the newest entry that is known; empty if none is.
	Newest string
}

// Log is the newest entries of a log.
type Log struct {
	LogSource

	// Count is how many entries the log has.
	Count int
	// Entries are the newest entries, newest first, at most MaxLogEntries. They may end at the newest known entry.
	Entries []LogEntry
}

// LogEntry is an entry of a log.
type LogEntry struct {
	// ID is the ID of the entry in its log.
	ID string
	// Time is when the event happened, by the BMC's clock; zero if the BMC does not record it.
	Time time.Time
	// Severity is OK, Warning or Critical; empty if it is unknown.
	Severity Health
	Message  string
}

// NewestFirst orders entries, and bounds their number and their texts. If all IDs are numbers it orders by them, because the clock of a BMC may be wrong, and otherwise by the time.
func NewestFirst(entries []LogEntry) []LogEntry {
	numbers := make(map[string]uint64, len(entries))
	for _, e := range entries {
		if n, err := strconv.ParseUint(e.ID, 10, 64); err == nil {
			numbers[e.ID] = n
		}
	}
	numeric := !slices.ContainsFunc(entries, func(e LogEntry) bool { _, ok := numbers[e.ID]; return !ok })
	slices.SortStableFunc(entries, func(a, b LogEntry) int {
		if numeric {
			return cmp.Compare(numbers[b.ID], numbers[a.ID])
		}
		return b.Time.Compare(a.Time)
	})
	entries = entries[:min(len(entries), MaxLogEntries)]
	for i := range entries {
		entries[i].ID, entries[i].Message = cut(entries[i].ID, maxLogID), cut(entries[i].Message, maxLogText)
	}
	return entries
}

// Newest returns logs with only the newest entries of all of them, at most limit. Logs are compared by time. Within a log the order stays: an entry without a time, or one that was
// written after the clock went back, counts as the entry before it.
func Newest(logs []Log, limit int) []Log {
	type dated struct {
		log int
		at  time.Time
	}
	var all []dated
	for i, log := range logs {
		at := time.Time{}
		for _, e := range slices.Backward(log.Entries) { // from the oldest
			if e.Time.After(at) {
				at = e.Time
			}
			all = append(all, dated{i, at})
		}
	}
	slices.SortStableFunc(all, func(a, b dated) int { return a.at.Compare(b.at) })
	counts := make([]int, len(logs))
	for _, d := range all[max(0, len(all)-limit):] {
		counts[d.log]++
	}
	newest := slices.Clone(logs)
	for i := range newest {
		newest[i].Entries = logs[i].Entries[:counts[i]]
	}
	return newest
}

// cut cuts text to a number of bytes, between two characters.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}
