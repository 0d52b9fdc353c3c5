package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
)

// The words for a capability.
const (
	works           = "works"
	worksUnverified = "works, according to the BMC"
	failed          = "FAILED"
	notOffered      = "not offered"
	notTried        = "not tried"
)

// judgement is the verdict on a capability. An empty one is on what every BMC must do.
type judgement struct {
	Capability bmc.Capability `json:"capability"`
	Verdict    string         `json:"verdict"`
	// Needed says whether the BMC is fit without it: yes, no, or either where one of two will do.
	Needed string `json:"needed"`
	Why    string `json:"why,omitempty"`
}

func (j judgement) works() bool { return j.Verdict == works || j.Verdict == worksUnverified }

// basics stands for what every BMC must do, where a capability is named.
const basics bmc.Capability = "Basics"

// result is what a qualification found.
type result struct {
	bmctest.Outcome

	date         time.Time
	subject      qualification
	judgements   []judgement
	restoreError error // what kept the suite from leaving the server as it was found
	fit          bool
	verdict      string
}

// judge says of each capability whether it works, and of the BMC whether it is fit.
func (r *result) judge() {
	var (
		working []bmc.Capability
		lacks   []string
		words   = map[bmc.Capability]string{}
	)
	for _, c := range append([]bmc.Capability{basics}, capabilities...) {
		j := r.judgeOne(c)
		j.Needed = r.needs(c)
		words[c] = fmt.Sprintf("%s (%s)", c, j.Verdict)
		if j.works() {
			working = append(working, c)
		} else if j.Needed == "yes" {
			lacks = append(lacks, words[c])
		}
		r.judgements = append(r.judgements, j)
	}
	if slices.Contains(bmc.MissingForNetworkBoot(working), bmc.CanBootPXE) && r.needs(bmc.CanBootPXE) == either {
		lacks = append(lacks, words[bmc.CanBootPXE]+" or "+words[bmc.CanBootHTTP])
	}
	var against []string
	if len(lacks) > 0 {
		against = append(against, "it lacks "+strings.Join(lacks, ", "))
	}
	if r.restoreError != nil {
		against = append(against, r.restoreError.Error())
	}
	r.fit = len(against) == 0
	r.verdict = "fit for network boot with this provider"
	if !r.fit {
		r.verdict = "NOT " + r.verdict + ": " + strings.Join(against, "; ")
	} else if others := r.failures(); len(others) > 0 {
		r.verdict += "; do not rely on its " + strings.Join(others, ", ")
	}
}

// either is the need for one of two.
const either = "either"

// needs says whether a BMC is fit without a capability.
func (r *result) needs(c bmc.Capability) string {
	others := slices.DeleteFunc(slices.Clone(capabilities), func(other bmc.Capability) bool { return other == c })
	switch {
	case c == basics, slices.Contains(r.subject.must, string(c)), len(bmc.MissingForNetworkBoot(others)) > 0:
		return "yes"
	case c == bmc.CanBootPXE, c == bmc.CanBootHTTP:
		return either
	default:
		return "no"
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
	if c != basics && !slices.Contains(r.Description.Capabilities, c) {
		j.Verdict = notOffered
		return j
	}
	var why []string
	for _, check := range r.Results {
		if check.Capability != c && (check.Capability != "" || c != basics) {
			continue
		}
		if j.Verdict == notTried {
			j.Verdict = works
		}
		switch {
		case check.Verdict == bmctest.Failed && check.Alternative != "":
			why = append(why, "but not: "+check.Check+" ("+check.Alternative+")")
		case check.Verdict == bmctest.Failed:
			j.Verdict = failed
			why = append(why, check.Check+": "+check.Error)
		case check.Unverified != "" && j.Verdict == works:
			j.Verdict = worksUnverified
			why = append(why, check.Unverified)
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
	for _, l := range latencies(r.Latency) {
		f := l.figures
		t.row(l.name, seconds(f.MedianSeconds), seconds(f.LongestSeconds), strconv.Itoa(f.Count))
	}
	t.section("CAPABILITY", "NEEDED", "VERDICT")
	for _, j := range r.judgements {
		verdict := j.Verdict
		if j.Why != "" {
			verdict += ": " + j.Why
		}
		t.row(string(j.Capability), j.Needed, verdict)
	}
	if err := t.flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nVerdict: %s\n", clean(r.verdict))
	return err
}

// latency is how long the BMC took for one thing.
type latency struct {
	name string
	figures
}

func latencies(l bmctest.Latency) []latency {
	return []latency{
		{"open", figuresOf(l.Open)}, {"power state", figuresOf(l.Power)}, {"set boot", figuresOf(l.Boot)}, {"inventory", figuresOf(l.Inventory)},
	}
}

// figures are what is told of times.
type figures struct {
	Count          int     `json:"count"`
	MedianSeconds  float64 `json:"medianSeconds"`
	LongestSeconds float64 `json:"longestSeconds"`
}

func figuresOf(times []time.Duration) figures {
	if len(times) == 0 {
		return figures{}
	}
	sorted := slices.Sorted(slices.Values(times))
	return figures{Count: len(sorted), MedianSeconds: sorted[len(sorted)/2].Seconds(), LongestSeconds: sorted[len(sorted)-1].Seconds()}
}
