package erase

import (
	"slices"
	"sync"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/disk"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

// progress has the progress of the disks that are being erased, and of those that have a result.
type progress struct {
	report func([]wire.DiskProgress)

	mu    sync.Mutex
	disks []wire.DiskProgress
}

// set reports the progress of a disk, also if it has not changed: without a report for half an hour the provider ends the attempt.
func (p *progress) set(d wire.DiskProgress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := slices.IndexFunc(p.disks, func(other wire.DiskProgress) bool { return other.Name == d.Name })
	if at < 0 {
		p.disks = append(p.disks, d)
	} else {
		p.disks[at] = d
	}
	if p.report != nil {
		p.report(slices.Clone(p.disks[:min(len(p.disks), agent.MaxProgressDisks)]))
	}
}

// done reports that a disk has a result. It stays in the report, so that the number of disks does not change.
func (p *progress) done(d disk.Disk) {
	p.set(wire.DiskProgress{Name: d.Name, SerialNumber: d.SerialNumber, Percent: 100})
}

// progressOf returns the progress of a disk. The rest of the time is estimated by the time so far.
func progressOf(d disk.Disk, method string, percent int, started time.Time) wire.DiskProgress {
	percent = max(0, min(percent, 100))
	p := wire.DiskProgress{Name: d.Name, SerialNumber: d.SerialNumber, Method: method, Percent: int32(percent)} //nolint:gosec // it is limited
	if percent > 0 {
		p.SecondsLeft = int64(time.Since(started).Seconds()) * int64(100-percent) / int64(percent)
	}
	return p
}
