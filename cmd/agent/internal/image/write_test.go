package image

import (
	"bytes"
	"strings"
	"testing"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/disk/disktest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image/gpt"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image/manifest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
)

// TestWrite: the disk has the image, the bootstrap data and valid tables, and nothing of the image has changed that need not.
func TestWrite(t *testing.T) {
	for _, c := range append(setups(5*mib+8192), oneSetup(512<<10, 0), oneSetup(40<<10+4*mib, 4)) {
		t.Run(c.name, func(t *testing.T) {
			d, s := c.newDisk(), c.newSource()
			if !pxetest.Bootable(d, c.diskSize, c.sector) {
				t.Fatal("the previous owner's disk is not bootable: the test proves nothing")
			}
			r, err := Write(t.Context(), c.options(d, s))
			if err != nil {
				t.Fatal(err)
			}
			if !r.Committed || r.ImageBytes == 0 && c.size > 2*mib || r.Disk.SerialNumber != "S1" {
				t.Errorf("the result is %+v", r)
			}
			c.checkContent(t, d.Clone(), s, r)
			if state, err := ReadState(d, c.diskSize, c.sector, unique); err != nil || state != Complete && (c.source != wire.DataSourceNone || c.diskSize > c.size) {
				t.Errorf("look says %s, %v", state, err)
			}
			if state, err := ReadState(d, c.diskSize, c.sector, strings.Replace(unique, "0", "1", 1)); err != nil || state != Unknown {
				t.Errorf("for another attempt look says %s, %v", state, err)
			}
		})
	}
}

// checkContent compares a disk with what was to be written.
func (c *setup) checkContent(t *testing.T, d *disktest.Disk, s *source, r Result) {
	t.Helper()
	got := make([]byte, c.diskSize)
	if _, err := d.ReadAt(got, 0); err != nil {
		t.Fatal(err)
	}
	if !pxetest.Bootable(d, c.diskSize, c.sector) {
		t.Error("the disk is not bootable")
	}
	sector := int64(c.sector)
	mayChange := [][2]int64{c.backup()}
	switch c.table {
	case manifest.GPT:
		for _, lba := range []int64{1, c.diskSize/sector - 1} {
			if !pxetest.ValidGPT(d, c.diskSize, c.sector, lba) {
				t.Errorf("the GPT in sector %d is not valid", lba)
			}
		}
		mayChange = append(mayChange, [2]int64{446 + 12, 446 + 16}, [2]int64{sector + 16, sector + 20}, [2]int64{sector + 32, sector + 40}, [2]int64{sector + 48, sector + 56},
			[2]int64{sector + 88, sector + 92}, [2]int64{c.size - sector, c.size})
		if c.source != wire.DataSourceNone {
			mayChange = append(mayChange, [2]int64{2*sector + 3*128, 2*sector + 4*128}) // the first entry after the last partition
		}
	case manifest.MBR:
		if c.source != wire.DataSourceNone {
			mayChange = append(mayChange, [2]int64{446 + 16, 446 + 32})
		}
	case manifest.NoTable:
	}
	for i := range c.content {
		if got[i] != c.content[i] && !within(int64(i), mayChange) {
			t.Fatalf("byte %d of the image is %#x on the disk, and not %#x", i, got[i], c.content[i])
		}
	}
	if c.source == wire.DataSourceNone {
		return
	}
	want := make([]byte, c.dataSize)
	copy(want, s.data)
	if r.DataLength != c.dataSize || r.DataOffset%mib != 0 || r.DataOffset < c.size || !bytes.Equal(got[r.DataOffset:r.DataOffset+r.DataLength], want) {
		t.Errorf("the data partition at %d+%d does not have its content", r.DataOffset, r.DataLength)
	}
	if c.table == manifest.GPT {
		table, err := gpt.Read(d, 1, c.diskSize, c.sector)
		if err != nil {
			t.Fatal(err)
		}
		p, found := table.Find(mustGUID(t, unique))
		if !found || p.Type != gpt.DataType || p.Name != gpt.DataName || int64(p.First)*sector != r.DataOffset || p.Number != 4 {
			t.Errorf("the data partition is %+v, %t", p, found)
		}
	}
}

func mustGUID(t *testing.T, text string) gpt.GUID {
	t.Helper()
	g, err := gpt.ParseGUID(text)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func within(at int64, ranges [][2]int64) bool {
	for _, r := range ranges {
		if at >= r[0] && at < r[1] {
			return true
		}
	}
	return false
}
