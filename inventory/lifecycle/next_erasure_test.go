package lifecycle

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/cleaning"
)

func hostPolicy(p wire.ErasePolicy) func(*View) {
	return func(v *View) { v.Host.Spec.CleaningPolicy = p }
}

func machinePolicy(p wire.ErasePolicy) func(*View) {
	return func(v *View) { v.Host.Spec.ConsumerRef.CleaningPolicy = p }
}

func hasDisks(v *View) {
	v.Host.Spec.ConsumerRef.Disks = []wire.DiskIdentity{{SerialNumber: "S1"}, {WWN: "5000c500a1b2c3d4"}, {ByPath: "pci-0000:00:1f.2-ata-1"}}
}

// runsFor is when a boot began.
func runsFor(d time.Duration) func(*View) {
	return func(v *View) { v.Host.Boot.StartTime = metav1.NewTime(noon.Add(-d)) }
}

// progressAgo is when the agent reported progress.
func progressAgo(d time.Duration) func(*View) {
	return func(v *View) { v.Observed.AgentAt = noon.Add(-d) }
}

// releasedView is a host that is being released by a machine that ran from the network. Its server is off, and its BMC is clean.
func releasedView(changes ...func(*View)) View {
	return bootingView(append([]func(*View){provisioned, deleting, cleaningBegan, cleaned, moveFree}, changes...)...)
}

const (
	none     = wire.PolicyNone
	metadata = wire.PolicyMetadata
	clears   = wire.PolicyClear
	purge    = wire.PolicyPurge
	manual   = wire.PolicyManual
)

// released is what becomes of a host that is being released.
type released struct {
	// erases is true if a boot begins that erases disks, with the policy.
	erases bool
	policy wire.ErasePolicy
	// quarantine is the reason of the quarantine of a host that is released; empty for none.
	quarantine string
}

func withImage(v *View) { v.Consumer.Image = true }

// release follows the steps until the host is released, or an erasure begins.
func release(t *testing.T, v View, s Settings) (released, Step) {
	t.Helper()
	for range 5 {
		step := Next(v, s)
		switch {
		case step.Action == RecordBoot && step.Boot.VoidedTime == nil && step.Boot.Failure == nil:
			NewWithT(t).Expect(step.Boot.Purpose).To(Equal(v1alpha1.PurposeClean))
			NewWithT(t).Expect(step.Boot.Agent).To(BeTrue())
			return released{erases: true, policy: step.Boot.CleaningPolicy}, step
		case step.Action == RecordBoot:
			v.Host.Boot = step.Boot
		case step.Action == Release:
			if step.Quarantine == nil {
				return released{}, step
			}
			return released{quarantine: step.Quarantine.Reason}, step
		default:
			t.Fatalf("%s in %s: %s", step.Action, step.State, step.Message)
		}
	}
	t.Fatal("no end")
	return released{}, Step{}
}

// TestErasureOfARelease: what a release erases, by the policy and by what is known of the claim.
func TestErasureOfARelease(t *testing.T) {
	const lost = v1alpha1.ReasonDisksNotErased
	neverBooted := func(changes ...func(*View)) View {
		return claimedView(append([]func(*View){deleting, cleaningBegan, cleaned}, changes...)...)
	}
	for name, c := range map[string]struct {
		view    View
		minimum wire.ErasePolicy
		want    released
	}{
		"nothing is set":                         {releasedView(), "", released{}},
		"the provider wrote a disk":              {releasedView(writtenDisk), "", released{true, "", ""}},
		"and the host keeps its data":            {releasedView(writtenDisk, hostPolicy(none)), "", released{}},
		"Metadata of all disks":                  {releasedView(hostPolicy(metadata)), "", released{true, metadata, ""}},
		"Clear after a machine without an image": {releasedView(hostPolicy(clears)), "", released{true, clears, ""}},
		"Clear after a machine from memory":      {releasedView(hostPolicy(clears), ephemeral), "", released{true, clears, ""}},
		"Purge after a machine with an image":    {releasedView(bootsAgent, writtenDisk, hostPolicy(purge)), "", released{true, purge, ""}},
		"the machine asks for Purge":             {releasedView(hostPolicy(none), machinePolicy(purge)), "", released{true, purge, ""}},
		"the machine cannot ask for less":        {releasedView(hostPolicy(purge), machinePolicy(metadata)), "", released{true, purge, ""}},
		"the minimum":                            {releasedView(), clears, released{true, clears, ""}},
		"the minimum is no maximum":              {releasedView(hostPolicy(purge)), metadata, released{true, purge, ""}},
		"a person decides":                       {releasedView(writtenDisk, hostPolicy(manual), machinePolicy(purge)), purge, released{false, "", v1alpha1.ReasonCleaningByHand}},
		"the boot failed":                        {releasedView(hostPolicy(purge), func(v *View) { v.Host.Boot.Failure = &v1alpha1.BootFailure{Reason: "r", Message: "m"} }), "", released{true, purge, ""}},
		"never booted":                           {neverBooted(hostPolicy(purge)), purge, released{}},
		"never booted, but an earlier machine's disk was not erased": {neverBooted(hostPolicy(purge), writtenDisk), "", released{true, "", ""}},
		"recorded and not counted, so never booted":                  {releasedView(hostPolicy(purge), uncounted, func(v *View) { v.Consumer.ProviderID = "" }), "", released{}},
		"not counted, and it runs":                                   {releasedView(hostPolicy(purge), uncounted), "", released{true, purge, ""}},
		"the record is lost":                                         {releasedView(hostPolicy(purge), noRecord), "", released{false, "", lost}},
		"the record is old":                                          {releasedView(hostPolicy(clears), oldRecord), "", released{false, "", lost}},
		"the record is that of another claim":                        {releasedView(hostPolicy(metadata), recordOfOtherClaim), "", released{false, "", lost}},
		"the record is lost, and the minimum asks":                   {releasedView(noRecord), clears, released{false, "", lost}},
		"the record is lost of a machine without an image":           {releasedView(noRecord), "", released{}},
		"the claim has no ID":                                        {releasedView(hostPolicy(purge), noClaimID), "", released{false, "", lost}},
		"an image, and the claim has no ID":                          {releasedView(withImage, noClaimID), "", released{false, "", lost}},
		"an image, and the record is lost":                           {releasedView(withImage, noRecord), "", released{false, "", lost}},
		"something else runs the server in mid-erasure":              {erasingView(poweredOn, external), "", released{false, "", lost}},
		"the record is lost of a server that was never booted":       {neverBooted(hostPolicy(purge), noRecord), "", released{}},
		"erased":                               {erasingView(cleaned, agentDone, hostPolicy(purge), func(v *View) { v.Host.Boot.CleaningPolicy, v.Host.Boot.WrittenDisks = purge, nil }), "", released{}},
		"erased, and the policy was raised":    {erasingView(cleaned, agentDone, hostPolicy(purge), func(v *View) { v.Host.Boot.CleaningPolicy, v.Host.Boot.WrittenDisks = clears, nil }), "", released{}},
		"the erasure failed":                   {erasingView(cleaned, hostPolicy(purge), func(v *View) { v.Host.Boot.Failure = &v1alpha1.BootFailure{Reason: lost, Message: "m"} }), "", released{false, "", lost}},
		"it failed, and now the data may stay": {erasingView(cleaned, hostPolicy(none), func(v *View) { v.Host.Boot.Failure = &v1alpha1.BootFailure{Reason: lost, Message: "m"} }), "", released{false, "", lost}},
	} {
		t.Run(name, func(t *testing.T) {
			s := DefaultSettings()
			s.MinimumCleaningPolicy = c.minimum
			got, step := release(t, c.view, s)
			NewWithT(t).Expect(got).To(Equal(c.want), step.Message)
		})
	}
}

// TestErasureIsNotChanged: an erasure that has begun is finished with its policy, whatever the host says then.
func TestErasureIsNotChanged(t *testing.T) {
	for _, policy := range []wire.ErasePolicy{"", none, metadata, clears, purge, manual} {
		g := NewWithT(t)
		begun := []func(*View){poweredOn, hostPolicy(policy), func(v *View) { v.Host.Boot.CleaningPolicy, v.Host.Boot.WrittenDisks = clears, nil }}
		step := Next(erasingView(begun...), DefaultSettings())
		g.Expect([]any{step.State, step.Action}).To(Equal([]any{StateCleaning, Nothing}), step.Message)
		g.Expect(BootFor(erasingView(begun...), DefaultSettings())).To(Equal(BootAgent))
		step = Next(erasingView(append(begun, expired)...), DefaultSettings())
		g.Expect([]any{step.Action, step.Boot.Attempt, step.Boot.CleaningPolicy}).To(Equal([]any{RecordBoot, int32(2), clears}))
	}
}

// TestErasureDeadline: an agent that makes progress has a day, and one that makes none has the time of a boot.
func TestErasureDeadline(t *testing.T) {
	for name, c := range map[string]struct {
		changes []func(*View)
		ends    bool
		message string
	}{
		"alive for ten hours": {[]func(*View){runsFor(10 * time.Hour), progressAgo(time.Minute)}, false, ""},
		"silent after ten hours": {
			[]func(*View){runsFor(10 * time.Hour), progressAgo(31 * time.Minute)}, true, "30m0s after the agent last made progress in boot attempt 1",
		},
		"silent from the start": {[]func(*View){expired}, true, "30m0s after boot attempt 1 began"},
		"alive for more than a day": {
			[]func(*View){runsFor(24*time.Hour + time.Minute), progressAgo(time.Minute)}, true, "24h0m0s after boot attempt 1 began, although the agent makes progress",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			view := erasingView(append([]func(*View){poweredOn, agentSeen}, c.changes...)...)
			step := Next(view, DefaultSettings())
			if !c.ends {
				g.Expect(step.Action).To(Equal(Nothing), step.Message)
				g.Expect(step.RequeueAt).To(BeTemporally("~", noon, 30*time.Minute))
				g.Expect(BootFor(view, DefaultSettings())).To(Equal(BootAgent), "it is served")
				g.Expect(view.BootsUntil(DefaultSettings())).To(BeTemporally(">", noon), "it keeps its boot slot")
				return
			}
			g.Expect([]any{step.Action, step.Boot.Attempt}).To(Equal([]any{RecordBoot, int32(2)}))
			g.Expect(step.Message).To(ContainSubstring(c.message))
			g.Expect(BootFor(view, DefaultSettings())).To(Equal(BootNothing))
		})
	}
}

// TestErasureFailsWithSerialNumbers: the quarantine names the disks, and what the agent said.
func TestErasureFailsWithSerialNumbers(t *testing.T) {
	g := NewWithT(t)
	v := erasingView(poweredOn, attempt3, hasDisks, hostPolicy(purge), func(v *View) {
		v.Observed.Problem = &v1alpha1.BootFailure{Reason: wire.ReasonEraseFailed, Message: "disk S9 is missing"}
	})
	step := Next(v, DefaultSettings())
	v = erasingView(cleaned, hasDisks, hostPolicy(purge), func(v *View) { v.Host.Boot = step.Boot })
	got, last := release(t, v, DefaultSettings())
	g.Expect(got.quarantine).To(Equal(v1alpha1.ReasonDisksNotErased))
	g.Expect(last.Quarantine.Message).To(And(ContainSubstring("disk S9 is missing"), ContainSubstring("(S1, 5000c500a1b2c3d4, pci-0000:00:1f.2-ata-1)")))

	_, last = release(t, releasedView(hostPolicy(purge), hasDisks, noRecord), DefaultSettings())
	g.Expect(last.Quarantine.Message).To(ContainSubstring("Wipe the disks (S1, 5000c500a1b2c3d4"))
	step = Next(erasingView(poweredOn, attempt3, gaveUp(wire.ReasonEraseFailed)), DefaultSettings())
	g.Expect(step.Boot.Failure.Message).To(ContainSubstring("Wipe the disks (d1)"), "otherwise those that the provider wrote")
	step = Next(erasingView(poweredOn, gaveUp(wire.ReasonOtherServer)), DefaultSettings())
	g.Expect(step.Boot.Failure).To(HaveField("Reason", v1alpha1.ReasonDisksNotErased), "another attempt would meet the same server")
	step = Next(erasingView(poweredOn, gaveUp(wire.ReasonOtherServer), func(v *View) { v.Host.Boot.Method = v1alpha1.MethodVirtualMedia }), DefaultSettings())
	g.Expect(step.Boot.Failure).To(BeNil(), "others may have read the medium")
}

// TestErasuresAreQueued: an erasure waits for a boot slot like any other boot, and holds it while it runs.
func TestErasuresAreQueued(t *testing.T) {
	g := NewWithT(t)
	v, s := releasedView(hostPolicy(purge)), DefaultSettings()
	g.Expect(WantsToBoot(v, s)).To(BeTrue())
	g.Expect(StartsBoot(v, Next(v, s))).To(BeTrue())
	queued(&v)
	step := Next(v, s)
	g.Expect([]any{step.Action, step.Reason}).To(Equal([]any{Nothing, v1alpha1.ReasonWaitingForBootSlot}))
	g.Expect(erasingView(poweredOn).BootsUntil(s)).To(BeTemporally(">", noon))
	g.Expect(erasingView(poweredOn, expired, queued).BootsUntil(s)).To(BeTemporally("<=", noon))
	step = Next(erasingView(poweredOn, expired, queued), s)
	g.Expect(step.Reason).To(Equal(v1alpha1.ReasonWaitingForBootSlot), "a later attempt waits too, if the slot is gone")
}

// TestPurgeIsNotPossible: a host that is to be purged and cannot be is not offered. What is unknown blocks nothing.
func TestPurgeIsNotPossible(t *testing.T) {
	cannot := func(v *View) {
		byAgent(v)
		inspectedByAgent(v)
		v.Inspection.NotPurgeable = cleaning.Unpurgeable{Disks: []v1alpha1.NotPurgeableDisk{{SerialNumber: "S1"}, {SerialNumber: "S2"}}}
	}
	for name, c := range map[string]struct {
		view     View
		minimum  wire.ErasePolicy
		phase    v1alpha1.HostPhase
		contains string
	}{
		"Purge":                   {freeView(cannot, hostPolicy(purge)), "", v1alpha1.PhaseUnavailable, "spec.cleaningPolicy of the host is Purge"},
		"the minimum is Purge":    {freeView(cannot), purge, v1alpha1.PhaseUnavailable, "--minimum-cleaning-policy"},
		"Clear":                   {freeView(cannot, hostPolicy(clears)), "", v1alpha1.PhaseAvailable, ""},
		"a person decides":        {freeView(cannot, hostPolicy(manual)), purge, v1alpha1.PhaseAvailable, ""},
		"every disk can be":       {freeView(byAgent, inspectedByAgent, hostPolicy(purge)), "", v1alpha1.PhaseAvailable, ""},
		"it is not inspected":     {freeView(hostPolicy(purge)), "", v1alpha1.PhaseAvailable, ""},
		"something else is wrong": {freeView(cannot, hostPolicy(purge), poweredOn), "", v1alpha1.PhaseUnavailable, "The server is on"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := DefaultSettings()
			s.MinimumCleaningPolicy = c.minimum
			step := Next(c.view, s)
			g.Expect([]any{step.Action, step.Phase}).To(Equal([]any{Nothing, c.phase}), step.Message)
			g.Expect(step.Message).To(ContainSubstring(c.contains))
			if c.contains != "" && c.contains != "The server is on" {
				g.Expect(step.Reason).To(Equal(v1alpha1.ReasonCleaningPolicyNotPossible))
				g.Expect(step.Message).To(ContainSubstring("S1, S2"))
			}
		})
	}
}

// TestPropertyErasuresNeedAClaimAndABoot: whatever the facts are, a boot that erases disks belongs to the claim of a machine that releases the host, records a policy that
// is never weaker than what is asked, and erases all disks only of a server that may have been booted for the claim.
func TestPropertyErasuresNeedAClaimAndABoot(t *testing.T) {
	drawMore(t)
	begun := 0
	rapid.Check(t, func(t *rapid.T) {
		v := pick(draw{t}, "view", drawView, drawAgentView)(t)
		s := DefaultSettings()
		s.MinimumCleaningPolicy = pick(draw{t}, "minimum", "", none, metadata, clears, purge)
		v.Host.Spec.CleaningPolicy = pick(draw{t}, "host's", "", none, metadata, clears, purge, manual)
		if v.Host.Claimed() {
			v.Host.Spec.ConsumerRef.CleaningPolicy = pick(draw{t}, "machine's", "", metadata, clears, purge)
		}
		step, before := Next(v, s), v.Host.CurrentBoot()
		if step.Action != RecordBoot || step.Boot.Purpose != v1alpha1.PurposeClean || before != nil && before.Number == step.Boot.Number || step.Boot.VoidedTime != nil ||
			IsRequestedErasure(step.Boot) { // a property of its own is about these
			return
		}
		begun++
		b, ref := step.Boot, v.Host.Spec.ConsumerRef
		switch {
		case step.State != StateCleaning || ref == nil || b.ClaimID != ref.ClaimID || ref.ClaimID == "" || !v.Consumer.Deleting:
			t.Fatalf("disks are erased that no machine releases: %+v", v)
		case before != nil && before.Purpose == v1alpha1.PurposeClean:
			if b.CleaningPolicy != before.CleaningPolicy {
				t.Fatalf("the policy changed from %q to %q", before.CleaningPolicy, b.CleaningPolicy)
			}
		case cleaning.AllDisks(b.CleaningPolicy) && !v.mayHaveBooted():
			t.Fatalf("all disks of a server are erased that was not booted: %+v", v)
		case !cleaning.AllDisks(b.CleaningPolicy) && len(v.Host.Boot.WrittenDisks) == 0:
			t.Fatalf("an erasure erases nothing: %+v", v)
		case v.mayHaveBooted() && !b.CleaningPolicy.Reaches(cleaning.Effective(v.Host.Spec.CleaningPolicy, ref.CleaningPolicy, s.MinimumCleaningPolicy)):
			t.Fatalf("the erasure is weaker than asked: %q: %+v", b.CleaningPolicy, v)
		}
	})
	if begun == 0 {
		t.Error("no erasure began")
	}
}
