package health

import (
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
		"the inventory alone":               {Inventory{[]v1alpha1.UnhealthyPart{disk}, noon}, nil, []v1alpha1.UnhealthyPart{disk}},
		"a part explains the server":        {Inventory{[]v1alpha1.UnhealthyPart{server, disk}, noon}, nil, []v1alpha1.UnhealthyPart{disk}},
		"a warning does not":                {Inventory{[]v1alpha1.UnhealthyPart{server, fan}, noon}, nil, []v1alpha1.UnhealthyPart{server, fan}},
		"the chassis explains the server":   {Inventory{[]v1alpha1.UnhealthyPart{server}, noon}, []Reading{{wire.HealthCritical, []v1alpha1.UnhealthyPart{box}, all}}, []v1alpha1.UnhealthyPart{box}},
		"a reading adds, the worst first":   {Inventory{nil, noon}, []Reading{{wire.HealthCritical, []v1alpha1.UnhealthyPart{fan, supply}, all}}, []v1alpha1.UnhealthyPart{supply, fan}},
		"a reading without details changes": {Inventory{[]v1alpha1.UnhealthyPart{disk}, noon}, []Reading{{Rollup: wire.HealthOK}}, []v1alpha1.UnhealthyPart{disk}},
		"a newer reading replaces":          {Inventory{[]v1alpha1.UnhealthyPart{disk}, noon}, []Reading{{wire.HealthOK, nil, all}}, nil},
		"a newer inventory replaces": {
			Inventory{[]v1alpha1.UnhealthyPart{disk}, minute(90)}, []Reading{{wire.HealthCritical, []v1alpha1.UnhealthyPart{supply, fan}, all}}, []v1alpha1.UnhealthyPart{disk, fan},
		},
		"a class that was not read stays": {
			Inventory{nil, noon}, []Reading{{wire.HealthCritical, []v1alpha1.UnhealthyPart{supply, fan}, all}, {wire.HealthCritical, nil, []v1alpha1.PartClass{v1alpha1.PartFan}}},
			[]v1alpha1.UnhealthyPart{supply},
		},
		"a part of a class that was not read does not count": {
			Inventory{nil, noon}, []Reading{{wire.HealthCritical, []v1alpha1.UnhealthyPart{supply}, []v1alpha1.PartClass{v1alpha1.PartFan}}}, nil,
		},
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

// TestContradiction: a part that a reading finds healthy makes the inventory that has it as unhealthy outdated.
func TestContradiction(t *testing.T) {
	g := NewWithT(t)
	var tracker Tracker
	inventory := Inventory{[]v1alpha1.UnhealthyPart{disk}, noon}
	g.Expect(tracker.Contradicts(inventory)).To(BeFalse(), "nothing was read")
	tracker.Note(Reading{wire.HealthCritical, []v1alpha1.UnhealthyPart{disk}, all}, noon.Add(time.Minute))
	g.Expect(tracker.Contradicts(inventory)).To(BeFalse())
	tracker.Note(Reading{wire.HealthOK, nil, all}, noon.Add(2*time.Minute))
	g.Expect(tracker.Contradicts(inventory)).To(BeTrue())
	inventory.Time = noon.Add(3 * time.Minute)
	g.Expect(tracker.Contradicts(inventory)).To(BeFalse(), "it was read again")
}

// TestRestart: a new process reports what the status shows until it has read something, and then changes nothing if the server has not changed.
func TestRestart(t *testing.T) {
	g := NewWithT(t)
	status := &v1alpha1.HealthStatus{Parts: []v1alpha1.UnhealthyPart{supply, fan}}
	inventory := Inventory{nil, noon.Add(-20 * time.Hour)} // from before the fault
	var tracker Tracker
	tracker.Restore(status, inventory, noon)
	g.Expect(tracker.Status().Parts).To(Equal(status.Parts))
	g.Expect(tracker.WantsDetails(noon.Add(time.Minute))).To(BeTrue())
	tracker.Note(Reading{Rollup: wire.HealthCritical}, noon.Add(time.Minute)) // the details took too long
	tracker.Update(inventory, noon.Add(time.Minute))
	g.Expect(tracker.Status().Parts).To(Equal(status.Parts))
	tracker.Note(Reading{wire.HealthCritical, []v1alpha1.UnhealthyPart{supply, fan}, all}, noon.Add(2*time.Minute))
	tracker.Update(inventory, noon.Add(2*time.Minute))
	g.Expect(tracker.Status().Parts).To(Equal(status.Parts))
	g.Expect(tracker.Flapping()).To(BeFalse())

	tracker = Tracker{}
	tracker.Restore(nil, Inventory{[]v1alpha1.UnhealthyPart{disk}, noon}, noon)
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
		tracker.Note(Reading{wire.HealthWarning, parts, all}, now)
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

// TestMany: a status has sixteen parts, and the number of the others.
func TestMany(t *testing.T) {
	g := NewWithT(t)
	var parts []v1alpha1.UnhealthyPart
	for i := range 40 {
		parts = append(parts, part(v1alpha1.PartDisk, strconv.Itoa(i), wire.HealthWarning))
	}
	var tracker Tracker
	tracker.Update(Inventory{parts, noon}, noon)
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
	tracker.Note(Reading{wire.HealthCritical, []v1alpha1.UnhealthyPart{supply}, all}, noon.Add(time.Minute))
	tracker.Update(Inventory{}, noon.Add(time.Minute))
	g.Expect(tracker.WantsLogs(noon.Add(time.Minute))).To(BeTrue(), "the log says why")
	g.Expect(tracker.WantsDetails(noon.Add(10 * time.Minute))).To(BeFalse())
	g.Expect(tracker.WantsDetails(noon.Add(11 * time.Minute))).To(BeTrue())
	tracker = Tracker{}
	tracker.ReadDetailsSoon()
	g.Expect(tracker.WantsDetails(noon)).To(BeTrue())
}
