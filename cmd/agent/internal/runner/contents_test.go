package runner

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/disk"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/erase"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/hardware"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

// rack are disks whose content the test decides.
type rack struct {
	disks []disk.Disk
	// read are the contents by the names of the disks. What is missing hangs.
	read map[string]func() (ReadCloser, error)
}

func (r rack) List(context.Context) ([]disk.Disk, error) {
	return append([]disk.Disk{}, r.disks...), nil
}

func (r rack) Read(d disk.Disk) (ReadCloser, error) { return r.read[d.Name]() }

func (rack) Open(disk.Disk) (disk.Device, error) {
	return nil, errors.New("the test opens no disk for writing")
}

// sectors has the same sector everywhere.
type sectors string

func (s sectors) ReadAt(b []byte, offset int64) (int, error) {
	for i := range b {
		b[i] = s[(offset+int64(i))%int64(len(s))]
	}
	return len(b), nil
}

func (sectors) Close() error { return nil }

// broken returns errors.
type broken struct{}

func (broken) ReadAt([]byte, int64) (int, error) { return 0, io.ErrUnexpectedEOF }
func (broken) Close() error                      { return nil }

func rackDisk(name, serial string) disk.Disk {
	return disk.Disk{InspectedDisk: wire.InspectedDisk{Name: name, SerialNumber: serial, SizeBytes: 8 << 30}}
}

func opens(r ReadCloser) func() (ReadCloser, error) {
	return func() (ReadCloser, error) { return r, nil }
}

var blank = sectors(strings.Repeat("\x00", 512))

// TestUnreadableDisks: a disk that returns errors, cannot be opened, or does not answer is not one without signatures. The others are read.
func TestUnreadableDisks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		release := make(chan struct{})
		r := rack{
			disks: []disk.Disk{rackDisk("sda", "A"), rackDisk("sdb", "B"), rackDisk("sdc", "C"), rackDisk("sdd", "D"), rackDisk("sde", "E")},
			read: map[string]func() (ReadCloser, error){
				"sda": opens(sectors("LABELONE" + strings.Repeat("\x00", 504))), "sdb": opens(broken{}), "sde": opens(blank),
				"sdc": func() (ReadCloser, error) { return nil, errors.New("no medium") },
				"sdd": func() (ReadCloser, error) { <-release; return blank, nil },
			},
		}
		all, err := r.List(t.Context())
		g.Expect(err).NotTo(HaveOccurred())
		readContents(t.Context(), r, all, slog.New(slog.DiscardHandler))
		close(release)
		g.Expect(all[0].Found).NotTo(BeEmpty())
		g.Expect(all[0].Unreadable).To(BeEmpty())
		g.Expect(all[1].Unreadable).To(ContainSubstring("unexpected EOF"))
		g.Expect(all[2].Unreadable).To(ContainSubstring("no medium"))
		g.Expect(all[3].Unreadable).To(ContainSubstring("in time"))
		g.Expect(all[4].Unreadable).To(BeEmpty())
		g.Expect(all[4].Found).To(BeEmpty())
	})
}

// TestInspectDisks: the report has what the disks carry, that one cannot be read, and that two devices are one disk.
func TestInspectDisks(t *testing.T) {
	g := NewWithT(t)
	r := rack{
		disks: []disk.Disk{rackDisk("sda", "A"), rackDisk("sdb", "B"), rackDisk("sdc", "C"), rackDisk("sdd", "C")},
		read: map[string]func() (ReadCloser, error){
			"sda": opens(sectors("LABELONE" + strings.Repeat("\x00", 504))), "sdb": opens(broken{}), "sdc": opens(blank), "sdd": opens(blank),
		},
	}
	r.disks[2].Paths, r.disks[3].Paths = []string{"sdd"}, []string{"sdc"}
	var sent wire.Inspection
	inspector := &Inspector{Disks: r, Hardware: hardware.Source{Root: t.TempDir()}, Log: slog.New(slog.DiscardHandler), Send: func(_ context.Context, i wire.Inspection) error {
		sent = i
		return nil
	}}
	g.Expect(inspector.Run(t.Context(), &agent.Plan{Purpose: agent.Inspect, Inspect: &agent.InspectPlan{}}, ignore).Failure).To(BeNil())
	g.Expect(sent.Disks).To(HaveLen(4))
	g.Expect(sent.Disks[0].Signatures).To(Equal([]string{"lvm2"}))
	g.Expect(sent.Disks[0].Protected).To(BeEmpty())
	g.Expect(sent.Disks[1].Protected).To(ContainSubstring("unknown"))
	g.Expect(sent.Problems).To(ContainElement(ContainSubstring("disk sdb: it cannot be read")))
	g.Expect(sent.Disks[2].Protected).To(ContainSubstring("the same disk as sdd"))
	g.Expect(sent.Disks[3].Protected).To(ContainSubstring("the same disk as sdc"))
}

// TestCleanPaths: a disk that has two paths is not erased through one of them.
func TestCleanPaths(t *testing.T) {
	g := NewWithT(t)
	all := []disk.Disk{rackDisk("sda", "A"), rackDisk("sdb", "A")}
	all[0].Paths, all[1].Paths = []string{"sdb"}, []string{"sda"}
	plan := agent.CleanPlan{Policy: wire.PolicyMetadata, Ranges: []agent.DiskRange{{Disk: wire.DiskIdentity{SerialNumber: "A", SizeBytes: 8 << 30}, Offset: 1 << 30, Length: 1 << 20}}}
	for _, disks := range [][]disk.Disk{all, all[:1]} {
		results, failure := erase.Run(t.Context(), plan, disks, erase.Options{Open: rack{}.Open})
		g.Expect(failure).To(HaveField("Message", ContainSubstring("the same disk as sdb")))
		g.Expect(results).To(HaveEach(HaveField("Outcome", agent.Failed)))
	}
}
