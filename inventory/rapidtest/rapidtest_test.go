package rapidtest

import (
	"flag"
	"testing"
)

// checksIn returns how often rapid checks a property in a test that calls Checks.
func checksIn(t *testing.T, checks int) (value string) {
	t.Helper()
	t.Run("checks", func(t *testing.T) {
		Checks(t, checks)
		value = flag.Lookup("rapid.checks").Value.String()
	})
	return value
}

// TestChecks: a test says how often its properties are checked, for itself only, and the command line says it for all.
func TestChecks(t *testing.T) {
	f := flag.Lookup("rapid.checks")
	if before := f.Value.String(); !given(f) {
		if got := checksIn(t, 7); got != "7" {
			t.Errorf("%s checks in a test that demands 7", got)
		}
		if got := f.Value.String(); got != before {
			t.Errorf("%s checks in the next test, and not %s", got, before)
		}
	}
	if err := flag.Set(f.Name, "3"); err != nil { // as the command line does
		t.Fatal(err)
	}
	if got := checksIn(t, 7); got != "3" {
		t.Errorf("%s checks with -rapid.checks=3", got)
	}
}
