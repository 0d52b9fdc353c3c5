package why

import (
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// bootReasons are the reasons of Booted and BootProgress, except those of images, disks and the agent.
var bootReasons = []Row{
	{
		Reason: v1alpha1.ReasonBooted, State: Done,
		Means: "The operating system reported in, or its Node appeared",
	},
	{
		Reason: v1alpha1.ReasonPaused, State: Waits, Next: describeObject,
		Means: "The host, its machine or its Cluster is paused",
		Do:    "Remove the pause",
		Cause: "a person or clusterctl move paused the object and has not finished",
	},
	{
		Reason: v1alpha1.ReasonConsumerNotFound, State: Fault, Next: describeObject,
		Means: "The machine does not exist",
		Do:    "See the phase `Orphaned`",
		Cause: "the machine was deleted without its finalizer, or a backup was restored without it",
	},
	{
		Reason: v1alpha1.ReasonClusterNotFound, State: Fault, Next: describeObject,
		Means: "The Cluster of the machine does not exist",
		Do:    "See the phase `Orphaned`",
		Cause: "the Cluster was deleted without its finalizer, or a backup was restored without it",
	},
	{
		Reason: v1alpha1.ReasonConsumerConflict, State: Fault, Next: listHosts,
		Means: "The machine has another host too, or another server got its bootstrap data. Nothing is booted",
		Do:    "Remove `spec.consumerRef` from the wrong host, or delete the Machine",
		Cause: "a person edited spec.consumerRef",
	},
	{
		Reason: v1alpha1.ReasonWaitingForBootstrapData, State: Waits, Usual: 5 * time.Minute, Next: describeMachine,
		Means: "The bootstrap data does not exist yet",
		Do:    "If it stays, read the bootstrap object of the Machine",
		Cause: "the control plane is not initialized yet, or the bootstrap provider reports an error",
	},
	{
		Reason: v1alpha1.ReasonWaitingForImage, State: Waits, Usual: 10 * time.Minute, Next: imagesLog,
		Means: "The boot server downloads, checks or converts the [image](../guides/os-images.md)",
		Do:    "Wait. The message has the progress",
		Cause: "the download of the image is slow",
	},
	{
		Reason: v1alpha1.ReasonWaitingForBootSlot, State: Waits, Usual: 30 * time.Minute, Next: listBoots,
		Means: "Enough hosts of the failure domain boot. The message has the position in the queue",
		Do:    "Wait; [how slots work](../concepts/boot.md#many-servers-at-once)",
		Cause: "many servers boot at once",
	},
	{
		Reason: v1alpha1.ReasonWaitingForNetworkSlot, State: Waits, Usual: 10 * time.Minute, Next: listBoots,
		Means: "Enough servers of the network boot",
		Do:    "Wait, or raise `maxBoots` of the network",
	},
	{
		Reason: v1alpha1.ReasonWaitingForBMC, State: Waits, Usual: 5 * time.Minute, Next: events,
		Means: "The BMC does not do what is asked",
		Do:    "Read `BMCReady`",
		Cause: "the BMC is busy or does not answer",
	},
	{
		Reason: v1alpha1.ReasonPreparing, State: Waits, Usual: 3 * time.Minute, Next: powerStatus,
		Means: "The server is being powered off, gets its boot override, and is powered on",
		Do:    "Wait; [stages and likely causes](boot-stages.md)",
	},
	{
		Reason: v1alpha1.ReasonWaitingForMedia, State: Waits, Usual: 10 * time.Minute, Next: describeBoot,
		Means: "The server was powered on. Nothing has requested the boot medium",
		Do:    "Wait; [stages and likely causes](boot-stages.md)",
	},
	{
		Reason: v1alpha1.ReasonWaitingForMediaBoot, State: Waits, Usual: 5 * time.Minute, Next: describeBoot,
		Means: "The boot medium was requested. The server has not booted it",
		Do:    "Wait; [stages and likely causes](boot-stages.md)",
	},
	{
		Reason: v1alpha1.ReasonWaitingForDHCP, State: Waits, Usual: 10 * time.Minute, Next: describeBoot,
		Means: "The server was powered on. It has not requested a boot file",
		Do:    "Wait; [stages and likely causes](boot-stages.md)",
	},
	{
		Reason: v1alpha1.ReasonWaitingForLoader, State: Waits, Usual: time.Minute, Next: describeBoot,
		Means: "The server has not fetched its boot loader",
		Do:    "Wait; [stages and likely causes](boot-stages.md)",
	},
	{
		Reason: v1alpha1.ReasonWaitingForScript, State: Waits, Usual: time.Minute, Next: describeBoot,
		Means: "The boot loader has not fetched the script",
		Do:    "Wait; [stages and likely causes](boot-stages.md)",
	},
	{
		Reason: v1alpha1.ReasonWaitingForKernel, State: Waits, Usual: 2 * time.Minute, Next: describeBoot,
		Means: "The boot loader has not fetched the kernel",
		Do:    "Wait; [stages and likely causes](boot-stages.md)",
	},
	{
		Reason: v1alpha1.ReasonWaitingForData, State: Waits, Usual: 5 * time.Minute, Next: describeBoot,
		Means: "The operating system has not fetched its bootstrap data",
		Do:    "Wait; [stages and likely causes](boot-stages.md)",
	},
	{
		Reason: v1alpha1.ReasonWaitingForAgent, State: Waits, Usual: 3 * time.Minute, Next: describeBoot,
		Means: "The agent has not requested its plan",
		Do:    "Wait; [stages and likely causes](boot-stages.md)",
	},
	{
		Reason: v1alpha1.ReasonAgentRuns, State: Waits, Usual: 15 * time.Minute, Next: describeBoot,
		Means: "The agent carries out its plan. The message has its progress",
		Do:    "Wait; [stages and likely causes](boot-stages.md)",
	},
	{
		Reason: v1alpha1.ReasonWaitingForReport, State: Waits, Usual: 10 * time.Minute, Next: describeBoot,
		Means: "The operating system has not reported that it is running",
		Do:    "Wait; [stages and likely causes](boot-stages.md)",
	},
	{
		Reason: v1alpha1.ReasonWaitingForMachine, State: Waits, Usual: time.Minute, Next: managerLog,
		Means: "The host reported in, and the machine is not updated yet",
		Do:    "Wait",
		Cause: "the manager has much to do, or does not run",
	},
	{
		Reason: v1alpha1.ReasonNoAddress, State: Fault, Next: bootLog,
		Means: "DHCP has no address for the server",
		Do:    "Add `ranges` to the network, or `bootAddresses` to the host",
		Cause: "all addresses of the ranges are leased, or the network has no ranges",
	},
	{
		Reason: v1alpha1.ReasonArtifactUnavailable, State: Fault, Next: bootLog,
		Means: "A kernel or initrd cannot be downloaded",
		Do:    "Read the log of the boot server",
		Cause: "the URL is wrong, or the boot server does not reach it",
	},
	{
		Reason: v1alpha1.ReasonChecksumMismatch, State: Fault, Next: describeBoot,
		Means: "A kernel, initrd or image does not match its checksum",
		Do:    "Correct the file or the checksum",
		Cause: "the file was replaced under its URL",
	},
	{
		Reason: v1alpha1.ReasonBootstrapDataUnavailable, State: Fault, Next: describeMachine,
		Means: "The bootstrap Secret is missing, empty, or not readable",
		Do:    "Run the command in the message",
		Cause: "the Secret was deleted",
	},
	{
		Reason: v1alpha1.ReasonBootSourceInvalid, State: Fault, Next: describeBoot,
		Means: "No boot script can be generated from `spec.boot`",
		Do:    "Correct the template, delete the Machine",
		Cause: "the template uses a value that this host does not have",
	},
	{
		Reason: v1alpha1.ReasonCommandLineTooLong, State: Fault, Next: describeBoot,
		Means: "The kernel would truncate the command line",
		Do:    "Shorten it, delete the Machine",
		Cause: "spec.network of the host, and spec.boot.commandLine or agent.commandLine of the boot server, together are too long",
	},
	{
		Reason: v1alpha1.ReasonBootstrapDataInvalid, State: Fault, Next: describeBoot,
		Means: "The bootstrap data has a format that cannot be served, or not with the `dataSource` of the image",
		Do:    "Correct the bootstrap config or the template, delete the Machine",
		Cause: "the bootstrap provider writes another format than the image reads",
	},
	{
		Reason: v1alpha1.ReasonSecondRequester, State: Fault, Next: events,
		Means: "Two clients requested the data of one boot. The boot ended, or in a boot of the agent this attempt. An event names both addresses",
		Do:    "Find the other client. If the phase is `BootFailed`, delete the Machine",
		Cause: "another server has the same address or MAC address, or something copied the boot script",
	},
	{
		Reason: v1alpha1.ReasonAgentKeyMissing, State: Fault, Next: bootLog,
		Means: "The agent of a boot from a medium uses plain HTTP, so it has no key that identifies it",
		Do:    "Configure [HTTPS](../guides/network-boot.md#https) of the boot server",
		Cause: "the boot server has no certificate",
	},
	{
		Reason: v1alpha1.ReasonOtherDHCPServer, State: Fault, Next: describeBoot,
		Means: "A request with the MAC address of the server took the answer of another DHCP server, in a network whose mode is `authoritative`, and no boot followed in half a minute. The message has the address of that one",
		Do:    "Remove the MAC address of the server there, or set the [mode](boot-configuration.md) to `proxy`",
		Cause: "another DHCP server in the network answers the server",
	},
	{
		Reason: v1alpha1.ReasonMediaRefused, State: Fault, Next: bootLog,
		Means: "The BMC or the firmware requested the boot medium, and the boot server refused it. The message names the client and the cause",
		Do:    "Add the network of the client to [`media.allowedClients`](boot-configuration.md); or wait until the boot server has fetched the kernel",
		Cause: "the BMC requests the medium from an address that is not in media.allowedClients",
	},
	{
		Reason: v1alpha1.ReasonBootTimedOut, State: Fault, Next: deleteMachine,
		Means: "The last attempt exceeded its deadline",
		Do:    "Fix what the message names, then delete the Machine. If the server cannot be fixed now, quarantine it before: the next Machine may claim it",
		Cause: "what the last stage waited for did not come",
	},
	{
		Reason: v1alpha1.ReasonBootstrapFailed, State: Fault, Next: describeBoot,
		Means: "The operating system reported that its bootstrap data failed",
		Do:    "Read the server's console",
		Cause: "a command of the bootstrap data failed, or the server does not reach the control plane",
	},
	{
		Reason: v1alpha1.ReasonRestarted, State: Fault, Next: describeMachine,
		Means: "The server of a machine that runs from memory requested a boot. Its Node is not known to be lost",
		Do:    "Check the Node. Delete the Machine if it is lost",
		Cause: "the server lost its power, or a person restarted it",
	},
	{
		Reason: v1alpha1.ReasonPoweredOff, State: Fault, Next: powerOn,
		Means: "The server of a machine on disk is off although the provider did not power it off. The message has the time",
		Do:    "Check the power of the rack and of the server, [then power it on](../troubleshooting.md#a-server-is-powered-off)",
		Cause: "the server lost its power, or a person switched it off",
	},
	{
		Reason: v1alpha1.ReasonPowerDisputed, State: Fault, Next: powerStatus,
		Means: "The BMC reports that the server is off, and its Node is Ready. `Booted` stays True",
		Do:    "Check that `spec.bmc.address` is the BMC of this server, and restart the BMC",
		Cause: "spec.bmc.address is the BMC of another server, or the BMC hangs",
	},
	{
		Reason: v1alpha1.ReasonPowerUnconfirmed, State: Fault, Next: powerStatus,
		Means: "The BMC has reported for 5 minutes that the server is off, and no Node of the machine was observed that could confirm it. `Booted` stays True",
		Do:    "Check the server",
		Cause: "the server is off, or the BMC hangs",
	},
	{
		Reason: v1alpha1.ReasonErasureNotRecorded, State: Fault, Usual: 5 * time.Minute, Next: describeObject,
		Means: "The disks are erased, and the BareMetalErasure could not be written. The host is not released yet",
		Do:    "Fix the cause in the message. The provider repeats it",
		Cause: "the API server refused the object",
	},
}
