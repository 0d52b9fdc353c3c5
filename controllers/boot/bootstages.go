package boot

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/metrics"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/artifact"
)

const (
	// gather is how long is waited for what is seen of a host next, so that the stages that follow each other are written together.
	gather = 500 * time.Millisecond
	// writers bounds the hosts whose sightings are written at once, patience how long that may take, and backlog how many hosts may wait for it.
	writers  = 4
	patience = 30 * time.Second
	// lastWrites is how long a process that stops writes what it saw last.
	lastWrites = 5 * time.Second
	backlog    = 1024
	// settle is how long the cache may take to show what was written. Until then memory keeps it from being written twice, and from then
	// on the host's own status does.
	settle = time.Minute
	// again is how old the last request of firmware that a running machine cannot have sent may be in the status, and a server's place in line:
	// these are the sightings that are written more than once.
	again = time.Minute
)

// sightings are written in the background: no packet waits for the API server. What is seen of a host while its turn to be written has not come
// is written together then: a slow API server gets fewer writes, and what is given out to a host meets fewer conflicts.
type sightings struct {
	hosts workqueue.TypedDelayingInterface[types.NamespacedName] // those with news

	mu      sync.Mutex
	news    map[types.NamespacedName]*news
	written map[sightingKey]writing // what the cache may not show yet
	swept   time.Time               // when written was last rid of what is old
}

// news is what is to be written of a host.
type news struct {
	stages  []stage
	problem *v1alpha1.BootProblem
}

// stage is a sighting, and how long after the begin of its attempt it was.
type stage struct {
	v1alpha1.ObservedStage

	took time.Duration
}

type sightingKey struct {
	host types.NamespacedName
	what string // the stage, or the problem
}

// writing is when something was seen, in the boot with that number.
type writing struct {
	boot int32
	at   time.Time
}

func newSightings() *sightings {
	return &sightings{
		hosts: workqueue.NewTypedDelayingQueue[types.NamespacedName](), news: map[types.NamespacedName]*news{}, written: map[sightingKey]writing{},
	}
}

// NeedLeaderElection is false: every boot server writes what it sees.
func (b *Booter) NeedLeaderElection() bool { return false }

// Start writes sightings until ctx ends, and then what was seen last: nobody reports twice how the bootstrap went.
func (b *Booter) Start(ctx context.Context) error {
	b.started.Store(&metav1.Time{Time: b.Clock.Now()})
	writing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for {
				host, over := b.sightings.hosts.Get()
				if over {
					return
				}
				b.write(writing, host, b.sightings.due(host))
				b.sightings.hosts.Done(host)
			}
		})
	}
	<-ctx.Done()
	defer time.AfterFunc(lastWrites, cancel).Stop()
	b.sightings.hosts.ShutDown()
	wg.Wait()
	for _, host := range b.sightings.hostsWithNews() {
		b.write(writing, host, b.sightings.due(host))
	}
	return nil
}

// write writes the news of a host.
func (b *Booter) write(ctx context.Context, host types.NamespacedName, n *news) {
	if n == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if len(n.stages) > 0 {
		err := b.writeStages(ctx, host, n.stages)
		for _, s := range n.stages {
			if err == nil {
				metrics.BootStage(s.Stage, s.took)
			}
			b.wrote(sightingKey{host, string(s.Stage)}, err)
		}
	}
	if n.problem != nil {
		b.wrote(sightingKey{host, problemKey(n.problem)}, controllers.ApplyProblem(ctx, b.Client, host, *n.problem))
	}
}

// writeStages writes stages of the boot that is under way. Those of another one came too late.
func (b *Booter) writeStages(ctx context.Context, host types.NamespacedName, stages []stage) error {
	boot, err := b.bootOf(ctx, host)
	if err != nil || boot == nil {
		return err
	}
	var seen []v1alpha1.ObservedStage
	for _, s := range stages {
		if s.Number == boot.Spec.Number {
			seen = append(seen, s.ObservedStage)
		}
	}
	if len(seen) == 0 {
		return nil
	}
	return controllers.ApplyStages(ctx, b.Client, boot, seen...)
}

// wrote sees to it that what was not written is when it is seen again.
func (b *Booter) wrote(key sightingKey, err error) {
	if client.IgnoreNotFound(err) == nil {
		return
	}
	b.Log.Error(err, "Write what was seen of a boot", "host", key.host, "what", key.what)
	b.sightings.forget(key)
}

// ObserveStage notes a stage of a boot.
func (b *Booter) ObserveStage(mac net.HardwareAddr, stage pxe.Stage, from netip.Addr, what string) {
	// Reading the cache does not block.
	host, err := b.hostOf(context.Background(), mac)
	if err != nil || host == nil {
		return
	}
	boot, err := b.bootOf(context.Background(), client.ObjectKeyFromObject(host))
	switch {
	case err != nil || boot == nil || boot.Spec.PoweredOnAt == nil || boot.Spec.VoidedAt != nil: // what comes before is not the server's
	case stage == pxe.StageWaiting:
		b.sawWaiting(boot, from, what)
	case boot.Spec.DataServedAt != nil:
		b.sawAgain(host, boot, from, what)
	case stage != pxe.StageFirmware:
		if stage == pxe.StageDHCP {
			b.noteDHCP(boot, from)
		}
		b.saw(boot, v1alpha1.BootStage(stage), from, what)
	}
}

// sawWaiting notes that a server stands in line, and where. Every look at that moves the deadline of its attempt, so one that had the script already
// counts as booting: what it waits for is another try.
func (b *Booter) sawWaiting(boot *v1alpha1.BareMetalBoot, from netip.Addr, what string) {
	if boot.Spec.ScriptAddress != "" {
		return
	}
	if last := controllers.ObservedStage(boot, v1alpha1.StageWaiting); last == nil || b.Clock.Since(last.Time.Time) >= again {
		b.note(boot, v1alpha1.StageWaiting, from, what)
	}
}

// sawAgain notes a request of firmware or of a boot loader after the bootstrap data was given out. It means something for a machine that
// runs from memory: its server has no reason to come back to its firmware.
func (b *Booter) sawAgain(host *v1alpha1.BareMetalHost, boot *v1alpha1.BareMetalBoot, from netip.Addr, what string) {
	if last := controllers.ObservedStage(boot, v1alpha1.StageRestarted); last != nil && b.Clock.Since(last.Time.Time) < again {
		return
	}
	consumer, err := controllers.GetConsumer(context.Background(), b.Client, host)
	if err != nil || consumer == nil || consumer.BareMetalMachine == nil ||
		consumer.BareMetalMachine.Spec.Boot.Persistence != v1alpha1.PersistenceEphemeral {
		return
	}
	b.note(boot, v1alpha1.StageRestarted, from, what)
}

// saw notes a stage of the boot attempt that is under way, once.
func (b *Booter) saw(boot *v1alpha1.BareMetalBoot, stage v1alpha1.BootStage, from netip.Addr, what string) {
	if controllers.ObservedStage(boot, stage) == nil {
		b.note(boot, stage, from, what)
	}
}

func (b *Booter) note(boot *v1alpha1.BareMetalBoot, at v1alpha1.BootStage, from netip.Addr, what string) {
	if boot.Spec.Number == 0 || boot.Spec.Failure != nil {
		return
	}
	seen := controllers.NewStageAt(boot, at, b.Clock.Now())
	if from.IsValid() && !from.IsUnspecified() {
		seen.Address = from.String()
	}
	seen.Client = controllers.Clip(what, controllers.MaxText)
	took := seen.Time.Sub(boot.Spec.StartedAt.Time)
	if b.enqueue(boot, string(at), func(n *news) { n.saw(stage{seen, took}) }) {
		b.tellStage(boot, seen)
	}
}

// ObserveFailure notes why a boot cannot be served.
func (b *Booter) ObserveFailure(mac net.HardwareAddr, err error) {
	host, lookupErr := b.hostOf(context.Background(), mac)
	if lookupErr != nil || host == nil {
		return
	}
	boot, lookupErr := b.bootOf(context.Background(), client.ObjectKeyFromObject(host))
	if lookupErr != nil || boot == nil {
		return
	}
	reason := v1alpha1.ReasonArtifactUnavailable
	switch {
	case errors.Is(err, artifact.ErrChecksum):
		reason = v1alpha1.ReasonChecksumMismatch
	case errors.Is(err, pxe.ErrCommandLine):
		reason = v1alpha1.ReasonCommandLineTooLong
	case errors.Is(err, pxe.ErrBootSource):
		reason = v1alpha1.ReasonBootSourceInvalid
	}
	b.failed(boot, reason, err)
}

func (b *Booter) failed(boot *v1alpha1.BareMetalBoot, reason string, err error) {
	if boot == nil || boot.Spec.Number == 0 {
		return
	}
	problem := v1alpha1.BootProblem{
		BootFailure: v1alpha1.BootFailure{Reason: reason, Message: controllers.Clip(err.Error(), controllers.MaxMessage)}, Number: boot.Spec.Number,
		Time: metav1.NewTime(b.Clock.Now()),
	}
	// The same problem is written again only when a stage was seen since, or the boot is another.
	if p := controllers.Problem(boot); p != nil && p.BootFailure == problem.BootFailure {
		return
	}
	if b.enqueue(boot, problemKey(&problem), func(n *news) { n.problem = &problem }) {
		metrics.BootProblem(reason)
		b.tellProblem(boot, problem)
	}
}

func problemKey(p *v1alpha1.BootProblem) string { return p.Reason + ": " + p.Message }

// enqueue hands what was seen to the writers unless it was written for this attempt. When they are too slow it is dropped, and the next request is written
// instead. It helps people; of what is given out only the stage DHCP decides something, and that is noted in memory too. It returns whether it is written now.
func (b *Booter) enqueue(boot *v1alpha1.BareMetalBoot, what string, tell func(*news)) bool {
	key := sightingKey{client.ObjectKeyFromObject(boot), what}
	if !b.sightings.take(key, boot.Spec.Number, b.Clock.Now()) {
		return false
	}
	if !b.sightings.add(key.host, tell) {
		b.sightings.forget(key)
		b.Log.Info("Dropping a sighting: too many at once", "host", key.host, "what", what)
		return false
	}
	return true
}

// add adds to the news of a host. It returns false where too many hosts wait to be written already.
func (s *sightings) add(host types.NamespacedName, tell func(*news)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.news[host]
	if n == nil {
		if len(s.news) >= backlog {
			return false
		}
		n = &news{}
		s.news[host] = n
	}
	tell(n)
	s.hosts.AddAfter(host, gather)
	return true
}

// hostsWithNews returns the hosts that wait to be written.
func (s *sightings) hostsWithNews() []types.NamespacedName {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.news))
}

// due takes the news of a host.
func (s *sightings) due(host types.NamespacedName) *news {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.news[host]
	delete(s.news, host)
	return n
}

// saw adds a stage, or puts it in place of that of an earlier attempt.
func (n *news) saw(s stage) {
	if at := slices.IndexFunc(n.stages, func(o stage) bool { return o.Stage == s.Stage }); at >= 0 {
		n.stages[at] = s
		return
	}
	n.stages = append(n.stages, s)
}

// take is true for what was not written lately for an attempt, and notes that it is now. What is older than the cache needs is forgotten
// on the way, so that memory holds what the last two minutes saw, and not every host that ever booted.
func (s *sightings) take(key sightingKey, boot int32, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.swept) >= settle {
		s.swept = now
		for k, w := range s.written {
			if now.Sub(w.at) >= settle {
				delete(s.written, k)
			}
		}
	}
	if w, ok := s.written[key]; ok && w.boot == boot && now.Sub(w.at) < settle {
		return false
	}
	s.written[key] = writing{boot, now}
	return true
}

func (s *sightings) forget(key sightingKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.written, key)
}
