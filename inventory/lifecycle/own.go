package lifecycle

import (
	"fmt"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// OwnServer says why the provider does not power off the server that it runs on.
const OwnServer = "The provider runs on this server, so it does not power the server off. Move the provider's Pod to another node. Or, to have the server powered off all the same, " +
	"set the annotation " + v1alpha1.PowerOffProviderAnnotation + `="who and why" on the host`

// spareOwnServer withholds the commands that switch a server off on which the provider itself runs: nobody would be left to switch it on again, or to
// finish what the command is part of. Nor is such a server offered to machines, whose boots begin with a power-off.
func (v View) spareOwnServer(step Step, s Settings) Step {
	if !v.RunsProvider || v.PowerOffProvider != "" {
		return step
	}
	switch {
	case step.Action == ForceOff, step.Action == ShutDown:
		step.Action, step.Again = Nothing, v.Now.Add(s.PollInterval)
		step.Message = OwnServer + v.deletionWaits(step.State)
	case step.Phase == v1alpha1.PhaseAvailable:
		step.Phase, step.Message = v1alpha1.PhaseUnavailable, OwnServer
	default:
		return step
	}
	step.Reason = v1alpha1.ReasonRunsProvider
	return step
}

// PowerOffAllowed says that a person lets the provider power off the server that it runs on.
func PowerOffAllowed(v View) string {
	return fmt.Sprintf("The provider runs on this server, and powers the server off where that is to be done, since the annotation %s wants it: %s",
		v1alpha1.PowerOffProviderAnnotation, v.PowerOffProvider)
}
