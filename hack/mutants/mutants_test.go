// Package mutants_test breaks lifecycle.Next on purpose, in one place at a time, and demands that the tests of its package notice.
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

	// What it imports is read from here: so Go knows that the result is old when it changed.
	_ "github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

const folder = "../../inventory/lifecycle"

// sampled is how many mutants are tried unless MUTANTS=all, or MUTANTS has parts of names, as in "record,void". Which ones follows from the seed.
const (
	sampled = 6
	seed    = 1
)

// mutant is a change to a source file that makes it wrong: old, which stands there exactly once, becomes new.
type mutant struct {
	name, file, old, new string
}

// TestMutants: the properties, or else the tables, catch each of them.
func TestMutants(t *testing.T) {
	sources := map[string]string{}
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
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
	for _, m := range mutants {
		if n := strings.Count(sources[m.file], m.old); n != 1 {
			t.Errorf("%q: what it changes stands %d times in %s: keep the table up\n%s", m.name, n, m.file, m.old)
		}
		if names[m.name] {
			t.Errorf("%q stands in the table twice", m.name)
		}
		names[m.name] = true
	}
	if t.Failed() {
		return
	}
	chosen := slices.Clone(mutants)
	switch parts := os.Getenv("MUTANTS"); parts {
	case "all":
	case "":
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(chosen), func(i, j int) { chosen[i], chosen[j] = chosen[j], chosen[i] })
		chosen = chosen[:sampled]
	default:
		chosen = slices.DeleteFunc(chosen, func(m mutant) bool {
			return !slices.ContainsFunc(strings.Split(parts, ","), func(part string) bool { return strings.Contains(m.name, part) })
		})
	}
	caught, tried := map[string]int{}, 0
	for _, m := range chosen {
		t.Run(m.name, func(t *testing.T) {
			tried++
			if by, test := m.try(t, sources[m.file]); by != "" {
				caught[by]++
				t.Logf("%-10s %s (%s)", by, test, m.file)
			}
		})
	}
	t.Logf("%d mutants of %d tried: %d caught by the properties, %d by the tables alone, %d survived", tried, len(mutants), caught[byProperties], caught[byTables],
		tried-caught[byProperties]-caught[byTables])
}

// What catches a mutant.
const (
	byProperties = "properties"
	byTables     = "tables"
)

// try builds the tests of the package with the mutant in the place of what it changes, and runs them: first the properties, which know what must
// not happen, then the rest, which knows what should. Nothing in the tree is changed.
func (m mutant) try(t *testing.T, source string) (by, test string) {
	t.Helper()
	dir := t.TempDir()
	file, binary, overlay := filepath.Join(dir, m.file), filepath.Join(dir, "lifecycle.test"), filepath.Join(dir, "overlay.json")
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
	for _, kind := range []struct{ by, which string }{{byProperties, "-test.run=^TestProperty"}, {byTables, "-test.skip=^TestProperty"}} {
		run := exec.CommandContext(ctx, binary, kind.which, "-test.failfast", "-test.timeout=5m", "-rapid.shrinktime=1ms")
		run.Dir = folder
		out, err := run.CombinedOutput()
		if ctx.Err() != nil {
			t.Fatalf("it takes too long:\n%s", out[max(0, len(out)-2000):])
		}
		if err != nil {
			return kind.by, firstFailed(string(out))
		}
	}
	t.Errorf("it survives: no test notices that %s says\n%s\nin the place of\n%s", m.file, m.new, m.old)
	return "", ""
}

var failed = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)

func firstFailed(out string) string {
	if found := failed.FindStringSubmatch(out); found != nil {
		return found[1]
	}
	return "a panic, or a deadline: " + out[max(0, len(out)-200):]
}
