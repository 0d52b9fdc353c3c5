package lifecycle

import (
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// nextWaiting are claimed hosts whose boot has not begun.
var nextWaiting = map[string]nextCase{
	"a claimed host waits with its deletion": {
		claimedView(func(v *View) { v.Deleting = true }), StateWaiting, Nothing, v1alpha1.PhaseClaimed, v1alpha1.ReasonDeleting,
	},
	"a claimed host whose Machine is about to go": {
		claimedView(ownerDeleting), StateWaiting, Nothing, v1alpha1.PhaseClaimed, v1alpha1.ReasonDeleting,
	},
	"no bootstrap data":                  {claimedView(func(v *View) { v.Consumer.BootstrapReady = false }), StateWaiting, Nothing, v1alpha1.PhaseClaimed, v1alpha1.ReasonWaitingForBootstrapData},
	"claimed, BMC down":                  {claimedView(bmcDown), StateWaiting, Nothing, v1alpha1.PhaseClaimed, v1alpha1.ReasonWaitingForBMC},
	"claimed, never inspected":           {claimedView(func(v *View) { v.BMC = BMC{} }), StateWaiting, Inspect, v1alpha1.PhaseClaimed, v1alpha1.ReasonPreparing},
	"claimed, MAC conflict":              {claimedView(func(v *View) { v.MACTakenBy = "host-2" }), StateWaiting, Nothing, v1alpha1.PhaseClaimed, v1alpha1.ReasonMACConflict},
	"claimed, BMC conflict":              {claimedView(func(v *View) { v.BMCTakenBy = "host-2" }), StateWaiting, Nothing, v1alpha1.PhaseClaimed, v1alpha1.ReasonWaitingForBMC},
	"a boot begins":                      {claimedView(), StateWaiting, RecordBoot, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing},
	"in line":                            {claimedView(queued), StateWaiting, Nothing, v1alpha1.PhaseClaimed, v1alpha1.ReasonWaitingForBootSlot},
	"in line while polled":               {claimedView(queued, stale), StateWaiting, ReadPower, v1alpha1.PhaseClaimed, v1alpha1.ReasonWaitingForBootSlot},
	"in line, asked lately":              {claimedView(queued, func(v *View) { v.BMC.PowerAt = noon.Add(-time.Minute) }), StateWaiting, Nothing, v1alpha1.PhaseClaimed, v1alpha1.ReasonWaitingForBootSlot},
	"in line, found running":             {claimedView(queued, poweredOn), StateWaiting, Nothing, v1alpha1.PhaseClaimed, v1alpha1.ReasonPoweredOn},
	"never booted, and no record yet":    {claimedView(noRecord), StateWaiting, RecordBoot, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing},
	"claimed, inspected yesterday":       {claimedView(inspected(24 * time.Hour)), StateWaiting, RecordBoot, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing},
	"claimed, incapable ten minutes ago": {claimedView(lacking, inspected(10*time.Minute)), StateWaiting, Inspect, v1alpha1.PhaseClaimed, v1alpha1.ReasonCapabilityMissing},
	"claimed, and runs although nobody started it, polled": {
		claimedView(poweredOn, stale), StateWaiting, ReadPower, v1alpha1.PhaseClaimed, v1alpha1.ReasonPoweredOn,
	},
	"claimed, and the BMC cannot boot it": {
		claimedView(lacking), StateWaiting, Nothing, v1alpha1.PhaseClaimed, v1alpha1.ReasonCapabilityMissing,
	},
	"claimed, and runs although nobody started it": {
		claimedView(poweredOn), StateWaiting, Nothing, v1alpha1.PhaseClaimed, v1alpha1.ReasonPoweredOn,
	},
	"claimed, and runs as it should while free": {
		claimedView(poweredOn, func(v *View) { v.Spec.Power = v1alpha1.PowerOn }), StateWaiting, RecordBoot, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing,
	},
	"claimed, and the machine was served elsewhere": {
		claimedView(func(v *View) { v.ServedBy = "host-2" }), StateWaiting, Nothing, v1alpha1.PhaseClaimed, v1alpha1.ReasonConsumerConflict,
	},
	"claimed with another host": {
		claimedView(func(v *View) { v.SharesConsumerWith = []string{"host-2"} }), StateWaiting, Nothing, v1alpha1.PhaseClaimed, v1alpha1.ReasonConsumerConflict,
	},
}
