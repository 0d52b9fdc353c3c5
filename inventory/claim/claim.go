package claim

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// ConsumerField is the field of a host that names who has it. The API server selects hosts by it.
const ConsumerField = "spec.consumerRef.name"

// Held returns the hosts that a machine has. reader must read from the API server, not from a cache: a stale answer would
// give the machine a second host.
func Held(ctx context.Context, reader client.Reader, namespace, machine string) ([]v1alpha1.BareMetalHost, error) {
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
	claimed.Spec.ConsumerRef = &v1alpha1.ConsumerReference{Name: machine}
	claimed.Spec.Boot = nil
	return c.Patch(ctx, claimed, client.MergeFromWithOptions(host, client.MergeFromWithOptimisticLock{}))
}

// Assumed remembers the hosts that were claimed in this process until the cache shows it, so that reconcilers that run at
// once don't all pick the same host. It is a help, not a guarantee: that is the lock on the host. The zero value is ready.
type Assumed struct {
	mu    sync.Mutex
	hosts map[types.NamespacedName]assumption
}

type assumption struct{ machine, resourceVersion string }

// Take assumes that a machine gets the host as it was read, and returns false if another machine is assumed to get it.
func (a *Assumed) Take(host *v1alpha1.BareMetalHost, machine string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	key := types.NamespacedName{Namespace: host.Namespace, Name: host.Name}
	if held, ok := a.hosts[key]; ok && held.machine != machine && held.resourceVersion == host.ResourceVersion {
		return false
	}
	if a.hosts == nil {
		a.hosts = map[types.NamespacedName]assumption{}
	}
	a.hosts[key] = assumption{machine, host.ResourceVersion}
	return true
}

// Taken is true for a host that another machine is assumed to get. It ends when the host is seen in a newer version.
func (a *Assumed) Taken(host *v1alpha1.BareMetalHost, machine string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	key := types.NamespacedName{Namespace: host.Namespace, Name: host.Name}
	held, ok := a.hosts[key]
	if ok && held.resourceVersion != host.ResourceVersion {
		delete(a.hosts, key)
		return false
	}
	return ok && held.machine != machine
}

// Drop ends the assumption about a host whose claim failed.
func (a *Assumed) Drop(host *v1alpha1.BareMetalHost) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.hosts, types.NamespacedName{Namespace: host.Namespace, Name: host.Name})
}
