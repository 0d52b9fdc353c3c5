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
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
)

// ConsumerField is the field of a host that names the machine that has it. It is a selectable field of the CRD.
const ConsumerField = "spec.consumerRef.name"

// HostsOf returns the hosts of a machine. Only a reader of the API server proves that a machine has no host: a cache may be stale, and the machine would
// get a second host.
func HostsOf(ctx context.Context, reader client.Reader, namespace, machine string) ([]v1alpha1.BareMetalHost, error) {
	var hosts v1alpha1.BareMetalHostList
	err := reader.List(ctx, &hosts, client.InNamespace(namespace), client.MatchingFields{ConsumerField: machine})
	if err != nil {
		return nil, fmt.Errorf("list the hosts that machine %s/%s has: %w", namespace, machine, err)
	}
	return hosts.Items, nil
}

// Terms are what a claim records.
type Terms struct {
	// Machine is the name of the machine that claims the host.
	Machine string
	// CleaningPolicy is what the machine asks for; empty for nothing.
	CleaningPolicy wire.ErasePolicy
	// Disks are the disks that the agent found; empty if they are unknown.
	Disks []wire.DiskIdentity
}

// Claim assigns an unclaimed host to a machine with one optimistic-lock patch. If the host changed since it was read, the error is a conflict
// (apierrors.IsConflict) and nothing is written.
func Claim(ctx context.Context, c client.Client, host *v1alpha1.BareMetalHost, terms Terms) error {
	if host.Spec.ConsumerRef != nil {
		return fmt.Errorf("host %s/%s is claimed by %s", host.Namespace, host.Name, host.Spec.ConsumerRef.Name)
	}
	claimed := host.DeepCopy()
	claimed.Spec.ConsumerRef = &v1alpha1.ConsumerReference{
		Name: terms.Machine, ClaimID: string(uuid.NewUUID()), BootsBefore: host.Spec.ProviderState.Boots, CleaningPolicy: terms.CleaningPolicy, Disks: terms.Disks,
	}
	claimed.Spec.ProviderState.PowerHoldStartTime, claimed.Spec.ProviderState.PowerHoldOffTime = nil, nil // left over from an earlier machine on this host
	return c.Patch(ctx, claimed, client.MergeFromWithOptions(host, client.MergeFromWithOptimisticLock{}))
}

// Assumed remembers the hosts that this process claims until the cache shows the claims, so that concurrent reconcilers do not all pick the same host. It is
// an optimization: the optimistic lock on the host guarantees one claim. The zero value is ready to use.
type Assumed struct {
	mu    sync.Mutex
	hosts map[types.NamespacedName]assumption
}

type assumption struct{ machine, resourceVersion string }

// Pick calls the function Pick, and marks the host in the same step as assumed for the machine. The result points into hosts.
func (a *Assumed) Pick(hosts iter.Seq[*v1alpha1.BareMetalHost], want Want, machine string) (*v1alpha1.BareMetalHost, *Diagnosis) {
	a.mu.Lock()
	defer a.mu.Unlock()
	host, diagnosis := Pick(hosts, want, func(h *v1alpha1.BareMetalHost) bool { return a.isTaken(h, machine) })
	if host != nil {
		if a.hosts == nil {
			a.hosts = map[types.NamespacedName]assumption{}
		}
		a.hosts[client.ObjectKeyFromObject(host)] = assumption{machine, host.ResourceVersion}
	}
	return host, diagnosis
}

// isTaken is true for a host that another machine is assumed to get. The assumption ends when a newer version of the host is seen: it shows the claim, or the claim
// failed, or the host was released. An older version, as in a list from before the claim, proves nothing.
func (a *Assumed) isTaken(host *v1alpha1.BareMetalHost, machine string) bool {
	key := client.ObjectKeyFromObject(host)
	assumed, ok := a.hosts[key]
	if !ok || assumed.machine == machine {
		return false
	}
	if order, err := resourceversion.CompareResourceVersion(host.ResourceVersion, assumed.resourceVersion); err != nil || order > 0 {
		delete(a.hosts, key)
		return false
	}
	return true
}

// Lost records that another process changed a host before its claim: no machine gets the version that conflicted. The assumption ends when a newer version is seen.
func (a *Assumed) Lost(host *v1alpha1.BareMetalHost) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.hosts == nil {
		a.hosts = map[types.NamespacedName]assumption{}
	}
	a.hosts[client.ObjectKeyFromObject(host)] = assumption{resourceVersion: host.ResourceVersion}
}

// Drop ends the assumption that a machine gets a host, after its claim failed. It keeps an assumption for another machine.
func (a *Assumed) Drop(host *v1alpha1.BareMetalHost, machine string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if key := client.ObjectKeyFromObject(host); a.hosts[key].machine == machine {
		delete(a.hosts, key)
	}
}
