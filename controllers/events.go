package controllers

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Reasons of the events of a host, its machine and the boot server, in the order in which they usually occur. docs/reference/events.md lists them. The component that
// decides records the event once the decision is written, or once the BMC accepted the command. So a restart repeats no event.
const (
	EventRegistered = "Registered"

	EventBootStarted = "BootStarted"
	EventForceOff    = "ForceOff"
	// EventBootStage is a prefix of the name of a BootStage that is a failure, as in BootRestarted. The status of the boot shows the other stages.
	EventBootStage     = "Boot"
	EventServed        = "BootstrapDataServed"
	EventRefused       = "BootRequestRefused"
	EventBootNotServed = "BootNotServed"
	EventBootFailed    = "BootFailed"
	EventImageReady    = "ImageReady"
	EventImageProblem  = "ImageProblem"
	EventServerUnknown = "ServerUnknown"
	EventAgentDone     = "AgentDone"
	EventProvisioned   = "Provisioned"

	EventInspectionStarted       = "InspectionStarted"
	EventRequestedErasureStarted = "RequestedErasureStarted"
	EventRequestedErasureDone    = "RequestedErasureDone"
	EventErasureRequestExpired   = "ErasureRequestExpired"
	EventSettingsRunStarted      = "SettingsRunStarted"
	EventSettingsRestart         = "SettingsRestart"
	EventSettingsApplied         = "SettingsApplied"
	EventSettingsRefused         = "SettingsRefused"
	EventSettingsWithdrawn       = "SettingsWithdrawn"
	EventSettingsFailed          = "SettingsFailed"
	EventSettingsRunEnded        = "SettingsRunEnded"
	EventSettingsPending         = "SettingsPending"
	EventCleaningInterrupted     = "CleaningInterrupted"
	EventBootOverrideKept        = "BootOverrideKept"
	EventReleased                = "Released"
	EventReleasedUnfenced        = "ReleasedUnfenced"
	EventQuarantined             = "Quarantined"
	EventQuarantineEnded         = "QuarantineEnded"

	EventPowerHoldStarted    = "PowerHoldStarted"
	EventPowerHoldOff        = "PowerHoldOff"
	EventPowerHoldBroken     = "PowerHoldBroken"
	EventPowerHoldEnded      = "PowerHoldEnded"
	EventPowerRestored       = "PowerRestored"
	EventPowerRequestDropped = "PowerRequestDropped"

	EventPreflightWarnings = "PreflightWarnings"
	EventPoweredOff        = "PoweredOff"
	EventOutagePowerOn     = "OutagePowerOn"
	EventPowerReturned     = "PowerReturned"
	EventPowerDisputed     = "PowerDisputed"
	EventPowerUnconfirmed  = "PowerUnconfirmed"
	EventHardwareUnhealthy = "HardwareUnhealthy"
	EventHardwareHealthy   = "HardwareHealthy"
	EventBMCLogEntry       = "BMCLogEntry"
	EventBMCLogCleared     = "BMCLogCleared"
	EventBMCLogFull        = "BMCLogFull"

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

	// EventBootAddressMissing is about the Pod of a boot server.
	EventBootAddressMissing = "BootAddressMissing"
)

// maxEventNote is the maximum length of an event's note that the API server accepts.
const maxEventNote = 1024

// RecordEvent records an event about an object; with, if not nil, is the related object. A nil recorder records nothing.
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
