package sanitize_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"pgregory.net/rapid"

	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/disk"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/drive"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/drive/drivetest"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/method"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/sanitize"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

const (
	mib  = 1 << 20
	size = 3 * mib
)

// secret is what the last owner has on the disk: as data, as metadata at the start, and in the backup at the end.
var secret = []byte("the secret of the last owner")

// part is a disk of a rack.
type part struct {
	disk  disk.Disk
	drive *drivetest.Drive
	index int
}

// rack are the disks of a server.
type rack struct {
	parts []part
	// opens is called before a disk is opened.
	opens    func(d disk.Disk) error
	progress [][]agent.DiskProgress
}

// add adds a drive with its namespaces. change changes its disks.
func (r *rack) add(name string, d *drivetest.Drive, change func(*disk.Disk)) *drivetest.Drive {
	transport := map[drive.Kind]string{drive.NVMe: "nvme", drive.ATA: "sata", drive.SCSI: "sas", drive.Block: "virtio"}[d.Kind]
	for i := 0; ; i++ {
		device, name := d.Namespace(i), name
		if d.Kind == drive.NVMe {
			name = fmt.Sprintf("%sn%d", name, i+1)
		}
		one := disk.Disk{Disk: agent.Disk{Name: name, Serial: "S-" + name, Size: device.Size(), LogicalSector: 512, Transport: transport}}
		if change != nil {
			change(&one)
		}
		for _, at := range []int{0, mib + 77*512, size - 33*512} {
			d.Write(i, at, secret)
		}
		r.parts = append(r.parts, part{one, d, i})
		if i+1 == d.Namespaces() {
			return d
		}
	}
}

func (r *rack) find(d disk.Disk) part {
	return r.parts[slices.IndexFunc(r.parts, func(p part) bool { return p.disk.Name == d.Name })]
}

func (r *rack) disks() []disk.Disk {
	var out []disk.Disk
	for _, p := range r.parts {
		out = append(out, p.disk)
	}
	return out
}

func (r *rack) options() sanitize.Options {
	return sanitize.Options{
		Open: func(d disk.Disk) (disk.Device, error) {
			if r.opens != nil {
				if err := r.opens(d); err != nil {
					return nil, err
				}
			}
			return r.find(d).drive.Namespace(r.find(d).index), nil
		},
		Port:     func(d disk.Disk) drive.Port { return r.find(d).drive.Port(r.find(d).index) },
		Contents: func(_ context.Context, d disk.Disk) disk.Disk { d.Unreadable = ""; return d },
		Report:   func(p []agent.DiskProgress) { r.progress = append(r.progress, p) },
	}
}

// run erases the disks of a rack in a bubble with its own clock.
func (r *rack) run(t *testing.T, plan agent.CleanPlan) (results map[string]agent.ErasedDisk, failure *agent.Failure) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		results, failure = r.runIn(t.Context(), plan)
	})
	return results, failure
}

func (r *rack) runIn(ctx context.Context, plan agent.CleanPlan) (map[string]agent.ErasedDisk, *agent.Failure) {
	out := map[string]agent.ErasedDisk{}
	all, failure := sanitize.Run(ctx, plan, r.disks(), r.options())
	for _, d := range all {
		out[d.Name] = d
	}
	return out, failure
}

func hasSecret(d *drivetest.Drive, i int) bool { return bytes.Contains(d.Medium(i), secret) }

func only(kind drive.Kind, change func(*drivetest.Drive)) *drivetest.Drive {
	d := drivetest.New(kind, 1, size, 1)
	if change != nil {
		change(d)
	}
	return d
}

// TestMethods: each kind of drive is erased by the best method that it offers, and what was planted is gone.
func TestMethods(t *testing.T) {
	rotational := func(d *disk.Disk) { d.Rotational = true }
	for _, c := range []struct {
		name   string
		policy agent.CleanPolicy
		drive  *drivetest.Drive
		disk   func(*disk.Disk)
		method string
		class  agent.CleanPolicy
		kind   agent.VerificationKind
	}{
		{"NVMe, crypto", agent.CleanPurge, only(drive.NVMe, func(d *drivetest.Drive) { d.Crypto, d.BlockErase, d.Format = true, true, true }), nil, "NVMe sanitize, crypto erase", agent.CleanPurge, agent.Samples},
		{"NVMe, block", agent.CleanClear, only(drive.NVMe, func(d *drivetest.Drive) { d.BlockErase = true }), nil, "NVMe sanitize, block erase", agent.CleanPurge, agent.Samples},
		{"NVMe, deallocated blocks return errors", agent.CleanPurge, only(drive.NVMe, func(d *drivetest.Drive) { d.BlockErase, d.DULBE = true, true }), nil, "NVMe sanitize, block erase", agent.CleanPurge, agent.DriveStatus},
		{"NVMe, format", agent.CleanClear, only(drive.NVMe, func(d *drivetest.Drive) { d.Format = true }), nil, "NVMe format, user data erase", agent.CleanClear, agent.Samples},
		{"NVMe, crypto format", agent.CleanClear, only(drive.NVMe, func(d *drivetest.Drive) { d.FormatCrypto = true }), nil, "NVMe format, cryptographic erase", agent.CleanClear, agent.Samples},
		{"NVMe without commands", agent.CleanClear, only(drive.NVMe, nil), nil, "Overwrite with zeros", agent.CleanClear, agent.ReadBack},
		{"ATA, crypto", agent.CleanPurge, only(drive.ATA, func(d *drivetest.Drive) { d.Crypto, d.Encrypts = true, true }), nil, "ATA sanitize, crypto scramble", agent.CleanPurge, agent.Samples},
		{"ATA, block", agent.CleanPurge, only(drive.ATA, func(d *drivetest.Drive) { d.Crypto, d.BlockErase = true, true }), nil, "ATA sanitize, block erase", agent.CleanPurge, agent.Samples},
		{"ATA, hard disk", agent.CleanPurge, only(drive.ATA, func(d *drivetest.Drive) { d.SanitizeOverwrite = true }), rotational, "ATA sanitize, overwrite", agent.CleanPurge, agent.Samples},
		{"ATA, hard disk, Clear", agent.CleanClear, only(drive.ATA, func(d *drivetest.Drive) { d.SanitizeOverwrite, d.SecurityErase = true, true }), rotational, "Overwrite with zeros", agent.CleanClear, agent.ReadBack},
		{"ATA, enhanced", agent.CleanClear, only(drive.ATA, func(d *drivetest.Drive) { d.SecurityErase, d.Enhanced = true, true }), nil, "ATA enhanced security erase", agent.CleanClear, agent.Samples},
		{"ATA, security erase", agent.CleanClear, only(drive.ATA, func(d *drivetest.Drive) { d.SecurityErase = true }), nil, "ATA security erase", agent.CleanClear, agent.Samples},
		{"SCSI, crypto", agent.CleanPurge, only(drive.SCSI, func(d *drivetest.Drive) { d.Crypto = true }), nil, "SCSI sanitize, cryptographic erase", agent.CleanPurge, agent.Samples},
		{"SCSI, block", agent.CleanPurge, only(drive.SCSI, func(d *drivetest.Drive) { d.BlockErase = true }), nil, "SCSI sanitize, block erase", agent.CleanPurge, agent.Samples},
		{"SCSI, hard disk", agent.CleanPurge, only(drive.SCSI, func(d *drivetest.Drive) { d.SanitizeOverwrite = true }), rotational, "SCSI sanitize, overwrite", agent.CleanPurge, agent.Samples},
		{"SCSI without commands", agent.CleanClear, only(drive.SCSI, nil), rotational, "Overwrite with zeros", agent.CleanClear, agent.ReadBack},
		{"virtio", agent.CleanClear, only(drive.Block, nil), nil, "Overwrite with zeros", agent.CleanClear, agent.ReadBack},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := NewWithT(t)
			r := &rack{}
			r.add("disk0", c.drive, c.disk)
			results, failure := r.run(t, agent.CleanPlan{Policy: c.policy})
			g.Expect(failure).To(BeNil())
			got := results[r.parts[0].disk.Name]
			g.Expect(got.Outcome).To(Equal(agent.Erased))
			g.Expect(got.Method).To(Equal(c.method))
			g.Expect(got.Class).To(Equal(c.class))
			g.Expect(got.Basis).To(ContainSubstring("NIST SP 800-88 Rev. 2"))
			g.Expect(got.Verification).To(And(HaveField("Kind", c.kind), HaveField("Passed", true), HaveField("Bytes", BeNumerically(">=", 0))))
			g.Expect(got.StartedAt).NotTo(BeZero())
			g.Expect(hasSecret(c.drive, 0)).To(BeFalse())
			g.Expect(c.drive.Locked()).To(BeFalse())
			g.Expect(r.progress).NotTo(BeEmpty())
			g.Expect(r.progress[len(r.progress)-1]).To(BeEmpty(), "a disk with a result is not in progress")
		})
	}
}

// TestNeverTouched: what no plan may touch gets no command, no read and no write.
func TestNeverTouched(t *testing.T) {
	signature := func(s disk.Signature) func(*disk.Disk) { return func(d *disk.Disk) { d.Found = []disk.Signature{s} } }
	for _, c := range []struct {
		name    string
		change  func(*disk.Disk)
		keep    string
		outcome agent.Outcome
		message string
	}{
		{"mounted", func(d *disk.Disk) { d.Mounted = []string{"/data"} }, "", agent.Failed, "mounted at /data"},
		{"read-only", func(d *disk.Disk) { d.ReadOnly = true }, "", agent.Failed, "read-only"},
		{"removable", func(d *disk.Disk) { d.Removable = true }, "", agent.LeftOut, "removable"},
		{"USB", func(d *disk.Disk) { d.Transport = "usb" }, "", agent.LeftOut, "USB"},
		{"virtual media", func(d *disk.Disk) { d.VirtualMedia = true }, "", agent.LeftOut, "virtual media"},
		{"kept by serial number", nil, "s-sda", agent.LeftOut, "spec.storage.keep"},
		{"kept by WWN", func(d *disk.Disk) { d.WWN = "5000c500a0b1c2d3" }, "naa.5000C500A0B1C2D3", agent.LeftOut, "spec.storage.keep"},
		{"kept by the label of a partition", func(d *disk.Disk) { d.PartitionNames = []string{"ceph-data"} }, "ceph-data", agent.LeftOut, "spec.storage.keep"},
		{"kept by the label of a file system", signature(disk.Signature{Type: "xfs", Label: "DATA"}), "DATA", agent.LeftOut, "spec.storage.keep"},
		{"VMFS", signature(disk.Signature{Type: "vmfs"}), "", agent.Failed, "vmfs, which other servers may use"},
		{"GFS2", signature(disk.Signature{Type: "gfs2"}), "", agent.Failed, "gfs2, which other servers may use"},
		{"OCFS2", signature(disk.Signature{Type: "ocfs2"}), "", agent.Failed, "ocfs2, which other servers may use"},
		{"VMFS of a storage system", func(d *disk.Disk) { d.Found, d.Transport = []disk.Signature{{Type: "vmfs"}}, "fc" }, "", agent.LeftOut, "vmfs"},
		{"a LUN of a storage system", func(d *disk.Disk) { d.Transport = "iscsi" }, "", agent.LeftOut, "storage system"},
		{"several paths", func(d *disk.Disk) { d.Paths = []string{"sdb"} }, "", agent.Failed, "the same disk as sdb"},
		{"held by md", func(d *disk.Disk) { d.Holders = []string{"md127"} }, "", agent.Failed, "held by md127"},
		{"zoned", func(d *disk.Disk) { d.Zoned = true }, "", agent.Failed, "zoned"},
		{"without a serial number, while a kept one is missing", func(d *disk.Disk) { d.Serial = "" }, "K1", agent.Failed, "might be K1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := NewWithT(t)
			r := &rack{}
			d := r.add("sda", only(drive.SCSI, func(d *drivetest.Drive) { d.Crypto = true }), c.change)
			before := d.Medium(0)
			plan := agent.CleanPlan{Policy: agent.CleanPurge}
			if c.keep != "" {
				plan.Keep = []string{c.keep}
			}
			results, failure := r.run(t, plan)
			g.Expect(results["sda"].Outcome).To(Equal(c.outcome))
			g.Expect(results["sda"].Message).To(ContainSubstring(c.message))
			g.Expect(failure == nil).To(Equal(c.outcome == agent.LeftOut))
			g.Expect(d.Operations()).To(BeEmpty())
			g.Expect(d.Medium(0)).To(Equal(before))
		})
	}
}

// TestUnreadable: a disk whose content is unknown might be kept, so it is asked for its state, and not erased.
func TestUnreadable(t *testing.T) {
	g := NewWithT(t)
	r := &rack{}
	d := r.add("sda", only(drive.ATA, func(d *drivetest.Drive) { d.BlockErase = true }), func(d *disk.Disk) { d.Unreadable = "input/output error" })
	results, failure := r.run(t, agent.CleanPlan{Policy: agent.CleanClear})
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
	results, failure := r.run(t, agent.CleanPlan{Policy: agent.CleanClear, Expected: []agent.DiskID{{Serial: "S-sda", Size: size}, {Serial: "GONE", Size: 77}}})
	g.Expect(failure).NotTo(BeNil())
	g.Expect(failure.Reason).To(Equal(agent.ReasonEraseFailed))
	g.Expect(failure.Message).To(And(ContainSubstring(`the disk with the serial number "GONE" and 77 bytes: the server had it`), ContainSubstring(`disk sdb (serial number "S-sdb"): the server did not have it`)))
	g.Expect(results["sda"].Outcome).To(Equal(agent.Erased))
	g.Expect(results["sdb"].Outcome).To(Equal(agent.Failed))
	g.Expect(results[""].Disk.Serial).To(Equal("GONE"))
	g.Expect(hasSecret(a, 0)).To(BeFalse())
	g.Expect(hasSecret(b, 0)).To(BeTrue())
	g.Expect(b.Operations()).To(BeEmpty())
}

// TestPlanInvalid: a plan that cannot be carried out touches nothing.
func TestPlanInvalid(t *testing.T) {
	g := NewWithT(t)
	r := &rack{}
	d := r.add("sda", only(drive.Block, nil), nil)
	for _, policy := range []agent.CleanPolicy{"", agent.CleanMetadata, "Shred"} {
		_, failure := r.run(t, agent.CleanPlan{Policy: policy})
		g.Expect(failure).To(HaveField("Reason", agent.ReasonPlanInvalid))
	}
	for id, reason := range map[agent.DiskRange]string{
		{Disk: agent.DiskID{Serial: "S-sda"}, Offset: size - 1, Length: 2}: agent.ReasonPlanInvalid,
		{}: agent.ReasonPlanInvalid,
		{Disk: agent.DiskID{Serial: "S-sda"}, Length: 1, Offset: -1}: agent.ReasonPlanInvalid,
	} {
		_, failure := r.run(t, agent.CleanPlan{Policy: agent.CleanClear, Ranges: []agent.DiskRange{id}})
		g.Expect(failure).To(HaveField("Reason", reason))
	}
	_, failure := r.run(t, agent.CleanPlan{Policy: agent.CleanClear, Keep: []string{"S-sda"}, Ranges: []agent.DiskRange{{Disk: agent.DiskID{Serial: "S-sda"}, Length: 1}}})
	g.Expect(failure).To(HaveField("Reason", agent.ReasonProtectedDisk))
	g.Expect(d.Operations()).NotTo(ContainElement("sanitize"))
}

// TestBootstrapDataFirst: the bootstrap data is overwritten before the drive gets the command that erases it.
func TestBootstrapDataFirst(t *testing.T) {
	g := NewWithT(t)
	r := &rack{}
	d := r.add("sda", only(drive.SCSI, func(d *drivetest.Drive) { d.Crypto = true }), nil)
	d.Hook = func(operation string) error {
		if operation == "sanitize" && bytes.Contains(d.Medium(0)[mib:2*mib], secret) {
			t.Error("the bootstrap data is there when the drive is sanitized")
		}
		return nil
	}
	_, failure := r.run(t, agent.CleanPlan{Policy: agent.CleanPurge, Ranges: []agent.DiskRange{{Disk: agent.DiskID{Serial: "S-sda"}, Offset: mib + 100, Length: mib / 2}}})
	g.Expect(failure).To(BeNil())
	g.Expect(d.Operations()).To(ContainElement("sanitize"))
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
		plan := agent.CleanPlan{Policy: agent.CleanClear, Keep: []string{"S-nvme0n2"}}
		results, failure := r.run(t, plan)
		g.Expect(failure).To(BeNil())
		g.Expect(results["nvme0n1"].Outcome).To(Equal(agent.Erased))
		g.Expect(results["nvme0n2"].Outcome).To(Equal(agent.LeftOut))
		g.Expect(results["nvme0n3"].Method).To(Equal(map[bool]string{false: "NVMe format, user data erase", true: "Overwrite with zeros"}[formatsAll]))
		g.Expect(d.Medium(1)).To(Equal(kept))
		g.Expect(hasSecret(d, 0)).To(BeFalse())
		g.Expect(hasSecret(d, 2)).To(BeFalse())
		plan.Policy = agent.CleanPurge
		_, failure = r.run(t, plan)
		g.Expect(failure).To(HaveField("Message", ContainSubstring("a namespace of the same NVMe drive must not be touched")))
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
	results, failure := r.run(t, agent.CleanPlan{Policy: agent.CleanClear})
	g.Expect(failure).To(HaveField("Reason", agent.ReasonDiskBusy))
	g.Expect(results["nvme0n1"].Outcome).To(Equal(agent.Erased))
	g.Expect(d.Medium(1)).To(Equal(held))
}

// TestObstacles: what stands in the way is reported with a remedy, and the data that cannot be erased is not called erased.
func TestObstacles(t *testing.T) {
	all := func(d *drivetest.Drive) {
		d.Crypto, d.BlockErase, d.Format, d.SecurityErase, d.Encrypts = true, true, true, true, true
	}
	for _, c := range []struct {
		name    string
		drive   *drivetest.Drive
		message string
	}{
		{"Opal", only(drive.NVMe, func(d *drivetest.Drive) { all(d); d.Opal = true }), "PSID"},
		{"several controllers", only(drive.NVMe, func(d *drivetest.Drive) { all(d); d.Several = true }), "another server may use it"},
		{"hidden", only(drive.ATA, func(d *drivetest.Drive) { all(d); d.Hidden = 8 }), "4096 bytes of it are hidden by a host protected area"},
		{"frozen", only(drive.ATA, func(d *drivetest.Drive) { all(d); d.SanitizeFrozen = true }), "switch the server off and on"},
		{"password", only(drive.ATA, func(d *drivetest.Drive) { all(d); d.SetPassword("unknown") }), "password that this project did not set"},
		{"sanitize fails", only(drive.NVMe, func(d *drivetest.Drive) { all(d); d.Fails = true }), "the sanitize operation failed, and the drive gives no access to data now"},
		{"sanitize of SCSI fails", only(drive.SCSI, func(d *drivetest.Drive) { all(d); d.Fails = true }), "the sanitize operation failed, and the drive gives no access to data now"},
		{"lies", only(drive.NVMe, func(d *drivetest.Drive) { all(d); d.Lies = true }), "has the content that it had before"},
		{"lies of ATA", only(drive.ATA, func(d *drivetest.Drive) { all(d); d.Lies = true }), "has the content that it had before"},
		{"loses writes", only(drive.SCSI, func(d *drivetest.Drive) { d.Loses = true }), "it offers no command that meets the policy Purge"},
		{"nothing", only(drive.Block, nil), "it offers no command that meets the policy Purge"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := NewWithT(t)
			r := &rack{}
			r.add("disk0", c.drive, nil)
			results, failure := r.run(t, agent.CleanPlan{Policy: agent.CleanPurge})
			g.Expect(failure).To(HaveField("Message", ContainSubstring(c.message)))
			got := results[r.parts[0].disk.Name]
			g.Expect(got.Outcome).To(Equal(agent.Failed))
			g.Expect(got.Verification == nil || !got.Verification.Passed).To(BeTrue())
			for _, operation := range c.drive.Operations() {
				g.Expect(operation).NotTo(Equal("exit failure mode"))
			}
		})
	}
}

// TestLosesWrites: a disk that returns other data than was written is not erased, and nothing else is tried on it.
func TestLosesWrites(t *testing.T) {
	g := NewWithT(t)
	r := &rack{}
	d := r.add("sda", only(drive.Block, func(d *drivetest.Drive) { d.Loses = true }), nil)
	results, failure := r.run(t, agent.CleanPlan{Policy: agent.CleanClear})
	g.Expect(failure).To(HaveField("Message", ContainSubstring("it returns other data than the zeros that were written")))
	g.Expect(results["sda"].Verification).To(HaveField("Passed", false))
	g.Expect(results["sda"].Outcome).To(Equal(agent.Failed))
	g.Expect(hasSecret(d, 0)).To(BeTrue())
}

// TestUnreadableSamples: samples that cannot be read after the erase fail a drive that has no reason for that.
func TestUnreadableSamples(t *testing.T) {
	g := NewWithT(t)
	r := &rack{}
	d := r.add("sda", only(drive.SCSI, func(d *drivetest.Drive) { d.BlockErase = true }), nil)
	d.Hook = func(operation string) error {
		if operation == "read" && d.State() == drivetest.Done {
			return errors.New("a medium error")
		}
		return nil
	}
	_, failure := r.run(t, agent.CleanPlan{Policy: agent.CleanPurge})
	g.Expect(failure).To(HaveField("Message", ContainSubstring("cannot be read")))
}

// TestFallback: a method that fails is followed by the next one that meets the policy, and is a warning.
func TestFallback(t *testing.T) {
	g := NewWithT(t)
	r := &rack{}
	d := r.add("sda", only(drive.ATA, func(d *drivetest.Drive) { d.SecurityErase, d.Enhanced = true, true }), nil)
	d.Hook = func(operation string) error {
		if operation == "erase unit" {
			return errors.New("the command did not reach the drive")
		}
		return nil
	}
	results, failure := r.run(t, agent.CleanPlan{Policy: agent.CleanClear})
	g.Expect(failure).To(BeNil())
	g.Expect(results["sda"].Method).To(Equal("Overwrite with zeros"))
	g.Expect(results["sda"].Warnings).To(ContainElement(ContainSubstring("ATA enhanced security erase was tried")))
	g.Expect(d.Locked()).To(BeFalse(), "the password is removed")
}

// TestSecondRun: a drive that the first run left locked, or in a sanitize operation, is erased.
func TestSecondRun(t *testing.T) {
	unreadable := func(d *disk.Disk) { d.Unreadable = "input/output error" }
	g := NewWithT(t)
	locked := &rack{}
	d := locked.add("sda", only(drive.ATA, func(d *drivetest.Drive) { d.SecurityErase = true; d.SetPassword(drive.Password) }), unreadable)
	results, failure := locked.run(t, agent.CleanPlan{Policy: agent.CleanClear})
	g.Expect(failure).To(BeNil())
	g.Expect(results["sda"].Warnings).To(ContainElement(ContainSubstring("locked by the password of an erase that was cut off")))
	g.Expect(d.Locked()).To(BeFalse())
	g.Expect(hasSecret(d, 0)).To(BeFalse())

	for _, kind := range []drive.Kind{drive.NVMe, drive.ATA, drive.SCSI} {
		running := &rack{}
		d = running.add("disk0", only(kind, func(d *drivetest.Drive) { d.BlockErase = true; d.Start("block") }), unreadable)
		results, failure = running.run(t, agent.CleanPlan{Policy: agent.CleanPurge})
		g.Expect(failure).To(BeNil())
		g.Expect(results[running.parts[0].disk.Name].Outcome).To(Equal(agent.Erased))
		g.Expect(hasSecret(d, 0)).To(BeFalse())
	}
}

// TestHanging: a drive that hangs fails after its time, and the others are erased.
func TestHanging(t *testing.T) {
	g := NewWithT(t)
	synctest.Test(t, func(t *testing.T) {
		r := &rack{}
		release := make(chan struct{})
		r.add("sda", only(drive.Block, nil), nil)
		b := r.add("sdb", only(drive.Block, nil), nil)
		r.parts[0].drive.Hook = func(operation string) error {
			if operation == "write" {
				<-release
				return errors.New("released")
			}
			return nil
		}
		started := time.Now()
		results, failure := r.runIn(t.Context(), agent.CleanPlan{Policy: agent.CleanClear})
		g.Expect(time.Since(started)).To(BeNumerically("<", 20*time.Minute))
		g.Expect(failure).To(HaveField("Message", And(ContainSubstring(`disk sda (serial number "S-sda"): it has not answered for too long`), Not(ContainSubstring("sdb")))))
		g.Expect(results["sdb"].Outcome).To(Equal(agent.Erased))
		g.Expect(hasSecret(b, 0)).To(BeFalse())
		close(release)
	})
}

// TestDeadline: the end of the context fails what is not erased.
func TestDeadline(t *testing.T) {
	g := NewWithT(t)
	synctest.Test(t, func(t *testing.T) {
		r := &rack{}
		r.add("nvme0", only(drive.NVMe, func(d *drivetest.Drive) { d.BlockErase, d.Steps = true, 1000 }), nil)
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("the time is over"))
		defer cancel()
		_, failure := r.runIn(ctx, agent.CleanPlan{Policy: agent.CleanPurge})
		g.Expect(failure).To(HaveField("Message", ContainSubstring("the time is over")))
	})
}

// TestWarnings: what an erase does not reach, and what the next system may take from a disk that is left out.
func TestWarnings(t *testing.T) {
	g := NewWithT(t)
	r := &rack{}
	r.add("nvme0", only(drive.NVMe, func(d *drivetest.Drive) { d.Crypto, d.RPMB, d.Boot = true, true, true }), nil)
	r.add("sda", only(drive.Block, nil), func(d *disk.Disk) { d.Found = []disk.Signature{{Type: "md"}, {Type: "vfat", Label: "CIDATA"}} })
	results, failure := r.run(t, agent.CleanPlan{Policy: agent.CleanPurge, Keep: []string{"S-sda"}})
	g.Expect(failure).To(BeNil())
	g.Expect(results["nvme0n1"].Warnings).To(ConsistOf(ContainSubstring("RPMB"), ContainSubstring("boot partitions")))
	g.Expect(results["sda"].Warnings).To(ConsistOf(ContainSubstring("md"), ContainSubstring("CIDATA")))
}

// TestJudge: what samples prove.
func TestJudge(t *testing.T) {
	g := NewWithT(t)
	r := &rack{}
	d := r.add("sda", only(drive.SCSI, func(d *drivetest.Drive) { d.BlockErase = true }), nil)
	d.Fill(0, 0)
	results, failure := r.run(t, agent.CleanPlan{Policy: agent.CleanPurge})
	g.Expect(failure).To(BeNil())
	g.Expect(results["sda"].Verification.Kind).To(Equal(agent.DriveStatus), "zeros before prove nothing")
	_, err := sanitize.Judge(method.Changed, nil, nil, true)
	g.Expect(err).To(HaveOccurred(), "no samples prove nothing")
}

// TestCut: the power is cut at each operation of each kind of drive. A second run erases the drive, or says why not.
func TestCut(t *testing.T) {
	offers := func(d *drivetest.Drive) {
		d.Crypto, d.BlockErase, d.Format, d.SecurityErase, d.Enhanced = true, true, true, true, true
	}
	rapid.Check(t, func(rt *rapid.T) {
		g := NewWithT(rt)
		kind := rapid.SampledFrom([]drive.Kind{drive.NVMe, drive.ATA, drive.SCSI, drive.Block}).Draw(rt, "kind")
		policy := rapid.SampledFrom([]agent.CleanPolicy{agent.CleanClear, agent.CleanPurge}).Draw(rt, "policy")
		cut := rapid.IntRange(0, 300).Draw(rt, "cut")
		restarts := rapid.Bool().Draw(rt, "restarts")
		r := &rack{}
		d := drivetest.New(kind, 1, size, rapid.Uint64().Draw(rt, "seed"))
		if rapid.Bool().Draw(rt, "offers") {
			offers(d)
		} else {
			d.SecurityErase, d.Format = rapid.Bool().Draw(rt, "security"), rapid.Bool().Draw(rt, "format")
		}
		d.Encrypts, d.Fails, d.Lies = rapid.Bool().Draw(rt, "encrypts"), rapid.IntRange(0, 9).Draw(rt, "fails") == 0, rapid.IntRange(0, 9).Draw(rt, "lies") == 0
		r.add("disk0", d, nil)
		kept := r.add("kept0", only(kind, offers), func(d *disk.Disk) { d.Serial = "KEPT" })
		operations := 0
		d.Hook = func(string) error {
			if operations++; operations > cut {
				return errors.New("the power failed")
			}
			return nil
		}
		plan := agent.CleanPlan{Policy: policy, Keep: []string{"KEPT"}, Ranges: []agent.DiskRange{{Disk: r.parts[0].disk.ID(), Offset: mib, Length: 4096}}}
		check := func(results map[string]agent.ErasedDisk, failure *agent.Failure) {
			got := results[r.parts[0].disk.Name]
			if kept.Revision != 0 || !hasSecret(kept, 0) || len(kept.Operations()) > 0 {
				rt.Fatal("the kept disk was touched")
			}
			switch {
			case got.Outcome == agent.Erased && (hasSecret(d, 0) || got.Verification == nil || !got.Verification.Passed || !method.Meets(got.Class, policy)):
				rt.Fatalf("not erased: %+v", got)
			case got.Outcome == agent.Failed && (failure == nil || got.Message == ""):
				rt.Fatalf("a failure without a reason: %+v", got)
			case got.Outcome == agent.LeftOut, got.Outcome == "":
				rt.Fatalf("%+v", got)
			}
		}
		check(r.run(t, plan))
		if restarts {
			d.Restart()
		}
		d.Hook = nil
		results, failure := r.run(t, plan)
		check(results, failure)
		if got := results[r.parts[0].disk.Name]; got.Outcome == agent.Failed && !d.Fails && !d.Lies && policy == agent.CleanClear {
			g.Expect(got.Message).To(BeEmpty(), "a good drive is erased by the second run")
		}
	})
}

// TestRamdiskAssemblesNothing: the ramdisk has no modules of md and of the device mapper, so nothing on the disks is assembled that would hold them.
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
