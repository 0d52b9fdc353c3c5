package why

import (
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// hostPhases are the phases of a BareMetalHost. A reason of a condition that is also a phase has its row here.
var hostPhases = []Row{
	{
		Reason: string(v1alpha1.PhaseRegistering), State: Waits, Usual: 5 * time.Minute, Next: describeObject,
		Means: "The host is not verified yet: BMC login, inventory, MAC address, power",
		Do:    "Wait. If it stays, read the reason",
		Cause: "the BMC does not answer, or its inventory is read for the first time",
	},
	{
		Reason: string(v1alpha1.PhaseInspecting), State: Waits, Usual: 15 * time.Minute, Next: describeBoot,
		Means: "The inventory is being read by the BMC, or the agent reads the hardware ([`spec.inspection`](../guides/register-servers.md#let-the-agent-read-the-hardware))",
		Do:    "Wait",
		Cause: "the server still runs its self-test, or it does not boot the agent",
	},
	{
		Reason: string(v1alpha1.PhaseConfiguring), State: Waits, Usual: 30 * time.Minute, Next: describeSettings,
		Means: "A [BareMetalProfile](../guides/firmware-settings.md) changes the firmware settings of the server",
		Do:    "Wait. The message has the progress",
		Cause: "the server still runs its self-test, or its BMC shows the new settings late",
	},
	{
		Reason: string(v1alpha1.PhaseAvailable), State: Done,
		Means: "Machines can claim the host",
	},
	{
		Reason: string(v1alpha1.PhaseUnavailable), State: Fault, Next: describeObject,
		Means: "The host is verified, but machines cannot claim it",
		Do:    "Read the reason",
		Cause: "the condition Available has the cause",
	},
	{
		Reason: string(v1alpha1.PhaseClaimed), State: Waits, Usual: 5 * time.Minute, Next: describeObject,
		Means: "A machine has the host. The boot has not started",
		Do:    "Wait. If it stays, read the reason",
		Cause: "the bootstrap data or a boot slot is missing",
	},
	{
		Reason: string(v1alpha1.PhaseBooting), State: Waits, Usual: 20 * time.Minute, Next: describeBoot,
		Means: "The server boots for its machine",
		Do:    "Wait; see [boot stages](../concepts/boot.md#stages)",
		Cause: "the self-test of the server, or its bootstrap, takes longer than usual",
	},
	{
		Reason: string(v1alpha1.PhaseProvisioned), State: Done,
		Means: "The server runs its machine",
	},
	{
		Reason: string(v1alpha1.PhasePowerHold), State: Waits, Next: powerStatus,
		Means: "A power hold is set. The server of a machine is kept powered off, or is being powered on again; a free host is not available",
		Do:    "The holder removes the [power hold](../guides/maintain-servers.md#power), by `kubectl baremetal power on`",
		Cause: "a person or a remediation set the power hold and still needs it",
	},
	{
		Reason: string(v1alpha1.PhaseBootFailed), State: Fault, Next: deleteMachine,
		Means: "The boot failed and is not tried again",
		Do:    "Fix the cause in the reason, then delete the Machine",
		Cause: "the failure of the BareMetalBoot has the cause",
	},
	{
		Reason: string(v1alpha1.PhaseBootUnknown), State: Fault, Next: describeObject,
		Means: "The record of the boot is missing, out of date, or of another claim; or `spec.consumerRef` was removed during a boot. Nothing is done to the server",
		Do:    "[Restore the record](../guides/backup-and-restore.md#restore-the-record-of-a-boot), [give the host back](../guides/backup-and-restore.md#give-a-host-back-to-its-machine), or delete the Machine. If a finalizer keeps the old BareMetalBoot, remove that finalizer",
		Cause: "a backup was restored without the BareMetalBoot, or a person edited spec.consumerRef",
	},
	{
		Reason: string(v1alpha1.PhaseStateLost), State: Fault, Next: deleteMachine,
		Means: "The machine ran from memory, and its server was powered off or restarted",
		Do:    "Delete the Machine",
		Cause: "the server lost its power, or a person restarted it",
	},
	{
		Reason: string(v1alpha1.PhaseReleasing), State: Waits, Usual: 5 * time.Minute, Next: powerStatus,
		Means: "The machine is being deleted, and the server is being powered off",
		Do:    "Wait. If it stays, see [deletions that wait](../concepts/host-lifecycle.md#when-a-deletion-waits)",
		Cause: "the operating system takes long to shut down, or the BMC does not carry out the power-off",
	},
	{
		Reason: string(v1alpha1.PhaseCleaning), State: Waits, Usual: 4 * time.Hour, Next: describeBoot,
		Means: "The disks of the server are erased, or its BMC settings are reset",
		Do:    "Wait. If it stays, see [deletions that wait](../concepts/host-lifecycle.md#when-a-deletion-waits)",
		Cause: "large disks are erased, or the BMC does not eject its virtual media",
	},
	{
		Reason: string(v1alpha1.PhaseQuarantined), State: Fault, Next: events,
		Means: "A failure occurred. `spec.quarantine` has the reason",
		Do:    "Fix the cause" + thenEndQuarantine,
		Cause: "spec.quarantine has the cause",
	},
	{
		Reason: string(v1alpha1.PhaseMaintenance), State: Waits, Next: describeObject,
		Means: "A person works on the server",
		Do:    "Run `kubectl baremetal maintenance end` after the work",
		Cause: "the work is not finished, or spec.maintenance was forgotten",
	},
	{
		Reason: string(v1alpha1.PhaseExternallyProvisioned), State: Done,
		Means: "Something else runs the server",
	},
	{
		Reason: string(v1alpha1.PhaseDetached), State: Waits, Next: describeObject,
		Means: "A person detached the host",
		Do:    "Remove the annotation `detached` after the work",
		Cause: "the work is not finished, or the annotation was forgotten",
	},
	{
		Reason: string(v1alpha1.PhaseOrphaned), State: Fault, Next: describeObject,
		Means: "The machine or its Cluster does not exist, or the machine has the provider ID of another claim",
		Do:    "Restore them, correct `spec.consumerRef`, or [force the release](../concepts/host-lifecycle.md#when-a-deletion-waits)",
		Cause: "the machine was deleted without its finalizer, or a backup was restored without it",
	},
	{
		Reason: string(v1alpha1.PhaseDeleting), State: Waits, Usual: 5 * time.Minute, Next: describeObject,
		Means: "The object is being deleted",
		Do:    "Wait. If it stays, see [deletions that wait](../concepts/host-lifecycle.md#when-a-deletion-waits)",
		Cause: "a machine still has the host, or its server is not confirmed to be off",
	},
}

// thenEndQuarantine follows what a person does before that.
const thenEndQuarantine = ", then run `kubectl baremetal quarantine end`"

// bmcReasons are the reasons of BMCReady.
var bmcReasons = []Row{
	{
		Reason: v1alpha1.ReasonBMCReachable, State: Done,
		Means: "The BMC answered",
	},
	{
		Reason: v1alpha1.ReasonBMCNotContacted, State: Waits, Usual: time.Minute, Next: managerLog,
		Means: "No request was sent yet",
		Do:    "Wait",
		Cause: "the manager was just started, or does not run",
	},
	{
		Reason: v1alpha1.ReasonCredentialsMissing, State: Fault, Next: describeObject,
		Means: "A Secret of `spec.bmc`, or one of its keys, does not exist",
		Do:    "Create it. It is read at once",
		Cause: "the Secret was not created in the namespace of the host, or its keys are not username and password",
	},
	{
		Reason: v1alpha1.ReasonCredentialsNotLabeled, State: Fault, Next: describeObject,
		Means: "A Secret of `spec.bmc` does not have the required label",
		Do:    "Label it with the command in the message",
		Cause: "the Secret was created without the label",
	},
	{
		Reason: v1alpha1.ReasonCredentialsNotForBMC, State: Fault, Next: editHost,
		Means: "The annotation of the Secret does not list this BMC",
		Do:    "Correct `spec.bmc.address` or the annotation",
		Cause: "spec.bmc.address has the address of another BMC",
	},
	{
		Reason: v1alpha1.ReasonCredentialsRefused, State: Fault, Next: editSecret,
		Means: "The BMC refused the login",
		Do:    "Correct the Secret. The next login follows at once, or when the message says",
		Cause: "the password was changed at the BMC, or the account is locked",
	},
	{
		Reason: v1alpha1.ReasonBMCUnreachable, State: Fault, Next: powerStatus,
		Means: "The BMC does not answer",
		Do:    "Check the address, the network and the power of the BMC",
		Cause: "a firewall, a wrong address, or a BMC that hangs",
	},
	{
		Reason: v1alpha1.ReasonCertificateInvalid, State: Fault, Next: editHost,
		Means: "The BMC's certificate is not trusted",
		Do:    "Set `spec.bmc.caSecretName`, or do what the message asks",
		Cause: "the BMC has a certificate that it signed itself",
	},
	{
		Reason: v1alpha1.ReasonSystemNotFound, State: Fault, Next: editHost,
		Means: "The BMC does not have this system, or has several",
		Do:    "Name the system in the path of `spec.bmc.address`",
		Cause: "the BMC manages several systems, such as the blades of a chassis",
	},
	{
		Reason: v1alpha1.ReasonBMCUnsupported, State: Fault, Next: events,
		Means: "The BMC does not support the request",
		Do:    "Update the firmware, or use another protocol",
		Cause: "the firmware of the BMC is old",
	},
	{
		Reason: v1alpha1.ReasonBMCError, State: Fault, Usual: 5 * time.Minute, Next: events,
		Means: "The BMC returned the error in the message",
		Do:    "Nothing at first: the request is repeated",
		Cause: "the BMC is busy or restarts",
	},
}

// verifiedReasons are the reasons of Verified and Available.
var verifiedReasons = []Row{
	{
		Reason: v1alpha1.ReasonVerified, State: Done,
		Means: "The server matches the spec",
	},
	{
		Reason: v1alpha1.ReasonInspectionPending, State: Waits, Usual: 30 * time.Minute, Next: describeObject,
		Means: "The agent has to inspect the server, and cannot start yet",
		Do:    "The message says what it waits for",
		Cause: "the server is on, a machine has it, or enough servers boot",
	},
	{
		Reason: v1alpha1.ReasonInspectionFailed, State: Fault, Next: inspect,
		Means: "The agent could not inspect the server",
		Do:    "Fix the cause in the message, then [request another inspection](../guides/register-servers.md#let-the-agent-read-the-hardware)",
		Cause: "the server did not boot the agent",
	},
	{
		Reason: v1alpha1.ReasonCleaningPolicyNotPossible, State: Fault, Next: editHost,
		Means: "The policy for the [disks](../concepts/host-lifecycle.md#disks) is `Purge`, and a disk cannot be purged",
		Do:    "Set the policy to `Clear`, name the disk in `spec.storage.keep`, or replace it and inspect the server again",
		Cause: "the disk is a virtual drive of a RAID controller, or its firmware offers no such command",
	},
	{
		Reason: v1alpha1.ReasonErasurePending, State: Waits, Usual: 15 * time.Minute, Next: describeObject,
		Means: "The [disks are erased](../guides/register-servers.md#erase-the-disks-of-a-new-server) before a machine can claim the host",
		Do:    "Wait",
		Cause: "enough servers of the failure domain boot",
	},
	{
		Reason: v1alpha1.ReasonErasureRefused, State: Fault, Next: describeObject,
		Means: "Something forbids the erasure that a BareMetalErasureRequest requests",
		Do:    "The message says what forbids it, and what to do",
		Cause: "the server is on, or the host is not ready for an erasure",
	},
	{
		Reason: v1alpha1.ReasonErasing, State: Waits, Usual: 4 * time.Hour, Next: describeBoot,
		Means: "The agent erases the disks for a BareMetalErasureRequest",
		Do:    "Wait. The message has the progress",
		Cause: "hard disks that can only be overwritten take hours for each TB",
	},
	{
		Reason: v1alpha1.ReasonCapabilityMissing, State: Fault, Next: describeObject,
		Means: "The BMC lacks what a network boot needs",
		Do:    "Update the firmware, add a license, or use another protocol. Then [inspect again](annotations.md)",
		Cause: "the license of the BMC does not include it",
	},
	{
		Reason: v1alpha1.ReasonMACConflict, State: Fault, Next: listHosts,
		Means: "Another host has the same MAC address, and keeps it",
		Do:    "Correct or delete one host; [which host keeps it](../guides/register-servers.md#two-hosts-with-one-server)",
		Cause: "a server was registered twice, or two rows were copied",
	},
	{
		Reason: v1alpha1.ReasonBMCConflict, State: Fault, Next: listHosts,
		Means: "Another host has the same BMC, and keeps it. The BMC gets no requests for this host (`BMCReady` has this reason too)",
		Do:    "Correct or delete one host; [which host keeps it](../guides/register-servers.md#two-hosts-with-one-server)",
		Cause: "a server was registered twice, or two rows were copied",
	},
	{
		Reason: v1alpha1.ReasonHardwareConflict, State: Fault, Next: listHosts,
		Means: "Another host reports the same system UUID and serial number",
		Do:    "Delete the wrong host, or confirm with the command in the message that there are two servers",
		Cause: "a server was registered twice under two BMC addresses, or boards have the same identity",
	},
	{
		Reason: v1alpha1.ReasonServerReplaced, State: Fault, Next: describeObject,
		Means: "The BMC reports another server than before. It gets no power command",
		Do:    "Correct `spec.bmc.address`, or confirm the replacement with the command in the message",
		Cause: "the board or the server was exchanged, or the BMC address was given to another server",
	},
	{
		Reason: v1alpha1.ReasonNotPermitted, State: Fault, Next: describeObject,
		Means: "The namespace may not use this MAC address or BMC",
		Do:    "Correct the host, or ask for a change of the [tenants](../guides/multi-tenancy.md)",
		Cause: "the address belongs to another tenant",
	},
	{
		Reason: v1alpha1.ReasonNotVerified, State: Fault, Next: describeObject,
		Means: "The host is not verified",
		Do:    "Read `BMCReady` and `Verified`",
		Cause: "the condition BMCReady or Verified has the cause",
	},
	{
		Reason: v1alpha1.ReasonPoweredOn, State: Fault, Next: powerStatus,
		Means: "The server is on, and may be in use",
		Do:    "Free host: set `spec.power: \"Off\"` or `spec.externallyProvisioned: true`. Claimed host: power it off",
		Cause: "a person powered the server on, or it was in use before it was registered",
	},
	{
		Reason: v1alpha1.ReasonPowerChanging, State: Waits, Usual: 5 * time.Minute, Next: powerStatus,
		Means: "The power state is changing",
		Do:    "Wait",
		Cause: "the BMC does not carry out the power command",
	},
	{
		Reason: v1alpha1.ReasonConsumerMissing, State: Fault, Next: describeObject,
		Means: "A machine has the provider ID of this host, but `spec.consumerRef` is empty",
		Do:    "[Give the host back](../guides/backup-and-restore.md#give-a-host-back-to-its-machine), or delete the machine",
		Cause: "a backup was restored without spec.consumerRef, or a person removed it",
	},
}
