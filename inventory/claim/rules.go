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
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/cleaning"
)

const (
	excludedClaimed = "claimed by another machine"
	// excludedBySelector is a constant, to which the Diagnosis adds the selector. In a pool that labels divide, this reason excludes most hosts of each
	// claim. A text formatted per host would take two fifths of the time of the choice.
	excludedBySelector = "not matched by hostSelector"
)

// exclusionReason returns why a machine must not claim a host now, or "". The text completes a sentence that begins with a number of hosts.
func exclusionReason(host *v1alpha1.BareMetalHost, want Want) string {
	if host.Spec.ConsumerRef != nil {
		return excludedClaimed
	}
	if reason := OutOfService(host); reason != "" {
		return reason
	}
	if host.Spec.ProviderState.SettingsRuns > host.Spec.ProviderState.SettingsRunsEnded { // the condition Available may be older than the count of the run
		return "getting firmware settings"
	}
	if !meta.IsStatusConditionTrue(host.Status.Conditions, v1alpha1.AvailableCondition) {
		return "not available (their condition Available says why)"
	}
	return cmp.Or(unfitReason(host), mismatchReason(host, want))
}

// Eligible returns why a host is not eligible for the machine, or "". It ignores whether another machine has the host now. It serves callers that count
// hosts, such as the capacity of a template, and a machine that waits for one host.
func Eligible(host *v1alpha1.BareMetalHost, want Want) (why string) {
	return cmp.Or(OutOfService(host), unfitReason(host), mismatchReason(host, want))
}

// OutOfService returns why no machine may claim a host, according to its spec and annotations, or "".
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
	case host.Spec.ConsumerRef == nil && hasPowerHold(host): // a release removes the power holds of a claimed host
		return "kept powered off"
	default:
		return ""
	}
}

func detached(host *v1alpha1.BareMetalHost) bool {
	_, ok := host.Annotations[v1alpha1.DetachedAnnotation]
	return ok
}

// hasPowerHold is true when a power hold, in the spec or by an annotation, keeps the server off.
func hasPowerHold(host *v1alpha1.BareMetalHost) bool {
	for annotation := range host.Annotations {
		if strings.HasPrefix(annotation, v1alpha1.PowerHoldPrefix) || strings.HasPrefix(annotation, v1alpha1.ForcePowerHoldPrefix) {
			return true
		}
	}
	return len(host.Spec.PowerHolds) > 0
}

// unfitReason returns why no machine may claim a host, according to its BMC, or "".
func unfitReason(host *v1alpha1.BareMetalHost) string {
	hardware := host.Status.Hardware
	switch {
	case !meta.IsStatusConditionTrue(host.Status.Conditions, v1alpha1.VerifiedCondition):
		return "not verified (their condition Verified says why)"
	case hardware == nil:
		return ""
	case hardware.Health == wire.HealthCritical:
		return "unhealthy (their BMC says Critical)"
	case hardware.Architecture != "" && hardware.Architecture != string(Architecture(host.Spec.Architecture)):
		return "of another architecture than their spec.architecture says"
	default:
		return ""
	}
}

// mismatchReason returns why a host does not meet the machine's requirements, or "".
func mismatchReason(host *v1alpha1.BareMetalHost, want Want) string {
	need := want.Hardware
	switch wanted := Architecture(need.Architecture); {
	case !want.Selector.Matches(labels.Set(host.Labels)):
		return excludedBySelector
	case want.FailureDomain != "" && host.Spec.FailureDomain != want.FailureDomain:
		return fmt.Sprintf("not in failure domain %q", want.FailureDomain)
	case Architecture(host.Spec.Architecture) != wanted:
		return fmt.Sprintf("of another architecture than %s", wanted)
	case CPU(host) < need.CPU:
		return fmt.Sprintf("with less than %d CPUs", need.CPU)
	case need.Memory != nil && Memory(host) < need.Memory.Value():
		return fmt.Sprintf("with less than %s memory", text(*need.Memory))
	case need.Disk != nil && largestDisk(host) < need.Disk.Value():
		return "without a disk of " + text(*need.Disk)
	case len(need.Disks) > 0 && !disksSuffice(disks(host), need.Disks):
		return "without the disks that hardware.disks requires"
	case need.NICs != nil && nics(host, need.NICs.MinSpeedMbps) < need.NICs.Count:
		return fmt.Sprintf("with fewer than %d network interfaces of %d Mbit/s", need.NICs.Count, need.NICs.MinSpeedMbps)
	case need.GPUs != nil && GPUs(host, *need.GPUs) < need.GPUs.Count:
		return fmt.Sprintf("without the %d GPUs that hardware.gpus requires", need.GPUs.Count)
	case len(need.Switches) > 0 && !connected(host, need.Switches):
		return "not connected to a switch of hardware.switches"
	case want.Profile != "" && host.Status.SettingsProfile != want.Profile:
		return fmt.Sprintf("without the firmware settings of BareMetalProfile %q (their condition SettingsConform says why)", want.Profile)
	case want.CleaningPolicy == wire.PolicyPurge && host.Spec.CleaningPolicy != wire.PolicyManual && cleaning.NotPurgeable(&host.Spec, host.Status.Inspection).Any():
		return "with a disk that cannot be purged, which cleaningPolicy requires"
	}
	for _, taint := range host.Spec.Taints {
		if taint.Effect != v1alpha1.TaintPreferNoClaim && !tolerated(taint, want.Tolerations) {
			return fmt.Sprintf("with the taint %s, which tolerations do not name", taintString(taint))
		}
	}
	return ""
}

// text formats a copy of a Quantity: Quantity.String caches its result in its receiver, which may be part of an object in the cache.
func text(q resource.Quantity) string { return q.String() }

func taintString(taint v1alpha1.HostTaint) string {
	if taint.Value == "" {
		return string(taint.Key)
	}
	return string(taint.Key) + "=" + string(taint.Value)
}

func tolerated(taint v1alpha1.HostTaint, tolerations []v1alpha1.HostToleration) bool {
	return slices.ContainsFunc(tolerations, func(t v1alpha1.HostToleration) bool {
		return t.Key == taint.Key && (t.Operator == corev1.TolerationOpExists || t.Value == taint.Value)
	})
}

// Architecture returns an architecture, or the default if it is empty.
func Architecture(a v1alpha1.Architecture) v1alpha1.Architecture {
	return cmp.Or(a, v1alpha1.ArchitectureAMD64)
}
