package bmctest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// Subject is a BMC that the conformance suite is run against, and what is known of it.
type Subject struct {
	// Open opens the BMC. Endpoint is where it is, with the right credentials.
	Open     func(context.Context, bmc.Endpoint) (bmc.Client, error)
	Endpoint bmc.Endpoint
	// Settle is how long the server may take to obey a power command. Defaults to 10 s.
	Settle time.Duration
	// Poll is how often a state is read while it is waited for. Defaults to 50 ms.
	Poll time.Duration
	// Must are the capabilities that the BMC has to have: a suite that finds nothing to check has shown nothing.
	Must []bmc.Capability
	// Image is the URL of an image for the virtual drive. Without it the virtual media are not written.
	Image string
	// Boots is true where a server that is switched on uses up a boot override, so that its expiry can be seen.
	Boots bool
	// SkipWrongPassword leaves out the check with a wrong password, which a BMC may count.
	SkipWrongPassword bool
	// Known are the checks that this BMC is known to fail, each with the observation. One that passes after all is an error.
	Known map[string]string
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

// round is one check that runs.
type round struct {
	Subject
	client bmc.Client
	can    []bmc.Capability
	notes  []string
}

func (r *round) notef(format string, args ...any) {
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

// Conform runs the suite, calls report before and after each check (before it, the Verdict is empty), and returns the results.
// When it returns, the server is in the power state in which it was found and has no boot override and no virtual media.
// The error says what kept the suite from running, or from cleaning up.
func Conform(ctx context.Context, s Subject, report func(Result)) ([]Result, error) {
	if s.Settle == 0 {
		s.Settle = 10 * time.Second
	}
	if s.Poll == 0 {
		s.Poll = 50 * time.Millisecond
	}
	client, err := s.Open(ctx, s.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("open the BMC: %w", err)
	}
	description, err := client.Describe(ctx)
	found, stateErr := client.PowerState(ctx)
	if err := errors.Join(err, stateErr, client.Close(ctx)); err != nil {
		return nil, fmt.Errorf("look at the BMC: %w", err)
	}
	for _, must := range s.Must {
		if !slices.Contains(description.Capabilities, must) {
			return nil, fmt.Errorf("the BMC must have the capability %s, and has %v", must, description.Capabilities)
		}
	}
	var results []Result
	for _, c := range checks {
		if ctx.Err() != nil {
			break
		}
		report(Result{Check: c.name, Capability: c.needs})
		result := s.run(ctx, c, description.Capabilities)
		report(result)
		results = append(results, result)
	}
	if err := s.restore(context.WithoutCancel(ctx), found, description.Capabilities); err != nil {
		return results, fmt.Errorf("leave the server as it was found: %w", err)
	}
	return results, ctx.Err()
}

// run runs one check with a connection of its own.
func (s Subject) run(ctx context.Context, c check, can []bmc.Capability) Result {
	result := Result{Check: c.name, Capability: c.needs, Spare: spare[c.name], Verdict: NotOffered}
	if c.needs != "" && !slices.Contains(can, c.needs) {
		return result
	}
	ctx, cancel := context.WithTimeout(ctx, 3*s.Settle+time.Minute)
	defer cancel()
	start := time.Now()
	r := &round{Subject: s, can: can}
	client, err := s.Open(ctx, s.Endpoint)
	if err == nil {
		r.client = client
		err = errors.Join(c.do(ctx, r), client.Close(context.WithoutCancel(ctx)))
	}
	result.Took, result.Notes = time.Since(start), r.notes
	observation, known := s.Known[c.name]
	switch {
	case err == nil && known:
		result.Verdict, result.Error = Failed, "it passed, although it is listed as known to fail: "+observation
	case err == nil:
		result.Verdict = Passed
	case known:
		result.Verdict, result.Error = KnownFailure, observation
	default:
		result.Verdict, result.Error = Failed, err.Error()
	}
	return result
}

// restore leaves the server as it was found.
func (s Subject) restore(ctx context.Context, power bmc.PowerState, can []bmc.Capability) error {
	ctx, cancel := context.WithTimeout(ctx, 2*s.Settle+time.Minute)
	defer cancel()
	client, err := s.Open(ctx, s.Endpoint)
	if err != nil {
		return err
	}
	if media, ok := client.(bmc.VirtualMedia); ok && slices.Contains(can, bmc.CanVirtualMedia) && s.Image != "" {
		err = media.EjectMedia(ctx)
	}
	if slices.ContainsFunc(can, func(c bmc.Capability) bool { return slices.Contains(bootCapabilities, c) }) {
		_, bootErr := client.SetBootOverride(ctx, bmc.BootOverride{Target: bmc.BootNone}, "")
		err = errors.Join(err, bootErr)
	}
	if power == bmc.PowerOn {
		err = errors.Join(err, client.PowerOn(ctx))
	} else {
		err = errors.Join(err, client.ForceOff(ctx))
	}
	return errors.Join(err, bmc.AwaitPower(ctx, client, power, s.Poll), client.Close(ctx))
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
