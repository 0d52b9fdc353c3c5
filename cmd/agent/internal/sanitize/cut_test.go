package sanitize_test

import (
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	"pgregory.net/rapid"

	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/disk"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/drive"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/drive/drivetest"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/method"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

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
