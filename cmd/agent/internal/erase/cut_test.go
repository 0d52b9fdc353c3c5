package erase

import (
	"errors"
	"math/rand/v2"
	"testing"

	. "github.com/onsi/gomega"
	"pgregory.net/rapid"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/disk"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/drive"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/drive/drivetest"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/rapidtest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

// offersAll makes a drive offer all commands.
func offersAll(d *drivetest.Drive) {
	d.Crypto, d.BlockErase, d.Format, d.SecurityErase, d.Enhanced = true, true, true, true, true
}

// cuts returns after how many of the operations the power may fail. Of a series of reads it has only the start: nearly all operations are reads of samples, and the power
// would rarely fail between the commands.
func cuts(operations []string) []int {
	var out []int
	for i, operation := range operations {
		if i == 0 || operation != "read" || operations[i-1] != "read" {
			out = append(out, i)
		}
	}
	return out
}

// TestCut: the power is cut at an operation of each kind of drive. A second run erases the drive, or says why not.
func TestCut(t *testing.T) {
	rapidtest.Checks(t, 40) // each erases whole drives
	rapid.Check(t, func(rt *rapid.T) {
		g := NewWithT(rt)
		kind := rapid.SampledFrom([]drive.Kind{drive.NVMe, drive.ATA, drive.SCSI, drive.Block}).Draw(rt, "kind")
		policy := rapid.SampledFrom([]wire.ErasePolicy{wire.PolicyClear, wire.PolicyPurge}).Draw(rt, "policy")
		seed, restarts, all := rapid.Uint64().Draw(rt, "seed"), rapid.Bool().Draw(rt, "restarts"), rapid.Bool().Draw(rt, "all")
		security, format, encrypts := rapid.Bool().Draw(rt, "security"), rapid.Bool().Draw(rt, "format"), rapid.Bool().Draw(rt, "encrypts")
		fails, lies := rapid.IntRange(0, 9).Draw(rt, "fails") == 9, rapid.IntRange(0, 9).Draw(rt, "lies") == 9
		newRack := func() (*rack, *drivetest.Drive, agent.CleanPlan) {
			d := drivetest.New(kind, 1, size, seed)
			d.SecurityErase, d.Format, d.Encrypts, d.Fails, d.Lies = security, format, encrypts, fails, lies
			if all {
				offersAll(d)
			}
			r := &rack{}
			r.add("disk0", d, nil)
			return r, d, agent.CleanPlan{Policy: policy, Keep: []wire.KeptDisk{{SerialNumber: "KEPT"}}, Ranges: []agent.DiskRange{{Disk: r.parts[0].disk.ID(), Offset: mib, Length: 4096}}}
		}
		whole, d, plan := newRack()
		whole.run(t, plan)
		points := cuts(d.Operations())
		cut := points[rand.New(rand.NewPCG(seed, 0)).IntN(len(points))] // rapid would prefer the first ones
		r, d, plan := newRack()
		kept := r.add("kept0", only(kind, offersAll), func(d *disk.Disk) { d.SerialNumber = "KEPT" })
		operations := 0
		d.Hook = func(string) error {
			if operations++; operations > cut {
				return errors.New("the power failed")
			}
			return nil
		}
		check := func(results map[string]agent.ErasedDisk, failure *agent.Failure) {
			checkCut(rt, results[r.parts[0].disk.Name], failure, d, policy)
			if kept.Revision != 0 || !hasSecret(kept, 0) || len(kept.Operations()) > 0 {
				rt.Fatal("the kept disk was touched")
			}
		}
		check(r.run(t, plan))
		if restarts {
			d.Restart()
		}
		d.Hook = nil
		results, failure := r.run(t, plan)
		check(results, failure)
		purgeable := all && kind != drive.Block // by its block erase
		if !fails && !lies && (policy == wire.PolicyClear || purgeable) {
			got := results[r.parts[0].disk.Name]
			g.Expect(got.Outcome).To(Equal(wire.Erased), "a good drive is erased by the second run: %s", got.Message)
		}
	})
}

// checkCut checks that the result of a drive says what is true of it.
func checkCut(rt *rapid.T, got agent.ErasedDisk, failure *agent.Failure, d *drivetest.Drive, policy wire.ErasePolicy) {
	switch {
	case got.Outcome == wire.Erased && (hasSecret(d, 0) || got.Verification == nil || !got.Verification.Passed || !got.Class.Reaches(policy)):
		rt.Fatalf("not erased: %+v", got)
	case got.Outcome == agent.Failed && (failure == nil || got.Message == ""):
		rt.Fatalf("a failure without a reason: %+v", got)
	case got.Outcome == wire.LeftOut, got.Outcome == "":
		rt.Fatalf("%+v", got)
	}
}
