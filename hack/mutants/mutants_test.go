// Package mutants_test breaks lifecycle.Next and the guards against hostile users on purpose, in one place at a time, and demands that the tests of the
// package notice.
package mutants_test

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	// What it imports is read from here: so Go knows that the result is old when it changed.
	_ "github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
	_ "github.com/capbm-io/cluster-api-provider-baremetal/pxe/server"
)

const root = "../.."

// lifecycle is the folder of the files whose names have no folder.
const lifecycle = "inventory/lifecycle"

// sampled is how many mutants are tried unless MUTANTS=all, or MUTANTS has parts of names, as in "record,void". Which ones follows from the seed.
const (
	sampled = 6
	seed    = 1
)

// mutant is a change to a source file that makes it wrong: old, which stands there exactly once, becomes new.
type mutant struct {
	name, file, old, new string
}

// path is the file from the root.
func (m mutant) path() string {
	if strings.Contains(m.file, "/") {
		return m.file
	}
	return lifecycle + "/" + m.file
}

// read returns the sources of the packages that mutants change, by their paths from the root. The tests are read too: Go sees what is read, and so when a
// result is old.
func read(t *testing.T, all []mutant) map[string]string {
	t.Helper()
	sources, folders := map[string]string{}, map[string]bool{}
	for _, m := range all {
		folder := path.Dir(m.path())
		if folders[folder] {
			continue
		}
		folders[folder] = true
		files, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("found no sources in %s: %v", folder, err)
		}
		for _, name := range files {
			content, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			sources[path.Join(folder, filepath.Base(name))] = string(content)
		}
	}
	return sources
}

// TestMutants: the properties, or else the tables, catch each of them.
func TestMutants(t *testing.T) {
	all := slices.Concat(mutants, guards)
	sources := read(t, all)
	names := map[string]bool{}
	for _, m := range all {
		if n := strings.Count(sources[m.path()], m.old); n != 1 {
			t.Errorf("%q: what it changes stands %d times in %s: keep the table up\n%s", m.name, n, m.path(), m.old)
		}
		if names[m.name] {
			t.Errorf("%q stands in the table twice", m.name)
		}
		names[m.name] = true
	}
	if t.Failed() {
		return
	}
	chosen := slices.Clone(all)
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
			if by, test := m.try(t, sources[m.path()]); by != "" {
				caught[by]++
				t.Logf("%-10s %s (%s)", by, test, m.file)
			}
		})
	}
	t.Logf("%d mutants of %d tried: %d caught by the properties, %d by the tables alone, %d survived", tried, len(all), caught[byProperties], caught[byTables],
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
	file, binary, overlay := filepath.Join(dir, path.Base(m.path())), filepath.Join(dir, "package.test"), filepath.Join(dir, "overlay.json")
	folder := filepath.Join(root, path.Dir(m.path()))
	replaced, err := filepath.Abs(filepath.Join(root, m.path()))
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
		args := []string{kind.which, "-test.failfast", "-test.timeout=5m"}
		if kind.by == byTables && guardTests[m.file] != "" {
			args = append(args, "-test.run="+guardTests[m.file])
		}
		if path.Dir(m.path()) == lifecycle {
			args = append(args, "-rapid.shrinktime=1ms")
		}
		run := exec.CommandContext(ctx, binary, args...)
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
