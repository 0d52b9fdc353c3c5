package lifecycle

import (
	"fmt"
	"slices"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
)

// stageInfo is a row of the table of boot stages: the last observed stage, what is awaited next, and the likeliest cause if it does not come.
type stageInfo struct {
	stage    v1alpha1.BootStage
	reason   string // of the conditions Booted and BootProgress
	observed string // what was observed last, as the start of a sentence
	awaited  string
	cause    string
	short    string // awaited, in one word: it is a column of `kubectl get baremetalboots`, which fits into 100 columns
}

// preparingInfo is the row before the server reads as powered on.
var preparingInfo = stageInfo{
	reason: v1alpha1.ReasonPreparing, observed: "The server is being prepared: power off, boot override, power on", awaited: "the request for a boot file (DHCP)",
	cause: "the BMC does not carry out its commands: see the condition BMCReady and status.lastOperation",
}

// stages is the table. docs/reference/boot-stages.md shows it to users.
var stages = []stageInfo{
	{
		"", v1alpha1.ReasonWaitingForDHCP,
		"The server was powered on", "the request for a boot file (DHCP)",
		"the firmware ignores the boot override, spec.bootMACAddresses has those of other interfaces, or DHCP does not reach the boot server " +
			"(VLAN, relay agent)",
		"DHCP",
	},
	{
		v1alpha1.StageDHCP, v1alpha1.ReasonWaitingForLoader,
		"The server requested its boot file", "the fetch of the boot loader (TFTP, or HTTP for UEFI HTTP boot)",
		"TFTP (UDP port 69), or HTTP, is blocked between the server and the boot server, or another DHCP server names another boot file",
		"loader",
	},
	{
		v1alpha1.StageLoader, v1alpha1.ReasonWaitingForScript,
		"The server fetched the boot loader", "the request for the script (HTTP)",
		"HTTP is blocked between the server and the boot server, the loader gets no address or has no driver for the network interface, or " +
			"Secure Boot refused it (then set spec.bootMode: UEFISecureBoot)",
		"script",
	},
	{
		v1alpha1.StageWaiting, v1alpha1.ReasonWaitingForNetworkSlot,
		"The boot loader requested the script and was queued for a boot slot of its network", "its next request for the script (HTTP)",
		"the server was switched off or hangs: a server that waits asks every few seconds, and shows its position on its console",
		"slot",
	},
	{
		v1alpha1.StageScript, v1alpha1.ReasonWaitingForKernel,
		"The boot loader fetched the script", "the fetch of the kernel (HTTP)",
		"the script does not finish: the loader's messages are on the server's console",
		"kernel",
	},
	{
		v1alpha1.StageKernel, v1alpha1.ReasonWaitingForData,
		"The boot loader fetched the kernel", "the request for the bootstrap data (HTTP)",
		"the kernel or the initrd does not start on this hardware, has no driver for the network interface, or holds nothing that reads the " +
			"bootstrap data (cloud-init, Ignition): check the server's console",
		"data",
	},
	{
		v1alpha1.StageData, v1alpha1.ReasonWaitingForReport,
		"The operating system fetched its bootstrap data", "its report, or its Node",
		"the bootstrap still runs or hangs (see /var/log/cloud-init-output.log on the server's console), or the server no longer reaches the " +
			"boot server or the cluster's control plane",
		"report",
	},
}

// mediumLoader is the row after the boot loader of a medium was read.
var mediumLoader = stageInfo{
	v1alpha1.StageLoader, v1alpha1.ReasonWaitingForKernel,
	"The server read the boot loader of the medium", "the read of the kernel",
	"Secure Boot refused the loader (then set spec.bootMode: UEFISecureBoot), or the medium is read too slowly: the loader's messages are on the server's console",
	"kernel",
}

// mediaStages are the first rows of an attempt that boots from a boot medium, until the server has booted it.
var mediaStages = map[v1alpha1.BootMethod][]stageInfo{
	v1alpha1.MethodUefiHTTP: {
		{
			"", v1alpha1.ReasonWaitingForMedia,
			"The server was powered on", "the firmware's request for the boot medium (HTTP)",
			"the firmware ignores the boot override or the URL, gets no address, or does not reach the URL of --boot-media-url",
			"medium",
		},
		{
			v1alpha1.StageMedia, v1alpha1.ReasonWaitingForMediaBoot,
			"The firmware requested the boot medium", "the start of the system on it",
			"the firmware did not boot from the medium: it refuses the medium or its size, or the system on the medium does not start or does not reach the boot server",
			"loader",
		},
		mediumLoader,
	},
	v1alpha1.MethodVirtualMedia: {
		{
			"", v1alpha1.ReasonWaitingForMedia,
			"The server was powered on", "the BMC's request for the boot medium (HTTP)",
			"the BMC does not reach the URL of --boot-media-url: check its network, its proxy and whether it trusts the certificate",
			"medium",
		},
		{
			v1alpha1.StageMedia, v1alpha1.ReasonWaitingForMediaBoot,
			"The BMC requested the boot medium", "the start of the system on it",
			"the server did not boot from the medium: the firmware ignores the boot override, or the system on the medium does not start or does not reach the boot server",
			"loader",
		},
		mediumLoader,
	},
}

// mediaStage returns the row of an attempt that has to boot from a boot medium; nil if it uses none, or has booted it.
func (o Observed) mediaStage(attempt v1alpha1.BareMetalBootSpec) *stageInfo {
	rows := mediaStages[MethodOf(&attempt)]
	switch {
	case rows == nil || o.bootedMedium():
		return nil
	case o.Furthest.Stage == v1alpha1.StageLoader:
		return &rows[2]
	case o.Media.Stage != "":
		return &rows[1]
	default:
		return &rows[0]
	}
}

// agentStages is the table of the stages of a boot that runs the agent, from the kernel on. The stages before are those of stages.
var agentStages = []stageInfo{
	{
		v1alpha1.StageKernel, v1alpha1.ReasonWaitingForAgent,
		"The boot loader fetched the agent", "the agent's request for its plan (HTTP)",
		"the agent's kernel does not start on this hardware, has no driver for the network interface, or gets no address: check the server's console",
		"agent",
	},
	{
		v1alpha1.StageAgent, v1alpha1.ReasonAgentRuns,
		"The agent runs", "its next progress",
		"the agent hangs, or no longer reaches the boot server: check the server's console",
		"agent",
	},
	{
		v1alpha1.StageData, v1alpha1.ReasonAgentRuns,
		"The agent got the bootstrap data", "the check of the disk",
		"the disk does not answer: check the server's console",
		"agent",
	},
	{
		v1alpha1.StageCommitted, v1alpha1.ReasonAgentRuns,
		"The agent makes the disk bootable", "its result",
		"the disk does not answer, or the agent no longer reaches the boot server: check the server's console",
		"agent",
	},
	{
		v1alpha1.StageAgentDone, v1alpha1.ReasonWaitingForReport,
		"The image is on the disk, and the server boots it", "the report of the operating system, or its Node",
		"the firmware does not boot the disk, the image does not start on this hardware, its data source is not spec.image.dataSource, or the bootstrap still runs " +
			"(see the server's console)",
		"report",
	},
}

// AwaitedStage returns what is awaited after a stage of a boot, in two words, or "done" or "failed".
func AwaitedStage(boot *v1alpha1.BareMetalBootSpec, stage v1alpha1.BootStage) string {
	if rows := mediaStages[MethodOf(boot)]; rows != nil {
		switch stage {
		case "", v1alpha1.StageStarted:
			return "awaits " + rows[0].short
		case v1alpha1.StageMedia, v1alpha1.StageDHCP:
			return "awaits " + rows[1].short
		case v1alpha1.StageLoader:
			return "awaits " + rows[2].short
		default:
		}
	}
	switch stage {
	case v1alpha1.StageStarted:
		stage = ""
	case v1alpha1.StageBootstrapFailed, v1alpha1.StageNodeLost:
		return "failed"
	case v1alpha1.StageAgentDone:
		if boot.Purpose != v1alpha1.PurposeProvision {
			return "done" // nothing boots after the agent
		}
	default:
	}
	for _, info := range slices.Concat(stages, agentStages) {
		if info.stage == stage {
			return "awaits " + info.short
		}
	}
	return "done"
}

// currentStage returns the row of the table for an attempt. The spec records that the bootstrap data was served, so that counts even if the status
// was lost.
func currentStage(v View, attempt v1alpha1.BareMetalBootSpec) stageInfo {
	table := stages
	if attempt.Agent {
		table = agentTable
	}
	last := table[len(table)-1]
	switch {
	case !mayRepeat(attempt):
		return last
	case (v.Observed.Furthest.Stage == "" || v.Observed.onlyBMCSeen(attempt)) && (attempt.PoweredOffTime == nil || v.BMC.Power != v1alpha1.PowerOn):
		return preparing(attempt)
	}
	if info := v.Observed.mediaStage(attempt); info != nil {
		return *info
	}
	at := v.Observed.Furthest.Stage
	if at == v1alpha1.StageMedia {
		at = "" // an attempt without a medium does not depend on its requests
	}
	for _, info := range table {
		if info.stage == at {
			return v.Observed.withAgentProgress(info)
		}
	}
	return last
}

// preparing returns the row before the server reads as powered on.
func preparing(attempt v1alpha1.BareMetalBootSpec) stageInfo {
	info := preparingInfo
	if rows := mediaStages[MethodOf(&attempt)]; rows != nil {
		info.awaited = rows[0].awaited
	}
	return info
}

// agentTable is the table of a boot that runs the agent.
var agentTable = slices.Concat(slices.DeleteFunc(slices.Clone(stages), func(i stageInfo) bool {
	return i.stage == v1alpha1.StageKernel || i.stage == v1alpha1.StageData
}), agentStages)

// withAgentProgress adds the progress of the agent to the row of a stage in which it runs.
func (o Observed) withAgentProgress(info stageInfo) stageInfo {
	if p := o.Agent; p != nil && info.reason == v1alpha1.ReasonAgentRuns {
		info.observed = "The agent runs: " + AgentProgressText(p)
	}
	return info
}

// AgentProgressText returns the progress of an agent in a few words, such as "Writing 42 %, 118 MB/s, 12 s left".
func AgentProgressText(p *v1alpha1.AgentProgress) string {
	text := string(p.Step)
	if len(p.Disks) > 0 {
		return text + disksProgressText(p.Disks)
	}
	if p.TotalBytes > 0 {
		text += fmt.Sprintf(" %d %%", p.Percent)
	}
	if p.BytesPerSecond > 0 {
		text += fmt.Sprintf(", %d MB/s", p.BytesPerSecond/1_000_000)
	}
	if p.SecondsLeft > 0 {
		text += fmt.Sprintf(", %s left", time.Duration(p.SecondsLeft)*time.Second)
	}
	return text
}

// disksProgressText returns how far the erasure of disks is, such as " 3 of 8 disks, the slowest at 41 %, about 25 min left".
func disksProgressText(disks []wire.DiskProgress) string {
	running, slowest, left := 0, int32(100), int64(0)
	for _, d := range disks {
		if d.Percent < 100 {
			running++
		}
		slowest, left = min(slowest, d.Percent), max(left, d.SecondsLeft)
	}
	if running == 0 {
		return fmt.Sprintf(" %d disks, to be verified", len(disks))
	}
	text := fmt.Sprintf(" %d of %d disks, the slowest at %d %%", running, len(disks), slowest)
	if left > 0 {
		text += fmt.Sprintf(", about %d min left", (left+59)/60)
	}
	return text
}

// describeProgress says what a booting server did last, and what is awaited.
func describeProgress(v View, attempt v1alpha1.BareMetalBootSpec) Step {
	if v.Observed.Problem != nil {
		return Step{Reason: v.Observed.Problem.Reason, Message: v.Observed.Problem.Message}
	}
	info := currentStage(v, attempt)
	message := info.observed + ". Awaited: " + info.awaited
	if awaitsFirmware(info) {
		message += overrideNote(v.BMC.Override)
	}
	return Step{Reason: info.reason, Message: message}
}

// Progress is the progress of a boot for users. It changes with observations, not with time.
type Progress struct {
	// Complete is true when the host runs its machine.
	Complete bool
	// Reason and Message are those of the condition BootProgress.
	Reason, Message string
}

// BootProgress returns the progress of a host's boot after a step; nil before a boot began.
func BootProgress(v View, s Settings, step Step) *Progress {
	if step.Action == RecordBoot {
		if old := v.Host.Boot; old != nil && old.Number != step.Boot.Number {
			v.Observed.Furthest, v.Observed.Media, v.Observed.Problem, v.Observed.WaitedAt = v1alpha1.ObservedStage{}, v1alpha1.ObservedStage{}, nil, time.Time{} // these belong to the attempt before
		}
		v.Host.Boot = step.Boot
	}
	if v.Host.CurrentBoot() == nil {
		return nil
	}
	attempt := *v.Host.Boot
	number := attemptName(attempt)
	switch {
	case attempt.Failure != nil:
		return &Progress{Reason: attempt.Failure.Reason, Message: attempt.Failure.Message}
	case v.Observed.Furthest.Stage == v1alpha1.StageBootstrapFailed:
		return &Progress{Reason: v1alpha1.ReasonBootstrapFailed, Message: fmt.Sprintf("%s: the operating system reported at %s that it could not apply its "+
			"bootstrap data. Check /var/log/cloud-init-output.log on the server's console, then delete the Machine to have it replaced",
			number, timestamp(v.Observed.Furthest.Time.Time))}
	case v.restarted():
		return &Progress{Reason: v1alpha1.ReasonRestarted, Message: fmt.Sprintf("Firmware requested a network boot at %s with the server's MAC address, "+
			"and the machine runs from memory. If its Node is not Ready, the server restarted and the machine is lost. If it is Ready, something else "+
			"sent the request", timestamp(v.Observed.RestartedAt))}
	case attempt.ReportedTime != nil || v.Provisioned():
		return &Progress{Complete: true, Reason: v1alpha1.ReasonBooted, Message: number + " is complete"}
	case step.State != StateBooting && step.State != StateClaimed, step.Reason == v1alpha1.ReasonWaitingForBootSlot:
		return &Progress{Reason: step.Reason, Message: number + ": " + step.Message}
	}
	reason, message := describeAwaited(v, attempt, s)
	return &Progress{Reason: reason, Message: number + ". " + message}
}

// describeAwaited says what was observed last of an attempt in flight, what is awaited until when, and the likeliest cause if it does not come.
func describeAwaited(v View, attempt v1alpha1.BareMetalBootSpec, s Settings) (reason, message string) {
	deadline := timestamp(v.Deadline(s))
	if v.Observed.Problem != nil {
		return v.Observed.Problem.Reason, fmt.Sprintf("It cannot be served: %s. It continues if that is fixed before %s", v.Observed.Problem.Message, deadline)
	}
	info := currentStage(v, attempt)
	cause := info.cause
	if attempt.DataServedTime != nil && v.restartedAfter(attempt.DataServedTime.Time) {
		cause = fmt.Sprintf("the server restarted, since firmware requested a network boot again at %s: the contents of its memory are lost",
			timestamp(v.Observed.RestartedAt))
	}
	message = fmt.Sprintf("%s%s. Awaited until %s: %s. The likeliest cause if it does not come: %s",
		info.observed, v.Observed.describeObservation(attempt, info.stage), deadline, info.awaited, cause)
	if awaitsFirmware(info) {
		message += overrideNote(v.BMC.Override)
	}
	return info.reason, message
}

// awaitsFirmware is true while it depends on the boot override what happens next.
func awaitsFirmware(info stageInfo) bool {
	return info.reason == v1alpha1.ReasonWaitingForDHCP || info.reason == v1alpha1.ReasonWaitingForMedia || info.reason == v1alpha1.ReasonWaitingForMediaBoot
}

// overrideNote says how the boot override was set, and why it may not work. It is appended to the message of a boot that is awaited.
func overrideNote(o *v1alpha1.BootOverrideStatus) string {
	if o == nil {
		return ""
	}
	note := fmt.Sprintf(". The boot override is %s, set with method %q", o.Target, o.Method)
	if o.Warning != "" {
		note += ", and may not have taken effect: " + o.Warning
	}
	return note
}
