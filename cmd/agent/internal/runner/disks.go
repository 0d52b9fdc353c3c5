// Package runner carries out the plans of the boot server on the disks of a server: it selects the disk, lets the packages image and erase work on it, and
// makes a result of what they return.
package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/disk"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/failure"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/retry"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

// DiskReader reads the disks of a server, and cannot write to one.
type DiskReader interface {
	// List returns the disks without their signatures. It omits a disk whose driver has not found it yet.
	List(ctx context.Context) ([]disk.Disk, error)
	// Read opens a disk for reading.
	Read(d disk.Disk) (ReadCloser, error)
}

// ReadCloser is a disk that is open for reading.
type ReadCloser interface {
	io.ReaderAt
	io.Closer
}

// Disks are the disks of a server.
type Disks interface {
	DiskReader
	// Open opens a disk for writing. The error wraps disk.ErrBusy if something else holds it.
	Open(d disk.Disk) (disk.Device, error)
}

// KernelDisks are the disks of the running kernel. The zero value is ready.
type KernelDisks struct{ watch watch }

// Watch lists the disks until ctx ends, so that a plan that comes later does not have to wait until the list has settled.
func (k *KernelDisks) Watch(ctx context.Context) error {
	for {
		if all, err := k.List(ctx); err == nil { // a plan gets the error too
			k.watch.changed(all)
		}
		if err := retry.Pause(ctx, listInterval); err != nil {
			return err
		}
	}
}

func (k *KernelDisks) changed(all []disk.Disk) time.Time { return k.watch.changed(all) }

// List implements Disks.
func (*KernelDisks) List(ctx context.Context) ([]disk.Disk, error) {
	return disk.List(ctx, disk.Kernel)
}

// Read implements Disks.
func (*KernelDisks) Read(d disk.Disk) (ReadCloser, error) { return os.Open(d.Node) }

// Open implements Disks.
func (*KernelDisks) Open(d disk.Disk) (disk.Device, error) { return disk.Open(d.Node) }

// FileDisks are files that are the disks of a server. The base name of a file is the serial number of its disk. A file that does not exist is a disk that is missing.
type FileDisks []string

// List implements Disks.
func (f FileDisks) List(context.Context) ([]disk.Disk, error) {
	var all []disk.Disk
	for i, name := range f {
		info, err := os.Stat(name)
		switch {
		case errors.Is(err, os.ErrNotExist):
			continue
		case err != nil:
			return nil, err
		}
		all = append(all, disk.Disk{
			InspectedDisk: wire.InspectedDisk{
				Name: fmt.Sprintf("file%d", i), Model: "File", SerialNumber: filepath.Base(name), SizeBytes: info.Size(), LogicalSectorBytes: fileSector, PhysicalSectorBytes: fileSector,
				Transport: wire.TransportOther,
			},
			Node: name,
		})
	}
	return all, nil
}

// changed returns the zero time: no controller finds files late.
func (FileDisks) changed([]disk.Disk) time.Time { return time.Time{} }

// fileSector is the sector size of FileDisks.
const fileSector = 512

// Read implements Disks.
func (FileDisks) Read(d disk.Disk) (ReadCloser, error) { return os.Open(d.Node) }

// Open implements Disks.
func (FileDisks) Open(d disk.Disk) (disk.Device, error) { return disk.OpenFile(d.Node, fileSector) }

const (
	// disksFor is how long a disk that the plan wants may appear after the others: controllers find their disks one after the other.
	disksFor = 30 * time.Second
	// listInterval is between two lists.
	listInterval = 2 * time.Second
	// settledFor is how long no other disk may appear before one is selected that the plan does not identify. Controllers find their disks seconds after each
	// other, and the smallest disk may be the last.
	settledFor = 8 * time.Second
	// settledForKnown is the same for a plan that names its disks, and for the policy Metadata, which takes seconds: the disks of one controller, and the paths to one
	// disk, appear together. A serial number that several disks have is noticed only if all of them are there.
	settledForKnown = 2 * time.Second
)

// awaitDisks lists the disks, with their signatures, until found returns nil or time is up. The list must not have changed for the time
// settled. It returns the last list, and what found returned.
func awaitDisks(ctx context.Context, disks Disks, log *slog.Logger, found func([]disk.Disk) error, settled time.Duration) ([]disk.Disk, error) {
	deadline := time.Now().Add(disksFor)
	known, ok := disks.(interface{ changed([]disk.Disk) time.Time })
	if !ok {
		known = &watch{}
	}
	for {
		all, err := disks.List(ctx)
		if err != nil {
			return nil, err
		}
		if wait := settled - time.Since(known.changed(all)); wait > 0 && time.Now().Before(deadline) {
			log.Info("Other disks may still appear", "seen", len(all))
			if err := retry.Pause(ctx, min(wait, listInterval)); err != nil {
				return all, err
			}
			continue
		}
		readContents(ctx, disks, all, log)
		err = found(all)
		if err == nil || !failure.HasReason(err, wire.ReasonNoDiskMatches) && !failure.HasReason(err, wire.ReasonEraseFailed) || time.Now().After(deadline) {
			return all, err
		}
		log.Info("Waiting for a disk", "seen", len(all), "error", err)
		if err := retry.Pause(ctx, listInterval); err != nil {
			return all, err
		}
	}
}

// pinDisks opens the disks for reading until release is called: the kernel gives the name of an open disk to no other disk, also if the open one goes away. It fails if a
// name no longer belongs to the disk that was listed, or if the disk has another size.
func pinDisks(ctx context.Context, disks DiskReader, all []disk.Disk, log *slog.Logger) (release func(), err error) {
	var pinned []ReadCloser
	release = func() {
		for _, p := range pinned {
			_ = p.Close() // nothing was written through it
		}
	}
	for _, d := range all {
		opened, err := disks.Read(d)
		if err != nil {
			log.Warn("A disk cannot be held open", "disk", d.Name, "serial", d.SerialNumber, "error", err)
			continue
		}
		pinned = append(pinned, opened)
	}
	again, err := disks.List(ctx)
	if err != nil {
		return release, err
	}
	for _, d := range all {
		if !slices.ContainsFunc(again, func(a disk.Disk) bool { return a.Name == d.Name && a.ID() == d.ID() }) {
			return release, failure.New(wire.ReasonDiskFailed, "the disk %s (serial number %s) went away, or its name is that of another disk now: nothing was written", d.Name, d.SerialNumber)
		}
	}
	return release, nil
}

// watch notes when the list of disks last changed. The zero value is ready.
type watch struct {
	mu    sync.Mutex
	names string
	since time.Time
}

// changed notes a list, and returns when the list last changed: now for the first one.
func (w *watch) changed(all []disk.Disk) time.Time {
	names := namesOf(all)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.since.IsZero() || names != w.names {
		w.names, w.since = names, time.Now()
	}
	return w.since
}

// namesOf returns the names of disks as one text.
func namesOf(all []disk.Disk) string {
	var names strings.Builder
	for _, d := range all {
		names.WriteString(d.Name + " " + d.SerialNumber + "\n")
	}
	return names.String()
}

// openDisk opens a disk for writing.
func openDisk(disks Disks, d disk.Disk) (disk.Device, error) {
	device, err := disks.Open(d)
	switch {
	case errors.Is(err, disk.ErrBusy):
		return nil, failure.New(wire.ReasonDiskBusy, "the disk %s (serial number %s) is held by something else%s: %w", d.Name, d.SerialNumber, holders(d), err)
	case err != nil:
		return nil, failure.New(wire.ReasonDiskFailed, "the disk %s (serial number %s) cannot be opened: %w", d.Name, d.SerialNumber, err)
	default:
		return device, nil
	}
}

func holders(d disk.Disk) string {
	if len(d.Holders) == 0 {
		return ""
	}
	return fmt.Sprintf(" (%v)", d.Holders)
}

// resultOf returns the result of an error; nil is a success.
func resultOf(err error) agent.Result {
	if err == nil {
		return agent.Result{}
	}
	if f := failure.Of(err); f != nil {
		return agent.Result{Failure: f}
	}
	return agent.Result{Failure: &agent.Failure{Reason: wire.ReasonBootServerUnreachable, Message: err.Error()}}
}
