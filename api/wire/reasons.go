package wire

// The reasons of the failures of an agent. The boot server writes them to the BareMetalBoot.
const (
	// ReasonNoDiskMatches means that no disk of the server matches the rootDevice hints, or is large enough.
	ReasonNoDiskMatches = "NoDiskMatches"
	// ReasonSeveralDisksMatch means that the rootDevice hints match more than one disk.
	ReasonSeveralDisksMatch = "SeveralDisksMatch"
	// ReasonDiskProtected means that the disk must not be written: it is in spec.storage.keep, read-only, removable, or carries a shared file system.
	ReasonDiskProtected = "DiskProtected"
	// ReasonDiskBusy means that something holds the disk.
	ReasonDiskBusy = "DiskBusy"
	// ReasonDiskTooSmall means that the image with its bootstrap data is larger than the disk.
	ReasonDiskTooSmall = "DiskTooSmall"
	// ReasonSectorSizeDiffers means that the image was made for disks with another sector size.
	ReasonSectorSizeDiffers = "SectorSizeDiffers"
	// ReasonDataSourceOnOtherDisk means that another disk has a file system with the label of the data source.
	ReasonDataSourceOnOtherDisk = "DataSourceOnOtherDisk"
	// ReasonDiskFailed means that the disk reports errors, vanished, or returns other data than was written.
	ReasonDiskFailed = "DiskFailed"
	// ReasonNoBootLoader means that the image has no boot loader for the firmware of the server.
	ReasonNoBootLoader = "NoBootLoader"
	// ReasonPartitionTableInvalid means that the partition table of the image is damaged, or has no space for the bootstrap data.
	ReasonPartitionTableInvalid = "PartitionTableInvalid"
	// ReasonImageCorrupt means that the agent repeatedly received other data than the image has.
	ReasonImageCorrupt = "ImageCorrupt"
	// ReasonBootServerUnreachable means that the boot server did not answer the agent for too long.
	ReasonBootServerUnreachable = "BootServerUnreachable"
	// ReasonCommitUnknown means that it is unknown whether the disk was booted since an earlier attempt.
	ReasonCommitUnknown = "CommitUnknown"
	// ReasonVersionDiffers means that the agent and the boot server have different versions.
	ReasonVersionDiffers = "VersionDiffers"
	// ReasonOtherServer means that the agent ran on another server than the host's, and touched no disk.
	ReasonOtherServer = "OtherServer"
	// ReasonPlanInvalid means that the agent cannot carry out its plan.
	ReasonPlanInvalid = "PlanInvalid"
	// ReasonAgentPanicked means that a part of the agent panicked, which is a bug.
	ReasonAgentPanicked = "AgentPanicked"
	// ReasonEraseFailed means that a disk could not be erased, or is not there.
	ReasonEraseFailed = "EraseFailed"
)

// AgentFailureReasons are all of them. A boot server refuses any other one.
var AgentFailureReasons = []string{
	ReasonNoDiskMatches,
	ReasonSeveralDisksMatch,
	ReasonDiskProtected,
	ReasonDiskBusy,
	ReasonDiskTooSmall,
	ReasonSectorSizeDiffers,
	ReasonDataSourceOnOtherDisk,
	ReasonDiskFailed,
	ReasonNoBootLoader,
	ReasonPartitionTableInvalid,
	ReasonImageCorrupt,
	ReasonBootServerUnreachable,
	ReasonCommitUnknown,
	ReasonVersionDiffers,
	ReasonOtherServer,
	ReasonPlanInvalid,
	ReasonAgentPanicked,
	ReasonEraseFailed,
}
