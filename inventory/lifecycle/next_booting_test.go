package lifecycle

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// nextBooting are hosts whose boot is in flight, failed or unknown.
var nextBooting = map[string]nextCase{
	"a boot under way for a Machine that is about to go": {
		bootingView(netbootSet, ownerDeleting), StateBooting, PowerOn, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing,
	},
	"the cluster is paused in mid-boot": {
		bootingView(netbootSet, func(v *View) { v.Consumer.Paused = true }), StateBooting, PowerOn, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing,
	},
	"booting: switch off":         {bootingView(poweredOn, notPoweredOff), StateBooting, ForceOff, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing},
	"booting: being switched off": {bootingView(poweredOn, notPoweredOff, commanded(CommandForceOff, 5*time.Second)), StateBooting, Nothing, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing},
	"booting: is off":             {bootingView(notPoweredOff), StateBooting, RecordBoot, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing},
	"booting: set the override":   {bootingView(), StateBooting, SetNetworkBoot, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing},
	"booting: switch on":          {bootingView(netbootSet), StateBooting, PowerOn, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing},
	"booting: an earlier boot set the override, in the second in which this one began": {
		bootingView(func(v *View) {
			v.BMC.NetworkBootSetAt, v.BMC.NetworkBootNumber = v.Host.Boot.PoweredOffTime.Add(time.Millisecond), 0
		}),
		StateBooting, SetNetworkBoot, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing,
	},
	"booting: clock set back":   {bootingView(clockSetBack), StateBooting, SetNetworkBoot, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing},
	"booting: and override set": {bootingView(clockSetBack, netbootSet), StateBooting, PowerOn, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing},
	"booting: an earlier boot set the override, before the clock was set back": {
		bootingView(func(v *View) { v.BMC.NetworkBootSetAt = noon.Add(time.Hour) }), StateBooting, SetNetworkBoot, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing,
	},
	"booting: seen, and off again": {
		bootingView(netbootSet, commanded(CommandPowerOn, 5*time.Second), func(v *View) {
			v.BMC.PowerAt, v.BMC.PowerSince = noon.Add(-time.Second), noon.Add(-time.Hour)
			v.Observed.Furthest = v1alpha1.ObservedStage{Stage: v1alpha1.StageDHCP, Time: metav1.NewTime(noon.Add(-3 * time.Second))}
		}),
		StateBooting, SetNetworkBoot, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing,
	},
	"booting: seen in the second in which the override was set, and off again": {
		bootingView(commanded(CommandPowerOn, 5*time.Second), func(v *View) {
			v.BMC.NetworkBootSetAt, v.BMC.PowerSince = noon.Add(-5500*time.Millisecond), noon.Add(-time.Hour)
			v.Observed.Furthest = v1alpha1.ObservedStage{Stage: v1alpha1.StageDHCP, Time: metav1.NewTime(noon.Add(-6 * time.Second))}
		}),
		StateBooting, SetNetworkBoot, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing,
	},
	"booting: seen in the second before the power was read, and the power-on is due again": {
		bootingView(netbootSet, commanded(CommandPowerOn, DefaultSettings().PowerSettle), func(v *View) {
			v.BMC.NetworkBootSetAt = noon.Add(-DefaultSettings().PowerSettle - time.Second)
			v.BMC.PowerSince = noon.Add(-time.Hour)
			v.Observed.Furthest = v1alpha1.ObservedStage{Stage: v1alpha1.StageDHCP, Time: metav1.NewTime(noon.Add(-time.Second))}
		}),
		StateBooting, SetNetworkBoot, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing,
	},
	"booting: seen since it was read as off": {
		bootingView(netbootSet, commanded(CommandPowerOn, 5*time.Second), func(v *View) {
			v.BMC.PowerAt, v.BMC.PowerSince = noon.Add(-2*time.Second), noon.Add(-time.Hour)
			v.Observed.Furthest = v1alpha1.ObservedStage{Stage: v1alpha1.StageDHCP, Time: metav1.NewTime(noon.Add(-3 * time.Second))}
		}),
		StateBooting, Nothing, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing,
	},
	"booting: power read after it": {bootingView(netbootSet, commanded(CommandPowerOn, 0)), StateBooting, ReadPower, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing},
	"booting: being switched on":   {bootingView(netbootSet, commanded(CommandPowerOn, 5*time.Second)), StateBooting, Nothing, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing},
	"booting: does not switch on":  {bootingView(netbootSet, commanded(CommandPowerOn, 25*time.Second)), StateBooting, PowerOn, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing},
	"booting: went off without a command": {
		bootingView(commanded(CommandPowerOn, 40*time.Second), func(v *View) { v.BMC.NetworkBootSetAt = noon.Add(-50 * time.Second) }, justOff),
		StateBooting, SetNetworkBoot, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing,
	},
	"booting: never came on": {
		bootingView(commanded(CommandPowerOn, 40*time.Second), func(v *View) { v.BMC.NetworkBootSetAt = noon.Add(-50 * time.Second) }),
		StateBooting, PowerOn, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing,
	},
	"booting: after a restart":   {bootingView(poweredOn), StateBooting, Nothing, v1alpha1.PhaseBooting, v1alpha1.ReasonWaitingForDHCP},
	"booting: DHCP":              {bootingView(poweredOn, func(v *View) { v.Observed.Furthest.Stage = v1alpha1.StageDHCP }), StateBooting, Nothing, v1alpha1.PhaseBooting, v1alpha1.ReasonWaitingForLoader},
	"booting: loader":            {bootingView(poweredOn, func(v *View) { v.Observed.Furthest.Stage = v1alpha1.StageLoader }), StateBooting, Nothing, v1alpha1.PhaseBooting, v1alpha1.ReasonWaitingForScript},
	"booting: script":            {bootingView(poweredOn, func(v *View) { v.Observed.Furthest.Stage = v1alpha1.StageScript }), StateBooting, Nothing, v1alpha1.PhaseBooting, v1alpha1.ReasonWaitingForKernel},
	"booting: kernel":            {bootingView(poweredOn, func(v *View) { v.Observed.Furthest.Stage = v1alpha1.StageKernel }), StateBooting, Nothing, v1alpha1.PhaseBooting, v1alpha1.ReasonWaitingForData},
	"booting: seed, status lost": {bootingView(poweredOn, seeded), StateBooting, Nothing, v1alpha1.PhaseBooting, v1alpha1.ReasonWaitingForReport},
	"booting: wrong kernel": {bootingView(poweredOn, func(v *View) {
		v.Observed.Problem = &v1alpha1.BootFailure{Reason: v1alpha1.ReasonChecksumMismatch, Message: "x"}
	}), StateBooting, Nothing, v1alpha1.PhaseBooting, v1alpha1.ReasonChecksumMismatch},
	"booting: BMC down":                    {bootingView(bmcDown), StateBooting, Nothing, v1alpha1.PhaseBooting, v1alpha1.ReasonWaitingForBMC},
	"booting: late":                        {bootingView(poweredOn, expired), StateBooting, RecordBoot, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing},
	"booting: late and in line":            {bootingView(poweredOn, expired, queued, func(v *View) { v.Host.MoveBlocked = false }), StateBooting, Nothing, v1alpha1.PhaseBooting, v1alpha1.ReasonWaitingForBootSlot},
	"booting: late, in line and blocking":  {bootingView(poweredOn, expired, queued), StateBooting, Nothing, v1alpha1.PhaseBooting, v1alpha1.ReasonWaitingForBootSlot},
	"booting: late, last attempt":          {bootingView(poweredOn, expired, func(v *View) { v.Host.Boot.Attempt = 3 }), StateBooting, RecordBoot, v1alpha1.PhaseBootFailed, v1alpha1.ReasonBootTimedOut},
	"the record is missing":                {bootingView(noRecord), StateBootUnknown, Nothing, v1alpha1.PhaseBootUnknown, v1alpha1.ReasonBootUnknown},
	"the record is missing, no move waits": {bootingView(noRecord, moveFree), StateBootUnknown, Nothing, v1alpha1.PhaseBootUnknown, v1alpha1.ReasonBootUnknown},
	"the record is older than the host":    {bootingView(oldRecord, moveFree), StateBootUnknown, Nothing, v1alpha1.PhaseBootUnknown, v1alpha1.ReasonBootUnknown},
	"the record is another claim's":        {bootingView(recordOfOtherClaim, moveFree), StateBootUnknown, Nothing, v1alpha1.PhaseBootUnknown, v1alpha1.ReasonBootUnknown},
	"the record is void":                   {bootingView(voided, moveFree), StateBootUnknown, Nothing, v1alpha1.PhaseBootUnknown, v1alpha1.ReasonBootUnknown},
	"the claim has no ID":                  {claimedView(noClaimID), StateBootUnknown, Nothing, v1alpha1.PhaseBootUnknown, v1alpha1.ReasonBootUnknown},
	"the record is missing, from memory":   {bootingView(noRecord, moveFree, provisioned, ephemeral), StateBootUnknown, Nothing, v1alpha1.PhaseBootUnknown, v1alpha1.ReasonBootUnknown},
	"a boot that does not count yet":       {bootingView(uncounted, moveFree), StateBooting, CountBoot, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing},
	"not recorded that it is powered on":   {bootingView(netbootSet, notPoweredOn), StateBooting, RecordBoot, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing},
	"somebody powered it on":               {bootingView(poweredOn, notPoweredOn), StateBooting, RecordBoot, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing},
	"network boot set in the second of the last release": {
		bootingView(func(v *View) {
			v.BMC.NetworkBootSetAt, v.BMC.CleanedAt = v.Host.Boot.PoweredOffTime.Time, v.Host.Boot.PoweredOffTime.Add(time.Millisecond)
		}), StateBooting, SetNetworkBoot, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing,
	},
	"booting: it can never be served": {
		bootingView(poweredOn, func(v *View) {
			v.Observed.Problem = &v1alpha1.BootFailure{Reason: v1alpha1.ReasonBootSourceInvalid, Message: "m"}
		}),
		StateBooting, RecordBoot, v1alpha1.PhaseBootFailed, v1alpha1.ReasonBootSourceInvalid,
	},
	"booting: late, and the next attempt may fetch the file": {
		bootingView(poweredOn, expired, func(v *View) {
			v.Observed.Problem = &v1alpha1.BootFailure{Reason: v1alpha1.ReasonArtifactUnavailable, Message: "m"}
		}),
		StateBooting, RecordBoot, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing,
	},
	"booting: late after the seed": {bootingView(poweredOn, expired, seeded), StateBooting, RecordBoot, v1alpha1.PhaseBootFailed, v1alpha1.ReasonBootTimedOut},
	"booting: read as off before the seed": {
		bootingView(ephemeral, func(v *View) { v.Host.Boot.DataServedTime = &metav1.Time{Time: noon.Add(-3 * time.Second)} }), StateBooting, Nothing, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing,
	},
	"booting: off after the seed": {bootingView(ephemeral, seededLongAgo), StateBooting, RecordBoot, v1alpha1.PhaseBootFailed, v1alpha1.ReasonStateLost},
	"booting: installed and off":  {bootingView(seeded), StateBooting, PowerOn, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing},
	"boot failed, no move waits":  {bootingView(poweredOn, func(v *View) { v.Host.Boot.Failure = &v1alpha1.BootFailure{Reason: "R"} }), StateBootFailed, Nothing, v1alpha1.PhaseBootFailed, "R"},
	"boot failed":                 {bootingView(poweredOn, func(v *View) { v.Host.MoveBlocked, v.Host.Boot.Failure = false, &v1alpha1.BootFailure{Reason: "R"} }), StateBootFailed, Nothing, v1alpha1.PhaseBootFailed, "R"},
	"firmware asks before the report": {
		bootingView(ephemeral, poweredOn, seeded, restarted, nodeLost), StateBooting, Nothing, v1alpha1.PhaseBooting, v1alpha1.ReasonWaitingForReport,
	},
	"booting: an override that stands": {
		bootingView(poweredOn, overrideSet), StateBooting, Nothing, v1alpha1.PhaseBooting, v1alpha1.ReasonWaitingForDHCP,
	},
	"booting: an override that did its work": {
		bootingView(poweredOn, overrideSet, scriptSeen), StateBooting, ClearBootOverride, v1alpha1.PhaseBooting, v1alpha1.ReasonWaitingForKernel,
	},
	"booting: an override that is gone": {
		bootingView(poweredOn, scriptSeen), StateBooting, Nothing, v1alpha1.PhaseBooting, v1alpha1.ReasonWaitingForKernel,
	},
	"booting: an override that did its work, status lost": {
		bootingView(poweredOn, overrideSet, seeded), StateBooting, ClearBootOverride, v1alpha1.PhaseBooting, v1alpha1.ReasonWaitingForReport,
	},
	"held, and booting":                      {bootingView(forceHeld, netbootSet), StateBooting, PowerOn, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing},
	"booting, inspected yesterday":           {bootingView(inspected(24 * time.Hour)), StateBooting, SetNetworkBoot, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing},
	"booting: off after the seed, read once": {bootingView(ephemeral, seeded, justOff), StateBooting, Nothing, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing},
	"booting: the next attempt waits for the end of a pause": {
		bootingView(expired, func(v *View) { v.Consumer.Paused, v.Host.MoveBlocked = true, false }), StateBooting, Nothing, v1alpha1.PhaseBooting, v1alpha1.ReasonPaused,
	},
	"booting: a move does not wait for the next attempt": {
		bootingView(expired, func(v *View) { v.Host.Paused, v.Host.MoveBlocked = true, true }), StateBooting, AllowMove, v1alpha1.PhaseBooting, v1alpha1.ReasonPaused,
	},
}
