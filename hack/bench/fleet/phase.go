package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/capbm-io/cluster-api-provider-baremetal/hack/bench/report"
)

// phase runs a phase, and records its cost for each of its objects.
func (f *fleet) phase(ctx context.Context, name string, objects int, do func(context.Context) error) error {
	before := f.before
	var err error
	if before == nil {
		if before, err = f.snapshot(ctx); err != nil {
			return err
		}
	}
	f.before = nil
	f.logf("%s: %d objects", name, objects)
	stopProfile := f.profile(name) //nolint:contextcheck // a profile ends after five seconds
	depths := f.watchDepths(ctx)
	start := time.Now()
	err = do(ctx)
	took := time.Since(start)
	deepest := depths()
	if err != nil {
		stopProfile()
		return fmt.Errorf("%s: %w", name, err)
	}
	after, err := f.snapshot(ctx)
	stopProfile() // the profile of a short phase ends later
	if err != nil {
		return err
	}
	after.deepest, f.before = deepest, after
	f.result.Phases = append(f.result.Phases, costs(name, objects, took, before, after))
	f.logf("%s: done in %.1f s", name, took.Seconds())
	return nil
}

func costs(name string, objects int, took time.Duration, before, after *snapshot) report.Phase {
	n := float64(objects)
	p := report.Phase{
		Name: name, Objects: objects, Seconds: took.Seconds(), CPU: map[string]float64{}, Requests: map[string]float64{},
		BMCRequests: float64(after.bmc-before.bmc) / n, BMCCommands: float64(after.commands-before.commands) / n,
		BootRequests: map[string]float64{}, WatchBytes: map[string]float64{}, Queues: map[string]report.Queue{}, Manager: after.footprint,
	}
	for part, used := range after.cpu {
		if part == "manager" && used < before.cpu[part] { // it was restarted
			before.cpu[part] = 0
		}
		p.CPU[part] = float64((used - before.cpu[part]).Milliseconds()) / n
	}
	for what, count := range after.requests {
		if more := count - before.requests[what]; more > 0 && !ofTheServer(what) {
			p.Requests[what] = more / n
		}
	}
	for what, count := range after.boot {
		if more := count - before.boot[what]; more > 0 {
			p.BootRequests[what] = more / n
		}
	}
	for resource, bytes := range after.watched {
		if more := bytes - before.watched[resource]; more > 0 && !ofTheServer("WATCH "+resource) {
			p.WatchBytes[resource] = more / n
		}
	}
	for queue, waits := range after.waits {
		earlier := before.waits[queue]
		if earlier.GetSampleCount() > waits.GetSampleCount() {
			earlier = nil
		}
		if waits.GetSampleCount() > earlier.GetSampleCount() {
			p.Queues[queue] = report.Queue{
				P50: quantileBetween(earlier, waits, 0.5), P99: quantileBetween(earlier, waits, 0.99), Deepest: after.deepest[queue],
			}
		}
	}
	return p
}

// ofTheServer is true for the API server's requests to itself, which it also sends at rest, and for the benchmark's probes.
func ofTheServer(what string) bool {
	verb, resource, _ := strings.Cut(what, " ")
	resource, _, _ = strings.Cut(resource, " ") // without the answer
	switch {
	case resource == "leases": // its identity and that of the leader, which are only updated. The requests for the provider's addresses do count
		return verb != "POST" && verb != "DELETE" && verb != "GET"
	case resource == "", verb == "CONNECT":
		return true
	}
	switch strings.Split(resource, "/")[0] {
	case "baremetalhosts", "baremetalboots", "baremetalmachines", "baremetalclusters", "baremetalmachinetemplates", "baremetalremediations",
		"machines", "clusters", "secrets", "events", "leases", "namespaces", "nodes":
		return false
	default:
		return true
	}
}

// watchDepths reads the depth of the queues every ten seconds, for which the manager counts its hosts. The returned function stops it and returns the
// maximum depths.
func (f *fleet) watchDepths(ctx context.Context) func() map[string]int {
	ctx, stop := context.WithCancel(ctx)
	deepest := map[string]int{}
	var done sync.WaitGroup
	done.Go(func() {
		for {
			for _, m := range f.managers {
				all, err := scrape(ctx, http.DefaultClient, "http://"+m.metrics+"/metrics")
				if err != nil {
					continue // it is restarting
				}
				for _, metric := range all["workqueue_depth"].GetMetric() {
					deepest[queueOf(metric)] = max(deepest[queueOf(metric)], int(metric.GetGauge().GetValue()))
				}
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(10 * time.Second):
			}
		}
	})
	return func() map[string]int { stop(); done.Wait(); return deepest }
}

// profile takes CPU profiles of the manager and of the API server in the first five seconds of a phase. The returned function takes a profile of the
// manager's heap.
func (f *fleet) profile(name string) (stop func()) {
	if f.profiles == "" {
		return func() {}
	}
	get := func(client *http.Client, url, kind string) {
		file := fmt.Sprintf("%d-%s.%s", f.hosts, name, kind)
		if err := download(context.Background(), client, url, filepath.Join(f.profiles, file)); err != nil {
			f.logf("profile %s: %v", file, err)
		}
	}
	const cpu = "/debug/pprof/profile?seconds=5"
	manager := "http://" + f.managers[0].profiler
	var done sync.WaitGroup
	done.Go(func() { get(http.DefaultClient, manager+cpu, "cpu") })
	done.Go(func() {
		client, err := rest.HTTPClientFor(f.plane.Config())
		if err != nil {
			f.logf("profile of the API server: %v", err)
			return
		}
		get(client, strings.TrimSuffix(f.config.Host, "/")+cpu, "apiserver.cpu")
	})
	return func() {
		done.Wait()
		get(http.DefaultClient, manager+"/debug/pprof/heap", "heap")
	}
}

func download(ctx context.Context, client *http.Client, url, path string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	file, err := os.Create(filepath.Clean(path))
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	_, err = io.Copy(file, response.Body)
	return err
}
