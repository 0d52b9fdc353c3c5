package lifecycle

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// Action is what to do next with a host.
type Action string

// The actions.
const (
	// Nothing waits: for Step.Again, or for a fact to change.
	Nothing Action = "Nothing"
	// Inspect reads the inventory and the power state through the BMC.
	Inspect Action = "Inspect"
	// ReadPower reads the power state through the BMC.
	ReadPower Action = "ReadPower"
	// SetNetworkBoot makes the network the next boot device.
	SetNetworkBoot Action = "SetNetworkBoot"
	// ClearBootOverride takes back a boot override that did its work, where the BMC did not do so itself.
	ClearBootOverride Action = "ClearBootOverride"
	// CleanUp takes back a boot override and ejects virtual media, before the host is given back.
	CleanUp Action = "CleanUp"
	// PowerOn switches the server on.
	PowerOn Action = "PowerOn"
	// ShutDown asks the server's operating system to shut down.
	ShutDown Action = "ShutDown"
	// ForceOff switches the server off.
	ForceOff Action = "ForceOff"
	// RecordBoot writes Step.Boot to the spec of the BareMetalBoot.
	RecordBoot Action = "RecordBoot"
	// CountBoot raises the host's spec.boots to Step.Boot's number, and blocks `clusterctl move` while the boot is in flight.
	CountBoot Action = "CountBoot"
	// ForgetBoot lets a BareMetalBoot go that is being deleted: nobody has its host.
	ForgetBoot Action = "ForgetBoot"
	// RecordHold writes Step.Held to spec.powerHoldSince and spec.powerHoldOffAt.
	RecordHold Action = "RecordHold"
	// RecordCleaning writes Step.CleaningStartedAt to spec.cleaningStartedAt.
	RecordCleaning Action = "RecordCleaning"
	// DropRequests removes the annotations in Step.Drop, which ask for what cannot be done, or is so already.
	DropRequests Action = "DropRequests"
	// AllowMove lets `clusterctl move` go on.
	AllowMove Action = "AllowMove"
	// Release clears spec.consumerRef: the host is powered off and clean, or Step.Quarantine says what is wrong with it.
	Release Action = "Release"
	// Forget lets the host object go, without one request to the BMC.
	Forget Action = "Forget"
)

// Commands is true for the actions that change something at the server or its BMC: power, boot override, virtual media.
func (a Action) Commands() bool {
	return a == SetNetworkBoot || a == ClearBootOverride || a == CleanUp || a == PowerOn || a == ShutDown || a == ForceOff
}

// Step is what to do next with a host, and what to tell people of it.
type Step struct {
	// State is the state that the host was found in.
	State State
	// Action is what to do.
	Action Action
	// Phase summarises where the host stands. Empty leaves the phase as it is.
	Phase v1alpha1.HostPhase
	// Reason and Message say why the host is not further. They are those of the condition Booted for a claimed host and of
	// Available for a free one. Both are empty when there is nothing to wait for.
	Reason, Message string
	// Boot is what RecordBoot writes, and what CountBoot counts.
	Boot *v1alpha1.BareMetalBootSpec
	// Held is what RecordHold writes.
	Held *PowerHoldTimes
	// CleaningStartedAt is what RecordCleaning writes.
	CleaningStartedAt *metav1.Time
	// Quarantine is what Release puts the host into, which tells of the one that it was in already; nil for none.
	Quarantine *v1alpha1.Quarantine
	// Drop are the annotations that the action removes with what else it writes.
	Drop []string
	// Again is when to look again even if nothing happens. The zero time rests until a fact changes.
	Again time.Time
}

// Settings are the times and limits that the lifecycle keeps.
type Settings struct {
	// PollInterval is how old the power state of a host at rest may be.
	PollInterval time.Duration
	// ActiveInterval is how old the power state may be while something is done with the host.
	ActiveInterval time.Duration
	// InspectInterval is how old the inventory of a host at rest may be.
	InspectInterval time.Duration
	// PowerSettle is how long a server may take to obey a power command before it is repeated.
	PowerSettle time.Duration
	// ShutDownTimeout is how long an operating system may take to shut down before the server is switched off.
	ShutDownTimeout time.Duration
	// CleaningTimeout is how long a cleaning may take whose BMC answers.
	CleaningTimeout time.Duration
	// BootTimeout is how long a boot attempt may take.
	BootTimeout time.Duration
	// BootAttempts is how often a boot is tried, as long as no bootstrap data was given out.
	BootAttempts int32
	// BootConcurrency is how many hosts of one failure domain may boot at once; 0 is no limit. The lifecycle is told by View.Line.
	BootConcurrency int
}

// DefaultSettings suit servers that take some minutes to boot.
func DefaultSettings() Settings {
	return Settings{
		PollInterval:    5 * time.Minute,
		ActiveInterval:  5 * time.Second,
		InspectInterval: 24 * time.Hour,
		PowerSettle:     20 * time.Second,
		ShutDownTimeout: 2 * time.Minute,
		CleaningTimeout: 10 * time.Minute,
		BootTimeout:     30 * time.Minute,
		BootAttempts:    3,
		BootConcurrency: 250,
	}
}
