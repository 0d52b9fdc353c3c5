package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/bench/report"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/plane"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/proc"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/rack"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/site"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
)

// namespace is the namespace of the hosts and machines.
const namespace = "fleet"

// fleet is a run.
type fleet struct {
	options

	start    time.Time
	lab      *site.Lab
	plane    *plane.Plane
	config   *rest.Config // of the benchmark itself, whose requests are counted separately
	own      *ownRequests
	client   client.Client
	watch    *watcher
	servers  []*rack.Server
	managers []manager
	result   report.Run
	before   *snapshot // the start of the next phase, if it continues the last one
	stop     context.CancelFunc
	ends     sync.WaitGroup
}

// manager is a process of the provider.
type manager struct {
	pid               func() int
	metrics, profiler string // addresses
}

func newFleet(o options) *fleet {
	return &fleet{options: o, start: time.Now(), own: &ownRequests{counts: map[string]float64{}}, result: report.Run{
		Hosts: o.hosts, Boots: o.boots, Flags: strings.Fields(o.flags), Reactions: map[string]report.Quantiles{}, Facts: map[string]float64{},
		Machine: fmt.Sprintf("%d cores, %s", runtime.NumCPU(), runtime.Version()),
	}}
}

// hostName is the name of the nth server and of its host. numberOf is its inverse.
func hostName(n int) string { return fmt.Sprintf("h-%05d", n) }

func numberOf(host string) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(host, "h-"))
	return n
}

func (f *fleet) logf(format string, args ...any) {
	fmt.Printf("%7.1f s  %s\n", time.Since(f.start).Seconds(), fmt.Sprintf(format, args...))
}

// setUp starts the lab with all servers. None of them is registered.
func (f *fleet) setUp(ctx context.Context) error {
	ctx, f.stop = context.WithCancel(ctx)
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	commit, err := proc.Run(ctx, nil, "git", "-C", root, "describe", "--always", "--dirty")
	if err != nil {
		return err
	}
	f.result.Commit = strings.TrimSpace(commit)
	if f.lab, err = site.New(ctx, root, f.logf, func(server, what string) { f.watch.serverEvent(server, what) }); err != nil {
		return err
	}
	f.lab.Rack.PowerDelay, f.lab.Rack.IPMIEvery, f.lab.Rack.Persist = 0, 10, time.Minute
	if err := f.lab.Rack.MakeRoom(); err != nil {
		return err
	}
	for i := range f.hosts {
		server, err := f.lab.Rack.Add(ctx, hostName(i), rack.Light)
		if err != nil {
			return err
		}
		f.servers = append(f.servers, server)
	}
	if err := f.startManagers(ctx); err != nil {
		return err
	}
	f.config = f.plane.Config()
	f.config.Wrap(f.own.count)
	if f.client, err = client.New(f.config, client.Options{Scheme: plane.Scheme()}); err != nil {
		return err
	}
	if err := f.createCluster(ctx); err != nil {
		return err
	}
	return f.startWatch(ctx)
}

// startManagers starts one manager; or several that share the hosts, and one more that is the boot server for all.
func (f *fleet) startManagers(ctx context.Context) error {
	common := append(withoutIntervals(f.lab.Rack.ManagerArgs()), f.result.Flags...)
	first, addresses, err := flagsOfManager()
	if err != nil {
		return err
	}
	first = append(first, common...)
	if f.options.managers > 1 {
		first = append(first, "--components=controllers", "--watch-filter=0")
	}
	f.plane, err = f.lab.StartPlane(ctx, "management", first, func(o *plane.Options) { o.Alone = true })
	if err != nil {
		return err
	}
	addresses.pid = f.plane.ManagerPid
	f.managers = append(f.managers, addresses)
	for i := 1; i <= f.options.managers && f.options.managers > 1; i++ {
		args, addresses, err := flagsOfManager()
		if err != nil {
			return err
		}
		role := []string{"--components=controllers", fmt.Sprintf("--watch-filter=%d", i)}
		if i == f.options.managers {
			role = []string{"--components=boot"}
		}
		process, err := f.plane.StartAnother(ctx, append(append(args, common...), role...)...)
		if err != nil {
			return err
		}
		addresses.pid = process.Pid
		f.managers = append(f.managers, addresses)
	}
	return nil
}

// withoutIntervals drops the flags that make the lab's other managers faster than a real one.
func withoutIntervals(args []string) []string {
	var kept []string
	for _, arg := range args {
		if !strings.HasPrefix(arg, "--power-") && !strings.HasPrefix(arg, "--boot-timeout") {
			kept = append(kept, arg)
		}
	}
	return kept
}

func flagsOfManager() ([]string, manager, error) {
	var m manager
	var problems []error
	for _, address := range []*string{&m.metrics, &m.profiler} {
		port, err := pxetest.FreePort(netip.MustParseAddr("127.0.0.1"))
		problems = append(problems, err)
		*address = fmt.Sprintf("127.0.0.1:%d", port)
	}
	return []string{"--diagnostics-address=" + m.metrics, "--insecure-diagnostics", "--profiler-address=" + m.profiler}, m, errors.Join(problems...)
}

// startWatch watches every change of hosts, boots and machines.
func (f *fleet) startWatch(ctx context.Context) error {
	f.watch = newWatcher()
	c, err := cache.New(f.config, cache.Options{Scheme: plane.Scheme(), DefaultTransform: cache.TransformStripManagedFields()})
	if err != nil {
		return err
	}
	for _, kind := range []client.Object{&v1alpha1.BareMetalHost{}, &v1alpha1.BareMetalBoot{}, &v1alpha1.BareMetalMachine{}} {
		informer, err := c.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err != nil {
			return err
		}
		if _, err := informer.AddEventHandler(f.watch); err != nil {
			return err
		}
	}
	f.ends.Go(func() { _ = c.Start(ctx) })
	if !c.WaitForCacheSync(ctx) {
		return errors.New("the hosts cannot be watched")
	}
	return nil
}

func (f *fleet) close(keepLogs bool) error {
	var err error
	if f.plane != nil {
		err = f.plane.Stop()
	}
	if f.stop != nil {
		f.stop()
	}
	f.ends.Wait()
	if f.lab != nil {
		err = errors.Join(err, f.lab.Close(keepLogs))
		if keepLogs {
			fmt.Println("logs are in", f.lab.Dir)
		}
	}
	return err
}
