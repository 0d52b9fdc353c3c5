package wire

import "testing"

// TestReaches: the policies have one order. Manual and unknown policies are not in it.
func TestReaches(t *testing.T) {
	order := []ErasePolicy{PolicyNone, "", PolicyMetadata, PolicyClear, PolicyPurge}
	for i, a := range order {
		for j, b := range order {
			if got := a.Reaches(b); got != (i >= j) {
				t.Errorf("%q reaches %q: %t", a, b, got)
			}
		}
		for _, other := range []ErasePolicy{PolicyManual, "Wipe"} {
			if a.Reaches(other) || other.Reaches(a) {
				t.Errorf("%q and %q are compared", a, other)
			}
		}
	}
}
