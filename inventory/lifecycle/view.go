// Package lifecycle decides what to do with a host. It is pure: Next takes what was observed and returns the next step,
// BootFor takes the same and returns what the host must boot now. The host controller performs the step, and the boot server
// serves the boot; neither decides anything.
package lifecycle

import (
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory"
)

// View is everything that is known of a host at one moment.
type View struct {
	// Now is the moment.
	Now time.Time
	// Namespace and Name are the host's.
	Namespace, Name string
	// Spec is the host's spec: who has it, and what people want of it.
	Spec v1alpha1.BareMetalHostSpec
	// Boot is the record of the host's last boot; nil when there is none.
	Boot *v1alpha1.BareMetalBootSpec
	// BootDeleting is true when the object that holds the record is being deleted. The record holds as long as the object is there.
	BootDeleting bool
	// BootHeld is true when that object is kept by a finalizer of something else, and no more by the provider's.
	BootHeld bool
	// Deleting is true when the host object is being deleted.
	Deleting bool
	// DeletedForMove is true when `clusterctl move` deletes the host object: the host lives on in another cluster.
	DeletedForMove bool
	// NamespaceDeleting is true when the host's namespace is being deleted with all that is in it. It is looked up only for a host that is
	// being deleted while a machine has it, or while it boots.
	NamespaceDeleting bool
	// Detached says who wants the hands off the host, and why; empty when nobody does.
	Detached string
	// ReleaseUnfenced says who wants the host let go without a power-off, and why; empty when nobody does.
	ReleaseUnfenced string
	// PowerRequests are what people want of the server's power, by annotations.
	PowerRequests PowerRequests
	// RunsProvider is true when the provider runs on the host's server: the process that asks.
	RunsProvider bool
	// PowerOffProvider says who wants that server powered off all the same where that is to be done, and why; empty when nobody does.
	PowerOffProvider string
	// Paused is true when the host itself is paused.
	Paused bool
	// RetryNow is true when a person wants the BMC to be asked now, whatever happened before.
	RetryNow bool
	// MoveBlocked is true when the host keeps `clusterctl move` waiting.
	MoveBlocked bool
	// NotPermitted says why the configuration of the provider does not permit the host its MAC address or its BMC; empty where it does.
	NotPermitted string
	// Identity is what identifies the server, which a boot records.
	Identity v1alpha1.HostIdentity
	// MACTakenBy, BMCTakenBy and HardwareTakenBy name the other hosts that keep the host's boot MAC address, its BMC, or the system UUID and serial number
	// that its BMC reports. Each is empty for a host that has its own.
	MACTakenBy, BMCTakenBy, HardwareTakenBy string
	// Replaced says that the BMC reports another server than the inventory has, and how a person confirms that; empty when it does not.
	Replaced string
	// SharesConsumerWith names the other hosts that the same machine has. There are none, unless someone wrote it by hand.
	SharesConsumerWith []string
	// SaidToRun names the machine whose provider ID says that it runs on this host, although nobody has the host; empty without one.
	SaidToRun string
	// BootMachineWaits is true when the machine that the last boot was for, in which the bootstrap data was served, is there, was not provisioned, and is not
	// being deleted: with another host it would be given the same bootstrap data again. So that boot is kept, and is not declared void.
	BootMachineWaits bool
	// ServedBy names another host in whose boot the bootstrap data of this one's machine was served; empty without one.
	ServedBy string
	// Consumer is the machine that spec.consumerRef names; nil without one.
	Consumer *Consumer
	// BMC is what is known through the BMC.
	BMC BMC
	// Furthest is the last stage that was observed of the boot. Its stage is empty when none was.
	Furthest v1alpha1.ObservedStage
	// WaitedAt is when the server last waited in the queue of its network, in this boot and before it had its script; zero if it did not.
	WaitedAt time.Time
	// RestartedAt is when firmware last asked for a network boot although the attempt's bootstrap data had been given out and the
	// machine runs from memory; zero if it did not.
	RestartedAt time.Time
	// NodeLostAt is when the server's Node was seen to be lost with that; zero if it was not.
	NodeLostAt time.Time
	// Node is the Node that the server runs, as it was observed in the boot; nil without one. Nothing is decided by it.
	Node *v1alpha1.ObservedNode
	// Problem is what keeps the boot server from serving the boot.
	Problem *v1alpha1.BootFailure
	// QueuePosition is where the host stands among those that wait to boot; nil when it may begin a boot attempt.
	QueuePosition *QueuePosition
}

// Consumer is what is known of the machine that has a host.
type Consumer struct {
	// Found is false when the BareMetalMachine is not there. Nothing else is known then.
	Found bool
	// Deleting is true when the machine is being deleted: the host shall be released.
	Deleting bool
	// DeletingSince is when it began to be deleted; zero if it is not.
	DeletingSince time.Time
	// DeletedForMove is true when `clusterctl move` deletes the machine: it lives on in another cluster.
	DeletedForMove bool
	// OwnerDeleting is true when the Machine that owns it, or its Cluster, is being deleted: the machine's own deletion follows.
	OwnerDeleting bool
	// ClusterFound is false when the machine's Cluster is not there.
	ClusterFound bool
	// Paused is true when the machine or its Cluster is paused.
	Paused bool
	// ProviderID is the machine's provider ID; empty before it was provisioned.
	ProviderID string
	// BootstrapReady is true when the machine's bootstrap data can be had.
	BootstrapReady bool
	// Persistence says what a reboot of the machine means.
	Persistence v1alpha1.BootPersistence
}

// Command is a power command to a BMC.
type Command string

// The power commands to a BMC.
const (
	CommandPowerOn  Command = "PowerOn"
	CommandShutDown Command = "ShutDown"
	CommandForceOff Command = "ForceOff"
)

// BMC is what is known through a host's BMC, each fact with the time it was observed. All of it is lost when the provider
// restarts, and found again by looking.
type BMC struct {
	// Problem is why the BMC cannot be used; nil when it answered the last request.
	Problem *BMCProblem
	// Busy is true while a request to the BMC is under way. Its end brings the host back to Next.
	Busy bool
	// Inspected is true when the inventory was read, the last time at InspectedAt.
	Inspected   bool
	InspectedAt time.Time
	// Partial is true when time ran out before all of the inventory was read.
	Partial bool
	// Power is the power state that was read last, at PowerAt; it has been the same since PowerSince.
	Power               v1alpha1.PowerState
	PowerAt             time.Time
	PowerSince          time.Time
	PowerNew            bool      // PowerNew is true when nothing was decided with that reading yet.
	LastPower           Command   // LastPower is the last power command that the BMC accepted. "On" counts too when its answer was lost, or an error.
	LastPowerAt         time.Time // LastPowerAt is when it did.
	NetworkBootSetAt    time.Time // NetworkBootSetAt is when the BMC last accepted the network as the next boot device.
	FirstShutDownAt     time.Time // FirstShutDownAt is when the server was first asked to shut down since it was last off, or last owed its power.
	OffUnansweredAt     time.Time // OffUnheardAt is when a command to switch it off was last given whose answer was lost, since the same.
	ShutDownUnsupported bool      // ShutDownUnsupported is true when the BMC cannot shut down gracefully.
	OverrideSet         bool      // OverrideStands is true from when a boot override was set until it was seen, or made, to be gone.
	OverrideNote        string    // OverrideNote says how the override was set, and what is doubtful about it.
	CleanedAt           time.Time // CleanedAt is when the BMC was brought back to what a free host's is, in the cleaning that RecordCleaning began last.
	CleanUpFailures     int       // CleanUpFailures is how often in a row the BMC answered that it cannot be cleaned.
	CleanUpTriedAt      time.Time // CleanUpTriedAt is when it last did.
	CleanUpError        string    // CleanUpError is what it answered.
	Missing             []string  // Lacks are the capabilities that a network boot needs and the BMC does not have.
}

// BMCProblem is why a BMC cannot be used.
type BMCProblem struct {
	// Reason and Message are those of the condition BMCReady.
	Reason, Message string
	// RetryAt is when it is worth another try. The zero time waits for a change, such as of a Secret.
	RetryAt time.Time
}

// providerID returns the provider ID that the consumer has once this host runs it.
func (v View) providerID() string {
	return inventory.ProviderID(v.Namespace, v.Name, v.Spec.ConsumerRef.Name)
}

// Claimed is true when a machine has the host.
func (v View) Claimed() bool { return v.Spec.ConsumerRef != nil }

// Provisioned is true when the host runs its machine. It follows from the machine's provider ID alone, which no move and no
// lost status takes away.
func (v View) Provisioned() bool {
	return v.Claimed() && v.Consumer != nil && v.Consumer.Found && v.Consumer.ProviderID == v.providerID()
}

// Verified is true when the host can be booted: its inventory was read and is that of the same server as before, its BMC can do what that needs, and its MAC
// address and its BMC are its own.
func (v View) Verified() bool {
	return v.BMC.Inspected && len(v.BMC.Missing) == 0 && v.Replaced == "" && !v.doubled()
}

// doubled is true when another host keeps what identifies the server of this one.
func (v View) doubled() bool {
	return v.NotPermitted != "" || v.MACTakenBy != "" || v.BMCTakenBy != "" || v.HardwareTakenBy != ""
}

// bmcBlocked is true while it is no use to ask the BMC. A person may want it asked before its time, but what waits for a change, such as
// of a Secret, nobody can ask.
func (v View) bmcBlocked() bool {
	p := v.BMC.Problem
	return p != nil && (p.RetryAt.IsZero() || !v.RetryNow && v.Now.Before(p.RetryAt))
}

// newsLast is how old a reading of the power may be that nobody looked at yet.
const newsLast = time.Minute

// powerKnown is true when the power was read after the last power command and no longer than maxAge ago. A reading that nobody looked at yet may be
// older: else a provider that has much to do, and looks late, would read again and again and come to nothing.
func (v View) powerKnown(maxAge time.Duration) bool {
	if v.BMC.PowerNew {
		maxAge = max(maxAge, newsLast)
	}
	return v.BMC.Power != "" && v.BMC.PowerAt.After(v.BMC.LastPowerAt) && v.Now.Sub(v.BMC.PowerAt) < maxAge
}

// usable is true when what was read last still tells where the host stands, even if it is old.
func (v View) usable() bool {
	return v.BMC.Problem == nil && v.BMC.Inspected && v.BMC.Power != "" && v.BMC.PowerAt.After(v.BMC.LastPowerAt)
}

// incapableInterval is how old the inventory of a host may be whose BMC cannot boot it: a licence or new firmware may mend that.
const incapableInterval = 10 * time.Minute

// partialInterval is how old an inventory may be for which time ran out.
const partialInterval = 10 * time.Minute

// nextInspection is when the inventory of a host at rest is to be read again.
func (v View) nextInspection(s Settings) time.Time {
	every := s.InspectInterval
	if len(v.BMC.Missing) > 0 {
		every = min(every, incapableInterval)
	}
	if v.BMC.Partial {
		every = min(every, partialInterval)
	}
	return v.BMC.InspectedAt.Add(every)
}

// inspectionDue is true when the inventory of a host at rest is old.
func (v View) inspectionDue(s Settings) bool {
	return v.BMC.Inspected && !v.Now.Before(v.nextInspection(s))
}
