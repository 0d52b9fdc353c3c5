package claim

import (
	"cmp"
	"fmt"
	"iter"
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
	// Nearest is the free host that lacks least of what the machine needs; nil if no host is free. Only Diagnose sets it.
	Nearest *Miss

	want     Want
	excluded map[string]int
	selected int            // hosts that the selector matches, even if another reason excludes them
	domains  map[string]int // hosts in each failure domain
}

// Diagnose returns why none of the hosts is for the machine, with the nearest one. It is for a machine for which Pick found no host, and takes longer. A host that fits
// counts as claimed: another machine is about to get it.
func Diagnose(hosts iter.Seq[*v1alpha1.BareMetalHost], want Want) *Diagnosis {
	_, diagnosis := Pick(hosts, want, func(*v1alpha1.BareMetalHost) bool { return true })
	diagnosis.Nearest = nearestMiss(hosts, &want)
	return diagnosis
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

// String says how many hosts each reason excluded, and which host is the nearest. Requirements that no host meets come first, each with a remedy, because waiting does not
// help.
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
	sentences = append(sentences, fmt.Sprintf("None of %d hosts fits: %s", d.Total, d.reasons()))
	if n := d.Nearest; n != nil {
		sentences = append(sentences, fmt.Sprintf("The nearest is %q: %s", n.Host, strings.Join(n.Reasons, ", ")))
	}
	return strings.Join(sentences, ". ")
}

// describeDomains lists the failure domains of the hosts.
func (d *Diagnosis) describeDomains() string {
	names := slices.Sorted(maps.Keys(d.domains))
	if len(names) == 0 {
		return "no host has a spec.failureDomain. Set it on the hosts, or leave the failure domain out"
	}
	return fmt.Sprintf("the hosts are in %s. Ask for one of these, or correct the spec.failureDomain of the hosts", inventory.ListNames(names))
}

// Exclusion is a reason, and the number of hosts that it excluded from a machine.
type Exclusion struct {
	// Reason completes a sentence that begins with the number of hosts, such as "in maintenance".
	Reason string
	// Hosts is the number of hosts, at least 1.
	Hosts int
}

// Exclusions returns the reasons that excluded hosts, the most frequent one first. Each excluded host is counted once.
func (d *Diagnosis) Exclusions() []Exclusion {
	exclusions := make([]Exclusion, 0, len(d.excluded))
	for reason, hosts := range d.excluded {
		exclusions = append(exclusions, Exclusion{withSelector(reason, &d.want), hosts})
	}
	slices.SortFunc(exclusions, func(a, b Exclusion) int {
		return cmp.Or(cmp.Compare(b.Hosts, a.Hosts), strings.Compare(a.Reason, b.Reason))
	})
	return exclusions
}

// reasons lists how many hosts each reason excluded, the most frequent reason first.
func (d *Diagnosis) reasons() string {
	exclusions := d.Exclusions()
	texts := make([]string, len(exclusions))
	for i, e := range exclusions {
		texts[i] = fmt.Sprintf("%d %s", e.Hosts, e.Reason)
	}
	return strings.Join(texts, ", ")
}

// withSelector adds the selector to the reason that names it.
func withSelector(reason string, want *Want) string {
	if reason == excludedBySelector {
		return fmt.Sprintf("%s %q", reason, want.Selector)
	}
	return reason
}
