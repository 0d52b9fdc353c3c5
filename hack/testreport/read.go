package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
)

// module is the path of this module, which commands write as ".".
const module = "github.com/capbm-io/cluster-api-provider-baremetal"

// maxLine limits a line of the input: test2json cuts the output of tests into lines, and some tests print whole objects.
const maxLine = 16 << 20

// event is a line of "go test -json", of which other fields are not needed (go doc test2json).
type event struct {
	Action  string `json:"Action"`
	Package string `json:"Package"`
	Test    string `json:"Test"`
	Output  string `json:"Output"`
}

// test is what is known of a test, or of a package if its name is empty.
type test struct {
	pkg, name string
	action    string // pass, fail or skip; empty until it ended
	parent    bool   // it has subtests
	notes     []string
}

// run is a run of "go test -json".
type run struct {
	args  string
	order []string
	tests map[string]*test
}

// read returns the results of a file.
func read(name string) (results, error) {
	file, err := os.Open(name) //nolint:gosec // a file that the user named
	if err != nil {
		return results{}, err
	}
	defer func() { _ = file.Close() }()      // it was only read
	args, err := os.ReadFile(name + ".args") //nolint:gosec // beside it
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return results{}, err
	}
	r := run{args: strings.TrimSpace(string(args)), tests: map[string]*test{}}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return results{}, fmt.Errorf("%s: %w", name, err)
		}
		r.record(e)
	}
	return r.results(), lines.Err()
}

func (r *run) get(pkg, name string) *test {
	key := pkg + " " + name
	t := r.tests[key]
	if t == nil {
		t = &test{pkg: pkg, name: name}
		r.tests[key] = t
		r.order = append(r.order, key)
	}
	return t
}

// note matches a line of a test's output that is shown: a command of the test's own that reruns it, or the reason of a skip, which follows its place.
var note = regexp.MustCompile(`^\s+(?:\S+\.go:\d+: )?(.*\S)\s*$`)

func (r *run) record(e event) {
	if e.Package == "" {
		return // the output of the compiler, which gotestsum shows
	}
	t := r.get(e.Package, e.Test)
	switch e.Action {
	case "pass", "fail", "skip":
		t.action = e.Action
	case "run":
		for end, c := range e.Test {
			if parent := r.tests[e.Package+" "+e.Test[:end]]; c == '/' && parent != nil { // a name may have slashes of its own
				parent.parent = true
			}
		}
	case "output":
		if found := note.FindStringSubmatch(e.Output); found != nil {
			t.notes = append(t.notes, found[1])
		}
	}
}

func (r *run) results() results {
	var all results
	failed := map[string]bool{} // packages and tests with a failed test below them
	// Subtests go before their parents, and tests before their package.
	slices.SortStableFunc(r.order, func(a, b string) int { return cmp.Compare(r.tests[b].depth(), r.tests[a].depth()) })
	for _, key := range r.order {
		t := r.tests[key]
		if t.name != "" && t.action == "" {
			t.action = "fail" // the program ended before the test did
		}
		switch {
		case t.action == "fail" && !failed[key]:
			all.failed = append(all.failed, r.command(t))
			r.markParents(t, failed)
		case t.name == "" || t.parent:
		case t.action == "pass":
			all.passed++
		case t.action == "skip":
			all.skipped = append(all.skipped, short(t.pkg)+" "+t.name+": "+strings.Join(t.notes, " "))
		}
	}
	slices.Sort(all.failed)
	slices.Sort(all.skipped)
	return all
}

// depth is 0 for a package, 1 for a test, and one more for each level of subtests.
func (t *test) depth() int {
	if t.name == "" {
		return 0
	}
	return 1 + strings.Count(t.name, "/")
}

func (r *run) markParents(t *test, failed map[string]bool) {
	failed[t.pkg+" "] = true
	for end := range t.name {
		if t.name[end] == '/' {
			failed[t.pkg+" "+t.name[:end]] = true
		}
	}
}

func short(pkg string) string {
	return "." + strings.TrimPrefix(pkg, module)
}
