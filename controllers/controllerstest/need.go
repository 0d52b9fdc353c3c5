package controllerstest

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// complete is the environment variable that the targets of make set to "complete": what a test needs is there then, and if it is not, the test fails.
const complete = "CAPBM_TESTS"

// Need ends the test program of a package if a file is missing that its tests need, such as a program of the lab. The files are relative to the project's folder,
// or absolute. command is how to make or install them. The tests are skipped, so that "go test ./..." works in a fresh clone; in a target of make they fail.
func Need(m *testing.M, command string, files ...string) {
	for _, name := range files {
		path := name
		if !filepath.IsAbs(path) {
			path = filepath.Join(Root(), name)
		}
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			SkipAll(m, fmt.Sprintf("%s is missing: run %s", name, command))
		}
	}
}

// NeedFile does for one test what Need does for a package.
func NeedFile(t *testing.T, command, name string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(Root(), name)); !errors.Is(err, os.ErrNotExist) {
		return
	}
	if os.Getenv(complete) == "complete" {
		t.Fatalf("%s is missing: run %s", name, command)
	}
	t.Skipf("%s is missing: run %s", name, command) // so that "go test ./..." works in a fresh clone
}

// NeedRoot ends the test program of a package if it does not run as root, as Need does.
func NeedRoot(m *testing.M) {
	if os.Geteuid() != 0 {
		SkipAll(m, "the tests make network namespaces: run them as root")
	}
}

// SkipAll ends the test program of a package without running a test.
func SkipAll(m *testing.M, reason string) {
	if os.Getenv(complete) == "complete" {
		fmt.Fprintln(os.Stderr, reason)
		os.Exit(1)
	}
	fmt.Fprintln(os.Stderr, "skipped:", reason)
	flag.Parse()
	if err := flag.Set("test.run", "^$"); err != nil { // go test prints "no tests to run"
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
