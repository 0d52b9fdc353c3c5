package erase

import (
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	"pgregory.net/rapid"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/disk"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/disk/disktest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image/gpt/gpttest"
)

const (
	usedSize = 17 * mib
	sector   = 512
)

// bootstrapData is at an offset that is no multiple of a sector.
var bootstrapData = area{12*mib + 100, 3*mib + 9}

// usedDisk is the disk of an old machine, and the areas of it that the policy Metadata overwrites.
type usedDisk struct {
	name  string
	disk  *disktest.Disk
	areas []area
}

func usedDisks() []usedDisk {
	withGPT := disktest.Random(1, usedSize)
	gpttest.PutGPT(withGPT, sector, []gpttest.Part{{First: 34, Last: 6000}, {First: 8192, Last: 22527}})
	raid := (8192 + 14320) * sector // the superblock of md 1.0 in the second partition, outside of its first MiB
	copy(withGPT[raid:], "\xfc\x4e\x2b\xa9\x01\x00\x00\x00")

	withMBR := disktest.Random(2, usedSize)
	gpttest.PutMBR(withMBR, []gpttest.Part{{First: 100, Last: 199, Type: 0x83}, {First: 8192, Last: 8703, Type: 0x83}, {First: 9 * 2048, Last: 14 * 2048, Type: 5}})
	gpttest.PutMBR(withMBR[9*mib:], []gpttest.Part{{First: 2048, Last: 6000, Type: 0x83}})

	common := []area{{0, mib}, {12 * mib, 3*mib + sector}, {usedSize - mib, mib}}
	return []usedDisk{
		{"GPT", diskWith(withGPT), append([]area{{mib, 34 * sector}, {4 * mib, mib}, {int64(raid), sector}}, common...)},
		{"MBR", diskWith(withMBR), append([]area{{4 * mib, mib / 4}, {9 * mib, mib}, {10 * mib, mib}}, common...)},
	}
}

func diskWith(content []byte) *disktest.Disk {
	d := disktest.New(usedSize, sector)
	d.Fill(0, content)
	return d
}

// check fails if a disk is not the used one with its metadata erased, and nothing else.
func (u usedDisk) check(g Gomega, d *disktest.Disk) {
	want := u.disk.Clone()
	for _, a := range u.areas {
		want.Fill(a.offset, make([]byte, a.length))
	}
	at := disktest.Differ(d, want)
	g.Expect(at).To(Equal(int64(-1)), "%s: the byte at %d MiB + %d", u.name, at/mib, at%mib)
}

// eraseMetadataOf erases the metadata of a disk.
func eraseMetadataOf(t *testing.T, d *disktest.Disk) (agent.ErasedDisk, *agent.Failure) {
	t.Helper()
	is := disk.Disk{InspectedDisk: wire.InspectedDisk{Name: "sda", SerialNumber: "S1", SizeBytes: usedSize, LogicalSectorBytes: sector}}
	plan := agent.CleanPlan{Policy: wire.PolicyMetadata, Ranges: []agent.DiskRange{{Disk: is.ID(), Offset: bootstrapData.offset, Length: bootstrapData.length}}}
	results, failure := Run(t.Context(), plan, []disk.Disk{is}, Options{Open: func(disk.Disk) (disk.Device, error) { return d, nil }})
	return results[0], failure
}

func TestMetadata(t *testing.T) {
	for _, u := range usedDisks() {
		g := NewWithT(t)
		d := u.disk.Clone()
		for range 2 { // the second time nothing changes
			got, failure := eraseMetadataOf(t, d)
			g.Expect(failure).To(BeNil())
			g.Expect(got).To(And(HaveField("Outcome", wire.Erased), HaveField("Class", wire.PolicyMetadata), HaveField("Verification.Kind", wire.ReadBack)))
			g.Expect(got.Verification.Bytes).To(BeNumerically(">=", 5*mib))
			u.check(g, d)
		}
	}
}

// TestMetadataPowerCut cuts the power at each write and flush. The second run completes what the first one did.
func TestMetadataPowerCut(t *testing.T) {
	for _, u := range usedDisks() {
		whole := u.disk.Clone()
		_, failure := eraseMetadataOf(t, whole)
		NewWithT(t).Expect(failure).To(BeNil())
		for _, op := range whole.Ops() {
			if op.Kind == disktest.Read {
				continue
			}
			for i := range 2 { // two of the six ways in which Cut loses writes
				seed := uint64(op.Index + 3*i)
				g := NewWithT(t)
				d := u.disk.Clone()
				d.Hook = func(is disktest.Op) error {
					if is.Index == op.Index {
						d.Cut(seed)
					}
					return nil
				}
				_, failure := eraseMetadataOf(t, d)
				g.Expect(failure).To(HaveField("Message", ContainSubstring(`serial number "S1"`)))
				again := d.Clone()
				_, failure = eraseMetadataOf(t, again)
				g.Expect(failure).To(BeNil())
				u.check(g, again)
			}
		}
	}
}

// TestMetadataFailures: a disk that fails, or returns other data than was written, is not erased.
func TestMetadataFailures(t *testing.T) {
	fails := func(kind disktest.Kind, err error) func(disktest.Op) error {
		return func(op disktest.Op) error {
			if op.Kind == kind {
				return err
			}
			return nil
		}
	}
	broken := errors.New("input/output error")
	for _, c := range []struct {
		name, message string
		hook          func(disktest.Op) error
	}{
		{"write", `disk sda (serial number "S1"): Overwrite of partition tables, signatures and bootstrap data: the bootstrap data: cannot write`, fails(disktest.Write, broken)},
		{"flush", "cannot flush: input/output error", fails(disktest.Flush, broken)},
		{"read", "cannot read back", fails(disktest.Read, broken)},
		{"lost writes", "it returns other data than the zeros that were written", fails(disktest.Write, disktest.ErrLost)},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := NewWithT(t)
			d := usedDisks()[0].disk
			d.Hook = c.hook
			got, failure := eraseMetadataOf(t, d)
			g.Expect(got.Outcome).To(Equal(agent.Failed))
			g.Expect(failure).To(And(HaveField("Reason", wire.ReasonEraseFailed), HaveField("Message", ContainSubstring(c.message))))
		})
	}
}

// TestHostileTables: whatever tables name, the first MiB of each area on the disk is overwritten before the tables, and nothing else.
func TestHostileTables(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.OneOf(rapid.Int64Range(-1, usedSize+mib), rapid.Int64())
		draw := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) area { return area{value.Draw(t, "offset"), value.Draw(t, "length")} }), 0, 5)
		c := contents{size: usedSize, sector: sector, parts: draw.Draw(t, "parts"), chain: draw.Draw(t, "chain")}
		want, is := map[int64]bool{}, map[int64]bool{}
		for _, a := range append(c.parts, c.chain...) {
			if a.offset >= 0 && a.offset < usedSize && a.length > 0 {
				for at := a.offset / sector * sector; at < a.offset+min(a.length, mib, usedSize-a.offset); at += sector {
					if at >= mib && at < usedSize-mib {
						want[at] = true
					}
				}
			}
		}
		for _, a := range append(c.starts(), c.tables()...) {
			for at := a.offset; at < a.end(); at += sector {
				if is[at] {
					t.Fatalf("%d is overwritten twice", at)
				}
				is[at] = true
			}
		}
		for at := range want {
			if !is[at] {
				t.Fatalf("%d is not overwritten", at)
			}
		}
		if len(is) != len(want) {
			t.Fatalf("%d sectors are overwritten instead of %d", len(is), len(want))
		}
	})
}
