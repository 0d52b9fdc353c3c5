package report

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
)

// minChange is the relative change from which on a figure is printed in a table of many figures.
const minChange = 0.05

// figures are the compared figures of each phase.
var figures = []struct {
	name string
	of   func(*Phase) float64
}{
	{"seconds", func(p *Phase) float64 { return p.Seconds }},
	{"manager ms", func(p *Phase) float64 { return p.CPU["manager"] }},
	{"API requests", func(p *Phase) float64 { return p.Requested(All) }},
	{"writes", func(p *Phase) float64 { return p.Requested(Writes) }},
	{"API server ms", func(p *Phase) float64 { return p.CPU["apiserver"] }},
	{"etcd ms", func(p *Phase) float64 { return p.CPU["etcd"] }},
	{"BMC requests", func(p *Phase) float64 { return p.BMCRequests }},
	{"boot requests", (*Phase).bootRequested},
	{"peak MiB", func(p *Phase) float64 { return p.Manager.PeakMiB }},
	{"heap MiB", func(p *Phase) float64 { return p.Manager.HeapMiB }},
}

// Compare prints how the second run differs from the first: both values and their ratio.
func Compare(w io.Writer, before, after *Run) error {
	c := &comparison{before, after, tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	if before.Hosts != after.Hosts || before.Boots != after.Boots {
		c.rowf("The runs are of different sizes: %d hosts with %d boots, and %d hosts with %d boots.\n",
			before.Hosts, before.Boots, after.Hosts, after.Boots)
	}
	c.head("old", before)
	c.head("new", after)
	c.phases()
	c.changed("requests per object", 0.005, func(p *Phase) map[string]float64 { return p.Requests })
	if before.countsWatchBytes() && after.countsWatchBytes() {
		c.changed("bytes of watches per object", 1, func(p *Phase) map[string]float64 { return p.WatchBytes })
	}
	c.reactions()
	c.facts()
	return c.table.Flush()
}

// comparison is a table of two runs.
type comparison struct {
	before, after *Run
	table         *tabwriter.Writer
}

func (c *comparison) rowf(format string, args ...any) {
	_, _ = fmt.Fprintf(c.table, format+"\n", args...) // Flush returns the error
}

func (c *comparison) head(which string, r *Run) {
	told := ""
	if len(r.Flags) > 0 {
		told = "; with " + strings.Join(r.Flags, " ")
	}
	c.rowf("%s: %d hosts, %d boots; commit %s, %s%s", which, r.Hosts, r.Boots, r.Commit, r.Machine, told)
}

// missing prints a row for a figure that one of the runs does not have, and returns false if both have it. The row has all cells, which keeps the columns
// of the table aligned.
func (c *comparison) missing(what string, inBefore, inAfter bool) bool {
	switch {
	case !inAfter:
		c.rowf("%s\tonly in the old run\t\t\t", what)
	case !inBefore:
		c.rowf("%s\tonly in the new run\t\t\t", what)
	}
	return !inBefore || !inAfter
}

// figure prints a row for a figure that both runs have.
func (c *comparison) figure(of, what, format string, before, after float64) {
	c.rowf("%s\t%s\t"+format+"\t"+format+"\t%s", of, what, before, after, ratio(before, after))
}

// ratio is new to old. There is no ratio to zero.
func ratio(before, after float64) string {
	if before == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", after/before)
}

// pair is a phase in both runs. It is nil in a run without the phase.
type pair struct {
	name          string
	before, after *Phase
}

// pairs are the phases of the old run in their order, and then those that only the new run has.
func (c *comparison) pairs() []pair {
	var all []pair
	for i := range c.before.Phases {
		p := &c.before.Phases[i]
		all = append(all, pair{p.Name, p, c.after.phase(p.Name)})
	}
	for i := range c.after.Phases {
		if p := &c.after.Phases[i]; c.before.phase(p.Name) == nil {
			all = append(all, pair{p.Name, nil, p})
		}
	}
	return all
}

func (r *Run) phase(name string) *Phase {
	for i := range r.Phases {
		if r.Phases[i].Name == name {
			return &r.Phases[i]
		}
	}
	return nil
}

func (c *comparison) phases() {
	c.rowf("\nphase\tfigure (per object, except seconds and MiB)\told\tnew\tnew/old")
	for _, p := range c.pairs() {
		if c.missing(p.name, p.before != nil, p.after != nil) {
			continue
		}
		if p.before.Objects != p.after.Objects {
			c.figure(p.name, "objects", "%.0f", float64(p.before.Objects), float64(p.after.Objects))
		}
		for _, f := range figures {
			c.figure(p.name, f.name, "%.2f", f.of(p.before), f.of(p.after))
		}
	}
}

// changed prints the figures that changed, which are few of many. A value below least in both runs differs by chance.
func (c *comparison) changed(what string, least float64, of func(*Phase) map[string]float64) {
	c.rowf("\nphase\t%s that changed by more than %.0f %%\told\tnew\tnew/old", what, 100*minChange)
	told := false
	for _, p := range c.pairs() {
		if p.before == nil || p.after == nil {
			continue // the table above says so
		}
		for _, name := range union(of(p.before), of(p.after)) {
			before, after := of(p.before)[name], of(p.after)[name]
			if math.Abs(after-before) <= minChange*before || max(before, after) < least {
				continue
			}
			c.figure(p.name, name, "%.2f", before, after)
			told = true
		}
	}
	if !told {
		c.rowf("none")
	}
}

func (r *Run) countsWatchBytes() bool {
	return slices.ContainsFunc(r.Phases, func(p Phase) bool { return p.WatchBytes != nil })
}

func (c *comparison) reactions() {
	c.rowf("\nreaction to\tseconds\told\tnew\tnew/old")
	for _, what := range union(c.before.Reactions, c.after.Reactions) {
		before, inBefore := c.before.Reactions[what]
		after, inAfter := c.after.Reactions[what]
		if c.missing(what, inBefore, inAfter) {
			continue
		}
		c.figure(what, "p50", "%.3f", before.P50, after.P50)
		c.figure(what, "p99", "%.3f", before.P99, after.P99)
	}
}

func (c *comparison) facts() {
	c.rowf("\nfact\t\told\tnew\tnew/old")
	for _, what := range union(c.before.Facts, c.after.Facts) {
		before, inBefore := c.before.Facts[what]
		after, inAfter := c.after.Facts[what]
		if c.missing(what, inBefore, inAfter) {
			continue
		}
		c.rowf("%s\t\t%s\t%s\t%s", what, number(before), number(after), ratio(before, after))
	}
}

// union returns the keys of both, sorted.
func union[V any](before, after map[string]V) []string {
	all := maps.Clone(before)
	if all == nil {
		all = map[string]V{}
	}
	maps.Copy(all, after)
	return slices.Sorted(maps.Keys(all))
}
