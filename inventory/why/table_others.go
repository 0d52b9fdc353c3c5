package why

import (
	"time"

	bootstrapv1 "github.com/capbm-io/cluster-api-provider-baremetal/api/bootstrap/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// configReasons are the reasons of DataSecretAvailable and Ready of a BareMetalConfig.
var configReasons = []Row{
	{
		Reason: bootstrapv1.ReasonDataSecretCreated, State: Done,
		Means: "The bootstrap data exists",
	},
	{
		Reason: bootstrapv1.ReasonWaitingForInfrastructure, State: Waits, Usual: time.Minute, Next: describeInfraCluster,
		Means: "The BareMetalCluster is not provisioned",
		Do:    "Read its conditions",
		Cause: "the BareMetalCluster has no endpoint",
	},
	{
		Reason: bootstrapv1.ReasonWaitingForControlPlane, State: Waits, Usual: 20 * time.Minute, Next: describeOwner,
		Means: "The control plane is not initialized",
		Do:    "Wait, or set `waitFor: Infrastructure`",
		Cause: "the first control plane machine still boots",
	},
	{
		Reason: bootstrapv1.ReasonClusterNotFound, State: Fault, Next: describeObject,
		Means: "The Cluster does not exist",
		Do:    "Create it, or correct the Machine",
		Cause: "the label of the Machine names a Cluster that was deleted",
	},
	{
		Reason: bootstrapv1.ReasonOwnerUnsupported, State: Fault, Next: describeObject,
		Means: "The owner is a MachinePool",
		Do:    "Use a MachineDeployment",
		Cause: "the template is used by a MachinePool",
	},
	{
		Reason: bootstrapv1.ReasonUserDataMissing, State: Fault, Next: describeObject,
		Means: "A Secret, ConfigMap or key does not exist",
		Do:    "Create it. It is read again every 15 s",
		Cause: "the Secret or ConfigMap is in another namespace, or has another name",
	},
	{
		Reason: bootstrapv1.ReasonValueMissing, State: Fault, Next: describeObject,
		Means: "A Secret, ConfigMap or key does not exist",
		Do:    "Create it. It is read again every 15 s",
		Cause: "the Secret or ConfigMap is in another namespace, or has another name",
	},
	{
		Reason: bootstrapv1.ReasonSecretNotLabeled, State: Fault, Next: describeObject,
		Means: "A Secret does not have the required label",
		Do:    "Label it with the command in the message",
		Cause: "the Secret was created without the label",
	},
	{
		Reason: bootstrapv1.ReasonTemplateInvalid, State: Fault, Next: describeObject,
		Means: "A template cannot be parsed, or uses an unknown name",
		Do:    "Correct the template",
		Cause: "the template has a typing error",
	},
	{
		Reason: bootstrapv1.ReasonUserDataInvalid, State: Fault, Next: describeObject,
		Means: "The user data is empty or not of its format, or commands cannot be added",
		Do:    "Correct the first line, or the JSON",
		Cause: "the first line is not the one of the format",
	},
	{
		Reason: bootstrapv1.ReasonDataTooLarge, State: Fault, Next: describeObject,
		Means: "The data does not fit into a Secret of 1 MiB",
		Do:    "Download large parts during the boot",
		Cause: "files are embedded into the user data",
	},
	{
		Reason: bootstrapv1.ReasonSecretConflict, State: Fault, Next: describeObject,
		Means: "A Secret has the name of the config, and the provider has not created it: its type, its immutability or the annotation `baremetalconfig.bootstrap.cluster.x-k8s.io/rendered-from` differs",
		Do:    "Delete or rename that Secret",
		Cause: "another tool created a Secret with this name",
	},
	{
		Reason: bootstrapv1.ReasonRequestFailed, State: Fault, Usual: time.Minute, Next: describeObject,
		Means: "The API server refused a request",
		Do:    "Fix the error in the message. The request is repeated",
		Cause: "an admission webhook or a quota refused the request",
	},
}

// requestReasons are the reasons of Erased of a BareMetalErasureRequest.
var requestReasons = []Row{
	{
		Reason: v1alpha1.ReasonErased, State: Done,
		Means: "The disks are erased. The message names the BareMetalErasure",
		Do:    "`kubectl baremetal erasures HOST` prints it",
	},
	{
		Reason: v1alpha1.ReasonErasing, State: Waits, Usual: 4 * time.Hour, Next: describeObject,
		Means: "The agent erases the disks",
		Do:    "Wait. The message has the progress",
		Cause: "hard disks that can only be overwritten take hours for each TB",
	},
	{
		Reason: v1alpha1.ReasonHostWaits, State: Waits, Next: whyHost,
		Means: "The request fits, and the host is not ready for it",
		Do:    "Do what the explanation of the host says. The message is that of its condition `Available`",
		Cause: "the server is on, or the host is out of service",
	},
	{
		Reason: v1alpha1.ReasonDisksNotErased, State: Fault, Next: describeObject,
		Means: "The erasure failed. The host is in quarantine",
		Do:    "Wipe the disks, or fix the cause and create another request; then remove `spec.quarantine`",
		Cause: "a disk is broken, was removed, or offers no command that meets the policy",
	},
	{
		Reason: v1alpha1.ReasonHostNotFound, State: Fault, Next: listHosts,
		Means: "The namespace has no host of that name",
		Do:    "Correct the name in another request",
		Cause: "the name has a typing error, or the host is in another namespace",
	},
	{
		Reason: v1alpha1.ReasonHostRecreated, State: Fault, Next: describeObject,
		Means: "The host has another UID: it was created again, restored or moved",
		Do:    "Create another request if its disks are to be erased",
		Cause: "the request comes from a repository or a backup",
	},
	{
		Reason: v1alpha1.ReasonHostBooted, State: Fault, Next: describeObject,
		Means: "The server was booted since the request was made, and no record shows that this was for the request",
		Do:    "Create another request if its disks are to be erased",
		Cause: "the request comes from a repository or a backup",
	},
	{
		Reason: v1alpha1.ReasonOtherSerialNumber, State: Fault, Next: describeObject,
		Means: "The request names another serial number than that of the server. The host is not affected",
		Do:    "Create another request if this is the server whose disks are to be erased",
		Cause: "the request names another server",
	},
	{
		Reason: v1alpha1.ReasonRequestExpired, State: Fault, Next: describeObject,
		Means: "`expireTime` has passed before the erasure could begin",
		Do:    "Create another request",
		Cause: "the host was not ready in time",
	},
}

// templateReasons are the reasons of Ready of a BareMetalMachineTemplate.
var templateReasons = []Row{
	{
		Reason: v1alpha1.ReasonHostsMatch, State: Done,
		Means: "Hosts match the template",
	},
	{
		Reason: v1alpha1.ReasonNoHostMatches, State: Fault, Next: listHosts,
		Means: "No host matches. The message counts what excludes how many hosts",
		Do:    "Correct the template, or register hosts",
		Cause: "a requirement or the selector of the template has a typing error",
	},
}
