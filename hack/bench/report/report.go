// Package report has the result of a run of the fleet benchmark, which is stored as JSON, printed as a table, and compared.
package report

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
)

// Run is the result of a run.
type Run struct {
	// Commit is what was measured, and Machine where it was measured.
	Commit, Machine string
	// Hosts is the number of registered hosts, Boots the number of those that booted. The others were adopted while they ran.
	Hosts, Boots int
	// Flags are the flags of the manager that differ from its defaults.
	Flags []string
	// Phases are in their order.
	Phases []Phase
	// Reactions are the times from an event to the provider's reaction, by event.
	Reactions map[string]Quantiles
	// Facts are single figures, such as the bytes that a host takes in etcd.
	Facts map[string]float64
}

// Phase is the cost of one phase.
type Phase struct {
	Name string
	// Objects is the number of hosts or machines of the phase. Figures "per object" are divided by it.
	Objects int
	// Seconds is the duration.
	Seconds float64
	// CPU is the CPU time in milliseconds per object: of the manager, of kube-apiserver, of etcd, and of the emulated fleet.
	CPU map[string]float64
	// Requests are the requests to the API server per object, by verb and resource, without those of the benchmark itself. Those that were answered with 409 or 404 have
	// that code after the resource; older runs do not distinguish them.
	Requests map[string]float64
	// BMCRequests and BMCCommands are the requests and commands to BMCs per object.
	BMCRequests, BMCCommands float64
	// BootRequests are the requests to the boot server per object, by protocol and kind.
	BootRequests map[string]float64
	// WatchBytes are the bytes that the API server sent to watches per object, by resource. Runs before BareMetalBoots do not have them.
	WatchBytes map[string]float64
	// Queues are the times that objects waited for a worker, and the maximum depth of the queue, by controller.
	Queues map[string]Queue
	// Manager is the manager at the end of the phase.
	Manager Footprint
}

// Queue is a workqueue in a phase: times in seconds, and a number of objects.
type Queue struct {
	P50, P99 float64
	Deepest  int
}

// Footprint is what a process holds.
type Footprint struct {
	// PeakMiB is the maximum memory since the start of the process. HeapMiB is the heap in use.
	PeakMiB, HeapMiB float64
	// Goroutines and Connections are numbers of open ones.
	Goroutines, Connections int
}

// Quantiles of times, in seconds.
type Quantiles struct {
	Count         int
	P50, P99, Max float64
}

// QuantilesOf takes times in seconds.
func QuantilesOf(times []float64) Quantiles {
	if len(times) == 0 {
		return Quantiles{}
	}
	sorted := slices.Sorted(slices.Values(times))
	at := func(q float64) float64 { return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)] }
	return Quantiles{Count: len(sorted), P50: at(0.5), P99: at(0.99), Max: sorted[len(sorted)-1]}
}

// Requested sums the requests that a filter selects.
func (p *Phase) Requested(take func(verb, resource string) bool) float64 {
	sum := 0.0
	for what, n := range p.Requests {
		if verb, resource, _ := strings.Cut(what, " "); take(verb, resource) {
			sum += n
		}
	}
	return sum
}

// bootRequested sums the requests to the boot server.
func (p *Phase) bootRequested() float64 {
	sum := 0.0
	for _, what := range slices.Sorted(maps.Keys(p.BootRequests)) { // in a fixed order, so that the last digits are always the same
		sum += p.BootRequests[what]
	}
	return sum
}

// All selects every request.
func All(_, _ string) bool { return true }

// Writes selects the requests that change something.
func Writes(verb, _ string) bool { return !slices.Contains([]string{"GET", "LIST", "WATCH"}, verb) }

// Conflicts selects the requests that were answered with a conflict.
func Conflicts(_, resource string) bool { return strings.HasSuffix(resource, " 409") }

// Read reads a run.
func Read(path string) (*Run, error) {
	content, err := os.ReadFile(path) //nolint:gosec // the user names it
	if err != nil {
		return nil, err
	}
	r := &Run{}
	if err := json.Unmarshal(content, r); err != nil { //nolint:musttag // the fields' names are those of the file
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// Write writes a run.
func (r *Run) Write(path string) error {
	content, err := json.MarshalIndent(r, "", "  ") //nolint:musttag // as above
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(content, '\n'), 0o644) //nolint:gosec // figures are public
}

// Print prints a run as tables.
func (r *Run) Print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(format string, args ...any) { _, _ = fmt.Fprintf(t, format+"\n", args...) } // Flush returns the error
	row("\n%d hosts, %d boots; commit %s, %s\n", r.Hosts, r.Boots, r.Commit, r.Machine)
	row("phase\tobjects\tseconds\tmanager ms\tAPI requests\twrites\tAPI server ms\tetcd ms\tBMC requests\tcommands\tboot requests\tpeak MiB\theap MiB\tgoroutines\tconnections")
	for i := range r.Phases {
		p := &r.Phases[i]
		row("%s\t%d\t%.1f\t%.2f\t%.2f\t%.2f\t%.1f\t%.1f\t%.2f\t%.2f\t%.1f\t%.0f\t%.0f\t%d\t%d", p.Name, p.Objects, p.Seconds, p.CPU["manager"],
			p.Requested(All), p.Requested(Writes), p.CPU["apiserver"], p.CPU["etcd"], p.BMCRequests, p.BMCCommands, p.bootRequested(),
			p.Manager.PeakMiB, p.Manager.HeapMiB, p.Manager.Goroutines, p.Manager.Connections)
	}
	row("\nrequests per object")
	for i := range r.Phases {
		row("%s\t%s", r.Phases[i].Name, list(r.Phases[i].Requests, 0.005))
		if len(r.Phases[i].BootRequests) > 0 {
			row("  of the boot server\t%s", list(r.Phases[i].BootRequests, 0.005))
		}
		if len(r.Phases[i].WatchBytes) > 0 {
			row("  bytes of watches\t%s", list(r.Phases[i].WatchBytes, 1))
		}
	}
	row("\nqueues: p50 and p99 of the wait in seconds, deepest")
	for i := range r.Phases {
		row("%s\t%s", r.Phases[i].Name, queues(r.Phases[i].Queues))
	}
	row("\nreaction to\tcount\tp50 s\tp99 s\tmax s")
	for _, what := range slices.Sorted(maps.Keys(r.Reactions)) {
		q := r.Reactions[what]
		row("%s\t%d\t%.3f\t%.3f\t%.3f", what, q.Count, q.P50, q.P99, q.Max)
	}
	row("")
	for _, what := range slices.Sorted(maps.Keys(r.Facts)) {
		row("%s\t%s", what, number(r.Facts[what]))
	}
	return t.Flush()
}

// number formats a figure of any size.
func number(n float64) string {
	if math.Abs(n) >= 1000 {
		return fmt.Sprintf("%.0f", n)
	}
	return fmt.Sprintf("%.3g", n)
}

func list(figures map[string]float64, least float64) string {
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(figures)) {
		if n := figures[what]; n >= least {
			parts = append(parts, fmt.Sprintf("%s %.2f", what, n))
		}
	}
	return strings.Join(parts, ", ")
}

func queues(all map[string]Queue) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		q := all[name]
		parts = append(parts, fmt.Sprintf("%s %.3f %.3f %d", name, q.P50, q.P99, q.Deepest))
	}
	return strings.Join(parts, "; ")
}
