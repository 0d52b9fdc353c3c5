package layout

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image/gpt/gpttest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image/manifest"
)

// The parts of an MBR.
const (
	mbrEntries      = 446
	mbrEntry        = 16
	mbrStatusActive = 0x80
	mbrTypeSystem   = 0xef
)

// gptDisk returns a disk without boot code, and with a GPT whose second entry is an EFI system partition from sector 40 on.
func gptDisk(sector int, system []byte) []byte {
	const first, backup = 40, 128 * 128
	d := make([]byte, first*sector+len(system)+backup+sector)
	copy(d[first*sector:], system)
	gpttest.PutGPT(d, sector, []gpttest.Part{{}, {First: first, Last: uint64(first + len(system)/sector - 1), GUID: gpttest.EFISystem}})
	clear(d[:bootCodeSize])
	return d
}

// named is a file or folder of a FAT file system.
type named struct {
	short, long string
	folder      bool
	cluster     uint32
	size        uint32
}

func folderEntries(files ...named) []byte {
	var out []byte
	for _, f := range files {
		e := make([]byte, fatEntry)
		copy(e, f.short)
		if f.folder {
			e[fatAttribute] = fatFolder
		}
		binary.LittleEndian.PutUint16(e[26:], uint16(f.cluster))
		binary.LittleEndian.PutUint16(e[20:], uint16(f.cluster>>16))
		binary.LittleEndian.PutUint32(e[28:], f.size)
		if f.long != "" {
			chars := append([]byte(f.long), 0)
			n := (len(chars) + charsPerEntry - 1) / charsPerEntry
			for i := n; i > 0; i-- {
				l := bytes.Repeat([]byte{0xff}, fatEntry)
				l[0], l[fatAttribute], l[12], l[13] = byte(i), fatLongName, 0, shortSum(e)
				if i == n {
					l[0] |= lastNameEntry
				}
				at := []int{1, 3, 5, 7, 9, 14, 16, 18, 20, 22, 24, 28, 30}
				for k, c := range chars[(i-1)*charsPerEntry : min(len(chars), i*charsPerEntry)] {
					binary.LittleEndian.PutUint16(l[at[k]:], uint16(c))
				}
				out = append(out, l...)
			}
		}
		out = append(out, e...)
	}
	return out
}

// fatDisk returns a FAT file system with boot loaders. The folder BOOT has two clusters.
func fatDisk(bits int) []byte {
	clusters := map[int]int{12: 100, 16: 5000, 32: 70000}[bits]
	perTable := (clusters*bits/8 + 1024) / 512
	reserved, root := 32, 0
	if bits != 32 {
		root = 512
	}
	data := (reserved+2*perTable)*512 + root*fatEntry
	d := make([]byte, data+clusters*512)
	copy(d, "\xeb\x58\x90mkfs.fat")
	binary.LittleEndian.PutUint16(d[11:], 512)
	d[13], d[16] = 1, 2
	binary.LittleEndian.PutUint16(d[14:], uint16(reserved))
	binary.LittleEndian.PutUint16(d[17:], uint16(root))
	binary.LittleEndian.PutUint32(d[32:], uint32(len(d)/512))
	if bits == 32 {
		binary.LittleEndian.PutUint32(d[36:], uint32(perTable))
		binary.LittleEndian.PutUint32(d[44:], 2)
	} else {
		binary.LittleEndian.PutUint16(d[22:], uint16(perTable))
	}
	binary.LittleEndian.PutUint16(d[signatureAt:], signature)
	setNext(d, bits, 4, 5)
	at := func(cluster int) []byte { return d[data+(cluster-2)*512:] }
	top := folderEntries(named{short: "LABEL      ", size: 0}, named{short: "EFI        ", folder: true, cluster: 3})
	if bits == 32 {
		copy(at(2), top)
	} else {
		copy(d[(reserved+2*perTable)*512:], top)
	}
	copy(at(3), folderEntries(named{short: "DEBIAN     ", folder: true, cluster: 9}, named{short: "BOOT       ", folder: true, cluster: 4}))
	boot := folderEntries(
		named{short: "BOOTX64 EFI", size: 100, cluster: 7}, named{short: "BOOTIA32EFI", cluster: 7}, named{short: "BOOTAA64EFI", folder: true, cluster: 8},
		named{short: "GRUBX64 EFI", size: 3}, named{short: "BOOT    EFI", size: 3}, named{short: "\xe5OOTARM EFI", size: 3},
		named{short: "FBX64   EFI", size: 3}, named{short: "MMX64   EFI", size: 3}, named{short: "BOOTX64 CSV", size: 3},
		named{short: "X", long: "a rather long name of a file that nobody needs", size: 3},
		named{short: "BOOTRI~1EFI", long: "bootriscv64.efi", size: 100, cluster: 7},
	)
	copy(at(4), boot[:512])
	copy(at(5), boot[512:])
	return d
}

// setNext sets the cluster that follows another one.
func setNext(d []byte, bits, cluster, next int) {
	table := d[32*512:]
	switch bits {
	case 12:
		table[cluster*3/2], table[cluster*3/2+1] = byte(next), table[cluster*3/2+1]&0xf0|byte(next>>8)
	case 16:
		binary.LittleEndian.PutUint16(table[cluster*2:], uint16(next))
	default:
		binary.LittleEndian.PutUint32(table[cluster*4:], uint32(next))
	}
}

func scan(d []byte) (manifest.Header, error) {
	return Scan(context.Background(), bytes.NewReader(d), int64(len(d)))
}

func TestGPT(t *testing.T) {
	for _, sector := range []int{512, 4096} {
		for _, bits := range []int{12, 16, 32} {
			g := NewWithT(t)
			system := fatDisk(bits)
			system = append(system, make([]byte, sector-len(system)%sector)...)
			d := gptDisk(sector, system)
			h, err := scan(d)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(h.Table).To(Equal(manifest.GPT))
			g.Expect(h.SectorSize).To(Equal(sector))
			g.Expect(h.EFILoaders).To(Equal([]string{"riscv64", "x64"}), "FAT%d", bits)
			g.Expect(h.BIOSLoader).To(BeFalse())
			g.Expect(h.Size).To(BeEquivalentTo((len(d) + sector - 1) / sector * sector))
			d[0] = 0xeb
			h, err = scan(d)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(h.BIOSLoader).To(BeTrue())
			// A loop of clusters ends.
			if bits != 12 {
				setNext(d[40*sector:], bits, 4, 4)
				h, err = scan(d)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(h.EFILoaders).To(Equal([]string{"x64"}))
			}
			for _, at := range []int{sector + 16, sector + 40, 2*sector + 5} { // the checksum, what it covers, and an entry
				damaged := slices.Clone(d)
				damaged[at] ^= 1
				_, err = scan(damaged)
				g.Expect(err).To(MatchError(ContainSubstring("no valid GPT header")))
				g.Expect(errors.As(err, new(*InvalidError))).To(BeTrue())
			}
		}
	}
}

// TestGPTThatTheAgentRefuses: an image whose table the agent would not write is refused before its first power cycle.
func TestGPTThatTheAgentRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		change func(header, entries []byte)
		want   string
	}{
		"entries of 136 bytes":           {func(h, _ []byte) { binary.LittleEndian.PutUint32(h[84:], 136) }, "no valid GPT header"},
		"entries behind the first MiB":   {func(h, _ []byte) { binary.LittleEndian.PutUint64(h[72:], 2048) }, "no valid GPT header"},
		"a partition behind the image":   {func(_, e []byte) { binary.LittleEndian.PutUint64(e[40:], 1<<40) }, "of the image has the sectors"},
		"a partition that ends before":   {func(_, e []byte) { binary.LittleEndian.PutUint64(e[40:], 3) }, "of the image has the sectors"},
		"a partition over the MBR":       {func(_, e []byte) { binary.LittleEndian.PutUint64(e[32:], 0) }, "of the image has the sectors"},
		"an entry without a type is not": {func(_, e []byte) { clear(e[:16]); binary.LittleEndian.PutUint64(e[40:], 1<<40) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			d := append(gptDisk(512, fatDisk(16)), make([]byte, 2<<20)...)
			header := d[512:1024]
			at, count := int(binary.LittleEndian.Uint64(header[72:]))*512, int(binary.LittleEndian.Uint32(header[80:]))
			used := at
			for bytes.Equal(d[used:used+16], make([]byte, 16)) {
				used += 128
			}
			c.change(header, d[used:])
			at, size := int(binary.LittleEndian.Uint64(header[72:]))*512, int(binary.LittleEndian.Uint32(header[84:]))
			binary.LittleEndian.PutUint32(header[88:], crc32.ChecksumIEEE(d[at:at+count*size]))
			clear(header[16:20])
			binary.LittleEndian.PutUint32(header[16:], crc32.ChecksumIEEE(header[:92]))
			_, err := scan(d)
			if c.want == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(MatchError(ContainSubstring(c.want)))
			g.Expect(errors.As(err, new(*InvalidError))).To(BeTrue())
		})
	}
}

// TestGPTWithoutProtectiveMBR: firmware ignores a GPT without a protective MBR, and the agent refuses it.
func TestGPTWithoutProtectiveMBR(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(first []byte)
		refused bool
	}{
		"protective":      {func([]byte) {}, false},
		"an active entry": {func(b []byte) { b[mbrEntries] = mbrStatusActive }, false},
		"in the last entry": {func(b []byte) {
			copy(b[mbrEntries+3*mbrEntry:], b[mbrEntries:][:mbrEntry])
			clear(b[mbrEntries:][:mbrEntry])
		}, false},
		"a hybrid MBR": {func(b []byte) {
			b[mbrEntries+mbrEntry+4] = 0x83
			b[mbrEntries+mbrEntry+9] = 8
			b[mbrEntries+mbrEntry+12] = 1
		}, false},
		"empty":                  {func(b []byte) { clear(b) }, true},
		"no signature":           {func(b []byte) { b[signatureAt] = 0 }, true},
		"another type":           {func(b []byte) { b[mbrEntries+4] = 0x83 }, true},
		"another start":          {func(b []byte) { b[mbrEntries+8] = 2 }, true},
		"no sectors":             {func(b []byte) { clear(b[mbrEntries+12:][:4]) }, true},
		"a file system's sector": {func(b []byte) { b[mbrEntries+mbrEntry] = 0x0f }, true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, sector := range []int{512, 4096} {
				g := NewWithT(t)
				d := gptDisk(sector, make([]byte, 8*sector))
				c.change(d[:512])
				h, err := scan(d)
				if !c.refused {
					g.Expect(err).NotTo(HaveOccurred())
					g.Expect(h.Table).To(Equal(manifest.GPT))
					continue
				}
				g.Expect(err).To(MatchError(ContainSubstring("a GPT without a protective MBR: firmware ignores its partitions")))
				g.Expect(errors.As(err, new(*InvalidError))).To(BeTrue())
			}
		})
	}
}

// TestISO: an ISO 9660 image is no disk, also if it has a partition table.
func TestISO(t *testing.T) {
	const end = isoIdentifierAt + len(isoIdentifier)
	hybrid := make([]byte, 2*end)
	copy(hybrid[mbrEntries:], []byte{mbrStatusActive, 0, 0, 0, 0x17, 0, 0, 0, 0, 0, 0, 0, 64})
	binary.LittleEndian.PutUint16(hybrid[signatureAt:], signature)
	for name, c := range map[string]struct {
		disk       []byte
		identifier string
		refused    bool
	}{
		"an ISO image":               {make([]byte, 2*end), isoIdentifier, true},
		"that ends there":            {make([]byte, end), isoIdentifier, true},
		"hybrid with an MBR":         {hybrid, isoIdentifier, true},
		"hybrid with a GPT":          {gptDisk(512, fatDisk(12)), isoIdentifier, true},
		"hybrid with a GPT for 4096": {gptDisk(4096, fatDisk(16)), isoIdentifier, true},
		"another identifier":         {hybrid, "CD002", false},
		"a disk that ends before":    {hybrid[:end-1], "CD00", false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			d := slices.Clone(c.disk)
			copy(d[isoIdentifierAt:], c.identifier)
			_, err := scan(d)
			if !c.refused {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(MatchError(ContainSubstring("is an ISO 9660 image, and not that of a disk: use ")))
			g.Expect(errors.As(err, new(*InvalidError))).To(BeTrue())
		})
	}
}

func TestMBR(t *testing.T) {
	g := NewWithT(t)
	system := fatDisk(16)
	d := append(make([]byte, 2048*512), system...)
	d = append(d, 1) // not a whole sector
	e := d[mbrEntries:]
	e[0], e[4] = mbrStatusActive, mbrTypeSystem
	binary.LittleEndian.PutUint32(e[8:], 2048)
	binary.LittleEndian.PutUint32(e[12:], uint32(len(system)/512))
	binary.LittleEndian.PutUint16(d[signatureAt:], signature)
	h, err := scan(d)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(h).To(Equal(manifest.Header{Size: int64(len(d) + 511), SectorSize: 512, Table: manifest.MBR, EFILoaders: []string{"riscv64", "x64"}}))
	// The boot sector of a file system is no table.
	h, err = scan(append(system, bytes.Repeat([]byte{1}, 100)...))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(h.Table).To(Equal(manifest.NoTable))
	h, err = scan([]byte("x"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(h).To(Equal(manifest.Header{Size: 512, SectorSize: 512, Table: manifest.NoTable}))
	_, err = scan(nil)
	g.Expect(err).To(HaveOccurred())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Scan(ctx, bytes.NewReader(d), int64(len(d)))
	g.Expect(err).To(MatchError(context.Canceled))
}

// failing is an image of which the read at an offset fails.
type failing struct {
	*bytes.Reader

	at int64
}

var errDisk = errors.New("input/output error")

func (f failing) ReadAt(p []byte, offset int64) (int, error) {
	if offset == f.at {
		return 0, errDisk
	}
	return f.Reader.ReadAt(p, offset)
}

// TestReadError: an image that cannot be read is neither refused nor one without a table.
func TestReadError(t *testing.T) {
	g := NewWithT(t)
	d := gptDisk(512, fatDisk(12))
	for _, at := range []int64{0, isoIdentifierAt, 512, 1024, 40 * 512} {
		_, err := Scan(t.Context(), failing{bytes.NewReader(d), at}, int64(len(d)))
		g.Expect(err).To(MatchError(errDisk), "%d", at)
	}
}

// FuzzScan: no disk makes the scan panic, loop, or return a header that a manifest does not accept.
func FuzzScan(f *testing.F) {
	f.Add(gptDisk(512, fatDisk(12)), uint16(0), uint16(0))
	f.Add(gptDisk(4096, fatDisk(12)), uint16(0), uint16(0))
	f.Add(fatDisk(12), uint16(3), uint16(9))
	f.Fuzz(func(t *testing.T, d []byte, at, value uint16) {
		start := time.Now()
		for _, image := range [][]byte{d, gptDisk(512, append(slices.Clone(d), make([]byte, 512)...))} {
			if int(at)+2 < len(image) {
				binary.LittleEndian.PutUint16(image[at:], value)
			}
			h, err := scan(image)
			if err == nil {
				_, err = manifest.New(h)
			}
			if err != nil && !errors.As(err, new(*InvalidError)) {
				t.Fatal(err)
			}
		}
		if time.Since(start) > 10*time.Second {
			t.Fatal("the scan takes too long")
		}
	})
}
