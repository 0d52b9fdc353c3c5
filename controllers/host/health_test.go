package host

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/metrics"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/health"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// TestHardwareHealthy: the condition names the components that are not healthy, the critical ones first.
func TestHardwareHealthy(t *testing.T) {
	many := v1alpha1.Hardware{Health: "Warning"}
	for i := range 20 {
		many.Disks = append(many.Disks, v1alpha1.Disk{Name: strconv.Itoa(i), Health: "Warning"})
	}
	for name, test := range map[string]struct {
		hardware *v1alpha1.Hardware
		status   metav1.ConditionStatus
		reason   string
		message  string
	}{
		"healthy": {
			&v1alpha1.Hardware{Health: "OK", Disks: []v1alpha1.Disk{{Name: "0", Health: "OK"}, {Name: "1"}}}, metav1.ConditionTrue, v1alpha1.ReasonHardwareOK, "",
		},
		"without health": {
			&v1alpha1.Hardware{}, metav1.ConditionUnknown, v1alpha1.ReasonHealthUnknown, "The BMC does not report the health of the server",
		},
		"the server alone": {
			&v1alpha1.Hardware{Health: "Critical"}, metav1.ConditionFalse, v1alpha1.ReasonServerUnhealthy, "The BMC reports server: Critical",
		},
		"a disk, although the server is OK": {
			&v1alpha1.Hardware{Health: "OK", Disks: []v1alpha1.Disk{{Name: "3", Model: "VK000960", SerialNumber: "S1", Health: "Critical"}}},
			metav1.ConditionFalse, v1alpha1.ReasonDiskUnhealthy, "The BMC reports disk 3 (model VK000960, serial number S1): Critical",
		},
		"a server that is worse than its parts": {
			&v1alpha1.Hardware{Health: "Critical", DIMMs: []v1alpha1.DIMM{{Name: "A1", Health: "Warning"}}},
			metav1.ConditionFalse, v1alpha1.ReasonServerUnhealthy, "The BMC reports server: Critical; memory module A1: Warning",
		},
		"several": {
			&v1alpha1.Hardware{
				Health: "Warning", DIMMs: []v1alpha1.DIMM{{Name: "A1", Health: "Warning"}}, PowerSupplies: []v1alpha1.PowerSupply{{Name: "PSU 2", Health: "Critical"}},
				Devices: []v1alpha1.Device{{Class: "GPU", Name: "SXM 4", Health: "Warning"}, {Name: "NIC", Health: "OK"}},
			},
			metav1.ConditionFalse, v1alpha1.ReasonPowerSupplyUnhealthy, "The BMC reports power supply PSU 2: Critical; memory module A1: Warning; GPU SXM 4: Warning",
		},
		"a warning of the server": {
			&v1alpha1.Hardware{Health: "Warning"}, metav1.ConditionFalse, v1alpha1.ReasonServerUnhealthy, "The BMC reports server: Warning",
		},
		"many": {
			&many, metav1.ConditionFalse, v1alpha1.ReasonDiskUnhealthy, "The BMC reports disk 0: Warning; disk 1: Warning; disk 2: Warning; disk 3: Warning; disk 4: Warning; " +
				"disk 5: Warning; disk 6: Warning; disk 7: Warning; and 12 more",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			host := &v1alpha1.BareMetalHost{Status: v1alpha1.BareMetalHostStatus{Hardware: test.hardware}}
			h := &hostObservation{hardware: test.hardware}
			h.health.Update(h.inventoryHealth(h.healthOfServer()), time.Now())
			host.Status.Health = h.healthStatus(nil)
			setHardwareHealthy(host, h.health.Rollup(), false)
			c := conditions.Get(host, v1alpha1.HardwareHealthyCondition)
			g.Expect([]string{string(c.Status), c.Reason, c.Message}).To(Equal([]string{string(test.status), test.reason, test.message}))
			host.Status.Hardware = nil
			setHardwareHealthy(host, "", false)
			g.Expect(conditions.Get(host, v1alpha1.HardwareHealthyCondition)).To(BeNil())
		})
	}
}

// TestClassWords: each class has a reason, and the reason is that of the class alone.
func TestClassWords(t *testing.T) {
	g := NewWithT(t)
	reasons := map[string]bool{}
	for _, class := range health.Classes() {
		g.Expect(classWords[class].reason).To(Equal(string(class) + "Unhealthy"))
		reasons[classWords[class].reason] = true
	}
	g.Expect(classWords).To(HaveLen(len(health.Classes())))
	g.Expect(reasons).To(HaveLen(len(health.Classes())))
	g.Expect(isUnhealthyReason(v1alpha1.ReasonHardwareOK)).To(BeFalse())
	for _, class := range []bmc.PartClass{
		bmc.PartDisk, bmc.PartVolume, bmc.PartMemory, bmc.PartCPU, bmc.PartPowerSupply, bmc.PartFan, bmc.PartTemperature, bmc.PartVoltage, bmc.PartNIC, bmc.PartBMC, bmc.PartChassis,
	} {
		g.Expect(classOf(class)).To(BeEquivalentTo(class), "the drivers and the API have the same words")
	}
}

// healthBMC is a fake BMC whose health and logs the test chooses.
type healthBMC struct {
	*bmctest.Fake

	reading  bmc.HealthReading
	err      error
	logs     []bmc.Log
	logsErr  error
	requests []bmc.HealthRequest
	sensors  []bmc.Sensor
}

func (b *healthBMC) ReadHealth(_ context.Context, request bmc.HealthRequest) (bmc.HealthReading, error) {
	b.requests = append(b.requests, request)
	return b.reading, b.err
}

func (b *healthBMC) ReadLogs(context.Context, []bmc.LogSource) ([]bmc.Log, error) {
	return b.logs, b.logsErr
}

func (b *healthBMC) Sensors(context.Context) ([]bmc.Sensor, error) { return b.sensors, nil }

// TestReadHealth: what a BMC says of the health is recorded within limits. An error does not concern the power, except a refused login.
func TestReadHealth(t *testing.T) {
	for name, c := range map[string]struct {
		b           *healthBMC
		fails       bool // the job, not only the reading
		failures    int
		unsupported bool
		parts       int
	}{
		"healthy":              {b: &healthBMC{reading: bmc.HealthReading{Rollup: bmc.HealthOK, Server: bmc.HealthOK}}},
		"a part":               {b: &healthBMC{reading: bmc.HealthReading{Rollup: bmc.HealthCritical, Read: []bmc.PartClass{bmc.PartFan}, Parts: []bmc.Part{{Class: bmc.PartFan, Name: "1", Health: bmc.HealthCritical}}}}, parts: 1},
		"nonsense":             {b: &healthBMC{reading: bmc.HealthReading{Rollup: "Ill", Read: []bmc.PartClass{"Soul", bmc.PartFan}, Parts: []bmc.Part{{Class: "Soul", Health: "Critical"}, {Class: bmc.PartFan, Health: "Ill"}}}}},
		"too many":             {b: &healthBMC{reading: bmc.HealthReading{Rollup: bmc.HealthCritical, Read: []bmc.PartClass{bmc.PartFan}, Parts: slices.Repeat([]bmc.Part{{Class: bmc.PartFan, Name: verbose, Health: bmc.HealthCritical}}, 5000)}}, parts: 1},
		"an error":             {b: &healthBMC{err: failed(bmc.Failed, "nonsense")}, failures: 1},
		"it does not answer":   {b: &healthBMC{err: failed(bmc.Unreachable, "gone")}, failures: 1},
		"it is not offered":    {b: &healthBMC{err: failed(bmc.Unsupported, "no")}, unsupported: true},
		"a refused login":      {b: &healthBMC{err: failed(bmc.Unauthorized, "no")}, fails: true},
		"no logs":              {b: &healthBMC{logsErr: failed(bmc.Unsupported, "no")}},
		"logs cannot be read":  {b: &healthBMC{logsErr: failed(bmc.Failed, "no")}},
		"refused for the logs": {b: &healthBMC{logsErr: failed(bmc.Unauthorized, "no")}, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			r, j := newTestReconciler(t)
			j.action = lifecycle.ReadHealth
			c.b.Fake = &bmctest.Fake{}
			err := r.performer.jobs.executor.execute(t.Context(), j, c.b)
			final := errors.As(err, new(*finalError))
			g.Expect(err != nil && !final).To(Equal(c.fails))
			got := r.observations.get(j.key)
			g.Expect(got.bmc.Health.Failures).To(Equal(c.failures))
			g.Expect(got.bmc.Health.Unsupported).To(Equal(c.unsupported))
			if c.parts == 0 {
				g.Expect(got.healthStatus(nil)).To(BeNil())
				return
			}
			parts := got.healthStatus(nil).Parts
			g.Expect(parts).To(HaveLen(c.parts))
			g.Expect(len(parts[0].Name)).To(BeNumerically("<=", 256))
		})
	}
}

// TestHealthOfAnotherServer: while another server than the known one answers, its health is not that of the host.
func TestHealthOfAnotherServer(t *testing.T) {
	g := NewWithT(t)
	h := &hostObservation{replacement: &v1alpha1.Hardware{}, hardware: &v1alpha1.Hardware{Health: "OK"}}
	h.noteHealth(bmc.HealthReading{Rollup: bmc.HealthCritical, Server: bmc.HealthCritical, Read: []bmc.PartClass{bmc.PartFan}, Parts: []bmc.Part{{Class: bmc.PartFan, Health: bmc.HealthCritical}}}, time.Now())
	g.Expect(h.healthStatus(nil)).To(BeNil())
	g.Expect(h.hardware.Health).To(BeEquivalentTo("OK"))
}

// TestHealthOfTheServer: the health of the server itself follows the reading, without a change of what others have of the inventory, and a part that has recovered makes the inventory due.
func TestHealthOfTheServer(t *testing.T) {
	g := NewWithT(t)
	known := &v1alpha1.Hardware{Health: "OK", Disks: []v1alpha1.Disk{{Name: "3", Health: "Critical"}}}
	now := time.Now()
	h := &hostObservation{hardware: known, inventoryAt: now.Add(-time.Hour), bmc: lifecycle.BMC{InspectedTime: now.Add(-time.Hour)}}
	h.noteHealth(bmc.HealthReading{Rollup: bmc.HealthCritical, Server: bmc.HealthCritical}, now)
	g.Expect(h.hardware.Health).To(BeEquivalentTo("Critical"))
	g.Expect(known.Health).To(BeEquivalentTo("OK"))
	g.Expect(h.bmc.InspectedTime.IsZero()).To(BeFalse())
	h.noteHealth(bmc.HealthReading{Rollup: bmc.HealthOK, Server: bmc.HealthOK, Read: []bmc.PartClass{bmc.PartDisk}}, now)
	g.Expect(h.bmc.InspectedTime.IsZero()).To(BeTrue())
	g.Expect(h.healthStatus(nil)).To(BeNil())
}

// TestFlappingOfManyHosts: a reading knows the interval that the number of hosts gives it, so that a part that changes with each reading flaps.
func TestFlappingOfManyHosts(t *testing.T) {
	g := NewWithT(t)
	b, clock := &healthBMC{Fake: &bmctest.Fake{}}, clocktesting.NewFakePassiveClock(time.Now())
	r, j := newTestReconciler(t, func(r *Reconciler) {
		r.Clock = clock
		r.Pool = bmc.NewPool(map[string]bmc.Driver{"fake": {Open: func(context.Context, bmc.Endpoint) (bmc.Client, error) { return b, nil }}}, bmc.PoolOptions{})
	})
	defer r.Pool.Close()
	host := &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: j.key.Namespace, Name: j.key.Name}}
	for i := range 5 {
		b.reading = bmc.HealthReading{Rollup: bmc.HealthOK, Read: []bmc.PartClass{bmc.PartFan}}
		if i%2 == 1 {
			b.reading.Rollup, b.reading.Parts = bmc.HealthCritical, []bmc.Part{{Class: bmc.PartFan, Health: bmc.HealthCritical}}
		}
		clock.SetTime(clock.Now().Add(1000 * time.Second))
		wait, err := r.performer.jobs.submit(t.Context(), host, lifecycle.View{Now: clock.Now(), Provider: lifecycle.Provider{Hosts: 10000}}, lifecycle.ReadHealth)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(wait).To(BeZero())
		g.Eventually(r.enqueuer.channel).Should(Receive())
		g.Eventually(r.Pool.Busy).WithArguments(j.key.String()).Should(BeFalse())
	}
	g.Expect(b.requests).To(HaveLen(5))
	got := r.observations.get(j.key)
	g.Expect(got.health.Flapping()).To(BeTrue())
}

// TestLogTexts: the API server accepts the entries of a log, whatever a BMC writes.
func TestLogTexts(t *testing.T) {
	g := NewWithT(t)
	logs := logsOf(slices.Repeat([]bmc.Log{{
		LogSource: bmc.LogSource{Name: "SEL"},
		Entries:   slices.Repeat([]bmc.LogEntry{{ID: verbose, Message: "\x1b[2J" + verbose, Severity: bmc.Health(verbose), Time: time.Date(12026, 1, 1, 0, 0, 0, 0, time.UTC)}}, 1000),
	}}, 100))
	g.Expect(logs).To(HaveLen(bmc.MaxLogs))
	g.Expect(logs[0].Entries).To(HaveLen(bmc.MaxLogEntries))
	e := logs[0].Entries[0]
	g.Expect(len(e.ID)).To(BeNumerically("<=", 64))
	g.Expect(len(e.Message)).To(BeNumerically("<=", 256))
	g.Expect(e.Message).NotTo(ContainSubstring("\x1b"))
	g.Expect(e.Severity).To(BeEmpty())
	g.Expect(e.Time.IsZero()).To(BeTrue(), "the API has no such year")
	g.Expect(logsOf([]bmc.Log{{LogSource: bmc.LogSource{Name: "/a\x00b"}}, {LogSource: bmc.LogSource{Name: "/" + strings.Repeat("a", 300)}}})).To(BeEmpty())
}

// TestLogEvent: an entry of a log is one event, with the severity, the time of the BMC's clock and its place in the log. The API server accepts the event of any entry.
func TestLogEvent(t *testing.T) {
	g := NewWithT(t)
	_, j := newTestReconciler(t)
	j.uid = "1"
	now, at := time.Now(), metav1.NewTime(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	entry := v1alpha1.LogEntry{Time: &at, Log: "SEL", ID: "7", Severity: "Critical", Message: "PSU 2: input lost"}
	event := logEvent(j, entry, now)
	g.Expect(event.Note).To(Equal("Critical: PSU 2: input lost (entry 7 of the log SEL)"))
	g.Expect(event.Type).To(Equal("Warning"))
	g.Expect(event.EventTime.Time).To(BeTemporally("==", at.Time))
	g.Expect(logEvent(j, entry, now.Add(time.Hour)).Name).To(Equal(event.Name))
	for what, other := range map[string]v1alpha1.LogEntry{
		"ID":      {Time: &at, Log: "SEL", ID: "8", Severity: "Critical", Message: "PSU 2: input lost"},
		"log":     {Time: &at, Log: "IML", ID: "7", Severity: "Critical", Message: "PSU 2: input lost"},
		"time":    {Time: new(metav1.NewTime(at.Add(time.Second))), Log: "SEL", ID: "7", Severity: "Critical", Message: "PSU 2: input lost"},
		"message": {Time: &at, Log: "SEL", ID: "7", Severity: "Critical", Message: "PSU 1: input lost"},
	} {
		g.Expect(logEvent(j, other, now).Name).NotTo(Equal(event.Name), what)
	}
	longest := v1alpha1.LogEntry{Log: strings.Repeat("l", 256), ID: strings.Repeat("i", maxLogID), Message: strings.Repeat("m", maxLogText)}
	event = logEvent(j, longest, now)
	g.Expect(event.Type).To(Equal("Normal"))
	g.Expect(event.EventTime.Time).To(BeTemporally("==", now))
	g.Expect(event.Note).To(HavePrefix("The BMC gives no time: "))
	g.Expect(len(event.Note)).To(BeNumerically("<=", 1024))
}

// TestSensors: only sensors of the kinds that are asked for are kept, within limits, and old ones are not shown.
func TestSensors(t *testing.T) {
	g := NewWithT(t)
	r, j := newTestReconciler(t, func(r *Reconciler) { r.SensorKinds = []string{metrics.KindInlet, "Fan"} })
	b := &healthBMC{Fake: &bmctest.Fake{}, sensors: append([]bmc.Sensor{
		{Name: "Inlet Temp", Kind: "Temperature", Value: 21, Unit: "Cel"}, {Name: "CPU 1", Kind: "Temperature", Value: 60, Unit: "Cel"}, {Name: "Fan 1", Kind: "Fan", Value: 4000, Unit: "RPM"},
		{Name: "Fan 1", Kind: "Fan", Value: 5000, Unit: "RPM"},
	}, slices.Repeat([]bmc.Sensor{{Name: verbose, Kind: "Fan"}}, 600)...)}
	j.action = lifecycle.ReadHealth
	g.Expect(r.performer.jobs.executor.execute(t.Context(), j, b)).To(Succeed())
	var names []string
	each := func(_, host string, s metrics.Sensor) { names = append(names, host+" "+s.Kind+" "+s.Name) }
	r.EachSensor(each)
	g.Expect(names).To(HaveLen(3))
	g.Expect(names).To(ContainElements("h InletTemperature Inlet Temp", "h Fan Fan 1")) //nolint:dupword // the kind, and the name
	names = nil
	later := time.Now().Add(time.Hour)
	r.observations.eachSensor(later, 3*sensorsInterval, each)
	g.Expect(names).To(BeEmpty())
	for n := range 10_000 { // each host is read every 33 minutes
		r.observations.get(types.NamespacedName{Namespace: "dc", Name: strconv.Itoa(n)})
	}
	r.Clock = clocktesting.NewFakePassiveClock(later)
	r.EachSensor(each)
	g.Expect(names).To(HaveLen(3))
}
