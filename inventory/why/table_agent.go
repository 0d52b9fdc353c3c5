package why

import (
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
)

// agentReasons are the reasons of Booted and BootProgress for images, disks and the agent.
var agentReasons = []Row{
	{
		Reason: v1alpha1.ReasonImageUnreachable, State: Fault, Next: imagesLog,
		Means: "The image cannot be downloaded",
		Do:    "Correct the URL or the [permitted addresses](../concepts/security.md#what-the-provider-connects-to). The log of the container `images` has the cause: `kubectl -n capbm-system logs deployment/capbm-boot --container images`",
		Cause: "the URL is wrong, or the boot server does not reach it",
	},
	{
		Reason: v1alpha1.ReasonImageUnauthorized, State: Fault, Next: imagesLog,
		Means: "The registry refused the credentials, or the Secret of `pullSecret` cannot be used",
		Do:    "Correct the Secret, or run the command in the message",
		Cause: "the pull Secret has expired credentials",
	},
	{
		Reason: v1alpha1.ReasonImageNotFound, State: Fault, Next: describeBoot,
		Means: "The registry does not have the image",
		Do:    "Correct the URL",
		Cause: "the tag or the digest was deleted, or has a typing error",
	},
	{
		Reason: v1alpha1.ReasonImageFormatInvalid, State: Fault, Next: describeBoot,
		Means: "The file is not a [usable disk image](../guides/os-images.md#what-an-image-must-have)",
		Do:    "Correct the image",
		Cause: "the file is an installer ISO or an archive",
	},
	{
		Reason: v1alpha1.ReasonImageTooLarge, State: Fault, Next: imagesLog,
		Means: "The image is larger than the limit, or its conversion takes too long",
		Do:    "Make it smaller",
		Cause: "the image has much empty space",
	},
	{
		Reason: v1alpha1.ReasonImageInterrupted, State: Fault, Usual: 10 * time.Minute, Next: imagesLog,
		Means: "The preparation of the image ended early",
		Do:    "Nothing: it is repeated. If it stays, read the log of the container `images` (see `ImageUnreachable`)",
		Cause: "the boot server restarted",
	},
	{
		Reason: v1alpha1.ReasonNoSpace, State: Fault, Next: imagesLog,
		Means: "The boot server has no space for the image",
		Do:    "[Give it more](../guides/os-images.md#size-the-image-cache)",
		Cause: "the volume is full of images that are in use",
	},
	{
		Reason: wire.ReasonNoDiskMatches, State: Fault, Next: describeBoot,
		Means: "No disk matches the hints. The message lists all disks",
		Do:    "Correct `rootDevice`",
		Cause: "rootDevice has the hints of another server model",
	},
	{
		Reason: wire.ReasonSeveralDisksMatch, State: Fault, Next: describeBoot,
		Means: "Several disks match the hints",
		Do:    "Add a hint, such as the serial number",
		Cause: "the server has several equal disks",
	},
	{
		Reason: wire.ReasonDiskProtected, State: Fault, Next: describeBoot,
		Means: "The disk that matches [must not be written](../concepts/images.md#which-disk)",
		Do:    "Name another disk, or this one by its serial number. Connect a disk with several paths by one",
		Cause: "the disk is in spec.storage.keep, is removable, or has several paths",
	},
	{
		Reason: wire.ReasonDiskBusy, State: Fault, Next: describeBoot,
		Means: "RAID, LVM or a mount holds the disk",
		Do:    "Wipe its signatures, or name another disk",
		Cause: "the firmware or the initrd assembled an old array on the disk",
	},
	{
		Reason: wire.ReasonDiskTooSmall, State: Fault, Next: describeBoot,
		Means: "The image and its bootstrap data do not fit",
		Do:    "Name a larger disk",
		Cause: "rootDevice names a small boot disk",
	},
	{
		Reason: wire.ReasonSectorSizeDiffers, State: Fault, Next: describeBoot,
		Means: "The image was made for disks with another sector size",
		Do:    "Use another image or disk",
		Cause: "the disk has sectors of 4,096 bytes, and the image was made for 512",
	},
	{
		Reason: wire.ReasonDataSourceOnOtherDisk, State: Fault, Next: describeBoot,
		Means: "Another disk has a file system with the label of the bootstrap data",
		Do:    "Wipe that disk",
		Cause: "an earlier installation is on that disk",
	},
	{
		Reason: wire.ReasonDiskFailed, State: Fault, Next: events,
		Means: "The disk reports errors, vanished, or returns other data than was written; or another disk cannot be read, so that it may have other bootstrap data",
		Do:    "Replace that disk, or check cable and controller",
		Cause: "the disk is broken",
	},
	{
		Reason: wire.ReasonNoBootLoader, State: Fault, Next: describeBoot,
		Means: "The image has no boot loader for the firmware of the server",
		Do:    "Correct the image or the boot mode",
		Cause: "the image was made for BIOS, and the server boots with UEFI, or the reverse",
	},
	{
		Reason: wire.ReasonPartitionTableInvalid, State: Fault, Next: describeBoot,
		Means: "The partition table is damaged, or has no space for the bootstrap data",
		Do:    "Correct the image",
		Cause: "the image is damaged, or its table has no free entry",
	},
	{
		Reason: wire.ReasonImageCorrupt, State: Fault, Next: bootLog,
		Means: "The agent repeatedly received other data than the image has",
		Do:    "Check the network",
		Cause: "a proxy or a network interface between boot server and server damages data",
	},
	{
		Reason: wire.ReasonBootServerUnreachable, State: Fault, Next: bootLog,
		Means: "The boot server did not answer the agent for too long",
		Do:    "Check the network and the boot server",
		Cause: "the boot server restarted, or the network lost the connection",
	},
	{
		Reason: wire.ReasonCommitUnknown, State: Fault, Next: deleteMachine,
		Means: "It is unknown whether the disk was booted after an earlier attempt",
		Do:    "Delete the Machine",
		Cause: "the server was restarted at the end of the write",
	},
	{
		Reason: wire.ReasonVersionDiffers, State: Fault, Next: bootLog,
		Means: "Agent and boot server have different versions",
		Do:    "Install the agent's files of the boot server's release in `agent.dir`",
		Cause: "the provider was upgraded, and the files in agent.dir were not",
	},
	{
		Reason: wire.ReasonOtherServer, State: Fault, Next: editHost,
		Means: "The agent ran on another server than the host's: their system UUIDs, or without these their serial numbers, differ. It touched no disk",
		Do:    "Correct `spec.bmc.address` or `spec.bootMACAddresses`: the rows of two servers may be swapped. Where a BMC reports another UUID than the firmware, set `spec.systemUUID`",
		Cause: "the BMC addresses or the cables of two servers are swapped",
	},
	{
		Reason: wire.ReasonPlanInvalid, State: Fault, Next: describeBoot,
		Means: "The agent cannot carry out its plan",
		Do:    "Report it with the log in the message",
		Cause: "a bug of the provider",
	},
	{
		Reason: wire.ReasonAgentPanicked, State: Fault, Next: describeBoot,
		Means: "A part of the agent panicked. The boot is repeated",
		Do:    "Report it with the log in the message",
		Cause: "a bug of the provider",
	},
	{
		Reason: wire.ReasonEraseFailed, State: Fault, Next: describeBoot,
		Means: "A disk could not be erased or is not there, or the agent found no disk",
		Do:    "Insert or replace the disk. For [a server without disks](../guides/erasure-proof.md#erasures-without-a-record) set `cleaningPolicy: None`",
		Cause: "the disk is broken, or was removed",
	},
}
