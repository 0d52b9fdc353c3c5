package machine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// The indexes of BareMetalMachines in the cache, for the events of hosts: of 1,000 machines few wait for a host.
const (
	// waitingIndex finds machines without a host, by the kind of host that they wait for.
	waitingIndex = "waiting"
	// hostIndex finds the machines whose status.hostRef names a host.
	hostIndex = "status.hostRef.name"
)

// The kinds of hosts that machines wait for.
const (
	waitsAnyHost    = "any"
	waitsFormerHost = "former"
)

// addIndexes adds the indexes of BareMetalMachines.
func addIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	for name, values := range map[string]func(*v1alpha1.BareMetalMachine) []string{waitingIndex: waitKinds, hostIndex: hostRefNames} {
		extract := func(o client.Object) []string { return values(o.(*v1alpha1.BareMetalMachine)) } //nolint:forcetypeassert // the index is of machines
		if err := indexer.IndexField(ctx, &v1alpha1.BareMetalMachine{}, name, extract); err != nil {
			return fmt.Errorf("index machines by %s: %w", name, err)
		}
	}
	return nil
}

func waitKinds(m *v1alpha1.BareMetalMachine) []string {
	switch {
	case m.Spec.ProviderID != "" || m.Status.HostRef != nil || !m.DeletionTimestamp.IsZero():
		return nil
	case waitsForFormerHost(m):
		return []string{waitsAnyHost, waitsFormerHost}
	default:
		return []string{waitsAnyHost}
	}
}

func waitsForFormerHost(m *v1alpha1.BareMetalMachine) bool {
	return conditions.GetReason(m, v1alpha1.HostClaimedCondition) == v1alpha1.ReasonWaitingForFormerHost
}

func hostRefNames(m *v1alpha1.BareMetalMachine) []string {
	if m.Status.HostRef == nil {
		return nil
	}
	return []string{m.Status.HostRef.Name}
}

// The interval between two diagnoses of a machine for which no host fits doubles between these limits. A diagnosis lists all hosts of the namespace,
// and its message changes with every host that registers or is claimed.
const (
	firstDiagnosisInterval = time.Second
	maxDiagnosisInterval   = time.Minute
)

// backoffEntry is the last diagnosis for a machine.
type backoffEntry struct {
	generation    int64
	failureDomain string
	next          time.Time
	interval      time.Duration
}

// noHostBackoff limits how often machines without a fitting host are diagnosed. A restart loses the entries, which costs one diagnosis per machine.
type noHostBackoff struct {
	mu      sync.Mutex
	entries map[types.NamespacedName]backoffEntry
}

// due returns whether a machine is to be diagnosed now, and how long until the next time. A machine is due at once if its last message was another
// one, or if its requirements changed.
func (b *noHostBackoff) due(m *v1alpha1.BareMetalMachine, failureDomain string, now time.Time) (bool, time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := client.ObjectKeyFromObject(m)
	last, ok := b.entries[key]
	same := ok && last.generation == m.Generation && last.failureDomain == failureDomain &&
		conditions.GetReason(m, v1alpha1.HostClaimedCondition) == v1alpha1.ReasonNoHostFits
	if same && now.Before(last.next) {
		return false, last.next.Sub(now)
	}
	gap := firstDiagnosisInterval
	if same {
		gap = min(2*last.interval, maxDiagnosisInterval)
	}
	if b.entries == nil {
		b.entries = map[types.NamespacedName]backoffEntry{}
	}
	b.entries[key] = backoffEntry{m.Generation, failureDomain, now.Add(gap), gap}
	return true, gap
}

// forget removes the entry of a machine that no longer waits.
func (b *noHostBackoff) forget(key types.NamespacedName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.entries, key)
}
