package lifecycle

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// TestWaitingIsQuiet: the condition of a waiting host does not change for a minute, however often its BMC is read.
func TestWaitingIsQuiet(t *testing.T) {
	for name, test := range map[string]struct {
		view       View
		maxChanges int
	}{
		"claimed, and runs although nobody started it":                 {claimedView(poweredOn), 0},
		"released, and the BMC only says that it obeys":                {claimedView(provisioned, poweredOn, deleting), 0},
		"booting, and the BMC only says that it obeys":                 {bootingView(netbootSet), 0},
		"free, to be powered off, and the BMC only says that it obeys": {freeView(poweredOn, func(v *View) { v.Host.Spec.Power = v1alpha1.PowerOff }), 0},
		"held, and the BMC only says that it obeys":                    {claimedView(provisioned, poweredOn, forceHeld, powerHoldSince), 0},
		"booting":                              {bootingView(poweredOn), 0},
		"available":                            {freeView(), 0},
		"claimed, and the BMC was never asked": {claimedView(poweredOn, func(v *View) { v.BMC = BMC{} }), 2}, // one change at the BMC's answer, and one for its contents
	} {
		t.Run(name, func(t *testing.T) {
			var reports []string
			asked := minute(test.view, func(step Step) {
				now := string(step.Phase) + " " + step.Reason + ": " + step.Message
				if len(reports) == 0 || reports[len(reports)-1] != now {
					reports = append(reports, now)
				}
			})
			g := NewWithT(t)
			g.Expect(len(reports)-1).To(BeNumerically("<=", test.maxChanges), "%q", reports)
			if name != "available" {
				g.Expect(asked).To(BeNumerically(">=", 1), "the minute shows nothing")
			}
		})
	}
}

// minute simulates one minute of a host whose BMC takes a second for each job and has no effect. It returns the number of jobs.
func minute(v View, observe func(Step)) (jobs int) {
	for end := v.Now.Add(time.Minute); v.Now.Before(end); {
		step := Next(v, DefaultSettings())
		observe(step)
		if step.Action == Nothing || step.Action == RecordBoot {
			v.Now = step.RequeueAt
			continue
		}
		jobs++
		v.BMC.Busy = true
		observe(Next(v, DefaultSettings()))
		v.Now = v.Now.Add(time.Second)
		v.BMC.Busy = false
		command := map[Action]Command{PowerOn: CommandPowerOn, ShutDown: CommandShutDown, ForceOff: CommandForceOff}[step.Action]
		if command != "" {
			v.BMC.LastPower, v.BMC.LastPowerAt = command, v.Now.Add(-time.Millisecond)
		}
		if command == CommandShutDown && v.BMC.FirstShutDownAt.IsZero() {
			v.BMC.FirstShutDownAt = v.Now
		}
		if step.Action == Inspect {
			v.BMC.Inspected, v.BMC.InspectedTime, v.BMC.Power = true, v.Now, v1alpha1.PowerOn
		}
		v.BMC.PowerAt = v.Now
	}
	return jobs
}
