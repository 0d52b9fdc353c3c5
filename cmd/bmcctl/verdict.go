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

// The verdicts on a capability.
const (
	works           = "works"
	worksUnverified = "works, according to the BMC"
	failed          = "FAILED"
	notOffered      = "not offered"
	notTried        = "not tried"
)

// judgement is the verdict on a capability.
type judgement struct {
	Capability bmc.Capability `json:"capability"`
	Verdict    string         `json:"verdict"`
	// Needed is yes if the BMC is not fit without the capability, no if it is, and either if one of two is enough.
	Needed string `json:"needed"`
	Why    string `json:"why,omitempty"`
}

func (j judgement) works() bool { return j.Verdict == works || j.Verdict == worksUnverified }

// basics replaces the capability for checks that every BMC must pass.
const basics bmc.Capability = "Basics"

// result is the result of a qualification.
type result struct {
	bmctest.Outcome

	date         time.Time
	subject      qualification
	mediaURL     string // of the image that the server was booted from; empty without --boot-media
	judgements   []judgement
	restoreError error // why the suite could not restore the server
	fit          bool
	verdict      string
}

// judge sets the verdict on each capability and on the BMC.
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

// either means that one of two capabilities is needed.
const either = "either"

// needs returns whether a capability is needed: see judgement.Needed.
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
	if c == bmc.CanVirtualMedia && r.subject.image == "" && r.subject.media == "" && j.Verdict == works {
		j.Verdict = notTried
		why = []string{"the drives were only listed: add --image URL, or --boot-media FILE for a boot"}
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

// latency is the duration of one operation.
type latency struct {
	name string
	figures
}

func latencies(l bmctest.Latency) []latency {
	return []latency{
		{"open", figuresOf(l.Open)}, {"power state", figuresOf(l.Power)}, {"set boot", figuresOf(l.Boot)}, {"inventory", figuresOf(l.Inventory)},
	}
}

// figures summarize durations.
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
