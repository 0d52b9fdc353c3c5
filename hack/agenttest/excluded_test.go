package agenttest_test

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

// excludedSize is the size of the disks that must not be touched. An SD card has a power of two.
const excludedSize = 8 << 20

// gpfsType is the type of a partition of GPFS, as it is stored: 37affc90-ef7d-4e96-91c3-2d7ae055b174.
const gpfsType = "\x90\xfc\xaf\x37\x7d\xef\x96\x4e\x91\xc3\x2d\x7a\xe0\x55\xb1\x74"

// excludedDrives are drives with what a result has to say about them.
type excludedDrives struct {
	args []string
	// files and before are their files and what is in these, by the ID of the drive.
	files  map[string]string
	before map[string][]byte
	// want are the results, by serial number and namespace.
	want map[string]excludedResult
}

// excludedResult is what a result says about a drive. message is a part of its message, and method that of a drive that is erased.
type excludedResult struct {
	paths           int
	outcome         wire.ErasureOutcome
	message, method string
}

// add adds a drive. options are more of QEMU's -drive.
func (d *excludedDrives) add(t *testing.T, id string, content []byte, options, device string) {
	t.Helper()
	d.files[id], d.before[id] = diskFile(t, content), content
	d.attach(id, d.files[id], options, device)
}

func (d *excludedDrives) attach(id, file, options, device string) {
	d.args = append(d.args, "-drive", fmt.Sprintf("if=none,id=%s,format=raw,file.filename=%s%s", id, file, options), "-device", device+",drive="+id)
}

// plantedContent is what a last owner wrote, with text at offsets.
func plantedContent(text map[int]string) []byte {
	content := bytes.Repeat([]byte(planted), excludedSize/len(planted))
	for at, t := range text {
		copy(content[at:], t)
	}
	return content
}

// What the plan keeps: the WWN of a SCSI disk, the label of a file system, that of a partition, and a name that no disk has. The partition is in a namespace of
// an NVMe drive: Linux takes no WWN from the NVMe drives of QEMU (NVME_QUIRK_BOGUS_NID).
const (
	keptWWN       = "0x5000c500a1b2c310"
	keptLabel     = "keep-me"
	keptPartition = "keep this"
	goneDisk      = "GONE"
)

// newExcludedDrives returns a drive for each row of the list "What is never touched" in docs/cleaning.md that QEMU has a drive for, and two that are erased.
// There is no LUN of a storage system among them, and nothing is mounted or held.
func newExcludedDrives(t *testing.T) *excludedDrives {
	t.Helper()
	const failed, leftOut = agent.Failed, wire.LeftOut
	d := &excludedDrives{files: map[string]string{}, before: map[string][]byte{}}
	d.args = []string{
		"-device", "virtio-scsi-pci,id=scsi", "-device", "qemu-xhci,id=usb", "-device", "sdhci-pci,id=sd",
		"-device", "nvme,id=parts,serial=PARTS", "-device", "nvme,id=zns,serial=ZONED", "-device", "nvme,id=meta,serial=NOSIZE",
	}
	d.want = map[string]excludedResult{
		// spec.storage.keep.
		"WWN": {1, leftOut, "spec.storage.keep names it", ""}, "FSLABEL": {1, leftOut, "spec.storage.keep names it", ""},
		"PARTS n2": {1, leftOut, "spec.storage.keep names it", ""},
		// Not a disk of the server.
		"REMOVABLE": {1, leftOut, "it is removable", ""}, "MEDIA": {1, leftOut, "it is virtual media", ""},
		// File systems that several servers share.
		"VMFS": {1, failed, "it has vmfs, which other servers may use", ""}, "GPFS": {1, failed, "it has gpfs, which other servers may use", ""},
		"GFS2": {1, failed, "it has gfs2, which other servers may use", ""}, "OCFS2": {1, failed, "it has ocfs2, which other servers may use", ""},
		// What cannot be written to, or not safely.
		"READONLY": {1, failed, "it is read-only", ""}, "ZONED n1": {1, failed, "it is a host-managed zoned disk", ""},
		"TWICE": {2, failed, "it is the same disk as sd", ""},
		// What cannot be read.
		"DEFECT": {1, failed, "what is on it is unknown", ""}, "NOSIZE n1": {1, failed, "the kernel reports no size", ""},
		// What might be the disk that the plan keeps and that is not there.
		"":    {1, failed, "its serial number is unknown, and it might be " + goneDisk, ""},
		"LVM": {1, failed, "it has lvm2, whose labels are not read, and it might be " + goneDisk, ""},
		// What is erased beside them.
		"PLAIN": {1, wire.Erased, "", overwriteMethod}, "PARTS n1": {1, wire.Erased, "", formatMethod},
	}
	plain, scsi := plantedContent(nil), func(id string) string { return "scsi-hd,bus=scsi.0,serial=" + strings.ToUpper(id) }
	d.add(t, "wwn", plain, "", scsi("wwn")+",wwn="+keptWWN)
	d.add(t, "fslabel", plantedContent(map[int]string{0x438: "\x53\xef", 0x478: keptLabel + "\x00"}), "", scsi("fslabel"))
	d.add(t, "ns1", plain, ",discard=unmap", "nvme-ns,bus=parts,nsid=1")
	labelled := plantedContent(nil)
	writeTables(labelled, 512, linuxType, keptPartition)
	d.add(t, "ns2", labelled, ",discard=unmap", "nvme-ns,bus=parts,nsid=2")
	d.add(t, "removable", plain, "", scsi("removable")+",removable=on")
	d.add(t, "media", plain, "", scsi("media")+",vendor=AMI,product=Virtual HDisk0")
	d.add(t, "vmfs", plantedContent(map[int]string{1 << 20: "\x0d\xd0\x01\xc0"}), "", scsi("vmfs"))
	gpfs := plantedContent(nil)
	writeTables(gpfs, 512, gpfsType, "data")
	d.add(t, "gpfs", gpfs, "", scsi("gpfs"))
	d.add(t, "gfs2", plantedContent(map[int]string{0x10000: "\x01\x16\x19\x70\x00\x00\x00\x01"}), "", scsi("gfs2"))
	d.add(t, "ocfs2", plantedContent(map[int]string{0x2000: "OCFSV2"}), "", scsi("ocfs2"))
	d.add(t, "readonly", plain, ",readonly=on", "virtio-blk-pci,serial=READONLY")
	d.add(t, "zoned", plain, "", "nvme-ns,bus=zns,nsid=1,zoned=on,zoned.zone_size=1M")
	const twice = ",wwn=0x5000c500a1b2c311,share-rw=on"
	d.add(t, "twice", plain, ",file.locking=off", scsi("twice")+twice)
	d.attach("twice2", d.files["twice"], ",file.locking=off", scsi("twice")+twice)
	d.files["defect"], d.before["defect"] = diskFile(t, plain), plain
	// Reads of one sector fail. It is one that has a signature in some formats.
	d.args = append(d.args, "-drive", "if=none,id=defect,format=raw,file.driver=blkdebug,file.image.driver=file,file.image.filename="+d.files["defect"]+
		",file.inject-error.0.event=none,file.inject-error.0.iotype=read,file.inject-error.0.sector=2048,file.inject-error.0.errno=5",
		"-device", scsi("defect")+",drive=defect")
	d.add(t, "nosize", plain, "", "nvme-ns,bus=meta,nsid=1,ms=8,mset=1") // the kernel does not know what to do with the 8 bytes after each block
	d.add(t, "noserial", plain, "", "virtio-blk-pci")
	d.add(t, "lvm", plantedContent(map[int]string{512: "LABELONE"}), "", scsi("lvm"))
	d.add(t, "plain", plain, ",discard=unmap", scsi("plain"))
	// Not seen: they have no result.
	d.add(t, "usbstick", plain, "", "usb-storage,bus=usb.0,serial=USBSTICK")
	d.add(t, "sdcard", plain, "", "sd-card")
	return d
}

// namespaceOf is the number of an NVMe namespace in the name of its disk.
var namespaceOf = regexp.MustCompile(`^nvme\d+(n\d+)$`)

// TestErasureLeavesAlone: the drives of the list "What is never touched" get no write, with a plan to erase all disks, and each has its result.
func TestErasureLeavesAlone(t *testing.T) {
	g := NewWithT(t)
	d := newExcludedDrives(t)
	w := newSegment(t, "10.85.0.0/24")
	w.dnsmasq(t, "10.85.0.100,10.85.0.150,2m")
	cleaned := runPlan(t, w, d.args, agent.Plan{
		Title: "erasure", Purpose: agent.Clean,
		Clean: &agent.CleanPlan{Policy: wire.PolicyClear, AllDisks: true, Keep: []wire.KeptDisk{{WWN: keptWWN}, {Label: keptLabel}, {Label: keptPartition}, {SerialNumber: goneDisk}, {Label: goneDisk}}},
	})
	result := cleaned.Result()
	t.Logf("%.1f s from the plan to the result", cleaned.took.Seconds())
	logDisks(t, result.Disks)
	g.Expect(result.Failure).To(HaveField("Reason", wire.ReasonEraseFailed))
	paths := map[string]int{}
	for _, r := range result.Disks {
		key := r.Disk.SerialNumber
		if m := namespaceOf.FindStringSubmatch(r.Name); m != nil {
			key += " " + m[1]
		}
		if r.Disk.SerialNumber == "PARTS" { // Linux numbers namespaces in the order in which it finds them. The content of both is compared below
			if key = "PARTS n2"; r.Outcome == wire.Erased {
				key = "PARTS n1"
			}
		}
		paths[key]++
		want, known := d.want[key]
		g.Expect(known).To(BeTrue(), "the disk %q of the result", key)
		g.Expect(r.Outcome).To(Equal(want.outcome), "%q: %s", key, r.Message)
		g.Expect(r.Message).To(ContainSubstring(want.message), "%q", key)
		g.Expect(r.Method).To(Equal(want.method), "%q", key)
	}
	for key, want := range d.want {
		g.Expect(paths[key]).To(Equal(want.paths), "results of the disk %q", key)
	}
	g.Expect(cleaned.writes).To(HaveLen(len(d.files)+1), "each drive, and the second path of one")
	for id, file := range d.files {
		after, err := os.ReadFile(file)
		g.Expect(err).NotTo(HaveOccurred())
		if id == "plain" || id == "ns1" {
			g.Expect(bytes.Count(after, []byte{0})).To(Equal(len(after)), "%s is erased", id)
			continue
		}
		g.Expect(bytes.Equal(after, d.before[id])).To(BeTrue(), "%s is as it was", id)
		g.Expect(cleaned.writes[id]).To(BeZero(), "writes to %s", id)
	}
	g.Expect(cleaned.writes["twice2"]).To(BeZero())
	g.Expect(cleaned.writes["plain"]).To(BeNumerically(">", 0), "writes are counted")
}
