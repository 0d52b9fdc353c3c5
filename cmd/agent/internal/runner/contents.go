package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/disk"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/failure"
)

// contentsTimeout is how long the signatures of the disks may take. A disk with defects keeps the kernel busy for longer.
const contentsTimeout = 2 * time.Minute

// contents is what a disk carries. unreadable is why that is not, or not all of it, known.
type contents struct {
	index      int
	found      []disk.Signature
	names      []string
	unreadable string
}

// readContents reads what the disks carry, all at once: a disk that does not answer delays no other one. What cannot be read, or not in time, is unknown.
func readContents(ctx context.Context, disks DiskReader, all []disk.Disk, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(ctx, contentsTimeout)
	defer cancel()
	answers := make(chan contents, len(all)) // a late answer blocks nobody
	waiting := map[int]bool{}
	for i, d := range all {
		waiting[i] = true
		go func() { answers <- contentsOf(disks, i, d) }()
	}
	for len(waiting) > 0 {
		select {
		case c := <-answers:
			delete(waiting, c.index)
			all[c.index].Found, all[c.index].PartitionNames, all[c.index].Unreadable = c.found, c.names, c.unreadable
		case <-ctx.Done():
			for i := range waiting {
				all[i].Unreadable = fmt.Sprintf("it could not be read in time: %v", context.Cause(ctx))
			}
			clear(waiting)
		}
	}
	for _, d := range all {
		if d.Unreadable != "" {
			log.Warn("A disk cannot be read", "disk", d.Name, "serial", d.SerialNumber, "error", d.Unreadable)
		}
	}
}

func contentsOf(disks DiskReader, index int, d disk.Disk) contents {
	c := contents{index: index}
	if err := c.read(disks, d); err != nil {
		c.unreadable = fmt.Sprintf("it cannot be read: %.200v", err)
	}
	return c
}

// read reads what is on a disk. An earlier machine may have written anything to it.
func (c *contents) read(disks DiskReader, d disk.Disk) (err error) {
	defer failure.Recover(&err)
	if d.SizeBytes == 0 {
		return errors.New("the kernel reports no size: its sectors have an unusual size (format it with sg_format), or it is defective")
	}
	opened, err := disks.Read(d)
	if err != nil {
		return err
	}
	c.found, err = disk.Signatures(opened, d.SizeBytes, d.Sector())
	c.names = disk.PartitionNames(opened, d.SizeBytes, d.Sector())
	return errors.Join(err, opened.Close())
}
