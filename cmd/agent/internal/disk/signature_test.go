package disk_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/disk"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/disk/disktest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image/gpt/gpttest"
)

const mib = 1 << 20

// TestSignatures: each format is found on a disk and in a partition, and is gone once its range is zeroed.
func TestSignatures(t *testing.T) {
	put := func(at int, magic string) func([]byte) { return func(b []byte) { copy(b[at:], magic) } }
	for _, test := range []struct {
		kind  string
		label string
		write func(b []byte)
	}{
		{"ext", "root", func(b []byte) { copy(b[0x438:], "\x53\xef"); copy(b[0x478:], "root\x00\x00") }},
		{"xfs", "data", func(b []byte) { copy(b, "XFSB"); copy(b[108:], "data") }},
		{"btrfs", "pool", func(b []byte) { copy(b[0x10040:], "_BHRfS_M"); copy(b[0x1012b:], "pool") }},
		{"vfat", "CIDATA", func(b []byte) {
			copy(b[82:], "FAT32   ")
			copy(b[71:], "CIDATA     ")
			b[510], b[511] = 0x55, 0xaa
		}},
		{"vfat", "CONFIG-2", func(b []byte) { // the label is in the root directory
			copy(b[54:], "FAT16   ")
			copy(b[43:], "NO NAME    ")
			copy(b[11:], []byte{0, 2, 1, 1, 0, 2, 64, 0})
			b[22] = 2
			copy(b[5*512:], "CONFIG-2   \x08")
			b[510], b[511] = 0x55, 0xaa
		}},
		{"exfat", "", put(3, "EXFAT   ")},
		{"ntfs", "", put(3, "NTFS    ")},
		{"swap", "", put(4086, "SWAPSPACE2")},
		{"luks", "", put(0, "LUKS\xba\xbe")},
		{"luks", "", put(0x8000, "SKUL\xba\xbe")},
		{"iso9660", "cidata", func(b []byte) { copy(b[0x8001:], "CD001"); copy(b[0x8028:], "cidata                          ") }},
		{"f2fs", "", put(0x400, "\x10\x20\xf5\xf2")},
		{"bcachefs", "", put(0x1018, "\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef")},
		{"jfs", "", put(0x8000, "JFS1")},
		{"reiserfs", "", put(0x10034, "ReIsEr2Fs")},
		{"nilfs2", "", put(0x406, "\x34\x34")},
		{"udf", "", put(0x8001, "BEA01")},
		{"hfsplus", "", put(0x400, "H+\x00\x04")},
		{"apfs", "", put(0x20, "NXSB")},
		{"erofs", "", put(0x400, "\xe2\xe1\xf5\xe0")},
		{"squashfs", "", put(0, "hsqs")},
		{"bcache", "", put(0x1018, "\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81")},
		{"lvm2", "", put(512, "LABELONE")},
		{"vmfs", "", put(mib, "\x0d\xd0\x01\xc0")},
		{"gfs2", "", put(0x10000, "\x01\x16\x19\x70\x00\x00\x00\x01")},
		{"ocfs2", "", put(0x2000, "OCFSV2")},
		{"bluestore", "", put(0, "bluestore block device\n")},
		{"md", "", put(0, "\xfc\x4e\x2b\xa9\x01\x00\x00\x00")},
		{"md", "", put(4096, "\xfc\x4e\x2b\xa9\x01\x00\x00\x00")},
		{"md", "", func(b []byte) { copy(b[(len(b)/512-16)&^7*512:], "\xfc\x4e\x2b\xa9\x01\x00\x00\x00") }},
		{"md", "", func(b []byte) { copy(b[len(b)&^0xffff-0x10000:], "\xfc\x4e\x2b\xa9") }},
		{"imsm", "", func(b []byte) { copy(b[len(b)-1024:], "Intel Raid ISM Cfg Sig. ") }},
		{"zfs", "", func(b []byte) { binary.LittleEndian.PutUint64(b[128<<10+5*1024:], 0x00bab10c) }},
		{"zfs", "", func(b []byte) { binary.BigEndian.PutUint64(b[len(b)&^(256<<10-1)-128<<10:], 0x00bab10c) }},
	} {
		for _, sector := range []int{512, 4096} {
			whole := make([]byte, 8*mib)
			test.write(whole)
			checkSignature(t, whole, sector, test.kind, test.label, 0)

			inside := make([]byte, 12*mib)
			gpttest.PutGPT(inside, sector, []gpttest.Part{{First: 100, Last: 110}, {First: uint64(2 * mib / sector), Last: uint64(10*mib/sector) - 1}})
			test.write(inside[2*mib : 10*mib])
			checkSignature(t, inside, sector, test.kind, test.label, 2)
		}
	}
}

func checkSignature(t *testing.T, b []byte, sector int, kind, label string, partition int) {
	t.Helper()
	found, err := disk.Signatures(bytes.NewReader(b), int64(len(b)), sector)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(found, func(s disk.Signature) bool { return s.Type == kind && s.Label == label && s.Partition == partition }) {
		t.Errorf("%s with the label %q in partition %d is not found: %+v", kind, label, partition, found)
	}
	for _, s := range found {
		clear(b[s.Offset : s.Offset+s.Length])
	}
	if found, err := disk.Signatures(bytes.NewReader(b), int64(len(b)), sector); err != nil || len(found) != 0 {
		t.Errorf("%s in partition %d: after the wipe there are %+v, %v", kind, partition, found, err)
	}
}

// TestSharedPartitions: the type of a partition says that its file system is one that several servers share, in a GPT and in an MBR. GPFS and VMFS may have no
// other signature that is known here.
func TestSharedPartitions(t *testing.T) {
	for _, test := range []struct{ kind, guid string }{
		{"gpfs", "\x90\xfc\xaf\x37\x7d\xef\x96\x4e\x91\xc3\x2d\x7a\xe0\x55\xb1\x74"}, // 37affc90-ef7d-4e96-91c3-2d7ae055b174
		{"vmfs", "\x2a\xe0\x31\xaa\x0f\x40\xdb\x11\x95\x90\x00\x0c\x29\x11\xd1\xb8"}, // aa31e02a-400f-11db-9590-000c2911d1b8, VMFS
		{"vmfs", "\x80\x53\x27\x9d\xad\x40\xdb\x11\xbf\x97\x00\x0c\x29\x11\xd1\xb8"}, // 9d275380-40ad-11db-bf97-000c2911d1b8, vmkcore
		{"vmfs", "\xfc\xef\x98\x91\xc0\x31\xdb\x11\x8f\x78\x00\x0c\x29\x11\xd1\xb8"}, // 9198effc-31c0-11db-8f78-000c2911d1b8, reserved
	} {
		for _, sector := range []int{512, 4096} {
			b := make([]byte, 8*mib)
			gpttest.PutGPT(b, sector, []gpttest.Part{{First: 100, Last: 110}, {First: uint64(2 * mib / sector), Last: uint64(3*mib/sector) - 1, GUID: test.guid}})
			checkShared(t, b, sector, test.kind, 2)
		}
	}
	b := make([]byte, 8*mib)
	gpttest.PutMBR(b, []gpttest.Part{{First: 2048, Last: 4095, Type: 0xfb}})
	checkShared(t, b, 512, "vmfs", 1)
}

func checkShared(t *testing.T, b []byte, sector int, kind string, partition int) {
	t.Helper()
	found, err := disk.Signatures(bytes.NewReader(b), int64(len(b)), sector)
	if err != nil || !slices.ContainsFunc(found, func(s disk.Signature) bool { return s.Type == kind && s.Partition == partition }) {
		t.Errorf("the type of the partition %d does not say %s: %+v, %v", partition, kind, found, err)
	}
	d := disk.Disk{Found: found}
	if why := disk.Protect(d, false, nil).Why; !strings.Contains(why, "it has "+kind+", which other servers may use") {
		t.Errorf("a disk with a partition of %s is not protected: %q", kind, why)
	}
}

// TestTables: both copies of a GPT are found, also one that is not at the end, and of the other sector size.
func TestTables(t *testing.T) {
	for _, made := range []int{512, 4096} {
		for _, read := range []int{512, 4096} {
			b := make([]byte, 8*mib)
			gpttest.PutGPT(b, made, nil)
			found, err := disk.Signatures(bytes.NewReader(b), int64(len(b)), read)
			var at []int64
			for _, s := range found {
				if s.Type == "gpt" {
					at = append(at, s.Offset)
				}
			}
			if err != nil || !slices.Equal(at, []int64{int64(made), int64(len(b) - made)}) {
				t.Errorf("%d, %d: %v, %v", made, read, at, err)
			}
		}
	}
	b := make([]byte, 8*mib)
	gpttest.PutGPT(b[:5*mib], 512, nil)
	found, err := disk.Signatures(bytes.NewReader(b), int64(len(b)), 512)
	if err != nil || !slices.ContainsFunc(found, func(s disk.Signature) bool { return s.Type == "gpt" && s.Offset == 5*mib-512 }) {
		t.Errorf("the backup in the middle is not found: %+v, %v", found, err)
	}
}

// TestReadError: a disk that cannot be read is not one without signatures.
func TestReadError(t *testing.T) {
	whole := disktest.New(8*mib, 512)
	if _, err := disk.Signatures(whole, 8*mib, 512); err != nil {
		t.Fatal(err)
	}
	for at := range whole.Ops() {
		d := disktest.New(8*mib, 512)
		d.Hook = func(op disktest.Op) error {
			if op.Index == at {
				return syscall.EIO
			}
			return nil
		}
		if _, err := disk.Signatures(d, 8*mib, 512); err == nil {
			t.Fatalf("the error of read %d is lost", at)
		}
	}
}

func FuzzSignatures(f *testing.F) {
	b := make([]byte, 256<<10)
	gpttest.PutGPT(b, 512, []gpttest.Part{{First: 40, Last: 400}})
	f.Add(b, true)
	fat := make([]byte, 4096)
	copy(fat[54:], "FAT16   ")
	fat[510], fat[511] = 0x55, 0xaa
	f.Add(fat, false)
	empty := slices.Clone(fat)
	empty[12], empty[13], empty[14] = 4, 4, 4 // the root directory has no entry, and begins at the end of the disk
	f.Add(empty, false)
	f.Fuzz(func(t *testing.T, b []byte, small bool) {
		sector := 4096
		if small {
			sector = 512
		}
		found, err := disk.Signatures(bytes.NewReader(b), int64(len(b)), sector)
		if err != nil {
			t.Fatal(err) // memory can be read
		}
		for _, s := range found {
			if s.Offset < 0 || s.Length <= 0 || s.Offset+s.Length > int64(len(b)) {
				t.Errorf("%+v is outside of %d bytes", s, len(b))
			}
		}
	})
}

// TestFile: a plain file is a disk, and its holes are zeros.
func TestFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(name, disktest.Random(1, 4*mib), 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := disk.OpenFile(name, 512)
	if err != nil || d.Size() != 4*mib || d.SectorSize() != 512 {
		t.Fatal(err)
	}
	if err := d.ZeroRange(mib, 2*mib); err != nil {
		t.Fatal(err)
	}
	if _, err := d.WriteAt([]byte("written"), mib); err != nil {
		t.Fatal(err)
	}
	if err := d.Flush(); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 2*mib+1)
	if _, err := d.ReadAt(b, mib); err != nil || string(b[:8]) != "written\x00" || b[2*mib-1] != 0 || b[2*mib] == 0 {
		t.Errorf("%q, %v", b[:8], err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []string{t.TempDir(), filepath.Join(t.TempDir(), "none"), "/dev/null"} {
		if _, err := disk.OpenFile(wrong, 512); err == nil {
			t.Errorf("%s is opened", wrong)
		}
	}
}
