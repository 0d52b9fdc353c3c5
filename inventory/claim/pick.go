// Package claim gives hosts to machines. Pick chooses, without I/O; Claim writes the choice with one optimistic-lock patch,
// which alone decides who has a host.
package claim

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// Want is what a machine needs of a host.
type Want struct {
	// Selector picks hosts by their labels. It is never nil: labels.Everything() picks all.
	Selector labels.Selector
	// FailureDomain is the failure domain that the host must stand in; empty for any.
	FailureDomain string
	// Hardware is the least that the host must have.
	Hardware v1alpha1.HardwareRequirements
}

// Tally counts the hosts that were looked at and, for each reason, those that it excluded. A host is counted once, for the
// first reason that excluded it.
type Tally struct {
	Total    int
	excluded map[string]int
}

// String tells a person what excluded how many hosts.
func (t Tally) String() string {
	if t.Total == 0 {
		return "There is no BareMetalHost in this namespace"
	}
	reasons := make([]string, 0, len(t.excluded))
	for reason := range t.excluded {
		reasons = append(reasons, reason)
	}
	slices.SortFunc(reasons, func(a, b string) int {
		return cmp.Or(cmp.Compare(t.excluded[b], t.excluded[a]), strings.Compare(a, b))
	})
	for i, reason := range reasons {
		reasons[i] = fmt.Sprintf("%d %s", t.excluded[reason], reason)
	}
	return fmt.Sprintf("None of %d hosts fits: %s", t.Total, strings.Join(reasons, ", "))
}

// Pick returns the host that fits best, or nil and what excluded the hosts. Among those that fit it takes the smallest, so
// that big hosts stay free for those who need them; then one of the failure domain with the most free hosts that fit; then
// the first by name. taken excludes hosts that were just claimed and that the list does not show so yet.
func Pick(hosts []v1alpha1.BareMetalHost, want Want, taken func(*v1alpha1.BareMetalHost) bool) (*v1alpha1.BareMetalHost, Tally) {
	tally := Tally{Total: len(hosts), excluded: map[string]int{}}
	var fits []*v1alpha1.BareMetalHost
	inDomain := map[string]int{}
	for i := range hosts {
		host := &hosts[i]
		reason := exclusion(host, want)
		if reason == "" && taken(host) {
			reason = excludedClaimed
		}
		if reason != "" {
			tally.excluded[reason]++
			continue
		}
		fits = append(fits, host)
		inDomain[host.Spec.FailureDomain]++
	}
	if len(fits) == 0 {
		return nil, tally
	}
	return slices.MinFunc(fits, func(a, b *v1alpha1.BareMetalHost) int {
		return cmp.Or(
			compareSize(a, b),
			cmp.Compare(inDomain[b.Spec.FailureDomain], inDomain[a.Spec.FailureDomain]),
			strings.Compare(a.Name, b.Name),
		)
	}), tally
}

const (
	excludedClaimed = "claimed by another machine"
	gibibyte        = int64(1) << 30
	mebibyte        = int64(1) << 20
)

// exclusion returns why a host does not fit, for a sentence that begins with a number of hosts; empty if it fits.
func exclusion(host *v1alpha1.BareMetalHost, want Want) string {
	switch need := want.Hardware; {
	case host.Spec.ConsumerRef != nil:
		return excludedClaimed
	case !host.DeletionTimestamp.IsZero():
		return "being deleted"
	case host.Spec.ExternallyProvisioned:
		return "externally provisioned"
	case host.Spec.Maintenance != nil:
		return "in maintenance"
	case host.Spec.Quarantine != nil:
		return "quarantined"
	case !meta.IsStatusConditionTrue(host.Status.Conditions, v1alpha1.AvailableCondition):
		return "not available (their condition Available says why)"
	case !want.Selector.Matches(labels.Set(host.Labels)):
		return fmt.Sprintf("not matched by hostSelector %q", want.Selector)
	case want.FailureDomain != "" && host.Spec.FailureDomain != want.FailureDomain:
		return fmt.Sprintf("not in failure domain %q", want.FailureDomain)
	case need.Architecture != "" && host.Spec.Architecture != need.Architecture:
		return fmt.Sprintf("of another architecture than %s", need.Architecture)
	case threads(host) < need.CPU:
		return fmt.Sprintf("with less than %d CPUs", need.CPU)
	case need.Memory != nil && memory(host) < need.Memory.Value():
		return fmt.Sprintf("with less than %s memory", need.Memory)
	case need.Disk != nil && largestDisk(host) < need.Disk.Value():
		return fmt.Sprintf("without a disk of %s", need.Disk)
	default:
		return ""
	}
}

func compareSize(a, b *v1alpha1.BareMetalHost) int {
	return cmp.Or(cmp.Compare(memory(a), memory(b)), cmp.Compare(threads(a), threads(b)), cmp.Compare(largestDisk(a), largestDisk(b)))
}

func threads(host *v1alpha1.BareMetalHost) int32 {
	if host.Status.Hardware == nil {
		return 0
	}
	return host.Status.Hardware.CPU.Threads
}

// memory is in bytes.
func memory(host *v1alpha1.BareMetalHost) int64 {
	if host.Status.Hardware == nil {
		return 0
	}
	return host.Status.Hardware.MemoryMiB * mebibyte
}

// largestDisk is in bytes.
func largestDisk(host *v1alpha1.BareMetalHost) int64 {
	var largest int64
	if host.Status.Hardware != nil {
		for _, disk := range host.Status.Hardware.Disks {
			largest = max(largest, disk.SizeGiB*gibibyte)
		}
	}
	return largest
}
