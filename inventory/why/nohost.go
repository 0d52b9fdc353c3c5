package why

import (
	"fmt"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/claim"
)

// NoHost says why a machine has no host, by the rules of package claim.
type NoHost struct {
	// Total is the number of hosts of the namespace.
	Total int
	// Excluded counts the hosts by the first reason that excludes them, the most frequent reason first.
	Excluded []claim.Exclusion
	// Nearest is the free host that the fewest things exclude; nil if no host is free, and for a template.
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
	if o.Machine != nil {
		want.FailureDomain = o.Machine.Spec.FailureDomain
	}
	if f.at.Kind == KindMachineTemplate { // it counts the hosts that machines have, too
		_, diagnosis := claim.Match(o.Hosts, want)
		f.setNoHost(diagnosis)
		return
	}
	picked, diagnosis := claim.Pick(claim.Each(o.Hosts), want, func(*v1alpha1.BareMetalHost) bool { return false })
	if picked == nil {
		f.setNoHost(claim.Diagnose(claim.Each(o.Hosts), want))
		return
	}
	f.noHost = &NoHost{Total: diagnosis.Total, Excluded: diagnosis.Exclusions(), Fits: picked.Name}
	f.cause = fmt.Sprintf("BareMetalHost %s fits now. The provider claims it when it reconciles the machine, unless another machine is first", picked.Name)
}

func (f *finding) setNoHost(diagnosis *claim.Diagnosis) {
	f.cause = diagnosis.String()
	f.noHost = &NoHost{Total: diagnosis.Total, Excluded: diagnosis.Exclusions(), Nearest: diagnosis.Nearest}
	if n := diagnosis.Nearest; n != nil {
		f.command = fill(describeObject, Ref{Kind: KindHost, Namespace: f.at.Namespace, Name: n.Host}, nil)
	}
}
