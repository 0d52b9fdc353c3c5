package erase

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/disk"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/drive"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/drive/drivetest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

const size = 3 * mib

// secret is what the last owner has on the disk: as data, as metadata at the start, and in the backup at the end.
var secret = []byte("the secret of the last owner")

// rackDisk is a disk of a rack.
type rackDisk struct {
	disk  disk.Disk
	drive *drivetest.Drive
	index int
}

// rack are the disks of a server.
type rack struct {
	parts []rackDisk
	// opens is called before a disk is opened.
	opens func(d disk.Disk) error
	// contents changes a disk that is read again.
	contents func(d *disk.Disk)
	progress [][]wire.DiskProgress
}

// add adds a drive with its namespaces. change changes its disks.
func (r *rack) add(name string, d *drivetest.Drive, change func(*disk.Disk)) *drivetest.Drive {
	transport := map[drive.Kind]wire.DiskTransport{
		drive.NVMe: wire.TransportNVMe, drive.ATA: wire.TransportSATA, drive.SCSI: wire.TransportSAS, drive.Block: wire.TransportVirtio,
	}[d.Kind]
	for i := 0; ; i++ {
		device, name := d.Namespace(i), name
		if d.Kind == drive.NVMe {
			name = fmt.Sprintf("%sn%d", name, i+1)
		}
		one := disk.Disk{InspectedDisk: wire.InspectedDisk{Name: name, SerialNumber: "S-" + name, SizeBytes: device.Size(), LogicalSectorBytes: 512, Transport: transport}}
		if change != nil {
			change(&one)
		}
		for _, at := range []int{0, mib + 77*512, size - 33*512} {
			d.Write(i, at, secret)
		}
		r.parts = append(r.parts, rackDisk{one, d, i})
		if i+1 == d.Namespaces() {
			return d
		}
	}
}

func (r *rack) find(d disk.Disk) rackDisk {
	return r.parts[slices.IndexFunc(r.parts, func(p rackDisk) bool { return p.disk.Name == d.Name })]
}

func (r *rack) disks() []disk.Disk {
	var out []disk.Disk
	for _, p := range r.parts {
		out = append(out, p.disk)
	}
	return out
}

func (r *rack) options() Options {
	return Options{
		Open: func(d disk.Disk) (disk.Device, error) {
			if r.opens != nil {
				if err := r.opens(d); err != nil {
					return nil, err
				}
			}
			return r.find(d).drive.Namespace(r.find(d).index), nil
		},
		Port: func(d disk.Disk) drive.Port { return r.find(d).drive.Port(r.find(d).index) },
		Contents: func(_ context.Context, d disk.Disk) disk.Disk {
			d.Unreadable = ""
			if r.contents != nil {
				r.contents(&d)
			}
			return d
		},
		Report: func(p []wire.DiskProgress) { r.progress = append(r.progress, p) },
	}
}

// run erases the disks of a rack in a bubble with its own clock.
func (r *rack) run(t *testing.T, plan agent.CleanPlan) (results map[string]agent.ErasedDisk, failure *agent.Failure) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		results, failure = r.runIn(t.Context(), plan)
	})
	return results, failure
}

func (r *rack) runIn(ctx context.Context, plan agent.CleanPlan) (map[string]agent.ErasedDisk, *agent.Failure) {
	out := map[string]agent.ErasedDisk{}
	all, failure := Run(ctx, plan, r.disks(), r.options())
	for _, d := range all {
		out[d.Name] = d
	}
	return out, failure
}

func hasSecret(d *drivetest.Drive, i int) bool { return bytes.Contains(d.Medium(i), secret) }

func only(kind drive.Kind, change func(*drivetest.Drive)) *drivetest.Drive {
	d := drivetest.New(kind, 1, size, 1)
	if change != nil {
		change(d)
	}
	return d
}
