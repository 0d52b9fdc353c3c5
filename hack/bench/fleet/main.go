// Command fleet measures what a fleet of hosts costs one manager, its API server and etcd: registering, booting, idling, a restart, releasing and deleting.
// The servers are emulated, with BMCs and firmware that use the real protocols; everything else is real. hack/bench/README.md describes it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// options are the flags.
type options struct {
	hosts, boots int
	managers     int
	idle         time.Duration
	out          string
	profiles     string
	flags        string
	keep         bool
}

func main() {
	os.Exit(run())
}

// run returns the exit code.
func run() int {
	var o options
	flag.IntVar(&o.hosts, "hosts", 500, "Hosts to register.")
	flag.IntVar(&o.boots, "boots", 2000, "How many of them are booted, at most. The others are adopted, running.")
	flag.IntVar(&o.managers, "managers", 1, "Managers that share the hosts by a watch filter. With more than one, a further process is the boot server of all.")
	flag.DurationVar(&o.idle, "idle", 5*time.Minute, "How long the phase takes in which nothing happens.")
	flag.StringVar(&o.out, "out", "", "File that the figures are written to, as JSON.")
	flag.StringVar(&o.profiles, "profiles", "", "Folder that gets CPU profiles of the manager and of the API server for each phase, and a heap profile of the manager at its end.")
	flag.StringVar(&o.flags, "flags", "", "Further flags of the manager, separated by spaces.")
	flag.BoolVar(&o.keep, "keep-logs", false, "Keep the folder with the logs.")
	flag.Parse()
	if o.hosts < 1 || o.boots < 0 || o.managers < 1 {
		fmt.Fprintln(os.Stderr, "fleet: --hosts and --managers are at least 1, --boots at least 0")
		return 2
	}
	o.boots = min(o.boots, o.hosts)
	klog.SetLogger(logr.Discard())
	ctrl.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := measure(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "\nfleet:", err)
		return 1
	}
	return 0
}

func measure(ctx context.Context, o options) (err error) {
	if err := checkFileLimit(o.hosts); err != nil {
		return err
	}
	if o.out != "" {
		if err := os.MkdirAll(filepath.Dir(o.out), 0o750); err != nil {
			return err
		}
	}
	if o.profiles != "" {
		if err := os.MkdirAll(filepath.Clean(o.profiles), 0o750); err != nil {
			return err
		}
	}
	f := newFleet(o)
	defer func() { //nolint:contextcheck // the lab is closed even if ctx has ended
		if closeErr := f.close(err != nil || o.keep); err == nil {
			err = closeErr
		}
	}()
	if err := f.setUp(ctx); err != nil {
		return fmt.Errorf("set up: %w", err)
	}
	measured := f.phases(ctx)
	if err := f.result.Print(os.Stdout); err != nil {
		return err
	}
	if measured == nil && o.out != "" {
		return f.result.Write(o.out)
	}
	return measured
}

// checkFileLimit checks the limit of open files: each BMC needs a listener, and there are connections. Go's runtime has already raised the soft limit to
// the hard limit.
func checkFileLimit(hosts int) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	if need := uint64(hosts) + 5000; limit.Cur < need { //nolint:gosec // it is at least 1
		return fmt.Errorf("%d hosts need %d open files, and %d are allowed: raise the limit with ulimit -n", hosts, need, limit.Cur)
	}
	return nil
}
