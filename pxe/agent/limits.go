package agent

import "time"

// Limits of the protocol.
const (
	// MaxLog is the maximum size of a log tail, in bytes.
	MaxLog = 32 << 10
	// MaxInventory is the maximum size of a wire.Inspection as JSON, in bytes: the agent leaves out what is least useful, and says so in problems. A
	// BareMetalInspection, which has a number and a time as well, has at most 32 KiB then.
	MaxInventory = 31 << 10
	// MaxPlan, MaxDisk and MaxProgress are maximum sizes as JSON, in bytes: of a Hello, of a DataRequest or CommitRequest, and of a Progress.
	MaxPlan     = 8 << 10
	MaxDisk     = 8 << 10
	MaxProgress = 64 << 10
	// MaxProgressDisks is the maximum number of disks in a Progress, MaxErasedDisks in a Result.
	MaxProgressDisks = 64
	MaxErasedDisks   = 64
	// MaxBody is the maximum size of any request body, in bytes. The largest is a Result: it has up to MaxErasedDisks disks, with about 1 KiB each and up to 4 KiB.
	MaxBody = 256 << 10
	// MaxPoll is how long the boot server may hold a request for a plan or a commit that it cannot answer yet.
	MaxPoll = 30 * time.Second
)
