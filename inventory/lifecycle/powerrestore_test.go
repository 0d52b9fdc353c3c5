package lifecycle

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// lostPower makes a server one of a rack that lost its power some time ago, and whose power returned.
func lostPower(ago time.Duration) func(*View) {
	return func(v *View) {
		v.Host.Spec.FailureDomain, v.Host.Spec.WhenPoweredOff = "rack-1", v1alpha1.WhenPoweredOffPowerOn
		readsOffFor(ago)(v)
		nodeSays(v1alpha1.NodeNotReady, ago)(v)
		v.PowerLoss.PoweredOffTime, v.PowerLoss.Outage = noon.Add(-ago), &Outage{Lost: 39}
		v.BMC.InspectedTime, v.BMC.HealthReadAt = noon.Add(-time.Second), noon.Add(-time.Second)
	}
}

// poweredOnBefore records that the server was powered on after this loss of power.
func poweredOnBefore(times int32, ago time.Duration) func(*View) {
	return func(v *View) {
		v.PowerLoss.Restore = &v1alpha1.PowerRestore{
			LostTime: metav1.NewTime(noon.Add(-ago - 5*time.Minute)), Servers: 40, PowerOns: times, LastPowerOnTime: metav1.NewTime(noon.Add(-ago)),
		}
		v.BMC.LastPower, v.BMC.LastPowerAt = CommandPowerOn, noon.Add(-ago)
	}
}

func neighbours(o Outage) func(*View) { return func(v *View) { v.PowerLoss.Outage = &o } }
func unsent(v *View)                  { v.BMC.LastPower, v.BMC.LastPowerAt = "", time.Time{} }
func critical(v *View)                { v.BMC.HealthCritical = true }
func inQuarantine(v *View)            { v.Host.Spec.Quarantine = &v1alpha1.Quarantine{Reason: "R"} }
func onlyReports(v *View)             { v.Host.Spec.WhenPoweredOff = v1alpha1.WhenPoweredOffReport }
func noSlot(v *View)                  { v.QueuePosition = &QueuePosition{Number: 37, Booting: 250} }
func notReadSince(v *View) {
	v.BMC.InspectedTime, v.BMC.HealthReadAt = noon.Add(-time.Hour), noon.Add(-time.Hour)
}
func notReadCompletely(v *View) { v.BMC.HealthReadAt = noon.Add(-time.Hour) }
func readBefore(ago time.Duration) func(*View) {
	return func(v *View) { v.BMC.InspectedTime, v.BMC.HealthReadAt = noon.Add(-ago), noon.Add(-ago) }
}
func persistent(v *View) { v.BMC.Override = &v1alpha1.BootOverrideStatus{Persistent: true} }
func recordedAhead(v *View) {
	v.PowerLoss.Restore.LastPowerOnTime = metav1.NewTime(noon.Add(10 * time.Minute))
}
func justReadOff(v *View) { v.BMC.PowerSince = v.BMC.PowerAt }
func mediumLeft(v *View)  { v.BMC.MediaInserted = true }
func restored(ago time.Duration) func(*View) {
	return func(v *View) { v.PowerLoss.Restore.EndTime = &metav1.Time{Time: noon.Add(-ago)} }
}

// TestPowerOnAfterOutage: a server is powered on if its failure domain lost its power, after five minutes and twice at most.
func TestPowerOnAfterOutage(t *testing.T) {
	lost, now := lostPower(5*time.Minute), time.Second
	for name, test := range map[string]struct {
		changes []func(*View)
		action  Action
		message string // that the message of the condition contains
	}{
		"for five minutes":           {[]func(*View){lost}, RecordPowerRestore, "40 servers of failure domain \"rack-1\" lost their power together"},
		"it is recorded":             {[]func(*View){lost, poweredOnBefore(1, now), unsent}, PowerOn, "is being powered on"},
		"the second try is recorded": {[]func(*View){lostPower(20 * time.Minute), poweredOnBefore(2, now), unsent}, PowerOn, "is being powered on"},
		"recorded by a process before, and off was read once": {[]func(*View){lost, poweredOnBefore(1, now), unsent, justReadOff}, Nothing, "Another reading must confirm that"},
		"recorded by a clock that was ahead":                  {[]func(*View){lost, poweredOnBefore(1, now), unsent, recordedAhead}, Nothing, "tries again after"},
		"off again, after it was on":                          {[]func(*View){lost, poweredOnBefore(1, 8*time.Minute), neighbours(Outage{Running: 39})}, Nothing, "39 other servers"},
		"off for more than six hours":                         {[]func(*View){lostPower(6*time.Hour + time.Second)}, Nothing, "off for more than 6h0m0s"},
		"its health could not be read":                        {[]func(*View){lost, notReadCompletely}, Nothing, "could not be read"},
		"a persistent override is not cleared":                {[]func(*View){lost, persistent}, Nothing, "refused to clear a boot override"},
		"it was recorded too long ago":                        {[]func(*View){lostPower(20 * time.Minute), poweredOnBefore(1, time.Minute), unsent}, Nothing, "tries again after 2026-01-01T12:09:00Z"},
		"it was sent":                                         {[]func(*View){lost, poweredOnBefore(1, now), readAfterCommand}, Nothing, "tries again after 2026-01-01T12:09:59Z"},
		"it stays off":                                        {[]func(*View){lostPower(20 * time.Minute), poweredOnBefore(1, 10*time.Minute)}, RecordPowerRestore, "40 servers"},
		"it stays off, and its health was not read since":     {[]func(*View){lostPower(20 * time.Minute), poweredOnBefore(1, 10*time.Minute), readBefore(11 * time.Minute)}, Inspect, "Reading the health"},
		"off for days after a try, as in a pause":             {[]func(*View){lostPower(48 * time.Hour), poweredOnBefore(1, 47*time.Hour)}, Nothing, "off for more than 6h0m0s"},
		"it stays off after two tries":                        {[]func(*View){lostPower(30 * time.Minute), poweredOnBefore(2, 10*time.Minute)}, Nothing, "it did that 2 times"},
		"for less than five minutes":                          {[]func(*View){lostPower(5*time.Minute - time.Second)}, Nothing, "powers it on after 2026-01-01T12:00:01Z"},
		"Report":                                              {[]func(*View){lost, onlyReports}, Nothing, "the provider did not power it off"},
		"a neighbour runs":                                    {[]func(*View){lost, neighbours(Outage{Lost: 38, Running: 1})}, Nothing, "1 other servers of failure domain \"rack-1\" did not lose their power"},
		"alone":                                               {[]func(*View){lost, neighbours(Outage{})}, Nothing, "no other server"},
		"most BMCs do not answer":                             {[]func(*View){lost, neighbours(Outage{Lost: 1, Unknown: 2})}, Nothing, "2 other servers of failure domain \"rack-1\" boot, or their BMCs do not answer"},
		"some BMCs do not answer":                             {[]func(*View){lost, neighbours(Outage{Lost: 2, Unknown: 2})}, RecordPowerRestore, "3 servers"},
		"the neighbours are not known":                        {[]func(*View){lost, func(v *View) { v.PowerLoss.Outage = nil }}, Nothing, "is not known"},
		"its health is critical":                              {[]func(*View){lost, critical}, Nothing, "critical"},
		"in quarantine":                                       {[]func(*View){lost, inQuarantine}, Nothing, "quarantine"},
		"the BMC is that of another host":                     {[]func(*View){lost, func(v *View) { v.Identity.BMCTakenBy = otherHost("h") }}, Nothing, "in doubt whose BMC"},
		"its disks were being erased":                         {[]func(*View){lost, bootServedJustNow, func(v *View) { v.Host.Boot.Purpose, v.Host.Boot.DataServedTime = v1alpha1.PurposeClean, nil }}, Nothing, "being erased"},
		"no boot slot is free":                                {[]func(*View){lost, noSlot}, Nothing, "Number 37 in the boot queue"},
		"the inventory is older":                              {[]func(*View){lost, notReadSince}, Inspect, "Reading the health"},
		"an override is left":                                 {[]func(*View){lost, overrideSet}, ClearBootOverride, "boot override is being cleared"},
		"a medium is left":                                    {[]func(*View){lost, mediumLeft}, EjectMedia, "medium is being ejected"},
		"the BMC does not answer":                             {[]func(*View){lost, bmcDown}, Nothing, "Waiting for the BMC"},
		"lost again, soon after it had returned":              {[]func(*View){lost, poweredOnBefore(2, 50*time.Minute), restored(40 * time.Minute)}, Nothing, "it did that 2 times"},
		"lost again, an hour after that":                      {[]func(*View){lost, poweredOnBefore(2, 80*time.Minute), restored(65 * time.Minute)}, RecordPowerRestore, "40 servers"},
		"off alone, long after it was tried":                  {[]func(*View){lost, poweredOnBefore(1, 2*time.Hour), neighbours(Outage{Running: 39})}, Nothing, "39 other servers"},
		"on, and its Node is Ready":                           {[]func(*View){poweredOn, poweredOnBefore(1, 5*time.Minute), nodeSays(v1alpha1.NodeReady, time.Minute)}, RecordPowerRestore, ""},
		"on, and its Node was Ready before":                   {[]func(*View){poweredOn, poweredOnBefore(1, 5*time.Minute), nodeSays(v1alpha1.NodeReady, time.Hour)}, Nothing, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			v := claimedView(append([]func(*View){provisioned}, test.changes...)...)
			step := Next(v, DefaultSettings())
			g.Expect(step.State).To(Equal(StateProvisioned))
			g.Expect(step.Action).To(Equal(test.action), step.Message)
			g.Expect(step.Message).To(ContainSubstring(test.message))
			if !v.PowerLoss.PoweredOffTime.IsZero() {
				g.Expect(step.Reason).To(Equal(v1alpha1.ReasonPoweredOff))
			}
		})
	}
}

func readAfterCommand(v *View) { v.BMC.PowerAt, v.BMC.LastPowerAt = noon, noon.Add(-time.Second) }

// TestPowerOnRecord: what is recorded before a power-on, and that a further try belongs to the same loss of power.
func TestPowerOnRecord(t *testing.T) {
	g := NewWithT(t)
	first := Next(claimedView(provisioned, lostPower(5*time.Minute)), DefaultSettings()).PowerRestore
	g.Expect(first).To(Equal(&v1alpha1.PowerRestore{
		LostTime: metav1.NewTime(noon.Add(-5 * time.Minute)), Servers: 40, PowerOns: 1, LastPowerOnTime: metav1.NewTime(noon),
	}))
	v := claimedView(provisioned, lostPower(15*time.Minute), poweredOnBefore(1, 10*time.Minute))
	again := Next(v, DefaultSettings()).PowerRestore
	g.Expect(again).To(Equal(&v1alpha1.PowerRestore{LostTime: v.PowerLoss.Restore.LostTime, Servers: 40, PowerOns: 2, LastPowerOnTime: metav1.NewTime(noon)}))
}

// TestPowerOnSlot: a server needs a boot slot from its power-on until its Node is Ready, and for ten minutes at most.
func TestPowerOnSlot(t *testing.T) {
	g := NewWithT(t)
	s := DefaultSettings()
	wants := claimedView(provisioned, lostPower(5*time.Minute))
	g.Expect(WantsToBoot(wants, s)).To(BeTrue())
	silent := wants
	silent.BMC.Problem = &BMCProblem{Reason: "R", RetryAt: noon.Add(-time.Second)}
	g.Expect(WantsToBoot(silent, s)).To(BeFalse(), "its BMC does not answer")
	wants.BMC.HealthCritical = true
	g.Expect(WantsToBoot(wants, s)).To(BeFalse())
	v := claimedView(provisioned, poweredOn, poweredOnBefore(1, time.Minute))
	g.Expect(v.BootsUntil(s)).To(Equal(noon.Add(9 * time.Minute)))
	restored(0)(&v)
	g.Expect(v.BootsUntil(s)).To(BeZero())
	v = claimedView(provisioned, poweredOn, poweredOnBefore(1, time.Minute), recordedAhead)
	g.Expect(v.BootsUntil(s)).To(BeZero(), "the clock was set back")
	nodeSays(v1alpha1.NodeReady, time.Second)(&v)
	g.Expect(Next(v, s).PowerRestore.EndTime).NotTo(BeNil(), "the clock was set back")
}
