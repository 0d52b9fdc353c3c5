package lifecycle

import (
	"fmt"
	"slices"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
)

// IsPermanent is true for the reason of a problem that follows from objects alone: from the machine's spec.boot and its bootstrap data. Such a boot
// fails at once. The server would otherwise retry until the deadline, every attempt would fail the same way, and the server has no fault. A problem
// with an artifact, a permission or a lease may be over at the next request, so it is not permanent.
func IsPermanent(reason string) bool {
	return reason == v1alpha1.ReasonBootSourceInvalid || reason == v1alpha1.ReasonCommandLineTooLong || reason == v1alpha1.ReasonBootstrapDataInvalid ||
		slices.Contains(permanentAgentReasons, reason)
}

// remedyOf returns what a user does about a permanent failure.
func remedyOf(reason string) string {
	const replace = ", then delete the Machine to have it replaced"
	switch reason {
	case wire.ReasonNoDiskMatches, wire.ReasonSeveralDisksMatch, wire.ReasonDiskProtected, wire.ReasonDiskTooSmall, wire.ReasonDataSourceOnOtherDisk:
		return "Correct spec.image.rootDevice of the template, spec.storage of the host, or the disks of the server" + replace
	case wire.ReasonSectorSizeDiffers, wire.ReasonNoBootLoader, wire.ReasonPartitionTableInvalid:
		return "Correct the image, or spec.bootMode or spec.storage of the host" + replace
	case wire.ReasonCommitUnknown:
		return "Delete the Machine to have it replaced"
	case wire.ReasonPlanInvalid:
		return "Report this with the log of the agent, and delete the Machine to have it replaced"
	case wire.ReasonOtherServer:
		return "Correct the spec of the host" + replace
	default:
		return "Correct the template or the bootstrap config of the Machine" + replace
	}
}

// describeTimeout says what an attempt that reached its deadline did last.
func describeTimeout(v View, s Settings, attempt v1alpha1.BareMetalBootSpec) string {
	since, timeout := fmt.Sprintf("boot attempt %d began", attempt.Attempt), s.BootTimeout
	switch done := attempt.AgentDoneTime; {
	case done != nil && done.After(v.Observed.countedFrom(v.Host.Boot)):
		since = fmt.Sprintf("the agent completed its plan in boot attempt %d", attempt.Attempt)
	case v.Observed.AgentAt.Add(s.BootTimeout).After(v.Observed.lastDeadline(v.Host.Boot, s)):
		timeout = v.Observed.lastDeadline(v.Host.Boot, s).Sub(v.Observed.countedFrom(v.Host.Boot))
		since = fmt.Sprintf("boot attempt %d began, although the agent makes progress", attempt.Attempt)
	case v.Observed.AgentAt.After(attempt.StartTime.Time):
		since = fmt.Sprintf("the agent last made progress in boot attempt %d", attempt.Attempt)
	case v.Observed.WaitedAt.After(attempt.StartTime.Time):
		since = fmt.Sprintf("the server last waited for a boot slot of its network, in boot attempt %d", attempt.Attempt)
	}
	if what := notBooted(v, attempt); what != "" && v.Observed.Problem == nil {
		return fmt.Sprintf("%s after %s: %s", timeout, since, what)
	}
	after := fmt.Sprintf("%s after %s: %s", timeout, since, describeProgress(v, attempt).Message)
	if v.Observed.Problem == nil {
		after += ". The likeliest cause: " + currentStage(v, attempt).cause
	}
	return after
}

// lastAttempt ends the message of a boot that is not repeated.
const lastAttempt = ". This was the last attempt. Delete the Machine to have it replaced"

// endAttempt ends an attempt that timed out, or whose agent gave up, which after says. There is no further attempt once the operating system may have used its
// bootstrap data.
func endAttempt(v View, s Settings, attempt v1alpha1.BareMetalBootSpec, after string) Step {
	switch {
	case !mayRepeat(attempt):
		return failBoot(attempt, v1alpha1.ReasonBootTimedOut, after+
			". The server got its bootstrap data, so it is not booted again. Check its console, then delete the Machine to have it replaced")
	case attempt.Attempt >= maxAttempts(v, s) && attempt.AgentRefusedTime != nil:
		return failBoot(attempt, v1alpha1.ReasonSecondRequester, after+lastAttempt)
	case attempt.Attempt >= maxAttempts(v, s):
		return failBoot(attempt, v1alpha1.ReasonBootTimedOut, after+lastAttempt)
	case v.Host.Paused || v.Consumer.Paused:
		return awaitUnpaused(v, s, after)
	case v.QueuePosition != nil:
		return awaitBootSlot(v, after)
	default:
		step := beginAttempt(v, attempt.Attempt+1)
		step.Message += ". " + after
		return step
	}
}

// awaitUnpaused waits until the host, its machine and their Cluster are not paused any more. While one is paused, only an attempt in flight continues.
func awaitUnpaused(v View, s Settings, after string) Step {
	step := Step{
		Phase: v1alpha1.PhaseBooting, Reason: v1alpha1.ReasonPaused, RequeueAt: v.Now.Add(s.PollInterval),
		Message: after + ". The next attempt begins when the host, its machine and their Cluster are no longer paused",
	}
	if v.Host.MoveBlocked {
		step.Action = AllowMove
	}
	return step
}

// awaitBootSlot waits in the boot queue for the next attempt. An attempt that follows at once keeps the slot of the one before. This is for an attempt
// that could not follow at once, as in maintenance.
func awaitBootSlot(v View, after string) Step {
	return v.QueuePosition.wait(v, Step{Phase: v1alpha1.PhaseBooting, Message: after + ". The next attempt waits for a boot slot. "})
}
