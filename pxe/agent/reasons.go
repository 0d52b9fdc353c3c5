package agent

// Failure is why a plan failed.
type Failure struct {
	// Reason is one of the Reasons.
	Reason string `json:"reason"`
	// Message says what was observed, and what to check.
	Message string `json:"message"`
}

// The reasons of failures.
const (
	// ReasonNoDisk means that no disk matches, and ReasonSeveralDisks that several do. The message lists all disks.
	ReasonNoDisk       = "NoDiskMatches"
	ReasonSeveralDisks = "SeveralDisksMatch"
	// ReasonProtectedDisk means that the disk must not be touched: it is mounted, read-only, removable, carries a shared file system, or is kept.
	ReasonProtectedDisk = "DiskProtected"
	// ReasonDiskBusy means that something holds the disk, such as md or LVM.
	ReasonDiskBusy = "DiskBusy"
	// ReasonDiskTooSmall and ReasonSectorSize mean that the image does not fit the disk.
	ReasonDiskTooSmall = "DiskTooSmall"
	ReasonSectorSize   = "SectorSizeDiffers"
	// ReasonDataLabel means that another disk has a file system with the label of the data source.
	ReasonDataLabel = "DataSourceOnOtherDisk"
	// ReasonDiskFailed means that the disk reports errors, vanished, or returns other data than was written.
	ReasonDiskFailed = "DiskFailed"
	// ReasonNoBootLoader means that the image has no boot loader for the firmware that the server booted with.
	ReasonNoBootLoader = "NoBootLoader"
	// ReasonPartitionTable means that the partition table of the image is damaged, or has no space for the data partition.
	ReasonPartitionTable = "PartitionTableInvalid"
	// ReasonImageCorrupt means that the boot server sent a chunk or a manifest with another digest.
	ReasonImageCorrupt = "ImageCorrupt"
	// ReasonServerUnreachable means that the boot server did not answer for too long.
	ReasonServerUnreachable = "BootServerUnreachable"
	// ReasonCommitUnknown means that an earlier attempt left the disk in a state from which it cannot be told whether it was booted.
	ReasonCommitUnknown = "CommitUnknown"
	// ReasonVersion means that agent and boot server have different versions.
	ReasonVersion = "VersionDiffers"
	// ReasonOtherServer means that the agent runs on another server than the one that the plan is for. It touches no disk.
	ReasonOtherServer = "OtherServer"
	// ReasonPlanInvalid means that the plan cannot be carried out.
	ReasonPlanInvalid = "PlanInvalid"
	// ReasonPanic means that a part of the agent panicked, which is a bug.
	ReasonPanic = "AgentPanicked"
	// ReasonEraseFailed means that a disk could not be erased, or is not there.
	ReasonEraseFailed = "EraseFailed"
)
