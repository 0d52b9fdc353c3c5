package bmctest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

var loginChecks = []check{
	{"a second login works beside the first", "", func(ctx context.Context, r *round) error {
		second, err := r.Open(ctx, r.Endpoint)
		if err != nil {
			return err
		}
		_, err = second.PowerState(ctx)
		_, firstErr := r.client.PowerState(ctx)
		return errors.Join(err, firstErr, second.Close(ctx))
	}},
	{"many logins in a row work", "", func(ctx context.Context, r *round) error {
		for i := range 20 {
			c, err := r.Open(ctx, r.Endpoint)
			if err != nil {
				return fmt.Errorf("login %d: %w", i+1, err)
			}
			if err := c.Close(ctx); err != nil {
				return fmt.Errorf("logout %d: %w", i+1, err)
			}
		}
		return nil
	}},
	{"a wrong password is refused, and called so", "", func(ctx context.Context, r *round) error {
		if r.SkipWrongPassword {
			r.notef("left out")
			return nil
		}
		wrong := r.Endpoint
		wrong.Password += "x"
		c, err := r.Open(ctx, wrong)
		if err == nil {
			return errors.Join(errors.New("it was let in"), c.Close(ctx))
		}
		if kind := bmc.KindOf(err); kind != bmc.Unauthorized {
			return fmt.Errorf("the error is called %s: %w", kind, err)
		}
		_, err = r.client.PowerState(ctx)
		return err
	}},
}

var lookChecks = []check{
	{"it says what it is, and twice the same", "", func(ctx context.Context, r *round) error {
		one, err := r.client.Describe(ctx)
		if err != nil {
			return err
		}
		two, err := r.client.Describe(ctx)
		if err != nil {
			return err
		}
		r.notef("%s %s, firmware %s, %s, quirks %v", one.Vendor, one.Model, one.FirmwareVersion, one.Protocol, one.Quirks)
		if fmt.Sprint(one) != fmt.Sprint(two) {
			return fmt.Errorf("first %v, then %v", one, two)
		}
		if one.Protocol == "" || !slices.IsSorted(one.Capabilities) {
			return fmt.Errorf("no protocol, or capabilities that are not sorted: %v", one)
		}
		return nil
	}},
	{"the power state can be polled", "", func(ctx context.Context, r *round) error {
		const polls = 20
		took := make([]time.Duration, polls)
		for i := range took {
			start := time.Now()
			if _, err := r.client.PowerState(ctx); err != nil {
				return err
			}
			took[i] = time.Since(start)
		}
		slices.Sort(took)
		r.notef("a poll takes %s (median), %s (longest of %d)", took[polls/2].Round(10*time.Microsecond), took[polls-1].Round(10*time.Microsecond), polls)
		return nil
	}},
	{"the inventory can be read, and names what is missing", bmc.CanInventory, func(ctx context.Context, r *round) error {
		i, err := r.client.Inspect(ctx)
		if err != nil {
			return err
		}
		r.notef("%s %s, serial %q, UUID %q, %d threads, %d MiB, %d disks, %d NICs, missing %v", i.Manufacturer, i.Model, i.SerialNumber, i.SystemUUID,
			i.CPUThreads, i.MemoryMiB, len(i.Disks), len(i.NICs), i.Missing)
		for part, absent := range map[string]bool{
			"cpu": i.CPUThreads == 0, "memory": i.MemoryMiB == 0, "disks": len(i.Disks) == 0, "nics": len(i.NICs) == 0, "systemUUID": i.SystemUUID == "",
		} {
			if absent != slices.Contains(i.Missing, part) {
				return fmt.Errorf("missing is %v, but whether %s is missing is %t", i.Missing, part, absent)
			}
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
		m, err := bmc.As[bmc.Monitor](r.client, "Read the event log")
		if err != nil {
			return err
		}
		events, err := m.Events(ctx, 10)
		if err != nil {
			return err
		}
		r.notef("%d of its newest entries", len(events))
		if len(events) > 10 || !slices.IsSortedFunc(events, func(a, b bmc.Event) int { return b.Time.Compare(a.Time) }) {
			return fmt.Errorf("asked for 10: %v", events)
		}
		return nil
	}},
	{"the clock can be read", bmc.CanClock, func(ctx context.Context, r *round) error {
		m, err := bmc.As[bmc.Monitor](r.client, "Read the clock")
		if err != nil {
			return err
		}
		clock, err := m.Clock(ctx)
		r.notef("it is %s ahead of ours", time.Until(clock).Round(time.Second))
		return err
	}},
}

var powerChecks = []check{
	{"off, also when it is off", bmc.CanForceOff, func(ctx context.Context, r *round) error {
		return errors.Join(r.to(ctx, bmc.PowerOff, r.client.ForceOff), r.to(ctx, bmc.PowerOff, r.client.ForceOff))
	}},
	{"on, also when it is on", bmc.CanPowerOn, func(ctx context.Context, r *round) error {
		return errors.Join(r.to(ctx, bmc.PowerOn, r.client.PowerOn), r.to(ctx, bmc.PowerOn, r.client.PowerOn))
	}},
	{"a cycle leaves it on", bmc.CanCycle, func(ctx context.Context, r *round) error {
		return errors.Join(r.to(ctx, bmc.PowerOn, r.client.PowerOn), r.to(ctx, bmc.PowerOn, r.client.Cycle))
	}},
	{"a cycle switches on what is off", bmc.CanCycle, func(ctx context.Context, r *round) error {
		return errors.Join(r.to(ctx, bmc.PowerOff, r.client.ForceOff), r.to(ctx, bmc.PowerOn, r.client.Cycle))
	}},
	{"a reset leaves it on", bmc.CanReset, func(ctx context.Context, r *round) error {
		return errors.Join(r.to(ctx, bmc.PowerOn, r.client.PowerOn), r.to(ctx, bmc.PowerOn, r.client.Reset))
	}},
	{"an NMI is taken and leaves it on", bmc.CanNMI, func(ctx context.Context, r *round) error {
		return errors.Join(r.to(ctx, bmc.PowerOn, r.client.PowerOn), r.to(ctx, bmc.PowerOn, r.client.NMI))
	}},
	{"off, asked nicely first", bmc.CanForceOff, func(ctx context.Context, r *round) error {
		if err := r.to(ctx, bmc.PowerOn, r.client.PowerOn); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, 2*r.Settle)
		defer cancel()
		return bmc.SwitchOff(ctx, r.client, r.Settle/10, r.Poll)
	}},
	{"a reset of what is off is an error", bmc.CanReset, func(ctx context.Context, r *round) error {
		if err := r.to(ctx, bmc.PowerOff, r.client.ForceOff); err != nil {
			return err
		}
		if err := r.client.Reset(ctx); err == nil {
			return errors.New("it was taken")
		}
		return r.settled(ctx, bmc.PowerOff)
	}},
	{"asking a server that is off to shut down is no error", bmc.CanShutDown, func(ctx context.Context, r *round) error {
		return errors.Join(r.to(ctx, bmc.PowerOff, r.client.ForceOff), r.to(ctx, bmc.PowerOff, r.client.ShutDown))
	}},
}

// to gives a command and waits until the power is as it should be then.
func (r *round) to(ctx context.Context, want bmc.PowerState, command func(context.Context) error) error {
	if err := command(ctx); err != nil {
		return err
	}
	return r.settled(ctx, want)
}

func (r *round) settled(ctx context.Context, want bmc.PowerState) error {
	ctx, cancel := context.WithTimeout(ctx, r.Settle)
	defer cancel()
	return bmc.AwaitPower(ctx, r.client, want, r.Poll)
}
