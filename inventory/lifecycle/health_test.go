package lifecycle

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// healthRead returns a change of the facts: the health was last read some time ago.
func healthRead(ago time.Duration) func(*View) {
	return func(v *View) { v.BMC.Health.TriedAt = noon.Add(-ago) }
}

// TestHealthPoll: the health of an idle host is read at its interval, after everything else that is due, and never where the BMC gets no request.
func TestHealthPoll(t *testing.T) {
	due, settings := healthRead(2*time.Minute), DefaultSettings()
	settings.HealthInterval = time.Minute
	for name, c := range map[string]struct {
		view View
		want Action
	}{
		"free":                       {freeView(due), ReadHealth},
		"free, not due":              {freeView(healthRead(30 * time.Second)), Nothing},
		"free, never read, just now": {freeView(func(v *View) { v.BMC.Health.Since = noon }), Nothing},
		"free, never read":           {freeView(func(v *View) { v.BMC.Health.Since = noon.Add(-time.Minute) }), ReadHealth},
		"provisioned":                {claimedView(provisioned, poweredOn, due), ReadHealth},
		"provisioned, not due":       {claimedView(provisioned, poweredOn, healthRead(30*time.Second)), Nothing},
		"in maintenance":             {freeView(maintenance, due), ReadHealth},
		"in quarantine":              {freeView(quarantined, due), ReadHealth},
		"run by something else":      {freeView(external, due), ReadHealth},
		"detached":                   {freeView(detached, due), Nothing},
		"paused":                     {freeView(due, func(v *View) { v.Host.Paused = true }), Nothing},
		"not offered":                {freeView(due, func(v *View) { v.BMC.Health.Unsupported = true }), Nothing},
		"another server answers":     {freeView(due, replaced), Nothing},
		"the BMC of another host":    {freeView(due, func(v *View) { v.Identity.BMCTakenBy = &types.NamespacedName{Namespace: "dc", Name: "other"} }), Nothing},
		"busy":                       {freeView(due, func(v *View) { v.BMC.Busy = true }), Nothing},
		"the power comes first":      {freeView(due, stale), ReadPower},
		"the inventory comes first":  {freeView(due, func(v *View) { v.BMC.InspectedTime = noon.Add(-25 * time.Hour) }), Inspect},
		"something has changed":      {freeView(healthRead(6*time.Second), func(v *View) { v.BMC.Health.Soon = true }), ReadHealth},
		"changes all the time":       {freeView(healthRead(4*time.Second), func(v *View) { v.BMC.Health.Soon = true }), Nothing},
		"it cannot be read":          {freeView(healthRead(7*time.Minute), func(v *View) { v.BMC.Health.Failures = 3 }), Nothing},
		"it is tried again":          {freeView(healthRead(8*time.Minute), func(v *View) { v.BMC.Health.Failures = 3 }), ReadHealth},
		"with 10,000 hosts":          {freeView(healthRead(25*time.Minute), func(v *View) { v.Provider.Hosts = 10000 }), Nothing},
		"with 10,000 hosts, later":   {freeView(healthRead(40*time.Minute), func(v *View) { v.Provider.Hosts = 10000 }), ReadHealth},
	} {
		t.Run(name, func(t *testing.T) {
			step := Next(c.view, settings)
			if step.Action != c.want {
				t.Errorf("%s, not %s", step.Action, c.want)
			}
			if reads := c.view.readsHealth(settings); reads && step.Action == Nothing && !c.view.BMC.Busy && (step.RequeueAt.IsZero() || step.RequeueAt.After(noon.Add(time.Hour+time.Minute))) &&
				step.State != StateDetached && step.State != StatePaused {
				t.Errorf("it is not read again: %s", step.RequeueAt)
			}
			without := Next(c.view, DefaultSettings())
			if without.Action == ReadHealth {
				t.Error("it is read without an interval")
			}
			if without.State != step.State || without.Phase != step.Phase || without.Reason != step.Reason {
				t.Errorf("%s, %s, %s with the health, and %s, %s, %s without", step.State, step.Phase, step.Reason, without.State, without.Phase, without.Reason)
			}
		})
	}
}

// TestHealthSpread: the first readings of hosts that were registered together are spread over the interval, and their intervals differ.
func TestHealthSpread(t *testing.T) {
	settings := DefaultSettings()
	settings.HealthInterval = time.Minute
	const hosts = 600
	tenths, intervals := [10]int{}, map[time.Duration]bool{}
	for n := range hosts {
		v := freeView(func(v *View) { v.Host.Name, v.BMC.Health.Since = fmt.Sprintf("rack-%02d-host-%02d", n/40, n%40), noon })
		after := nextHealth(v, settings).Sub(noon)
		if after < 0 || after >= time.Minute {
			t.Fatalf("the first reading comes after %s", after)
		}
		tenths[after/(6*time.Second)]++
		v.BMC.Health.TriedAt = noon
		interval := nextHealth(v, settings).Sub(noon)
		if interval < 54*time.Second || interval > 66*time.Second {
			t.Fatalf("an interval of %s", interval)
		}
		intervals[interval] = true
	}
	for _, n := range tenths {
		if n < hosts/20 || n > hosts/5 {
			t.Errorf("in the tenths of the interval there are %v hosts", tenths)
			break
		}
	}
	if len(intervals) < hosts/4 {
		t.Errorf("%d different intervals", len(intervals))
	}
}
