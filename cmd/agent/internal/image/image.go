// Package image writes an image and the bootstrap data to a disk, so that the disk is never bootable before it is complete:
//
//  1. The signatures of the disk, its first and its last MiB are zeroed, flushed and read back.
//  2. The image is written, each chunk after it was verified. The first MiB and the position of the backup GPT are withheld.
//  3. The bootstrap data is fetched and written. Everything is flushed, and read back from the medium.
//  4. The boot server gives the permission to commit: from here on the server may have booted the disk.
//  5. The first MiB without LBA 0 and 1 is written, then LBA 1, then LBA 0, and last the backup GPT, with a flush after each.
//
// LBA 0 decides. EDK2 reads a GPT only with a protective MBR in LBA 0 (PartitionDxe, Gpt.c), and so do Linux (block/partitions/efi.c, is_pmbr_valid) and GRUB.
// EDK2 also restores a primary GPT from a backup GPT in the last sector, which is why that one is written last.
//
// A failure before step 4 leaves an empty disk. After it the disk is completed, or the failure says what is on it.
package image

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/disk"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/failure"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/fit"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/retry"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image/gpt"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image/manifest"
)

// Source is where an image comes from: the boot server. An error is either a failure of the plan or final (see package retry), or the call is repeated.
type Source interface {
	// Manifest returns the manifest of the image.
	Manifest(ctx context.Context) (*manifest.Manifest, error)
	// Extent returns the content of a range of the image. What it returns is verified.
	Extent(ctx context.Context, offset, length int64) (io.ReadCloser, error)
	// Data reports where the data partition will be, and returns the beginning of its content. The rest is zeros.
	Data(ctx context.Context, where agent.DataRequest) ([]byte, error)
	// Commit returns nil once the disk may be made bootable. Calls are idempotent.
	Commit(ctx context.Context, request agent.CommitRequest) error
}

// Options are what Write needs.
type Options struct {
	// Device is the disk, open for writing, and Disk are its facts.
	Device disk.Device
	Disk   disk.Disk
	// Others are the other disks, with their signatures.
	Others []disk.Disk
	Source Source
	Plan   agent.ProvisionPlan
	// Firmware is how the server booted, Architecture that of the processor in the notation of Kubernetes.
	Firmware     wire.FirmwareMode
	Architecture string
	// Progress is called at most once a second, and must return at once. It may be nil.
	Progress func(agent.Progress)
}

// Result is what was written. It is valid after an error too.
type Result struct {
	agent.Written

	// Warnings are for a person.
	Warnings []string
}

// writer is one run of Write.
type writer struct {
	Options

	m        *manifest.Manifest
	head     []byte // the first chunk of the image
	layout   *fit.Layout
	unique   gpt.GUID
	data     []byte // the beginning of the data partition
	withheld []withheld
	tail     []byte // what the commit writes at layout.BackupOffset, or in the last sector
	tailAt   int64
	wiped    []span
	meter    *meter
	result   Result
}

// Write writes the image. The error is a failure.Error, a final error of the source, or that of ctx.
func Write(ctx context.Context, o Options) (Result, error) {
	w := &writer{Options: o, meter: newMeter(o.Progress)}
	start := time.Now()
	w.result.Written = agent.Written{Disk: o.Disk.ID(), Name: o.Disk.Name, Model: o.Disk.Model}
	err := w.run(ctx)
	w.result.Seconds = int64(time.Since(start).Seconds())
	return w.result, err
}

func (w *writer) run(ctx context.Context) error {
	if err := w.prepare(ctx); err != nil {
		return err // the disk is as it was
	}
	if err := w.beforeCommit(ctx); err != nil {
		return errors.Join(err, w.empty()) //nolint:contextcheck // ctx may have ended
	}
	return w.commit() //nolint:contextcheck // a commit that has begun is not interrupted
}

// beforeCommit is everything that leaves a disk which does not boot.
func (w *writer) beforeCommit(ctx context.Context) error {
	for _, step := range []func(context.Context) error{w.wipe, w.writeImage, w.writeData, w.verify, w.permission} {
		if ctx.Err() != nil { // not after the last step: a permission is used
			return context.Cause(ctx)
		}
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// permission asks for the permission to commit. If the answer is lost, the disk stays empty, and the next attempt finds it so.
func (w *writer) permission(ctx context.Context) error {
	w.meter.step(wire.StepCommitting, 0)
	return retry.Do(ctx, func(ctx context.Context) error {
		w.meter.add(0)
		return w.Source.Commit(ctx, agent.CommitRequest{Disk: w.Disk.ID()})
	})
}

// diskFailed is the failure of a disk that cannot be read or written.
func (w *writer) diskFailed(what string, offset int64, err error) error {
	return failure.New(wire.ReasonDiskFailed, "the disk %s (%s) failed to %s at byte %d: %w (replace the disk, or check its cable and controller)",
		w.Disk.Name, describe(w.Disk), what, offset, err)
}

func describe(d disk.Disk) string {
	if d.SerialNumber == "" {
		return "model " + d.Model + ", no serial number"
	}
	return "model " + d.Model + ", serial number " + d.SerialNumber
}
