package fit_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"testing"

	"pgregory.net/rapid"

	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/disk/disktest"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/fit"
	_ "github.com/capbm-io/cluster-api-provider-baremetal/inventory/rapidtest" // the seed
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image/gpt"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image/gpt/gpttest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
)

const mib = 1 << 20

// drawRequest draws an image with a GPT, and a disk for it.
func drawRequest(t *rapid.T) (fit.Request, []gpttest.Part) {
	sector := rapid.SampledFrom([]int{512, 4096}).Draw(t, "sector")
	size := int64(rapid.IntRange(300<<10/sector, 6*mib/sector).Draw(t, "sectors") * sector)
	sectors := uint64(size) / uint64(sector)
	var parts []gpttest.Part
	for at := uint64(40); len(parts) < 128; {
		first := at + rapid.Uint64Range(0, sectors/8).Draw(t, "gap")
		last := first + rapid.Uint64Range(0, sectors/4).Draw(t, "length")
		if last > sectors-40 || rapid.IntRange(0, 5).Draw(t, "more") == 0 {
			break
		}
		if rapid.Bool().Draw(t, "unused entry") {
			parts = append(parts, gpttest.Part{})
		}
		parts = append(parts, gpttest.Part{First: first, Last: last, Attributes: rapid.Uint64().Draw(t, "attributes"), Name: "p"})
		at = last + 1
	}
	b := disktest.Random(1, int(size))
	gpttest.PutGPT(b, sector, parts)
	disk := max(size, 4*mib) + int64(rapid.IntRange(0, 4*mib/sector).Draw(t, "more sectors")*sector)
	unique, err := gpt.ParseGUID("0b6ddf2c-62fb-4b7e-a5a4-2a3bb7a0b0c1")
	if err != nil {
		t.Fatal(err)
	}
	return fit.Request{
		Head: b[:min(size, mib)], ImageSize: size, DiskSize: disk, Sector: sector, Unique: unique,
		DataSize: rapid.SampledFrom([]int64{0, 0, 1, mib, mib + 1, 3 * mib}).Draw(t, "data"),
	}, parts
}

// TestPropertyFit: a layout has valid tables, keeps all partitions in their entries, and all bytes that need not change.
func TestPropertyFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, parts := drawRequest(t)
		before := bytes.Clone(r.Head)
		layout, err := fit.GPT(r)
		if !bytes.Equal(before, r.Head) {
			t.Fatal("the image has been changed")
		}
		sector := int64(r.Sector)
		if err != nil {
			// It is refused only if the space is missing: the data partition with its alignment, and the backup GPT with its entries.
			if r.DiskSize >= r.ImageSize+r.DataSize+2*mib+40*sector || !errors.Is(err, fit.ErrTooSmall) {
				t.Fatalf("%+v: %v", r.DiskSize, err)
			}
			return
		}
		d := disktest.New(r.DiskSize, r.Sector)
		d.Fill(0, layout.Head)
		d.Fill(layout.BackupOffset, layout.Backup)
		for _, lba := range []int64{1, r.DiskSize/sector - 1} {
			if !pxetest.ValidGPT(d, r.DiskSize, r.Sector, lba) {
				t.Fatalf("the GPT in sector %d is not valid", lba)
			}
		}
		if !pxetest.Bootable(d, r.DiskSize, r.Sector) || layout.BackupOffset+int64(len(layout.Backup)) != r.DiskSize {
			t.Fatal("the disk is not bootable, or the backup GPT is not at its end")
		}
		table, err := gpt.Read(d, 1, r.DiskSize, r.Sector)
		if err != nil {
			t.Fatal(err)
		}
		checkPartitions(t, r, layout, table, parts)
		for i := range layout.Head {
			at := int64(i)
			entry := 2*sector + int64(layout.Number-1)*128
			changes := at >= 446+12 && at < 446+16 || at >= sector && at < 2*sector || layout.Number > 0 && at >= entry && at < entry+128
			if i < len(before) && !changes && layout.Head[i] != before[i] {
				t.Fatalf("byte %d has changed", i)
			}
		}
	})
}

func checkPartitions(t *rapid.T, r fit.Request, layout *fit.Layout, table *gpt.Table, parts []gpttest.Part) {
	found := map[int]gpt.Partition{}
	for _, p := range table.Partitions() {
		found[p.Number] = p
		if p.Last > table.LastUsable {
			t.Fatalf("partition %d ends after the last usable sector", p.Number)
		}
	}
	for i, p := range parts {
		if got, ok := found[i+1]; ok != (p.Last != 0) && i+1 != layout.Number || p.Last != 0 && (got.First != p.First || got.Last != p.Last || got.Attributes != p.Attributes) {
			t.Fatalf("partition %d is %+v, and was %+v", i+1, got, p)
		}
		if p.Last != 0 && (layout.DataLength > 0 && int64(p.Last+1)*int64(r.Sector) > layout.DataOffset) {
			t.Fatalf("the data partition overlaps partition %d", i+1)
		}
	}
	if r.DataSize == 0 {
		return
	}
	p := found[layout.Number]
	first, last := int64(p.First)*int64(r.Sector), int64(p.Last+1)*int64(r.Sector)
	if p.Type != gpt.DataType || p.GUID != r.Unique || p.Name != gpt.DataName || first != layout.DataOffset || last != first+layout.DataLength || first%mib != 0 ||
		last > layout.BackupOffset || layout.DataLength < r.DataSize || layout.DataLength >= r.DataSize+int64(r.Sector) || first < r.ImageSize {
		t.Fatalf("the data partition is %+v of %+v", p, layout)
	}
}

func TestRefuses(t *testing.T) {
	good := func() fit.Request {
		b := make([]byte, 2*mib)
		gpttest.PutGPT(b, 512, []gpttest.Part{{First: 2048, Last: 3000}})
		return fit.Request{Head: b[:mib], ImageSize: 2 * mib, DiskSize: 8 * mib, Sector: 512, DataSize: mib}
	}
	fix := func(r fit.Request) { // makes the CRCs right again
		h := r.Head[512:1024]
		size, count := binary.LittleEndian.Uint32(h[84:]), binary.LittleEndian.Uint32(h[80:])
		if n := size * count; n < mib-1024 {
			binary.LittleEndian.PutUint32(h[88:], crc32.ChecksumIEEE(r.Head[1024:1024+n]))
		}
		clear(h[16:20])
		binary.LittleEndian.PutUint32(h[16:], crc32.ChecksumIEEE(h[:92]))
	}
	if _, err := fit.GPT(good()); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(r *fit.Request){
		"signature":         func(r *fit.Request) { r.Head[512] = 0 },
		"sector size":       func(r *fit.Request) { r.Sector = 4096 },
		"entries outside":   func(r *fit.Request) { r.Head[512+77] = 0xff; fix(*r) },
		"partition outside": func(r *fit.Request) { r.Head[1024+43] = 0xff; fix(*r) },
		"partition reverse": func(r *fit.Request) { r.Head[1024+33] = 0xff; fix(*r) },
		"no protective MBR": func(r *fit.Request) { r.Head[510] = 0 },
		"other MBR":         func(r *fit.Request) { r.Head[446+4] = 0x83 },
		"same GUID":         func(r *fit.Request) { copy(r.Unique[:], r.Head[1024+16:]) },
		"all entries in use": func(r *fit.Request) {
			for i := 1; i < 128; i++ {
				copy(r.Head[1024+128*i:], r.Head[1024:1024+128])
			}
			fix(*r)
		},
		"disk":       func(r *fit.Request) { r.DiskSize = 4 * mib; r.DataSize = 2 * mib },
		"small disk": func(r *fit.Request) { r.DiskSize = 3 * mib; r.DataSize = 0 },
		"head":       func(r *fit.Request) { r.Head = r.Head[:1000] },
	} {
		r := good()
		change(&r)
		if layout, err := fit.GPT(r); err == nil {
			t.Errorf("%s: accepted: %+v", name, layout.Number)
		}
	}
}

func TestHybrid(t *testing.T) {
	b := make([]byte, 2*mib)
	gpttest.PutGPT(b, 512, []gpttest.Part{{First: 2048, Last: 3000}})
	copy(b[446+16:], []byte{0x80, 0, 0, 0, 0xef, 0, 0, 0, 0, 8, 0, 0, 1, 0, 0, 0})
	layout, err := fit.GPT(fit.Request{Head: b[:mib], ImageSize: 2 * mib, DiskSize: 8 * mib, Sector: 512, DataSize: mib})
	if err != nil || len(layout.Warnings) != 1 || !bytes.Equal(layout.Head[:512], b[:512]) {
		t.Errorf("%v, %+v", err, layout.Warnings)
	}
}

func TestMBR(t *testing.T) {
	image := func(parts ...gpttest.Part) fit.Request {
		b := disktest.Random(1, 2*mib)
		gpttest.PutMBR(b, parts)
		return fit.Request{Head: b[:mib], ImageSize: 2 * mib, DiskSize: 8 * mib, Sector: 512, DataSize: mib}
	}
	linux := gpttest.Part{First: 2048, Last: 4095, Type: 0x83}
	layout, err := fit.MBR(image(linux))
	if err != nil || layout.Number != 2 || layout.DataOffset != 6*mib || layout.Head[446+16+4] != 0x0c || layout.Spare != 8*mib-512 {
		t.Errorf("%v, %+v", err, layout)
	}
	if _, err := fit.MBR(image(linux, linux, linux, linux)); err == nil {
		t.Error("a fifth partition is added")
	}
	big := image(linux)
	big.DiskSize = 5 << 40
	if layout, err = fit.MBR(big); err != nil || layout.DataOffset+layout.DataLength > 1<<32*512 {
		t.Errorf("on a large disk the partition is not below 2 TiB: %v, %+v", err, layout)
	}
	huge := image(linux)
	huge.DiskSize, huge.ImageSize = 5<<40, 3<<40
	if _, err = fit.MBR(huge); !errors.Is(err, fit.ErrTooSmall) {
		t.Errorf("an image beyond 2 TiB gets a data partition: %v", err)
	}
	if _, err := fit.MBR(image(gpttest.Part{First: 2048, Last: 1 << 20, Type: 0x83})); err == nil {
		t.Error("a partition beyond the image is accepted")
	}
	none := image()
	if _, err := fit.None(none); err == nil {
		t.Error("a data partition is added without a table")
	}
}

// FuzzFit: no table makes it panic, and what is accepted fits.
func FuzzFit(f *testing.F) {
	for _, sector := range []int{512, 4096} {
		b := make([]byte, 256<<10)
		gpttest.PutGPT(b, sector, []gpttest.Part{{First: 40, Last: 50}})
		f.Add(b[:64<<10], sector == 4096)
	}
	b := make([]byte, 4<<10)
	gpttest.PutMBR(b, []gpttest.Part{{First: 1, Last: 7, Type: 5}})
	f.Add(b, false)
	f.Fuzz(func(t *testing.T, b []byte, large bool) {
		sector := 512
		if large {
			sector = 4096
		}
		size := int64(len(b) / sector * sector)
		r := fit.Request{Head: b[:min(size, mib)], ImageSize: size, DiskSize: 8 * mib, Sector: sector, DataSize: mib}
		for _, computed := range []func(fit.Request) (*fit.Layout, error){fit.GPT, fit.MBR} {
			if layout, err := computed(r); err == nil && (layout.DataOffset < size || layout.DataOffset+layout.DataLength > layout.BackupOffset) {
				t.Errorf("the layout is %+v", layout)
			}
		}
	})
}
