package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/client-go/rest"

	"github.com/capbm-io/cluster-api-provider-baremetal/hack/bench/report"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/proc"
)

// snapshot has all counters at one time.
type snapshot struct {
	cpu           map[string]time.Duration
	requests      map[string]float64 // to the API server, by verb, resource and answer (see answered), without those of the benchmark itself
	bmc, commands int
	boot          map[string]float64
	waits         map[string]*dto.Histogram // by queue
	deepest       map[string]int
	footprint     report.Footprint
	stored        map[string]float64
	watched       map[string]float64 // bytes of events that were sent to watches, by resource
}

type families map[string]*dto.MetricFamily

func (f *fleet) snapshot(ctx context.Context) (*snapshot, error) {
	s := &snapshot{boot: map[string]float64{}, waits: map[string]*dto.Histogram{}}
	var err error
	if s.cpu, err = f.cpu(); err != nil {
		return nil, err
	}
	for _, server := range f.servers {
		s.bmc += server.BMCRequests()
		s.commands += len(server.Commands())
	}
	for _, m := range f.managers {
		all, err := scrape(ctx, http.DefaultClient, "http://"+m.metrics+"/metrics")
		if err != nil {
			return nil, fmt.Errorf("the manager's metrics: %w", err)
		}
		s.countManager(all)
		if err := s.weigh(m.pid(), all); err != nil {
			return nil, err
		}
	}
	return s, f.countRequests(ctx, s)
}

// cpu returns the CPU time of each process since its start.
func (f *fleet) cpu() (map[string]time.Duration, error) {
	apiServer, etcd := f.plane.StorePids()
	pids := map[string][]int{"apiserver": {apiServer}, "etcd": {etcd}, "fleet": {os.Getpid()}}
	for _, m := range f.managers {
		pids["manager"] = append(pids["manager"], m.pid())
	}
	used := map[string]time.Duration{}
	for part, all := range pids {
		for _, pid := range all {
			u, err := proc.UsageOf(pid)
			if err != nil {
				return nil, fmt.Errorf("the usage of %s: %w", part, err)
			}
			used[part] += u.CPU
		}
	}
	return used, nil
}

// bootCounters are the counters of requests to the boot server.
var bootCounters = map[string]string{"capbm_dhcp_requests_total": "DHCP", "capbm_tftp_requests_total": "TFTP", "capbm_http_requests_total": "HTTP"}

func (s *snapshot) countManager(all families) {
	for name, protocol := range bootCounters {
		for _, m := range all[name].GetMetric() {
			what := []string{protocol}
			for _, l := range m.GetLabel() {
				if l.GetName() == "what" || l.GetName() == "kind" {
					what = append(what, l.GetValue())
				}
			}
			s.boot[strings.Join(what, " ")] += m.GetCounter().GetValue()
		}
	}
	for _, m := range all["workqueue_queue_duration_seconds"].GetMetric() {
		name := queueOf(m)
		if s.waits[name] == nil {
			s.waits[name] = m.GetHistogram()
		} else {
			addHistogram(s.waits[name], m.GetHistogram())
		}
	}
}

func queueOf(m *dto.Metric) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == "controller" {
			return l.GetValue()
		}
	}
	return ""
}

func (s *snapshot) weigh(pid int, all families) error {
	u, err := proc.UsageOf(pid)
	if err != nil {
		return err
	}
	connections, err := sockets(pid)
	if err != nil {
		return err
	}
	one := func(name string) float64 {
		for _, m := range all[name].GetMetric() {
			return m.GetGauge().GetValue()
		}
		return 0
	}
	s.footprint.PeakMiB += float64(u.PeakKiB) / (1 << 10)
	s.footprint.HeapMiB += one("go_memstats_heap_inuse_bytes") / (1 << 20)
	s.footprint.Goroutines += int(one("go_goroutines"))
	s.footprint.Connections += connections
	return nil
}

// sockets counts the open sockets of a process.
func sockets(pid int) (int, error) {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	files, err := os.ReadDir(dir)
	n := 0
	for _, file := range files {
		if target, err := os.Readlink(filepath.Join(dir, file.Name())); err == nil && strings.HasPrefix(target, "socket:") {
			n++
		}
	}
	return n, err
}

// countRequests counts the requests to the API server, and the objects that it stores.
func (f *fleet) countRequests(ctx context.Context, s *snapshot) error {
	client, err := rest.HTTPClientFor(f.plane.Config())
	if err != nil {
		return err
	}
	all, err := scrape(ctx, client, strings.TrimSuffix(f.config.Host, "/")+"/metrics")
	if err != nil {
		return fmt.Errorf("the API server's metrics: %w", err)
	}
	s.requests = map[string]float64{}
	for _, m := range all["apiserver_request_total"].GetMetric() {
		l := map[string]string{}
		for _, pair := range m.GetLabel() {
			l[pair.GetName()] = pair.GetValue()
		}
		s.requests[requestName(l["verb"], l["resource"], l["subresource"])+answered(l["code"])] += m.GetCounter().GetValue()
	}
	for what, n := range f.own.sums() {
		s.requests[what] -= n
	}
	s.stored, s.watched = map[string]float64{}, map[string]float64{}
	for _, m := range all["apiserver_storage_size_bytes"].GetMetric() {
		s.stored["etcd bytes"] += m.GetGauge().GetValue()
	}
	for _, m := range all["apiserver_watch_events_sizes"].GetMetric() {
		s.stored["watch bytes"] += m.GetHistogram().GetSampleSum()
		for _, l := range m.GetLabel() {
			if l.GetName() == "resource" {
				s.watched[l.GetValue()] += m.GetHistogram().GetSampleSum()
			}
		}
	}
	for _, m := range all["apiserver_longrunning_requests"].GetMetric() {
		s.stored["watches"] += m.GetGauge().GetValue()
	}
	return nil
}

func requestName(verb, resource, subresource string) string {
	if subresource != "" {
		resource += "/" + subresource
	}
	return verb + " " + resource
}

// answered distinguishes the requests that had no effect: a conflict (409), which is repeated, and an object that is gone (404). It is empty for others.
func answered(code string) string {
	if code == "409" || code == "404" {
		return " " + code
	}
	return ""
}

func scrape(ctx context.Context, client *http.Client, url string) (families, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, errors.New(response.Status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(io.LimitReader(response.Body, 256<<20))
}

// ownRequests counts the benchmark's own requests in the same way as the API server.
type ownRequests struct {
	mu     sync.Mutex
	counts map[string]float64
}

func (o *ownRequests) sums() map[string]float64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.counts)
}

type counting struct {
	own  *ownRequests
	next http.RoundTripper
}

func (o *ownRequests) count(next http.RoundTripper) http.RoundTripper { return &counting{o, next} }

// RoundTrip counts a request and sends it. The API server, too, counts a watch when it ends.
func (c *counting) RoundTrip(r *http.Request) (*http.Response, error) {
	what := nameOf(r)
	response, err := c.next.RoundTrip(r)
	if err == nil && !strings.HasPrefix(what, "WATCH") {
		c.own.mu.Lock()
		c.own.counts[what+answered(strconv.Itoa(response.StatusCode))]++
		c.own.mu.Unlock()
	}
	return response, err
}

// nameOf names a request as the API server's metrics do.
func nameOf(r *http.Request) string {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	skip := 2 // api/VERSION
	if parts[0] == "apis" {
		skip = 3 // apis/GROUP/VERSION
	}
	parts = parts[min(skip, len(parts)):]
	if len(parts) > 2 && parts[0] == "namespaces" {
		parts = parts[2:]
	}
	parts = append(parts, "", "", "")
	verb := r.Method
	switch {
	case r.URL.Query().Has("watch"):
		verb = "WATCH"
	case r.Method == http.MethodGet && parts[1] == "":
		verb = "LIST"
	case r.Method == http.MethodPatch && strings.Contains(r.Header.Get("Content-Type"), "apply-patch"):
		verb = "APPLY"
	}
	return requestName(verb, parts[0], parts[2])
}

// addHistogram adds the counts of another process with the same buckets.
func addHistogram(to, from *dto.Histogram) {
	to.SampleCount = new(to.GetSampleCount() + from.GetSampleCount())
	for i, b := range to.GetBucket() {
		if i < len(from.GetBucket()) {
			b.CumulativeCount = new(b.GetCumulativeCount() + from.GetBucket()[i].GetCumulativeCount())
		}
	}
}

// quantileBetween is a quantile of the observations between two histograms of the same buckets: the upper bound of its bucket. An observation above all
// bounds counts as the last bound.
func quantileBetween(before, after *dto.Histogram, q float64) float64 {
	total := float64(after.GetSampleCount() - before.GetSampleCount())
	earlier := map[float64]uint64{}
	for _, b := range before.GetBucket() {
		earlier[b.GetUpperBound()] = b.GetCumulativeCount()
	}
	buckets := after.GetBucket()
	slices.SortFunc(buckets, func(a, b *dto.Bucket) int {
		if a.GetUpperBound() < b.GetUpperBound() {
			return -1
		}
		return 1
	})
	last := 0.0
	for _, b := range buckets {
		if math.IsInf(b.GetUpperBound(), 1) {
			break
		}
		last = b.GetUpperBound()
		if float64(b.GetCumulativeCount()-earlier[last]) >= q*total {
			break
		}
	}
	return last
}
