// Command testreport counts the tests of one or more runs of "go test -json", prints the command that reruns each failed test alone, and ends with the line
// "N passed, N failed, N skipped". It fails if a test failed or if no test ran.
//
// Usage: testreport FILE..., each written by gotestsum --jsonfile. FILE.args, if it exists, has the arguments of go test with which FILE was made.
package main

import (
	"fmt"
	"os"
	"strings"
)

func main() {
	total := results{}
	for _, name := range os.Args[1:] {
		one, err := read(name)
		if err != nil {
			fmt.Fprintln(os.Stderr, "testreport:", err)
			os.Exit(1)
		}
		total.add(one)
	}
	if len(total.skipped) > 0 {
		fmt.Printf("\nSkipped:\n  %s\n", strings.Join(total.skipped, "\n  "))
	}
	if len(total.failed) > 0 {
		fmt.Printf("\nFailed. Each command reruns one of them alone:\n  %s\n", strings.Join(total.failed, "\n  "))
	}
	fmt.Printf("\n%d passed, %d failed, %d skipped\n", total.passed, len(total.failed), len(total.skipped))
	if len(total.failed) > 0 {
		os.Exit(1)
	}
	if total.passed == 0 {
		fmt.Fprintln(os.Stderr, "testreport: no test passed: the pattern or the package is wrong")
		os.Exit(1)
	}
}

// results are the results of tests. A test with subtests does not count, because its subtests do; unless it failed and they did not.
type results struct {
	passed int
	// failed has the commands that rerun failed tests.
	failed []string
	// skipped has the skipped tests with their reasons.
	skipped []string
}

func (r *results) add(other results) {
	r.passed += other.passed
	r.failed = append(r.failed, other.failed...)
	r.skipped = append(r.skipped, other.skipped...)
}
