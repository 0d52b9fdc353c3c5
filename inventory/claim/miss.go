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
}

// obstacles counts what keeps a machine from a free host.
type obstacles struct {
	all   int
	unmet int // requirements of the machine; the others are states of the host
}

// nearestMiss returns the free host to which the machine comes nearest: the fewest things prevent the claim, and of two such hosts the one whose state prevents it
// rather than its hardware, since a state can be ended. Then the name decides. It returns nil without a free host that does not fit. Unlike Pick it checks all requirements of
// each host. It counts first, since the texts of 10,000 hosts would take longer than everything else.
func nearestMiss(hosts iter.Seq[*v1alpha1.BareMetalHost], want *Want) *Miss {
	var nearest *v1alpha1.BareMetalHost
	var least obstacles
	for host := range hosts {
		if host.Spec.ConsumerRef != nil {
			continue
		}
		if o := obstaclesOf(host, want); o.all > 0 && (nearest == nil || cmp.Or(cmp.Compare(o.all, least.all), cmp.Compare(o.unmet, least.unmet), strings.Compare(host.Name, nearest.Name)) < 0) {
			nearest, least = host, o
		}
	}
	if nearest == nil {
		return nil
	}
	return &Miss{nearest.Name, missReasons(nearest, want)}
}

func obstaclesOf(host *v1alpha1.BareMetalHost, want *Want) obstacles {
	var o obstacles
	for i := range requirements {
		if requirements[i].isUnmet(host, want) {
			o.unmet++
		}
	}
	o.all = o.unmet
	if stateReason(host) != "" {
		o.all++
	}
	return o
}

// missReasons returns everything that keeps a machine from a free host.
func missReasons(host *v1alpha1.BareMetalHost, want *Want) []string {
	var reasons []string
	if reason := stateReason(host); reason != "" {
		reasons = append(reasons, reason)
	}
	for i := range requirements {
		if r := &requirements[i]; r.isUnmet(host, want) {
			reasons = append(reasons, withSelector(r.reason(host, want), want))
		}
	}
	return reasons
}
