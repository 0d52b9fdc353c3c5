package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
)

// needed is what a BMC must be able to do for this provider's network boot.
var needed = []bmc.Capability{bmc.CanPowerOn, bmc.CanForceOff, bmc.CanBootPXE, bmc.CanInventory}

// The words for a capability.
const (
	works      = "works"
	failed     = "FAILED"
	notOffered = "not offered"
	notTried   = "not tried"
)

// judgement is the verdict on a capability. An empty one is on what every BMC must do.
type judgement struct {
	Capability bmc.Capability `json:"capability"`
	Verdict    string         `json:"verdict"`
	// Needed is true where the BMC is not fit without it.
	Needed bool   `json:"needed"`
	Why    string `json:"why,omitempty"`
}

// basics stands for what every BMC must do, where a capability is named.
const basics bmc.Capability = "Basics"

// result is what a qualification found.
type result struct {
	date        time.Time
	subject     qualification
	description bmc.Description
	inventory   *bmc.Inventory
	latency     latency
	checks      []bmctest.Result
	judgements  []judgement
	trouble     error // what kept the suite from leaving the server as it was found
	fit         bool
	verdict     string
}

// measure looks at the BMC before the suite, and takes the time. Each step may take as long as timeout.
func (r *result) measure(ctx context.Context, timeout time.Duration, open openFunc, endpoint bmc.Endpoint) error {
	step := func(do func(context.Context) error) error {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		return do(ctx)
	}
	var client bmc.Client
	err := step(func(ctx context.Context) (err error) { client, err = open(ctx, endpoint); return err })
	if err != nil {
		return err
	}
	// A logout that fails makes a check of the suite fail.
	defer func() { _ = step(client.Close) }()
	err = step(func(ctx context.Context) (err error) { r.description, err = client.Describe(ctx); return err })
	power := func(ctx context.Context) error { _, err := client.PowerState(ctx); return err }
	for range 20 {
		if err == nil {
			err = step(r.latency.power.timed(power))
		}
	}
	if err != nil {
		return err
	}
	// So do these.
	_ = step(r.latency.inventory.timed(func(ctx context.Context) error {
		i, err := client.Inspect(ctx)
		if err == nil {
			r.inventory = &i
		}
		return err
	}))
	if !slices.Contains(r.description.Capabilities, bmc.CanBootPXE) {
		return nil
	}
	for _, boot := range []bmc.BootTarget{bmc.BootPXE, bmc.BootNone} {
		_ = step(r.latency.boot.timed(func(ctx context.Context) error {
			_, err := client.SetBootOverride(ctx, bmc.BootOverride{Target: boot}, "")
			return err
		}))
	}
	return nil
}

// judge says of each capability whether it works, and of the BMC whether it is fit.
func (r *result) judge() {
	must := slices.Clone(needed)
	for _, name := range r.subject.must {
		must = append(must, bmc.Capability(name))
	}
	var lacks []string
	for _, c := range append([]bmc.Capability{basics}, capabilities...) {
		j := r.judgeOne(c)
		j.Needed = c == basics || slices.Contains(must, c)
		if j.Needed && j.Verdict != works {
			lacks = append(lacks, fmt.Sprintf("%s (%s)", c, j.Verdict))
		}
		r.judgements = append(r.judgements, j)
	}
	if r.trouble != nil {
		lacks = append(lacks, "to be left as it was found: "+r.trouble.Error())
	}
	r.fit = len(lacks) == 0
	r.verdict = "fit for network boot with this provider"
	if !r.fit {
		r.verdict = "NOT fit for network boot with this provider: it lacks " + strings.Join(lacks, ", ")
	} else if others := r.failures(); len(others) > 0 {
		r.verdict += "; do not rely on its " + strings.Join(others, ", ")
	}
}

// failures names the capabilities that do not work.
func (r *result) failures() []string {
	var names []string
	for _, j := range r.judgements {
		if j.Verdict == failed {
			names = append(names, string(j.Capability))
		}
	}
	return names
}

func (r *result) judgeOne(c bmc.Capability) judgement {
	j := judgement{Capability: c, Verdict: notTried}
	if c != basics && !slices.Contains(r.description.Capabilities, c) {
		j.Verdict = notOffered
		return j
	}
	var why []string
	for _, check := range r.checks {
		if check.Capability != c && (check.Capability != "" || c != basics) {
			continue
		}
		if j.Verdict == notTried {
			j.Verdict = works
		}
		switch {
		case check.Verdict == bmctest.Failed && check.Spare != "":
			why = append(why, "but not: "+check.Check+" ("+check.Spare+")")
		case check.Verdict == bmctest.Failed:
			j.Verdict = failed
			why = append(why, check.Check+": "+check.Error)
		}
	}
	if c == bmc.CanVirtualMedia && r.subject.image == "" && j.Verdict == works {
		j.Verdict = notTried
		why = []string{"the drives were only listed: give --image URL"}
	}
	j.Why = strings.Join(why, "; ")
	return j
}

// print writes the verdicts.
func (r *result) print(w io.Writer) error {
	t := newTable(w)
	t.row("LATENCY", "MEDIAN", "LONGEST", "OF")
	for _, l := range r.latency.all() {
		f := l.figures()
		t.row(l.name, seconds(f.MedianSeconds), seconds(f.LongestSeconds), strconv.Itoa(f.Count))
	}
	t.section("CAPABILITY", "NEEDED", "VERDICT")
	for _, j := range r.judgements {
		verdict := j.Verdict
		if j.Why != "" {
			verdict += ": " + j.Why
		}
		t.row(string(j.Capability), map[bool]string{true: "yes", false: "no"}[j.Needed], verdict)
	}
	if err := t.flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nVerdict: %s\n", clean(r.verdict))
	return err
}

// openFunc opens a BMC.
type openFunc = func(context.Context, bmc.Endpoint) (bmc.Client, error)

// latency is how long the BMC takes.
type latency struct{ open, power, boot, inventory times }

func (l *latency) all() []named {
	return []named{{"open", &l.open}, {"power state", &l.power}, {"set boot", &l.boot}, {"inventory", &l.inventory}}
}

// timed takes the time of every connection that succeeds.
func (l *latency) timed(open openFunc) openFunc {
	return func(ctx context.Context, e bmc.Endpoint) (client bmc.Client, err error) {
		err = l.open.timed(func(ctx context.Context) error { client, err = open(ctx, e); return err })(ctx)
		return client, err
	}
}

type named struct {
	name string
	*times
}

// times are how long something took.
type times []time.Duration

// timed takes the time of something, unless it fails.
func (t *times) timed(do func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		start := time.Now()
		err := do(ctx)
		if err == nil {
			*t = append(*t, time.Since(start))
		}
		return err
	}
}

// figures are what is told of times.
type figures struct {
	Count          int     `json:"count"`
	MedianSeconds  float64 `json:"medianSeconds"`
	LongestSeconds float64 `json:"longestSeconds"`
}

func (t *times) figures() figures {
	if len(*t) == 0 {
		return figures{}
	}
	sorted := slices.Sorted(slices.Values(*t))
	return figures{Count: len(sorted), MedianSeconds: sorted[len(sorted)/2].Seconds(), LongestSeconds: sorted[len(sorted)-1].Seconds()}
}
