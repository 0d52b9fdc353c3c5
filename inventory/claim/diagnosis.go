package claim

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory"
)

// Diagnosis counts the hosts that were considered, and the hosts that each reason excluded. A host is counted once, for the first reason that excluded
// it.
type Diagnosis struct {
	// Total is the number of hosts that were considered.
	Total int

	want     Want
	excluded map[string]int
	selected int            // hosts that the selector matches, even if another reason excludes them
	domains  map[string]int // hosts in each failure domain
}

func newDiagnosis(want Want) *Diagnosis {
	return &Diagnosis{want: want, excluded: map[string]int{}, domains: map[string]int{}}
}

// count counts a host. reason is why it is excluded, or empty.
func (d *Diagnosis) count(host *v1alpha1.BareMetalHost, reason string) {
	d.Total++
	if reason != "" {
		d.excluded[reason]++
	}
	if d.want.Selector.Matches(labels.Set(host.Labels)) {
		d.selected++
	}
	if host.Spec.FailureDomain != "" {
		d.domains[host.Spec.FailureDomain]++
	}
}

// String says how many hosts each reason excluded. Requirements that no host meets come first, each with a remedy, because waiting does not help.
func (d *Diagnosis) String() string {
	if d.Total == 0 {
		return "There is no BareMetalHost in this namespace: register one, or create the Cluster in the namespace of the hosts"
	}
	var sentences []string
	if d.selected == 0 {
		sentences = append(sentences, fmt.Sprintf("hostSelector %q matches no host: correct it, or label the hosts that it is meant for", d.want.Selector))
	}
	if domain := d.want.FailureDomain; domain != "" && d.domains[domain] == 0 {
		sentences = append(sentences, fmt.Sprintf("No host is in failure domain %q, which the Machine asks for: %s", domain, d.describeDomains()))
	}
	return strings.Join(append(sentences, fmt.Sprintf("None of %d hosts fits: %s", d.Total, d.reasons())), ". ")
}

// describeDomains lists the failure domains of the hosts.
func (d *Diagnosis) describeDomains() string {
	names := slices.Sorted(maps.Keys(d.domains))
	if len(names) == 0 {
		return "no host has a spec.failureDomain. Set it on the hosts, or leave the failure domain out"
	}
	return fmt.Sprintf("the hosts are in %s. Ask for one of these, or correct the spec.failureDomain of the hosts", inventory.ListNames(names))
}

// reasons lists how many hosts each reason excluded, the most frequent reason first.
func (d *Diagnosis) reasons() string {
	reasons := slices.SortedFunc(maps.Keys(d.excluded), func(a, b string) int {
		return cmp.Or(cmp.Compare(d.excluded[b], d.excluded[a]), strings.Compare(a, b))
	})
	for i, reason := range reasons {
		reasons[i] = fmt.Sprintf("%d %s", d.excluded[reason], reason)
		if reason == excludedBySelector {
			reasons[i] += fmt.Sprintf(" %q", d.want.Selector)
		}
	}
	return strings.Join(reasons, ", ")
}
