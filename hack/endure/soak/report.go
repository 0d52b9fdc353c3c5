package main

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// report counts the operations and faults of a run.
type report struct {
	mu       sync.Mutex
	ops      map[string]int
	faults   map[string]int
	worst    map[string]time.Duration
	failures []string
}

func newReport() *report {
	return &report{ops: map[string]int{}, faults: map[string]int{}, worst: map[string]time.Duration{}}
}

func (r *report) done(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ops[what]++
}

func (r *report) injected(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults[what]++
}

func (r *report) recovered(what string, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.worst[what] = max(r.worst[what], took)
}

func (r *report) failed(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, what)
}

// count returns how often an operation was done.
func (r *report) count(what string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ops[what]
}

func (r *report) print() {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Println("\nOperations")
	for _, what := range slices.Sorted(maps.Keys(r.ops)) {
		fmt.Printf("  %6d  %s\n", r.ops[what], what)
	}
	fmt.Println("\nFaults injected, and the worst time to recover after their end")
	for _, what := range slices.Sorted(maps.Keys(r.faults)) {
		if worst, known := r.worst[what]; known {
			fmt.Printf("  %6d  %-32s %6.1f s\n", r.faults[what], what, worst.Seconds())
		} else {
			fmt.Printf("  %6d  %-32s      -\n", r.faults[what], what)
		}
	}
	for _, what := range r.failures {
		fmt.Println("\nFAILED", what)
	}
}
