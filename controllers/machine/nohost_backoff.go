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

// The indexes of BareMetalMachines in the cache, for what hosts bring to the queue: of 1,000 machines few wait.
const (
	// waitingIndex finds machines without a host, by what they wait for.
	waitingIndex = "waiting"
	// hostIndex finds the machines that noted a host as theirs, by its name.
	hostIndex = "status.hostRef.name"
)

// What machines wait for.
const (
	forAnyHost    = "any"
	forFormerHost = "former"
)

// addIndexes adds the indexes of BareMetalMachines.
func addIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	for name, values := range map[string]func(*v1alpha1.BareMetalMachine) []string{waitingIndex: waitsFor, hostIndex: noted} {
		extract := func(o client.Object) []string { return values(o.(*v1alpha1.BareMetalMachine)) } //nolint:forcetypeassert // the index is of machines
		if err := indexer.IndexField(ctx, &v1alpha1.BareMetalMachine{}, name, extract); err != nil {
			return fmt.Errorf("index machines by %s: %w", name, err)
		}
	}
	return nil
}

func waitsFor(m *v1alpha1.BareMetalMachine) []string {
	switch {
	case m.Spec.ProviderID != "" || m.Status.HostRef != nil || !m.DeletionTimestamp.IsZero():
		return nil
	case waitsForFormer(m):
		return []string{forAnyHost, forFormerHost}
	default:
		return []string{forAnyHost}
	}
}

func waitsForFormer(m *v1alpha1.BareMetalMachine) bool {
	return conditions.GetReason(m, v1alpha1.HostClaimedCondition) == v1alpha1.ReasonWaitingForFormerHost
}

func noted(m *v1alpha1.BareMetalMachine) []string {
	if m.Status.HostRef == nil {
		return nil
	}
	return []string{m.Status.HostRef.Name}
}

// How often a machine that waits tells anew how many hosts do not fit, and why: the first times soon, then ever more rarely. Each time it looks
// at all hosts of the namespace, and what it tells changes with every host that registers or is claimed.
const (
	firstTelling = time.Second
	lastTelling  = time.Minute
)

// telling is when a machine told how many hosts do not fit.
type telling struct {
	generation    int64
	failureDomain string
	next          time.Time
	gap           time.Duration
}

// tellings are those of the machines that wait. They are lost in a restart, which costs one more look.
type tellings struct {
	mu  sync.Mutex
	all map[types.NamespacedName]telling
}

// due returns true when a machine shall tell now, and how long it shall wait for the next time. A machine that tells of no host, or wants
// something else than when it told last, tells at once.
func (t *tellings) due(m *v1alpha1.BareMetalMachine, failureDomain string, now time.Time) (bool, time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := client.ObjectKeyFromObject(m)
	last, ok := t.all[key]
	same := ok && last.generation == m.Generation && last.failureDomain == failureDomain &&
		conditions.GetReason(m, v1alpha1.HostClaimedCondition) == v1alpha1.ReasonNoHostFits
	if same && now.Before(last.next) {
		return false, last.next.Sub(now)
	}
	gap := firstTelling
	if same {
		gap = min(2*last.gap, lastTelling)
	}
	if t.all == nil {
		t.all = map[types.NamespacedName]telling{}
	}
	t.all[key] = telling{m.Generation, failureDomain, now.Add(gap), gap}
	return true, gap
}

// forget drops what is kept of a machine that waits no more.
func (t *tellings) forget(key types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.all, key)
}
