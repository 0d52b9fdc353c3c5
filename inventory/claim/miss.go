package claim

import (
	"cmp"
	"iter"
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// Miss is a host that a machine cannot claim, with everything that prevents it.
type Miss struct {
	// Host is the name of the host.
	Host string
	// Reasons complete a sentence that begins with a number of hosts, such as "in maintenance". There is at least one.
	Reasons []string

	unmet int // how many of the reasons are requirements of the machine
}

// NearestMiss returns the free host to which the machine comes nearest: the fewest things prevent the claim, and of two such hosts the one whose state prevents it
// rather than its hardware, since a state can be ended. Then the name decides. It returns nil if a machine has each host that is not claimable. Unlike Pick it checks
// each requirement of each host, so it is for a machine for which Pick found no host.
func NearestMiss(hosts iter.Seq[*v1alpha1.BareMetalHost], want Want) *Miss {
	var nearest *Miss
	for host := range hosts {
		if host.Spec.ConsumerRef != nil {
			continue
		}
		miss := missOf(host, &want)
		if len(miss.Reasons) > 0 && (nearest == nil || compareMisses(&miss, nearest) < 0) {
			nearest = &miss
		}
	}
	return nearest
}

func missOf(host *v1alpha1.BareMetalHost, want *Want) Miss {
	miss := Miss{Host: host.Name}
	if reason := stateReason(host); reason != "" {
		miss.Reasons = append(miss.Reasons, reason)
	}
	for i := range requirements {
		if r := &requirements[i]; r.isUnmet(host, want) {
			miss.Reasons = append(miss.Reasons, withSelector(r.reason(host, want), want))
			miss.unmet++
		}
	}
	return miss
}

func compareMisses(a, b *Miss) int {
	return cmp.Or(cmp.Compare(len(a.Reasons), len(b.Reasons)), cmp.Compare(a.unmet, b.unmet), strings.Compare(a.Host, b.Host))
}
