package lifecycle

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
)

// Action is what to do next with a host.
type Action string

const (
	// Nothing waits until Step.RequeueAt, or until a fact changes.
	Nothing Action = "Nothing"
	// Inspect reads the inventory and the power state through the BMC.
	Inspect Action = "Inspect"
	// ReadPower reads the power state through the BMC.
	ReadPower Action = "ReadPower"
	// ReadHealth reads the health and the power state through the BMC.
	ReadHealth Action = "ReadHealth"
	// SetNetworkBoot makes the network, or a boot medium, the next boot device, as the method of the boot says. The server is off.
	SetNetworkBoot Action = "SetNetworkBoot"
	// EjectMedia ejects a boot medium that the server needs no more.
	EjectMedia Action = "EjectMedia"
	// ClearBootOverride clears a boot override that took effect, if the BMC did not clear it.
	ClearBootOverride Action = "ClearBootOverride"
	// CleanUp clears the boot override and ejects virtual media, before the host is released.
	CleanUp Action = "CleanUp"
	// ReadSettings reads the firmware settings through the BMC, and compares them with the profile and with the open run.
	ReadSettings Action = "ReadSettings"
	// StageSettings gives the BMC the changes of the open run, for the next restart of the server, and reads the settings again.
	StageSettings Action = "StageSettings"
	// ClearSettings removes what is staged at the BMC, and reads the settings again.
	ClearSettings Action = "ClearSettings"
	// PowerOn switches the server on.
	PowerOn Action = "PowerOn"
	// ShutDown asks the server's operating system to shut down.
	ShutDown Action = "ShutDown"
	// ForceOff switches the server off.
	ForceOff Action = "ForceOff"
	// RecordBoot writes Step.Boot to the spec of the BareMetalBoot.
	RecordBoot Action = "RecordBoot"
	// CountBoot raises the host's spec.providerState.boots to Step.Boot's number, and blocks `clusterctl move` while the boot is in flight.
	CountBoot Action = "CountBoot"
	// RecordSettings writes Step.Settings to the spec of the BareMetalSettings.
	RecordSettings Action = "RecordSettings"
	// CountSettings raises the host's spec.providerState.settingsRuns to the number of Step.Settings. The run is open from then on.
	CountSettings Action = "CountSettings"
	// EndSettings raises the host's spec.providerState.settingsRunsEnded to settingsRuns.
	EndSettings Action = "EndSettings"
	// ForgetBoot removes the provider's finalizer from a BareMetalBoot that is being deleted, and whose host is unclaimed.
	ForgetBoot Action = "ForgetBoot"
	// RecordPowerHold writes Step.PowerHold to spec.providerState.powerHoldStartTime and spec.providerState.powerHoldOffTime.
	RecordPowerHold Action = "RecordHold"
	// RecordPowerRestore writes Step.PowerRestore to status.powerRestore.
	RecordPowerRestore Action = "RecordPowerRestore"
	// RecordCleaning writes Step.CleaningStartTime to spec.providerState.cleaningStartTime.
	RecordCleaning Action = "RecordCleaning"
	// RecordErasure writes the BareMetalErasure of the erasure in the host's boot. Next is called again with the outcome.
	RecordErasure Action = "RecordErasure"
	// DropRequests removes the annotations in Step.Drop: what they request is impossible, or is already the case.
	DropRequests Action = "DropRequests"
	// AllowMove unblocks `clusterctl move`.
	AllowMove Action = "AllowMove"
	// Release clears spec.consumerRef: the host is powered off and clean, or Step.Quarantine says what is wrong with it. A host that something else
	// runs is released as it is.
	Release Action = "Release"
	// Isolate puts the host into Step.Quarantine.
	Isolate Action = "Isolate"
	// Forget removes the finalizer of the host object, without a request to the BMC.
	Forget Action = "Forget"
)

// Commands is true for the actions that change something at the server or its BMC: power, boot override, virtual media, firmware settings.
func (a Action) Commands() bool {
	return a == SetNetworkBoot || a == EjectMedia || a == ClearBootOverride || a == CleanUp || a == PowerOn || a == ShutDown || a == ForceOff ||
		a == StageSettings || a == ClearSettings
}

// Step is what to do next with a host, and what to report about it.
type Step struct {
	// State is the state of the host.
	State State
	// Action is what to do.
	Action Action
	// Phase is the host's new phase. Empty keeps the phase.
	Phase v1alpha1.HostPhase
	// Reason and Message say what the host waits for. They are those of the condition Booted for a claimed host and of Available for an unclaimed
	// one. Both are empty when the host waits for nothing.
	Reason, Message string
	// PoweredOffTime is since when the server of a machine on disk is off although the provider did not power it off; zero if it is not.
	PoweredOffTime time.Time
	// Boot is what RecordBoot writes, and what CountBoot counts.
	Boot *v1alpha1.BareMetalBootSpec
	// Settings is what RecordSettings writes, and what CountSettings counts.
	Settings *v1alpha1.BareMetalSettingsSpec
	// PowerHold is what RecordPowerHold writes.
	PowerHold *PowerHoldTimes
	// PowerRestore is what RecordPowerRestore writes.
	PowerRestore *v1alpha1.PowerRestore
	// CleaningStartTime is what RecordCleaning writes.
	CleaningStartTime *metav1.Time
	// Quarantine is the quarantine that Release or Isolate puts the host into, unless the host has one already; nil for none.
	Quarantine *v1alpha1.Quarantine
	// Drop are the annotations that the action removes in the same write.
	Drop []string
	// RequeueAt is when to reconcile again even if nothing happens. The zero time waits until a fact changes.
	RequeueAt time.Time
}

// Settings are the times and limits that the lifecycle keeps.
type Settings struct {
	// PollInterval is the maximum age of the power state of an idle host.
	PollInterval time.Duration
	// ActiveInterval is the maximum age of the power state while the provider works on the host.
	ActiveInterval time.Duration
	// InspectInterval is the maximum age of the inventory of an idle host.
	InspectInterval time.Duration
	// HealthInterval is how often the health of an idle host is read, at least every interval that View.Provider.Hosts allows. 0, the default, reads it with the inventory only; the
	// flag has DefaultHealthInterval.
	HealthInterval time.Duration
	// PowerSettle is how long a power command may take to have an effect before it is repeated.
	PowerSettle time.Duration
	// ShutDownTimeout is how long an operating system may take to shut down before the server is switched off.
	ShutDownTimeout time.Duration
	// CleaningTimeout is how long a cleaning may take while the BMC answers.
	CleaningTimeout time.Duration
	// BootTimeout is how long a boot attempt may take.
	BootTimeout time.Duration
	// MethodTimeout is how long after the power-on the request may take that is expected of a boot method, while another method is left. 0 is BootTimeout.
	MethodTimeout time.Duration
	// AgentTimeout is how much longer an attempt may take while its agent makes progress.
	AgentTimeout time.Duration
	// EraseTimeout is how long an attempt to erase disks may take while its agent makes progress. An agent that makes none has BootTimeout.
	EraseTimeout time.Duration
	// MinimumCleaningPolicy is the policy that each host has at least; empty or None for no minimum. A host with the policy Manual keeps it.
	MinimumCleaningPolicy wire.ErasePolicy
	// BootAttempts is the maximum number of attempts of a boot, or the number of its methods if that is more. There is no further attempt once the bootstrap data was served.
	BootAttempts int32
	// BootConcurrency is the maximum number of hosts of one failure domain that boot at once; 0 is no limit. View.QueuePosition applies it.
	BootConcurrency int
}

// DefaultSettings returns settings for servers that take some minutes to boot.
func DefaultSettings() Settings {
	return Settings{
		PollInterval:    5 * time.Minute,
		ActiveInterval:  5 * time.Second,
		InspectInterval: 24 * time.Hour,
		PowerSettle:     20 * time.Second,
		ShutDownTimeout: 2 * time.Minute,
		CleaningTimeout: 10 * time.Minute,
		BootTimeout:     30 * time.Minute,
		MethodTimeout:   10 * time.Minute,
		AgentTimeout:    4 * time.Hour,
		EraseTimeout:    24 * time.Hour,
		BootAttempts:    3,
		BootConcurrency: 250,
	}
}
