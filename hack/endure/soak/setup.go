package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/emulated"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/endure/invariant"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/plane"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/rack"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/site"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
)

// The namespaces of the hosts whose Machines are created directly, and of the hosts under the whole of Cluster API.
const direct, whole = "direct", site.Namespace

// probeHost is a host that no machine claims. The time that the provider takes to follow a change of its spec shows whether it has recovered from a fault.
const probeHost = "probe"

// The timeouts of the manager: what takes minutes in a rack takes seconds here.
const (
	bootTimeout     = 2 * time.Minute
	shutDownTimeout = 8 * time.Second
)

// diskBytes is the size of the disks: the image, its bootstrap data and not much more, because an erasure of all disks writes and reads each byte.
const diskBytes = 80 << 20

// host is a server and the host that represents it.
type host struct {
	*rack.Server

	namespace string
	// busy is the driver's current operation with the host; there is one at a time.
	busy   string
	faulty bool
	judged int // how many of its commands the checker got
	life   int // how often it was switched on
	round  int // how many machines were created for it
	seeds  int // how often it got bootstrap data

	failedLife   int  // the value of life when its Node last became unhealthy
	healthySince bool // its Node has been healthy since
}

func (h *host) key() client.ObjectKey { return client.ObjectKey{Namespace: h.namespace, Name: h.Name} }

func (h *host) id() string { return h.namespace + "/" + h.Name }

// soak is a run.
type soak struct {
	options

	start   time.Time
	lab     *site.Lab
	plane   *plane.Plane
	client  client.WithWatch
	checker *invariant.Checker
	// Each has its own random numbers, so that their decisions follow from the seed alone.
	operate, misbehave, disturb *rand.Rand
	report                      *report
	usage                       *usage
	background                  sync.WaitGroup // ends with the context of the run
	tasks                       sync.WaitGroup // started by the driver, which also waits for their end

	probing      sync.Mutex
	mu           sync.Mutex
	hosts        []*host
	byName       map[string]*host
	machines     map[string]*machine
	created      int
	sessions     map[string]int // by BMC, the number that a killed manager left behind
	before       footprint
	profiler     string
	temp         string
	stopOperator context.CancelFunc // stops the operator
}

func newSoak(o options) *soak {
	random := func(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(o.seed, stream)) } //nolint:gosec // decisions must be repeatable
	s := &soak{
		options: o, start: time.Now(), operate: random(1), misbehave: random(2), disturb: random(3), report: newReport(),
		byName: map[string]*host{}, machines: map[string]*machine{}, sessions: map[string]int{},
	}
	s.checker = invariant.New(invariant.Times{
		Slack: 5 * time.Second, Lag: 5 * time.Second, Phase: 150 * time.Second, Boot: 3*bootTimeout + time.Minute, Alike: direct,
	})
	return s
}

func (s *soak) logf(format string, args ...any) {
	fmt.Printf("%7.1f s  %s\n", time.Since(s.start).Seconds(), fmt.Sprintf(format, args...))
}

// setUp starts the lab, registers the servers and waits until they are Available.
func (s *soak) setUp(ctx context.Context) error {
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	if s.lab, err = site.New(ctx, root, s.logf, s.serverEvent); err != nil {
		return err
	}
	s.lab.Rack.Persist, s.lab.Rack.Seeded, s.lab.Rack.DiskBytes = time.Minute, s.seeded, diskBytes
	s.temp = filepath.Join(s.lab.Dir, "manager-temp")
	if err := os.MkdirAll(s.temp, 0o700); err != nil {
		return err
	}
	port, err := pxetest.FreePort(netip.MustParseAddr("127.0.0.1"))
	if err != nil {
		return err
	}
	s.profiler = fmt.Sprintf("127.0.0.1:%d", port)
	args := append(s.lab.Rack.ManagerArgs(), "--boot-timeout="+bootTimeout.String(), "--shutdown-timeout="+shutDownTimeout.String(),
		"--power-poll-interval=15s", "--power-active-interval=3s", "--profiles", "--profiler-address="+s.profiler)
	if s.plane, err = s.lab.StartPlane(ctx, "management", args, func(o *plane.Options) {
		o.ManagerEnv = []string{"TMPDIR=" + s.temp}
	}); err != nil {
		return err
	}
	if s.client, err = s.plane.Watcher(); err != nil {
		return err
	}
	s.usage = watchUsage(ctx, s)
	s.background.Go(func() { s.checker.Watch(ctx, s.client) })
	s.background.Go(func() { s.judge(ctx) })
	return s.registerAll(ctx)
}

// registerAll registers the probe and the hosts, and waits until they are Available.
func (s *soak) registerAll(ctx context.Context) error {
	if err := s.plane.Apply(ctx, directCluster); err != nil {
		return err
	}
	if err := errors.Join(s.provisionDirectCluster(ctx), s.nodesLiveHere(ctx)); err != nil {
		return err
	}
	var yaml strings.Builder
	yaml.WriteString(profilesYAML())
	problems := []error{s.register(ctx, &yaml, direct, probeHost, rack.Light)}
	for i := range s.direct {
		problems = append(problems, s.register(ctx, &yaml, direct, fmt.Sprintf("d-%03d", i+1), rack.Light))
	}
	for i := range s.whole {
		problems = append(problems, s.register(ctx, &yaml, whole, fmt.Sprintf("w-%03d", i+1)))
	}
	if err := errors.Join(problems...); err != nil {
		return err
	}
	start := time.Now()
	if err := s.plane.Apply(ctx, yaml.String()); err != nil {
		return err
	}
	if _, err := s.plane.Kubectl(ctx, "-n", direct, "patch", "baremetalhost", probeHost, "--type=merge", "-p", `{"spec":{"taints":[{"key":"probe"}]}}`); err != nil {
		return err
	}
	if err := s.label(ctx); err != nil {
		return err
	}
	if err := site.Until(ctx, 5*time.Minute, s.allAvailable); err != nil {
		return err
	}
	s.logf("%d hosts are Available, %.1f s after they were applied", len(s.byName), time.Since(start).Seconds())
	return nil
}

// register adds a server to the rack, and appends its manifests.
func (s *soak) register(ctx context.Context, yaml *strings.Builder, namespace, name string, options ...rack.Option) error {
	server, err := s.lab.Rack.Add(ctx, name, options...)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if strings.HasPrefix(server.BMC, "redfish") && len(s.byName)%2 == 0 {
		server.BMC += "?auth=session"
	}
	h := &host{Server: server, namespace: namespace}
	s.byName[name] = h
	if name != probeHost {
		s.hosts = append(s.hosts, h)
	}
	s.checker.Know(h.id(), h)
	yaml.WriteString(server.HostYAML(namespace))
	return nil
}

// label lets machines select their hosts, where each needs its own.
func (s *soak) label(ctx context.Context) error {
	if s.kills == 0 {
		return nil
	}
	for _, h := range s.hosts {
		if _, err := s.plane.Kubectl(ctx, "-n", direct, "label", "baremetalhost", h.Name, "server="+h.Name); err != nil {
			return err
		}
	}
	return nil
}

// allAvailable is nil if every host is Available and its server is off.
func (s *soak) allAvailable(context.Context) error {
	var not []string
	for _, h := range s.all() {
		if seen := s.checker.Host(h.id()); seen == nil || seen.Status.Phase != v1alpha1.PhaseAvailable || seen.Status.Power != v1alpha1.PowerOff {
			phase := "not there"
			if seen != nil {
				phase = string(seen.Status.Phase)
			}
			not = append(not, h.Name+" is "+phase)
		}
	}
	if len(not) > 0 {
		return fmt.Errorf("%d hosts are not Available: %s", len(not), strings.Join(not[:min(len(not), 5)], ", "))
	}
	return nil
}

// all returns every host, including the probe.
func (s *soak) all() []*host {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*host
	for h := range maps.Values(s.byName) {
		all = append(all, h)
	}
	return all
}

func (s *soak) close(keepLogs bool) error {
	var err error
	if s.plane != nil {
		err = s.plane.Stop()
	}
	if s.lab != nil {
		err = errors.Join(err, s.lab.Close(keepLogs))
		if keepLogs {
			fmt.Println("logs are in", s.lab.Dir)
		}
	}
	return err
}

// serverEvent records an event of a server.
func (s *soak) serverEvent(server, what string) {
	s.mu.Lock()
	h := s.byName[server]
	if h != nil && what == emulated.PoweredOn {
		h.life++
	}
	s.mu.Unlock()
	if work := agentWork[what]; work != "" {
		s.report.done(work)
	}
	switch {
	case h == nil:
	case what == emulated.PoweredOn:
		s.checker.PoweredOn(h.id())
	default:
		s.checker.Note(h.id(), "server: "+what)
	}
}

// seeded records the bootstrap data that a server got.
func (s *soak) seeded(server string, system *pxetest.System) {
	s.mu.Lock()
	h := s.byName[server]
	life := h.life
	h.seeds++
	s.mu.Unlock()
	if system.Volumes != nil {
		s.ranFromDisk(h, system)
		return
	}
	s.report.done("seeds handed out")
	s.checker.Seeded(h.id(), system.MetaData["hostname"], system.MetaData["instance-id"], system.Address.String(), life)
}

// judge passes new commands to the checker, and lets it judge, every second.
func (s *soak) judge(ctx context.Context) {
	told := 0
	for {
		for _, h := range s.all() {
			commands := h.Commands()
			for _, c := range commands[h.judged:] {
				s.checker.Command(h.id(), c.Name, c.At)
				s.report.done("BMC commands")
			}
			h.judged = len(commands)
		}
		s.checker.Judge(time.Now())
		violations := s.checker.Violations()
		for _, v := range violations[told:] {
			fmt.Printf("\nVIOLATION %s\n\n", v)
		}
		told = len(violations)
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
	}
}
