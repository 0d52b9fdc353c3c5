package why

import (
	"fmt"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// Seen is the last thing that was observed of a server.
type Seen struct {
	// What was observed, such as "stage Loader of boot 4, attempt 2".
	What string
	// By is who observed it: BMC, DHCP, TFTP or HTTP, agent, operating system, or Node.
	By string
	// Time is when it was first observed.
	Time time.Time
}

// seenBy names the observer of each stage of a boot.
var seenBy = map[v1alpha1.BootStage]string{
	v1alpha1.StageStarted: "BMC", v1alpha1.StageMedia: "HTTP", v1alpha1.StageDHCP: "DHCP", v1alpha1.StageLoader: "TFTP or HTTP", v1alpha1.StageWaiting: "HTTP",
	v1alpha1.StageScript: "HTTP", v1alpha1.StageKernel: "HTTP", v1alpha1.StageAgent: "agent", v1alpha1.StageData: "HTTP", v1alpha1.StageCommitted: "agent",
	v1alpha1.StageAgentDone: "agent", v1alpha1.StageReportedIn: "operating system", v1alpha1.StageNode: "Node", v1alpha1.StageBootstrapSucceeded: "operating system",
	v1alpha1.StageBootstrapFailed: "operating system", v1alpha1.StageRestarted: "DHCP", v1alpha1.StageNodeLost: "Node",
}

// lastSeen returns the later of the last stage of the boot and the last operation of the BMC; nil without both.
func (o *Objects) lastSeen() *Seen {
	var seen *Seen
	if o.Boot != nil {
		if stage := o.lastStage(); stage != nil {
			what := fmt.Sprintf("stage %s of boot %d, attempt %d", stage.Stage, o.Boot.Spec.Number, o.Boot.Spec.Attempt)
			if stage.Address != "" {
				what += ", address " + stage.Address
			}
			seen = &Seen{What: clean(what), By: seenBy[stage.Stage], Time: stage.Time.Time}
		}
	}
	if o.Host == nil || o.Host.Status.LastOperation == nil {
		return seen
	}
	op := o.Host.Status.LastOperation
	at, what := op.StartTime.Time, "operation "+op.Name+" started"
	if op.EndTime != nil {
		at, what = op.EndTime.Time, fmt.Sprintf("operation %s: %s", op.Name, op.Outcome)
	}
	if seen == nil || at.After(seen.Time) {
		return &Seen{What: clean(what), By: "BMC", Time: at}
	}
	return seen
}
