package main

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// How much garbage the heap may hold before it is collected. Go's own pace doubles a fleet's memory, nearly all of which stays in use; and collects the
// few megabytes of a small one all the time.
const (
	leastGarbage = 64 << 20 // bytes
	leastPercent = 40       // of what is in use
	memoryPeriod = time.Second
)

// gcPercentFor returns the garbage that a heap may hold (runtime/debug.SetGCPercent), in percent of the bytes that were in use when it was last collected;
// Go's own before the first time. A memory limit does not do: what it leaves for garbage is what fragments and stacks do not take, which may be nothing, and
// then nothing but collecting is done.
func gcPercentFor(live uint64) int {
	if live == 0 {
		return 100
	}
	return int(max(leastPercent, min(100*leastGarbage/live, 400))) //nolint:gosec // between these two
}

// boundMemory keeps the garbage at what the heap may hold, until ctx ends. Whoever sets GOGC or GOMEMLIMIT decides it himself.
func boundMemory(ctx context.Context) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	tick := time.NewTicker(memoryPeriod)
	defer tick.Stop()
	for set := 100; ; {
		metrics.Read(live)
		if percent := gcPercentFor(live[0].Value.Uint64()); percent != set {
			set = percent
			debug.SetGCPercent(percent)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
