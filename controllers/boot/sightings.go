package boot

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/artifact"
)

// fieldOwner owns what the boot server writes to a host's status. Each stage has an owner of its own, so that an apply of one
// stage need not know the others.
const fieldOwner = "capbm-boot"

// writers bounds the sightings that are written at once, and patience how long one may take.
const (
	writers  = 4
	patience = 30 * time.Second
)

// sightings are written in the background: no packet waits for the API server.
type sightings struct {
	queue chan sighting

	mu      sync.Mutex
	written map[sightingKey]metav1.Time // the start of the attempt that the stage was written for
}

type sightingKey struct {
	host  types.NamespacedName
	stage string
}

type sighting struct {
	sightingKey
	owner string         // of the field
	boot  map[string]any // of status.boot
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
	host := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"boot": s.boot}}}
	host.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("BareMetalHost"))
	host.SetNamespace(s.host.Namespace)
	host.SetName(s.host.Name)
	err := b.Client.Status().Apply(writeCtx, client.ApplyConfigurationFromUnstructured(host),
		client.FieldOwner(fieldOwner+"-"+s.owner), client.ForceOwnership)
	if client.IgnoreNotFound(err) != nil && ctx.Err() == nil {
		b.Log.Error(err, "Write what was seen of a boot", "host", s.host, "stage", s.stage)
		b.sightings.mu.Lock()
		defer b.sightings.mu.Unlock()
		delete(b.sightings.written, s.sightingKey) // the next request is written instead
	}
}

// Saw notes a stage of a boot.
func (b *Booter) Saw(mac net.HardwareAddr, stage pxe.Stage, from netip.Addr, what string) {
	// Reading the cache does not block.
	if host, err := b.hostOf(context.Background(), mac); err == nil && host != nil {
		b.saw(host, v1alpha1.BootStage(stage), from, what)
	}
}

// saw notes a stage of the boot attempt that is under way, once.
func (b *Booter) saw(host *v1alpha1.BareMetalHost, stage v1alpha1.BootStage, from netip.Addr, what string) {
	attempt := host.Spec.Boot
	if attempt == nil || attempt.Failure != nil {
		return
	}
	entry := map[string]any{"stage": string(stage), "time": time.Now().UTC().Format(time.RFC3339)}
	if from.IsValid() && !from.IsUnspecified() {
		entry["address"] = from.String()
	}
	if what != "" {
		entry["client"] = what[:min(len(what), 200)]
	}
	b.enqueue(host, strings.ToLower(string(stage)), string(stage), map[string]any{"sightings": []any{entry}})
}

// Failed notes why a boot cannot be served.
func (b *Booter) Failed(mac net.HardwareAddr, err error) {
	host, lookupErr := b.hostOf(context.Background(), mac)
	if lookupErr != nil || host == nil {
		return
	}
	reason := v1alpha1.ReasonArtifactUnavailable
	if errors.Is(err, artifact.ErrChecksum) {
		reason = v1alpha1.ReasonChecksumMismatch
	}
	b.failed(host, reason, err)
}

func (b *Booter) failed(host *v1alpha1.BareMetalHost, reason string, err error) {
	if host.Status.Boot != nil && host.Spec.Boot != nil {
		// The same problem is written again only when a stage was seen since, or the attempt is another.
		if p := host.Status.Boot.Problem; p != nil && p.Reason == reason && p.Message == err.Error() && !p.Time.Before(&host.Spec.Boot.StartedAt) {
			return
		}
	}
	message := err.Error()
	b.enqueue(host, "problem", reason+": "+message, map[string]any{"problem": map[string]any{
		"reason": reason, "message": message[:min(len(message), 4000)], "time": time.Now().UTC().Format(time.RFC3339),
	}})
}

// enqueue hands a sighting to the writers unless it was written for this attempt. When they are too slow it is dropped: what
// is seen helps people, and nothing depends on it.
func (b *Booter) enqueue(host *v1alpha1.BareMetalHost, owner, stage string, boot map[string]any) {
	if host.Spec.Boot == nil {
		return
	}
	key := sightingKey{client.ObjectKeyFromObject(host), stage}
	b.sightings.mu.Lock()
	defer b.sightings.mu.Unlock()
	if at, ok := b.sightings.written[key]; ok && at.Equal(&host.Spec.Boot.StartedAt) {
		return
	}
	select {
	case b.sightings.queue <- sighting{key, owner, boot}:
		b.sightings.written[key] = host.Spec.Boot.StartedAt
	default:
		b.Log.Info("Dropping a sighting: too many at once", "host", key.host, "stage", stage)
	}
}
