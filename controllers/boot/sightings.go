package boot

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/metrics"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/artifact"
)

const (
	// writers bounds the sightings that are written at once, and patience how long one may take.
	writers  = 4
	patience = 30 * time.Second
	// settle is how long the cache may take to show what was written. Until then memory keeps it from being written twice, and from then
	// on the host's own status does.
	settle = time.Minute
	// again is how old the last request of firmware that a running machine cannot have sent may be in the status, and a server's place in line:
	// these are the sightings that are written more than once.
	again = time.Minute
)

// sightings are written in the background: no packet waits for the API server.
type sightings struct {
	queue chan sighting

	mu      sync.Mutex
	written map[sightingKey]writing // what the cache may not show yet
	swept   time.Time               // when written was last rid of what is old
}

type sightingKey struct {
	host types.NamespacedName
	what string // the stage, or the problem
}

// writing is when something was seen, in the attempt that began then.
type writing struct {
	attempt metav1.Time
	at      time.Time
}

type sighting struct {
	sightingKey
	write func(context.Context, client.Client, types.NamespacedName) error
}

func equalAttempts(a, b *v1alpha1.BootAttempt) bool { return equality.Semantic.DeepEqual(a, b) }

// NeedLeaderElection is false: every boot server writes what it sees.
func (b *Booter) NeedLeaderElection() bool { return false }

// Start writes sightings until ctx ends.
func (b *Booter) Start(ctx context.Context) error {
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for {
				select {
				case s := <-b.sightings.queue:
					b.write(ctx, s)
				case <-ctx.Done():
					return
				}
			}
		})
	}
	wg.Wait()
	return nil
}

func (b *Booter) write(ctx context.Context, s sighting) {
	writeCtx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := s.write(writeCtx, b.Client, s.host)
	if client.IgnoreNotFound(err) != nil && ctx.Err() == nil {
		b.Log.Error(err, "Write what was seen of a boot", "host", s.host, "what", s.what)
		b.sightings.forget(s.sightingKey) // the next request is written instead
	}
}

// Saw notes a stage of a boot.
func (b *Booter) Saw(mac net.HardwareAddr, stage pxe.Stage, from netip.Addr, what string) {
	// Reading the cache does not block.
	host, err := b.hostOf(context.Background(), mac)
	switch {
	case err != nil || host == nil || host.Spec.Boot == nil:
	case stage == pxe.StageWaiting:
		b.sawWaiting(host, from, what)
	case host.Spec.Boot.SeededAt != nil:
		b.sawAgain(host, from, what)
	case stage != pxe.StageFirmware:
		b.saw(host, v1alpha1.BootStage(stage), from, what)
	}
}

// sawWaiting notes that a server stands in line, and where. Every look at that moves the deadline of its attempt, so one that had the script already
// counts as booting: what it waits for is another try.
func (b *Booter) sawWaiting(host *v1alpha1.BareMetalHost, from netip.Addr, what string) {
	if host.Spec.Boot.ScriptAddress != "" {
		return
	}
	if last := controllers.Seen(host, v1alpha1.StageWaiting); last == nil || b.Clock.Since(last.Time.Time) >= again {
		b.note(host, v1alpha1.StageWaiting, from, what)
	}
}

// sawAgain notes a request of firmware or of a boot loader after the bootstrap data was given out. It means something for a machine that
// runs from memory: its server has no reason to come back to its firmware.
func (b *Booter) sawAgain(host *v1alpha1.BareMetalHost, from netip.Addr, what string) {
	if last := controllers.Seen(host, v1alpha1.StageRestarted); last != nil && b.Clock.Since(last.Time.Time) < again {
		return
	}
	consumer, err := controllers.GetConsumer(context.Background(), b.Client, host)
	if err != nil || consumer == nil || consumer.BareMetalMachine == nil ||
		consumer.BareMetalMachine.Spec.Boot.Persistence != v1alpha1.PersistenceEphemeral {
		return
	}
	b.note(host, v1alpha1.StageRestarted, from, what)
}

// saw notes a stage of the boot attempt that is under way, once.
func (b *Booter) saw(host *v1alpha1.BareMetalHost, stage v1alpha1.BootStage, from netip.Addr, what string) {
	if controllers.Seen(host, stage) == nil {
		b.note(host, stage, from, what)
	}
}

func (b *Booter) note(host *v1alpha1.BareMetalHost, stage v1alpha1.BootStage, from netip.Addr, what string) {
	if host.Spec.Boot == nil || host.Spec.Boot.Failure != nil {
		return
	}
	seen := controllers.SightingAt(host, stage, b.Clock.Now())
	if from.IsValid() && !from.IsUnspecified() {
		seen.Address = from.String()
	}
	seen.Client = controllers.Clip(what, controllers.MaxText)
	took := seen.Time.Sub(host.Spec.Boot.StartedAt.Time)
	if b.enqueue(host, string(stage), func(ctx context.Context, c client.Client, key types.NamespacedName) error {
		err := controllers.ApplySighting(ctx, c, key, seen)
		if err == nil {
			metrics.BootStage(stage, took)
		}
		return err
	}) {
		b.tellStage(host, seen)
	}
}

// Failed notes why a boot cannot be served.
func (b *Booter) Failed(mac net.HardwareAddr, err error) {
	host, lookupErr := b.hostOf(context.Background(), mac)
	if lookupErr != nil || host == nil {
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
	b.failed(host, reason, err)
}

func (b *Booter) failed(host *v1alpha1.BareMetalHost, reason string, err error) {
	if host.Spec.Boot == nil {
		return
	}
	problem := v1alpha1.BootProblem{
		BootFailure: v1alpha1.BootFailure{Reason: reason, Message: controllers.Clip(err.Error(), controllers.MaxMessage)}, Time: metav1.NewTime(b.Clock.Now()),
	}
	if host.Status.Boot != nil {
		// The same problem is written again only when a stage was seen since, or the attempt is another.
		if p := host.Status.Boot.Problem; p != nil && p.BootFailure == problem.BootFailure && !p.Time.Before(&host.Spec.Boot.StartedAt) {
			return
		}
	}
	if b.enqueue(host, reason+": "+problem.Message, func(ctx context.Context, c client.Client, key types.NamespacedName) error {
		return controllers.ApplyProblem(ctx, c, key, problem)
	}) {
		metrics.BootProblem(reason)
		b.tellProblem(host, problem)
	}
}

// enqueue hands what was seen to the writers unless it was written for this attempt. When they are too slow it is dropped: it helps
// people, nothing that is given out depends on it, and the next request is written instead. It returns whether it is written now.
func (b *Booter) enqueue(host *v1alpha1.BareMetalHost, what string, write func(context.Context, client.Client, types.NamespacedName) error) bool {
	s := sighting{sightingKey{client.ObjectKeyFromObject(host), what}, write}
	if !b.sightings.take(s.sightingKey, host.Spec.Boot.StartedAt, b.Clock.Now()) {
		return false
	}
	select {
	case b.sightings.queue <- s:
		return true
	default:
		b.sightings.forget(s.sightingKey)
		b.Log.Info("Dropping a sighting: too many at once", "host", s.host, "what", what)
		return false
	}
}

// take is true for what was not written lately for an attempt, and notes that it is now. What is older than the cache needs is forgotten
// on the way, so that memory holds what the last two minutes saw, and not every host that ever booted.
func (s *sightings) take(key sightingKey, attempt metav1.Time, now time.Time) bool {
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
	if w, ok := s.written[key]; ok && w.attempt.Equal(&attempt) && now.Sub(w.at) < settle {
		return false
	}
	s.written[key] = writing{attempt, now}
	return true
}

func (s *sightings) forget(key sightingKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.written, key)
}
