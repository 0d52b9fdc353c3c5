package sanitize

import (
	"slices"
	"sync"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/disk"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

// board has the progress of the disks that are being erased, and of those that have a result.
type board struct {
	report func([]agent.DiskProgress)

	mu    sync.Mutex
	disks []agent.DiskProgress
}

// set reports the progress of a disk, also if it has not changed: without a report for half an hour the provider ends the attempt.
func (b *board) set(p agent.DiskProgress) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := slices.IndexFunc(b.disks, func(d agent.DiskProgress) bool { return d.Name == p.Name })
	if at < 0 {
		b.disks = append(b.disks, p)
	} else {
		b.disks[at] = p
	}
	b.send()
}

// done reports that a disk has a result. It stays on the board, so that the number of disks does not change.
func (b *board) done(d disk.Disk) {
	b.set(agent.DiskProgress{Name: d.Name, Serial: d.Serial, Percent: 100})
}

func (b *board) send() {
	if b.report != nil {
		b.report(slices.Clone(b.disks[:min(len(b.disks), agent.MaxProgressDisks)]))
	}
}

// progressOf returns the progress of a disk. The rest of the time is estimated by the time so far.
func progressOf(d disk.Disk, name string, percent int, started time.Time) agent.DiskProgress {
	percent = max(0, min(percent, 100))
	p := agent.DiskProgress{Name: d.Name, Serial: d.Serial, Method: name, Percent: percent}
	if percent > 0 {
		p.RemainingSeconds = int64(time.Since(started).Seconds()) * int64(100-percent) / int64(percent)
	}
	return p
}
