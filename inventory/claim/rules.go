package claim

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

const (
	excludedClaimed = "claimed by another machine"
	// excludedBySelector is what a tally tells with the selector. In a pool that labels divide, it is the reason of most hosts of each claim: a text made
	// for each would be two fifths of the time that the choice takes.
	excludedBySelector = "not matched by hostSelector"

	// healthCritical is what a BMC says of a server with a fault that needs somebody at once.
	healthCritical = "Critical"
)

// exclusionReason returns why a machine must not claim a host now, for a sentence that begins with a number of hosts; empty if it may.
func exclusionReason(host *v1alpha1.BareMetalHost, want Want) string {
	if host.Spec.ConsumerRef != nil {
		return excludedClaimed
	}
	if reason := OutOfService(host); reason != "" {
		return reason
	}
	if !meta.IsStatusConditionTrue(host.Status.Conditions, v1alpha1.AvailableCondition) {
		return "not available (their condition Available says why)"
	}
	return cmp.Or(unfit(host), mismatch(host, want))
}

// Eligible returns why a host is none for the machine, whoever has it now: empty for a host that the machine may claim, if not now, then once
// it is free. It is for what counts hosts, such as the capacity of a template, and for a machine that waits for one host.
func Eligible(host *v1alpha1.BareMetalHost, want Want) (why string) {
	return cmp.Or(OutOfService(host), unfit(host), mismatch(host, want))
}

// OutOfService is why nobody may claim a host, by what people and the provider wrote into its spec and annotations; empty if nothing speaks against it.
func OutOfService(host *v1alpha1.BareMetalHost) string {
	switch {
	case !host.DeletionTimestamp.IsZero():
		return "being deleted"
	case detached(host):
		return "detached"
	case host.Spec.ExternallyProvisioned:
		return "externally provisioned"
	case host.Spec.Maintenance != nil:
		return "in maintenance"
	case host.Spec.Quarantine != nil:
		return "quarantined"
	case host.Spec.ConsumerRef == nil && hasPowerHold(host): // those of a machine go with it
		return "kept powered off"
	default:
		return ""
	}
}

func detached(host *v1alpha1.BareMetalHost) bool {
	_, ok := host.Annotations[v1alpha1.DetachedAnnotation]
	return ok
}

// hasPowerHold is true when somebody holds the server off, in the spec or by an annotation.
func hasPowerHold(host *v1alpha1.BareMetalHost) bool {
	for annotation := range host.Annotations {
		if strings.HasPrefix(annotation, v1alpha1.PowerHoldPrefix) || strings.HasPrefix(annotation, v1alpha1.ForcePowerHoldPrefix) {
			return true
		}
	}
	return len(host.Spec.PowerHolds) > 0
}

// unfit is why nobody may claim a host, by what its BMC says.
func unfit(host *v1alpha1.BareMetalHost) string {
	hardware := host.Status.Hardware
	switch {
	case !meta.IsStatusConditionTrue(host.Status.Conditions, v1alpha1.VerifiedCondition):
		return "not verified (their condition Verified says why)"
	case hardware == nil:
		return ""
	case hardware.Health == healthCritical:
		return "unhealthy (their BMC says Critical)"
	case hardware.Architecture != "" && hardware.Architecture != string(Architecture(host.Spec.Architecture)):
		return "of another architecture than their spec.architecture says"
	default:
		return ""
	}
}

// mismatch is why a host is none for this machine.
func mismatch(host *v1alpha1.BareMetalHost, want Want) string {
	need := want.Hardware
	switch wanted := Architecture(need.Architecture); {
	case !want.Selector.Matches(labels.Set(host.Labels)):
		return excludedBySelector
	case want.FailureDomain != "" && host.Spec.FailureDomain != want.FailureDomain:
		return fmt.Sprintf("not in failure domain %q", want.FailureDomain)
	case Architecture(host.Spec.Architecture) != wanted:
		return fmt.Sprintf("of another architecture than %s", wanted)
	case threads(host) < need.CPU:
		return fmt.Sprintf("with less than %d CPUs", need.CPU)
	case need.Memory != nil && memory(host) < need.Memory.Value():
		return fmt.Sprintf("with less than %s memory", text(*need.Memory))
	case need.Disk != nil && largestDisk(host) < need.Disk.Value():
		return "without a disk of " + text(*need.Disk)
	}
	for _, taint := range host.Spec.Taints {
		if taint.Effect != v1alpha1.TaintPreferNoClaim && !tolerated(taint, want.Tolerations) {
			return fmt.Sprintf("with the taint %s, which tolerations do not name", taintString(taint))
		}
	}
	return ""
}

// text writes a copy of a Quantity: String writes its result into the Quantity, which may be part of an object in the cache.
func text(q resource.Quantity) string { return q.String() }

func taintString(taint v1alpha1.HostTaint) string {
	if taint.Value == "" {
		return taint.Key
	}
	return taint.Key + "=" + string(taint.Value)
}

func tolerated(taint v1alpha1.HostTaint, tolerations []v1alpha1.HostToleration) bool {
	return slices.ContainsFunc(tolerations, func(t v1alpha1.HostToleration) bool {
		return t.Key == taint.Key && (t.Operator == corev1.TolerationOpExists || t.Value == taint.Value)
	})
}

// Architecture returns what an architecture that is left out stands for.
func Architecture(a v1alpha1.Architecture) v1alpha1.Architecture {
	return cmp.Or(a, v1alpha1.ArchitectureAMD64)
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
	return host.Status.Hardware.Memory.Value()
}

// largestDisk is in bytes.
func largestDisk(host *v1alpha1.BareMetalHost) int64 {
	var largest int64
	if host.Status.Hardware != nil {
		for i := range host.Status.Hardware.Disks {
			largest = max(largest, host.Status.Hardware.Disks[i].Size.Value())
		}
	}
	return largest
}
