// Package health decides what is reported about the health of a server over time: which parts, which entries of the logs of its BMC, and when a change is reported. It is pure,
// and remembers some hundred bytes for a healthy server.
package health

import (
	"cmp"
	"slices"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
)

const (
	// detailsInterval is the maximum age of the parts while a server is not healthy.
	detailsInterval = 10 * time.Minute
	// logInterval is the maximum age of the logs.
	logInterval = 10 * time.Minute
	// flapWindow and flapReadings are the least time and the least number of readings in which at most maxChanges changes are reported. After more the worst state is reported until
	// nothing changes for as long. With many hosts a reading takes longer than the time.
	flapWindow   = 10 * time.Minute
	flapReadings = 4
	maxChanges   = 3
	// staleAfter and staleReadings are the least time and the least number of intervals after which a summary no longer counts that is not read any more.
	staleAfter    = time.Hour
	staleReadings = 4
	// maxPartAge is how long before an inventory a class was last read whose parts still count: two inventories came since.
	maxPartAge = 48 * time.Hour
	// maxParts is the maximum length of HealthStatus.Parts.
	maxParts = 16
)

// classes are all classes, in the order in which the reason of the condition prefers them.
var classes = []v1alpha1.PartClass{
	v1alpha1.PartDisk, v1alpha1.PartVolume, v1alpha1.PartMemory, v1alpha1.PartCPU, v1alpha1.PartPowerSupply, v1alpha1.PartFan, v1alpha1.PartTemperature, v1alpha1.PartVoltage,
	v1alpha1.PartNIC, v1alpha1.PartDevice, v1alpha1.PartBMC, v1alpha1.PartChassis, v1alpha1.PartServer,
}

const numClasses = 13

// Classes returns all classes.
func Classes() []v1alpha1.PartClass { return slices.Clone(classes) }

// unread are the classes that no reading has: that of a device is from the inventory, and that of the server from the inventory and the rollup.
var unread = []v1alpha1.PartClass{v1alpha1.PartDevice, v1alpha1.PartServer}

// inventoryClasses are the classes that the inventory has, too.
var inventoryClasses = []v1alpha1.PartClass{v1alpha1.PartDisk, v1alpha1.PartMemory, v1alpha1.PartPowerSupply, v1alpha1.PartDevice, v1alpha1.PartServer}

// Reading is what one reading found. Its texts and lists are bounded.
type Reading struct {
	// Rollup is the health by which the BMC summarises the server; empty if it reports none.
	Rollup wire.Health
	// Parts are the parts that are not healthy, and Read the classes whose parts were read. Both are empty if only the rollup was read.
	Parts []v1alpha1.UnhealthyPart
	Read  []v1alpha1.PartClass
	// Partial is true if a summary could not be read: a rollup that is better than the one before proves nothing.
	Partial bool
}

// Inventory is what the inventory reports about the health.
type Inventory struct {
	// Parts are the parts that are not healthy, with the server itself.
	Parts []v1alpha1.UnhealthyPart
	// Time is when the inventory was read.
	Time time.Time
	// Incomplete are the classes of which it could not read each part.
	Incomplete map[v1alpha1.PartClass]Incomplete
}

// Incomplete is what is known of a class of which an inventory could not read each part.
type Incomplete struct {
	// At is the time of the last inventory that could; zero if none could.
	At time.Time
	// Kept is true if the parts are those of that inventory.
	Kept bool
}

// At returns when a class was last read completely; zero if it never was.
func (i Inventory) At(class v1alpha1.PartClass) time.Time {
	if incomplete, ok := i.Incomplete[class]; ok {
		return incomplete.At
	}
	return i.Time
}

// partsAt returns when the parts of a class were read that the inventory has.
func (i Inventory) partsAt(class v1alpha1.PartClass) time.Time {
	if i.Incomplete[class].Kept {
		return i.At(class)
	}
	return i.Time
}

// Tracker is what is remembered of the health of one server. The zero value is ready. Its slices are replaced and never changed, so a copy of it is valid.
type Tracker struct {
	// Logs is what is remembered of the logs.
	Logs Logs

	interval  time.Duration // of the readings
	rollup    wire.Health
	wholeAt   time.Time                // when each summary was last read
	parts     []v1alpha1.UnhealthyPart // of the last details
	classAt   [numClasses]time.Time    // when each class was last read
	detailsAt time.Time
	readAt    time.Time
	// latest are the parts that are not healthy now, and reported those that are reported.
	latest, reported []v1alpha1.UnhealthyPart
	changes          []time.Time // of latest in the flap window, oldest first
	flapping         bool
	known            bool // reported is valid
	wantsDetails     bool
}

// Known is true once there is something to report, even if that is that all is well.
func (t *Tracker) Known() bool { return t.known }

// ReadEvery sets the interval of the readings.
func (t *Tracker) ReadEvery(interval time.Duration) { t.interval = interval }

// window is the time in which at most maxChanges changes are reported.
func (t *Tracker) window() time.Duration { return max(flapWindow, flapReadings*t.interval) }

// summaryAge is how long a summary counts that cannot be read.
func (t *Tracker) summaryAge() time.Duration { return max(staleAfter, staleReadings*t.interval) }

// Rollup is the rollup of the last reading, or the health of the server itself that the status showed before the first one; empty without both.
func (t *Tracker) Rollup() wire.Health { return t.rollup }

// Restore takes over what a status shows, at the start of a process. The changes before are forgotten.
func (t *Tracker) Restore(status *v1alpha1.HealthStatus, inventory Inventory, now time.Time) {
	if status == nil {
		t.reported = t.effective(inventory)
	} else {
		t.parts, t.reported = status.Parts, status.Parts
		for i, class := range classes { // what the status shows counts until something is read
			if !slices.Contains(unread, class) {
				t.classAt[i] = now
			}
		}
		if i := slices.IndexFunc(status.Parts, func(p v1alpha1.UnhealthyPart) bool { return p.Class == v1alpha1.PartServer }); i >= 0 {
			t.rollup = status.Parts[i].Health
		}
		t.Logs.restore(status.Log)
	}
	t.latest, t.readAt, t.wholeAt, t.known = t.reported, now, now, true
}

// WantsDetails is true if the next reading shall read the parts whatever the rollup is: a part is not healthy, or a log says so, and the last details are old.
func (t *Tracker) WantsDetails(now time.Time) bool {
	unhealthy := len(t.latest) > 0 || IsSevere(t.rollup)
	return t.wantsDetails || unhealthy && now.Sub(t.detailsAt) >= detailsInterval
}

// WantsLogs is true if the next reading shall read the logs.
func (t *Tracker) WantsLogs(now time.Time) bool { return now.Sub(t.Logs.readAt) >= logInterval }

// ReadDetailsSoon makes the next reading read the parts: a log says that something has happened.
func (t *Tracker) ReadDetailsSoon() { t.wantsDetails = true }

// Note records a reading.
func (t *Tracker) Note(r Reading, now time.Time) {
	wanted := t.WantsDetails(now)
	if !r.Partial {
		t.wholeAt = now
	} else if now.Sub(t.wholeAt) <= t.summaryAge() && (r.Rollup == "" || IsWorse(t.rollup, r.Rollup)) {
		r.Rollup = t.rollup
	}
	if r.Rollup != t.rollup && t.rollup != "" {
		t.Logs.readAt = time.Time{} // the log says why
	}
	t.rollup, t.readAt = r.Rollup, now
	if len(r.Read) == 0 {
		if wanted { // nothing could be read: not again with each reading
			t.detailsAt, t.wantsDetails = now, false
		}
		return
	}
	parts := slices.DeleteFunc(slices.Clone(t.parts), func(p v1alpha1.UnhealthyPart) bool { return slices.Contains(r.Read, p.Class) })
	for _, p := range r.Parts {
		if slices.Contains(r.Read, p.Class) {
			parts = append(parts, p)
		}
	}
	for i, class := range classes {
		if slices.Contains(r.Read, class) {
			t.classAt[i] = now
		}
	}
	t.parts, t.detailsAt, t.wantsDetails = parts, now, false
}

// DropReadings drops what was read, of a BMC that offers no readings any more.
func (t *Tracker) DropReadings() {
	t.parts, t.rollup, t.classAt = nil, "", [numClasses]time.Time{}
}

// IsStale is true if no reading succeeds any more.
func (t *Tracker) IsStale(now time.Time) bool { return now.Sub(t.readAt) > t.summaryAge() }

// lastRead returns when the parts of a class were last read; zero if they never were.
func (t *Tracker) lastRead(class v1alpha1.PartClass) time.Time {
	if i := slices.Index(classes, class); i >= 0 {
		return t.classAt[i]
	}
	return time.Time{}
}

// isNewer is true if the parts of a class were read after those that an inventory has.
func (t *Tracker) isNewer(class v1alpha1.PartClass, inventory Inventory) bool {
	return t.lastRead(class).After(inventory.partsAt(class))
}

// counts is true for a part of a reading whose class no inventory has read since then. A class that neither can read any more counts no longer after some time.
func (t *Tracker) counts(p v1alpha1.UnhealthyPart, inventory Inventory) bool {
	at := t.lastRead(p.Class)
	replaced := slices.Contains(inventoryClasses, p.Class) && !at.After(inventory.At(p.Class))
	return !replaced && inventory.Time.Sub(at) <= maxPartAge
}

// Contradicts is true if the last reading found a part healthy that the inventory still has as not healthy: it was replaced, or has recovered.
func (t *Tracker) Contradicts(inventory Inventory) bool {
	return slices.ContainsFunc(inventory.Parts, func(p v1alpha1.UnhealthyPart) bool {
		same := func(other v1alpha1.UnhealthyPart) bool { return other.Class == p.Class && other.Name == p.Name }
		return t.isNewer(p.Class, inventory) && !slices.ContainsFunc(t.parts, same)
	})
}

// Update decides what is reported, after a reading or an inventory.
func (t *Tracker) Update(inventory Inventory, now time.Time) {
	if t.IsStale(now) && inventory.Time.After(t.readAt) {
		t.rollup = "" // the inventory has the health of the server. What is known of parts that it does not have stays: nobody has read that they recovered
	}
	parts := t.effective(inventory)
	changes := slices.DeleteFunc(slices.Clone(t.changes), func(at time.Time) bool { return now.Sub(at) >= t.window() })
	if !t.known {
		t.latest, t.reported, t.known = parts, parts, true
		return
	}
	if !slices.Equal(parts, t.latest) {
		changes = append(changes, now)
		t.latest = parts
	}
	t.changes = changes[max(0, len(changes)-maxChanges-1):]
	switch {
	case len(t.changes) > maxChanges, t.flapping && len(t.changes) > 0:
		t.flapping = true
		if isWorse(parts, t.reported) {
			t.reported = parts
		}
	default:
		t.flapping, t.reported = false, parts
	}
}

// effective returns the parts of the inventory and of the readings; of a class that both have, those of the newer one. A rollup that no part explains is the health of the server.
func (t *Tracker) effective(inventory Inventory) []v1alpha1.UnhealthyPart {
	var all []v1alpha1.UnhealthyPart
	for _, p := range inventory.Parts {
		if !t.isNewer(p.Class, inventory) {
			all = append(all, p)
		}
	}
	for _, p := range t.parts {
		same := func(other v1alpha1.UnhealthyPart) bool { return other.Class == p.Class && other.Name == p.Name }
		if t.counts(p, inventory) && !slices.ContainsFunc(all, same) {
			all = append(all, p)
		}
	}
	if IsSevere(t.rollup) {
		all = append(all, v1alpha1.UnhealthyPart{Class: v1alpha1.PartServer, Health: t.rollup})
	}
	parts := slices.DeleteFunc(slices.Clone(all), func(p v1alpha1.UnhealthyPart) bool { return isExplained(p, all) })
	slices.SortStableFunc(parts, func(a, b v1alpha1.UnhealthyPart) int {
		return cmp.Or(cmp.Compare(a.Health, b.Health), // Critical sorts before Warning
			cmp.Compare(slices.Index(classes, a.Class), slices.Index(classes, b.Class)), cmp.Compare(len(a.Name), len(b.Name)), cmp.Compare(a.Name, b.Name)) // 9 before 10
	})
	return slices.Compact(parts)
}

// isExplained is true for a server or a chassis whose health another part explains: the BMC gives them the health of their worst part.
func isExplained(p v1alpha1.UnhealthyPart, all []v1alpha1.UnhealthyPart) bool {
	whole := func(c v1alpha1.PartClass) bool { return c == v1alpha1.PartServer || c == v1alpha1.PartChassis }
	return whole(p.Class) && slices.ContainsFunc(all, func(other v1alpha1.UnhealthyPart) bool {
		explains := !whole(other.Class) || p.Class == v1alpha1.PartServer && other != p
		return explains && (other.Health == p.Health || other.Health == wire.HealthCritical)
	})
}

// isWorse is true if parts are worse than those that are reported: the worst one is, or there are more of them.
func isWorse(parts, reported []v1alpha1.UnhealthyPart) bool {
	is, was := Worst(parts), Worst(reported)
	return IsWorse(is, was) || is == was && len(parts) > len(reported)
}

// IsWorse is true for a health that is worse than another one. OK is no worse than an unknown health.
func IsWorse(is, was wire.Health) bool {
	return IsSevere(is) && is != was && was != wire.HealthCritical
}

// Worst returns the worst health of parts; empty without one.
func Worst(parts []v1alpha1.UnhealthyPart) wire.Health {
	worst := wire.Health("")
	for _, p := range parts {
		if worst == "" || p.Health == wire.HealthCritical {
			worst = p.Health
		}
	}
	return worst
}

// Flapping is true while changes are not reported because there are too many.
func (t *Tracker) Flapping() bool { return t.flapping }

// Status returns what is reported; nil if that is nothing.
func (t *Tracker) Status() *v1alpha1.HealthStatus {
	if len(t.reported)+len(t.Logs.kept) == 0 && !t.flapping {
		return nil
	}
	status := &v1alpha1.HealthStatus{Parts: t.reported[:min(len(t.reported), maxParts)], Flapping: t.flapping, Log: t.Logs.kept}
	if more := len(t.reported) - len(status.Parts); more > 0 {
		status.OmittedParts = int32(more) //nolint:gosec // a reading and an inventory are bounded
	}
	return status
}
