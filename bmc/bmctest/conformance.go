package bmctest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// Subject is a BMC that the conformance suite is run against, and what is known of it.
type Subject struct {
	// Open opens the BMC. Endpoint is where it is, with the right credentials.
	Open     func(context.Context, bmc.Endpoint) (bmc.Client, error)
	Endpoint bmc.Endpoint
	// Timeout is how long the BMC may take to be opened, looked at or closed. Defaults to a minute.
	Timeout time.Duration
	// Settle is how long the server may take to obey a power command. Defaults to 10 s.
	Settle time.Duration
	// Poll is how often a state is read while it is waited for. Defaults to 50 ms.
	Poll time.Duration
	// Restore is how long the suite tries to leave the server as it was found. Defaults to three times Settle and a minute.
	Restore time.Duration
	// Must are the capabilities that the BMC has to have: a suite that finds nothing to check has shown nothing.
	Must []bmc.Capability
	// Image is the URL of an image for the virtual drive. Without it the virtual media are not written.
	Image string
	// BootURI is written with UEFI HTTP boot. Without it none is, as by the provider: on some BMCs it would stay.
	BootURI string
	// Boots is true where a server that is switched on uses up a boot override, so that its expiry can be seen.
	Boots bool
	// SkipWrongPassword leaves out the check with a wrong password, which a BMC may count.
	SkipWrongPassword bool
	// Known are the checks that this BMC is known to fail. One that passes after all, or fails in another way, is an error.
	Known map[string]Known
	// Found, where not nil, is told what the BMC says of itself before the first check.
	Found func(bmc.Description)
}

// Known is how a BMC is known to fail a check.
type Known struct {
	// Error is a part of the error that the check ends with.
	Error string
	// Why is the observation.
	Why string
}

// Verdict says how a check ended.
type Verdict string

// The verdicts.
const (
	Passed Verdict = "passed"
	Failed Verdict = "FAILED"
	// NotOffered means that the BMC does not claim to have the capability.
	NotOffered Verdict = "not offered"
	// KnownFailure means that the check failed as Subject.Known says.
	KnownFailure Verdict = "known to fail"
)

// Result is how a check ended.
type Result struct {
	// Check is its name, and Capability what it is about; empty for what every BMC must do.
	Check      string         `json:"check"`
	Capability bmc.Capability `json:"capability,omitempty"`
	Verdict    Verdict        `json:"verdict"`
	// Spare says why the provider does without, where it does: a failure is no reason against the BMC then.
	Spare string `json:"spare,omitempty"`
	// Error is why it failed. Notes are what was seen on the way.
	Error string   `json:"error,omitempty"`
	Notes []string `json:"notes,omitempty"`
	// Hearsay says why a check that passed shows no more than the BMC's word, where it does not.
	Hearsay string `json:"hearsay,omitempty"`
	// Took is how long it took.
	Took time.Duration `json:"took"`
}

// check is one statement about a BMC. do returns an error where it does not hold.
type check struct {
	name  string
	needs bmc.Capability
	do    func(ctx context.Context, r *round) error
}

// checks are the suite, in the order in which they run: those that only look come first.
var checks = slices.Concat(loginChecks, lookChecks, powerChecks, bootChecks, extraChecks)

// spare are the checks that a BMC may fail, with what the provider does instead.
var spare = map[string]string{
	"boots from the network always":            "the provider sets overrides for one boot",
	"boots from the network once, legacy":      "the provider uses UEFI unless the host's spec says otherwise",
	"an override for one boot expires with it": "the provider takes it back",
	"a reset of what is off is an error":       "the provider looks at the power first",
}

// Outcome is what a run of the suite found.
type Outcome struct {
	Description bmc.Description
	// Inventory is nil where it was not read.
	Inventory *bmc.Inventory
	Latency   Latency
	Results   []Result
	// Restored is true when the server was left as it was found, and that was seen.
	Restored bool
}

// Latency is how long the BMC took for what it did.
type Latency struct{ Open, Power, Boot, Inventory []time.Duration }

// took adds a time, unless what took it failed.
func took(times *[]time.Duration, start time.Time, err error) {
	if err == nil {
		*times = append(*times, time.Since(start))
	}
}

// suite is one run of the checks.
type suite struct {
	Subject

	report  func(Result)
	outcome Outcome
	// power, boot and found are what was found before the checks.
	power bmc.PowerState
	boot  bmc.BootOverride
	found bmc.LastBoot
	// pending is what the last power command leads to; empty once that was seen.
	pending bmc.PowerState
	// unseen is what the BMC recorded before a restart that was commanded; nil once that was seen, or had the time to be over.
	unseen *bmc.LastBoot
	// records is true once the BMC was seen to record when the server was last reset.
	records bool
}

// round is one check that runs.
type round struct {
	*suite

	client  bmc.Client
	notes   []string
	hearsay string
}

func (r *round) notef(format string, args ...any) {
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

func (s *suite) can(c bmc.Capability) bool {
	return slices.Contains(s.outcome.Description.Capabilities, c)
}

// Conform runs the suite, calls report before and after each check (before it, the Verdict is empty), and returns what it found.
// When it returns, the server is in the power state and the boot mode in which it was found, and has no boot override and no virtual
// media; also when ctx has ended. That is tried again until it was seen, for as long as Subject.Restore says: report is called before each further
// try, with the error of the one before. The error says what kept the suite from running, or from cleaning up.
func Conform(ctx context.Context, subject Subject, report func(Result)) (Outcome, error) {
	subject.Timeout = cmp.Or(subject.Timeout, time.Minute)
	subject.Settle, subject.Poll = cmp.Or(subject.Settle, 10*time.Second), cmp.Or(subject.Poll, 50*time.Millisecond)
	subject.Restore = cmp.Or(subject.Restore, 3*subject.Settle+time.Minute)
	s := &suite{Subject: subject, report: report}
	if err := s.prepare(ctx); err != nil {
		return s.outcome, err
	}
	for _, c := range checks {
		if ctx.Err() != nil {
			break
		}
		report(Result{Check: c.name, Capability: c.needs})
		result := s.run(ctx, c)
		report(result)
		s.outcome.Results = append(s.outcome.Results, result)
	}
	if err := s.leaveAsFound(ctx); err != nil {
		return s.outcome, fmt.Errorf("the server could not be left as it was found (power %s, boot mode %s): %w", s.power, cmp.Or(s.boot.Mode, "unknown"), err)
	}
	s.outcome.Restored = true
	return s.outcome, ctx.Err()
}

// prepare looks at the server, so that it can be left as it was found, and at what the BMC says that it can do.
func (s *suite) prepare(ctx context.Context) error {
	for name, known := range s.Known {
		if known.Error == "" || !slices.ContainsFunc(checks, func(c check) bool { return c.name == name }) {
			return fmt.Errorf("%q is listed as known to fail: it must be the name of a check, and a part of its error is needed", name)
		}
	}
	client, err := s.open(ctx, s.Endpoint)
	if err != nil {
		return fmt.Errorf("open the BMC: %w", err)
	}
	if err := errors.Join(s.look(ctx, client), s.leave(ctx, client)); err != nil {
		return fmt.Errorf("look at the BMC: %w", err)
	}
	for _, must := range s.Must {
		if !s.can(must) {
			return fmt.Errorf("the BMC must have the capability %s, and has %v", must, s.outcome.Description.Capabilities)
		}
	}
	if s.Found != nil {
		s.Found(s.outcome.Description)
	}
	return nil
}

func (s *suite) look(ctx context.Context, client bmc.Client) error {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	var err, powerErr, bootErr error
	s.outcome.Description, err = client.Describe(ctx)
	s.power, powerErr = s.powerAtRest(ctx, client)
	s.boot, bootErr = client.BootOverride(ctx)
	if kind := bmc.KindOf(bootErr); bootErr != nil && ctx.Err() == nil && (kind == bmc.Unsupported || kind == bmc.Failed) {
		s.boot, bootErr = bmc.BootOverride{}, nil // it tells no mode to go back to
	}
	var lastErr error
	s.found, lastErr = s.lastBoot(ctx, client)
	return errors.Join(err, powerErr, bootErr, lastErr)
}

// powerAtRest reads the power state once it is not in transition.
func (s *suite) powerAtRest(ctx context.Context, client bmc.Client) (bmc.PowerState, error) {
	for {
		state, err := client.PowerState(ctx)
		if err != nil || !state.InTransition() {
			return state, err
		}
		if !wait(ctx, s.Poll) {
			return "", fmt.Errorf("the power is in transition (%s): wait until it is over", state)
		}
	}
}

// open opens the BMC, and takes the time.
func (s *suite) open(ctx context.Context, e bmc.Endpoint) (client bmc.Client, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	defer func(start time.Time) { took(&s.outcome.Latency.Open, start, err) }(time.Now())
	return s.Open(ctx, e)
}

// leave closes a connection, also when ctx has ended: a session that stays behind is one less for others.
func (s *suite) leave(ctx context.Context, client bmc.Client) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.Timeout)
	defer cancel()
	return client.Close(ctx)
}

// run runs one check with a connection of its own.
func (s *suite) run(ctx context.Context, c check) Result {
	result := Result{Check: c.name, Capability: c.needs, Spare: spare[c.name], Verdict: NotOffered}
	if c.needs != "" && !s.can(c.needs) {
		return result
	}
	ctx, cancel := context.WithTimeout(ctx, 5*s.Settle+time.Minute)
	defer cancel()
	start := time.Now()
	r := &round{suite: s}
	client, err := s.open(ctx, s.Endpoint)
	if err == nil {
		r.client = client
		err = errors.Join(c.do(ctx, r), s.leave(ctx, client))
	}
	result.Took, result.Notes = time.Since(start), r.notes
	known, isKnown := s.Known[c.name]
	switch {
	case err == nil && isKnown:
		result.Verdict, result.Error = Failed, "it passed, although it is listed as known to fail: "+known.Why
	case err == nil:
		result.Verdict, result.Hearsay = Passed, r.hearsay
	case isKnown && strings.Contains(err.Error(), known.Error):
		result.Verdict, result.Error = KnownFailure, known.Why
	case isKnown:
		result.Verdict, result.Error = Failed, fmt.Sprintf("it is known to fail with %q, and failed with: %v", known.Error, err)
	default:
		result.Verdict, result.Error = Failed, err.Error()
	}
	return result
}

// T is the part of testing.TB that Test needs.
type T interface {
	Helper()
	Errorf(format string, args ...any)
	Logf(format string, args ...any)
	Context() context.Context
}

// Test runs the suite as a test. Each check that fails is an error of the test.
func Test(t T, s Subject) {
	t.Helper()
	_, err := Conform(t.Context(), s, func(r Result) {
		if r.Verdict == "" {
			return
		}
		for _, note := range r.Notes {
			t.Logf("%s: %s", r.Check, note)
		}
		t.Logf("%-60s %-14s %8s %s", r.Check, r.Verdict, r.Took.Round(time.Millisecond), r.Error)
		if r.Verdict == Failed {
			t.Errorf("%s: %s", r.Check, r.Error)
		}
	})
	if err != nil {
		t.Errorf("%v", err)
	}
}
