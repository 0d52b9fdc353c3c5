package agenttest_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

// usedSize is the size of the disks of a last owner. The whole of it is read for what was planted.
const usedSize = 96 << 20

// planted is what the last owner wrote to every sector, apart from the partition tables.
const planted = "the last owner's"

// usedDisk returns the file of a disk with planted data, and a GPT with its backup and one partition with a label. sector is the size of its sectors in bytes.
func usedDisk(t *testing.T, sector int, label string) string {
	t.Helper()
	content := bytes.Repeat([]byte(planted), usedSize/len(planted))
	writeTables(content, sector, linuxType, label)
	return diskFile(t, content)
}

// diskFile returns a file with a content.
func diskFile(t *testing.T, content []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "disk.raw")
	NewWithT(t).Expect(os.WriteFile(file, content, 0o600)).To(Succeed())
	return file
}

// linuxType is the type of a partition with a Linux file system, as it is stored: 0fc63daf-8483-4772-8e79-3d69d8477de4.
const linuxType = "\xaf\x3d\xc6\x0f\x83\x84\x72\x47\x8e\x79\x3d\x69\xd8\x47\x7d\xe4"

// writeTables writes a protective MBR and both copies of a GPT with one partition (UEFI Specification 2.10, 5.2.3 and 5.3), from 1 MiB to 1 MiB before the end.
func writeTables(disk []byte, sector int, kind, label string) {
	const entries, entrySize, headerSize = 128, 128, 92
	last := uint64(len(disk)/sector - 1)
	table := make([]byte, entries*entrySize)
	copy(table, kind+"planted-guid-001")
	binary.LittleEndian.PutUint64(table[32:], uint64(1<<20/sector))
	binary.LittleEndian.PutUint64(table[40:], last-uint64(1<<20/sector))
	for i, c := range utf16.Encode([]rune(label)) {
		binary.LittleEndian.PutUint16(table[56+2*i:], c)
	}
	tableSectors := uint64(len(table) / sector)
	header := func(at, other, tableAt uint64) {
		h := make([]byte, sector)
		copy(h, "EFI PART\x00\x00\x01\x00")
		binary.LittleEndian.PutUint32(h[12:], headerSize)
		for offset, value := range map[int]uint64{24: at, 32: other, 40: 2 + tableSectors, 48: last - tableSectors - 1, 72: tableAt} {
			binary.LittleEndian.PutUint64(h[offset:], value)
		}
		copy(h[56:], "planted-guid-000")
		binary.LittleEndian.PutUint32(h[80:], entries)
		binary.LittleEndian.PutUint32(h[84:], entrySize)
		binary.LittleEndian.PutUint32(h[88:], crc32.ChecksumIEEE(table))
		binary.LittleEndian.PutUint32(h[16:], crc32.ChecksumIEEE(h[:headerSize]))
		copy(disk[at*uint64(sector):], h)
		copy(disk[tableAt*uint64(sector):], table)
	}
	header(1, last, 2)
	header(last, 1, last-tableSectors)
	clear(disk[446:510])
	copy(disk[446:], "\x00\x00\x02\x00\xee\xff\xff\xff\x01\x00\x00\x00\xff\xff\xff\xff")
	copy(disk[510:], "\x55\xaa")
}

// remains returns how many sectors of 512 bytes of a disk have planted data, and how many are not zero.
func remains(t *testing.T, file string) (data, notZero int) {
	t.Helper()
	g := NewWithT(t)
	disk, err := os.Open(file)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = disk.Close() }()
	sector, zero := make([]byte, 512), make([]byte, 512)
	for {
		_, err := io.ReadFull(disk, sector)
		if err == io.EOF {
			return data, notZero
		}
		g.Expect(err).NotTo(HaveOccurred())
		if bytes.Contains(sector, []byte(planted)) {
			data++
		}
		if !bytes.Equal(sector, zero) {
			notZero++
		}
	}
}

// drive returns the arguments of QEMU for a file behind a device.
func drive(id, file, device string) []string {
	return []string{"-drive", fmt.Sprintf("if=none,id=%s,format=raw,discard=unmap,file=%s", id, file), "-device", device + ",drive=" + id}
}

// usedDrives are drives of a last owner, of each kind that QEMU has.
type usedDrives struct {
	args  []string
	files map[string]string // by serial number
}

func (u *usedDrives) add(t *testing.T, serial, device string, sector int) {
	t.Helper()
	u.files[serial] = usedDisk(t, sector, "of "+serial)
	u.args = append(u.args, drive(fmt.Sprintf("d%d", len(u.files)), u.files[serial], device)...)
}

// newUsedDrives returns the drives, with disks of the contents that makeVolumes has made.
func newUsedDrives(t *testing.T, made map[string][]byte) *usedDrives {
	t.Helper()
	u := &usedDrives{files: map[string]string{}}
	// The NVMe drive is in a subsystem that may have several controllers, and has one, as a drive with two ports of which one is used.
	u.args = []string{"-device", "nvme-subsys,id=subsystem,nqn=erasure", "-device", "nvme,id=nvme0,serial=NVME,subsys=subsystem", "-device", "virtio-scsi-pci,id=scsi"}
	u.add(t, "NVME", "nvme-ns,bus=nvme0,nsid=1", 512)
	u.add(t, "NVME-2", "nvme-ns,bus=nvme0,nsid=2", 512)
	u.add(t, "DISCARD", "virtio-blk-pci,serial=DISCARD,discard=on,write-zeroes=on", 512)
	u.add(t, "PLAIN", "virtio-blk-pci,serial=PLAIN,discard=off,write-zeroes=off", 512)
	u.add(t, "AHCI", "ide-hd,bus=ide.2,serial=AHCI,wwn=0x5000c500a1b2c301", 512)
	u.add(t, "SCSI", "scsi-hd,bus=scsi.0,serial=SCSI,wwn=0x5000c500a1b2c302,logical_block_size=4096,physical_block_size=4096", 4096)
	u.add(t, "KEPT", "virtio-blk-pci,serial=KEPT", 512)
	u.add(t, "LABEL", "virtio-blk-pci,serial=LABEL", 512)
	for _, serial := range slices.Sorted(maps.Keys(made)) {
		u.files[serial] = diskFile(t, made[serial])
		u.args = append(u.args, drive(strings.ToLower(serial), u.files[serial], "virtio-blk-pci,serial="+serial)...)
	}
	return u
}

// kept are disks that the plan of these tests must not touch, by serial number and by the label of a partition.
var kept = []wire.KeptDisk{{SerialNumber: "KEPT"}, {Label: "of LABEL"}}

// planRun is what became of a plan.
type planRun struct {
	*server

	// took is the time from the plan to the result.
	took time.Duration
	// writes is how many writes each drive got, by its ID.
	writes map[string]int
}

// runPlan boots the agent with drives and a plan, until it has reported the result and has switched the server off.
func runPlan(t *testing.T, w *segment, args []string, plan agent.Plan) planRun {
	t.Helper()
	g := NewWithT(t)
	s := serve(t, w.address(), agent.PowerOff)
	s.Plan = plan
	m := start(t, machine{cards: []card{{model: "virtio-net-pci", tap: w.tap(t)}}, server: s.url, args: slices.Concat(args, noShutdown)})
	g.Eventually(func() bool { return s.Result() != nil || m.isOff() }, 2*bootTimeout, "50ms").Should(BeTrue())
	g.Expect(s.Result()).NotTo(BeNil(), "the server went off before")
	writes := m.awaitWrites()
	plans, results := s.Requests(agent.EndpointPlan), s.Requests(agent.EndpointResult)
	return planRun{server: s, took: results[0].At.Sub(plans[len(plans)-1].At), writes: writes}
}

// logDisks logs what a result says about the disks.
func logDisks(t *testing.T, disks []agent.ErasedDisk) {
	t.Helper()
	for _, d := range disks {
		t.Logf("%s %s: %s, %s (%s, %s), %+v %s", d.Name, d.Disk.SerialNumber, d.Outcome, d.Method, d.Class, d.Basis, d.Verification, d.Message)
	}
}

const (
	formatMethod    = "NVMe format, user data erase"
	overwriteMethod = "Overwrite with zeros"
)

// methodOf is the method of docs/reference/erase-methods.md for a drive of newUsedDrives. The NVMe drives of QEMU have the format command, and its other drives no command
// that erases. Whether a drive has discard changes nothing.
func methodOf(policy wire.ErasePolicy, serial string) string {
	switch {
	case policy == wire.PolicyMetadata:
		return "Overwrite of partition tables, signatures and bootstrap data"
	case serial == "NVME":
		return formatMethod
	default:
		return overwriteMethod
	}
}

// TestErasure: what the last owner planted on data, partition tables and their backups is gone from each kind of drive, and so are RAIDs and volume groups that
// mdadm and LVM have made. Kept disks are as they were, and the agent of the next owner finds nothing.
func TestErasure(t *testing.T) {
	made := makeVolumes(t)
	for _, policy := range []wire.ErasePolicy{wire.PolicyClear, wire.PolicyMetadata} {
		t.Run(string(policy), func(t *testing.T) {
			g := NewWithT(t)
			u := newUsedDrives(t, made)
			w := newSegment(t, "10.86.0.0/24")
			w.dnsmasq(t, "10.86.0.100,10.86.0.150,2m")
			before := map[string][]byte{}
			for _, serial := range []string{"KEPT", "LABEL"} {
				content, err := os.ReadFile(u.files[serial])
				g.Expect(err).NotTo(HaveOccurred())
				before[serial] = content
			}
			cleaned := runPlan(t, w, u.args, agent.Plan{
				Title: "erasure", Purpose: agent.Clean, Clean: &agent.CleanPlan{Policy: policy, AllDisks: true, Keep: kept},
			})
			result := cleaned.Result()
			t.Logf("%s: %.1f s from the plan to the result", policy, cleaned.took.Seconds())
			logDisks(t, result.Disks)
			g.Expect(result.Failure).To(BeNil())
			g.Expect(result.Disks).To(HaveLen(len(u.files)))
			for _, d := range result.Disks {
				if d.Disk.SerialNumber == "KEPT" || d.Disk.SerialNumber == "LABEL" {
					g.Expect(d.Outcome).To(Equal(wire.LeftOut), d.Disk.SerialNumber)
					continue
				}
				g.Expect(d.Outcome).To(Equal(wire.Erased), d.Disk.SerialNumber)
				g.Expect(d.Method).To(Equal(methodOf(policy, d.Disk.SerialNumber)), d.Disk.SerialNumber)
				g.Expect(d.Verification).To(HaveField("Passed", BeTrue()), d.Disk.SerialNumber)
			}
			for serial, file := range u.files {
				if content, isKept := before[serial]; isKept {
					after, err := os.ReadFile(file)
					g.Expect(err).NotTo(HaveOccurred())
					g.Expect(bytes.Equal(after, content)).To(BeTrue(), "%s is as it was", serial)
					continue
				}
				if _, isVolume := volumes[serial]; isVolume {
					checkNoVolume(t, serial, file)
				}
				checkErased(t, policy, serial, file)
			}
			next := runPlan(t, w, u.args, agent.Plan{Title: "next owner", Purpose: agent.Inspect, Inspect: &agent.InspectPlan{}})
			g.Expect(next.writes).To(HaveLen(len(u.files)))
			g.Expect(next.writes).To(HaveEach(0), "an inspection writes to no disk")
			var found wire.Inspection
			g.Expect(json.Unmarshal(next.Requests(agent.EndpointInventory)[0].Body, &found)).To(Succeed())
			g.Expect(found.Disks).To(HaveLen(len(u.files)))
			for _, d := range found.Disks {
				if isKept := d.SerialNumber == "KEPT" || d.SerialNumber == "LABEL"; isKept {
					g.Expect(d.Signatures).NotTo(BeEmpty(), d.SerialNumber)
				} else {
					g.Expect(d.Signatures).To(BeEmpty(), d.SerialNumber)
				}
			}
		})
	}
}

// checkErased reads a disk after its erasure. Metadata erases the first and the last MiB, and the first MiB of the partition, if there is one.
func checkErased(t *testing.T, policy wire.ErasePolicy, serial, file string) {
	t.Helper()
	g := NewWithT(t)
	data, notZero := remains(t, file)
	if policy != wire.PolicyMetadata {
		g.Expect([]int{data, notZero}).To(Equal([]int{0, 0}), serial)
		return
	}
	disk, err := os.Open(file)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = disk.Close() }()
	info, err := disk.Stat()
	g.Expect(err).NotTo(HaveOccurred())
	const mib = 1 << 20
	offsets := []int64{0, info.Size() - mib}
	if v, isVolume := volumes[serial]; !isVolume || v.partition {
		offsets = append(offsets, mib)
	}
	for _, offset := range offsets {
		area := make([]byte, mib)
		_, err := disk.ReadAt(area, offset)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(slices.Max(area)).To(BeZero(), "%s at %d", serial, offset)
	}
	g.Expect(data).To(BeNumerically(">", 0), "the other data of %s is not erased by Metadata", serial)
}

// maxManyDisks is how long the agent may take for TestErasureOfManyDisks: three times the target of 10 s, which is for a machine without other work. This one may be busy.
// docs/reference/erase-methods.md has the target and the time that was measured.
const maxManyDisks = 30 * time.Second

// TestErasureOfManyDisks: the agent is fast enough for the policy Metadata with 24 disks of 10 TB. The test logs how long it takes.
func TestErasureOfManyDisks(t *testing.T) {
	g := NewWithT(t)
	const disks = 24
	w := newSegment(t, "10.87.0.0/24")
	w.dnsmasq(t, "10.87.0.100,10.87.0.150,2m")
	args := []string{"-device", "virtio-scsi-pci,id=scsi"}
	for i := range disks {
		file := usedDisk(t, 512, "data")
		g.Expect(os.Truncate(file, 10e12)).To(Succeed())
		args = append(args, drive(fmt.Sprintf("d%d", i), file, fmt.Sprintf("scsi-hd,bus=scsi.0,scsi-id=%d,serial=DISK%d", i, i))...)
	}
	cleaned := runPlan(t, w, args, agent.Plan{Title: "erasure", Purpose: agent.Clean, Clean: &agent.CleanPlan{Policy: wire.PolicyMetadata, AllDisks: true}})
	g.Expect(cleaned.Result().Failure).To(BeNil())
	g.Expect(cleaned.Result().Disks).To(HaveLen(disks))
	t.Logf("Metadata of %d disks: %.1f s from the plan to the result", disks, cleaned.took.Seconds())
	g.Expect(cleaned.took).To(BeNumerically("<", maxManyDisks))
}
