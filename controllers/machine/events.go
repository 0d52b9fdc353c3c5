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

// tellClaimed tells of a claim. The host's own story goes on with its boot, which names the machine.
func (r *Reconciler) tellClaimed(m *v1alpha1.BareMetalMachine, host *v1alpha1.BareMetalHost) {
	metrics.Claimed()
	controllers.RecordEvent(r.Recorder, m, host, corev1.EventTypeNormal, controllers.EventClaimed, "Claim", "Claimed BareMetalHost %s", host.Name)
}

// countNotClaimed counts a claim that failed.
func countNotClaimed(err error) {
	if err != nil {
		metrics.NotClaimed(apierrors.IsConflict(err))
	}
}

// firstProvisioned is true the first time for a machine. The cache may show it as it was before the last write, so that what was written is written again.
func (r *Reconciler) firstProvisioned(m *v1alpha1.BareMetalMachine) bool {
	if r.provisioned == nil {
		return true
	}
	_, told := r.provisioned.Get(m.UID)
	r.provisioned.Add(m.UID, nil)
	return !told
}

// tellProvisioned tells on the host that it runs the machine, when the provider ID was just written.
func (r *Reconciler) tellProvisioned(before *v1alpha1.BareMetalMachine, s *scope) {
	m := s.machine
	if s.host == nil || !r.firstProvisioned(m) {
		return
	}
	// The condition of before: this very write may be the first that shows it, where a status was lost.
	if c := conditions.Get(before, v1alpha1.HostClaimedCondition); c != nil && c.Status == metav1.ConditionTrue {
		metrics.Provisioned(time.Since(c.LastTransitionTime.Time))
	}
	controllers.RecordEvent(r.Recorder, s.host, m, corev1.EventTypeNormal, controllers.EventProvisioned, "Provision", "The host runs BareMetalMachine %s", m.Name)
}

// tellWritten tells what else changed with what was just written to a machine.
func (r *Reconciler) tellWritten(before *v1alpha1.BareMetalMachine, s *scope) {
	m := s.machine
	tell := func(kind, reason, action, note string, args ...any) {
		controllers.RecordEvent(r.Recorder, m, nil, kind, reason, action, note, args...)
	}
	const waits = v1alpha1.ReasonNoHostFits
	if c := conditions.Get(m, v1alpha1.HostClaimedCondition); c != nil && c.Reason == waits && conditions.GetReason(before, v1alpha1.HostClaimedCondition) != waits {
		tell(corev1.EventTypeWarning, controllers.EventNoHostFits, "Claim", "%s", c.Message)
	}
	if reason := m.Status.FailureReason; reason != "" && reason != before.Status.FailureReason {
		kind := controllers.EventBootFailed
		if reason == v1alpha1.ReasonHostLost {
			kind = controllers.EventHostLost
		}
		tell(corev1.EventTypeWarning, kind, "Boot", "%s: %s", reason, m.Status.FailureMessage)
	}
}
