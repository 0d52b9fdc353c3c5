// Package claim gives hosts to machines. Pick chooses, without I/O; Claim writes the choice with one optimistic-lock patch,
// which alone decides who has a host.
package claim

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// Want is what a machine needs of a host, and what it would rather have.
type Want struct {
	// Selector picks hosts by their labels. It is never nil: labels.Everything() picks all.
	Selector labels.Selector
	// FailureDomain is the failure domain that the host must stand in; empty for any.
	FailureDomain string
	// Hardware is the least that the host must have. An empty architecture stands for amd64, as in the API.
	Hardware v1alpha1.HardwareRequirements
	// Tolerations are the taints of hosts that the machine does not mind.
	Tolerations []v1alpha1.HostToleration
	// Preferences choose among the hosts that fit.
	Preferences []Preference
	// Reuse is the owner (Owner) whose former hosts come before all others; empty to make no difference.
	Reuse string
}

// Preference makes the hosts that it picks better by its weight.
type Preference struct {
	Weight   int32
	Selector labels.Selector
}

// Pick returns the host that fits best, or nil and what excluded the hosts. No host is picked that breaks a hard rule (exclusion).
// Among the others these decide, the first that makes a difference:
//
//   - a host that a machine of the same owner had last, where the machine asks for it;
//   - the fewest taints PreferNoClaim that the machine does not tolerate;
//   - the greatest sum of the weights of the preferences that the host meets;
//   - the smallest, so that big hosts stay free for those who need them: memory, then CPUs, then the largest disk;
//   - the failure domain with the most free hosts that fit;
//   - the name.
//
// taken excludes hosts that were just claimed and that hosts do not show so yet.
func Pick(hosts iter.Seq[*v1alpha1.BareMetalHost], want Want, taken func(*v1alpha1.BareMetalHost) bool) (*v1alpha1.BareMetalHost, *Diagnosis) {
	tally := newDiagnosis(want)
	var fits []candidate
	inDomain := map[string]int{}
	for host := range hosts {
		reason := exclusionReason(host, want)
		if reason == "" && taken(host) {
			reason = excludedClaimed
		}
		tally.count(host, reason)
		if reason == "" {
			fits = append(fits, rate(host, want))
			inDomain[host.Spec.FailureDomain]++
		}
	}
	if len(fits) == 0 {
		return nil, tally
	}
	return slices.MinFunc(fits, func(a, b candidate) int {
		return cmp.Or(
			cmp.Compare(b.reuse, a.reuse),
			cmp.Compare(a.taints, b.taints),
			cmp.Compare(b.weight, a.weight),
			compareSize(a.host, b.host),
			cmp.Compare(inDomain[b.host.Spec.FailureDomain], inDomain[a.host.Spec.FailureDomain]),
			strings.Compare(a.host.Name, b.host.Name),
		)
	}).host, tally
}

// Each goes through a list of hosts.
func Each(hosts []v1alpha1.BareMetalHost) iter.Seq[*v1alpha1.BareMetalHost] {
	return func(yield func(*v1alpha1.BareMetalHost) bool) {
		for i := range hosts {
			if !yield(&hosts[i]) {
				return
			}
		}
	}
}

// Match returns the hosts that a machine may have, whoever has them now (Suits), and what excluded the others.
func Match(hosts []v1alpha1.BareMetalHost, want Want) ([]*v1alpha1.BareMetalHost, *Diagnosis) {
	tally := newDiagnosis(want)
	var matching []*v1alpha1.BareMetalHost
	for i := range hosts {
		reason := Eligible(&hosts[i], want)
		tally.count(&hosts[i], reason)
		if reason == "" {
			matching = append(matching, &hosts[i])
		}
	}
	return matching, tally
}

// candidate is a host that fits, with what speaks for it and against it.
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

// LastOwnedBy is true for a host that a machine of the owner had last. Nobody has the empty owner.
func LastOwnedBy(host *v1alpha1.BareMetalHost, owner string) bool {
	return owner != "" && host.Spec.LastConsumer != nil && host.Spec.LastConsumer.Owner == owner
}

func compareSize(a, b *v1alpha1.BareMetalHost) int {
	return cmp.Or(cmp.Compare(memory(a), memory(b)), cmp.Compare(threads(a), threads(b)), cmp.Compare(largestDisk(a), largestDisk(b)))
}
