package machine

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/metrics"
)

// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// countClaim counts a claim by its error. It is no event: the status of the machine names its host.
func countClaim(err error) {
	if err != nil {
		metrics.ClaimFailed(apierrors.IsConflict(err))
		return
	}
	metrics.Claimed()
}

// firstProvisioned is true at the first call for a machine. The cache may show the machine before the last write, and the controller then repeats
// that write.
func (r *Reconciler) firstProvisioned(m *v1alpha1.BareMetalMachine) bool {
	if r.provisioned == nil {
		return true
	}
	_, recorded := r.provisioned.Get(m.UID)
	r.provisioned.Add(m.UID, nil)
	return !recorded
}

// recordProvisionedEvent records on the host that it runs the machine, after the provider ID was written.
func (r *Reconciler) recordProvisionedEvent(before *v1alpha1.BareMetalMachine, s *scope) {
	m := s.machine
	if s.host == nil || !r.firstProvisioned(m) {
		return
	}
	// The condition of before is used: after a loss of the status this write may set the condition of m for the first time.
	if c := conditions.Get(before, v1alpha1.HostClaimedCondition); c != nil && c.Status == metav1.ConditionTrue {
		metrics.Provisioned(time.Since(c.LastTransitionTime.Time))
	}
	controllers.RecordEvent(r.Recorder, s.host, m, corev1.EventTypeNormal, controllers.EventProvisioned, "Provision", "The host runs BareMetalMachine %s", m.Name)
}

// recordStatusEvents records events for the transitions in the status that was just written.
func (r *Reconciler) recordStatusEvents(before *v1alpha1.BareMetalMachine, s *scope) {
	m := s.machine
	record := func(kind, reason, action, note string, args ...any) {
		controllers.RecordEvent(r.Recorder, m, nil, kind, reason, action, note, args...)
	}
	const noHostFits = v1alpha1.ReasonNoHostFits
	if c := conditions.Get(m, v1alpha1.HostClaimedCondition); c != nil && c.Reason == noHostFits && conditions.GetReason(before, v1alpha1.HostClaimedCondition) != noHostFits {
		record(corev1.EventTypeWarning, controllers.EventNoHostFits, "Claim", "%s", c.Message)
	}
	if reason := m.Status.FailureReason; reason != "" && reason != before.Status.FailureReason {
		kind := controllers.EventBootFailed
		if reason == v1alpha1.ReasonHostLost {
			kind = controllers.EventHostLost
		}
		record(corev1.EventTypeWarning, kind, "Boot", "%s: %s", reason, m.Status.FailureMessage)
	}
}
