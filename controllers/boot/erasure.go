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
func judgeErasure(a attempt, disks []agent.ErasedDisk) string {
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

func isErased(d agent.ErasedDisk) bool { return d.Outcome == agent.Erased }

// factDisks is the name of the fact whether the BMC reports disks: bmc.FactDisks. The boot server has no code of BMCs.
const factDisks = "disks"

// judgeNoDisks judges a report without a disk. An agent that lacks the driver of a controller finds none, so the BMC has to report that the server has none.
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

// judgeDisk returns what is wrong with the report of a disk under a policy; empty if nothing is.
func judgeDisk(d *agent.ErasedDisk, policy wire.ErasePolicy) string {
	name := nameOfDisk(d)
	switch d.Outcome {
	case agent.LeftOut:
		return ""
	case agent.Erased:
	case agent.Failed:
		return fmt.Sprintf("disk %s was not erased: %s", name, text(d.Message))
	default:
		return fmt.Sprintf("disk %s has the outcome %s", name, text(fmt.Sprintf("%.32q", d.Outcome)))
	}
	v, class := d.Verification, d.Class
	switch {
	case v == nil || !v.Passed:
		return fmt.Sprintf("disk %s has no verification that passed", name)
	case !slices.Contains([]agent.VerificationKind{agent.ReadBack, agent.Samples, agent.DriveStatus}, v.Kind):
		return fmt.Sprintf("disk %s has an unknown kind of verification", name)
	case !cleaning.AllDisks(class) || !class.Reaches(policy):
		return fmt.Sprintf("disk %s was erased with the class %s, and the policy is %s", name, text(fmt.Sprintf("%.32q", d.Class)), policy)
	case text(d.Method) == "":
		return fmt.Sprintf("disk %s was erased without a method", name)
	case d.Disk.SerialNumber == "" && d.Disk.WWN == "" && d.Disk.ByPath == "":
		return fmt.Sprintf("disk %s cannot be identified", name)
	default:
		return ""
	}
}

// missingDisks returns the disks that must be in a report and are not erased in it, as clauses: those that the agent found before the claim, and those that the provider
// wrote. Only spec.storage.keep leaves one out.
func missingDisks(a attempt, disks []agent.ErasedDisk) []string {
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
		at := slices.IndexFunc(disks, func(e agent.ErasedDisk) bool { return diskname.Same(d, identityOf(e.Disk)) })
		var problem string
		switch {
		case at < 0:
			problem = fmt.Sprintf("disk %s is missing", name)
		case disks[at].Outcome == agent.LeftOut && !mayBeKept(keptDisks(a.host.Spec.Storage), d, disks[at]):
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

// mayBeKept is true if an entry of keep names a disk, or is a label: which labels a disk has is only known to the agent.
func mayBeKept(keep []wire.KeptDisk, d wire.DiskIdentity, report agent.ErasedDisk) bool {
	return slices.ContainsFunc(keep, func(k wire.KeptDisk) bool {
		return k.Label != "" || diskname.IsNamed(d, k) || diskname.IsNamed(identityOf(report.Disk), k)
	})
}

// identityOf cleans the identity of a disk in a report.
func identityOf(id wire.DiskIdentity) wire.DiskIdentity {
	return wire.DiskIdentity{SerialNumber: text(id.SerialNumber), WWN: text(id.WWN), ByPath: text(id.ByPath), SizeBytes: max(id.SizeBytes, 0)}
}

// nameOfDisk names a disk of a report for messages.
func nameOfDisk(d *agent.ErasedDisk) string {
	return cmp.Or(controllers.Clip(d.Disk.SerialNumber, 64), controllers.Clip(d.Disk.WWN, 64), controllers.Clip(d.Name, 64), "without a name")
}

// failedDisks names the disks that an agent could not erase; empty without one.
func failedDisks(disks []agent.ErasedDisk) string {
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

// erasureReport returns the record of an erasure, from a report that judgeErasure has accepted. The texts are those of an agent, which is not trusted: they are cleaned
// and cut. It is nil for a report of Metadata without disks.
func erasureReport(a attempt, disks []agent.ErasedDisk, tls bool, now metav1.Time) *v1alpha1.ErasureReport {
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
	for i := range disks {
		if d, ok := erasedDisk(&disks[i]); ok {
			report.Disks = append(report.Disks, d)
		}
	}
	return report
}

// erasedDisk converts the report of a disk. It returns false for a device that was left out and that has no identity.
func erasedDisk(d *agent.ErasedDisk) (v1alpha1.ErasedDisk, bool) {
	identity := identityOf(d.Disk)
	out := v1alpha1.ErasedDisk{
		Disk: identity, Name: controllers.Clip(d.Name, 64), Model: controllers.Clip(d.Model, 128), Vendor: controllers.Clip(d.Vendor, 128),
		FirmwareVersion: controllers.Clip(d.Firmware, 64), Transport: transportOf(d.Transport), Outcome: v1alpha1.ErasureOutcome(d.Outcome),
		StartTime: timeOf(d.StartedAt), EndTime: timeOf(d.EndedAt), Message: controllers.Clip(d.Message, 512),
	}
	for _, w := range d.Warnings[:min(len(d.Warnings), maxDiskWarnings)] {
		out.Warnings = append(out.Warnings, controllers.Clip(w, 192))
	}
	if d.Outcome == agent.Erased {
		out.Method, out.Class, out.Basis = controllers.Clip(d.Method, 128), d.Class, controllers.Clip(d.Basis, 256)
		v := d.Verification
		out.Verification = &v1alpha1.ErasureVerification{
			Kind: v1alpha1.VerificationKind(v.Kind), Passed: v.Passed, Samples: number(v.Samples), Bytes: max(v.Bytes, 0), Changed: number(v.Changed), Blank: number(v.Blank),
			Unreadable: number(v.Unreadable),
		}
	}
	return out, identity != wire.DiskIdentity{}
}

// maxDiskWarnings is how many warnings of a disk a record has.
const maxDiskWarnings = 4

// timeOf converts a time of an agent. It is nil for a time that no server has, which the API server might refuse.
func timeOf(t time.Time) *metav1.Time {
	if year := t.UTC().Year(); year < 1970 || year > 2999 {
		return nil
	}
	return &metav1.Time{Time: t}
}
