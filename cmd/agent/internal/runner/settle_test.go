package runner

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/disk"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

// changing are disks whose list changes with the time of the bubble, and with the number of lists.
type changing struct {
	files   FileDisks
	started time.Time
	lists   int
	change  func(since time.Duration, lists int, all []disk.Disk) []disk.Disk
}

func (c *changing) List(ctx context.Context) ([]disk.Disk, error) {
	all, err := c.files.List(ctx)
	c.lists++
	return c.change(time.Since(c.started), c.lists, all), err
}

func (c *changing) Read(d disk.Disk) (ReadCloser, error) { return c.files.Read(d) }

func (c *changing) Open(d disk.Disk) (disk.Device, error) { return c.files.Open(d) }

// secondAfter hides the second disk for some time.
func secondAfter(wait time.Duration) func(time.Duration, int, []disk.Disk) []disk.Disk {
	return func(since time.Duration, _ int, all []disk.Disk) []disk.Disk {
		if since < wait {
			return all[:1]
		}
		return all
	}
}

// TestLateDisk: a disk whose controller finds it seconds after the others is erased, or fails the erasure if the server did not have it.
func TestLateDisk(t *testing.T) {
	for policy, late := range map[wire.ErasePolicy]time.Duration{wire.PolicyMetadata: time.Second, wire.PolicyClear: 5 * time.Second} {
		f := newFiles(t, "S1", "S2")
		before := contentOf(t, f, 1)
		synctest.Test(t, func(t *testing.T) {
			g := NewWithT(t)
			c := &Cleaner{Disks: &changing{files: f, started: time.Now(), change: secondAfter(late)}, Log: slog.New(slog.DiscardHandler)}
			result := c.Run(t.Context(), cleanPlan(agent.CleanPlan{Policy: policy, AllDisks: true, Expected: []wire.DiskIdentity{{SerialNumber: "S1"}}}), ignore)
			g.Expect(result.Failure).To(HaveField("Message", ContainSubstring("S2")))
			g.Expect(contentOf(t, f, 1)).To(Equal(before))

			c.Disks = &changing{files: f, started: time.Now(), change: secondAfter(late)}
			result = c.Run(t.Context(), cleanPlan(agent.CleanPlan{Policy: policy, AllDisks: true}), ignore)
			g.Expect(result.Failure).To(BeNil())
			g.Expect(result.Disks).To(And(HaveLen(2), HaveEach(HaveField("Outcome", wire.Erased))))
		})
	}
}

// TestWatchedDisksHaveSettled: a plan does not wait for disks that a watch saw long before.
func TestWatchedDisksHaveSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		var w watch
		one := []disk.Disk{rackDisk("sda", "A")}
		first := w.changed(one)
		time.Sleep(settledFor) // of the bubble's clock
		g.Expect(w.changed(one)).To(Equal(first))
		g.Expect(time.Since(w.changed(append(one, rackDisk("sdb", "B"))))).To(BeZero())
	})
}

// TestNameOfAnotherDisk: nothing is erased if a name belongs to another disk than when the disks were listed.
func TestNameOfAnotherDisk(t *testing.T) {
	for policy, settled := range map[wire.ErasePolicy]time.Duration{wire.PolicyMetadata: settledForKnown, wire.PolicyClear: settledFor} {
		f := newFiles(t, "S1", "KEPT")
		before := [][]byte{contentOf(t, f, 0), contentOf(t, f, 1)}
		synctest.Test(t, func(t *testing.T) {
			g := NewWithT(t)
			disks := &changing{files: f, started: time.Now(), change: func(_ time.Duration, lists int, all []disk.Disk) []disk.Disk {
				if lists > int((settled+listInterval-1)/listInterval)+1 { // after the last list of the wait
					all[0].SerialNumber, all[1].SerialNumber = all[1].SerialNumber, all[0].SerialNumber
				}
				return all
			}}
			c := &Cleaner{Disks: disks, Log: slog.New(slog.DiscardHandler)}
			result := c.Run(t.Context(), cleanPlan(agent.CleanPlan{Policy: policy, AllDisks: true, Keep: []wire.KeptDisk{{SerialNumber: "KEPT"}}}), ignore)
			g.Expect(result.Failure).To(HaveField("Message", ContainSubstring("its name is that of another disk now")))
			g.Expect(result.Disks).To(BeEmpty())
		})
		NewWithT(t).Expect([][]byte{contentOf(t, f, 0), contentOf(t, f, 1)}).To(Equal(before))
	}
}

// TestDiskChangesBeforeWrite: no image is written if the name of the selected disk belongs to another disk by then, or the disk has another size.
func TestDiskChangesBeforeWrite(t *testing.T) {
	for name, change := range map[string]func(*disk.Disk){
		"name": func(d *disk.Disk) { d.SerialNumber = "S2" },
		"size": func(d *disk.Disk) { d.SizeBytes += 1 << 30 },
	} {
		t.Run(name, func(t *testing.T) {
			p, f := newProvisioner(t, newBoots())
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				p.Disks = &changing{files: f, started: time.Now(), change: func(_ time.Duration, lists int, all []disk.Disk) []disk.Disk {
					if lists > int(settledFor/listInterval)+1 { // after the last list of the wait
						change(&all[0])
					}
					return all
				}}
				result := p.Run(t.Context(), provisionPlan(nil), ignore)
				g.Expect(result.Failure).To(And(HaveField("Reason", wire.ReasonDiskFailed), HaveField("Message", ContainSubstring("nothing was written"))))
				g.Expect(result.Written.Disk.SerialNumber).To(Equal("S1"))
			})
			NewWithT(t).Expect(bootable(t, f)).To(BeFalse())
		})
	}
}

// TestLateDiskWithSameSerial: a serial number that a second disk has too selects none of them, also if the second one appears later.
func TestLateDiskWithSameSerial(t *testing.T) {
	p, f := newProvisioner(t, newBoots())
	second := FileDisks{f[0], newFiles(t, "S2")[0]}
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		p.Disks = &changing{files: second, started: time.Now(), change: func(since time.Duration, lists int, all []disk.Disk) []disk.Disk {
			all[1].SerialNumber = all[0].SerialNumber
			return secondAfter(time.Second)(since, lists, all)
		}}
		result := p.Run(t.Context(), provisionPlan(func(p *agent.ProvisionPlan) { p.DataSource, p.DataSize = wire.DataSourceNone, 0 }), ignore)
		g.Expect(result.Failure).To(HaveField("Reason", wire.ReasonSeveralDisksMatch))
	})
	NewWithT(t).Expect(bootable(t, f)).To(BeFalse())
}
