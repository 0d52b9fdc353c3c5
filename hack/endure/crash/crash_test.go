// Package crash halts the provider at every write to the API and every command to a BMC along the life of a host, and starts a fresh provider. The life
// must end as one without a crash.
package crash

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/shard"
)

var env *controllerstest.Env

func TestMain(m *testing.M) { controllerstest.Main(m, &env) }

// row is a line of the report.
type row struct {
	path             path
	counter          *fuse // of the run without a crash
	uncrashed        bool  // it succeeded
	writes, commands int
	named            map[string]int // the number of writes to hosts and boots, by name
	points           []point

	mu                        sync.Mutex
	runs, failures, unreached int
}

// TestCrash runs each path undisturbed to list its points, and then once for each point that is selected: those of the shard that SHARD names and those in
// testdata/always.txt, or all with SHARD=all. CRASH_PATH selects paths by prefix, and CRASH_AT one point, such as "claim 1 after".
func TestCrash(t *testing.T) {
	if shard.Unset() && os.Getenv("CRASH_AT") == "" {
		// go test ./... must not take hours: the targets of make set SHARD, and CI runs them.
		t.Skip("SHARD selects a part of the suite, or all: make test-system, or make crash-full") // minutes of processes: go test ./... stays quick
	}
	always, err := shard.ReadAlways("testdata/always.txt")
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	var report []*row
	for _, p := range paths {
		if strings.HasPrefix(p.name, os.Getenv("CRASH_PATH")) {
			report = append(report, &row{path: p, counter: &fuse{}})
		}
	}
	if slices.ContainsFunc(report, func(r *row) bool { return strings.HasPrefix(r.path.name, "move") }) {
		startTarget(t)
	}
	t.Run("uncrashed", func(t *testing.T) {
		for _, r := range report {
			t.Run(r.path.name, func(t *testing.T) {
				t.Parallel()
				r.path.walk(t, r.counter)
				r.uncrashed = !t.Failed()
			})
		}
	})
	t.Run("crashed", func(t *testing.T) {
		for _, r := range report {
			r.enumerate(t)
			for _, at := range r.points {
				if r.selected(at, always) {
					t.Run(r.name(at), func(t *testing.T) {
						t.Parallel()
						r.crash(t, at)
					})
				}
			}
		}
	})
	printReport(t, report)
	t.Logf("took %s", time.Since(start).Round(time.Second))
}

// name is the name of a case.
func (r *row) name(at point) string { return r.path.name + "/" + at.String() }

// selected reports whether the provider is halted at this point. CRASH_AT names one.
func (r *row) selected(at point, always shard.Always) bool {
	if one := os.Getenv("CRASH_AT"); one != "" {
		return at.String() == one
	}
	return always.Selected(r.name(at))
}

// enumerate lists the points of a path: what was counted in the run without a crash.
func (r *row) enumerate(t *testing.T) {
	t.Helper()
	if !r.uncrashed {
		return
	}
	r.writes, r.commands, _ = r.counter.counted()
	r.named = map[string]int{}
	nth := map[string]int{}
	for i, what := range r.counter.what {
		t.Logf("%s %3d %s", r.path.name, i+1, what)
		if _, name, ok := strings.Cut(what, ": "); ok {
			name, _, _ = strings.Cut(name, " as ")
			r.named[name]++
		}
		label := r.counter.labels[i]
		nth[label]++
		if at := (point{label, nth[label], before}); !at.isRepeated() {
			r.points = append(r.points, at)
		}
		r.points = append(r.points, point{label, nth[label], after})
	}
	for _, name := range r.path.writes {
		if r.named[name] == 0 {
			t.Errorf("%s: nothing was written of which a crash matters: %s", r.path.name, name)
		}
	}
}

// crash runs a path and halts the provider at a point.
func (r *row) crash(t *testing.T, at point) {
	t.Helper()
	f := &fuse{at: at}
	defer func() {
		_, _, tripped := f.counted()
		r.mu.Lock()
		defer r.mu.Unlock()
		r.runs++
		switch {
		case t.Failed():
			r.failures++
			t.Logf("the provider was halted %s this request: %s", at.when, tripped)
			t.Logf("rerun: CRASH_PATH=%s CRASH_AT='%s' go test -count=1 ./hack/endure/crash -run TestCrash -v", r.path.name, at)
		case tripped == "":
			r.unreached++
		}
	}()
	r.path.walk(t, f)
}

// printReport prints the report.
func printReport(t *testing.T, report []*row) {
	t.Helper()
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "path\twrites\tcommands\tcrash points\truns\tnot reached\tfailures")
	for _, r := range report {
		_, _ = fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\n", r.path.name, r.writes, r.commands, len(r.points), r.runs, r.unreached, r.failures)
	}
	_ = w.Flush()
	for _, r := range report {
		_, _ = fmt.Fprintf(&out, "%s:", r.path.name)
		for _, name := range slices.Sorted(maps.Keys(r.named)) {
			_, _ = fmt.Fprintf(&out, " %d %s;", r.named[name], name)
		}
		_, _ = fmt.Fprintln(&out)
	}
	t.Logf("\n%s", out.String())
}
