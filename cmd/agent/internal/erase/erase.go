// Package erase carries out the plan Clean of the policy Metadata: it overwrites the bootstrap data of the machine that had the server, and what makes its
// disks bootable or readable as its disks: partition tables, the beginnings of partitions, signatures. It reads back everything that it overwrote. It does not
// erase the data of a machine, and claims nothing about it.
//
// The order on each disk survives a power cut at any moment: a second run finds everything that the first one did not reach.
//
//  1. The ranges of the plan, which are known without the disk's help. They are the only secret.
//  2. The beginnings of partitions, and signatures. The partition tables say where they are, so the tables are still there.
//  3. The backup of the partition table with the end of the disk, and tables inside of it.
//  4. The partition table with the beginning of the disk.
//
// Each step is flushed and read back before the next one begins.
package erase

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

// Device is a disk that is open for writing. Offsets and lengths are multiples of SectorSize.
type Device interface {
	io.ReaderAt
	// ZeroRange writes zeros.
	ZeroRange(offset, length int64) error
	// Flush returns when all that was written is on the medium, and drops caches: a read after it comes from the medium.
	Flush() error
	Size() int64
	SectorSize() int
	Close() error
}

// Disk is a disk of the server.
type Disk struct {
	ID agent.DiskID
	// Name is the kernel's name, for messages.
	Name string
	// ByPathAlias is another name in /dev/disk/by-path, or empty.
	ByPathAlias string
	// Protected says why no plan touches the disk. It is empty for a disk that may be written to.
	Protected string
	// Open opens the disk for writing.
	Open func() (Device, error)
}

// Area is a part of a disk, in bytes.
type Area struct {
	Offset, Length int64
	// Table is true for a part of a partition table outside of the first and the last MiB, such as the chain of logical partitions in an MBR.
	Table bool
}

// Finder finds what a disk carries. Both functions leave out what is damaged. An error means that the disk cannot be read.
type Finder struct {
	// Partitions returns the partitions, from the primary and the backup table, and other parts of the tables.
	Partitions func(r io.ReaderAt, size int64, sector int) ([]Area, error)
	// Signatures returns the magic numbers of file systems, volume managers and RAIDs.
	Signatures func(r io.ReaderAt, size int64, sector int) ([]Area, error)
}

// Result is the outcome of a plan.
type Result struct {
	// Failure is nil if all disks were erased.
	Failure *agent.Failure
	// Warnings name the disks that AllDisks leaves out.
	Warnings []string
	// Outcomes are what became of the disks that the plan means, also of those that must not be touched or are missing.
	Outcomes []Outcome
}

// Outcome is what became of a disk.
type Outcome struct {
	// Disk has only an ID if it is missing.
	Disk Disk
	// Err is nil if the disk was erased and read back.
	Err error
	// Bytes is how many bytes were overwritten and read back.
	Bytes          int64
	Started, Ended time.Time
}

// Clean carries out a plan. All disks are erased at the same time, and one that fails does not stop the others. Clean may be repeated at any time. It returns
// at the end of ctx; a disk that hangs in the kernel is left alone then, and is a failure.
func Clean(ctx context.Context, plan agent.CleanPlan, disks []Disk, find Finder) Result {
	var result Result
	todo, problems := selectDisks(plan, disks, &result)
	answers := make(chan answer, len(todo))
	for _, t := range todo {
		go func() {
			started := time.Now().UTC()
			bytes, err := t.erase(ctx, find)
			answers <- answer{t, err, Outcome{Disk: t.disk, Err: err, Bytes: bytes, Started: started, Ended: time.Now().UTC()}}
		}()
	}
	waiting := slices.Clone(todo)
	for len(waiting) > 0 {
		select {
		case a := <-answers:
			waiting = slices.DeleteFunc(waiting, func(t *task) bool { return t == a.task })
			result.Outcomes = append(result.Outcomes, a.outcome)
			if a.err != nil {
				problems = append(problems, problem{agent.ReasonEraseFailed, fmt.Sprintf("%s: %v", name(a.task.disk), a.err)})
			}
		case <-ctx.Done():
			for _, t := range waiting {
				err := fmt.Errorf("it was not erased in time: %w", context.Cause(ctx))
				problems = append(problems, problem{agent.ReasonEraseFailed, fmt.Sprintf("%s: %v", name(t.disk), err)})
				result.Outcomes = append(result.Outcomes, Outcome{Disk: t.disk, Err: err})
			}
			waiting = nil
		}
	}
	result.Failure = failureOf(problems)
	return result
}

type answer struct {
	task    *task
	err     error
	outcome Outcome
}

// problem is why a disk was not erased.
type problem struct{ reason, message string }

// maxMessage is the maximum number of problems in a message.
const maxMessage = 16

// failureOf returns one failure for all problems. A plan that must not be carried out comes before disks that failed.
func failureOf(problems []problem) *agent.Failure {
	if len(problems) == 0 {
		return nil
	}
	reason := agent.ReasonEraseFailed
	var messages []string
	for _, p := range problems {
		if p.reason != agent.ReasonEraseFailed {
			reason = p.reason
		}
		messages = append(messages, p.message)
	}
	slices.Sort(messages)
	if more := len(messages) - maxMessage; more > 0 {
		messages = append(messages[:maxMessage], fmt.Sprintf("and %d more disks", more))
	}
	return &agent.Failure{Reason: reason, Message: strings.Join(messages, "; ")}
}

// name returns how messages name a disk: always with its serial number, if it has one.
func name(d Disk) string {
	return fmt.Sprintf("disk %.32s (%s)", d.Name, describe(d.ID))
}

func describe(id agent.DiskID) string {
	switch {
	case id.Serial != "":
		return fmt.Sprintf("serial number %.64q", id.Serial)
	case id.WWN != "":
		return fmt.Sprintf("WWN %.64q", id.WWN)
	default:
		return fmt.Sprintf("path %.128q", id.ByPath)
	}
}
