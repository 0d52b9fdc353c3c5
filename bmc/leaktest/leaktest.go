// Package leaktest finds goroutines that the tests of a package left behind.
package leaktest

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// Goroutines that end by themselves get as long as a busy machine may need: goleak alone waits for half a second.
const timeout, pollInterval = 30 * time.Second, 100 * time.Millisecond

// Main runs a package's tests, which fail when they leave goroutines behind: func TestMain(m *testing.M) { leaktest.Main(m) }.
func Main(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if err := await(timeout); err != nil {
			fmt.Fprintln(os.Stderr, "the tests passed, but:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// await waits until no goroutine is left, and returns which are.
func await(patience time.Duration) error {
	for end := time.Now().Add(patience); ; time.Sleep(pollInterval) { // between looks
		if err := goleak.Find(); err == nil || time.Now().After(end) {
			return err
		}
	}
}
