package erase

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/disk"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/drive"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/drive/drivetest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

// TestNeverTouched: what no plan may touch gets no command, no read and no write.
func TestNeverTouched(t *testing.T) {
	signature := func(s disk.Signature) func(*disk.Disk) { return func(d *disk.Disk) { d.Found = []disk.Signature{s} } }
	for _, c := range []struct {
		name    string
		change  func(*disk.Disk)
		keep    wire.KeptDisk
		outcome wire.ErasureOutcome
		message string
	}{
		{"mounted", func(d *disk.Disk) { d.Mounted = []string{"/data"} }, wire.KeptDisk{}, agent.Failed, "mounted at /data"},
		{"read-only", func(d *disk.Disk) { d.ReadOnly = true }, wire.KeptDisk{}, agent.Failed, "read-only"},
		{"removable", func(d *disk.Disk) { d.Removable = true }, wire.KeptDisk{}, wire.LeftOut, "removable"},
		{"USB", func(d *disk.Disk) { d.Transport = wire.TransportUSB }, wire.KeptDisk{}, wire.LeftOut, "USB"},
		{"virtual media", func(d *disk.Disk) { d.VirtualMedia = true }, wire.KeptDisk{}, wire.LeftOut, "virtual media"},
		{"kept by serial number", nil, wire.KeptDisk{SerialNumber: "s-sda"}, wire.LeftOut, "spec.storage.keep"},
		{"kept by WWN", func(d *disk.Disk) { d.WWN = "5000c500a0b1c2d3" }, wire.KeptDisk{WWN: "naa.5000C500A0B1C2D3"}, wire.LeftOut, "spec.storage.keep"},
		{"kept by the label of a partition", func(d *disk.Disk) { d.PartitionNames = []string{"ceph-data"} }, wire.KeptDisk{Label: "ceph-data"}, wire.LeftOut, "spec.storage.keep"},
		{"kept by the label of a file system", signature(disk.Signature{Type: "xfs", Label: "DATA"}), wire.KeptDisk{Label: "DATA"}, wire.LeftOut, "spec.storage.keep"},
		{"VMFS", signature(disk.Signature{Type: "vmfs"}), wire.KeptDisk{}, agent.Failed, "vmfs, which other servers may use"},
		{"GFS2", signature(disk.Signature{Type: "gfs2"}), wire.KeptDisk{}, agent.Failed, "gfs2, which other servers may use"},
		{"OCFS2", signature(disk.Signature{Type: "ocfs2"}), wire.KeptDisk{}, agent.Failed, "ocfs2, which other servers may use"},
		{"VMFS of a storage system", func(d *disk.Disk) {
			d.Found, d.Transport = []disk.Signature{{Type: "vmfs"}}, wire.TransportFibreChannel
		}, wire.KeptDisk{}, wire.LeftOut, "vmfs"},
		{"a LUN of a storage system", func(d *disk.Disk) { d.Transport = wire.TransportISCSI }, wire.KeptDisk{}, wire.LeftOut, "storage system"},
		{"several paths", func(d *disk.Disk) { d.Paths = []string{"sdb"} }, wire.KeptDisk{}, agent.Failed, "the same disk as sdb"},
		{"held by md", func(d *disk.Disk) { d.Holders = []string{"md127"} }, wire.KeptDisk{}, agent.Failed, "held by md127"},
		{"zoned", func(d *disk.Disk) { d.Zoned = true }, wire.KeptDisk{}, agent.Failed, "zoned"},
		{"without a serial number, while a kept one is missing", func(d *disk.Disk) { d.SerialNumber = "" }, wire.KeptDisk{SerialNumber: "K1"}, agent.Failed, "might be K1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := NewWithT(t)
			r := &rack{}
			d := r.add("sda", only(drive.SCSI, func(d *drivetest.Drive) { d.Crypto = true }), c.change)
			before := d.Medium(0)
			plan := agent.CleanPlan{Policy: wire.PolicyPurge}
			if c.keep != (wire.KeptDisk{}) {
				plan.Keep = []wire.KeptDisk{c.keep}
			}
			results, failure := r.run(t, plan)
			g.Expect(results["sda"].Outcome).To(Equal(c.outcome))
			g.Expect(results["sda"].Message).To(ContainSubstring(c.message))
			g.Expect(failure == nil).To(Equal(c.outcome == wire.LeftOut))
			g.Expect(d.Operations()).To(BeEmpty())
			g.Expect(d.Medium(0)).To(Equal(before))
		})
	}
}

// TestNamedDiskOfAStorageSystem: that a plan names a disk of a storage system is no proof that this server wrote it. Its bootstrap data is.
func TestNamedDiskOfAStorageSystem(t *testing.T) {
	id := wire.DiskIdentity{SerialNumber: "S-sda", SizeBytes: size}
	whole := agent.DiskRange{Disk: id, Offset: size / 2, Length: 4096, PartitionGUID: "0b6ddf2c-62fb-4b7e-a5a4-2a3bb7a0b0c1"}
	data := disk.Signature{Type: "vfat", Label: "CIDATA", Partition: 2, PartitionGUID: whole.PartitionGUID, Offset: whole.Offset + 54}
	foreign := data
	foreign.PartitionGUID = "11111111-62fb-4b7e-a5a4-2a3bb7a0b0c1"
	for _, c := range []struct {
		name      string
		transport wire.DiskTransport
		found     []disk.Signature
		named     agent.DiskRange
		outcome   wire.ErasureOutcome
	}{
		{"its bootstrap data", wire.TransportFibreChannel, []disk.Signature{{Type: "gpt"}, data}, whole, wire.Erased},
		{"that of a configuration drive", wire.TransportISCSI, []disk.Signature{{Type: "vfat", Label: "config-2", Partition: 1, Offset: whole.Offset + 54}}, whole, wire.Erased},
		{"that of another server", wire.TransportFibreChannel, []disk.Signature{{Type: "gpt"}, foreign}, whole, agent.Failed},
		{"nothing", wire.TransportFibreChannel, nil, whole, agent.Failed},
		{"VMFS", wire.TransportFibreChannel, []disk.Signature{{Type: "vmfs"}}, whole, wire.LeftOut},
		{"OCFS2 by NVMe over TCP", wire.TransportNVMeOverFabrics, []disk.Signature{{Type: "ocfs2"}}, whole, wire.LeftOut},
		{"bootstrap data elsewhere", wire.TransportFibreChannel, []disk.Signature{data}, agent.DiskRange{Disk: id, Offset: size / 4, Length: 4096}, agent.Failed},
		{"another file system there", wire.TransportFibreChannel, []disk.Signature{{Type: "vfat", Label: "EFI", Partition: 2, Offset: data.Offset}}, whole, agent.Failed},
		{"a file system without a table", wire.TransportFibreChannel, []disk.Signature{{Type: "vfat", Label: "CIDATA", Offset: data.Offset}}, whole, agent.Failed},
		{"no range", wire.TransportFibreChannel, []disk.Signature{data}, agent.DiskRange{Disk: id}, agent.Failed},
		{"a disk of the server", wire.TransportSAS, nil, whole, wire.Erased},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := NewWithT(t)
			r := &rack{}
			d := r.add("sda", only(drive.Block, nil), func(d *disk.Disk) { d.Transport, d.Found = c.transport, c.found })
			plan := agent.CleanPlan{Policy: wire.PolicyClear, Ranges: []agent.DiskRange{c.named}}
			results, _ := r.run(t, plan)
			g.Expect(results["sda"].Outcome).To(Equal(c.outcome), results["sda"].Message)
			g.Expect(hasSecret(d, 0)).To(Equal(c.outcome != wire.Erased))
			plan.Policy = wire.PolicyMetadata
			found := disk.Disk{InspectedDisk: wire.InspectedDisk{SerialNumber: "S-sda", SizeBytes: size, Transport: c.transport}, Found: c.found}
			refused := decide(found, []disk.Disk{found}, plan)
			want := c.outcome
			if want == wire.Erased {
				want = ""
			}
			g.Expect(refused.Outcome).To(Equal(want), "Metadata decides the same")
			if c.outcome == agent.Failed {
				g.Expect(refused.reason).To(Equal(wire.ReasonDiskProtected), "another attempt would not help")
			}
		})
	}
}

// TestUnreadable: a disk whose content is unknown might be kept, so it is asked for its state, and not erased.
func TestUnreadable(t *testing.T) {
	g := NewWithT(t)
	r := &rack{}
	d := r.add("sda", only(drive.ATA, func(d *drivetest.Drive) { d.BlockErase = true }), func(d *disk.Disk) { d.Unreadable = "input/output error" })
	results, failure := r.run(t, agent.CleanPlan{Policy: wire.PolicyClear})
	g.Expect(failure).To(HaveField("Message", And(ContainSubstring("what is on it is unknown"), ContainSubstring(`serial number "S-sda"`))))
	g.Expect(results["sda"].Outcome).To(Equal(agent.Failed))
	g.Expect(hasSecret(d, 0)).To(BeTrue())
}

// TestExpected: a disk that is missing, or that nobody expects, fails the plan with its serial number. The others are erased.
func TestExpected(t *testing.T) {
	g := NewWithT(t)
	r := &rack{}
	a := r.add("sda", only(drive.Block, nil), nil)
	b := r.add("sdb", only(drive.Block, nil), nil)
	results, failure := r.run(t, agent.CleanPlan{Policy: wire.PolicyClear, Expected: []wire.DiskIdentity{{SerialNumber: "S-sda", SizeBytes: size}, {SerialNumber: "GONE", SizeBytes: 77}}})
	g.Expect(failure).NotTo(BeNil())
	g.Expect(failure.Reason).To(Equal(wire.ReasonEraseFailed))
	g.Expect(failure.Message).To(And(ContainSubstring(`the disk with the serial number "GONE" and 77 bytes: the server had it`), ContainSubstring(`disk sdb (serial number "S-sdb"): the server did not have it`)))
	g.Expect(results["sda"].Outcome).To(Equal(wire.Erased))
	g.Expect(results["sdb"].Outcome).To(Equal(agent.Failed))
	g.Expect(results[""].Disk.SerialNumber).To(Equal("GONE"))
	g.Expect(hasSecret(a, 0)).To(BeFalse())
	g.Expect(hasSecret(b, 0)).To(BeTrue())
	g.Expect(b.Operations()).To(BeEmpty())
}

// TestMetadataOnlyWritten: Metadata erases the disks that the provider wrote, and of a plan for all disks the others, too. Facts that are missing protect a disk.
func TestMetadataOnlyWritten(t *testing.T) {
	luks := func(d *disk.Disk) { d.Found = []disk.Signature{{Type: "luks"}} }
	label := []wire.KeptDisk{{Label: "ceph-data"}}
	for _, c := range []struct {
		name       string
		all, named bool
		change     func(*disk.Disk)
		keep       []wire.KeptDisk
		outcome    wire.ErasureOutcome
		message    string
	}{
		{"a disk that the provider did not write", false, false, nil, nil, wire.LeftOut, "only the disks that the provider wrote"},
		{"another disk that is kept", false, false, nil, []wire.KeptDisk{{SerialNumber: "S1"}}, wire.LeftOut, "spec.storage.keep names it"},
		{"a disk that the provider wrote", false, true, nil, nil, "", ""},
		{"all disks", true, false, nil, nil, "", ""},
		{"a USB disk that the provider wrote", false, true, func(d *disk.Disk) { d.Transport = wire.TransportUSB }, nil, "", ""},
		{"another USB disk", true, false, func(d *disk.Disk) { d.Transport = wire.TransportUSB }, nil, wire.LeftOut, "USB"},
		{"it might be kept", false, true, luks, label, agent.Failed, "it might be ceph-data"},
		{"another one might be kept", true, false, luks, label, agent.Failed, "it might be ceph-data"},
		{"it is held", false, true, func(d *disk.Disk) { d.Holders = []string{"md127"} }, nil, agent.Failed, "held by md127"},
		{"it is unreadable, and none is kept", false, true, func(d *disk.Disk) { d.Unreadable = "input/output error" }, nil, "", ""},
		{"it is unreadable, and one is kept", false, true, func(d *disk.Disk) { d.Unreadable = "input/output error" }, label, agent.Failed, "input/output error"},
		{"it is unreadable, and all disks are erased", true, true, func(d *disk.Disk) { d.Unreadable = "input/output error" }, nil, agent.Failed, "input/output error"},
		{"another one is unreadable", true, false, func(d *disk.Disk) { d.Unreadable = "input/output error" }, nil, agent.Failed, "input/output error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := NewWithT(t)
			d := disk.Disk{InspectedDisk: wire.InspectedDisk{Name: "sda", SerialNumber: "S1", SizeBytes: size, Transport: wire.TransportSAS}}
			if c.change != nil {
				c.change(&d)
			}
			plan := agent.CleanPlan{Policy: wire.PolicyMetadata, AllDisks: c.all, Keep: c.keep}
			if c.named {
				plan.Ranges = []agent.DiskRange{{Disk: d.ID(), Length: sector}}
			}
			got := decide(d, []disk.Disk{d}, plan)
			g.Expect(got.Outcome).To(Equal(c.outcome))
			g.Expect(got.Message).To(ContainSubstring(c.message))
		})
	}
}

// TestRangeOfAnUnknownDisk: bootstrap data on a disk that is not there, or that two disks may have, fails each policy.
func TestRangeOfAnUnknownDisk(t *testing.T) {
	for _, policy := range []wire.ErasePolicy{wire.PolicyMetadata, wire.PolicyClear, wire.PolicyPurge} {
		g := NewWithT(t)
		one := disk.Disk{InspectedDisk: wire.InspectedDisk{Name: "sda", SerialNumber: "S1", SizeBytes: size}}
		two := one
		two.Name = "sdb"
		plan := agent.CleanPlan{Policy: policy, Ranges: []agent.DiskRange{{Disk: one.ID(), Length: sector}}}
		g.Expect(failureOf(selectDisks(plan, nil).results)).To(HaveField("Message", ContainSubstring("it has bootstrap data and is not there")), policy)
		g.Expect(failureOf(selectDisks(plan, []disk.Disk{one, two}).results)).To(HaveField("Message", ContainSubstring("2 disks match this")), policy)
	}
}

// TestDisksThatCannotBeToldApart: a plan for the disks that the provider wrote touches neither of two disks with one identity: the other one may have data of a user.
func TestDisksThatCannotBeToldApart(t *testing.T) {
	g := NewWithT(t)
	r := &rack{}
	same := func(d *disk.Disk) { d.SerialNumber, d.WWN = "S1", "" }
	drives := []*drivetest.Drive{r.add("nvme0n1", only(drive.Block, nil), same), r.add("nvme0n2", only(drive.Block, nil), same)}
	before := [][]byte{bytes.Clone(drives[0].Medium(0)), bytes.Clone(drives[1].Medium(0))}
	plan := agent.CleanPlan{Policy: wire.PolicyMetadata, Ranges: []agent.DiskRange{{Disk: wire.DiskIdentity{SerialNumber: "S1", SizeBytes: size}, Length: sector}}}
	results, failure := r.run(t, plan)
	g.Expect(failure).To(HaveField("Message", ContainSubstring("2 disks match this")))
	for i, d := range drives {
		g.Expect(bytes.Equal(d.Medium(0), before[i])).To(BeTrue())
	}
	g.Expect(results["nvme0n1"].Outcome).To(Equal(agent.Failed))
	g.Expect(results["nvme0n2"].Outcome).To(Equal(agent.Failed))
	plan.AllDisks = true
	_, failure = r.run(t, plan)
	g.Expect(failure).NotTo(BeNil())
	g.Expect(bytes.Equal(drives[0].Medium(0), before[0]) || bytes.Equal(drives[1].Medium(0), before[1])).To(BeFalse(), "a plan for all disks erases both")
}

// TestPlanInvalid: a plan that cannot be carried out touches nothing. A range that names no disk fails the plan, and the disks are erased: it is unknown which of them has
// the bootstrap data.
func TestPlanInvalid(t *testing.T) {
	g := NewWithT(t)
	r := &rack{}
	d := r.add("sda", only(drive.Block, nil), nil)
	before := d.Medium(0)
	id := wire.DiskIdentity{SerialNumber: "S-sda"}
	for _, c := range []struct {
		plan   agent.CleanPlan
		reason string
	}{
		{agent.CleanPlan{}, wire.ReasonPlanInvalid},
		{agent.CleanPlan{Policy: "Shred"}, wire.ReasonPlanInvalid},
		{agent.CleanPlan{Policy: wire.PolicyClear, Ranges: []agent.DiskRange{{Disk: id, Offset: size - 1, Length: 2}}}, wire.ReasonPlanInvalid},
		{agent.CleanPlan{Policy: wire.PolicyClear, Ranges: []agent.DiskRange{{Disk: id, Length: 1, Offset: -1}}}, wire.ReasonPlanInvalid},
		{agent.CleanPlan{Policy: wire.PolicyMetadata, Ranges: []agent.DiskRange{{Disk: id, Offset: size - 1, Length: 2}}}, wire.ReasonPlanInvalid},
		{agent.CleanPlan{Policy: wire.PolicyClear, Keep: []wire.KeptDisk{{SerialNumber: "S-sda"}}, Ranges: []agent.DiskRange{{Disk: id, Length: 1}}}, wire.ReasonDiskProtected},
		{agent.CleanPlan{Policy: wire.PolicyMetadata, Keep: []wire.KeptDisk{{SerialNumber: "S-sda"}}, Ranges: []agent.DiskRange{{Disk: id, Length: 1}}}, wire.ReasonDiskProtected},
	} {
		_, failure := r.run(t, c.plan)
		g.Expect(failure).To(HaveField("Reason", c.reason))
		g.Expect(bytes.Equal(d.Medium(0), before)).To(BeTrue(), "%+v", c.plan)
		g.Expect(d.Operations()).To(BeEmpty(), "%+v", c.plan)
	}
	results, failure := r.run(t, agent.CleanPlan{Policy: wire.PolicyClear, Ranges: []agent.DiskRange{{}}})
	g.Expect(failure).To(HaveField("Reason", wire.ReasonPlanInvalid))
	g.Expect(results["sda"].Outcome).To(Equal(wire.Erased))
	g.Expect(hasSecret(d, 0)).To(BeFalse())
}

// TestKeptNamespace: a kept namespace forbids what acts on the whole drive, and keeps its content.
func TestKeptNamespace(t *testing.T) {
	for _, formatsAll := range []bool{false, true} {
		g := NewWithT(t)
		r := &rack{}
		d := drivetest.New(drive.NVMe, 3, size, 1)
		d.Crypto, d.BlockErase, d.Format, d.FormatsAll = true, true, true, formatsAll
		r.add("nvme0", d, nil)
		kept := d.Medium(1)
		plan := agent.CleanPlan{Policy: wire.PolicyClear, Keep: []wire.KeptDisk{{SerialNumber: "S-nvme0n2"}}}
		results, failure := r.run(t, plan)
		g.Expect(failure).To(BeNil())
		g.Expect(results["nvme0n1"].Outcome).To(Equal(wire.Erased))
		g.Expect(results["nvme0n2"].Outcome).To(Equal(wire.LeftOut))
		g.Expect(results["nvme0n3"].Method).To(Equal(map[bool]string{false: "NVMe format, user data erase", true: "Overwrite with zeros"}[formatsAll]))
		g.Expect(d.Medium(1)).To(Equal(kept))
		g.Expect(hasSecret(d, 0)).To(BeFalse())
		g.Expect(hasSecret(d, 2)).To(BeFalse())
		plan.Policy = wire.PolicyPurge
		_, failure = r.run(t, plan)
		g.Expect(failure).To(HaveField("Message", ContainSubstring("a namespace of the same NVMe drive must not be touched")))
	}
}

// TestHiddenNamespaceBesideKeptOne: a namespace that the server does not have fails the erasure of the others, also if one of them is kept, which is no such namespace.
func TestHiddenNamespaceBesideKeptOne(t *testing.T) {
	for hidden, failed := range map[int]bool{0: false, 1: true} {
		g := NewWithT(t)
		r := &rack{}
		d := drivetest.New(drive.NVMe, 2, size, 1)
		d.Crypto, d.BlockErase, d.Format, d.Unattached = true, true, true, hidden
		r.add("nvme0", d, nil)
		results, failure := r.run(t, agent.CleanPlan{Policy: wire.PolicyClear, Keep: []wire.KeptDisk{{SerialNumber: "S-nvme0n2"}}})
		g.Expect(failure != nil).To(Equal(failed))
		g.Expect(results["nvme0n2"].Outcome).To(Equal(wire.LeftOut))
		if failed {
			g.Expect(results["nvme0n1"].Message).To(ContainSubstring("1 NVMe namespaces that this server does not have"))
		}
	}
}

// TestFormatErasesEachNamespace: a drive whose format applies to all namespaces may erase only the one that the format names (FNA bit 0 without bit 1).
func TestFormatErasesEachNamespace(t *testing.T) {
	for _, named := range []bool{false, true} {
		g := NewWithT(t)
		r := &rack{}
		d := drivetest.New(drive.NVMe, 3, size, 1)
		d.Format, d.FormatsAll, d.ErasesNamed = true, true, named
		r.add("nvme0", d, nil)
		results, failure := r.run(t, agent.CleanPlan{Policy: wire.PolicyClear})
		g.Expect(failure).To(BeNil())
		for i := range 3 {
			g.Expect(results[fmt.Sprintf("nvme0n%d", i+1)].Method).To(Equal("NVMe format, user data erase"))
			g.Expect(hasSecret(d, i)).To(BeFalse(), "namespace %d", i+1)
		}
	}
}

// TestSilentNVMe: an NVMe drive that does not answer commands is not erased by writing to the namespaces that are visible. A drive of another kind is.
func TestSilentNVMe(t *testing.T) {
	for _, kind := range []drive.Kind{drive.NVMe, drive.ATA} {
		g := NewWithT(t)
		r := &rack{}
		d := drivetest.New(kind, 1, size, 1)
		d.Hook = func(operation string) error {
			if strings.HasPrefix(operation, "identify") {
				return errors.New("no answer")
			}
			return nil
		}
		r.add("d0", d, nil)
		results, failure := r.run(t, agent.CleanPlan{Policy: wire.PolicyClear})
		for name, result := range results {
			g.Expect(result.Outcome).To(Equal(map[drive.Kind]wire.ErasureOutcome{drive.NVMe: agent.Failed, drive.ATA: wire.Erased}[kind]), "%s %s: %s", kind, name, result.Message)
		}
		g.Expect(failure != nil).To(Equal(kind == drive.NVMe))
	}
}

// TestBusyNamespace: a namespace that something holds forbids what acts on the whole drive, although the plan does not keep it.
func TestBusyNamespace(t *testing.T) {
	g := NewWithT(t)
	r := &rack{}
	d := drivetest.New(drive.NVMe, 2, size, 1)
	d.Crypto, d.Format = true, true
	r.add("nvme0", d, nil)
	r.opens = func(d disk.Disk) error {
		if d.Name == "nvme0n2" {
			return disk.ErrBusy
		}
		return nil
	}
	held := d.Medium(1)
	results, failure := r.run(t, agent.CleanPlan{Policy: wire.PolicyClear})
	g.Expect(failure).To(HaveField("Reason", wire.ReasonDiskBusy))
	g.Expect(results["nvme0n1"].Outcome).To(Equal(wire.Erased))
	g.Expect(d.Medium(1)).To(Equal(held))
}

// TestRamdiskAssemblesNothing: the ramdisk has no modules of md and of the device mapper, so nothing on the disks is assembled that would hold them.
// TestErasureHoldsNothing in hack/agenttest reads the ramdisk that is built.
func TestRamdiskAssemblesNothing(t *testing.T) {
	content, err := os.ReadFile("../../../../hack/agent/modules.txt")
	g := NewWithT(t)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(content)).To(ContainSubstring("drivers/scsi"))
	for line := range strings.Lines(string(content)) {
		g.Expect(line).NotTo(HavePrefix("drivers/md"), "md, dm and bcache would hold the disks")
		g.Expect(strings.TrimSpace(line)).NotTo(Equal("drivers"))
	}
}
