// Package mutants_test breaks packages of this project on purpose, in one place at a time, and demands that the tests of the package notice.
package mutants_test

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	// What they import is read from here: so Go knows that the result is old when it changed.
	_ "github.com/capbm-io/cluster-api-provider-baremetal/bmc/ipmi"
	_ "github.com/capbm-io/cluster-api-provider-baremetal/bmc/redfish"
	_ "github.com/capbm-io/cluster-api-provider-baremetal/controllers/boot"
	_ "github.com/capbm-io/cluster-api-provider-baremetal/pxe/server"
)

// root is the project's folder.
const root = "../.."

// seed decides which mutants are tried unless MUTANTS=all, or MUTANTS has parts of names, as in "record,void".
const seed = 1

// mutant is a change to a source file that makes it wrong: old, which occurs exactly once, becomes new.
type mutant struct {
	name, file, old, new string
}

// target is a package with its mutants.
type target struct {
	// folder is the package's, from the project's folder on.
	folder  string
	mutants []mutant
	// sampled is how many of the mutants are tried unless MUTANTS says otherwise.
	sampled int
	// runs are how the package's tests are run, one after the other, until one notices the mutant.
	runs []testRun
}

// testRun is one run of a package's tests with these arguments. name is the word for what noticed a mutant.
type testRun struct {
	name string
	args []string
}

// allTests runs every test of a package.
var allTests = []testRun{{name: "tests"}}

// targets are the packages that are broken.
var targets = []target{
	{"inventory/lifecycle", lifecycleMutants, 4, []testRun{
		// The properties know what must not happen, the other tests what should.
		{"properties", []string{"-test.run=^TestProperty", "-rapid.shrinktime=1ms"}},
		{"tables", []string{"-test.skip=^TestProperty", "-rapid.shrinktime=1ms"}},
	}},
	{"bmc", bmcMutants, 1, allTests},
	{"bmc/ipmi", ipmiMutants, 1, allTests},
	{"bmc/redfish", redfishMutants, 1, allTests},
	{"pxe", pxeMutants, 1, allTests},
	{"pxe/artifact", artifactMutants, 1, allTests},
	{"cmd/agent/internal/image", imageMutants, 1, imageRuns},
	{"cmd/agent/internal/method", methodMutants, 1, allTests},
	{"cmd/agent/internal/sanitize", sanitizeMutants, 1, allTests},
	// Left out is what takes longest and guards nothing that is broken here.
	{"controllers/boot", bootMutants, 1, []testRun{{"tests", []string{"-test.skip=^Test(StagesAreWrittenAtOnce|Problems|Template|Formats|EventsOfLife|EventsOfFailures)$"}}}},
}

// TestMutants: the tests of each package notice each of its mutants.
func TestMutants(t *testing.T) {
	for _, target := range slices.Concat(targets, guardTargets()) {
		t.Run(target.folder, target.test)
	}
}

func (p target) test(t *testing.T) {
	sources := p.read(t)
	if t.Failed() {
		return
	}
	chosen, all := p.choose()
	if all {
		t.Run("unchanged", func(t *testing.T) {
			if by, test := p.try(t, mutant{file: p.mutants[0].file}, sources[p.mutants[0].file]); by != "" {
				t.Fatalf("%s fails without a mutant: what it notices says nothing", test)
			}
		})
	}
	caught, tried := map[string]int{}, 0
	for _, m := range chosen {
		t.Run(m.name, func(t *testing.T) {
			tried++
			by, test := p.try(t, m, sources[m.file])
			if by == "" {
				t.Errorf("it survives: no test notices that %s says\n%s\nin the place of\n%s", m.file, m.new, m.old)
				return
			}
			caught[by]++
			t.Logf("%-10s %s (%s)", by, test, m.file)
		})
	}
	t.Logf("%s: %d mutants of %d tried, caught by: %v", p.folder, tried, len(p.mutants), caught)
}

// read returns the package's files by their names, and holds the mutants against them.
func (p target) read(t *testing.T) map[string]string {
	t.Helper()
	sources := map[string]string{}
	files, err := filepath.Glob(filepath.Join(root, p.folder, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("found no sources: %v", err)
	}
	for _, name := range files { // the tests too: Go sees what is read, and so when a result is old
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		sources[filepath.Base(name)] = string(content)
	}
	names := map[string]bool{}
	for _, m := range p.mutants {
		if n := strings.Count(sources[m.file], m.old); n != 1 {
			t.Errorf("%q: what it changes stands %d times in %s: update the table\n%s", m.name, n, m.file, m.old)
		}
		if names[m.name] {
			t.Errorf("%q stands in the table twice", m.name)
		}
		names[m.name] = true
	}
	return sources
}

// choose returns the mutants to try. all is true where MUTANTS wants them all.
func (p target) choose() (chosen []mutant, all bool) {
	chosen = slices.Clone(p.mutants)
	switch parts := os.Getenv("MUTANTS"); parts {
	case "all":
		return chosen, true
	case "":
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(chosen), func(i, j int) { chosen[i], chosen[j] = chosen[j], chosen[i] })
		return chosen[:min(p.sampled, len(chosen))], false
	default:
		return slices.DeleteFunc(chosen, func(m mutant) bool {
			return !slices.ContainsFunc(strings.Split(parts, ","), func(part string) bool { return strings.Contains(m.name, part) })
		}), false
	}
}

// try builds the tests of the package with the mutant in the place of what it changes, and runs them. by is the run that noticed it, and test its
// first test that failed; both are empty where all pass. Nothing in the tree is changed.
func (p target) try(t *testing.T, m mutant, source string) (by, test string) {
	t.Helper()
	dir, folder := t.TempDir(), filepath.Join(root, p.folder)
	file, binary, overlay := filepath.Join(dir, m.file), filepath.Join(dir, "package.test"), filepath.Join(dir, "overlay.json")
	replaced, err := filepath.Abs(filepath.Join(folder, m.file))
	if err != nil {
		t.Fatal(err)
	}
	instead, err := json.Marshal(map[string]any{"Replace": map[string]string{replaced: file}})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{file: []byte(strings.Replace(source, m.old, m.new, 1)), overlay: instead} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", overlay, "-o", binary, folder).CombinedOutput(); err != nil {
		t.Fatalf("it does not compile: %v\n%s", err, out)
	}
	for _, kind := range p.runs {
		run := exec.CommandContext(ctx, binary, append([]string{"-test.failfast", "-test.timeout=5m"}, kind.args...)...)
		run.Dir = folder
		out, err := run.CombinedOutput()
		if ctx.Err() != nil {
			t.Fatalf("it takes too long:\n%s", out[max(0, len(out)-2000):])
		}
		if err != nil {
			return kind.name, firstFailed(string(out))
		}
	}
	return "", ""
}

var failed = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)

func firstFailed(out string) string {
	if found := failed.FindStringSubmatch(out); found != nil {
		return found[1]
	}
	return "a panic, or a deadline: " + out[max(0, len(out)-200):]
}
