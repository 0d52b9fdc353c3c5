package main

import (
	"context"
	"runtime"
	"runtime/debug"
	"testing"

	. "github.com/onsi/gomega"
)

// TestMemory: the garbage follows what is in use, and whoever sets his own bounds keeps them.
func TestMemory(t *testing.T) {
	g := NewWithT(t)
	g.Expect(gcPercentFor(0)).To(Equal(100), "nothing is known yet")
	g.Expect(gcPercentFor(1<<20)).To(Equal(400), "a small heap")
	g.Expect(gcPercentFor(64 << 20)).To(Equal(100))
	g.Expect(gcPercentFor(100 << 20)).To(Equal(64))
	g.Expect(gcPercentFor(260 << 20)).To(Equal(40))

	percent := func() int {
		now := debug.SetGCPercent(77)
		debug.SetGCPercent(now)
		return now
	}
	before := percent()
	defer debug.SetGCPercent(before)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	t.Setenv("GOGC", "100")
	t.Setenv("GOMEMLIMIT", "")
	boundMemory(over)
	g.Expect(percent()).To(Equal(before))
	t.Setenv("GOGC", "")
	runtime.GC()
	boundMemory(over)
	g.Expect(percent()).NotTo(Equal(before))
}
