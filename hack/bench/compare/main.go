// Command compare prints how one run of the fleet benchmark differs from another: compare OLD.json NEW.json.
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/capbm-io/cluster-api-provider-baremetal/hack/bench/report"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run returns the exit code.
func run(args []string, out, problems io.Writer) int {
	if len(args) != 2 {
		_, _ = fmt.Fprintln(problems, "usage: compare OLD.json NEW.json")
		return 2
	}
	if err := compare(args[0], args[1], out); err != nil {
		_, _ = fmt.Fprintln(problems, "compare:", err)
		return 1
	}
	return 0
}

func compare(before, after string, out io.Writer) error {
	first, err := report.Read(before)
	if err != nil {
		return err
	}
	second, err := report.Read(after)
	if err != nil {
		return err
	}
	return report.Compare(out, first, second)
}
