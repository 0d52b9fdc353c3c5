package disk_test

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/hack/osimage/disk"
)

// files writes a file system of 3 MiB and a half, and the two files of GRUB.
func files(t *testing.T) (content, boot, core string) {
	t.Helper()
	folder := t.TempDir()
	put := func(name string, data []byte) string {
		name = filepath.Join(folder, name)
		NewWithT(t).Expect(os.WriteFile(name, data, 0o600)).To(Succeed())
		return name
	}
	image := make([]byte, 512*5+100)
	binary.LittleEndian.PutUint16(image[512-4:], 5)
	return put("content", bytes.Repeat([]byte{7}, 3<<20+1<<19)), put("boot", bytes.Repeat([]byte{0xb0}, 512)), put("core", image)
}

func TestGPT(t *testing.T) {
	content, boot, core := files(t)
	for _, c := range []struct {
		name  string
		image disk.Image
	}{
		{"512", disk.Image{SectorSize: 512, Boot: boot, Core: core, Partitions: []disk.Partition{{Number: 14, Type: disk.BIOSBoot}, {Number: 1, Type: disk.Linux, File: content}}}},
		{"4096", disk.Image{SectorSize: 4096, Partitions: []disk.Partition{{Number: 1, Type: disk.ESP, File: content}}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := NewWithT(t)
			c.image.Size = 8 << 20
			name := filepath.Join(t.TempDir(), "image")
			g.Expect(c.image.Write(name)).To(Succeed())
			raw, err := os.ReadFile(name)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(raw).To(HaveLen(8 << 20))
			g.Expect(raw[510:512]).To(Equal([]byte{0x55, 0xaa}))
			g.Expect(raw[446+4]).To(Equal(byte(0xee)))
			size := c.image.SectorSize
			for _, at := range []int64{size, int64(len(raw)) - size} {
				header := bytes.Clone(raw[at:][:92])
				g.Expect(header[:8]).To(Equal([]byte("EFI PART")))
				sum := binary.LittleEndian.Uint32(header[16:])
				binary.LittleEndian.PutUint32(header[16:], 0)
				g.Expect(crc32.ChecksumIEEE(header)).To(Equal(sum))
				list := raw[int64(binary.LittleEndian.Uint64(header[72:]))*size:][:128*128]
				g.Expect(crc32.ChecksumIEEE(list)).To(Equal(binary.LittleEndian.Uint32(header[88:])))
				first := int64(binary.LittleEndian.Uint64(list[32:])) * size
				last := int64(binary.LittleEndian.Uint64(list[40:])+1) * size
				g.Expect(last-first).To(Equal(int64(4<<20)), "the content, rounded up")
				g.Expect(raw[first : first+3<<20+1<<19]).To(HaveEach(byte(7)))
			}
			if c.image.Core != "" {
				g.Expect(binary.LittleEndian.Uint64(raw[0x5c:])).To(Equal(uint64(2048)), "the core image")
				g.Expect(binary.LittleEndian.Uint64(raw[1<<20+500:])).To(Equal(uint64(2049)), "the rest of the core image")
			}
		})
	}
}

func TestMBR(t *testing.T) {
	g := NewWithT(t)
	content, boot, core := files(t)
	name := filepath.Join(t.TempDir(), "image")
	image := disk.Image{Size: 8 << 20, SectorSize: 512, MBR: true, Boot: boot, Core: core, Partitions: []disk.Partition{{Number: 2, Type: disk.Linux, File: content}}}
	g.Expect(image.Write(name)).To(Succeed())
	raw, err := os.ReadFile(name)
	g.Expect(err).NotTo(HaveOccurred())
	entry := raw[446+16:][:16]
	g.Expect(entry[0]).To(Equal(byte(0x80)))
	g.Expect(entry[4]).To(Equal(byte(0x83)))
	g.Expect(binary.LittleEndian.Uint32(entry[8:])).To(Equal(uint32(2048)))
	g.Expect(binary.LittleEndian.Uint32(entry[12:])).To(Equal(uint32(4 * 2048)))
	g.Expect(binary.LittleEndian.Uint64(raw[0x5c:])).To(Equal(uint64(1)))
	g.Expect(binary.LittleEndian.Uint64(raw[512+500:])).To(Equal(uint64(2)))
}

func TestRefusals(t *testing.T) {
	content, boot, core := files(t)
	other := filepath.Join(t.TempDir(), "other")
	NewWithT(t).Expect(os.WriteFile(other, bytes.Repeat([]byte{0xb0}, 1024), 0o600)).To(Succeed())
	linux := disk.Partition{Number: 1, Type: disk.Linux, File: content}
	for _, c := range []struct {
		name, observed string
		image          disk.Image
	}{
		{"a sector size", "sector size is 520", disk.Image{Size: 8 << 20, SectorSize: 520}},
		{"too small", "need 6 MiB, and the image has 5", disk.Image{Size: 5 << 20, SectorSize: 512, Partitions: []disk.Partition{linux}}},
		{"a number twice", "two partitions have the number 1", disk.Image{Size: 16 << 20, SectorSize: 512, Partitions: []disk.Partition{linux, linux}}},
		{"GRUB without a place", "no BIOS boot partition", disk.Image{Size: 8 << 20, SectorSize: 512, Boot: boot, Core: core, Partitions: []disk.Partition{linux}}},
		{"another core image", "this is not the format of GRUB 2.12", disk.Image{Size: 8 << 20, SectorSize: 512, MBR: true, Boot: boot, Core: other}},
		{"a large core image", "has 3670016 bytes, and there are 1048064", disk.Image{Size: 8 << 20, SectorSize: 512, MBR: true, Boot: boot, Core: content}},
		{"an MBR with 4096", "sectors of 512 bytes", disk.Image{Size: 8 << 20, SectorSize: 4096, MBR: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			NewWithT(t).Expect(c.image.Write(filepath.Join(t.TempDir(), "image"))).To(MatchError(ContainSubstring(c.observed)))
		})
	}
	for _, text := range []string{"", "1:linux", "0:linux:f", "129:linux:f", "x:linux:f", "1:swap:f", "1:bios:f", "1:esp:"} {
		_, err := disk.ParsePartition(text)
		NewWithT(t).Expect(err).To(HaveOccurred(), text)
	}
}
