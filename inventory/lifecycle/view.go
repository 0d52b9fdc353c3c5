// Package lifecycle decides what to do with a host. It is pure: Next takes what was observed and returns the next step,
// BootFor takes the same and returns what the host must boot now. The host controller performs the step, and the boot server
// serves the boot; neither decides anything.
package lifecycle

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory"
)

// View is everything that is known of a host at one moment.
type View struct {
	// Now is the moment.
	Now time.Time
	// Host is what the objects of the host say.
	Host Host
	// Requests are those of users.
	Requests Requests
	// Provider is what this process knows of itself.
	Provider Provider
	// Identity is what identifies the server, and what speaks against that.
	Identity Identity
	// Claims is what other objects say about who has the host.
	Claims Claims
	// Consumer is the machine that spec.consumerRef names; nil without one.
	Consumer *Consumer
	// BMC is what is known through the BMC.
	BMC BMC
	// Observed is what was observed of the last boot.
	Observed Observed
	// PowerLoss is what is known of a loss of power.
	PowerLoss PowerLoss
	// Inspection is what is known of the inspection of the server by the agent.
	Inspection Inspection
	// Erasure is what is known of the erasure of the disks of a free host.
	Erasure Erasure
	// BIOS is what is known of the firmware settings of the server.
	BIOS BIOS
	// QueuePosition is the host's position in the boot queue; nil when it may begin a boot attempt.
	QueuePosition *QueuePosition
}

// Host is what the objects of a host say: the BareMetalHost, and the BareMetalBoot of the same name. A move and the loss of the status keep it.
type Host struct {
	// Namespace and Name are the host's.
	Namespace, Name string
	// Spec is the host's spec: its consumer, and what users want of it.
	Spec v1alpha1.BareMetalHostSpec
	// Boot is the record of the host's last boot; nil when there is none.
	Boot *v1alpha1.BareMetalBootSpec
	// BootDeleting is true when the BareMetalBoot that holds the record is being deleted. The record is valid until the object is gone.
	BootDeleting bool
	// BootHasForeignFinalizer is true when that object no longer has the provider's finalizer, and the finalizer of another controller keeps it.
	BootHasForeignFinalizer bool
	// Deleting is true when the host object is being deleted.
	Deleting bool
	// DeletedForMove is true when `clusterctl move` deletes the host object: the host lives on in another cluster.
	DeletedForMove bool
	// NamespaceDeleting is true when the host's namespace is being deleted with all its objects. It is read only for a host that is being
	// deleted while a machine has it, or while it boots.
	NamespaceDeleting bool
	// Paused is true when the host itself is paused.
	Paused bool
	// PausedCluster names a Cluster of the namespace that is paused; empty without one. A move pauses all Clusters of the namespace, but it pauses no free
	// host: the managers of both management clusters work on it for a moment.
	PausedCluster string
	// MoveBlocked is true while the host blocks `clusterctl move`.
	MoveBlocked bool
}

// Claims is what other objects say about who has the host.
type Claims struct {
	// SharesConsumerWith names the other hosts of the same machine. There are some only if a user edited spec.consumerRef.
	SharesConsumerWith []string
	// UnrecordedConsumer names the machine whose provider ID is that of this host, although the host has no spec.consumerRef. It is empty without one.
	UnrecordedConsumer string
	// BootMachinePending is true when the last boot served its machine's bootstrap data, and that machine exists, is not provisioned and is not being
	// deleted. With another host the machine would get the same bootstrap data again. So the boot is kept, and is not voided.
	BootMachinePending bool
	// DataServedOn names another host whose boot served the bootstrap data of this host's machine. It is empty without one.
	DataServedOn string
}

// Identity is what identifies the server, and what speaks against that it is the server of this host.
type Identity struct {
	// NotPermitted is why the provider's configuration does not permit the host's MAC address or its BMC; nil if both are permitted.
	NotPermitted error
	// Server is what identifies the server. A boot records it.
	Server v1alpha1.HostIdentity
	// MACTakenBy, BMCTakenBy and HardwareTakenBy are the other hosts that already have one of this host's boot MAC addresses, its BMC, or the system UUID
	// and serial number that its BMC reports. Each is nil without such a conflict.
	MACTakenBy, BMCTakenBy, HardwareTakenBy *types.NamespacedName
	// TakenMAC is the boot MAC address that another host has.
	TakenMAC string
	// Replacement is what the BMC reports of another server than that of the recorded inventory; nil if it is the same.
	Replacement *Replacement
}

// Replacement is a server that may have replaced that of a host.
type Replacement struct {
	Reported inventory.ServerID
	// Known is the server of the recorded inventory. It is nil without one: then only the boot of the machine shows that the server was another one.
	Known *inventory.ServerID
}

// Requests are the requests of users by annotations of the host.
type Requests struct {
	// Detached detaches the host.
	Detached Annotation
	// ReleaseUnfenced releases the host without a power-off.
	ReleaseUnfenced Annotation
	// Power are the annotations by which users control the server's power.
	Power PowerRequests
	// PowerOffProvider allows the provider to power off the server that it runs on.
	PowerOffProvider Annotation
	// Inspect is true if a user requests a new inspection.
	Inspect bool
	// SettingsEnded says that a settings run whose record is lost has ended.
	SettingsEnded Annotation
	// RetryBMC is true when a user wants the BMC to be queried now, whatever happened before.
	RetryBMC bool
}

// Annotation is a request of a user. Its value says who requests it, and why.
type Annotation struct {
	Set   bool
	Value string
}

// NoReason is what users see instead of an empty value.
const NoReason = "the annotation gives no reason"

// why returns the value for users.
func (a Annotation) why() string { return cmp.Or(a.Value, NoReason) }

// Observed is what the boot server, the agent and the Node showed of the last boot: the status of the BareMetalBoot. None of it has to survive.
type Observed struct {
	// Furthest is the furthest boot stage that was observed. Its Stage is empty when none was observed.
	Furthest v1alpha1.ObservedStage
	// Media is the first request of the boot medium that was observed in this boot, or the one that got the whole medium. Its Stage is empty when none was observed.
	Media v1alpha1.ObservedStage
	// WaitedAt is when the server last waited for a boot slot of its network, in this boot and before it fetched its script. It is zero if it did not wait.
	WaitedAt time.Time
	// RestartedAt is when firmware last requested a network boot although the attempt's bootstrap data had been served and the machine runs
	// from memory. It is zero if that did not happen.
	RestartedAt time.Time
	// NodeLostAt is when the server's Node was observed as lost after that restart. It is zero if it was not.
	NodeLostAt time.Time
	// Node is the Node that was observed in the boot; nil without one. No command depends on it: it is a witness of what is reported about the power.
	Node *v1alpha1.ObservedNode
	// AgentAt is when the agent of the current boot last reported progress; zero before.
	AgentAt time.Time
	// Agent is that progress; nil before.
	Agent *v1alpha1.AgentProgress
	// Image is the state of the machine's image at the boot server.
	Image Image
	// Problem is why the boot server cannot serve the boot, or why its agent gave up; nil without one.
	Problem *v1alpha1.BootFailure
}

// PowerLoss is what is known of a loss of power of the server of a running machine.
type PowerLoss struct {
	// PoweredOffTime is status.poweredOffTime: since when the server is reported as powered off. It is zero if it is not reported.
	PoweredOffTime time.Time
	// Restore is status.powerRestore: how the server was powered on after a loss of power; nil if it never was.
	Restore *v1alpha1.PowerRestore
	// Outage is what is known of the other servers of the failure domain. It is nil unless AwaitsOutage.
	Outage *Outage
}

// Provider is what this process knows of itself.
type Provider struct {
	// RunsHere is true when this process of the provider runs on the host's server.
	RunsHere bool
	// MediaURL is the URL of the boot media for the network of the BMC, without the path of a boot. It is empty if the provider offers none there.
	MediaURL string
	// Hosts is how many hosts this process observes. It bounds how often their health is read.
	Hosts int
}

// Consumer is what is known of the machine that has a host.
type Consumer struct {
	// Found is false when the BareMetalMachine does not exist. Then all other fields are empty.
	Found bool
	// Deleting is true when the machine is being deleted, so the host is to be released.
	Deleting bool
	// DeletingSince is the machine's deletion timestamp; zero if it is not being deleted.
	DeletingSince time.Time
	// DeletedForMove is true when `clusterctl move` deletes the machine: it lives on in another cluster.
	DeletedForMove bool
	// OwnerDeleting is true when the Machine that owns it, or its Cluster, is being deleted: the machine's own deletion follows.
	OwnerDeleting bool
	// ClusterFound is false when the machine's Cluster does not exist.
	ClusterFound bool
	// Paused is true when the machine or its Cluster is paused.
	Paused bool
	// ProviderID is the machine's provider ID; empty before it was provisioned.
	ProviderID string
	// BootstrapReady is true when the machine's bootstrap data exists.
	BootstrapReady bool
	// Persistence says whether the machine survives a reboot.
	Persistence v1alpha1.BootPersistence
	// Image is true for a machine whose image is written to a disk.
	Image bool
	// NeedsIPXE is true for a machine whose spec.boot only iPXE can boot: a boot medium has GRUB.
	NeedsIPXE bool
}

// Command is a power command to a BMC.
type Command string

const (
	CommandPowerOn  Command = "PowerOn"
	CommandShutDown Command = "ShutDown"
	CommandForceOff Command = "ForceOff"
)

// BMC is what is known through a host's BMC, each fact with the time of its observation. All of it is lost when the provider restarts, and
// read again then.
type BMC struct {
	// Problem is why the BMC cannot be used; nil when it answered the last request.
	Problem *BMCProblem
	// FailedAt is when a request to the BMC last failed; zero if none did.
	FailedAt time.Time
	// Busy is true while a request to the BMC is under way. Its end enqueues the host.
	Busy bool
	// Inspected is true when the inventory was read, the last time at InspectedTime.
	Inspected     bool
	InspectedTime time.Time
	// Partial is true when the read of the inventory timed out before it was complete.
	Partial bool
	// Power is the last power state that was read, at PowerAt. All readings since PowerSince were the same.
	Power      v1alpha1.PowerState
	PowerAt    time.Time
	PowerSince time.Time
	// PowerNew is true when nothing was decided with that reading yet.
	PowerNew bool
	// LastPower is the last power command that the BMC accepted, at LastPowerAt. CommandPowerOn counts even if its answer was an error, or was lost.
	LastPower   Command
	LastPowerAt time.Time
	// Methods are the boot methods that the BMC offers. It is nil if that is unknown; then all are tried.
	Methods []v1alpha1.BootMethod
	// MethodWorked is the method of the last boot in which the server was observed. It is empty if none worked, or if that was forgotten.
	MethodWorked v1alpha1.BootMethod
	// ModelMethod is a method that worked on another server of the same model. It is empty if none is known.
	ModelMethod v1alpha1.BootMethod
	// MethodRefused is the last answer of the BMC that it cannot boot the server by the method of a boot; nil without one.
	MethodRefused *MethodRefusal
	// MediaInserted is true from when a boot medium was inserted into a virtual drive until it was ejected.
	MediaInserted bool
	// NetworkBootSetAt is when the BMC last accepted the method of a boot as the next boot device.
	NetworkBootSetAt time.Time
	// NetworkBootNumber is the number of that boot. The times alone do not tell two boots apart that begin in one second: those of the record have whole seconds.
	NetworkBootNumber int32
	// FirstShutDownAt is when the operating system was first asked to shut down. It is zero again once the server reads as off, is switched on, or
	// its power hold has ended.
	FirstShutDownAt time.Time
	// OffUnansweredAt is when the last command to shut down or switch off was sent whose answer was lost. It is reset together with FirstShutDownAt.
	OffUnansweredAt time.Time
	// ShutDownUnsupported is true when the BMC cannot shut down gracefully.
	ShutDownUnsupported bool
	// OverrideSet is true from when a boot override was set until it was cleared or read as absent.
	OverrideSet bool
	// Override is the last boot override that was set; nil if none was.
	Override *v1alpha1.BootOverrideStatus
	// CleanedAt is when the last clean-up succeeded, in the cleaning that RecordCleaning began last.
	CleanedAt time.Time
	// CleanUpFailures is how often in a row the BMC answered that it cannot do the clean-up, the last time at CleanUpTriedAt with CleanUpError.
	CleanUpFailures int
	CleanUpTriedAt  time.Time
	CleanUpError    string
	// HealthReadAt is when this process last read the whole inventory, and with it the health.
	HealthReadAt time.Time
	// HealthCritical is true if the inventory reports the server or one of its components as critical.
	HealthCritical bool
	// Health is what is known of the readings of the health over time.
	Health HealthPoll
	// Missing are the capabilities that a network boot needs and the BMC does not have.
	Missing []string
}

// BMCProblem is why a BMC cannot be used.
type BMCProblem struct {
	// Reason and Message are those of the condition BMCReady.
	Reason, Message string
	// RetryAt is when the BMC may be tried again. The zero time waits for a change of an object, such as the Secret.
	RetryAt time.Time
}

// providerID returns the provider ID that the consumer gets from this host.
func (h Host) providerID() string {
	return inventory.ProviderID(h.Namespace, h.Name, h.Spec.ConsumerRef.Name)
}

// Claimed is true when a machine has the host.
func (h Host) Claimed() bool { return h.Spec.ConsumerRef != nil }

// Provisioned is true when the host runs its machine. It follows from the machine's provider ID alone, which survives a move and the loss of
// the status.
func (v View) Provisioned() bool {
	return v.Host.Claimed() && v.Consumer != nil && v.Consumer.Found && v.Consumer.ProviderID == v.Host.providerID()
}

// Verified is true when the host can be booted: its inventory was read and describes the same server as before, its BMC has the capabilities
// for one of its boot methods, and no conflict concerns its MAC address, BMC or hardware.
func (v View) Verified() bool {
	return v.BMC.Inspected && !v.Incapable() && v.Identity.Replacement == nil && !v.Identity.hasConflict()
}

// hasConflict is true when the configuration, or another host, keeps this host from using its MAC address, BMC or hardware.
func (i Identity) hasConflict() bool {
	return i.NotPermitted != nil || i.MACTakenBy != nil || i.BMCTakenBy != nil || i.HardwareTakenBy != nil
}

// bmcBlocked is true while the BMC must not be queried. A user may request a retry before RetryAt. A problem without RetryAt waits for a
// change of an object, such as the Secret, and no retry helps.
func (v View) bmcBlocked() bool {
	p := v.BMC.Problem
	return p != nil && (p.RetryAt.IsZero() || !v.Requests.RetryBMC && v.Now.Before(p.RetryAt))
}

// maxNewReadingAge is the maximum age of a power reading with which nothing was decided yet.
const maxNewReadingAge = time.Minute

// powerKnown is true when the power was read after the last power command and at most maxAge ago. A reading with which nothing was decided
// yet may be older. Otherwise an overloaded provider, which reconciles late, would read the power again and again and decide nothing.
func (b BMC) powerKnown(now time.Time, maxAge time.Duration) bool {
	if b.PowerNew {
		maxAge = max(maxAge, maxNewReadingAge)
	}
	return b.Power != "" && b.PowerAt.After(b.LastPowerAt) && now.Sub(b.PowerAt) < maxAge
}

// usable is true when the last readings still describe the host, even if they are old.
func (b BMC) usable() bool {
	return b.Problem == nil && b.Inspected && b.Power != "" && b.PowerAt.After(b.LastPowerAt)
}

// incapableInspectInterval is the maximum age of the inventory while the BMC lacks a capability: a licence or new firmware may add it.
const incapableInspectInterval = 10 * time.Minute

// partialInspectInterval is the maximum age of an incomplete inventory.
const partialInspectInterval = 10 * time.Minute

// nextInspection is when the inventory of an idle host is to be read again.
func (v View) nextInspection(s Settings) time.Time {
	interval := s.InspectInterval
	if v.Incapable() {
		interval = min(interval, incapableInspectInterval)
	}
	if v.BMC.Partial {
		interval = min(interval, partialInspectInterval)
	}
	return v.BMC.InspectedTime.Add(interval)
}

// inspectionDue is true when the inventory of an idle host is too old.
func (v View) inspectionDue(s Settings) bool {
	return v.BMC.Inspected && !v.Now.Before(v.nextInspection(s))
}
