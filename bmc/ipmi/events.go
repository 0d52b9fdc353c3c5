package ipmi

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/bougou/go-ipmi/pkg/command/storage"
	"github.com/bougou/go-ipmi/pkg/types"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// maxGaps is the number of missing record IDs in a row after which the search for older entries ends.
const maxGaps = 16

// logInfo reads how many entries the system event log has (IPMI 2.0, 31.2).
func (c *conn) logInfo(ctx context.Context) (*storage.GetSELInfoResponse, error) {
	info := &storage.GetSELInfoResponse{}
	return info, c.do(ctx, "Read the event log", &storage.GetSELInfoRequest{}, info)
}

// newestEntries reads the newest entries of the log, up to the one with the ID known. The log is linked from old to new only, so the search starts at the newest entry and counts
// record IDs down, with the step between the first two entries. Record IDs increase on every known BMC, although the specification does not require it. Entries that this
// search does not find are omitted.
func (c *conn) newestEntries(ctx context.Context, limit int, known string) ([]*types.SEL, error) {
	if limit <= 0 {
		return nil, nil
	}
	newest, _, err := c.readSEL(ctx, lastRecord)
	if err != nil {
		return nil, err
	}
	entries := []*types.SEL{newest}
	if limit == 1 || recordID(newest) == known {
		return entries, nil
	}
	first, next, err := c.readSEL(ctx, 0)
	if err != nil {
		return entries, ignoreOptional(err)
	}
	step := 1
	if next != lastRecord && next > first.RecordID {
		step = int(next - first.RecordID)
	}
	gaps := 0
	for id := int(newest.RecordID) - step; id > 0 && len(entries) < limit && gaps < maxGaps; id -= step {
		entry, _, err := c.readSEL(ctx, uint16(id)) //nolint:gosec // between 0 and the newest
		if err := ignoreOptional(err); err != nil {
			return nil, err
		}
		if err != nil || int(entry.RecordID) != id {
			gaps++
			continue
		}
		gaps = 0
		if entries = append(entries, entry); recordID(entry) == known {
			break
		}
	}
	return entries, nil
}

func recordID(entry *types.SEL) string { return strconv.Itoa(int(entry.RecordID)) }

// readSEL reads an entry of the log, and the record ID of the next one (IPMI 2.0, 31.5).
func (c *conn) readSEL(ctx context.Context, id uint16) (entry *types.SEL, next uint16, err error) {
	const op = "Read the event log"
	answer := &storage.GetSELEntryResponse{}
	if err := c.do(ctx, op, &storage.GetSELEntryRequest{RecordID: id, ReadBytes: 0xff}, answer); err != nil {
		return nil, 0, err
	}
	err = decode(op, func() error {
		entry, err = types.ParseSEL(answer.Data)
		return err
	})
	return entry, answer.NextRecordID, err
}

// entryOf converts an entry to one with a readable message.
func entryOf(entry *types.SEL) bmc.LogEntry {
	e := bmc.LogEntry{ID: recordID(entry), Message: fmt.Sprintf("record of type %02Xh", uint8(entry.RecordType))}
	err := decode("Read the event log", func() error {
		switch {
		case entry.Standard != nil:
			s := entry.Standard
			e.Time, e.Severity = clockOf(s.Timestamp), severityOf(s.EventSeverity())
			what := s.EventString()
			if what == "" {
				what = fmt.Sprintf("event type %02Xh, data %s", uint8(s.EventReadingType), s.EventData.String())
			}
			e.Message = fmt.Sprintf("%s sensor %02Xh: %s (%s)", s.SensorType, uint8(s.SensorNumber), what, s.EventDir)
		case entry.OEMTimestamped != nil:
			e.Time = clockOf(entry.OEMTimestamped.Timestamp)
			e.Message += fmt.Sprintf(" of %s: % X", types.OEM(entry.OEMTimestamped.ManufacturerID), entry.OEMTimestamped.OEMDefined)
		case entry.OEMNonTimestamped != nil:
			e.Message += fmt.Sprintf(": % X", entry.OEMNonTimestamped.OEM)
		}
		return nil
	})
	if err != nil {
		e.Message += ", which cannot be decoded"
	}
	return e
}

func severityOf(s types.EventSeverity) bmc.Health {
	switch s {
	case types.EventSeverityInfo, types.EventSeverityOK:
		return bmc.HealthOK
	case types.EventSeverityWarning, types.EventSeverityDegraded, types.EventSeverityNonFatal:
		return bmc.HealthWarning
	case types.EventSeverityCritical:
		return bmc.HealthCritical
	default:
		return ""
	}
}

// minTimestamp is the lowest valid timestamp. Lower values are seconds since the BMC started, and FFFFFFFFh is unspecified (IPMI 2.0, 37.1).
const minTimestamp = 0x20000000

func clockOf(t time.Time) time.Time {
	if s := t.Unix(); s < minTimestamp || s >= 0xffffffff {
		return time.Time{}
	}
	return t.UTC()
}

// Clock reads the clock of the event log (IPMI 2.0, 31.10) as UTC, because BMCs do not report a time zone. The error is Unsupported if the
// clock was never set.
func (c *conn) Clock(ctx context.Context) (time.Time, error) {
	const op = "Read the clock"
	answer := &storage.GetSELTimeResponse{}
	if err := c.do(ctx, op, &storage.GetSELTimeRequest{}, answer); err != nil {
		return time.Time{}, err
	}
	now := clockOf(answer.Time)
	if now.IsZero() {
		return now, &bmc.Error{Kind: bmc.Unsupported, Op: op, Err: errors.New("the BMC's clock was never set")}
	}
	return now, nil
}
