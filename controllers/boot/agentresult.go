package boot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/metrics"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

// Result records the end of an agent's plan. A repeated success changes nothing: the answer to the first may have been lost. A repeated failure is recorded and counted
// again. A result that comes after the end of the boot is refused.
func (s *agents) Result(ctx context.Context, r pxe.AgentRequest, result agent.Result) (agent.Answer, error) {
	if result.Failure != nil {
		return s.agentFailed(ctx, r, result)
	}
	var first bool
	var unproven string
	disks := erasedDisks(result.Disks)
	ends := func(known *v1alpha1.BareMetalBootSpec) bool { return known.AgentDoneTime == nil }
	a, err := s.guard.withAgent(ctx, r, true, ends, func(a attempt) error {
		boot := &a.boot.Spec
		if first = false; boot.AgentDoneTime != nil {
			return nil
		}
		var err error
		if unproven, err = s.checkResult(ctx, &a, r, disks); err != nil {
			return err
		}
		now := metav1.NewTime(s.clock.Now())
		boot.AgentDoneTime, first = &now, true
		switch boot.Purpose {
		case v1alpha1.PurposeClean:
			boot.WrittenDisks, boot.Erasure = nil, erasureReport(a, disks, r.TLS, now)
		case v1alpha1.PurposeConfigure:
			boot.AgentSecureBoot = secureBootOf(result.SecureBoot)
		case v1alpha1.PurposeProvision:
			if boot.DataServedTime == nil {
				boot.DataServedTime = &now // an earlier boot of the claim served the data that is on the disk
			}
		case v1alpha1.PurposeInspect: // its report is in the BareMetalInspection
		}
		return nil
	})
	if errors.Is(err, errUnproven) {
		result.Failure = &agent.Failure{Reason: wire.ReasonEraseFailed, Message: unproven}
		return s.agentFailed(ctx, r, result)
	}
	if err != nil {
		return agent.Answer{}, err
	}
	if first {
		s.recordAgentDone(a, result)
	}
	s.stages.recordStage(a.boot, v1alpha1.StageAgentDone, r.From, "")
	if a.boot.Spec.Purpose == v1alpha1.PurposeProvision {
		return agent.Answer{Next: agent.Reboot}, nil
	}
	return agent.Answer{Next: agent.PowerOff}, nil
}

// checkResult returns nil for a result that ends the plan of an agent. unproven says why the disks do not count as erased; the error is errUnproven then. It reads which
// disks the erasure of a free host has to name into the attempt.
func (s *agents) checkResult(ctx context.Context, a *attempt, r pxe.AgentRequest, disks []v1alpha1.ErasedDisk) (unproven string, err error) {
	switch boot := &a.boot.Spec; {
	case boot.Purpose == v1alpha1.PurposeProvision && boot.CommitAllowedTime == nil && boot.CommittedNumber == 0:
		return "", refused("the agent of %s reports an image that it was not allowed to complete", r.Host)
	case boot.Purpose == v1alpha1.PurposeInspect:
		if found, err := s.inspections.inspected(ctx, *a); err != nil || !found {
			return "", cmp.Or(err, refused("the agent of %s has not sent what it found", r.Host))
		}
	case boot.Purpose == v1alpha1.PurposeClean:
		if a.found, err = s.inspections.foundDisks(ctx, *a); err != nil {
			return "", err
		}
		if unproven = judgeErasure(*a, disks); unproven != "" {
			return unproven, errUnproven
		}
	}
	return "", nil
}

// recordAgentDone records the event and the metrics of a plan that succeeded.
func (s *agents) recordAgentDone(a attempt, result agent.Result) {
	note, warnings := "Erased the disks that the provider wrote", controllers.ClipAll(result.Warnings[:min(len(result.Warnings), 4)])
	switch a.boot.Spec.Purpose {
	case v1alpha1.PurposeClean:
		metrics.Erased(a.boot.Spec.CleaningPolicy, true)
		if e := a.boot.Spec.Erasure; e != nil {
			left := slices.DeleteFunc(slices.Clone(e.Disks), func(d v1alpha1.ErasedDisk) bool { return d.Outcome != wire.LeftOut })
			note = fmt.Sprintf("Erased %d disks (%s), and left out %d", len(e.Disks)-len(left), e.Policy, len(left))
			if warning := diskWarning(e.Disks); warning != "" {
				warnings = append(warnings, warning)
			}
		}
	case v1alpha1.PurposeInspect:
		note = "Read the hardware. The BareMetalInspection of the host has the report"
	case v1alpha1.PurposeConfigure:
		note = "The server has booted with its new firmware settings"
	case v1alpha1.PurposeProvision:
		note = "The image is on the disk"
		if w := result.Written; w != nil {
			note = fmt.Sprintf("Wrote the image to %s: %d MB in %d s", controllers.Clip(w.Name+" "+w.Model, 64), w.ImageBytes/1_000_000, w.Seconds)
			metrics.ImageWritten(w.ImageBytes, time.Duration(w.Seconds)*time.Second)
		}
	}
	s.events.recordAgentEvent(a.boot, len(warnings) > 0, controllers.EventAgentDone, "%s", strings.Join(append([]string{note}, warnings...), ". "))
}

// diskWarning says how many disks of an erasure have warnings, with the first of them; empty if none has any. The BareMetalErasure has all of them.
func diskWarning(disks []v1alpha1.ErasedDisk) string {
	warned := slices.DeleteFunc(slices.Clone(disks), func(d v1alpha1.ErasedDisk) bool { return len(d.Warnings) == 0 })
	if len(warned) == 0 {
		return ""
	}
	first := &warned[0]
	name := cmp.Or(first.Disk.SerialNumber, first.Disk.WWN, first.Name)
	return fmt.Sprintf("Disks with warnings: %d. The first one is %s: %s", len(warned), controllers.Clip(name, 64), controllers.Clip(first.Warnings[0], 192))
}

// agentFailed records why a plan failed. The lifecycle decides what follows. A result that is recorded already, whose answer was lost, is counted once.
func (s *agents) agentFailed(ctx context.Context, r pxe.AgentRequest, result agent.Result) (agent.Answer, error) {
	a, err := s.guard.withAgent(ctx, r, false, nil, func(attempt) error { return nil })
	if err != nil {
		return agent.Answer{}, err
	}
	reason, answer := result.Failure.Reason, agent.Answer{Next: agent.Wait}
	if reason == wire.ReasonOtherServer { // which has a system of its own
		answer.Next = agent.Reboot
	}
	if !slices.Contains(wire.AgentFailureReasons, reason) {
		reason = wire.ReasonPlanInvalid
	}
	message := controllers.Clip(result.Failure.Message, controllers.MaxMessage/2)
	if a.boot.Spec.Purpose == v1alpha1.PurposeClean {
		if failed := failedDisks(erasedDisks(result.Disks)); failed != "" {
			message += ". " + failed
		}
	}
	if tail := lastLines(result.Log, maxLogLines); tail != "" {
		message += ". The last lines of the agent's log: " + controllers.Clip(tail, controllers.MaxMessage/4)
	}
	problem := v1alpha1.BootProblem{
		BootFailure: v1alpha1.BootFailure{Reason: reason, Message: controllers.Clip(message, controllers.MaxMessage)}, Number: a.boot.Spec.Number,
		Time: metav1.NewTime(s.clock.Now()),
	}
	if was := controllers.Problem(a.boot); was != nil && was.BootFailure == problem.BootFailure {
		return answer, nil
	}
	if !s.reports.allow(keyOf(a.boot), s.clock.Now()) {
		return agent.Answer{}, tooEarly("the agent of %s reports other failures too often", r.Host)
	}
	s.log.Info("An agent failed", "host", client.ObjectKeyFromObject(a.boot), "boot", a.boot.Spec.Number, "reason", reason, "message", problem.Message,
		"log", result.Log[max(0, len(result.Log)-agent.MaxLog):])
	// It is written before the answer: an agent that got its answer does not repeat its result.
	if err := s.records.written.ApplyProblem(ctx, s.client, client.ObjectKeyFromObject(a.boot), problem); err != nil {
		return agent.Answer{}, err
	}
	if a.boot.Spec.Purpose == v1alpha1.PurposeClean {
		metrics.Erased(a.boot.Spec.CleaningPolicy, false)
	}
	metrics.BootProblem(reason)
	metrics.AgentFailed(a.boot.Spec.Purpose, reason)
	s.events.recordProblemEvent(a.boot, problem)
	return answer, nil
}

// The rate at which failures, and inventories, of one boot are recorded. Each is a write of up to 32 KiB, and a failure an event and up to 32 KiB of log, too: the holder
// of a token must not fill etcd or the log. An agent reports one, and repeats it if the answer was lost.
const (
	reportRate  = rate.Limit(1.0 / 60)
	reportBurst = 4
)

// maxLogLines is how many lines of an agent's log a condition has.
const maxLogLines = 5

// lastLines returns the last lines of a log, separated by " | ".
func lastLines(log string, n int) string {
	lines := strings.Split(strings.TrimSpace(log), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], " | ")
}
