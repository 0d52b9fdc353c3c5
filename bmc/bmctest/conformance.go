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

// Subject is a BMC under test, with the settings of the conformance suite.
type Subject struct {
	// Open opens the BMC. Endpoint is its address with the right credentials.
	Open     func(context.Context, bmc.Endpoint) (bmc.Client, error)
	Endpoint bmc.Endpoint
	// Timeout limits opening, reading and closing the BMC. Defaults to a minute.
	Timeout time.Duration
	// Settle is how long a power command may take to take effect. Defaults to 10 s.
	Settle time.Duration
	// Poll is the interval of reads while the suite waits for a state. Defaults to 50 ms.
	Poll time.Duration
	// Restore is how long the suite tries to restore the server. Defaults to three times Settle and a minute.
	Restore time.Duration
	// Must are the capabilities that the BMC must report, so that the suite cannot pass without checks.
	Must []bmc.Capability
	// Image is the URL of an image for the virtual drive. Without it the virtual media are not written.
	Image string
	// BootMedia, if not nil, is an image that the server is booted from.
	BootMedia *BootMedia
	// BootURI is set with UEFI HTTP boot. If it is empty, the suite sets none, like the provider, because some BMCs keep it.
	BootURI string
	// Boots is true if a server that is switched on boots and so ends a boot override for one boot.
	Boots bool
	// SkipWrongPassword omits the check with a wrong password, which a BMC may count.
	SkipWrongPassword bool
	// Known are the checks that this BMC is known to fail. It is an error if one passes, or fails with another error.
	Known map[string]Known
	// Found, if not nil, is called with the BMC's description before the first check.
	Found func(bmc.Description)
}

// BootMedia is an image for a boot from virtual media.
type BootMedia struct {
	// URL is the image's, as the BMC reaches it.
	URL string
	// Read returns how many bytes of the image the BMC has read so far. If it is nil, that cannot be observed, and the check relies on the BMC.
	Read func() int64
	// Size is the size of the image in bytes. It is only needed with Read.
	Size int64
	// Timeout is how long the server may take to read the image after it is switched on. Defaults to ten minutes.
	Timeout time.Duration
}

// Known is a known failure of a check.
type Known struct {
	// Error is a part of the error that the check ends with.
	Error string
	// Why is the observation.
	Why string
}

// Verdict is the result of a check in one word.
type Verdict string

const (
	Passed Verdict = "passed"
	Failed Verdict = "FAILED"
	// NotOffered means that the BMC does not report the capability.
	NotOffered Verdict = "not offered"
	// KnownFailure means that the check failed as Subject.Known says.
	KnownFailure Verdict = "known to fail"
)

// Result is the result of a check.
type Result struct {
	// Check is its name. Capability is the checked one; empty for checks that every BMC must pass.
	Check      string         `json:"check"`
	Capability bmc.Capability `json:"capability,omitempty"`
	Verdict    Verdict        `json:"verdict"`
	// Alternative is what the provider does if the check fails. If it is not empty, a failure does not count against the BMC.
	Alternative string `json:"spare,omitempty"`
	// Error is the reason of a failure. Notes are observations during the check.
	Error string   `json:"error,omitempty"`
	Notes []string `json:"notes,omitempty"`
	// Unverified is the reason why a check that passed relies on the BMC's confirmation only.
	Unverified string `json:"hearsay,omitempty"`
	// Took is how long it took.
	Took time.Duration `json:"took"`
}

// check is one statement about a BMC. do returns an error if the statement is false.
type check struct {
	name  string
	needs bmc.Capability
	do    func(ctx context.Context, r *round) error
}

// checks are the suite in its order: checks that only read come first.
var checks = slices.Concat(loginChecks, readChecks, powerChecks, bootChecks, mediaChecks, optionalFeatureChecks)

// optionalChecks are the checks that a BMC may fail, with the provider's alternative.
var optionalChecks = map[string]string{
	"boots from the network always":               "the provider sets overrides for one boot",
	"boots from the network once, legacy":         "the provider uses UEFI unless the host's spec says otherwise",
	"an override for one boot expires with it":    "the provider removes the override",
	"a reset of a server that is off is an error": "the provider reads the power state first",
}

// Outcome is the result of a run of the suite.
type Outcome struct {
	Description bmc.Description
	// Inventory is nil if it was not read.
	Inventory *bmc.Inventory
	Latency   Latency
	Results   []Result
	// Restored is true if the suite has verified that the server is restored.
	Restored bool
}

// Latency contains the durations of the BMC's operations.
type Latency struct{ Open, Power, Boot, Inventory []time.Duration }

// addDuration adds the duration since start, unless the operation failed.
func addDuration(times *[]time.Duration, start time.Time, err error) {
	if err == nil {
		*times = append(*times, time.Since(start))
	}
}

// suite is one run of the checks.
type suite struct {
	Subject

	report  func(Result)
	outcome Outcome
	// power, boot and found are the state before the checks.
	power bmc.PowerState
	boot  bmc.BootOverride
	found bmc.LastBoot
	// pending is the power state that the last command leads to; empty after it has been observed.
	pending bmc.PowerState
	// runsMedia is true while the server may run from virtual media: it is switched off before they are ejected.
	runsMedia bool
	// unseenRestart is the BMC's record before a commanded restart; nil after the restart has been observed, or its time has passed.
	unseenRestart *bmc.LastBoot
	// recordsResets is true after the BMC has changed its record of the last reset.
	recordsResets bool
}

// round is one running check.
type round struct {
	*suite

	client     bmc.Client
	notes      []string
	unverified string
}

func (r *round) notef(format string, args ...any) {
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

func (s *suite) can(c bmc.Capability) bool {
	return slices.Contains(s.outcome.Description.Capabilities, c)
}

// Conform runs the suite and returns its result. It calls report before each check, with an empty Verdict, and after it.
//
// Before it returns, it restores the server's power state and boot mode, and removes the boot override and virtual media, even if ctx has
// ended. It repeats that until it has verified the result, for at most Subject.Restore, and calls report before each further try with the
// previous error. The error is the reason why the suite could not run or could not restore the server.
func Conform(ctx context.Context, subject Subject, report func(Result)) (Outcome, error) {
	subject.Timeout = cmp.Or(subject.Timeout, time.Minute)
	subject.Settle, subject.Poll = cmp.Or(subject.Settle, 10*time.Second), cmp.Or(subject.Poll, 50*time.Millisecond)
	subject.Restore = cmp.Or(subject.Restore, 3*subject.Settle+time.Minute)
	if subject.BootMedia != nil {
		media := *subject.BootMedia
		media.Timeout = cmp.Or(media.Timeout, 10*time.Minute)
		subject.BootMedia, subject.Image = &media, cmp.Or(subject.Image, media.URL)
	}
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
	if err := s.restore(ctx); err != nil {
		return s.outcome, fmt.Errorf("the server could not be restored (power %s, boot mode %s): %w", s.power, cmp.Or(s.boot.Mode, "unknown"), err)
	}
	s.outcome.Restored = true
	return s.outcome, ctx.Err()
}

// prepare reads the server's state, to restore it later, and the BMC's capabilities.
func (s *suite) prepare(ctx context.Context) error {
	for name, known := range s.Known {
		if known.Error == "" || !slices.ContainsFunc(checks, func(c check) bool { return c.name == name }) {
			return fmt.Errorf("%q is listed as a known failure: it must be the name of a check, with a part of its error", name)
		}
	}
	client, err := s.open(ctx, s.Endpoint)
	if err != nil {
		return fmt.Errorf("open the BMC: %w", err)
	}
	if err := errors.Join(s.readState(ctx, client), s.closeClient(ctx, client)); err != nil {
		return fmt.Errorf("read the BMC: %w", err)
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

func (s *suite) readState(ctx context.Context, client bmc.Client) error {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	var err, powerErr, bootErr error
	s.outcome.Description, err = client.Describe(ctx)
	s.power, powerErr = s.powerAtRest(ctx, client)
	s.boot, bootErr = client.BootOverride(ctx)
	if kind := bmc.KindOf(bootErr); bootErr != nil && ctx.Err() == nil && (kind == bmc.Unsupported || kind == bmc.Failed) {
		s.boot, bootErr = bmc.BootOverride{}, nil // there is no mode to restore
	}
	var lastErr error
	s.found, lastErr = s.lastBoot(ctx, client)
	return errors.Join(err, powerErr, bootErr, lastErr)
}

// powerAtRest reads the power state after a transition has ended.
func (s *suite) powerAtRest(ctx context.Context, client bmc.Client) (bmc.PowerState, error) {
	for {
		state, err := client.PowerState(ctx)
		if err != nil || !state.InTransition() {
			return state, err
		}
		if !sleep(ctx, s.Poll) {
			return "", fmt.Errorf("the power is in transition (%s): wait until it is over", state)
		}
	}
}

// open opens the BMC, and records the duration.
func (s *suite) open(ctx context.Context, e bmc.Endpoint) (client bmc.Client, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	defer func(start time.Time) { addDuration(&s.outcome.Latency.Open, start, err) }(time.Now())
	return s.Open(ctx, e)
}

// closeClient closes a connection, even if ctx has ended, because BMCs have few sessions.
func (s *suite) closeClient(ctx context.Context, client bmc.Client) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.Timeout)
	defer cancel()
	return client.Close(ctx)
}

// run runs one check with a new connection.
func (s *suite) run(ctx context.Context, c check) Result {
	result := Result{Check: c.name, Capability: c.needs, Alternative: optionalChecks[c.name], Verdict: NotOffered}
	if c.needs != "" && !s.can(c.needs) {
		return result
	}
	limit := 5*s.Settle + time.Minute
	if s.BootMedia != nil {
		limit += s.BootMedia.Timeout
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	start := time.Now()
	r := &round{suite: s}
	client, err := s.open(ctx, s.Endpoint)
	if err == nil {
		r.client = client
		err = errors.Join(c.do(ctx, r), s.closeClient(ctx, client))
	}
	result.Took, result.Notes = time.Since(start), r.notes
	known, isKnown := s.Known[c.name]
	switch {
	case err == nil && isKnown:
		result.Verdict, result.Error = Failed, "it passed, although it is listed as a known failure: "+known.Why
	case err == nil:
		result.Verdict, result.Unverified = Passed, r.unverified
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
