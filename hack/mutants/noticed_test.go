package mutants

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// noticedPath is the file that names for each mutant the test that noticed it last. That test runs first, so that a mutant takes seconds and not the minutes of its
// package. A line that is outdated costs only time: then all tests of the package run, and the line is replaced.
const noticedPath = "testdata/noticed.txt"

// readNoticed returns the tests by the names of the mutants.
func readNoticed() (map[string]string, error) {
	content, err := os.ReadFile(noticedPath)
	if err != nil {
		return nil, err
	}
	tests := map[string]string{}
	for line := range strings.Lines(string(content)) {
		if name, test, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
			tests[name] = test
		}
	}
	return tests, nil
}

// writeNoticed writes that a test noticed a mutant.
func writeNoticed(name, test string) error {
	tests, err := readNoticed()
	if err != nil || tests[name] == test {
		return err
	}
	tests[name] = test
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(tests)) {
		_, _ = fmt.Fprintf(&b, "%s: %s\n", name, tests[name])
	}
	return os.WriteFile(noticedPath, []byte(b.String()), 0o600)
}

// TestNoticed: the file has no mutant that does not exist, which a renamed one would leave.
func TestNoticed(t *testing.T) {
	tests, err := readNoticed()
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range targets() {
		for _, m := range target.mutants {
			delete(tests, m.name)
		}
	}
	for name := range tests {
		t.Errorf("%s names the mutant %q, which does not exist: remove the line", noticedPath, name)
	}
}

// noticed returns the tests that noticed the mutants of a package, once each. None may fail without a mutant, also when it runs alone.
func (p target) noticed(by map[string]string) []string {
	tests := map[string]bool{}
	for _, m := range p.mutants {
		if test := by[m.name]; test != "" {
			tests[test] = true
		}
	}
	return slices.Sorted(maps.Keys(tests))
}

// alone returns the arguments with which the package's tests run one test: those of its first run, except the choice of tests.
func (p target) alone(test string) string {
	flags := []string{"-test.run=^" + test + "$"}
	if len(p.runs) > 0 {
		flags = append(flags, slices.DeleteFunc(strings.Fields(p.runs[0]), func(flag string) bool {
			return strings.HasPrefix(flag, "-test.run") || strings.HasPrefix(flag, "-test.skip")
		})...)
	}
	return strings.Join(flags, " ")
}
