package health

import (
	"cmp"
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func part(class v1alpha1.PartClass, name string, health wire.Health) v1alpha1.UnhealthyPart {
	return v1alpha1.UnhealthyPart{Class: class, Name: name, Health: health}
}

var (
	server = part(v1alpha1.PartServer, "", wire.HealthCritical)
	ill    = part(v1alpha1.PartServer, "", wire.HealthWarning)
	box    = part(v1alpha1.PartChassis, "1", wire.HealthCritical)
	disk   = part(v1alpha1.PartDisk, "3", wire.HealthCritical)
	fan    = part(v1alpha1.PartFan, "Fan 1", wire.HealthWarning)
	supply = part(v1alpha1.PartPowerSupply, "PSU 2", wire.HealthCritical)
)

// TestClasses: the tracker has a place for each class of the API.
func TestClasses(t *testing.T) {
	if len(classes) != numClasses {
		t.Errorf("%d classes, and numClasses is %d", len(classes), numClasses)
	}
}

// all are the classes that a complete reading has.
var all = []v1alpha1.PartClass{v1alpha1.PartDisk, v1alpha1.PartPowerSupply, v1alpha1.PartFan, v1alpha1.PartChassis}

// TestTracker: of a class that both have, the newer of inventory and reading counts. A class that was not read keeps what is known. The server is named only if nothing explains it.
func TestTracker(t *testing.T) {
	minute := func(n int) time.Time { return noon.Add(time.Duration(n) * time.Minute) }
	for name, c := range map[string]struct {
		inventory Inventory
		readings  []Reading // one each hour
		want      []v1alpha1.UnhealthyPart
	}{
		"nothing":                           {want: nil},
		"the inventory alone":               {Inventory{[]v1alpha1.UnhealthyPart{disk}, noon, nil}, nil, []v1alpha1.UnhealthyPart{disk}},
		"a part explains the server":        {Inventory{[]v1alpha1.UnhealthyPart{server, disk}, noon, nil}, nil, []v1alpha1.UnhealthyPart{disk}},
		"a warning does not":                {Inventory{[]v1alpha1.UnhealthyPart{server, fan}, noon, nil}, nil, []v1alpha1.UnhealthyPart{server, fan}},
		"the chassis explains the server":   {Inventory{[]v1alpha1.UnhealthyPart{server}, noon, nil}, []Reading{{wire.HealthCritical, []v1alpha1.UnhealthyPart{box}, all, false}}, []v1alpha1.UnhealthyPart{box}},
		"a reading adds, the worst first":   {Inventory{nil, noon, nil}, []Reading{{wire.HealthCritical, []v1alpha1.UnhealthyPart{fan, supply}, all, false}}, []v1alpha1.UnhealthyPart{supply, fan}},
		"a reading without details changes": {Inventory{[]v1alpha1.UnhealthyPart{disk}, noon, nil}, []Reading{{Rollup: wire.HealthOK}}, []v1alpha1.UnhealthyPart{disk}},
		"a newer reading replaces":          {Inventory{[]v1alpha1.UnhealthyPart{disk}, noon, nil}, []Reading{{wire.HealthOK, nil, all, false}}, nil},
		"a newer inventory replaces": {
			Inventory{[]v1alpha1.UnhealthyPart{disk}, minute(90), nil}, []Reading{{wire.HealthCritical, []v1alpha1.UnhealthyPart{supply, fan}, all, false}}, []v1alpha1.UnhealthyPart{disk, fan},
		},
		"a class that was not read stays": {
			Inventory{nil, noon, nil}, []Reading{{wire.HealthCritical, []v1alpha1.UnhealthyPart{supply, fan}, all, false}, {wire.HealthCritical, nil, []v1alpha1.PartClass{v1alpha1.PartFan}, false}},
			[]v1alpha1.UnhealthyPart{supply},
		},
		"a part of a class that was not read does not count": {
			Inventory{nil, noon, nil}, []Reading{{wire.HealthOK, []v1alpha1.UnhealthyPart{supply}, []v1alpha1.PartClass{v1alpha1.PartFan}, false}}, nil,
		},
		"a rollup that no part explains is the server":  {Inventory{nil, noon, nil}, []Reading{{wire.HealthCritical, nil, all, false}}, []v1alpha1.UnhealthyPart{server}},
		"a rollup without details is, too":              {Inventory{nil, noon, nil}, []Reading{{Rollup: wire.HealthCritical}}, []v1alpha1.UnhealthyPart{server}},
		"a rollup that is worse than each part is, too": {Inventory{nil, noon, nil}, []Reading{{wire.HealthCritical, []v1alpha1.UnhealthyPart{fan}, all, false}}, []v1alpha1.UnhealthyPart{server, fan}},
		"a part explains the rollup":                    {Inventory{nil, noon, nil}, []Reading{{wire.HealthCritical, []v1alpha1.UnhealthyPart{supply}, all, false}}, []v1alpha1.UnhealthyPart{supply}},
		"the server is one part, with the worse health": {Inventory{[]v1alpha1.UnhealthyPart{ill}, noon, nil}, []Reading{{Rollup: wire.HealthCritical}}, []v1alpha1.UnhealthyPart{server}},
		"the server is one part with the same health":   {Inventory{[]v1alpha1.UnhealthyPart{server}, noon, nil}, []Reading{{Rollup: wire.HealthCritical}}, []v1alpha1.UnhealthyPart{server}},
		"the rollup is OK again":                        {Inventory{nil, noon, nil}, []Reading{{wire.HealthCritical, nil, all, false}, {wire.HealthOK, nil, all, false}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var tracker Tracker
			now := noon
			for _, r := range c.readings {
				now = now.Add(time.Hour)
				tracker.Note(r, now)
			}
			tracker.Update(c.inventory, now)
			if c.want == nil {
				g.Expect(tracker.Status()).To(BeNil(), "nothing is written for a healthy host")
				return
			}
			g.Expect(tracker.Status().Parts).To(Equal(c.want))
		})
	}
}

// TestOldReading: a summary that is older than an hour does not count beside a newer inventory. A part that the inventory does not have stays: nobody has read that it recovered.
func TestOldReading(t *testing.T) {
	g := NewWithT(t)
	var tracker Tracker
	tracker.Note(Reading{wire.HealthCritical, []v1alpha1.UnhealthyPart{fan, disk}, all, false}, noon)
	tracker.Update(Inventory{nil, noon.Add(-time.Minute), nil}, noon.Add(time.Hour))
	g.Expect(tracker.Status().Parts).To(Equal([]v1alpha1.UnhealthyPart{disk, fan}))
	tracker.Update(Inventory{nil, noon.Add(59 * time.Minute), nil}, noon.Add(time.Hour))
	g.Expect(tracker.Status().Parts).To(Equal([]v1alpha1.UnhealthyPart{server, fan}), "the inventory has disks, and no fans")
	tracker.Update(Inventory{nil, noon.Add(61 * time.Minute), nil}, noon.Add(61*time.Minute))
	g.Expect(tracker.Status().Parts).To(Equal([]v1alpha1.UnhealthyPart{fan}))
	tracker.DropReadings()
	tracker.Update(Inventory{nil, noon.Add(61 * time.Minute), nil}, noon.Add(2*time.Hour))
	g.Expect(tracker.Status()).To(BeNil(), "the BMC offers no readings any more")
	tracker.Note(Reading{wire.HealthCritical, []v1alpha1.UnhealthyPart{disk}, all, false}, noon.Add(3*time.Hour))
	g.Expect(tracker.IsStale(noon.Add(4 * time.Hour))).To(BeFalse())
	g.Expect(tracker.IsStale(noon.Add(5 * time.Hour))).To(BeTrue())
	tracker.DropReadings()
	tracker.Update(Inventory{[]v1alpha1.UnhealthyPart{disk}, noon, nil}, noon.Add(3*time.Hour))
	g.Expect(tracker.Status().Parts).To(Equal([]v1alpha1.UnhealthyPart{disk}), "the inventory has it")

	tracker = Tracker{}
	tracker.ReadEvery(2 * time.Hour)
	tracker.Note(Reading{Rollup: wire.HealthCritical}, noon)
	tracker.Update(Inventory{nil, noon.Add(3 * time.Hour), nil}, noon.Add(3*time.Hour))
	g.Expect(tracker.Status().Parts).To(Equal([]v1alpha1.UnhealthyPart{server}), "the next reading comes later")
}

// TestPartialInventory: of a class that an inventory could not read completely, a reading counts that is newer than the last complete inventory, for two days. What the inventory did read counts.
func TestPartialInventory(t *testing.T) {
	for name, c := range map[string]struct {
		reading, inventory []v1alpha1.UnhealthyPart
		kept               bool
		after              time.Duration
		want               []v1alpha1.UnhealthyPart
	}{
		"it could not read the disk that is not healthy": {reading: []v1alpha1.UnhealthyPart{disk}, want: []v1alpha1.UnhealthyPart{disk}},
		"both have it": {reading: []v1alpha1.UnhealthyPart{disk}, inventory: []v1alpha1.UnhealthyPart{disk}, want: []v1alpha1.UnhealthyPart{disk}},
		"it has a disk from before the replacement": {inventory: []v1alpha1.UnhealthyPart{disk}, kept: true},
		"it has a disk that failed since":           {inventory: []v1alpha1.UnhealthyPart{disk}, want: []v1alpha1.UnhealthyPart{disk}},
		"no disk is read any more":                  {reading: []v1alpha1.UnhealthyPart{disk}, after: 48 * time.Hour},
		"no fan is":                                 {reading: []v1alpha1.UnhealthyPart{fan}, after: 48 * time.Hour},
		"no fan is, for a day":                      {reading: []v1alpha1.UnhealthyPart{fan}, after: 24 * time.Hour, want: []v1alpha1.UnhealthyPart{fan}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var tracker Tracker
			tracker.Note(Reading{wire.HealthOK, c.reading, all, false}, noon.Add(10*time.Minute))
			inventory := Inventory{c.inventory, noon.Add(20*time.Minute + c.after), map[v1alpha1.PartClass]Incomplete{v1alpha1.PartDisk: {noon, c.kept}}}
			tracker.Update(inventory, inventory.Time)
			if c.want == nil {
				g.Expect(tracker.Status()).To(BeNil())
				return
			}
			g.Expect(tracker.Status().Parts).To(Equal(c.want))
		})
	}
}

// TestPartialSummary: a better rollup proves nothing while a summary cannot be read, for an hour. A worse one counts.
func TestPartialSummary(t *testing.T) {
	g := NewWithT(t)
	var tracker Tracker
	read := func(rollup wire.Health, partial bool, minutes int) wire.Health {
		tracker.Note(Reading{Rollup: rollup, Partial: partial}, noon.Add(time.Duration(minutes)*time.Minute))
		return tracker.Rollup()
	}
	g.Expect(read(wire.HealthWarning, false, 0)).To(Equal(wire.HealthWarning))
	for minutes, better := range []wire.Health{wire.HealthOK, ""} {
		g.Expect(read(better, true, minutes)).To(Equal(wire.HealthWarning))
	}
	g.Expect(read(wire.HealthCritical, true, 3)).To(Equal(wire.HealthCritical))
	g.Expect(read(wire.HealthWarning, true, 60)).To(Equal(wire.HealthCritical))
	g.Expect(read(wire.HealthOK, true, 61)).To(Equal(wire.HealthOK), "it is never read any more")
	g.Expect(read(wire.HealthOK, false, 62)).To(Equal(wire.HealthOK))
}

// TestContradiction: a part that a reading finds healthy makes the inventory that has it as unhealthy outdated.
func TestContradiction(t *testing.T) {
	g := NewWithT(t)
	var tracker Tracker
	inventory := Inventory{[]v1alpha1.UnhealthyPart{disk}, noon, nil}
	g.Expect(tracker.Contradicts(inventory)).To(BeFalse(), "nothing was read")
	tracker.Note(Reading{wire.HealthCritical, []v1alpha1.UnhealthyPart{disk}, all, false}, noon.Add(time.Minute))
	g.Expect(tracker.Contradicts(inventory)).To(BeFalse())
	tracker.Note(Reading{wire.HealthOK, nil, all, false}, noon.Add(2*time.Minute))
	g.Expect(tracker.Contradicts(inventory)).To(BeTrue())
	inventory.Time = noon.Add(3 * time.Minute)
	g.Expect(tracker.Contradicts(inventory)).To(BeFalse(), "it was read again")
}

// TestRestart: a new process reports what the status shows until it has read something, and then changes nothing if the server has not changed.
func TestRestart(t *testing.T) {
	g := NewWithT(t)
	status := &v1alpha1.HealthStatus{Parts: []v1alpha1.UnhealthyPart{supply, fan}}
	inventory := Inventory{nil, noon.Add(-20 * time.Hour), nil} // from before the fault
	var tracker Tracker
	tracker.Restore(status, inventory, noon)
	g.Expect(tracker.Status().Parts).To(Equal(status.Parts))
	g.Expect(tracker.WantsDetails(noon.Add(time.Minute))).To(BeTrue())
	tracker.Note(Reading{Rollup: wire.HealthCritical}, noon.Add(time.Minute)) // the details took too long
	tracker.Update(inventory, noon.Add(time.Minute))
	g.Expect(tracker.Status().Parts).To(Equal(status.Parts))
	tracker.Note(Reading{wire.HealthCritical, []v1alpha1.UnhealthyPart{supply, fan}, all, false}, noon.Add(2*time.Minute))
	tracker.Update(inventory, noon.Add(2*time.Minute))
	g.Expect(tracker.Status().Parts).To(Equal(status.Parts))
	g.Expect(tracker.Flapping()).To(BeFalse())

	for _, inventory := range []Inventory{{nil, noon.Add(-time.Hour), nil}, {[]v1alpha1.UnhealthyPart{ill}, noon.Add(-time.Hour), nil}} {
		whole := &v1alpha1.HealthStatus{Parts: []v1alpha1.UnhealthyPart{server}}
		tracker = Tracker{}
		tracker.Restore(whole, inventory, noon)
		tracker.Update(inventory, noon.Add(time.Minute)) // an inventory is read first
		g.Expect(tracker.Status()).To(Equal(whole), "the server itself has no reading of its own")
		tracker.Note(Reading{Rollup: wire.HealthWarning}, noon.Add(2*time.Minute))
		tracker.Update(inventory, noon.Add(2*time.Minute))
		g.Expect(tracker.Status().Parts).To(Equal([]v1alpha1.UnhealthyPart{ill}), "it gets better")
		tracker.Note(Reading{Rollup: wire.HealthOK}, noon.Add(3*time.Minute))
		inventory.Parts = nil // the reading changes it, too
		tracker.Update(inventory, noon.Add(3*time.Minute))
		g.Expect(tracker.Status()).To(BeNil())
		inventory.Parts = []v1alpha1.UnhealthyPart{server}
		tracker.Update(inventory, noon.Add(4*time.Minute))
		g.Expect(tracker.Status()).To(Equal(whole), "it gets worse")
	}

	gpu := part(v1alpha1.PartDevice, "GPU 4", wire.HealthWarning)
	tracker = Tracker{}
	tracker.Restore(&v1alpha1.HealthStatus{Parts: []v1alpha1.UnhealthyPart{supply, gpu}}, inventory, noon)
	tracker.Update(inventory, noon.Add(time.Minute))
	g.Expect(tracker.Status().Parts).To(Equal([]v1alpha1.UnhealthyPart{supply}), "devices are in the inventory only")

	tracker = Tracker{}
	tracker.Restore(nil, Inventory{[]v1alpha1.UnhealthyPart{disk}, noon, nil}, noon)
	g.Expect(tracker.Status().Parts).To(Equal([]v1alpha1.UnhealthyPart{disk}), "a status of an earlier version")
}

// TestFlapping: after three changes in ten minutes only what is worse is reported, until nothing changes for ten minutes.
func TestFlapping(t *testing.T) {
	g := NewWithT(t)
	var tracker Tracker
	now := noon
	writes := 0
	read := func(parts ...v1alpha1.UnhealthyPart) {
		before := tracker.Status()
		now = now.Add(time.Minute)
		tracker.Note(Reading{cmp.Or(Worst(parts), wire.HealthOK), parts, all, false}, now)
		tracker.Update(Inventory{}, now)
		after := tracker.Status()
		if (before == nil) != (after == nil) || before != nil && (len(before.Parts) != len(after.Parts) || before.Flapping != after.Flapping) {
			writes++
		}
	}
	read()
	for range 20 {
		read(fan)
		read()
	}
	g.Expect(tracker.Flapping()).To(BeTrue())
	g.Expect(tracker.Status().Parts).To(Equal([]v1alpha1.UnhealthyPart{fan}))
	g.Expect(writes).To(BeNumerically("<=", 5))
	read(fan, supply)
	g.Expect(tracker.Status().Parts).To(HaveLen(2), "it gets worse")
	for range 9 {
		read()
	}
	g.Expect(tracker.Flapping()).To(BeTrue())
	read()
	read()
	g.Expect(tracker.Status()).To(BeNil(), "nothing changed for ten minutes")
}

// TestFlappingOfManyHosts: with many hosts the interval of the readings is longer than ten minutes. A part that changes with each of them flaps all the same.
func TestFlappingOfManyHosts(t *testing.T) {
	for name, interval := range map[string]time.Duration{"300 hosts": time.Minute, "10,000 hosts": 2000 * time.Second} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var tracker Tracker
			now := noon
			read := func(parts ...v1alpha1.UnhealthyPart) {
				now = now.Add(interval + interval/10)
				tracker.ReadEvery(interval)
				tracker.Note(Reading{cmp.Or(Worst(parts), wire.HealthOK), parts, all, false}, now)
				tracker.Update(Inventory{}, now)
			}
			read()
			for range 2 {
				g.Expect(tracker.Flapping()).To(BeFalse())
				read(fan)
				read()
			}
			g.Expect(tracker.Flapping()).To(BeTrue())
		})
	}
}

// TestMany: a status has sixteen parts, and the number of the others.
func TestMany(t *testing.T) {
	g := NewWithT(t)
	var parts []v1alpha1.UnhealthyPart
	for i := range 40 {
		parts = append(parts, part(v1alpha1.PartDisk, strconv.Itoa(i), wire.HealthWarning))
	}
	var tracker Tracker
	tracker.Update(Inventory{parts, noon, nil}, noon)
	g.Expect(tracker.Status().Parts).To(HaveLen(16))
	g.Expect(tracker.Status().Parts[15].Name).To(Equal("15"), "9 comes before 10")
	g.Expect(tracker.Status().OmittedParts).To(BeEquivalentTo(24))
}

// TestWants: the parts are read again every ten minutes while something is wrong, and the logs when the rollup changes.
func TestWants(t *testing.T) {
	g := NewWithT(t)
	var tracker Tracker
	g.Expect(tracker.WantsDetails(noon)).To(BeFalse())
	g.Expect(tracker.WantsLogs(noon)).To(BeTrue())
	tracker.Logs.Note(nil, noon)
	tracker.Note(Reading{Rollup: wire.HealthOK}, noon)
	g.Expect(tracker.WantsLogs(noon.Add(time.Minute))).To(BeFalse())
	tracker.Note(Reading{wire.HealthCritical, []v1alpha1.UnhealthyPart{supply}, all, false}, noon.Add(time.Minute))
	tracker.Update(Inventory{}, noon.Add(time.Minute))
	g.Expect(tracker.WantsLogs(noon.Add(time.Minute))).To(BeTrue(), "the log says why")
	g.Expect(tracker.WantsDetails(noon.Add(10 * time.Minute))).To(BeFalse())
	g.Expect(tracker.WantsDetails(noon.Add(11 * time.Minute))).To(BeTrue())
	tracker = Tracker{}
	tracker.ReadDetailsSoon()
	g.Expect(tracker.WantsDetails(noon)).To(BeTrue())
	tracker.Note(Reading{Rollup: wire.HealthCritical}, noon)
	g.Expect(tracker.WantsDetails(noon.Add(9*time.Minute))).To(BeFalse(), "the BMC does not give the parts")
	g.Expect(tracker.WantsDetails(noon.Add(10 * time.Minute))).To(BeTrue())
}
