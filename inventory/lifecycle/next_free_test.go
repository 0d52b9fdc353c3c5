package lifecycle

import (
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
)

// nextFree are unclaimed hosts.
var nextFree = map[string]nextCase{
	"quarantined, and a move waits": {
		freeView(func(v *View) {
			v.Host.MoveBlocked, v.Host.Spec.Quarantine = true, &v1alpha1.Quarantine{Reason: "Broken"}
		}),
		StateQuarantined, AllowMove, v1alpha1.PhaseQuarantined, v1alpha1.ReasonQuarantined,
	},
	"free, and a move waits":                  {freeView(func(v *View) { v.Host.MoveBlocked = true }), StateFree, AllowMove, v1alpha1.PhaseAvailable, ""},
	"quarantined":                             {freeView(quarantined, poweredOn), StateQuarantined, Nothing, v1alpha1.PhaseQuarantined, v1alpha1.ReasonQuarantined},
	"a new host is inspected":                 {freeView(func(v *View) { v.BMC = BMC{} }), StateFree, Inspect, v1alpha1.PhaseRegistering, v1alpha1.ReasonNotVerified},
	"the BMC is busy":                         {freeView(func(v *View) { v.BMC = BMC{Busy: true} }), StateFree, Nothing, v1alpha1.PhaseRegistering, v1alpha1.ReasonNotVerified},
	"the BMC is down":                         {freeView(bmcDown), StateFree, Nothing, v1alpha1.PhaseRegistering, v1alpha1.ReasonNotVerified},
	"the BMC is tried again":                  {freeView(bmcDown, stale, func(v *View) { v.Now = v.Now.Add(time.Hour) }), StateFree, ReadPower, v1alpha1.PhaseRegistering, v1alpha1.ReasonNotVerified},
	"two hosts have one MAC":                  {freeView(func(v *View) { v.Identity.MACTakenBy = otherHost("host-2") }), StateFree, Nothing, v1alpha1.PhaseRegistering, v1alpha1.ReasonNotVerified},
	"two hosts have one BMC":                  {freeView(func(v *View) { v.Identity.BMCTakenBy = otherHost("host-2") }), StateFree, Nothing, v1alpha1.PhaseRegistering, v1alpha1.ReasonNotVerified},
	"available":                               {freeView(), StateFree, Nothing, v1alpha1.PhaseAvailable, ""},
	"available while polled":                  {freeView(stale), StateFree, ReadPower, v1alpha1.PhaseAvailable, ""},
	"found running":                           {freeView(poweredOn), StateFree, Nothing, v1alpha1.PhaseUnavailable, v1alpha1.ReasonPoweredOn},
	"to be powered off":                       {freeView(poweredOn, func(v *View) { v.Host.Spec.Power = v1alpha1.PowerOff }), StateFree, ShutDown, v1alpha1.PhaseUnavailable, v1alpha1.ReasonPowerChanging},
	"to be powered on":                        {freeView(func(v *View) { v.Host.Spec.Power = v1alpha1.PowerOn }), StateFree, PowerOn, v1alpha1.PhaseUnavailable, v1alpha1.ReasonPowerChanging},
	"free and wanted on":                      {freeView(poweredOn, func(v *View) { v.Host.Spec.Power = v1alpha1.PowerOn }), StateFree, Nothing, v1alpha1.PhaseAvailable, ""},
	"shutting down":                           {freeView(poweredOn, commanded(CommandShutDown, 10*time.Second), func(v *View) { v.Host.Spec.Power = v1alpha1.PowerOff }), StateFree, Nothing, v1alpha1.PhaseUnavailable, v1alpha1.ReasonPowerChanging},
	"does not shut down":                      {freeView(poweredOn, commanded(CommandShutDown, 3*time.Minute), func(v *View) { v.Host.Spec.Power = v1alpha1.PowerOff }), StateFree, ForceOff, v1alpha1.PhaseUnavailable, v1alpha1.ReasonPowerChanging},
	"free without a record":                   {freeView(noRecord), StateFree, RecordBoot, v1alpha1.PhaseRegistering, v1alpha1.ReasonNotVerified},
	"free with an older record":               {freeView(func(v *View) { v.Host.Spec.ProviderState.Boots = 2 }), StateFree, RecordBoot, v1alpha1.PhaseRegistering, v1alpha1.ReasonNotVerified},
	"free, its record is deleted":             {freeView(bootDeleting), StateFree, ForgetBoot, v1alpha1.PhaseRegistering, v1alpha1.ReasonNotVerified},
	"free, and something else keeps its boot": {freeView(bootDeleting, func(v *View) { v.Host.BootHasForeignFinalizer = true }), StateFree, Nothing, v1alpha1.PhaseUnavailable, v1alpha1.ReasonBootUnknown},
	"free, and its boot is deleted while its machine waits": {
		bootingView(unclaimed, moveFree, bootMachinePending, bootDeleting), StateFree, Nothing, v1alpha1.PhaseUnavailable, v1alpha1.ReasonBootUnknown,
	},
	"free, and its boot is deleted without anything to erase": {
		bootingView(unclaimed, moveFree, bootDeleting), StateFree, ForgetBoot, v1alpha1.PhaseRegistering, v1alpha1.ReasonNotVerified,
	},
	"free, and its boot is deleted, and a disk was written": {
		bootingView(unclaimed, moveFree, poweredOn, writtenDisk, bootDeleting), StateFree, Isolate, v1alpha1.PhaseRegistering, v1alpha1.ReasonNotVerified,
	},
	"free, and its boot is deleted, and all disks would be erased": {
		bootingView(unclaimed, moveFree, poweredOn, hostPolicy(purge), bootDeleting), StateFree, Isolate, v1alpha1.PhaseRegistering, v1alpha1.ReasonNotVerified,
	},
	"free, and its boot is deleted, and no disk would be erased": {
		bootingView(unclaimed, moveFree, poweredOn, writtenDisk, hostPolicy(wire.PolicyNone), bootDeleting), StateFree, ForgetBoot, v1alpha1.PhaseRegistering, v1alpha1.ReasonNotVerified,
	},
	"in quarantine for another reason, and its boot is deleted": {
		bootingView(unclaimed, moveFree, poweredOn, writtenDisk, bootDeleting, quarantined), StateQuarantined, Isolate, v1alpha1.PhaseQuarantined, v1alpha1.ReasonQuarantined,
	},
	"isolated, and its boot is deleted": {
		bootingView(unclaimed, moveFree, poweredOn, writtenDisk, bootDeleting, func(v *View) { v.Host.Spec.Quarantine = &v1alpha1.Quarantine{Reason: v1alpha1.ReasonDisksNotErased} }),
		StateQuarantined, ForgetBoot, v1alpha1.PhaseQuarantined, v1alpha1.ReasonQuarantined,
	},
	"free, and a boot is not void":    {bootingView(unclaimed, moveFree), StateFree, Nothing, v1alpha1.PhaseUnavailable, v1alpha1.ReasonBootUnknown},
	"a power cycle of a free host":    {freeView(cycle), StateFree, DropRequests, v1alpha1.PhaseAvailable, ""},
	"held, and free":                  {freeView(forceHeld), StateFree, Nothing, v1alpha1.PhaseAvailable, ""},
	"free, inspected yesterday":       {freeView(inspected(24 * time.Hour)), StateFree, Inspect, v1alpha1.PhaseAvailable, ""},
	"free, incapable ten minutes ago": {freeView(missingCapability, inspected(10*time.Minute)), StateFree, Inspect, v1alpha1.PhaseRegistering, v1alpha1.ReasonNotVerified},
	"the Secret is missing, and a user requests a retry": {
		freeView(noSecret, retryNow), StateFree, Nothing, v1alpha1.PhaseRegistering, v1alpha1.ReasonNotVerified,
	},
	"free, and the BMC cannot boot it": {freeView(missingCapability), StateFree, Nothing, v1alpha1.PhaseRegistering, v1alpha1.ReasonNotVerified},
	"the BMC is down, and a user requests a retry": {
		freeView(bmcDown, retryNow), StateFree, Inspect, v1alpha1.PhaseRegistering, v1alpha1.ReasonNotVerified,
	},
}
