// Package leaktest finds goroutines that are still running after the tests of a package.
package leaktest

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/onsi/gomega"
	"go.uber.org/goleak"
)

// timeout is how long goroutines may need to end on a busy machine. goleak waits only for half a second.
const timeout, pollInterval = 30 * time.Second, 100 * time.Millisecond

// Main runs a package's tests, and fails if goroutines are still running after them: func TestMain(m *testing.M) { leaktest.Main(m) }.
func Main(m *testing.M) {
	if os.Getenv("GOMEGA_DEFAULT_EVENTUALLY_TIMEOUT") == "" {
		gomega.SetDefaultEventuallyTimeout(30 * time.Second) // Gomega's second is too short on a busy machine
	}
	code := m.Run()
	if code == 0 {
		if err := await(timeout); err != nil {
			fmt.Fprintln(os.Stderr, "the tests passed, but:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// await waits until all goroutines have ended. The error lists those that have not.
func await(timeout time.Duration) error {
	for end := time.Now().Add(timeout); ; time.Sleep(pollInterval) { // goleak has no event to wait for
		if err := goleak.Find(); err == nil || time.Now().After(end) {
			return err
		}
	}
}
