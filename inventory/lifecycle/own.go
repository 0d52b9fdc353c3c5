package lifecycle

import (
	"fmt"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// OwnServerMessage says why the provider does not power off the server that it runs on.
const OwnServerMessage = "The provider runs on this server, so it does not power the server off. Move the provider's Pod to another node. " +
	"To have the server powered off anyway, set the annotation " + v1alpha1.PowerOffProviderAnnotation + `="who and why" on the host`

// protectOwnServer withholds the commands that would switch off the server on which the provider itself runs. Nothing would switch that server on
// again, or finish the operation. Such a server is not offered to machines either, because a boot begins with a power-off.
func (v View) protectOwnServer(step Step, s Settings) Step {
	if !v.RunsProvider || v.PowerOffProvider != "" {
		return step
	}
	switch {
	case step.Action == ForceOff, step.Action == ShutDown:
		step.Action, step.RequeueAt = Nothing, v.untilReleaseDue(v.Now.Add(s.PollInterval))
		step.Message = OwnServerMessage + v.machineDeletionNote(step.State)
	case step.Phase == v1alpha1.PhaseAvailable:
		step.Phase, step.Message = v1alpha1.PhaseUnavailable, OwnServerMessage
	default:
		return step
	}
	step.Reason = v1alpha1.ReasonRunsProvider
	return step
}

// PowerOffAllowedMessage says that a user allows the provider to power off the server that it runs on.
func PowerOffAllowedMessage(v View) string {
	return fmt.Sprintf("The provider runs on this server, and may power it off, because the annotation %s allows that: %s",
		v1alpha1.PowerOffProviderAnnotation, v.PowerOffProvider)
}
