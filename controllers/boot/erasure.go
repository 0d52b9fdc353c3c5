package boot

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/cleaning"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/diskname"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/erasure"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

// errUnproven is why the result of an erasure does not end its boot: the report of the agent does not show that the plan was carried out.
var errUnproven = errors.New("the erasure is not proven")

// cleanPlan returns the plan of a boot that erases disks. The policy is that of the record, which does not change within a boot.
func cleanPlan(a attempt) *agent.CleanPlan {
	plan := &agent.CleanPlan{Policy: wire.PolicyMetadata, Keep: keptDisks(a.host.Spec.Storage)}
	for _, w := range a.boot.Spec.WrittenDisks {
		plan.Ranges = append(plan.Ranges, agent.DiskRange{Disk: w.Disk, Offset: w.DataOffset, Length: w.DataLength, PartitionGUID: w.PartitionGUID})
	}
	if policy := a.boot.Spec.CleaningPolicy; cleaning.AllDisks(policy) {
		plan.Policy, plan.AllDisks, plan.Expected = policy, true, expectedDisks(a)
	}
	return plan
}

// expectedDisks are the disks that the agent found before the claim, or before an erasure of a free host.
func expectedDisks(a attempt) []wire.DiskIdentity {
	if lifecycle.IsRequestedErasure(&a.boot.Spec) {
		return a.found
	}
	if ref := a.host.Spec.ConsumerRef; ref != nil && ref.ClaimID == a.boot.Spec.ClaimID {
		return ref.Disks
	}
	return nil
}

// judgeErasure returns why the report of an agent does not prove that the plan of its boot was carried out; empty if it proves that, as far as a report can. A report of
// Metadata may have no disks, unless the provider wrote one.
func judgeErasure(a attempt, disks []v1alpha1.ErasedDisk) string {
	policy := a.boot.Spec.CleaningPolicy
	if len(disks) == 0 {
		return judgeNoDisks(a, policy)
	}
	if len(disks) > agent.MaxErasedDisks {
		return fmt.Sprintf("The agent reports %d disks, and at most %d can be recorded", len(disks), agent.MaxErasedDisks)
	}
	var problems []string
	for i := range disks {
		if problem := judgeDisk(&disks[i], cmp.Or(policy, wire.PolicyMetadata)); problem != "" {
			problems = append(problems, problem)
		}
	}
	problems = append(problems, missingDisks(a, disks)...)
	if cleaning.AllDisks(policy) && !slices.ContainsFunc(disks, isErased) {
		problems = append(problems, judgeNothingErased(a, len(disks))...)
	}
	if len(problems) == 0 {
		return ""
	}
	more := ""
	if n := len(problems) - maxErasureProblems; n > 0 {
		more = fmt.Sprintf("; and %d more", n)
	}
	return "The erasure is not proven: " + strings.Join(problems[:min(len(problems), maxErasureProblems)], "; ") + more
}

// maxErasureProblems is how many problems of an erasure a message names.
const maxErasureProblems = 8

func isErased(d v1alpha1.ErasedDisk) bool { return d.Outcome == wire.Erased }

// factDisks is the name of the fact whether the BMC reports disks: bmc.FactDisks. The boot server has no code of BMCs.
const factDisks = "disks"

// judgeNoDisks judges a report without a disk. An agent that lacks the driver of a controller finds no disk, so the BMC has to report that the server has no disks.
func judgeNoDisks(a attempt, policy wire.ErasePolicy) string {
	hardware := a.host.Status.Hardware
	switch {
	case len(a.boot.Spec.WrittenDisks) > 0 || cleaning.AllDisks(policy) && len(expectedDisks(a)) > 0:
		return "The erasure is not proven: the agent reports no disk, and the server has disks: " + strings.Join(missingDisks(a, nil), "; ")
	case !cleaning.AllDisks(policy) && !lifecycle.IsRequestedErasure(&a.boot.Spec):
		return ""
	case hardware != nil && len(hardware.Disks) > 0:
		return fmt.Sprintf("The erasure is not proven: the agent reports no disk, and the BMC reports %d. The agent may have no driver for their controller", len(hardware.Disks))
	case !knowsDisks(hardware):
		return "The erasure is not proven: the agent reports no disk, and the BMC does not report whether the server has any. The agent may have no driver for their controller. " +
			"If the server has no disk, set spec.cleaningPolicy: None"
	default:
		return ""
	}
}

// judgeNothingErased judges a report in which every disk is left out: the BMC has to report that there are no others.
func judgeNothingErased(a attempt, reported int) []string {
	hardware := a.host.Status.Hardware
	switch {
	case !knowsDisks(hardware):
		return []string{fmt.Sprintf("no disk was erased, the agent left out %d, and the BMC does not report how many there are: the agent may have no driver for their controller", reported)}
	case len(hardware.Disks) > reported:
		return []string{fmt.Sprintf("no disk was erased, the agent reports %d disks, and the BMC %d: the agent may have no driver for their controller", reported, len(hardware.Disks))}
	default:
		return nil
	}
}

// knowsDisks is true if the BMC reports which disks the server has.
func knowsDisks(hardware *v1alpha1.Hardware) bool {
	return hardware != nil && slices.ContainsFunc(hardware.Facts, func(f v1alpha1.Fact) bool { return f.Name == factDisks && f.State != v1alpha1.FactUnknown })
}

// judgeDisk returns what is wrong with the report of a disk under a policy; empty if nothing is. Package erasure judges, except a device without an identity that was left
// out, which no record has.
func judgeDisk(d *v1alpha1.ErasedDisk, policy wire.ErasePolicy) string {
	if d.Outcome == wire.LeftOut {
		return ""
	}
	if d.Outcome == agent.Failed {
		return fmt.Sprintf("disk %s was not erased: %s", nameOfDisk(d), d.Message)
	}
	if reason := erasure.Unproven(&d.DiskErasure, policy); reason != "" {
		return fmt.Sprintf("disk %s: %s", nameOfDisk(d), reason)
	}
	return ""
}

// missingDisks returns the disks that must be in a report and are not erased in it, as clauses: those that the agent found before the claim, and those that the provider
// wrote. Only spec.storage.keep leaves one out.
func missingDisks(a attempt, disks []v1alpha1.ErasedDisk) []string {
	due := slices.Clone(expectedDisks(a))
	if !cleaning.AllDisks(a.boot.Spec.CleaningPolicy) {
		due = nil
	}
	for _, w := range a.boot.Spec.WrittenDisks {
		due = append(due, w.Disk)
	}
	var missing []string
	for _, d := range due {
		name := cmp.Or(d.SerialNumber, d.WWN, d.ByPath)
		at := slices.IndexFunc(disks, func(e v1alpha1.ErasedDisk) bool { return diskname.Same(d, e.Disk) })
		var problem string
		switch {
		case at < 0:
			problem = fmt.Sprintf("disk %s is missing", name)
		case disks[at].Outcome == wire.LeftOut && !mayBeKept(keptDisks(a.host.Spec.Storage), d, disks[at].Disk):
			problem = fmt.Sprintf("disk %s was left out, and spec.storage.keep does not name it", name)
		default:
			continue
		}
		if !slices.Contains(missing, problem) {
			missing = append(missing, problem)
		}
	}
	return missing
}

// mayBeKept is true if an entry of keep has the serial number or the WWN of the disk. It is also true if an entry has a label, because only the agent knows the labels
// of a disk.
func mayBeKept(keep []wire.KeptDisk, d, reported wire.DiskIdentity) bool {
	return slices.ContainsFunc(keep, func(k wire.KeptDisk) bool {
		return k.Label != "" || diskname.IsNamed(d, k) || diskname.IsNamed(reported, k)
	})
}

// nameOfDisk names a disk of a report for messages.
func nameOfDisk(d *v1alpha1.ErasedDisk) string {
	return cmp.Or(controllers.Clip(d.Disk.SerialNumber, 64), controllers.Clip(d.Disk.WWN, 64), controllers.Clip(d.Name, 64), "without a name")
}

// failedDisks names the disks that an agent could not erase; empty without one.
func failedDisks(disks []v1alpha1.ErasedDisk) string {
	var failed []string
	for i := range disks[:min(len(disks), agent.MaxErasedDisks)] {
		if d := &disks[i]; d.Outcome == agent.Failed {
			failed = append(failed, fmt.Sprintf("%s (%s)", nameOfDisk(d), controllers.Clip(d.Message, 128)))
		}
	}
	if len(failed) == 0 {
		return ""
	}
	more := ""
	if n := len(failed) - maxErasureProblems; n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return "Not erased: " + strings.Join(failed[:min(len(failed), maxErasureProblems)], ", ") + more
}

// erasureReport returns the record of an erasure, from a report that judgeErasure has accepted, without devices that have no identity. It is nil for a report of Metadata
// without disks.
func erasureReport(a attempt, disks []v1alpha1.ErasedDisk, tls bool, now metav1.Time) *v1alpha1.ErasureReport {
	boot := a.boot
	if len(disks) == 0 && !boot.Spec.CleaningPolicy.Reaches(wire.PolicyClear) {
		return nil
	}
	report := &v1alpha1.ErasureReport{
		Policy: cmp.Or(boot.Spec.CleaningPolicy, wire.PolicyMetadata), StartTime: boot.Spec.StartTime, EndTime: now, TLS: tls,
		BootMethod: cmp.Or(boot.Spec.Method, v1alpha1.MethodPXE),
	}
	if boot.Spec.PoweredOnTime != nil {
		report.StartTime = *boot.Spec.PoweredOnTime
	}
	if plan := controllers.ObservedStage(boot, v1alpha1.StageAgent); plan != nil {
		report.StartTime = plan.Time
		if a := plan.Agent; a != nil {
			report.AgentRelease, report.FirmwareMode, report.SecureBoot = a.Release, a.FirmwareMode, a.SecureBoot
		}
	}
	report.Disks = slices.DeleteFunc(slices.Clone(disks), func(d v1alpha1.ErasedDisk) bool { return d.Disk == wire.DiskIdentity{} })
	return report
}

// erasedDisks converts the disks in the result of an agent, which is not trusted: texts and numbers are cut to the limits of the API. This is the only place where that is
// done, before anything is judged or recorded.
func erasedDisks(disks []agent.ErasedDisk) []v1alpha1.ErasedDisk {
	var out []v1alpha1.ErasedDisk
	for i := range disks {
		out = append(out, erasedDisk(&disks[i]))
	}
	return out
}

func erasedDisk(d *agent.ErasedDisk) v1alpha1.ErasedDisk {
	out := v1alpha1.ErasedDisk{DiskErasure: wire.DiskErasure{
		Disk: wire.DiskIdentity{
			SerialNumber: text(d.Disk.SerialNumber), WWN: text(d.Disk.WWN), ByPath: text(d.Disk.ByPath), SizeBytes: max(d.Disk.SizeBytes, 0),
		},
		Name: controllers.Clip(d.Name, 64), Model: controllers.Clip(d.Model, 128), Vendor: controllers.Clip(d.Vendor, 128),
		FirmwareVersion: controllers.Clip(d.FirmwareVersion, 64), Transport: transportOf(d.Transport), Outcome: word(d.Outcome), Message: controllers.Clip(d.Message, 512),
	}, StartTime: timeOf(d.StartTime), EndTime: timeOf(d.EndTime)}
	for _, w := range d.Warnings[:min(len(d.Warnings), maxDiskWarnings)] {
		out.Warnings = append(out.Warnings, controllers.Clip(w, 192))
	}
	if d.Outcome != wire.Erased {
		return out
	}
	out.Method, out.Class, out.Basis = controllers.Clip(d.Method, 128), word(d.Class), controllers.Clip(d.Basis, 256)
	if v := d.Verification; v != nil {
		out.Verification = &wire.ErasureVerification{
			Kind: word(v.Kind), Passed: v.Passed, Samples: max(v.Samples, 0), Bytes: max(v.Bytes, 0), Changed: max(v.Changed, 0), Blank: max(v.Blank, 0),
			Unreadable: max(v.Unreadable, 0),
		}
	}
	return out
}

// word cleans a word of an agent that is judged later: one that is unknown is named in the message, and refused.
func word[T ~string](w T) T { return T(controllers.Clip(string(w), 32)) }

// maxDiskWarnings is how many warnings of a disk a record has.
const maxDiskWarnings = 4

// timeOf converts a time of an agent. It is nil for a time that no server has, which the API server might refuse.
func timeOf(t time.Time) *metav1.Time {
	if year := t.UTC().Year(); year < 1970 || year > 2999 {
		return nil
	}
	return &metav1.Time{Time: t}
}
