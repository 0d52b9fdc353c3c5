package contracttest

import (
	"testing"
	"time"
)

// Part is a part of a suite: a rule, or a step in the life of a cluster.
type Part[S any] struct {
	Name string
	Run  func(S, *testing.T)
	// Needs are the names of the parts, further up in the list, whose effects this part builds upon.
	Needs []string
}

// RunParts runs the parts in their order, each as a subtest. A part that -run selects alone runs the parts that it needs first, within its own
// subtest. A part is skipped if a part that it needs failed.
func RunParts[S any](t *testing.T, suite S, parts []Part[S]) {
	t.Helper()
	r := &runner[S]{suite: suite, parts: map[string]Part[S]{}, passed: map[string]bool{}}
	for _, p := range parts {
		for _, need := range p.Needs {
			if _, known := r.parts[need]; !known {
				t.Fatalf("%q needs %q, which is no part further up", p.Name, need)
			}
		}
		r.parts[p.Name] = p
	}
	for _, p := range parts {
		start := time.Now()
		t.Run(p.Name, func(t *testing.T) { r.run(t, p) })
		if _, ran := r.passed[p.Name]; ran {
			t.Logf("%5.1f s  %s", time.Since(start).Seconds(), p.Name)
		}
	}
}

type runner[S any] struct {
	suite  S
	parts  map[string]Part[S]
	passed map[string]bool // has the names of the parts that ran
}

func (r *runner[S]) run(t *testing.T, p Part[S]) {
	t.Helper()
	for _, need := range p.Needs {
		if _, ran := r.passed[need]; !ran {
			t.Logf("%q needs %q", p.Name, need)
			r.run(t, r.parts[need])
		}
		if !r.passed[need] {
			// The run has failed already: a second failure would only hide the cause.
			t.Skipf("%q needs %q, which failed", p.Name, need) // that failure fails the whole test
		}
	}
	r.passed[p.Name] = false // until it returns: a failure ends the goroutine
	p.Run(r.suite, t)
	r.passed[p.Name] = !t.Failed()
}
