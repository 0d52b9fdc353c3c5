package bmctest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

var loginChecks = []check{
	{"a second login works beside the first", "", func(ctx context.Context, r *round) error {
		second, err := r.open(ctx, r.Endpoint)
		if err != nil {
			return err
		}
		_, err = second.PowerState(ctx)
		_, firstErr := r.client.PowerState(ctx)
		return errors.Join(err, firstErr, r.closeClient(ctx, second))
	}},
	{"many logins in a row work", "", func(ctx context.Context, r *round) error {
		for i := range 20 {
			c, err := r.open(ctx, r.Endpoint)
			if err != nil {
				return fmt.Errorf("login %d: %w", i+1, err)
			}
			if err := r.closeClient(ctx, c); err != nil {
				return fmt.Errorf("logout %d: %w", i+1, err)
			}
		}
		return nil
	}},
	{"a wrong password is refused, and reported as such", "", func(ctx context.Context, r *round) error {
		if r.SkipWrongPassword {
			r.notef("skipped")
			return nil
		}
		wrong := r.Endpoint
		wrong.Password = wrongPassword(wrong.Password)
		c, err := r.open(ctx, wrong)
		if err == nil {
			return errors.Join(errors.New("the BMC accepted it"), r.closeClient(ctx, c))
		}
		if kind := bmc.KindOf(err); kind != bmc.Unauthorized {
			return fmt.Errorf("the kind of the error is %s: %w", kind, err)
		}
		_, err = r.client.PowerState(ctx)
		return err
	}},
}

// wrongPassword has the length of the right one and differs in the first byte, because some BMCs compare only some bytes.
func wrongPassword(right string) string {
	switch {
	case right == "":
		return "x"
	case right[0] == 'x':
		return "y" + right[1:]
	default:
		return "x" + right[1:]
	}
}

var readChecks = []check{
	{"the description is complete and repeatable", "", func(ctx context.Context, r *round) error {
		one, err := r.client.Describe(ctx)
		if err != nil {
			return err
		}
		two, err := r.client.Describe(ctx)
		if err != nil {
			return err
		}
		r.notef("%s %s, firmware %s, %s, quirks %v", one.Vendor, one.Model, one.FirmwareVersion, one.Protocol, one.Quirks)
		two.OpenSessions, two.ClockAhead = one.OpenSessions, one.ClockAhead // they change
		if !reflect.DeepEqual(one, two) {
			return fmt.Errorf("first %v, then %v", one, two)
		}
		if one.Protocol == "" || !slices.IsSorted(one.Capabilities) {
			return fmt.Errorf("the protocol is missing, or the capabilities are not sorted: %v", one)
		}
		return nil
	}},
	{"the power state can be polled", "", func(ctx context.Context, r *round) error {
		const polls = 20
		times := &r.outcome.Latency.Power
		for range polls {
			start := time.Now()
			_, err := r.client.PowerState(ctx)
			addDuration(times, start, err)
			if err != nil {
				return err
			}
		}
		sorted := slices.Sorted(slices.Values(*times))
		r.notef("a poll takes %s (median), %s (longest of %d)", sorted[polls/2].Round(10*time.Microsecond), sorted[polls-1].Round(10*time.Microsecond), polls)
		return nil
	}},
	{"the inventory can be read, with the state of each fact", bmc.CanInventory, func(ctx context.Context, r *round) error {
		start := time.Now()
		i, err := r.client.Inspect(ctx)
		addDuration(&r.outcome.Latency.Inventory, start, err)
		if err != nil {
			return err
		}
		r.outcome.Inventory = &i
		r.notef("%s %s, serial %q, UUID %q, %d threads, %d MiB, %d disks, %d NICs", i.Manufacturer, i.Model, i.SerialNumber, i.SystemUUID,
			i.CPUThreads, i.MemoryMiB, len(i.Disks), len(i.NICs))
		if err := Coherent(&i); err != nil {
			return err
		}
		return nil
	}},
	{"the sensors can be read", bmc.CanSensors, func(ctx context.Context, r *round) error {
		m, err := bmc.As[bmc.Monitor](r.client, "Read the sensors")
		if err != nil {
			return err
		}
		sensors, err := m.Sensors(ctx)
		if err == nil && len(sensors) == 0 {
			err = errors.New("there is none")
		}
		r.notef("%d sensors", len(sensors))
		return err
	}},
	{"the event log is newest first", bmc.CanEventLog, func(ctx context.Context, r *round) error {
		reader, err := bmc.As[bmc.HealthReader](r.client, "Read the event log")
		if err != nil {
			return err
		}
		logs, err := reader.ReadLogs(ctx, nil)
		for _, log := range logs {
			r.notef("%d of the newest entries of a log with %d", len(log.Entries), log.Count)
			err = cmp.Or(err, newestFirst(log.Entries))
		}
		return err
	}},
	{"the clock can be read", bmc.CanClock, func(ctx context.Context, r *round) error {
		m, err := bmc.As[bmc.Monitor](r.client, "Read the clock")
		if err != nil {
			return err
		}
		clock, err := m.Clock(ctx)
		r.notef("the BMC's clock is %s ahead of this machine's", time.Until(clock).Round(time.Second))
		return err
	}},
}

// newestFirst is an error if an entry is newer than the one before it. The messages are confidential, so the report does not contain them.
func newestFirst(entries []bmc.LogEntry) error {
	if len(entries) > bmc.MaxLogEntries {
		return fmt.Errorf("the BMC returned %d entries instead of %d", len(entries), bmc.MaxLogEntries)
	}
	for i := 1; i < len(entries); i++ {
		if pair := bmc.NewestFirst([]bmc.LogEntry{entries[i-1], entries[i]}); pair[0].ID != entries[i-1].ID {
			return fmt.Errorf("entry %d is newer than the one before it", i+1)
		}
	}
	return nil
}
