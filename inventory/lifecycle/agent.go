package lifecycle

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
)

// An image is written to a disk by an agent that the server boots from the network. The agent gets the bootstrap data while the disk is not bootable, and makes the
// disk bootable at the very end, after it got the permission (commitAllowedTime). So an attempt may be repeated although its bootstrap data was served: no operating
// system has used the data. After the permission that is unknown until the agent reports. The next attempt then names the boot with the permission
// (committedNumber), and its agent first checks whether the disk is complete.

// Image is the state of a machine's image at the boot server.
type Image struct {
	// Ready is true if the image can be written to disks.
	Ready bool
	// Reason and Message say what it waits for, or why it cannot be used. Both are empty before the boot server reported.
	Reason, Message string
}

// waiting returns the reason and the message of a host that waits for the image.
func (i Image) waiting() (reason, message string) {
	return cmp.Or(i.Reason, v1alpha1.ReasonWaitingForImage),
		cmp.Or(i.Message, "Waiting for the boot server to download and check the image")
}

// mayRepeat is true while an attempt may be repeated: no operating system has used its bootstrap data, or the agent can check that.
func mayRepeat(attempt v1alpha1.BareMetalBootSpec) bool {
	if attempt.Agent {
		return attempt.AgentDoneTime == nil
	}
	return attempt.DataServedTime == nil
}

// committedNumber returns the number of the last boot of a claim that had the permission to make the disk bootable, while it is unknown whether the boot did so. It returns
// 0 if no boot had the permission.
func committedNumber(last *v1alpha1.BareMetalBootSpec) int32 {
	if last.CommitAllowedTime != nil {
		return last.Number
	}
	return last.CommittedNumber
}

// DataGiven is true for a boot after which the machine must not get another host: an operating system may have its bootstrap data.
func DataGiven(b *v1alpha1.BareMetalBootSpec) bool {
	return b.DataServedTime != nil || b.CommittedNumber > 0 || b.Purpose == v1alpha1.PurposeClean && !IsRequestedErasure(b)
}

// permanentAgentReasons are the failures of an agent that another attempt would repeat: they follow from the image, the plan and the disks.
var permanentAgentReasons = []string{
	wire.ReasonNoDiskMatches, wire.ReasonSeveralDisksMatch, wire.ReasonDiskProtected, wire.ReasonDiskTooSmall, wire.ReasonSectorSizeDiffers,
	wire.ReasonDataSourceOnOtherDisk, wire.ReasonNoBootLoader, wire.ReasonPartitionTableInvalid, wire.ReasonCommitUnknown, wire.ReasonPlanInvalid, wire.ReasonOtherServer,
}

// transientAgentReasons are the failures of an agent after which another attempt may succeed.
var transientAgentReasons = []string{
	wire.ReasonDiskBusy, wire.ReasonDiskFailed, wire.ReasonImageCorrupt, wire.ReasonBootServerUnreachable, wire.ReasonVersionDiffers,
	wire.ReasonEraseFailed, wire.ReasonAgentPanicked,
}

// failsForGood is true for an attempt with a problem that another attempt would repeat. That an agent of a boot medium reports one ends only its attempt, unless it is the
// last one: others may have read the medium, and report what they like (decision 0034).
func failsForGood(v View, s Settings, attempt v1alpha1.BareMetalBootSpec) bool {
	if !mayRepeat(attempt) || v.Observed.Problem == nil || !IsPermanent(v.Observed.Problem.Reason) {
		return false
	}
	doubtful := UsesMedium(&attempt) && slices.Contains(permanentAgentReasons, v.Observed.Problem.Reason)
	return !doubtful || attempt.Attempt >= maxAttempts(v, s)
}

// metOtherServer is true for an attempt whose agent ran on another server than the host's. The next attempt would meet it, too: the spec of the host is wrong. A client
// that has read a boot medium may report it, so then only the attempt ends (decision 0034).
func (o Observed) metOtherServer(attempt v1alpha1.BareMetalBootSpec) bool {
	return o.Problem != nil && o.Problem.Reason == wire.ReasonOtherServer && !UsesMedium(&attempt)
}

// agentGaveUp is true when the agent reported that its plan failed. The attempt ends then, and does not wait for its deadline.
func (o Observed) agentGaveUp(attempt v1alpha1.BareMetalBootSpec) bool {
	return attempt.Agent && mayRepeat(attempt) && o.Problem != nil &&
		(slices.Contains(transientAgentReasons, o.Problem.Reason) || slices.Contains(permanentAgentReasons, o.Problem.Reason))
}

// agentRan is true once the agent of an attempt got its plan, until it has completed it. The address that got the plan is in the spec: the stage may be lost with the
// status, or the write of it while the API server is away.
func (o Observed) agentRan(attempt v1alpha1.BareMetalBootSpec) bool {
	stages := []v1alpha1.BootStage{v1alpha1.StageAgent, v1alpha1.StageData, v1alpha1.StageCommitted}
	ran := attempt.DataAddress != "" || slices.Contains(stages, o.Furthest.Stage)
	return attempt.Agent && attempt.AgentDoneTime == nil && attempt.PoweredOnTime != nil && ran
}

// agentOver returns how the agent of an attempt ended without completing its plan; empty while it may run. It was refused, it gave up, or its server is off: the server lost its
// power, or the agent ended without a result. The attempt ends then: without that, a server whose agent crashes would be powered on again and again.
func agentOver(v View, s Settings, attempt v1alpha1.BareMetalBootSpec) string {
	switch {
	case attempt.AgentRefusedTime != nil && mayRepeat(attempt):
		return fmt.Sprintf("Two clients presented the token of the agent in attempt %d, so neither is served: the server's address changed, or another machine listens on "+
			"its network. An event names both addresses", attempt.Attempt)
	case v.Observed.agentGaveUp(attempt):
		return fmt.Sprintf("The agent gave up in attempt %d: %s", attempt.Attempt, v.Observed.Problem.Message)
	case v.Observed.agentRan(attempt) && v.BMC.Power == v1alpha1.PowerOff && v.BMC.powerKnown(v.Now, s.ActiveInterval) && v.BMC.confirmedOff(v.Now, s):
		return fmt.Sprintf("The server went off in attempt %d while the agent ran: it lost its power, or the agent ended without a result. Check the server's console",
			attempt.Attempt)
	default:
		return ""
	}
}
