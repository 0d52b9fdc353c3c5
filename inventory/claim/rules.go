package claim

import (
	"cmp"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
)

const (
	excludedClaimed = "claimed by another machine"
	// excludedBySelector is a constant, to which the Diagnosis adds the selector. In a pool that labels divide, this reason excludes most hosts of each
	// claim. A text formatted per host would take two fifths of the time of the choice.
	excludedBySelector = "not matched by hostSelector"
)

// exclusionReason returns why a machine must not claim a host now, or "". The text completes a sentence that begins with a number of hosts.
func exclusionReason(host *v1alpha1.BareMetalHost, want *Want) string {
	if host.Spec.ConsumerRef != nil {
		return excludedClaimed
	}
	if reason := stateReason(host); reason != "" {
		return reason
	}
	return mismatchReason(host, want)
}

// stateReason returns why no machine may claim a host that no machine has, or "".
func stateReason(host *v1alpha1.BareMetalHost) string {
	if reason := OutOfService(host); reason != "" {
		return reason
	}
	if host.Spec.ProviderState.SettingsRuns > host.Spec.ProviderState.SettingsRunsEnded { // the condition Available may be older than the count of the run
		return "getting firmware settings"
	}
	if !meta.IsStatusConditionTrue(host.Status.Conditions, v1alpha1.AvailableCondition) {
		return "not available (their condition Available says why)"
	}
	return unfitReason(host)
}

// Eligible returns why a host is not eligible for the machine, or "". It ignores whether another machine has the host now. It serves callers that count
// hosts, such as the capacity of a template, and a machine that waits for one host.
func Eligible(host *v1alpha1.BareMetalHost, want Want) (why string) {
	return eligible(host, &want)
}

func eligible(host *v1alpha1.BareMetalHost, want *Want) string {
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

// Architecture returns an architecture, or the default if it is empty.
func Architecture(a v1alpha1.Architecture) v1alpha1.Architecture {
	return cmp.Or(a, v1alpha1.ArchitectureAMD64)
}
