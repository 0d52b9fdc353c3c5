package bmctest_test

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
)

const (
	cycleCheck = "a power cycle leaves the server on"
	resetCheck = "a reset leaves the server on"
)

// strict is a server with a power delay, and a BMC with these faults.
func strict(t *testing.T, opts bmctest.Options, faults ...bmctest.Fault) (*bmctest.Machine, bmctest.Subject) {
	t.Helper()
	opts.PowerDelay = 50 * time.Millisecond
	machine, subject := emulated(t, opts, "")
	for _, fault := range faults {
		NewWithT(t).Expect(machine.Misbehave(fault, -1)).To(Succeed())
	}
	subject.Settle = 5 * time.Second
	return machine, subject
}

// TestStrictBMC: a working BMC that is strict about power commands passes every check, because no check ends during a power transition, so no
// command arrives during one.
func TestStrictBMC(t *testing.T) {
	for name, faults := range map[string][]bmctest.Fault{
		"all": bmctest.Strict, "busy": {bmctest.BusyInTransition}, "drops": {bmctest.DropsInTransition}, "stale": {bmctest.StalePower},
		"states": {bmctest.TransitionStates}, "drops, and is stale": {bmctest.DropsInTransition, bmctest.StalePower},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			machine, subject := strict(t, bmctest.Options{On: true, Run: func(_ context.Context, _ bmc.BootTarget, booted func()) { booted() }}, faults...)
			subject.Boots = true
			outcome, err := bmctest.Conform(t.Context(), subject, func(bmctest.Result) {})
			g.Expect(err).NotTo(HaveOccurred())
			for _, r := range outcome.Results {
				g.Expect(r.Verdict).To(Equal(bmctest.Passed), "%s: %s", r.Check, r.Error)
				g.Expect(r.Unverified).To(BeEmpty(), "%s: the BMC records restarts", r.Check)
			}
			g.Expect(outcome.Restored).To(BeTrue())
			g.Expect(machine.On()).To(BeTrue())
			g.Expect(machine.Commands()).NotTo(ContainElement(HaveField("InTransition", true)))
		})
	}
}

// TestRestartUnseen: a restart that the BMC does not show is unverified, and the next command waits until it is over.
func TestRestartUnseen(t *testing.T) {
	g := NewWithT(t)
	machine, subject := strict(t, bmctest.Options{}, bmctest.OldSchema, bmctest.StalePower)
	subject.Settle = time.Second
	outcome, err := bmctest.Conform(t.Context(), subject, func(bmctest.Result) {})
	g.Expect(err).NotTo(HaveOccurred())
	for _, check := range []string{cycleCheck, resetCheck} {
		i := slices.IndexFunc(outcome.Results, func(r bmctest.Result) bool { return r.Check == check })
		g.Expect(outcome.Results[i].Verdict).To(Equal(bmctest.Passed), outcome.Results[i].Error)
		g.Expect(outcome.Results[i].Unverified).To(Equal("the restart cannot be observed"))
		g.Expect(outcome.Results[i].Took).To(BeNumerically(">", subject.Settle))
	}
	g.Expect(machine.Commands()).NotTo(ContainElement(HaveField("InTransition", true)))
}

// TestRestartIgnored: a BMC that records restarts, and acknowledges one that does not happen, fails.
func TestRestartIgnored(t *testing.T) {
	g := NewWithT(t)
	machine, subject := emulated(t, bmctest.Options{}, "")
	subject.Settle = 500 * time.Millisecond
	outcome, err := bmctest.Conform(t.Context(), subject, func(r bmctest.Result) {
		if r.Check == cycleCheck { // the server is on from the check before
			g.Expect(machine.Misbehave(bmctest.PowerIgnored, map[bool]int{true: -1}[r.Verdict == ""])).To(Succeed())
		}
	})
	g.Expect(err).NotTo(HaveOccurred())
	for _, r := range outcome.Results {
		switch r.Check {
		case cycleCheck:
			g.Expect(r.Verdict).To(Equal(bmctest.Failed))
			g.Expect(r.Error).To(ContainSubstring("the server did not restart within 500ms"))
		case resetCheck:
			g.Expect(r.Verdict).To(Equal(bmctest.Passed), r.Error)
			g.Expect(r.Notes).To(ContainElement(HavePrefix("the restart was observed: ")))
		}
	}
}

// busy is a BMC that refuses each power command once.
type busy struct {
	*bmctest.Fake

	refused map[string]bool
	err     error
}

func (b busy) once(name string, command func() error) error {
	if !b.refused[name] {
		b.refused[name] = true
		return b.err
	}
	delete(b.refused, name)
	return command()
}

func (b busy) PowerOn(ctx context.Context) error {
	return b.once("PowerOn", func() error { return b.Fake.PowerOn(ctx) })
}

func (b busy) ForceOff(ctx context.Context) error {
	return b.once("ForceOff", func() error { return b.Fake.ForceOff(ctx) })
}

func (b busy) Cycle(ctx context.Context) error {
	return b.once("Cycle", func() error { return b.Fake.Cycle(ctx) })
}

func (b busy) NMI(ctx context.Context) error {
	return b.once("NMI", func() error { return b.Fake.NMI(ctx) })
}

// TestBusyBMC: a command that the BMC refuses temporarily is repeated. After another error it is not, because it may have taken effect.
func TestBusyBMC(t *testing.T) {
	for _, c := range []struct {
		err  *bmc.Error
		want bmctest.Verdict
	}{
		{&bmc.Error{Kind: bmc.Busy, Op: "Reset", Err: errors.New("409")}, bmctest.Passed},
		{&bmc.Error{Kind: bmc.Unreachable, Op: "Reset", Err: errors.New("503"), RetryAfter: time.Millisecond}, bmctest.Passed},
		{&bmc.Error{Kind: bmc.Unreachable, Op: "Reset", Err: errors.New("no answer")}, bmctest.Failed},
	} {
		g := NewWithT(t)
		fake := busy{Fake: &bmctest.Fake{}, refused: map[string]bool{}, err: c.err}
		outcome, err := bmctest.Conform(t.Context(), bmctest.Subject{SkipWrongPassword: true, Poll: time.Millisecond, Open: func(ctx context.Context, e bmc.Endpoint) (bmc.Client, error) {
			_, err := fake.Open(ctx, e)
			return fake, err
		}}, func(bmctest.Result) {})
		g.Expect(err).NotTo(HaveOccurred(), "the server is put back, whatever the error: the whole of it is repeated")
		for _, r := range outcome.Results {
			if r.Check == cycleCheck || r.Check == "an NMI is accepted and leaves the server on" {
				g.Expect(r.Verdict).To(Equal(c.want), "%s, with %v: %s", r.Check, c.err, r.Error)
			}
		}
	}
}

// TestRestore: a failed attempt to restore the server is reported and repeated. After the time limit, the error contains the original state.
func TestRestore(t *testing.T) {
	const restoring = "restores the server"
	for _, away := range []int{0, 1, 2, -1} { // tries that fail; -1 for all
		g := NewWithT(t)
		machine, subject := emulated(t, bmctest.Options{On: true}, "")
		subject.Restore = 10 * time.Second
		if away < 0 {
			subject.Restore = 200 * time.Millisecond
		}
		ctx, cancel := context.WithCancel(t.Context())
		var told []string
		outcome, err := bmctest.Conform(ctx, subject, func(r bmctest.Result) {
			switch {
			case r.Check == "power off, also when it is off" && r.Verdict != "":
				cancel() // the server is off now
			case r.Check == restoring && r.Verdict == "":
				told = append(told, r.Error)
				down := map[bool]int{true: -1}[away < 0 || len(told) <= away]
				g.Expect(machine.Misbehave(bmctest.Down, down)).To(Succeed())
			}
		})
		cancel()
		g.Expect(outcome.Restored).To(Equal(away >= 0))
		g.Expect(machine.On()).To(Equal(away >= 0))
		if away < 0 {
			g.Expect(err).To(MatchError(ContainSubstring("the server could not be restored (power On, boot mode UEFI): tried for 200ms: ")))
			continue
		}
		g.Expect(err).To(MatchError(context.Canceled))
		g.Expect(told).To(HaveLen(away + 1))
		g.Expect(told[0]).To(BeEmpty())
		for _, why := range told[1:] {
			g.Expect(why).To(ContainSubstring("EOF"))
		}
	}
}

// TestRestoreRefused: a refused login is not repeated at once, because that would lock the account.
func TestRestoreRefused(t *testing.T) {
	g := NewWithT(t)
	machine, subject := emulated(t, bmctest.Options{On: true}, "")
	subject.Restore, subject.SkipWrongPassword = 500*time.Millisecond, true
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := bmctest.Conform(ctx, subject, func(bmctest.Result) {
		machine.SetPassword("another")
		cancel()
	})
	g.Expect(err).To(MatchError(ContainSubstring("could not be restored")))
	g.Expect(machine.Refused()).To(BeNumerically("<", 5))
}

// TestRestoreUnsupported: a BMC that does not support an override has nothing to restore. What it does not support twice is not tried again.
func TestRestoreUnsupported(t *testing.T) {
	unsupported := &bmc.Error{Kind: bmc.Unsupported, Op: "x", Err: errors.New("405")}
	for call, want := range map[string]int{"SetBootOverride": 1, "ForceOff": 2} {
		g := NewWithT(t)
		fake := &bmctest.Fake{Errors: map[string]error{call: unsupported}}
		tries := 0
		outcome, err := bmctest.Conform(t.Context(), bmctest.Subject{
			Open: fake.Open, Endpoint: bmc.Endpoint{URL: &url.URL{}}, Settle: time.Second, Poll: time.Millisecond, Restore: time.Hour, SkipWrongPassword: true,
		}, func(r bmctest.Result) {
			if r.Check == "restores the server" && r.Verdict == "" {
				tries++
			}
		})
		restored := want == 1
		g.Expect(outcome.Restored).To(Equal(restored), call)
		g.Expect(err == nil).To(Equal(restored), "%v", err)
		g.Expect(tries).To(Equal(want), call)
	}
}

// TestInterruptedRestart: the restore waits for the end of a power cycle, even if the BMC always reports that the server is on.
func TestInterruptedRestart(t *testing.T) {
	for _, on := range []bool{true, false} {
		g := NewWithT(t)
		machine, subject := strict(t, bmctest.Options{On: on}, bmctest.StalePower, bmctest.DropsInTransition)
		outcome, err := interrupt(t, subject, func() bool { return slices.Contains(machine.CommandNames(), "PowerCycle") })
		g.Expect(err).To(MatchError(context.Canceled))
		g.Expect(outcome.Restored).To(BeTrue())
		g.Expect(machine.On()).To(Equal(on))
		g.Expect(machine.Commands()).NotTo(ContainElement(HaveField("InTransition", true)))
	}
}

// TestFoundInTransition: a server that was in transition is restored to its state after the transition.
func TestFoundInTransition(t *testing.T) {
	g := NewWithT(t)
	machine, subject := strict(t, bmctest.Options{}, bmctest.TransitionStates)
	client, err := subject.Open(t.Context(), subject.Endpoint)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(client.PowerOn(t.Context())).To(Succeed())
	g.Expect(client.PowerState(t.Context())).To(Equal(bmc.PoweringOn))
	outcome, err := bmctest.Conform(t.Context(), subject, func(bmctest.Result) {})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(outcome.Restored).To(BeTrue())
	g.Expect(machine.On()).To(BeTrue())
}
