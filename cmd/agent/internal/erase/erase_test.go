package erase

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/disk"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/drive"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/drive/drivetest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

// TestMethods: each kind of drive is erased by the best method that it offers, and what was planted is gone.
func TestMethods(t *testing.T) {
	rotational := func(d *disk.Disk) { d.Rotational = true }
	for _, c := range []struct {
		name   string
		policy wire.ErasePolicy
		drive  *drivetest.Drive
		disk   func(*disk.Disk)
		method string
		class  wire.ErasePolicy
		kind   wire.VerificationKind
	}{
		{"NVMe, crypto", wire.PolicyPurge, only(drive.NVMe, func(d *drivetest.Drive) { d.Crypto, d.BlockErase, d.Format = true, true, true }), nil, "NVMe sanitize, crypto erase", wire.PolicyPurge, wire.Samples},
		{"NVMe, block", wire.PolicyClear, only(drive.NVMe, func(d *drivetest.Drive) { d.BlockErase = true }), nil, "NVMe sanitize, block erase", wire.PolicyPurge, wire.Samples},
		{"NVMe, deallocated blocks return errors", wire.PolicyPurge, only(drive.NVMe, func(d *drivetest.Drive) { d.BlockErase, d.DULBE = true, true }), nil, "NVMe sanitize, block erase", wire.PolicyPurge, wire.DriveStatus},
		{"NVMe, format", wire.PolicyClear, only(drive.NVMe, func(d *drivetest.Drive) { d.Format = true }), nil, "NVMe format, user data erase", wire.PolicyClear, wire.Samples},
		{"NVMe, crypto format", wire.PolicyClear, only(drive.NVMe, func(d *drivetest.Drive) { d.FormatCrypto = true }), nil, "NVMe format, cryptographic erase", wire.PolicyClear, wire.Samples},
		{"NVMe without commands", wire.PolicyClear, only(drive.NVMe, nil), nil, "Overwrite with zeros", wire.PolicyClear, wire.ReadBack},
		{"ATA, crypto", wire.PolicyPurge, only(drive.ATA, func(d *drivetest.Drive) { d.Crypto, d.Encrypts = true, true }), nil, "ATA sanitize, crypto scramble", wire.PolicyPurge, wire.Samples},
		{"ATA, block", wire.PolicyPurge, only(drive.ATA, func(d *drivetest.Drive) { d.Crypto, d.BlockErase = true, true }), nil, "ATA sanitize, block erase", wire.PolicyPurge, wire.Samples},
		{"ATA, hard disk", wire.PolicyPurge, only(drive.ATA, func(d *drivetest.Drive) { d.SanitizeOverwrite = true }), rotational, "ATA sanitize, overwrite", wire.PolicyPurge, wire.Samples},
		{"ATA, hard disk, Clear", wire.PolicyClear, only(drive.ATA, func(d *drivetest.Drive) { d.SanitizeOverwrite, d.SecurityErase = true, true }), rotational, "Overwrite with zeros", wire.PolicyClear, wire.ReadBack},
		{"ATA, enhanced", wire.PolicyClear, only(drive.ATA, func(d *drivetest.Drive) { d.SecurityErase, d.Enhanced = true, true }), nil, "ATA enhanced security erase", wire.PolicyClear, wire.Samples},
		{"ATA, security erase", wire.PolicyClear, only(drive.ATA, func(d *drivetest.Drive) { d.SecurityErase = true }), nil, "ATA security erase", wire.PolicyClear, wire.Samples},
		{"SCSI, crypto", wire.PolicyPurge, only(drive.SCSI, func(d *drivetest.Drive) { d.Crypto = true }), nil, "SCSI sanitize, cryptographic erase", wire.PolicyPurge, wire.Samples},
		{"SCSI, block", wire.PolicyPurge, only(drive.SCSI, func(d *drivetest.Drive) { d.BlockErase = true }), nil, "SCSI sanitize, block erase", wire.PolicyPurge, wire.Samples},
		{"SCSI, hard disk", wire.PolicyPurge, only(drive.SCSI, func(d *drivetest.Drive) { d.SanitizeOverwrite = true }), rotational, "SCSI sanitize, overwrite", wire.PolicyPurge, wire.Samples},
		{"SCSI without commands", wire.PolicyClear, only(drive.SCSI, nil), rotational, "Overwrite with zeros", wire.PolicyClear, wire.ReadBack},
		{"virtio", wire.PolicyClear, only(drive.Block, nil), nil, "Overwrite with zeros", wire.PolicyClear, wire.ReadBack},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := NewWithT(t)
			r := &rack{}
			r.add("disk0", c.drive, c.disk)
			results, failure := r.run(t, agent.CleanPlan{Policy: c.policy})
			g.Expect(failure).To(BeNil())
			got := results[r.parts[0].disk.Name]
			g.Expect(got.Outcome).To(Equal(wire.Erased))
			g.Expect(got.Method).To(Equal(c.method))
			g.Expect(got.Class).To(Equal(c.class))
			g.Expect(got.Basis).To(ContainSubstring("NIST SP 800-88 Rev. 2"))
			g.Expect(got.Verification).To(And(HaveField("Kind", c.kind), HaveField("Passed", true)))
			checkBytes(g, *got.Verification)
			g.Expect(got.StartTime).NotTo(BeZero())
			g.Expect(hasSecret(c.drive, 0)).To(BeFalse())
			g.Expect(c.drive.Locked()).To(BeFalse())
			g.Expect(r.progress).NotTo(BeEmpty())
			g.Expect(r.progress[len(r.progress)-1]).To(HaveExactElements(HaveField("Percent", int32(100))), "a disk with a result is still counted")
		})
	}
}

// checkBytes checks how many bytes a verification says that it has read.
func checkBytes(g *WithT, v wire.ErasureVerification) {
	const sampleSize = 4096 // that of this package
	switch v.Kind {
	case wire.ReadBack:
		g.Expect(v).To(And(HaveField("Bytes", int64(size)), HaveField("Samples", int32(0))))
	case wire.Samples:
		g.Expect(v).To(And(HaveField("Bytes", int64(v.Samples*sampleSize)), HaveField("Samples", BeNumerically(">", 100)), HaveField("Unreadable", int32(0))))
	case wire.DriveStatus:
		g.Expect(v).To(And(HaveField("Bytes", int64(0)), HaveField("Samples", BeNumerically(">", 100)), HaveField("Unreadable", v.Samples)), "deallocated blocks cannot be read")
	}
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
	_, failure := r.run(t, agent.CleanPlan{Policy: wire.PolicyPurge, Ranges: []agent.DiskRange{{Disk: wire.DiskIdentity{SerialNumber: "S-sda"}, Offset: mib + 100, Length: mib / 2}}})
	g.Expect(failure).To(BeNil())
	g.Expect(d.Operations()).To(ContainElement("sanitize"))
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
	results, failure := r.run(t, agent.CleanPlan{Policy: wire.PolicyClear})
	g.Expect(failure).To(BeNil())
	g.Expect(results["sda"].Method).To(Equal("Overwrite with zeros"))
	g.Expect(results["sda"].Warnings).To(ContainElement(ContainSubstring("ATA enhanced security erase was tried")))
	g.Expect(d.Locked()).To(BeFalse(), "the password is removed")
}

// TestDeadline: the end of the context fails what is not erased. Until then the time that remains is estimated by the time so far.
func TestDeadline(t *testing.T) {
	g := NewWithT(t)
	r := &rack{}
	r.add("nvme0", only(drive.NVMe, func(d *drivetest.Drive) { d.BlockErase, d.Steps = true, 100 }), nil)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("the time is over"))
		defer cancel()
		_, failure := r.runIn(ctx, agent.CleanPlan{Policy: wire.PolicyPurge})
		g.Expect(failure).To(HaveField("Message", ContainSubstring("the time is over")))
	})
	progress := func(percent int32, remaining int64) OmegaMatcher {
		return ContainElement(HaveExactElements(And(HaveField("Name", "nvme0n1"), HaveField("Percent", percent), HaveField("SecondsLeft", remaining))))
	}
	g.Expect(r.progress).To(progress(0, 0))
	// The drive is asked 15 times, after 0.25, 0.75, 1.75, 3.75, 7.75, 12.75 and so on until 57.75 seconds. 15 of 100 steps are 14 % in the units of the drive.
	g.Expect(r.progress).To(progress(14, 57*86/14))
}

// TestWarnings: what an erase does not reach, and what the next system may take from a disk that is left out.
func TestWarnings(t *testing.T) {
	g := NewWithT(t)
	r := &rack{}
	r.add("nvme0", only(drive.NVMe, func(d *drivetest.Drive) { d.Crypto, d.RPMB, d.Boot = true, true, true }), nil)
	r.add("sda", only(drive.Block, nil), func(d *disk.Disk) { d.Found = []disk.Signature{{Type: "md"}, {Type: "vfat", Label: "CIDATA"}} })
	results, failure := r.run(t, agent.CleanPlan{Policy: wire.PolicyPurge, Keep: []wire.KeptDisk{{SerialNumber: "S-sda"}}})
	g.Expect(failure).To(BeNil())
	g.Expect(results["nvme0n1"].Warnings).To(ConsistOf(ContainSubstring("RPMB"), ContainSubstring("boot partitions")))
	g.Expect(results["sda"].Warnings).To(ConsistOf(ContainSubstring("md"), ContainSubstring("CIDATA")))
}
