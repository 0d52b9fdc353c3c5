// Command soak runs the provider for a long time on emulated servers: hosts with Machines that are created directly, and hosts under the whole of Cluster
// API. Random faults, creations, deletions, scalings and crashes of the manager happen at the same time, and a checker compares what happens with the rules that
// must hold at any time. With --kills it instead kills the manager so many times at random moments of a machine's life, and compares each life with one
// without a crash.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// options are the flags.
type options struct {
	duration      time.Duration
	seed          uint64
	direct, whole int
	kills         int
	keep          bool
}

func main() {
	os.Exit(run())
}

// run returns the exit code.
func run() int {
	var o options
	flag.DurationVar(&o.duration, "duration", 20*time.Minute, "Duration of faults and operations. The start and the end of a run take some minutes more.")
	flag.Uint64Var(&o.seed, "seed", 1, "Seed of the random decisions.")
	flag.IntVar(&o.direct, "direct", 200, "Number of hosts whose Machines are created directly.")
	flag.IntVar(&o.whole, "whole", 30, "Number of hosts under the whole of Cluster API.")
	flag.IntVar(&o.kills, "kills", 0, "Kill the manager this number of times at random moments of a machine's life, and do nothing else.")
	flag.BoolVar(&o.keep, "keep-logs", false, "Keep the folder with the logs even if the run succeeds.")
	flag.Parse()
	klog.SetLogger(logr.Discard()) // the watches of the checker end whenever the API server does
	ctrl.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := soakOrKill(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "\nsoak:", err)
		return 1
	}
	return 0
}

func soakOrKill(ctx context.Context, o options) (err error) {
	s := newSoak(o)
	defer func() { //nolint:contextcheck // the lab is closed even if ctx has ended
		if closeErr := s.close(err != nil || o.keep); err == nil {
			err = closeErr
		}
	}()
	if err := s.setUp(ctx); err != nil {
		return fmt.Errorf("set up: %w", err)
	}
	if o.kills > 0 {
		return s.killAlongLives(ctx)
	}
	return s.soak(ctx)
}
