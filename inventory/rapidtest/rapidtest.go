// Package rapidtest makes the tests of this project draw the same values for the same tree. A test that uses rapid imports it for its effect.
package rapidtest

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"strconv"
	"testing"

	_ "pgregory.net/rapid" // has the flags
)

// variable is the environment variable with the seed, a number. make sets it to the hash of the tree, so each change draws other values and a failure is
// reproducible. The default is 1.
const variable = "SEED"

func value() string { return cmp.Or(os.Getenv(variable), "1") }

// It sets defaults before the flags are parsed, so the flags -rapid.seed and -rapid.nofailfile still count.
func init() { //nolint:gochecknoinits // a flag has no other place for a default that a package of tests shares
	for name, value := range map[string]string{
		"rapid.seed":       value(),
		"rapid.nofailfile": "true", // the seed reproduces it, and mutants fail often
	} {
		if err := flag.Set(name, value); err != nil {
			panic(fmt.Sprintf("rapidtest: %s=%s: %v", variable, value, err))
		}
	}
}

// Seed returns the seed for tests that draw values without rapid.
func Seed(tb testing.TB) uint64 {
	tb.Helper()
	seed, err := strconv.ParseUint(value(), 10, 64)
	if err != nil {
		tb.Fatalf("%s: %v", variable, err)
	}
	return seed
}

// Checks sets how many times the properties of a test are checked, if the flag -rapid.checks does not say it. Without it rapid checks 100 times.
func Checks(tb testing.TB, checks int) {
	tb.Helper()
	f := flag.Lookup("rapid.checks")
	if given(f) {
		return
	}
	before := f.Value.String()
	tb.Cleanup(func() { _ = f.Value.Set(before) }) // it was valid
	if err := f.Value.Set(strconv.Itoa(checks)); err != nil {
		tb.Fatal(err)
	}
}

// given is true for a flag that the command line has.
func given(f *flag.Flag) (found bool) {
	flag.Visit(func(set *flag.Flag) { found = found || set == f })
	return found
}
