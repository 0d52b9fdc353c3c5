package controllers

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The reasons of the events that tell the life of a host, and of its machine, in the order in which they happen. docs/monitoring.md lists them.
// Each is told by whoever made the decision, at the moment when it was written down or the BMC took it: so a restart repeats none.
const (
	EventRegistered = "Registered"
	EventClaimed    = "Claimed"

	EventBootStarted = "BootStarted"
	EventPowerOn     = "PowerOn"
	EventShutDown    = "ShutDown"
	EventForceOff    = "ForceOff"
	// EventBootStage is followed by the name of the stage: BootDHCP, BootLoader, BootWaiting, BootScript, BootKernel, BootReportedIn, BootNode. That of the
	// bootstrap data is EventServed.
	EventBootStage     = "Boot"
	EventServed        = "BootstrapDataServed"
	EventRefused       = "BootRequestRefused"
	EventBootNotServed = "BootNotServed"
	EventBootFailed    = "BootFailed"
	EventProvisioned   = "Provisioned"

	EventReleaseStarted      = "ReleaseStarted"
	EventCleaningStarted     = "CleaningStarted"
	EventCleaningInterrupted = "CleaningInterrupted"
	EventCleaned             = "Cleaned"
	EventReleased            = "Released"
	EventReleasedUnfenced    = "ReleasedUnfenced"
	EventQuarantined         = "Quarantined"
	EventQuarantineEnded     = "QuarantineEnded"

	EventPowerHoldStarted         = "PowerHoldStarted"
	EventPowerHoldOff             = "PowerHoldOff"
	EventPowerHoldBroken          = "PowerHoldBroken"
	EventPowerHoldEnded           = "PowerHoldEnded"
	EventPowerRestored       = "PowerRestored"
	EventPowerRequestDropped = "PowerRequestDropped"

	EventDetached           = "Detached"
	EventReattached         = "Reattached"
	EventMaintenanceStarted = "MaintenanceStarted"
	EventMaintenanceEnded   = "MaintenanceEnded"
	EventOrphaned           = "Orphaned"
	EventBootUnknown        = "BootUnknown"
	EventBMCNotReady        = "BMCNotReady"
	EventBMCReady           = "BMCReady"
	EventBMCAsked           = "BMCAsked"

	EventNoHostFits   = "NoHostFits"
	EventHostLost     = "HostLost"
	EventNodeMismatch = "NodeMismatch"
)

// maxEventNote is how long the API server lets an event's note be.
const maxEventNote = 1024

// RecordEvent records an event about an object, in which another may have a part. A nil recorder takes none.
func RecordEvent(to events.EventRecorder, about, with client.Object, kind, reason, action, note string, args ...any) {
	if to == nil {
		return
	}
	var related runtime.Object
	if with != nil {
		related = with
	}
	to.Eventf(about, related, kind, reason, action, "%s", Clip(fmt.Sprintf(note, args...), maxEventNote))
}
