package claim

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// Diagnosis counts the hosts that were looked at and, for each reason, those that it excluded. A host is counted once, for the
// first reason that excluded it.
type Diagnosis struct {
	// Total is how many hosts were looked at.
	Total int

	want     Want
	excluded map[string]int
	selected int            // hosts that the selector matches, whatever else is wrong with them
	domains  map[string]int // hosts in each failure domain
}

func newDiagnosis(want Want) *Diagnosis {
	return &Diagnosis{want: want, excluded: map[string]int{}, domains: map[string]int{}}
}

// count counts a host, with the reason that excluded it if one did.
func (t *Diagnosis) count(host *v1alpha1.BareMetalHost, reason string) {
	t.Total++
	if reason != "" {
		t.excluded[reason]++
	}
	if t.want.Selector.Matches(labels.Set(host.Labels)) {
		t.selected++
	}
	if host.Spec.FailureDomain != "" {
		t.domains[host.Spec.FailureDomain]++
	}
}

// String tells a person what excluded how many hosts. What no host can meet, and so no wait mends, stands first, with what to do.
func (t *Diagnosis) String() string {
	if t.Total == 0 {
		return "There is no BareMetalHost in this namespace: register one, or create the Cluster in the namespace of the hosts"
	}
	var sentences []string
	if t.selected == 0 {
		sentences = append(sentences, fmt.Sprintf("hostSelector %q matches no host: correct it, or label the hosts that it is meant for", t.want.Selector))
	}
	if d := t.want.FailureDomain; d != "" && t.domains[d] == 0 {
		sentences = append(sentences, fmt.Sprintf("No host is in failure domain %q, which the Machine asks for: %s", d, t.describeDomains()))
	}
	return strings.Join(append(sentences, fmt.Sprintf("None of %d hosts fits: %s", t.Total, t.reasons())), ". ")
}

// maxDomains is how many failure domains a message lists.
const maxDomains = 10

// describeDomains tells which failure domains there are.
func (t *Diagnosis) describeDomains() string {
	names := slices.Sorted(maps.Keys(t.domains))
	if len(names) == 0 {
		return "no host has a spec.failureDomain. Set it on the hosts, or leave the failure domain out"
	}
	more := ""
	if len(names) > maxDomains {
		more = fmt.Sprintf(" and %d more", len(names)-maxDomains)
		names = names[:maxDomains]
	}
	return fmt.Sprintf("the hosts are in %s%s. Ask for one of these, or correct the spec.failureDomain of the hosts", strings.Join(names, ", "), more)
}

// reasons lists what excluded how many hosts, the commonest reason first.
func (t *Diagnosis) reasons() string {
	reasons := slices.SortedFunc(maps.Keys(t.excluded), func(a, b string) int {
		return cmp.Or(cmp.Compare(t.excluded[b], t.excluded[a]), strings.Compare(a, b))
	})
	for i, reason := range reasons {
		reasons[i] = fmt.Sprintf("%d %s", t.excluded[reason], reason)
		if reason == excludedBySelector {
			reasons[i] += fmt.Sprintf(" %q", t.want.Selector)
		}
	}
	return strings.Join(reasons, ", ")
}
