package controllers

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// IdentityOf returns what identifies the server of a host. hardware is its inventory, or nil.
func IdentityOf(host *v1alpha1.BareMetalHost, hardware *v1alpha1.Hardware) v1alpha1.HostIdentity {
	identity := v1alpha1.HostIdentity{BootMACAddress: host.Spec.BootMACAddress, BMC: BMCOf(host)}
	if hardware != nil {
		identity.Hardware = inventory.Fingerprint(hardware.SystemUUID, hardware.SerialNumber)
	}
	return identity
}

// MACTakenBy returns the other hosts that have a host's boot MAC address and keep it. There are none for the host that keeps it.
func MACTakenBy(ctx context.Context, c client.Reader, host *v1alpha1.BareMetalHost) ([]types.NamespacedName, error) {
	return takenBy(ctx, c, host, rivalry{
		index: MACIndex, value: host.Spec.BootMACAddress,
		same:     func(*v1alpha1.BareMetalHost) bool { return true },
		accepted: func(i *v1alpha1.HostIdentity) string { return i.BootMACAddress },
		wanted:   func(h *v1alpha1.BareMetalHost) string { return h.Spec.BootMACAddress },
	})
}

// BMCTakenBy returns the other hosts that have a host's BMC and keep it: a command to one would be obeyed by the server of both.
func BMCTakenBy(ctx context.Context, c client.Reader, host *v1alpha1.BareMetalHost) ([]types.NamespacedName, error) {
	return takenBy(ctx, c, host, rivalry{
		index: BMCIndex, value: BMCOf(host),
		same:     func(other *v1alpha1.BareMetalHost) bool { return SameServer(host, other) },
		accepted: func(i *v1alpha1.HostIdentity) string { return i.BMC },
		wanted:   BMCOf,
	})
}

// HardwareTakenBy returns the other hosts whose BMC reported the system UUID and the serial number that the host's BMC reports, and which keep them: it may
// be one server with two addresses. hardware is the inventory of the host. There are none where a person said that the boards share both.
func HardwareTakenBy(ctx context.Context, c client.Reader, host *v1alpha1.BareMetalHost, hardware *v1alpha1.Hardware) ([]types.NamespacedName, error) {
	if _, shared := host.Annotations[v1alpha1.SharedHardwareAnnotation]; shared || hardware == nil || hardware.SerialNumber == "" {
		return nil, nil
	}
	fingerprint := inventory.Fingerprint(hardware.SystemUUID, hardware.SerialNumber)
	of := func(h *v1alpha1.BareMetalHost) string {
		if sameObject(h, host) {
			return fingerprint
		}
		return IdentityOf(h, h.Status.Hardware).Hardware
	}
	return takenBy(ctx, c, host, rivalry{
		index: HardwareIndex, value: inventory.HardwareID(hardware.SystemUUID),
		same:     func(other *v1alpha1.BareMetalHost) bool { return of(other) == fingerprint },
		accepted: func(i *v1alpha1.HostIdentity) string { return i.Hardware },
		wanted:   of,
	})
}

// rivalry is what decides which of several hosts keeps what they have in common.
type rivalry struct {
	index, value string
	same         func(other *v1alpha1.BareMetalHost) bool
	accepted     func(*v1alpha1.HostIdentity) string
	wanted       func(*v1alpha1.BareMetalHost) string
}

func takenBy(ctx context.Context, c client.Reader, host *v1alpha1.BareMetalHost, r rivalry) ([]types.NamespacedName, error) {
	if r.value == "" {
		return nil, nil
	}
	var hosts v1alpha1.BareMetalHostList
	if err := c.List(ctx, &hosts, client.MatchingFields{r.index: r.value}, client.UnsafeDisableDeepCopy); err != nil { // nothing is written to them
		return nil, fmt.Errorf("list the hosts with the same %s: %w", r.index, err)
	}
	rivals := slices.DeleteFunc(hosts.Items, func(h v1alpha1.BareMetalHost) bool { return sameObject(&h, host) || !r.same(&h) })
	if len(rivals) == 0 {
		return nil, nil
	}
	own, err := r.standing(ctx, c, host)
	if err != nil {
		return nil, err
	}
	var keepers []types.NamespacedName
	for i := range rivals {
		other, err := r.standing(ctx, c, &rivals[i])
		if err != nil {
			return nil, err
		}
		if other.compare(own) < 0 {
			keepers = append(keepers, other.host)
		}
	}
	// The cache lists in an order that changes, and what people are told must not: each change is a write.
	slices.SortFunc(keepers, func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
	return keepers, nil
}

func sameObject(a, b client.Object) bool { return client.ObjectKeyFromObject(a) == client.ObjectKeyFromObject(b) }

// standing is what decides whether a host keeps an identity that others have too. All of it is written by the API server or by the provider: nobody gains
// precedence by what he writes to the spec of a host.
type standing struct {
	booted   bool // the server was booted for the machine that has the host
	accepted bool // the provider accepted the identity as this host's
	claimed  bool
	created  int64
	host     types.NamespacedName
}

func (r rivalry) standing(ctx context.Context, c client.Reader, host *v1alpha1.BareMetalHost) (standing, error) {
	s := standing{host: client.ObjectKeyFromObject(host), created: host.CreationTimestamp.Unix()}
	identity, ref := host.Status.Identity, host.Spec.ConsumerRef
	s.accepted = identity != nil && r.accepted(identity) == r.wanted(host)
	if identity != nil && !s.accepted && r.accepted(identity) != "" {
		return s, nil // it had another identity: that a machine has it says nothing of this one
	}
	s.claimed = ref != nil
	if !s.claimed {
		return s, nil
	}
	boot, err := GetBoot(ctx, c, s.host)
	if boot != nil {
		s.booted = lifecycle.Open(&boot.Spec) && boot.Spec.ClaimID == ref.ClaimID && boot.Spec.Number > 0
	}
	return s, err
}

// compare is negative if s goes before o. No two hosts are equal.
func (s standing) compare(o standing) int {
	first := func(a, b bool) int {
		switch {
		case a == b:
			return 0
		case a:
			return -1
		default:
			return 1
		}
	}
	return cmp.Or(first(s.booted, o.booted), first(s.accepted, o.accepted), first(s.claimed, o.claimed),
		cmp.Compare(s.created, o.created), cmp.Compare(s.host.String(), o.host.String()))
}

// NamesFor names hosts to people who can read a namespace. Who reads one may not know what is in others.
func NamesFor(namespace string, hosts []types.NamespacedName) string {
	var names []string
	for _, h := range hosts {
		name := "a host of another namespace"
		if h.Namespace == namespace {
			name = "host " + h.Name
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}
