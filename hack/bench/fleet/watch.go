package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/bench/report"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/emulated"
)

// watcher watches every change of hosts, boots and machines, and measures the time from an external event to the change.
type watcher struct {
	mu       sync.Mutex
	hosts    map[string]*v1alpha1.BareMetalHost
	boots    map[string]bool
	machines map[string]*v1alpha1.BareMetalMachine
	changed  chan struct{}                   // closed at the next change
	pending  map[string]map[string]time.Time // the time of the event, by event and object
	freed    []time.Time                     // hosts that became free while machines waited
	waiting  map[string]bool                 // machines that found no host
	took     map[string][]float64
}

func newWatcher() *watcher {
	return &watcher{
		hosts: map[string]*v1alpha1.BareMetalHost{}, boots: map[string]bool{}, machines: map[string]*v1alpha1.BareMetalMachine{}, changed: make(chan struct{}),
		pending: map[string]map[string]time.Time{}, waiting: map[string]bool{}, took: map[string][]float64{},
	}
}

// began records an event.
func (w *watcher) began(what, whom string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pending[what] == nil {
		w.pending[what] = map[string]time.Time{}
	}
	w.pending[what][whom] = time.Now()
}

// ended records the provider's reaction to an event. The caller holds w.mu.
func (w *watcher) ended(what, whom string) {
	if began, ok := w.pending[what][whom]; ok {
		w.took[what] = append(w.took[what], time.Since(began).Seconds())
		delete(w.pending[what], whom)
	}
}

// stages are the boot stages that a server reports, and the stages that its BareMetalBoot shows then.
var stages = map[string]v1alpha1.BootStage{
	"DHCP": v1alpha1.StageDHCP, "loader": v1alpha1.StageLoader, "script": v1alpha1.StageScript, "kernel": v1alpha1.StageKernel, "seed": v1alpha1.StageData,
}

// shown names the time from a request of the firmware until the BareMetalBoot shows its stage. Runs before BareMetalBoots have the times until the
// BareMetalHost showed it, under another name.
func shown(stage v1alpha1.BootStage) string { return "BareMetalBoot shows " + string(stage) }

// power is what a BMC shows.
func power(on v1alpha1.PowerState) string { return "BMC shows " + string(on) }

// serverEvent records an event of a server.
func (w *watcher) serverEvent(server, what string) {
	switch stage := stages[what]; {
	case stage != "":
		w.began(shown(stage), server)
	case what == emulated.PoweredOn:
		w.began(power(v1alpha1.PowerOn), server)
	case what == emulated.PoweredOff:
		w.began(power(v1alpha1.PowerOff), server)
	case strings.Contains(what, "a disk that is empty"): // of an adopted server, whose system was installed before
	default:
		fmt.Println("server", server, what)
	}
}

var _ cache.ResourceEventHandler = &watcher{}

// OnAdd records an object that was added.
func (w *watcher) OnAdd(o any, _ bool) { w.saw(o) }

// OnUpdate records an object that changed.
func (w *watcher) OnUpdate(_, o any) { w.saw(o) }

// OnDelete records an object that was deleted.
func (w *watcher) OnDelete(o any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if missed, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = missed.Obj
	}
	switch o := o.(type) {
	case *v1alpha1.BareMetalHost:
		delete(w.hosts, o.Name)
	case *v1alpha1.BareMetalBoot:
		delete(w.boots, o.Name)
	case *v1alpha1.BareMetalMachine:
		delete(w.machines, o.Name)
	}
	w.wake()
}

// wake wakes the goroutines that wait for a change. The caller holds w.mu.
func (w *watcher) wake() {
	close(w.changed)
	w.changed = make(chan struct{})
}

func (w *watcher) saw(o any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch o := o.(type) {
	case *v1alpha1.BareMetalHost:
		w.sawHost(w.hosts[o.Name], o)
		w.hosts[o.Name] = o
	case *v1alpha1.BareMetalBoot:
		w.boots[o.Name] = true
		for _, s := range o.Status.Stages {
			if s.Number == o.Spec.Number { // others are of an earlier boot
				w.ended(shown(s.Stage), o.Name)
			}
		}
	case *v1alpha1.BareMetalMachine:
		w.machines[o.Name] = o
	}
	w.wake()
}

func (w *watcher) sawHost(before, now *v1alpha1.BareMetalHost) {
	if now.Status.Phase != "" {
		w.ended("BareMetalHost created", now.Name)
	}
	if ref := now.Spec.ConsumerRef; ref != nil && (before == nil || before.Spec.ConsumerRef == nil) {
		w.ended("Machine created", ref.Name)
		if w.waiting[ref.Name] && len(w.freed) > 0 {
			w.took["host freed"] = append(w.took["host freed"], time.Since(w.freed[0]).Seconds())
			w.freed = w.freed[1:]
		}
	}
	if len(w.waiting) > 0 && now.Status.Phase == v1alpha1.PhaseAvailable && before != nil && before.Status.Phase != v1alpha1.PhaseAvailable {
		w.freed = append(w.freed, time.Now())
	}
	w.ended(power(now.Status.Power), now.Name)
}

// phaseTimeout is the maximum duration of a phase.
const phaseTimeout = 30 * time.Minute

// until waits until a condition holds.
func (w *watcher) until(ctx context.Context, what string, enough func() (string, bool)) error {
	ctx, cancel := context.WithTimeout(ctx, phaseTimeout)
	defer cancel()
	tell := time.NewTicker(20 * time.Second)
	defer tell.Stop()
	for {
		w.mu.Lock()
		how, ok := enough()
		changed := w.changed
		w.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-tell.C:
			fmt.Printf("%11s%s: %s\n", "", what, how)
			continue
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %w; %s", what, ctx.Err(), how)
		}
		select { // many changes are checked at once
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// inPhase is a condition for until: n hosts are in a phase.
func (w *watcher) inPhase(phase v1alpha1.HostPhase, n int) func() (string, bool) {
	return func() (string, bool) {
		counts := map[v1alpha1.HostPhase]int{}
		for _, h := range w.hosts {
			counts[h.Status.Phase]++
		}
		return fmt.Sprint(counts), counts[phase] >= n
	}
}

// waiters is a condition for until: it holds for n of the machines that waited for a host.
func (w *watcher) waiters(n int, so func(*v1alpha1.BareMetalMachine) bool) func() (string, bool) {
	return func() (string, bool) {
		count := 0
		for name, m := range w.machines {
			if w.waiting[name] && so(m) {
				count++
			}
		}
		return strconv.Itoa(count), count == n
	}
}

// reactions returns the measured times.
func (w *watcher) reactions() map[string]report.Quantiles {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := map[string]report.Quantiles{}
	for what, times := range w.took {
		all[what] = report.QuantilesOf(times)
	}
	return all
}

// forget drops an event to which no reaction is expected yet.
func (w *watcher) forget(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.pending, what)
}

// free returns the numbers of the hosts without a machine, in their order.
func (w *watcher) free() []int {
	w.mu.Lock()
	defer w.mu.Unlock()
	var free []int
	for name, h := range w.hosts {
		if h.Spec.ConsumerRef == nil {
			free = append(free, numberOf(name))
		}
	}
	slices.Sort(free)
	return free
}

// booted returns the names of the machines that booted in this run.
func (w *watcher) booted() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var names []string
	for _, h := range w.hosts {
		if h.Spec.ConsumerRef != nil && h.Spec.ProviderState.Boots > 0 {
			names = append(names, h.Spec.ConsumerRef.Name)
		}
	}
	slices.Sort(names)
	return names
}
