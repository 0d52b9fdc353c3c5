package claim

import (
	"context"
	"fmt"
	"iter"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// ConsumerField is the field of a host that names who has it. The API server selects hosts by it.
const ConsumerField = "spec.consumerRef.name"

// HostsOf returns the hosts that a machine has. That it has none only a reader of the API server tells: a cache may be behind, and the machine would get
// a second host.
func HostsOf(ctx context.Context, reader client.Reader, namespace, machine string) ([]v1alpha1.BareMetalHost, error) {
	var hosts v1alpha1.BareMetalHostList
	err := reader.List(ctx, &hosts, client.InNamespace(namespace), client.MatchingFields{ConsumerField: machine})
	if err != nil {
		return nil, fmt.Errorf("list the hosts that machine %s/%s has: %w", namespace, machine, err)
	}
	return hosts.Items, nil
}

// Claim gives a free host to a machine by one optimistic-lock patch. If anyone wrote to the host since it was read, the error
// is a conflict (apierrors.IsConflict) and nothing was changed.
func Claim(ctx context.Context, c client.Client, host *v1alpha1.BareMetalHost, machine string) error {
	if host.Spec.ConsumerRef != nil {
		return fmt.Errorf("host %s/%s is claimed by %s", host.Namespace, host.Name, host.Spec.ConsumerRef.Name)
	}
	claimed := host.DeepCopy()
	claimed.Spec.ConsumerRef = &v1alpha1.ConsumerReference{Name: machine, ClaimID: string(uuid.NewUUID()), BootsBefore: host.Spec.Boots}
	claimed.Spec.PowerHoldSince, claimed.Spec.PowerHoldOffAt = nil, nil // what stands there is of a machine before, whose server this was
	return c.Patch(ctx, claimed, client.MergeFromWithOptions(host, client.MergeFromWithOptimisticLock{}))
}

// Assumed remembers the hosts that were claimed in this process until the cache shows it, so that reconcilers that run at
// once don't all pick the same host. It is a help, not a guarantee: that is the lock on the host. The zero value is ready.
type Assumed struct {
	mu    sync.Mutex
	hosts map[types.NamespacedName]assumption
}

type assumption struct{ machine, resourceVersion string }

// Pick picks a host for a machine, as the function Pick does, and assumes in the same moment that the machine gets it. The host is
// one of hosts.
func (a *Assumed) Pick(hosts iter.Seq[*v1alpha1.BareMetalHost], want Want, machine string) (*v1alpha1.BareMetalHost, *Diagnosis) {
	a.mu.Lock()
	defer a.mu.Unlock()
	host, tally := Pick(hosts, want, func(h *v1alpha1.BareMetalHost) bool { return a.isTaken(h, machine) })
	if host != nil {
		if a.hosts == nil {
			a.hosts = map[types.NamespacedName]assumption{}
		}
		a.hosts[client.ObjectKeyFromObject(host)] = assumption{machine, host.ResourceVersion}
	}
	return host, tally
}

// isTaken is true for a host that another machine is assumed to get. That ends when the host is seen free in a newer version than the one
// that was claimed: the claim failed then, or the host was released since. An older version, as of a list that was made before
// the claim, tells nothing.
func (a *Assumed) isTaken(host *v1alpha1.BareMetalHost, machine string) bool {
	key := client.ObjectKeyFromObject(host)
	held, ok := a.hosts[key]
	if !ok || held.machine == machine {
		return false
	}
	if order, err := resourceversion.CompareResourceVersion(host.ResourceVersion, held.resourceVersion); err != nil || order > 0 {
		delete(a.hosts, key)
		return false
	}
	return true
}

// Drop ends the assumption that a machine gets a host, whose claim failed. What was assumed of the host for another machine since stays.
func (a *Assumed) Drop(host *v1alpha1.BareMetalHost, machine string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if key := client.ObjectKeyFromObject(host); a.hosts[key].machine == machine {
		delete(a.hosts, key)
	}
}
