package lifecycle

import (
	"fmt"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// OwnServerMessage says why the provider does not power off the server that it runs on.
const OwnServerMessage = "The provider runs on this server, so it does not power the server off. Move the provider's Pod to another node. " +
	"To have the server powered off anyway, set the annotation " + v1alpha1.PowerOffProviderAnnotation + `="who and why" on the host`

// isProtected is true for the server on which the provider itself runs. Nothing would switch that server on again, or finish the operation. Such a server is not
// offered to machines either, because a boot begins with a power-off.
func isProtected(v View) bool { return v.Provider.RunsHere && !v.Requests.PowerOffProvider.Set }

func powersOffOwnServer(v View, step Step) bool {
	return isProtected(v) && (step.Action == ForceOff || step.Action == ShutDown)
}

// keepOwnServerOn withholds a command that would switch the provider's own server off.
func keepOwnServerOn(v View, s Settings, step Step) Step {
	step.Action, step.Reason, step.RequeueAt = Nothing, v1alpha1.ReasonRunsProvider, untilReleaseDue(v, v.Now.Add(s.PollInterval))
	return step
}

func withholdingMessage(v View, step Step) string {
	return OwnServerMessage + machineDeletionNote(v, step.State)
}

func offersOwnServer(v View, step Step) bool {
	return isProtected(v) && step.Phase == v1alpha1.PhaseAvailable
}

func keepOwnServer(_ View, _ Settings, step Step) Step {
	step.Phase, step.Reason = v1alpha1.PhaseUnavailable, v1alpha1.ReasonRunsProvider
	return step
}

// PowerOffAllowedMessage says that a user allows the provider to power off the server that it runs on.
func PowerOffAllowedMessage(v View) string {
	return fmt.Sprintf("The provider runs on this server, and may power it off, because the annotation %s allows that: %s",
		v1alpha1.PowerOffProviderAnnotation, v.Requests.PowerOffProvider.why())
}
