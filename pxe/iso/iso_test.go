package iso_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	. "github.com/onsi/gomega"
	"pgregory.net/rapid"

	_ "github.com/capbm-io/cluster-api-provider-baremetal/inventory/rapidtest" // the seed
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/iso"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/iso/isotest"
)

var at = time.Date(2026, time.November, 25, 10, 20, 30, 0, time.UTC)

func pattern(seed, size int) []byte {
	out := make([]byte, size)
	for i := range out {
		out[i] = byte(i*7 + i>>8 + seed)
	}
	return out
}

// image is what a test lays out.
type image struct {
	options iso.Options
	files   []iso.File
	want    map[string][]byte
}

// draw draws files with different names in a few directories.
func draw(t *rapid.T) image {
	i := image{options: iso.Options{Label: "CAPBM", Time: at}, want: map[string][]byte{}}
	for n := range rapid.IntRange(0, 120).Draw(t, "files") {
		path := rapid.StringMatching(`([a-c]{1,2}/){0,3}`).Draw(t, "directory") + fmt.Sprintf("%s%d", rapid.StringMatching(`[a-z_]{0,4}`).Draw(t, "name"), n) +
			rapid.StringMatching(`(\.[a-z0-9]{1,3})?`).Draw(t, "extension")
		i.want[path] = pattern(n, rapid.IntRange(0, 3*iso.SectorSize).Draw(t, "size"))
		i.files = append(i.files, iso.File{Path: path, Content: iso.Bytes(i.want[path])})
	}
	if rapid.Bool().Draw(t, "UEFI") {
		i.options.UEFI, i.want["esp.img"] = "esp.img", pattern(1, rapid.IntRange(1024, 9000).Draw(t, "ESP"))
		i.files = append(i.files, iso.File{Path: "esp.img", Content: iso.Bytes(i.want["esp.img"])})
	}
	if rapid.Bool().Draw(t, "BIOS") {
		content := pattern(2, rapid.IntRange(2048, 9000).Draw(t, "BIOS image"))
		i.options.BIOS, _ = iso.NewBIOSImage(content)
		i.want[iso.BIOSPath] = content
	}
	return i
}

// TestRoundTrip: a reader that was written from the specification gets every file back, and the same input gives the same bytes.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := NewWithT(t)
		in := draw(t)
		image, err := iso.New(in.options, in.files)
		g.Expect(err).NotTo(HaveOccurred())
		again, err := iso.New(in.options, in.files)
		g.Expect(err).NotTo(HaveOccurred())
		whole := all(g, image)
		g.Expect(bytes.Equal(whole, all(g, again))).To(BeTrue())
		g.Expect(len(whole) % iso.SectorSize).To(BeZero())
		g.Expect(bytes.Trim(whole[len(whole)-32*iso.SectorSize:], "\x00")).To(BeEmpty(), "a boot image reads beyond its end")
		volume, err := isotest.Read(bytes.NewReader(whole), int64(len(whole)))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(volume.Label).To(Equal("CAPBM"))
		g.Expect(volume.Created).To(Equal("2026112510203000"))
		checkBoot(g, in, image, volume)
		g.Expect(volume.Files).To(HaveLen(len(in.want)))
		for path, want := range in.want {
			g.Expect(bytes.Equal(volume.Files[path], want)).To(BeTrue(), path)
			where := image.File(path)
			if path == iso.BIOSPath {
				where.Start, where.Size, want = where.Start+64, where.Size-64, want[64:] // behind the boot information table
			}
			g.Expect(bytes.Equal(whole[where.Start:where.Start+where.Size], want)).To(BeTrue(), path)
			g.Expect(image.File(path).Start % iso.SectorSize).To(BeZero())
		}
	})
}

// checkBoot checks the boot entries, and takes the boot information table out of the file for a BIOS.
func checkBoot(g *WithT, in image, image *iso.Image, volume *isotest.Volume) {
	var want []isotest.Entry
	if in.options.BIOS != nil {
		where := image.File(iso.BIOSPath)
		want = append(want, isotest.Entry{Platform: 0, Sectors: 4, Start: where.Start})
		content := volume.Files[iso.BIOSPath]
		var sum uint32
		for i := 64; i < len(content); i += 4 {
			var word [4]byte
			copy(word[:], content[i:])
			sum += binary.LittleEndian.Uint32(word[:])
		}
		table := []uint32{16, uint32(where.Start / iso.SectorSize), uint32(where.Size), sum}
		for i, value := range table {
			g.Expect(binary.LittleEndian.Uint32(content[8+4*i:])).To(Equal(value), "the boot information table, %d", i)
		}
		g.Expect(bytes.Trim(content[24:64], "\x00")).To(BeEmpty())
		copy(content[8:64], in.want[iso.BIOSPath][8:64])
	}
	if in.options.UEFI != "" {
		where := image.File(in.options.UEFI)
		want = append(want, isotest.Entry{Platform: 0xef, Sectors: int(where.Size+511) / 512, Start: where.Start})
	}
	g.Expect(volume.Boot).To(Equal(want))
}

func all(g *WithT, image *iso.Image) []byte {
	whole, err := io.ReadAll(io.NewSectionReader(image, 0, image.Size()))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(int64(len(whole))).To(Equal(image.Size()))
	return whole
}

// TestAnyRange: every range has the bytes of the whole.
func TestAnyRange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := NewWithT(t)
		in := draw(t)
		image, err := iso.New(in.options, in.files)
		g.Expect(err).NotTo(HaveOccurred())
		whole := all(g, image)
		for range 20 {
			start := rapid.Int64Range(0, image.Size()+10).Draw(t, "start")
			p := bytes.Repeat([]byte{0xa5}, rapid.IntRange(0, 3*iso.SectorSize).Draw(t, "length"))
			n, err := image.ReadAt(p, start)
			want := whole[min(start, image.Size()):min(start+int64(len(p)), image.Size())]
			g.Expect(bytes.Equal(p[:n], want)).To(BeTrue())
			if n < len(p) {
				g.Expect(err).To(Equal(io.EOF))
			} else if err != nil {
				g.Expect(err).To(Equal(io.EOF))
				g.Expect(start + int64(n)).To(BeNumerically(">=", image.Size()))
			}
		}
	})
}

// TestReadAt: the rules of io.ReaderAt, and the errors of contents.
func TestReadAt(t *testing.T) {
	g := NewWithT(t)
	image, err := iso.New(iso.Options{Label: "A", Time: at}, []iso.File{{Path: "a", Content: iso.Bytes(pattern(0, 5000))}, {Path: "b", Content: iso.Bytes(pattern(1, 1))}})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(iotest.TestReader(io.NewSectionReader(image, 0, image.Size()), all(g, image))).To(Succeed())
	_, err = image.ReadAt(make([]byte, 1), -1)
	g.Expect(err).To(HaveOccurred())

	short, err := iso.New(iso.Options{Label: "A", Time: at}, []iso.File{{Path: "a", Content: truncated{iso.Bytes(pattern(0, 100))}}})
	g.Expect(err).NotTo(HaveOccurred())
	_, err = io.ReadAll(io.NewSectionReader(short, 0, short.Size()))
	g.Expect(err).To(MatchError(io.ErrUnexpectedEOF), "a content that became shorter is no zeros")
	broken, err := iso.New(iso.Options{Label: "A", Time: at}, []iso.File{{Path: "a", Content: failing{}}})
	g.Expect(err).NotTo(HaveOccurred())
	_, err = io.ReadAll(io.NewSectionReader(broken, 0, broken.Size()))
	g.Expect(err).To(MatchError(errDisk))
}

var errDisk = errors.New("the disk fails")

type truncated struct{ iso.Content }

func (t truncated) Size() int64 { return t.Content.Size() + 10 }

type failing struct{}

func (failing) Size() int64                       { return 10 }
func (failing) ReadAt([]byte, int64) (int, error) { return 0, errDisk }

// huge is a content of zeros.
type huge int64

func (h huge) Size() int64                         { return int64(h) }
func (huge) ReadAt(p []byte, _ int64) (int, error) { clear(p); return len(p), nil }

func TestErrors(t *testing.T) {
	a := iso.Bytes([]byte("a"))
	for name, c := range map[string]struct {
		options iso.Options
		files   []iso.File
		want    string
	}{
		"no label":           {iso.Options{Time: at}, nil, "the label"},
		"label":              {iso.Options{Label: "capbm", Time: at}, nil, "the label"},
		"long label":         {iso.Options{Label: strings.Repeat("A", 33), Time: at}, nil, "the label"},
		"time":               {iso.Options{Label: "A"}, nil, "the time"},
		"upper case":         {iso.Options{Label: "A", Time: at}, []iso.File{{"A", a}}, "lower-case"},
		"long name":          {iso.Options{Label: "A", Time: at}, []iso.File{{"abcdefghi", a}}, "at most 8"},
		"long extension":     {iso.Options{Label: "A", Time: at}, []iso.File{{"a.abcd", a}}, "at most 8 and 3"},
		"directory with dot": {iso.Options{Label: "A", Time: at}, []iso.File{{"a.b/c", a}}, "at most 8 and 3"},
		"absolute":           {iso.Options{Label: "A", Time: at}, []iso.File{{"/a", a}}, "at most 8 and 3"},
		"up":                 {iso.Options{Label: "A", Time: at}, []iso.File{{"../a", a}}, "at most 8 and 3"},
		"empty":              {iso.Options{Label: "A", Time: at}, []iso.File{{"", a}}, "at most 8 and 3"},
		"deep":               {iso.Options{Label: "A", Time: at}, []iso.File{{"a/a/a/a/a/a/a/a/a", a}}, "more than 8 levels"},
		"twice":              {iso.Options{Label: "A", Time: at}, []iso.File{{"a", a}, {"a", a}}, "exists twice"},
		"file and directory": {iso.Options{Label: "A", Time: at}, []iso.File{{"a", a}, {"a/b", a}}, "exists twice"},
		"directory and file": {iso.Options{Label: "A", Time: at}, []iso.File{{"a/b", a}, {"a", a}}, "exists twice"},
		"no content":         {iso.Options{Label: "A", Time: at}, []iso.File{{Path: "a"}}, "no content"},
		"large":              {iso.Options{Label: "A", Time: at}, []iso.File{{"a", huge(1 << 32)}}, "a file has at most"},
		"no ESP":             {iso.Options{Label: "A", Time: at, UEFI: "esp"}, nil, "not among the files"},
		"small ESP":          {iso.Options{Label: "A", Time: at, UEFI: "esp"}, []iso.File{{"esp", a}}, "smaller than 32 MiB, and not empty"},
		"large ESP":          {iso.Options{Label: "A", Time: at, UEFI: "esp"}, []iso.File{{"esp", huge(32 << 20)}}, "smaller than 32 MiB, and not empty"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := iso.New(c.options, c.files)
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring(c.want)))
		})
	}
	_, err := iso.NewBIOSImage(make([]byte, 2047))
	NewWithT(t).Expect(err).To(HaveOccurred())
}

// TestMemory: an image costs a few KiB, whatever the size of its files is.
func TestMemory(t *testing.T) {
	files := []iso.File{
		{Path: "boot/grub/grub.cfg", Content: iso.Bytes(pattern(0, 8192))}, {Path: "boot/uefi.img", Content: huge(8 << 20)}, {Path: "boot/kernel", Content: huge(1 << 30)},
		{Path: "boot/initrd1", Content: huge(3 << 30)},
	}
	bytesOf := testing.Benchmark(func(b *testing.B) {
		b.Helper()
		b.ReportAllocs()
		for b.Loop() {
			if _, err := iso.New(iso.Options{Label: "CAPBM", Time: at, UEFI: "boot/uefi.img"}, files); err != nil {
				b.Fatal(err)
			}
		}
	}).AllocedBytesPerOp()
	t.Logf("%d bytes are allocated for an image", bytesOf)
	NewWithT(t).Expect(bytesOf).To(BeNumerically("<", 64<<10))
	image, err := iso.New(iso.Options{Label: "CAPBM", Time: at, UEFI: "boot/uefi.img"}, files)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	p := make([]byte, 64<<10)
	NewWithT(t).Expect(testing.AllocsPerRun(100, func() { _, _ = image.ReadAt(p, 2<<30) })).To(BeZero())
}
