// Package crash halts the provider at every write to the API and every command to a BMC along the life of a host, and starts a fresh provider. The life
// must end as one without a crash.
package crash

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
)

var env *controllerstest.Env

func TestMain(m *testing.M) { controllerstest.Main(m, &env) }

// point is a point at which a provider is halted.
type point struct {
	n    int
	when moment
}

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

// number reads a number from the environment.
func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// TestCrash runs each path undisturbed to count its points, and then once for each point. CRASH_SAMPLE is the number of points of a path that are drawn by
// CRASH_SEED; 0 is all. CRASH_PATH selects paths by prefix, and CRASH_AT points, as in 12/before,12/after.
func TestCrash(t *testing.T) {
	sample, seed := number(t, "CRASH_SAMPLE", 12), number(t, "CRASH_SEED", 1)
	t.Logf("CRASH_SAMPLE=%d CRASH_SEED=%d", sample, seed)
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
			for _, at := range choose(t, r.points, sample, seed) {
				t.Run(fmt.Sprintf("%s/%d-%s", r.path.name, at.n, at.when), func(t *testing.T) {
					t.Parallel()
					r.crash(t, at)
				})
			}
		}
	})
	printReport(t, report)
	t.Logf("took %s", time.Since(start).Round(time.Second))
}

// enumerate lists the points of a path: what was counted in the run without a crash.
func (r *row) enumerate(t *testing.T) {
	t.Helper()
	if !r.uncrashed {
		return
	}
	r.writes, r.commands, _ = r.counter.counted()
	r.named = map[string]int{}
	for i, what := range r.counter.what {
		t.Logf("%s %3d %s", r.path.name, i+1, what)
		if _, name, ok := strings.Cut(what, ": "); ok {
			name, _, _ = strings.Cut(name, " as ")
			r.named[name]++
		}
		r.points = append(r.points, point{i + 1, before}, point{i + 1, after})
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
	f := &fuse{at: at.n, when: at.when}
	defer func() {
		_, _, tripped := f.counted()
		r.mu.Lock()
		defer r.mu.Unlock()
		r.runs++
		switch {
		case t.Failed():
			r.failures++
			t.Logf("the provider was halted %s request %d: %s", at.when, at.n, tripped)
		case tripped == "":
			r.unreached++
		}
	}()
	r.path.walk(t, f)
}

// choose draws some of the points, or returns all.
func choose(t *testing.T, points []point, sample, seed int) []point {
	t.Helper()
	if at := os.Getenv("CRASH_AT"); at != "" {
		var chosen []point
		for one := range strings.SplitSeq(at, ",") {
			n, when, _ := strings.Cut(one, "/")
			number, err := strconv.Atoi(n)
			if err != nil {
				t.Fatal("CRASH_AT: ", err)
			}
			if !slices.Contains([]moment{before, after}, moment(when)) {
				t.Fatalf("CRASH_AT: %q is neither N/%s nor N/%s", one, before, after)
			}
			chosen = append(chosen, point{number, moment(when)})
		}
		return chosen
	}
	if sample == 0 || sample >= len(points) {
		return points
	}
	random := rand.New(rand.NewPCG(uint64(seed), 0))
	random.Shuffle(len(points), func(i, j int) { points[i], points[j] = points[j], points[i] })
	points = points[:sample]
	slices.SortFunc(points, func(a, b point) int { return a.n - b.n })
	return points
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
