package host

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/metrics"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// recordSettingsEvent records the start and the outcome of a settings run.
func (r *eventRecorder) recordSettingsEvent(host *v1alpha1.BareMetalHost, view lifecycle.View, step lifecycle.Step) {
	const action = "Configure"
	before, run := view.BIOS.Record, step.Settings
	switch {
	case step.Action == lifecycle.CountSettings:
		requester := ""
		if run.RequestedBy != "" {
			requester = ", requested by " + run.RequestedBy
		}
		r.recordEvent(host, corev1.EventTypeNormal, controllers.EventSettingsRunStarted, action, "Run %d of BareMetalProfile %s starts: %d attributes%s", run.Number, run.Profile.Name,
			len(run.Changes), requester)
	case step.Action == lifecycle.EndSettings && view.Requests.SettingsEnded.Set:
		r.recordEvent(host, corev1.EventTypeWarning, controllers.EventSettingsRunEnded, action, "%s", step.Message)
	case step.Action == lifecycle.EndSettings, run.Outcome == "", before != nil && before.Number == run.Number && before.Outcome != "":
	default:
		metrics.SettingsRun(run.Outcome)
		if run.StartTime != nil {
			metrics.SettingsRunTook(view.Now.Sub(run.StartTime.Time))
		}
		kind, reason := corev1.EventTypeWarning, controllers.EventSettingsFailed
		switch run.Outcome {
		case v1alpha1.SettingsApplied:
			kind, reason = corev1.EventTypeNormal, controllers.EventSettingsApplied
		case v1alpha1.SettingsRefused:
			reason = controllers.EventSettingsRefused
		case v1alpha1.SettingsWithdrawn:
			reason = controllers.EventSettingsWithdrawn
		case v1alpha1.SettingsFailed:
		}
		r.recordEvent(host, kind, reason, action, "Run %d: %s", run.Number, step.Message)
	}
}
