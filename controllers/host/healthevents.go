package host

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
)

// partsKey returns what events compare of the parts that are not healthy.
func partsKey(status *v1alpha1.HealthStatus) string {
	if status == nil {
		return ""
	}
	var key strings.Builder
	for _, p := range status.Parts {
		key.WriteString(string(p.Class) + "/" + p.Name + "/" + string(p.Health) + "\n")
	}
	if status.Flapping {
		key.WriteString("flapping")
	}
	return key.String()
}

// recordHealthEvents records that other parts are not healthy than before, or that all are healthy again.
func (r *eventRecorder) recordHealthEvents(host *v1alpha1.BareMetalHost, was, is eventState) {
	condition := conditions.Get(host, v1alpha1.HardwareHealthyCondition)
	switch {
	case condition == nil, was.health == is.health && was.parts == is.parts:
	case is.parts != "" && len(host.Status.Health.Parts) > 0:
		worst := host.Status.Health.Parts[0]
		r.recordEvent(host, corev1.EventTypeWarning, controllers.EventHardwareUnhealthy, actionFor(string(worst.Class), worst.Name, string(worst.Health)), "%s", condition.Message)
	case is.health == v1alpha1.ReasonHardwareOK && (was.parts != "" || isUnhealthyReason(was.health)):
		r.recordEvent(host, corev1.EventTypeNormal, controllers.EventHardwareHealthy, "Observe", "The BMC reports no unhealthy component any more")
	}
}

// maxAction is the maximum length of the action of an event that the API server accepts.
const maxAction = 128

// actionFor returns an action that differs for each subject. The recorder of client-go counts events that differ only in their note as one series, and keeps the note of the first.
func actionFor(subject ...string) string {
	return controllers.Clip("Observe "+strings.Join(subject, " "), maxAction)
}
