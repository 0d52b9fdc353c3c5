package lifecycle

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// nextRunning are hosts that run their machine, or ran it.
var nextRunning = map[string]nextCase{
	"quarantined and claimed runs":     {claimedView(quarantined, provisioned, poweredOn), StateProvisioned, Nothing, v1alpha1.PhaseProvisioned, ""},
	"the record is missing, installed": {bootingView(noRecord, moveFree, provisioned, poweredOn), StateProvisioned, Nothing, v1alpha1.PhaseProvisioned, ""},
	"reported in, and no move waits":   {bootingView(poweredOn, func(v *View) { v.Host.Boot.ReportedTime = &metav1.Time{Time: noon} }), StateReportedIn, Nothing, v1alpha1.PhaseBooting, v1alpha1.ReasonWaitingForMachine},
	"reported in":                      {bootingView(poweredOn, func(v *View) { v.Host.MoveBlocked, v.Host.Boot.ReportedTime = false, &metav1.Time{Time: noon} }), StateReportedIn, Nothing, v1alpha1.PhaseBooting, v1alpha1.ReasonWaitingForMachine},
	"provisioned":                      {claimedView(provisioned, poweredOn), StateProvisioned, Nothing, v1alpha1.PhaseProvisioned, ""},
	"provisioned, and no move waits":   {bootingView(provisioned, poweredOn), StateProvisioned, Nothing, v1alpha1.PhaseProvisioned, ""},
	"provisioned, everything unknown":  {claimedView(provisioned, func(v *View) { v.BMC = BMC{} }), StateProvisioned, Inspect, v1alpha1.PhaseProvisioned, ""},
	"provisioned, installed and off":   {claimedView(provisioned), StateProvisioned, Nothing, v1alpha1.PhaseProvisioned, v1alpha1.ReasonPowerUnconfirmed},
	"state lost":                       {claimedView(provisioned, ephemeral), StateLost, RecordBoot, v1alpha1.PhaseStateLost, v1alpha1.ReasonStateLost},
	"off only just now":                {claimedView(provisioned, ephemeral, func(v *View) { v.BMC.PowerSince = v.BMC.PowerAt }), StateProvisioned, Nothing, v1alpha1.PhaseProvisioned, ""},
	"state lost and on again": {
		bootingView(provisioned, ephemeral, poweredOn, func(v *View) { v.Host.Boot.Failure = &v1alpha1.BootFailure{Reason: v1alpha1.ReasonStateLost} }),
		StateLost, Nothing, v1alpha1.PhaseStateLost, v1alpha1.ReasonStateLost,
	},
	"firmware asks, and the Node is well": {
		bootingView(provisioned, ephemeral, poweredOn, reported, restarted), StateProvisioned, Nothing, v1alpha1.PhaseProvisioned, "",
	},
	"firmware asks, and the Node is lost": {
		bootingView(provisioned, ephemeral, poweredOn, reported, restarted, nodeLost), StateLost, RecordBoot, v1alpha1.PhaseStateLost, v1alpha1.ReasonStateLost,
	},
	"firmware of an installed machine asks": {
		bootingView(provisioned, poweredOn, reported, restarted, nodeLost), StateProvisioned, Nothing, v1alpha1.PhaseProvisioned, "",
	},
	"firmware asked as the report came": {
		bootingView(provisioned, ephemeral, poweredOn, reported, nodeLost, func(v *View) { v.Observed.RestartedAt = noon.Add(restartMargin) }),
		StateProvisioned, Nothing, v1alpha1.PhaseProvisioned, "",
	},
	"the Node is lost, and firmware did not ask": {
		bootingView(provisioned, ephemeral, poweredOn, reported, nodeLost), StateProvisioned, Nothing, v1alpha1.PhaseProvisioned, "",
	},
	"not released, force-release":        {claimedView(provisioned, poweredOn, releaseUnfencedRequested), StateProvisioned, DropRequests, v1alpha1.PhaseProvisioned, ""},
	"about to be deleted, force-release": {claimedView(provisioned, poweredOn, releaseUnfencedRequested, func(v *View) { v.Consumer.OwnerDeleting = true }), StateProvisioned, Nothing, v1alpha1.PhaseProvisioned, ""},
	"reported in, an override stands": {
		bootingView(poweredOn, overrideSet, reported), StateReportedIn, ClearBootOverride, v1alpha1.PhaseBooting, v1alpha1.ReasonWaitingForMachine,
	},
	"reported in, an override stands, and the BMC is busy": {
		bootingView(poweredOn, overrideSet, reported, func(v *View) { v.Host.MoveBlocked, v.BMC.Busy = true, true }), StateReportedIn, Nothing,
		v1alpha1.PhaseBooting, v1alpha1.ReasonWaitingForMachine,
	},
	"reported in, an override stands, BMC down": {
		bootingView(poweredOn, overrideSet, reported, bmcDown), StateReportedIn, Nothing, v1alpha1.PhaseBooting, v1alpha1.ReasonWaitingForMachine,
	},
	"provisioned, an override stands":                      {claimedView(provisioned, poweredOn, overrideSet), StateProvisioned, Nothing, v1alpha1.PhaseProvisioned, ""},
	"held, and from memory":                                {claimedView(provisioned, ephemeral, powerHeld, powerHeldOff), StateLost, RecordBoot, v1alpha1.PhaseStateLost, v1alpha1.ReasonStateLost},
	"provisioned, inspected yesterday":                     {claimedView(provisioned, poweredOn, inspected(24*time.Hour)), StateProvisioned, Inspect, v1alpha1.PhaseProvisioned, ""},
	"a user requests a retry of the BMC of a running host": {claimedView(provisioned, poweredOn, retryNow), StateProvisioned, Inspect, v1alpha1.PhaseProvisioned, ""},
}
