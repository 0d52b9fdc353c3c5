package agent

import "time"

// Limits of the protocol.
const (
	// MaxLog is the maximum size of a log tail, in bytes.
	MaxLog = 32 << 10
	// MaxInventory is the maximum size of a wire.Inspection as JSON, in bytes: the agent leaves out what is least useful, and says so in problems. A
	// BareMetalInspection, which has a number and a time as well, has at most 32 KiB then.
	MaxInventory = 31 << 10
	// MaxPlan is the maximum size of a Hello, MaxDisk that of a DataRequest and of a CommitRequest, and MaxProgress that of a Progress, as JSON, in bytes.
	MaxPlan     = 8 << 10
	MaxDisk     = 8 << 10
	MaxProgress = 64 << 10
	// MaxProgressDisks is the maximum number of disks in a Progress, and MaxErasedDisks that of a Result.
	MaxProgressDisks = 64
	MaxErasedDisks   = 64
	// MaxBody is the maximum size of any request body, in bytes, and that of a Result, which has at most MaxErasedDisks disks, with about 1 KiB each and up to 4 KiB.
	MaxBody = 256 << 10
	// MaxPoll is how long the boot server may hold a request for a plan or a commit that it cannot answer yet.
	MaxPoll = 30 * time.Second
)
