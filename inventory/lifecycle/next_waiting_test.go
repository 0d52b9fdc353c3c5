package lifecycle

import (
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// nextClaimed are claimed hosts whose boot has not begun.
var nextClaimed = map[string]nextCase{
	"a claimed host waits with its deletion": {
		claimedView(func(v *View) { v.Host.Deleting = true }), StateClaimed, Nothing, v1alpha1.PhaseClaimed, v1alpha1.ReasonDeleting,
	},
	"a claimed host whose Machine is about to go": {
		claimedView(ownerDeleting), StateClaimed, Nothing, v1alpha1.PhaseClaimed, v1alpha1.ReasonDeleting,
	},
	"no bootstrap data":                  {claimedView(func(v *View) { v.Consumer.BootstrapReady = false }), StateClaimed, Nothing, v1alpha1.PhaseClaimed, v1alpha1.ReasonWaitingForBootstrapData},
	"claimed, BMC down":                  {claimedView(bmcDown), StateClaimed, Nothing, v1alpha1.PhaseClaimed, v1alpha1.ReasonWaitingForBMC},
	"claimed, never inspected":           {claimedView(func(v *View) { v.BMC = BMC{} }), StateClaimed, Inspect, v1alpha1.PhaseClaimed, v1alpha1.ReasonPreparing},
	"claimed, MAC conflict":              {claimedView(func(v *View) { v.Identity.MACTakenBy = otherHost("host-2") }), StateClaimed, Nothing, v1alpha1.PhaseClaimed, v1alpha1.ReasonMACConflict},
	"claimed, BMC conflict":              {claimedView(func(v *View) { v.Identity.BMCTakenBy = otherHost("host-2") }), StateClaimed, Nothing, v1alpha1.PhaseClaimed, v1alpha1.ReasonWaitingForBMC},
	"a boot begins":                      {claimedView(), StateClaimed, RecordBoot, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing},
	"in line":                            {claimedView(queued), StateClaimed, Nothing, v1alpha1.PhaseClaimed, v1alpha1.ReasonWaitingForBootSlot},
	"in line while polled":               {claimedView(queued, stale), StateClaimed, ReadPower, v1alpha1.PhaseClaimed, v1alpha1.ReasonWaitingForBootSlot},
	"in line, asked lately":              {claimedView(queued, func(v *View) { v.BMC.PowerAt = noon.Add(-time.Minute) }), StateClaimed, Nothing, v1alpha1.PhaseClaimed, v1alpha1.ReasonWaitingForBootSlot},
	"in line, found running":             {claimedView(queued, poweredOn), StateClaimed, Nothing, v1alpha1.PhaseClaimed, v1alpha1.ReasonPoweredOn},
	"never booted, and no record yet":    {claimedView(noRecord), StateClaimed, RecordBoot, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing},
	"claimed, inspected yesterday":       {claimedView(inspected(24 * time.Hour)), StateClaimed, RecordBoot, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing},
	"claimed, incapable ten minutes ago": {claimedView(missingCapability, inspected(10*time.Minute)), StateClaimed, Inspect, v1alpha1.PhaseClaimed, v1alpha1.ReasonCapabilityMissing},
	"claimed, and runs although nobody started it, polled": {
		claimedView(poweredOn, stale), StateClaimed, ReadPower, v1alpha1.PhaseClaimed, v1alpha1.ReasonPoweredOn,
	},
	"claimed, and the BMC cannot boot it": {
		claimedView(missingCapability), StateClaimed, Nothing, v1alpha1.PhaseClaimed, v1alpha1.ReasonCapabilityMissing,
	},
	"claimed, and runs although nobody started it": {
		claimedView(poweredOn), StateClaimed, Nothing, v1alpha1.PhaseClaimed, v1alpha1.ReasonPoweredOn,
	},
	"claimed, and runs as it should while free": {
		claimedView(poweredOn, func(v *View) { v.Host.Spec.Power = v1alpha1.PowerOn }), StateClaimed, RecordBoot, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing,
	},
	"claimed, and the machine was served elsewhere": {
		claimedView(func(v *View) { v.Claims.DataServedOn = "host-2" }), StateClaimed, Nothing, v1alpha1.PhaseClaimed, v1alpha1.ReasonConsumerConflict,
	},
	"claimed with another host": {
		claimedView(func(v *View) { v.Claims.SharesConsumerWith = []string{"host-2"} }), StateClaimed, Nothing, v1alpha1.PhaseClaimed, v1alpha1.ReasonConsumerConflict,
	},
}
