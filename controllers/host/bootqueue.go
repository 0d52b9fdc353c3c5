package host

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/slots"
)

// bootQueue limits how many hosts of a failure domain boot at once (--boot-concurrency), and queues the others in the order of their machines' creation. A host has a
// slot from the reconcile that may start its boot until the boot ends. A host that cannot start a boot, for example because its BMC does not answer, leaves the queue,
// so that it blocks no other host. The BareMetalBoots say which hosts boot: the queue of a new process is built from them.
type bootQueue struct {
	*slots.Slots[types.NamespacedName]

	client      client.Client // reads from the cache
	settings    lifecycle.Settings
	watchFilter string

	mu     sync.Mutex
	loaded bool // the hosts that boot have their slots
}

// queueEntryTTL is how long a host that is no longer reconciled stays queued. A queued host is reconciled at every QueuePositionInterval.
const queueEntryTTL = 3 * lifecycle.QueuePositionInterval

// newBootQueue returns a queue that calls wake for each host that may have a slot now.
func newBootQueue(c client.Client, settings lifecycle.Settings, watchFilter string, wake func(types.NamespacedName)) *bootQueue {
	return &bootQueue{client: c, settings: settings, watchFilter: watchFilter, Slots: slots.New(slots.Options[types.NamespacedName]{
		Limit: func(string) int { return settings.BootConcurrency }, QueueTTL: queueEntryTTL, PositionTTL: lifecycle.QueuePositionInterval, Wake: wake,
		Compare: func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) },
	})}
}

// forget removes a host that is gone, also while load gives it a slot.
func (q *bootQueue) forget(host types.NamespacedName, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.Release(host, now)
}

// load gives the hosts that boot their slots, once.
func (q *bootQueue) load(ctx context.Context, now time.Time) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.loaded {
		return nil
	}
	all, err := q.bootSlots(ctx, now)
	if err != nil {
		return err
	}
	for host, slot := range all {
		q.Hold(slot.failureDomain, host, slot.until, now)
	}
	q.loaded = true
	return nil
}

// bootSlot is the slot of a host that boots.
type bootSlot struct {
	failureDomain string
	until         time.Time
}

// acquireBootSlot gives a host that boots, or that could start to, its slot; or writes its position in the queue to the view.
func (q *bootQueue) acquireBootSlot(ctx context.Context, host *v1alpha1.BareMetalHost, view *lifecycle.View) error {
	if q.settings.BootConcurrency == 0 {
		return nil
	}
	if err := q.load(ctx, view.Now); err != nil {
		return err
	}
	key, domain := client.ObjectKeyFromObject(host), host.Spec.FailureDomain
	if until := view.BootsUntil(q.settings); view.Now.Before(until) {
		q.Hold(domain, key, until, view.Now)
		return nil
	}
	if !lifecycle.WantsToBoot(*view, q.settings) {
		q.Release(key, view.Now)
		return nil
	}
	since, err := q.queuedBehind(ctx, host)
	if err != nil {
		return err
	}
	position, ok := q.Acquire(domain, key, since, view.Now.Add(q.settings.BootTimeout), view.Now)
	if !ok {
		view.QueuePosition = &lifecycle.QueuePosition{Number: position.Number, Booting: position.Holding}
	}
	return nil
}

// queuedBehind returns the time by which a host is queued: that of its machine's creation. A free host, which is to be inspected, is queued behind all machines.
func (q *bootQueue) queuedBehind(ctx context.Context, host *v1alpha1.BareMetalHost) (time.Time, error) {
	if host.Spec.ConsumerRef == nil {
		return host.CreationTimestamp.AddDate(1000, 0, 0), nil
	}
	var machine v1alpha1.BareMetalMachine
	if err := q.client.Get(ctx, client.ObjectKey{Namespace: host.Namespace, Name: host.Spec.ConsumerRef.Name}, &machine); err != nil {
		return time.Time{}, fmt.Errorf("read the creation time of the machine of the host: %w", err)
	}
	return machine.CreationTimestamp.Time, nil
}

// holdBootSlot keeps the slot of a host whose boot is being recorded. It is called before the write: the write may succeed although its answer is lost.
func (q *bootQueue) holdBootSlot(host *v1alpha1.BareMetalHost, view lifecycle.View, step lifecycle.Step) {
	if q.settings.BootConcurrency == 0 || !lifecycle.StartsBoot(view, step) {
		return
	}
	boots := lifecycle.View{Now: view.Now, Host: lifecycle.Host{Spec: host.Spec, Boot: step.Boot}, PowerLoss: lifecycle.PowerLoss{Restore: step.PowerRestore}}
	q.Hold(host.Spec.FailureDomain, client.ObjectKeyFromObject(host), boots.BootsUntil(q.settings), view.Now)
}

// bootSlots returns the slots of the hosts that boot. It does not change what the lists return: these are the objects of the cache.
func (q *bootQueue) bootSlots(ctx context.Context, now time.Time) (map[types.NamespacedName]bootSlot, error) {
	var boots v1alpha1.BareMetalBootList
	if err := q.client.List(ctx, &boots, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the boots: %w", err)
	}
	all := map[types.NamespacedName]bootSlot{}
	for i := range boots.Items {
		boot := &boots.Items[i]
		var host v1alpha1.BareMetalHost
		switch err := q.client.Get(ctx, client.ObjectKeyFromObject(boot), &host); {
		case client.IgnoreNotFound(err) != nil:
			return nil, fmt.Errorf("read the host of a boot: %w", err)
		case err != nil || !controllers.HasWatchFilter(&host, q.watchFilter):
			continue
		}
		view := lifecycle.View{
			Now: now, Host: lifecycle.Host{Spec: host.Spec, Boot: &boot.Spec}, PowerLoss: lifecycle.PowerLoss{Restore: host.Status.PowerRestore},
			Observed: lifecycle.Observed{WaitedAt: controllers.WaitedAt(boot), AgentAt: controllers.AgentAt(boot)},
		}
		if until := view.BootsUntil(q.settings); now.Before(until) {
			all[client.ObjectKeyFromObject(&host)] = bootSlot{host.Spec.FailureDomain, until}
		}
	}
	return all, nil
}

// leaveBootQueues removes a host that an error keeps from its boot.
func (r *Reconciler) leaveBootQueues(host types.NamespacedName, now time.Time) {
	r.queue.Leave(host, now)
	r.starts.Leave(host, now)
}
