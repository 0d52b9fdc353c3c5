// Command lab runs the provider for real, on one machine and without root: a management plane with the real Cluster API, and a
// rack of emulated servers that become its nodes.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	os.Exit(run())
}

// run returns the exit code.
func run() int {
	if len(os.Args) < 2 || os.Args[1] != "demo" {
		fmt.Fprintln(os.Stderr, "usage: lab demo [--keep]")
		return 2
	}
	set := flag.NewFlagSet("demo", flag.ExitOnError)
	keep := set.Bool("keep", false, "leave everything running until Ctrl-C")
	_ = set.Parse(os.Args[2:])     // it exits on an error
	ctrl.SetLogger(logr.Discard()) // the demo reports what happens itself
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := demo(ctx, *keep); err != nil {
		fmt.Fprintln(os.Stderr, "\nThe demo failed:", err)
		return 1
	}
	return 0
}
