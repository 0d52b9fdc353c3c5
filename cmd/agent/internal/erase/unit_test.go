package erase

import (
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
		{"two controllers", only(drive.NVMe, func(d *drivetest.Drive) { all(d); d.Several, d.Controllers = true, []uint16{1, 2} }), "another server may use it"},
		{"another controller", only(drive.NVMe, func(d *drivetest.Drive) { all(d); d.Several, d.Controllers = true, []uint16{2} }), "another server may use it"},
		{"an invalid list of controllers", only(drive.NVMe, func(d *drivetest.Drive) { all(d); d.Several, d.Controllers = true, []uint16{1, 1} }), "another server may use it"},
		{"hidden", only(drive.ATA, func(d *drivetest.Drive) { all(d); d.Hidden = 8 }), "4096 bytes of it are hidden by a host protected area"},
		{"frozen", only(drive.ATA, func(d *drivetest.Drive) { all(d); d.SanitizeFrozen = true }), "switch the server off and on"},
		{"password", only(drive.ATA, func(d *drivetest.Drive) { all(d); d.SetPassword("unknown") }), "password that this project did not set"},
		{"sanitize fails", only(drive.NVMe, func(d *drivetest.Drive) { all(d); d.Fails = true }), "the sanitize operation failed, and the drive gives no access to data now"},
		{"sanitize of SCSI fails", only(drive.SCSI, func(d *drivetest.Drive) { all(d); d.Fails = true }), "the sanitize operation failed, and the drive gives no access to data now"},
		{"sanitize of ATA fails", only(drive.ATA, func(d *drivetest.Drive) { all(d); d.Fails = true }), "the sanitize operation failed, and the drive gives no access to data now"},
		{"lies", only(drive.NVMe, func(d *drivetest.Drive) { all(d); d.Lies = true }), "has the content that it had before"},
		{"lies of ATA", only(drive.ATA, func(d *drivetest.Drive) { all(d); d.Lies = true }), "has the content that it had before"},
		{"nothing", only(drive.Block, nil), "it offers no command that meets the policy Purge"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := NewWithT(t)
			r := &rack{}
			r.add("disk0", c.drive, nil)
			for range 2 { // the second run finds what the first one left
				results, failure := r.run(t, agent.CleanPlan{Policy: wire.PolicyPurge})
				g.Expect(failure).To(HaveField("Message", ContainSubstring(c.message)))
				got := results[r.parts[0].disk.Name]
				g.Expect(got.Outcome).To(Equal(agent.Failed))
				g.Expect(got.Verification == nil || !got.Verification.Passed).To(BeTrue())
			}
			// A failed sanitize operation stays failed (decision 0029).
			g.Expect(c.drive.Operations()).NotTo(ContainElement(BeElementOf(drivetest.ExitFailureMode, drivetest.SanitizeUnrestricted)))
		})
	}
}

// TestSecondPort: a drive that may have several controllers, and lists only the one that answers, is erased as any other.
func TestSecondPort(t *testing.T) {
	g := NewWithT(t)
	r := &rack{}
	d := r.add("disk0", only(drive.NVMe, func(d *drivetest.Drive) { d.BlockErase, d.Several, d.Controllers = true, true, []uint16{1} }), nil)
	results, failure := r.run(t, agent.CleanPlan{Policy: wire.PolicyPurge})
	g.Expect(failure).To(BeNil())
	g.Expect(results[r.parts[0].disk.Name].Outcome).To(Equal(wire.Erased))
	g.Expect(hasSecret(d, 0)).To(BeFalse())
}

// TestSecondRun: a drive that the first run left locked, or in a sanitize operation, is erased.
func TestSecondRun(t *testing.T) {
	unreadable := func(d *disk.Disk) { d.Unreadable = "input/output error" }
	g := NewWithT(t)
	locked := &rack{}
	d := locked.add("sda", only(drive.ATA, func(d *drivetest.Drive) { d.SecurityErase = true; d.SetPassword(drive.Password) }), unreadable)
	results, failure := locked.run(t, agent.CleanPlan{Policy: wire.PolicyClear})
	g.Expect(failure).To(BeNil())
	g.Expect(results["sda"].Warnings).To(ContainElement(ContainSubstring("locked by the password of an erase that was cut off")))
	g.Expect(d.Locked()).To(BeFalse())
	g.Expect(hasSecret(d, 0)).To(BeFalse())

	for _, kind := range []drive.Kind{drive.NVMe, drive.ATA, drive.SCSI} {
		running := &rack{}
		d = running.add("disk0", only(kind, func(d *drivetest.Drive) { d.BlockErase = true; d.Start("block") }), unreadable)
		results, failure = running.run(t, agent.CleanPlan{Policy: wire.PolicyPurge})
		g.Expect(failure).To(BeNil())
		g.Expect(results[running.parts[0].disk.Name].Outcome).To(Equal(wire.Erased))
		g.Expect(hasSecret(d, 0)).To(BeFalse())
	}
}

// TestUnlockedDiskIsJudgedAgain: what a drive carries that was locked at first protects it like any other disk.
func TestUnlockedDiskIsJudgedAgain(t *testing.T) {
	for _, c := range []struct {
		name     string
		contents func(*disk.Disk)
		outcome  wire.ErasureOutcome
		message  string
		warning  string
	}{
		{"kept", func(d *disk.Disk) { d.Found = []disk.Signature{{Type: "btrfs", Label: "tank"}} }, wire.LeftOut, "spec.storage.keep names it", "it has btrfs"},
		{"might be kept", func(d *disk.Disk) { d.Found = []disk.Signature{{Type: "zfs"}} }, agent.Failed, "it might be tank", ""},
		{"shared", func(d *disk.Disk) { d.Found = []disk.Signature{{Type: "vmfs"}} }, agent.Failed, "which other servers may use", ""},
		{"still unreadable", func(d *disk.Disk) { d.Unreadable = "input/output error" }, agent.Failed, "what is on it is unknown", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := NewWithT(t)
			r := &rack{contents: c.contents}
			locked := only(drive.ATA, func(d *drivetest.Drive) { d.SecurityErase = true; d.SetPassword(drive.Password) })
			d := r.add("sda", locked, func(d *disk.Disk) { d.Unreadable = "input/output error" })
			results, _ := r.run(t, agent.CleanPlan{Policy: wire.PolicyClear, Keep: []wire.KeptDisk{{Label: "tank"}}})
			got := results["sda"]
			g.Expect(got.Outcome).To(Equal(c.outcome))
			g.Expect(got.Message).To(ContainSubstring(c.message))
			if c.warning != "" {
				g.Expect(got.Warnings).To(ContainElement(ContainSubstring(c.warning)))
			}
			g.Expect(hasSecret(d, 0)).To(BeTrue())
		})
	}
}

// TestGivenUp: a drive that answers after it was given up is not erased, although the others are still being erased: its result says that it was not.
func TestGivenUp(t *testing.T) {
	g := NewWithT(t)
	synctest.Test(t, func(t *testing.T) {
		r := &rack{}
		late := r.add("sda", only(drive.SCSI, func(d *drivetest.Drive) { d.BlockErase = true }), nil)
		slow := r.add("sdb", only(drive.Block, nil), nil)
		released := time.NewTimer(ioTimeout + 2*time.Minute)
		late.Hook = func(operation string) error {
			if operation == "read" {
				<-released.C
				late.Hook = nil
			}
			return nil
		}
		slow.Hook = func(operation string) error {
			if operation == "write" {
				time.Sleep(ioTimeout - time.Minute) // of the bubble's clock
			}
			return nil
		}
		results, _ := r.runIn(t.Context(), agent.CleanPlan{Policy: wire.PolicyClear})
		g.Expect(results["sda"].Message).To(ContainSubstring("it has not answered for too long"))
		g.Expect(results["sdb"].Outcome).To(Equal(wire.Erased))
		g.Expect(late.Operations()).NotTo(ContainElement("sanitize"))
		g.Expect(hasSecret(late, 0)).To(BeTrue())
	})
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
		results, failure := r.runIn(t.Context(), agent.CleanPlan{Policy: wire.PolicyClear})
		g.Expect(time.Since(started)).To(BeNumerically("<", 20*time.Minute))
		g.Expect(failure).To(HaveField("Message", And(ContainSubstring(`disk sda (serial number "S-sda"): it has not answered for too long`), Not(ContainSubstring("sdb")))))
		g.Expect(results["sdb"].Outcome).To(Equal(wire.Erased))
		g.Expect(hasSecret(b, 0)).To(BeFalse())
		close(release)
	})
}
