// Package claim assigns hosts to machines. Pick chooses a host, without I/O. Claim writes the choice with one optimistic-lock patch, which alone decides
// which machine has the host.
package claim

import (
	"cmp"
	"hash/fnv"
	"iter"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
)

// Want is what a machine requires of a host, and what it prefers.
type Want struct {
	// Selector picks hosts by their labels. It is never nil: labels.Everything() picks all.
	Selector labels.Selector
	// FailureDomain is the required failure domain of the host; empty for any.
	FailureDomain string
	// Hardware is the minimum that the host must have. An empty architecture means amd64, as in the API.
	Hardware v1alpha1.HardwareRequirements
	// CleaningPolicy is how thoroughly the disks have to be erased after the machine; empty for what the host does.
	CleaningPolicy wire.ErasePolicy
	// Profile is the BareMetalProfile whose firmware settings the host must have; empty for none.
	Profile string
	// Tolerations are the taints of hosts that the machine tolerates.
	Tolerations []v1alpha1.HostToleration
	// Preferences rank the hosts that fit.
	Preferences []Preference
	// Start varies the order among hosts of equal ranks, so that processes that choose at the same time do not choose the same host. Empty is the order of the names.
	Start string
	// Reuse is the owner (see Owner) whose former hosts rank before all others; empty for no such preference.
	Reuse string
}

// Preference adds its weight to the rank of the hosts that it selects.
type Preference struct {
	Weight   int32
	Selector labels.Selector
}

// Pick returns the host that fits best, or nil, and a Diagnosis of the excluded hosts. It never picks a host that a hard rule excludes (exclusionReason).
// Among the other hosts these criteria decide, in this order:
//
//   - a host that a machine of the same owner had last, where the machine asks for it;
//   - the fewest taints PreferNoClaim that the machine does not tolerate;
//   - the greatest sum of the weights of the preferences that the host meets;
//   - the smallest, so that big hosts stay free for machines that need them: memory, then CPUs, then the largest disk;
//   - the failure domain with the most free hosts that fit;
//   - the name, or with Start an order that differs for each of its values.
//
// taken excludes hosts that were just claimed, which hosts may not show yet.
func Pick(hosts iter.Seq[*v1alpha1.BareMetalHost], want Want, taken func(*v1alpha1.BareMetalHost) bool) (*v1alpha1.BareMetalHost, *Diagnosis) {
	diagnosis := newDiagnosis(want)
	var fits []candidate
	inDomain := map[string]int{}
	for host := range hosts {
		reason := exclusionReason(host, &want)
		if reason == "" && taken(host) {
			reason = excludedClaimed
		}
		diagnosis.count(host, reason)
		if reason == "" {
			fits = append(fits, rate(host, want))
			inDomain[host.Spec.FailureDomain]++
		}
	}
	if len(fits) == 0 {
		return nil, diagnosis
	}
	return slices.MinFunc(fits, func(a, b candidate) int {
		return cmp.Or(
			cmp.Compare(b.reuse, a.reuse),
			cmp.Compare(a.taints, b.taints),
			cmp.Compare(b.weight, a.weight),
			compareSize(a.host, b.host),
			cmp.Compare(inDomain[b.host.Spec.FailureDomain], inDomain[a.host.Spec.FailureDomain]),
			cmp.Compare(want.position(a.host.Name), want.position(b.host.Name)),
			strings.Compare(a.host.Name, b.host.Name),
		)
	}).host, diagnosis
}

// position returns the position of a host in the order that Start asks for.
func (w Want) position(host string) uint32 {
	if w.Start == "" {
		return 0
	}
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(w.Start + "/" + host)) // never fails
	return sum.Sum32()
}

// Each iterates over a list of hosts.
func Each(hosts []v1alpha1.BareMetalHost) iter.Seq[*v1alpha1.BareMetalHost] {
	return func(yield func(*v1alpha1.BareMetalHost) bool) {
		for i := range hosts {
			if !yield(&hosts[i]) {
				return
			}
		}
	}
}

// Match returns the hosts that a machine could have, claimed or not (see Eligible), and a Diagnosis of the others.
func Match(hosts []v1alpha1.BareMetalHost, want Want) ([]*v1alpha1.BareMetalHost, *Diagnosis) {
	diagnosis := newDiagnosis(want)
	var matching []*v1alpha1.BareMetalHost
	for i := range hosts {
		reason := eligible(&hosts[i], &want)
		diagnosis.count(&hosts[i], reason)
		if reason == "" {
			matching = append(matching, &hosts[i])
		}
	}
	return matching, diagnosis
}

// candidate is a host that fits, with its ranks.
type candidate struct {
	host                  *v1alpha1.BareMetalHost
	reuse, taints, weight int
}

func rate(host *v1alpha1.BareMetalHost, want Want) candidate {
	c := candidate{host: host}
	if LastOwnedBy(host, want.Reuse) {
		c.reuse = 1
	}
	for _, taint := range host.Spec.Taints {
		if taint.Effect == v1alpha1.TaintPreferNoClaim && !tolerated(taint, want.Tolerations) {
			c.taints++
		}
	}
	for _, p := range want.Preferences {
		if p.Selector.Matches(labels.Set(host.Labels)) {
			c.weight += int(p.Weight)
		}
	}
	return c
}

// LastOwnedBy is true for a host whose last machine belonged to the owner. It is false for an empty owner.
func LastOwnedBy(host *v1alpha1.BareMetalHost, owner string) bool {
	return owner != "" && host.Spec.ProviderState.LastConsumer != nil && host.Spec.ProviderState.LastConsumer.Owner == owner
}

func compareSize(a, b *v1alpha1.BareMetalHost) int {
	return cmp.Or(cmp.Compare(Memory(a), Memory(b)), cmp.Compare(CPU(a), CPU(b)), cmp.Compare(largestDisk(a), largestDisk(b)))
}
