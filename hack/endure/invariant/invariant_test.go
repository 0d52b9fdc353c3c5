package invariant

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/promise"
)

const hostName, machineName = "ns/host-1", "ns/m-1"

var noon = metav1.NewTime(time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC))

type hostChange func(*v1alpha1.BareMetalHost)

func newHost(changes ...hostChange) *v1alpha1.BareMetalHost {
	h := &v1alpha1.BareMetalHost{}
	h.Status.Phase = v1alpha1.PhaseAvailable
	for _, change := range changes {
		change(h)
	}
	return h
}

func claimed(h *v1alpha1.BareMetalHost) {
	h.Spec.ConsumerRef = &v1alpha1.ConsumerReference{Name: "m-1", ClaimID: "claim-1"}
}

func claimedByOther(h *v1alpha1.BareMetalHost) {
	h.Spec.ConsumerRef = &v1alpha1.ConsumerReference{Name: "m-2", ClaimID: "claim-2"}
}

func claimedAnew(h *v1alpha1.BareMetalHost) {
	h.Spec.ConsumerRef = &v1alpha1.ConsumerReference{Name: "m-1", ClaimID: "claim-2"}
}

// counts is a host whose first boot is under way.
func counts(h *v1alpha1.BareMetalHost) {
	metav1.SetMetaDataAnnotation(&h.ObjectMeta, v1alpha1.BlockMoveAnnotation, "a test")
	h.Spec.ProviderState.Boots = 1
}

// counted is a host that was booted.
func counted(h *v1alpha1.BareMetalHost) { h.Spec.ProviderState.Boots = 1 }

func bootUnknown(h *v1alpha1.BareMetalHost) { h.Status.Phase = v1alpha1.PhaseBootUnknown }

func maintained(h *v1alpha1.BareMetalHost) {
	h.Spec.Maintenance = &v1alpha1.Maintenance{Reason: "anna"}
}

func quarantined(h *v1alpha1.BareMetalHost) {
	h.Spec.Quarantine = &v1alpha1.Quarantine{Reason: "Broken"}
}

// drained is a maintenance that permits a settings run, and runOpen a host with an open one.
func drained(h *v1alpha1.BareMetalHost) {
	h.Spec.Maintenance = &v1alpha1.Maintenance{Reason: "anna", DrainedBy: "anna"}
}

func runOpen(h *v1alpha1.BareMetalHost) { h.Spec.ProviderState.SettingsRuns = 1 }

func external(h *v1alpha1.BareMetalHost) { h.Spec.ExternallyProvisioned = true }

func detached(h *v1alpha1.BareMetalHost) {
	h.Annotations = map[string]string{v1alpha1.DetachedAnnotation: "anna"}
}

func heldBy(h *v1alpha1.BareMetalHost) {
	h.Annotations = map[string]string{v1alpha1.PowerHoldPrefix + "anna": "a fan"}
}

func held(h *v1alpha1.BareMetalHost)     { h.Spec.ProviderState.PowerHoldStartTime = &noon }
func heldOff(h *v1alpha1.BareMetalHost)  { h.Spec.ProviderState.PowerHoldOffTime = &noon }
func cleaning(h *v1alpha1.BareMetalHost) { h.Spec.ProviderState.CleaningStartTime = &noon }
func leaving(h *v1alpha1.BareMetalHost)  { h.DeletionTimestamp = &noon }

type bootChange func(*v1alpha1.BareMetalBootSpec)

// newBoot is the first boot of the host's first claim.
func newBoot(changes ...bootChange) *v1alpha1.BareMetalBoot {
	b := &v1alpha1.BareMetalBoot{Spec: v1alpha1.BareMetalBootSpec{
		Number: 1, Attempt: 1, Purpose: v1alpha1.PurposeProvision, ClaimID: "claim-1", MachineName: "m-1", StartTime: noon,
	}}
	for _, change := range changes {
		change(&b.Spec)
	}
	return b
}

func poweredOff(b *v1alpha1.BareMetalBootSpec) { b.PoweredOffTime = &noon }
func poweredOn(b *v1alpha1.BareMetalBootSpec)  { b.PoweredOffTime, b.PoweredOnTime = &noon, &noon }
func reported(b *v1alpha1.BareMetalBootSpec)   { b.ReportedTime = &noon }
func voided(b *v1alpha1.BareMetalBootSpec)     { b.VoidedTime = &noon }
func second(b *v1alpha1.BareMetalBootSpec)     { b.Number, b.Attempt = 2, 2 }
func ofOther(b *v1alpha1.BareMetalBootSpec)    { b.ClaimID = "claim-2" }
func scripted(b *v1alpha1.BareMetalBootSpec)   { b.ScriptAddress = "192.0.2.1" }
func served(b *v1alpha1.BareMetalBootSpec)     { b.DataServedTime, b.DataAddress = &noon, "192.0.2.1" }
func servedElsewhere(b *v1alpha1.BareMetalBootSpec) {
	b.DataServedTime, b.DataAddress = &noon, "192.0.2.2"
}

type machineChange func(*v1alpha1.BareMetalMachine)

func newMachine(changes ...machineChange) *v1alpha1.BareMetalMachine {
	m := &v1alpha1.BareMetalMachine{}
	for _, change := range changes {
		change(m)
	}
	return m
}

func provisioned(m *v1alpha1.BareMetalMachine) {
	m.Spec.ProviderID = inventory.ProviderID("ns", "host-1", "m-1")
}
func deleting(m *v1alpha1.BareMetalMachine) { m.DeletionTimestamp = &noon }

func newChecker() *Checker {
	return New(Times{Slack: time.Millisecond, Lag: time.Millisecond, Phase: 3 * time.Second, Boot: 5 * time.Second, Alike: "ns"})
}

// judgeNow judges all events up to now.
func judgeNow(c *Checker) { c.Judge(time.Now().Add(time.Second)) }

func rules(c *Checker) []string {
	broken := []string{}
	for _, v := range c.Violations() {
		broken = append(broken, v.Rule)
	}
	return broken
}

// TestCommands: which command is in order in which state. A command that is not is reported.
func TestCommands(t *testing.T) {
	run, gone := newMachine(provisioned), newMachine(provisioned, deleting)
	begun, off, on, done := newBoot(), newBoot(poweredOff), newBoot(poweredOn), newBoot(poweredOn, served, reported)
	for name, test := range map[string]struct {
		host      *v1alpha1.BareMetalHost
		boot      *v1alpha1.BareMetalBoot
		machine   *v1alpha1.BareMetalMachine
		command   string
		forbidden bool
	}{
		"free":                               {newHost(), nil, nil, "On", true},
		"free, a boot device":                {newHost(), nil, nil, "Boot=PXE", true},
		"free and deleted, off":              {newHost(leaving), nil, nil, "ForceOff", true},
		"free and deleted in a boot, off":    {newHost(leaving, counted), on, nil, "ForceOff", false},
		"claimed, no boot":                   {newHost(claimed), nil, newMachine(), "ForceOff", true},
		"booting, off":                       {newHost(claimed, counts), begun, newMachine(), "ForceOff", false},
		"booting, not counted":               {newHost(claimed), begun, newMachine(), "ForceOff", true},
		"booting, another number":            {newHost(claimed, counts), newBoot(second), newMachine(), "ForceOff", true},
		"booting, another claim's":           {newHost(claimed, counts), newBoot(ofOther), newMachine(), "ForceOff", true},
		"booting, void":                      {newHost(claimed, counts), newBoot(voided), newMachine(), "ForceOff", true},
		"booting, its record lost":           {newHost(claimed, counts), nil, newMachine(), "ForceOff", true},
		"booting, no move waits":             {newHost(claimed, counted), begun, newMachine(), "ForceOff", true},
		"booting, on before it was off":      {newHost(claimed, counts), begun, newMachine(), "On", true},
		"booting, on":                        {newHost(claimed, counts), on, newMachine(), "On", false},
		"booting, on before it was recorded": {newHost(claimed, counts), off, newMachine(), "On", true},
		"booting, boot device":               {newHost(claimed, counts), off, newMachine(), "Boot=PXE", false},
		"booting, boot device, served":       {newHost(claimed, counts), newBoot(poweredOn, served), newMachine(), "Boot=PXE", true},
		"booting, override taken back":       {newHost(claimed, counts), newBoot(poweredOn, served), newMachine(), "Boot=None", false},
		"booting, off after it was off":      {newHost(claimed, counts), off, newMachine(), "ForceOff", true},
		"reported, override taken back":      {newHost(claimed, counted), done, newMachine(), "Boot=None", false},
		"reported, off":                      {newHost(claimed, counts), done, newMachine(), "ForceOff", true},
		"provisioned, off":                   {newHost(claimed, counted), done, run, "ForceOff", true},
		"provisioned, boot device":           {newHost(claimed, counted), done, run, "Boot=None", true},
		"provisioned, held, not written":     {newHost(claimed, counted, heldBy), done, run, "ForceOff", true},
		"held":                               {newHost(claimed, counted, heldBy, held), done, run, "ForceOff", false},
		"held, on":                           {newHost(claimed, counted, heldBy, held), done, run, "On", true},
		"held and off, off":                  {newHost(claimed, counted, heldBy, held, heldOff), done, run, "ForceOff", true},
		"let on":                             {newHost(claimed, counted, held), done, run, "On", false},
		"let on, record stands":              {newHost(claimed, counted, held, heldOff), done, run, "On", true},
		"released":                           {newHost(claimed, counted), done, gone, "GracefulShutdown", false},
		"released, its record lost":          {newHost(claimed, counted), nil, gone, "GracefulShutdown", false},
		"released, on":                       {newHost(claimed, counted), done, gone, "On", true},
		"released, cleaned":                  {newHost(claimed, counted, cleaning), done, gone, "Media=", false},
		"maintenance":                        {newHost(claimed, counts, maintained), begun, newMachine(), "ForceOff", true},
		"external":                           {newHost(external), nil, nil, "ForceOff", true},
		"detached":                           {newHost(claimed, counts, detached), begun, newMachine(), "ForceOff", true},
		"quarantined":                        {newHost(quarantined), nil, nil, "ForceOff", true},
		"machine gone":                       {newHost(claimed, counts), begun, nil, "ForceOff", true},
		"no host":                            {nil, nil, nil, "On", true},
		"settings":                           {newHost(runOpen), nil, nil, "BIOS=a", false},
		"settings, no run":                   {newHost(), nil, nil, "BIOS=a", true},
		"settings, quarantined":              {newHost(runOpen, quarantined), nil, nil, "BIOS=a", true},
		"settings, claimed":                  {newHost(runOpen, claimed), nil, newMachine(), "BIOS=a", true},
		"settings, provisioned":              {newHost(runOpen, claimed, counted), done, run, "BIOS=a", true},
		"settings, in maintenance":           {newHost(runOpen, claimed, counted, maintained), done, run, "BIOS=a", true},
		"settings, drained":                  {newHost(runOpen, claimed, counted, drained), done, run, "BIOS=a", false},
		"drained, off":                       {newHost(runOpen, claimed, counted, drained), done, run, "GracefulShutdown", false},
		"drained, off, no run":               {newHost(claimed, counted, drained), done, run, "GracefulShutdown", true},
		"drained, another machine":           {newHost(runOpen, claimed, counted, drained), done, newMachine(), "GracefulShutdown", true},
		"maintenance over, on":               {newHost(runOpen, claimed, counted), done, run, "On", false},
		"maintenance over, off":              {newHost(runOpen, claimed, counted), done, run, "ForceOff", true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			c := newChecker()
			c.ObserveHost(hostName, test.host)
			c.ObserveBoot(hostName, test.boot)
			if test.machine != nil {
				c.ObserveMachine(machineName, test.machine)
			}
			at := time.Now().Add(time.Second)
			c.Command(hostName, test.command, at)
			c.Judge(at)
			g.Expect(rules(c)).To(BeEmpty(), "it was judged too early")
			c.Judge(at.Add(time.Second))
			g.Expect(c.Judged).To(Equal(1))
			want := []string{}
			if test.forbidden {
				want = []string{promise.Command}
			}
			g.Expect(rules(c)).To(Equal(want))
		})
	}
}

// TestCommandTimes: a command is in order if it was in order at a time when it may have been decided. No command is judged while changes were missed.
func TestCommandTimes(t *testing.T) {
	g := NewWithT(t)
	c := newChecker()
	c.times.Slack = time.Minute
	c.ObserveMachine(machineName, newMachine())
	c.ObserveBoot(hostName, newBoot())
	c.ObserveHost(hostName, newHost(claimed, counts))
	c.ObserveHost(hostName, newHost(claimed, counts, maintained))
	now := time.Now()
	c.Command(hostName, "ForceOff", now)
	c.Command(hostName, "ForceOff", now.Add(2*time.Minute)) // long after
	c.Judge(now.Add(time.Hour))
	g.Expect(rules(c)).To(Equal([]string{promise.Command}))

	over := c.Trouble()
	c.Command(hostName, "ForceOff", now.Add(2*time.Minute))
	c.Judge(now.Add(time.Hour))
	g.Expect(c.Judged).To(Equal(2), "the API server is away: who knows what was so")
	over()
	c.gap(now, now.Add(time.Hour))
	c.Judge(now.Add(2 * time.Hour))
	g.Expect(c.Unjudged).To(Equal(1))
	g.Expect(rules(c)).To(HaveLen(1))
}

type server struct {
	on    bool
	image string
	disk  Disk
}

func (s server) On() bool      { return s.on }
func (s server) Image() string { return s.image }
func (s server) Disks() []Disk { return []Disk{s.disk} }

// TestChanges: which change of a host violates which rule.
func TestChanges(t *testing.T) {
	for name, test := range map[string]struct {
		server        server
		before, after *v1alpha1.BareMetalHost
		broken        []string
	}{
		"claimed":                   {server{}, newHost(), newHost(claimed), []string{}},
		"claimed in quarantine":     {server{}, newHost(quarantined), newHost(quarantined, claimed), []string{promise.Claimable}},
		"claimed out of quarantine": {server{}, newHost(quarantined), newHost(claimed), []string{promise.Claimable}},
		"claimed in maintenance":    {server{}, newHost(maintained), newHost(maintained, claimed), []string{promise.Claimable}},
		"claimed while lent":        {server{}, newHost(external), newHost(external, claimed), []string{promise.Claimable}},
		"claimed while detached":    {server{}, newHost(detached), newHost(detached, claimed), []string{promise.Claimable}},
		"taken over":                {server{}, newHost(claimed), newHost(claimedByOther), []string{promise.OneMachine}},
		"released":                  {server{}, newHost(claimed, cleaning), newHost(), []string{}},
		"released, on":              {server{on: true}, newHost(claimed, cleaning), newHost(), []string{promise.Clean}},
		"released with media":       {server{image: "http://x"}, newHost(claimed, cleaning), newHost(), []string{promise.Clean}},
		"released, not cleaned":     {server{}, newHost(claimed), newHost(), []string{promise.Clean}},
		"released into quarantine":  {server{on: true}, newHost(claimed), newHost(quarantined), []string{}},
		"counted":                   {server{}, newHost(claimed), newHost(claimed, counts), []string{}},
		"counted, no move waits":    {server{}, newHost(claimed), newHost(claimed, counted), []string{promise.Records}},
		"counted back":              {server{}, newHost(claimed, counts), newHost(claimed), []string{promise.Numbers}},
		"claimed by another claim":  {server{}, newHost(claimed), newHost(claimedAnew), []string{promise.Forgotten}},
		"claimed in a run":          {server{}, newHost(runOpen), newHost(runOpen, claimed), []string{promise.Claimable}},
		"claimed, and a run":        {server{}, newHost(), newHost(runOpen, claimed), []string{promise.Command, promise.Claimable}},
		"a run of a machine":        {server{}, newHost(claimed), newHost(claimed, runOpen), []string{promise.Command}},
		"a run in maintenance":      {server{}, newHost(claimed, drained), newHost(claimed, drained, runOpen), []string{}},
		"runs counted back":         {server{}, newHost(runOpen), newHost(), []string{promise.Numbers}},
		"nobody knows":              {server{}, newHost(claimed, counted), newHost(claimed, counted, bootUnknown), []string{promise.Records}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newChecker()
			c.Know(hostName, test.server)
			c.ObserveHost(hostName, test.before)
			c.ObserveHost(hostName, test.after)
			judgeNow(c)
			NewWithT(t).Expect(rules(c)).To(Equal(test.broken))
		})
	}
}

// TestBootChanges: which change of a boot violates which rule.
func TestBootChanges(t *testing.T) {
	anew := newBoot(served, poweredOn)
	anew.UID = "another"
	for name, test := range map[string]struct {
		before, after *v1alpha1.BareMetalBoot
		broken        []string
	}{
		"begun":                      {&v1alpha1.BareMetalBoot{}, newBoot(), []string{}},
		"served":                     {newBoot(poweredOn), newBoot(poweredOn, scripted, served), []string{}},
		"served while off":           {newBoot(poweredOff), newBoot(poweredOff, scripted), []string{promise.Records}},
		"served to another address":  {newBoot(poweredOn, served), newBoot(poweredOn, servedElsewhere), []string{promise.Data}},
		"script to another address":  {newBoot(poweredOn, scripted), newBoot(poweredOn, func(b *v1alpha1.BareMetalBootSpec) { b.ScriptAddress = "192.0.2.2" }), []string{promise.Records}},
		"next boot":                  {newBoot(poweredOn), newBoot(second), []string{}},
		"next boot after it served":  {newBoot(poweredOn, served), newBoot(second), []string{promise.Data}},
		"next boot of another claim": {newBoot(poweredOn, served, voided), newBoot(second, ofOther), []string{}},
		"number falls":               {newBoot(second), newBoot(), []string{promise.Numbers}},
		"another claim":              {newBoot(), newBoot(ofOther), []string{promise.Records}},
		"seen off, and not":          {newBoot(poweredOff), newBoot(), []string{promise.Records}},
		"void, and not":              {newBoot(voided), newBoot(), []string{promise.Records}},
		"restored":                   {newBoot(served, poweredOn), anew, []string{}},
		"void, and lost":             {newBoot(voided), nil, []string{}},
		"lost":                       {newBoot(), nil, []string{promise.Records}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newChecker()
			c.ObserveHost(hostName, newHost(claimed, counts))
			c.ObserveBoot(hostName, test.before)
			c.ObserveBoot(hostName, test.after)
			judgeNow(c)
			NewWithT(t).Expect(rules(c)).To(Equal(test.broken))
		})
	}
}

// TestFreeIsVoid: at the revision at which a host is released or claimed its boot is void.
func TestFreeIsVoid(t *testing.T) {
	at := func(revision string, h *v1alpha1.BareMetalHost) *v1alpha1.BareMetalHost {
		h.ResourceVersion = revision
		return h
	}
	boot := func(revision string, b *v1alpha1.BareMetalBoot) *v1alpha1.BareMetalBoot {
		b.ResourceVersion = revision
		return b
	}
	for name, test := range map[string]struct {
		hosts  []*v1alpha1.BareMetalHost
		boots  []*v1alpha1.BareMetalBoot
		broken []string
	}{
		"void before it is free": {
			[]*v1alpha1.BareMetalHost{at("10", newHost(claimed, cleaning)), at("22", newHost())},
			[]*v1alpha1.BareMetalBoot{boot("11", newBoot()), boot("21", newBoot(voided))}, []string{},
		},
		"void after it is free": {
			[]*v1alpha1.BareMetalHost{at("10", newHost(claimed, cleaning)), at("21", newHost())},
			[]*v1alpha1.BareMetalBoot{boot("11", newBoot()), boot("22", newBoot(voided))}, []string{promise.Void},
		},
		"claimed, no boot yet": {
			[]*v1alpha1.BareMetalHost{at("10", newHost()), at("21", newHost(claimed))}, []*v1alpha1.BareMetalBoot{boot("9", &v1alpha1.BareMetalBoot{})}, []string{},
		},
		"claimed, and another claim's is not void": {
			[]*v1alpha1.BareMetalHost{at("10", newHost()), at("21", newHost(claimed))}, []*v1alpha1.BareMetalBoot{boot("9", newBoot(ofOther))}, []string{promise.Void},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newChecker()
			for _, h := range test.hosts {
				c.ObserveHost(hostName, h)
			}
			for _, b := range test.boots {
				c.ObserveBoot(hostName, b)
			}
			judgeNow(c)
			NewWithT(t).Expect(rules(c)).To(Equal(test.broken))
		})
	}
}

func TestTwoHosts(t *testing.T) {
	g := NewWithT(t)
	c := newChecker()
	c.ObserveHost(hostName, newHost(claimed))
	c.ObserveHost("other/host-2", newHost(claimed)) // another namespace's machine
	g.Expect(rules(c)).To(BeEmpty())
	c.ObserveHost("ns/host-2", newHost(claimed))
	g.Expect(rules(c)).To(Equal([]string{promise.OneHost}))
}

func TestPowerCycle(t *testing.T) {
	g := NewWithT(t)
	c := newChecker()
	c.ObserveHost(hostName, newHost(claimed, counts))
	c.ObserveBoot(hostName, newBoot(poweredOn))
	c.PoweredOn(hostName)
	judgeNow(c)
	g.Expect(rules(c)).To(BeEmpty())
	c.PoweredOn(hostName)
	judgeNow(c)
	g.Expect(rules(c)).To(Equal([]string{promise.PowerCycle}))
	c.PowerLost(hostName, "lost its power")
	c.PoweredOn(hostName)
	judgeNow(c)
	g.Expect(rules(c)).To(HaveLen(1), "it lost its power in this attempt")
}

// TestPowerCycleOfSuspended: the agent of a host in maintenance is refused and powers its server off, and the boot continues once. Without an agent nothing powers it off.
func TestPowerCycleOfSuspended(t *testing.T) {
	for name, agent := range map[string]bool{"agent": true, "no agent": false} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			c, noon := newChecker(), time.Now()
			at := func(minute int) time.Time { return noon.Add(time.Duration(minute) * time.Minute) }
			observe := func(minute int, changes ...hostChange) {
				c.observeHost(hostName, newHost(append(changes, claimed, counts)...), span{at(minute), at(minute)}, true)
			}
			observe(0)
			c.observeBoot(hostName, newBoot(poweredOn, func(s *v1alpha1.BareMetalBootSpec) { s.Agent = agent }), span{at(0), at(0)}, true)
			c.judgePowerOn(hostName, at(1), time.Time{})
			observe(2, maintained)
			observe(3)
			c.judgePowerOn(hostName, at(4), time.Time{})
			if !agent {
				g.Expect(rules(c)).To(Equal([]string{promise.PowerCycle}))
				return
			}
			g.Expect(rules(c)).To(BeEmpty())
			c.judgePowerOn(hostName, at(5), time.Time{})
			g.Expect(rules(c)).To(Equal([]string{promise.PowerCycle}), "the maintenance was over before")
		})
	}
}

// TestMoveBlockOfRegisteredAgain: a host that is registered again counts its boots from one again. The boot that has the number now says whether a move must wait.
func TestMoveBlockOfRegisteredAgain(t *testing.T) {
	for purpose, broken := range map[v1alpha1.BootPurpose][]string{v1alpha1.PurposeClean: {}, v1alpha1.PurposeProvision: {promise.Records}} {
		t.Run(string(purpose), func(t *testing.T) {
			c := newChecker()
			c.ObserveBoot(hostName, newBoot(poweredOn))
			c.ObserveBoot(hostName, nil)
			c.ObserveHost(hostName, newHost(claimed))
			again := newBoot(func(s *v1alpha1.BareMetalBootSpec) { s.Purpose = purpose })
			again.UID = "again"
			c.ObserveBoot(hostName, again)
			c.ObserveHost(hostName, newHost(claimed, counted))
			judgeNow(c)
			NewWithT(t).Expect(rules(c)).To(Equal(broken))
		})
	}
}

// TestPowerCycleOfLateReport: a write at about the time of the power-on excuses it no more than a later one.
func TestPowerCycleOfLateReport(t *testing.T) {
	g := NewWithT(t)
	c := newChecker()
	at := time.Now()
	c.observeHost(hostName, newHost(claimed, counts), span{at.Add(-time.Minute), at.Add(-time.Minute)}, true)
	c.observeBoot(hostName, newBoot(poweredOn), span{at.Add(-time.Minute), at.Add(-time.Minute)}, true)
	c.PoweredOn(hostName)
	c.PoweredOn(hostName)
	c.PowerLost(hostName, "lost its power")
	c.observeBoot(hostName, newBoot(poweredOn, reported), span{at.Add(-time.Second), at.Add(time.Second)}, true)
	judgeNow(c)
	g.Expect(rules(c)).To(Equal([]string{promise.PowerCycle}))
}

func TestSeeds(t *testing.T) {
	g := NewWithT(t)
	c := newChecker()
	c.ObserveHost(hostName, newHost(claimed, counts))
	c.ObserveBoot(hostName, newBoot(poweredOn, served))
	c.Seeded(hostName, "m-1", "claim-1-1", "192.0.2.1", 1)
	judgeNow(c)
	g.Expect(rules(c)).To(BeEmpty())
	c.Seeded(hostName, "m-1", "claim-1-1", "192.0.2.1", 2)
	g.Expect(rules(c)).To(Equal([]string{promise.Data}), "it was switched on again, and got the same")
	c.Seeded(hostName, "m-2", "claim-2-1", "192.0.2.1", 3)
	judgeNow(c)
	g.Expect(rules(c)).To(Equal([]string{promise.Data, promise.Data}), "another's")

	c = newChecker()
	c.ObserveHost(hostName, newHost(claimed, counts))
	c.ObserveBoot(hostName, newBoot(poweredOn))
	c.Seeded(hostName, "m-1", "claim-1-1", "192.0.2.1", 1)
	judgeNow(c)
	g.Expect(rules(c)).To(Equal([]string{promise.Data}), "it was not recorded")
}

// TestHangs: a transient phase ends unless the BMC has a fault, and a machine gets a host.
func TestHangs(t *testing.T) {
	g := NewWithT(t)
	c := newChecker()
	now := time.Now().Add(time.Hour)
	judge := func(times int) {
		for range times {
			now = now.Add(time.Second)
			c.Judge(now)
		}
	}
	releasing := func(h *v1alpha1.BareMetalHost) { h.Status.Phase = v1alpha1.PhaseReleasing }
	c.ObserveHost(hostName, newHost(claimed, releasing))
	over := c.Fault(hostName, "Down")
	judge(20)
	g.Expect(rules(c)).To(BeEmpty())
	over()
	c.Starved(true)
	judge(20)
	g.Expect(rules(c)).To(BeEmpty())
	c.Starved(false)
	judge(3)
	g.Expect(rules(c)).To(BeEmpty())
	judge(1)
	g.Expect(rules(c)).To(Equal([]string{promise.Ends}))

	c = newChecker()
	c.ObserveHost(hostName, newHost())
	c.ObserveMachine("ns/m-2", newMachine())
	judge(3)
	g.Expect(rules(c)).To(BeEmpty())
	judge(1)
	g.Expect(rules(c)).To(Equal([]string{promise.Unclaimed}))
}

// TestRest: at rest nothing is under way, and free servers are off.
func TestRest(t *testing.T) {
	g := NewWithT(t)
	c := newChecker()
	c.Know(hostName, server{on: true})
	c.ObserveHost(hostName, newHost())
	c.ObserveHost("ns/host-2", newHost(claimed, func(h *v1alpha1.BareMetalHost) { h.Status.Phase = v1alpha1.PhaseBooting }))
	c.ObserveBoot("ns/host-2", newBoot())
	c.Rest()
	g.Expect(rules(c)).To(ConsistOf(promise.Clean, promise.Ends))
	c = newChecker()
	c.ObserveHost(hostName, newHost())
	c.ObserveBoot(hostName, newBoot())
	c.Rest()
	g.Expect(rules(c)).To(ConsistOf(promise.Void))
}

// TestUnseen: no change is judged by versions that were missed.
func TestUnseen(t *testing.T) {
	g := NewWithT(t)
	c := newChecker()
	c.ObserveHost(hostName, newHost(claimed))
	c.observeHost(hostName, newHost(claimedByOther), span{}, false)
	g.Expect(rules(c)).To(BeEmpty())
	c.ObserveHost(hostName, newHost(claimed))
	g.Expect(rules(c)).To(Equal([]string{promise.OneMachine}))
}
