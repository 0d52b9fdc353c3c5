package why

import (
	"fmt"
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/claim"
)

// NoHost says why a machine has no host, by the rules of package claim.
type NoHost struct {
	// Total is the number of hosts of the namespace.
	Total int
	// Excluded counts the hosts by the first reason that excludes them, the most frequent reason first.
	Excluded []claim.Exclusion
	// Nearest is the free host that the fewest things exclude; nil if no host is free.
	Nearest *claim.Miss
	// Fits names a host that fits now, which the machine has not claimed yet. It is empty if none does.
	Fits string
}

// addHosts adds why each host was not chosen, if the hosts were read.
func (f *finding) addHosts(o *Objects, spec *v1alpha1.BareMetalMachineSpec) {
	if !o.HostsRead {
		return
	}
	want, err := claim.WantOf(spec)
	if err != nil {
		return // the API server would have refused the selector
	}
	if f.at.Kind == KindMachineTemplate {
		_, diagnosis := claim.Match(o.Hosts, want)
		f.noHost = &NoHost{Total: diagnosis.Total, Excluded: diagnosis.Exclusions(), Nearest: claim.NearestMiss(claim.Each(o.Hosts), want)}
		f.cause = diagnosis.String()
		return
	}
	if o.Machine != nil {
		want.FailureDomain = o.Machine.Spec.FailureDomain
	}
	picked, diagnosis := claim.Pick(claim.Each(o.Hosts), want, func(*v1alpha1.BareMetalHost) bool { return false })
	f.noHost = &NoHost{Total: diagnosis.Total, Excluded: diagnosis.Exclusions()}
	f.cause = diagnosis.String()
	if picked != nil {
		f.noHost.Fits = picked.Name
		f.cause = fmt.Sprintf("BareMetalHost %s fits now. The provider claims it when it reconciles the machine, unless another machine is first", picked.Name)
		return
	}
	if f.noHost.Nearest = claim.NearestMiss(claim.Each(o.Hosts), want); f.noHost.Nearest != nil {
		f.cause = fmt.Sprintf("The nearest host is %s: %s. %s", f.noHost.Nearest.Host, strings.Join(f.noHost.Nearest.Reasons, ", "), f.cause)
		f.command = fill(describeObject, Ref{Kind: KindHost, Namespace: f.at.Namespace, Name: f.noHost.Nearest.Host}, nil)
	}
}
