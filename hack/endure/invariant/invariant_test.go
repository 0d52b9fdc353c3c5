package invariant

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory"
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
	h.Spec.ConsumerRef = &v1alpha1.ConsumerReference{Name: "m-1"}
}

func claimedByOther(h *v1alpha1.BareMetalHost) {
	h.Spec.ConsumerRef = &v1alpha1.ConsumerReference{Name: "m-2"}
}

func maintained(h *v1alpha1.BareMetalHost) {
	h.Spec.Maintenance = &v1alpha1.Maintenance{Reason: "anna"}
}

func quarantined(h *v1alpha1.BareMetalHost) {
	h.Spec.Quarantine = &v1alpha1.Quarantine{Reason: "Broken"}
}

func external(h *v1alpha1.BareMetalHost) { h.Spec.ExternallyProvisioned = true }

func detached(h *v1alpha1.BareMetalHost) {
	h.Annotations = map[string]string{v1alpha1.DetachedAnnotation: "anna"}
}

func heldBy(h *v1alpha1.BareMetalHost) {
	h.Annotations = map[string]string{v1alpha1.HoldOffPrefix + "anna": "a fan"}
}

func held(h *v1alpha1.BareMetalHost)       { h.Spec.HeldSince = &noon }
func heldOff(h *v1alpha1.BareMetalHost)    { h.Spec.HeldOffAt = &noon }
func cleaning(h *v1alpha1.BareMetalHost)   { h.Spec.CleaningStartedAt = &noon }
func booting(h *v1alpha1.BareMetalHost)    { attemptOf(h) }
func poweredOff(h *v1alpha1.BareMetalHost) { attemptOf(h).PoweredOffAt = &noon }
func reported(h *v1alpha1.BareMetalHost)   { attemptOf(h).ReportedAt = &noon }
func second(h *v1alpha1.BareMetalHost)     { attemptOf(h).Attempt = 2 }
func seeded(h *v1alpha1.BareMetalHost) {
	attemptOf(h).SeededAt, attemptOf(h).SeedAddress = &noon, "192.0.2.1"
}
func seededElsewhere(h *v1alpha1.BareMetalHost) {
	attemptOf(h).SeededAt, attemptOf(h).SeedAddress = &noon, "192.0.2.2"
}

func attemptOf(h *v1alpha1.BareMetalHost) *v1alpha1.BootAttempt {
	if h.Spec.Boot == nil {
		h.Spec.Boot = &v1alpha1.BootAttempt{Attempt: 1, StartedAt: noon}
	}
	return h.Spec.Boot
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

// judgeNow judges what happened so far.
func judgeNow(c *Checker) { c.Judge(time.Now().Add(time.Second)) }

func rules(c *Checker) []string {
	broken := []string{}
	for _, v := range c.Violations() {
		broken = append(broken, v.Rule)
	}
	return broken
}

// TestCommands: which command is in order in which state, and that one which is not is found.
func TestCommands(t *testing.T) {
	run, gone := newMachine(provisioned), newMachine(provisioned, deleting)
	for name, test := range map[string]struct {
		host      *v1alpha1.BareMetalHost
		machine   *v1alpha1.BareMetalMachine
		command   string
		forbidden bool
	}{
		"free":                           {newHost(), nil, "On", true},
		"free, a boot device":            {newHost(), nil, "Boot=PXE", true},
		"claimed, no attempt":            {newHost(claimed), newMachine(), "ForceOff", true},
		"booting, off":                   {newHost(claimed, booting), newMachine(), "ForceOff", false},
		"booting, on before it was off":  {newHost(claimed, booting), newMachine(), "On", true},
		"booting, on":                    {newHost(claimed, poweredOff), newMachine(), "On", false},
		"booting, boot device":           {newHost(claimed, poweredOff), newMachine(), "Boot=PXE", false},
		"booting, off after it was off":  {newHost(claimed, poweredOff), newMachine(), "ForceOff", true},
		"reported, override taken back":  {newHost(claimed, poweredOff, reported), newMachine(), "Boot=None", false},
		"reported, off":                  {newHost(claimed, poweredOff, reported), newMachine(), "ForceOff", true},
		"provisioned, off":               {newHost(claimed, poweredOff, reported), run, "ForceOff", true},
		"provisioned, boot device":       {newHost(claimed, poweredOff, reported), run, "Boot=None", true},
		"provisioned, held, not written": {newHost(claimed, reported, heldBy), run, "ForceOff", true},
		"held":                           {newHost(claimed, reported, heldBy, held), run, "ForceOff", false},
		"held, on":                       {newHost(claimed, reported, heldBy, held), run, "On", true},
		"held and off, off":              {newHost(claimed, reported, heldBy, held, heldOff), run, "ForceOff", true},
		"let on":                         {newHost(claimed, reported, held), run, "On", false},
		"let on, record stands":          {newHost(claimed, reported, held, heldOff), run, "On", true},
		"released":                       {newHost(claimed, reported), gone, "GracefulShutdown", false},
		"released, on":                   {newHost(claimed, reported), gone, "On", true},
		"released, cleaned":              {newHost(claimed, reported, cleaning), gone, "Media=", false},
		"maintenance":                    {newHost(claimed, booting, maintained), newMachine(), "ForceOff", true},
		"external":                       {newHost(external), nil, "ForceOff", true},
		"detached":                       {newHost(claimed, booting, detached), newMachine(), "ForceOff", true},
		"quarantined":                    {newHost(quarantined), nil, "ForceOff", true},
		"machine gone":                   {newHost(claimed, booting), nil, "ForceOff", true},
		"no host":                        {nil, nil, "On", true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			c := newChecker()
			c.ObserveHost(hostName, test.host)
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
				want = []string{RuleCommand}
			}
			g.Expect(rules(c)).To(Equal(want))
		})
	}
}

// TestCommandTimes: a command is in order if it was at a moment in which it may have been decided, and while changes went unseen none is judged.
func TestCommandTimes(t *testing.T) {
	g := NewWithT(t)
	c := newChecker()
	c.times.Slack = time.Minute
	c.ObserveMachine(machineName, newMachine())
	c.ObserveHost(hostName, newHost(claimed, booting))
	c.ObserveHost(hostName, newHost(claimed, booting, maintained))
	now := time.Now()
	c.Command(hostName, "ForceOff", now)
	c.Command(hostName, "ForceOff", now.Add(2*time.Minute)) // long after
	c.Judge(now.Add(time.Hour))
	g.Expect(rules(c)).To(Equal([]string{RuleCommand}))

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
}

func (s server) On() bool      { return s.on }
func (s server) Image() string { return s.image }

// TestChanges: which change of a host breaks which rule.
func TestChanges(t *testing.T) {
	for name, test := range map[string]struct {
		server        server
		before, after *v1alpha1.BareMetalHost
		broken        []string
	}{
		"claimed":                   {server{}, newHost(), newHost(claimed), []string{}},
		"claimed in quarantine":     {server{}, newHost(quarantined), newHost(quarantined, claimed), []string{RuleClaimable}},
		"claimed out of quarantine": {server{}, newHost(quarantined), newHost(claimed), []string{RuleClaimable}},
		"claimed in maintenance":    {server{}, newHost(maintained), newHost(maintained, claimed), []string{RuleClaimable}},
		"claimed while lent":        {server{}, newHost(external), newHost(external, claimed), []string{RuleClaimable}},
		"claimed while detached":    {server{}, newHost(detached), newHost(detached, claimed), []string{RuleClaimable}},
		"taken over":                {server{}, newHost(claimed), newHost(claimedByOther), []string{RuleOneMachine}},
		"released":                  {server{}, newHost(claimed, cleaning), newHost(), []string{}},
		"released, on":              {server{on: true}, newHost(claimed, cleaning), newHost(), []string{RuleClean}},
		"released with media":       {server{image: "http://x"}, newHost(claimed, cleaning), newHost(), []string{RuleClean}},
		"released, not cleaned":     {server{}, newHost(claimed), newHost(), []string{RuleClean}},
		"released into quarantine":  {server{on: true}, newHost(claimed), newHost(quarantined), []string{}},
		"seeded":                    {server{}, newHost(claimed, poweredOff), newHost(claimed, poweredOff, seeded), []string{}},
		"seeded, other address":     {server{}, newHost(claimed, seeded), newHost(claimed, seededElsewhere), []string{RuleSeed}},
		"next attempt":              {server{}, newHost(claimed, booting), newHost(claimed, second), []string{}},
		"next attempt after seed":   {server{}, newHost(claimed, seeded), newHost(claimed, second), []string{RuleSeed}},
		"attempt lost":              {server{}, newHost(claimed, booting), newHost(claimed), []string{RuleBootRecords}},
		"seen off, and not":         {server{}, newHost(claimed, poweredOff), newHost(claimed, booting), []string{RuleBootRecords}},
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

func TestTwoHosts(t *testing.T) {
	g := NewWithT(t)
	c := newChecker()
	c.ObserveHost(hostName, newHost(claimed))
	c.ObserveHost("other/host-2", newHost(claimed)) // another namespace's machine
	g.Expect(rules(c)).To(BeEmpty())
	c.ObserveHost("ns/host-2", newHost(claimed))
	g.Expect(rules(c)).To(Equal([]string{RuleOneHost}))
}

func TestPowerCycle(t *testing.T) {
	g := NewWithT(t)
	c := newChecker()
	c.ObserveHost(hostName, newHost(claimed, poweredOff))
	c.PoweredOn(hostName)
	judgeNow(c)
	g.Expect(rules(c)).To(BeEmpty())
	c.PoweredOn(hostName)
	judgeNow(c)
	g.Expect(rules(c)).To(Equal([]string{RulePowerCycle}))
	c.PowerLost(hostName, "lost its power")
	c.PoweredOn(hostName)
	judgeNow(c)
	g.Expect(rules(c)).To(HaveLen(1), "it lost its power in this attempt")
}

// TestPowerCycleOfLateReport: what was written about when a server came on excuses it no more than what happened after.
func TestPowerCycleOfLateReport(t *testing.T) {
	g := NewWithT(t)
	c := newChecker()
	at := time.Now()
	c.observeHost(hostName, newHost(claimed, poweredOff), span{at.Add(-time.Minute), at.Add(-time.Minute)}, true)
	c.PoweredOn(hostName)
	c.PoweredOn(hostName)
	c.PowerLost(hostName, "lost its power")
	c.observeHost(hostName, newHost(claimed, poweredOff, reported), span{at.Add(-time.Second), at.Add(time.Second)}, true)
	judgeNow(c)
	g.Expect(rules(c)).To(Equal([]string{RulePowerCycle}))
}

func TestSeeds(t *testing.T) {
	g := NewWithT(t)
	c := newChecker()
	c.ObserveHost(hostName, newHost(claimed, poweredOff))
	c.Seeded(hostName, "m-1", "uid-1", "192.0.2.1", 1)
	judgeNow(c)
	g.Expect(rules(c)).To(BeEmpty())
	c.Seeded(hostName, "m-1", "uid-1", "192.0.2.1", 2)
	g.Expect(rules(c)).To(Equal([]string{RuleSeed}), "it was switched on again, and got the same")
	c.Seeded(hostName, "m-2", "uid-2", "192.0.2.1", 3)
	judgeNow(c)
	g.Expect(rules(c)).To(Equal([]string{RuleSeed, RuleSeed}), "another's")
}

// TestHangs: a phase in which something is to happen ends, while nothing is wrong with the BMC; and a machine gets a host.
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
	g.Expect(rules(c)).To(Equal([]string{RulePhase}))

	c = newChecker()
	c.ObserveHost(hostName, newHost())
	c.ObserveMachine("ns/m-2", newMachine())
	judge(3)
	g.Expect(rules(c)).To(BeEmpty())
	judge(1)
	g.Expect(rules(c)).To(Equal([]string{RuleUnclaimed}))
}

// TestRest: at rest nothing is under way, and free servers are off.
func TestRest(t *testing.T) {
	g := NewWithT(t)
	c := newChecker()
	c.Know(hostName, server{on: true})
	c.ObserveHost(hostName, newHost())
	c.ObserveHost("ns/host-2", newHost(claimed, func(h *v1alpha1.BareMetalHost) { h.Status.Phase = v1alpha1.PhaseBooting }))
	c.Rest()
	g.Expect(rules(c)).To(ConsistOf(RuleClean, RulePhase))
}

// TestUnseen: where versions went unseen, nobody can tell how a host came to be as it is.
func TestUnseen(t *testing.T) {
	g := NewWithT(t)
	c := newChecker()
	c.ObserveHost(hostName, newHost(claimed))
	c.observeHost(hostName, newHost(claimedByOther), span{}, false)
	g.Expect(rules(c)).To(BeEmpty())
	c.ObserveHost(hostName, newHost(claimed))
	g.Expect(rules(c)).To(Equal([]string{RuleOneMachine}))
}
