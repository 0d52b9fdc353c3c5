package lifecycle

import (
	"fmt"
	"strings"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// awaiting is a line of the table of a boot: what was seen last, what comes next, and why it mostly does not come.
type awaiting struct {
	seen    v1alpha1.BootStage
	reason  string // of the conditions Booted and BootProgress
	last    string // what was seen last, as the beginning of a sentence
	awaited string
	cause   string
	short   string // awaited, in one word: it is a column of `kubectl get baremetalboots`, which fits into 100 columns
}

// preparing is the line before a server was seen powered on.
var preparing = awaiting{
	reason: v1alpha1.ReasonPreparing, last: "It is being prepared: power off, boot override, power on", awaited: "the request for a boot file (DHCP)",
	cause: "the BMC does not do what it is told: see the condition BMCReady and status.lastOperation",
}

// stages is the table. docs/boot-progress.md shows it to people.
var stages = []awaiting{
	{
		"", v1alpha1.ReasonWaitingForDHCP,
		"The server was powered on", "the request for a boot file (DHCP)",
		"the firmware passes over the boot override, spec.bootMACAddress is that of another interface, or DHCP does not reach the boot server " +
			"(VLAN, relay agent)",
		"DHCP",
	},
	{
		v1alpha1.StageDHCP, v1alpha1.ReasonWaitingForLoader,
		"The server asked for its boot file", "the fetch of the boot loader (TFTP, or HTTP for UEFI HTTP boot)",
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
		"The boot loader asked for the script and was told to wait for a boot slot of its network", "its next request for the script (HTTP)",
		"the server was switched off or hangs: one that waits asks every few seconds, and says its place on its console",
		"slot",
	},
	{
		v1alpha1.StageScript, v1alpha1.ReasonWaitingForKernel,
		"The boot loader fetched the script", "the fetch of the kernel (HTTP)",
		"the script does not come to its end: the loader's messages are on the server's console",
		"kernel",
	},
	{
		v1alpha1.StageKernel, v1alpha1.ReasonWaitingForData,
		"The boot loader fetched the kernel", "the request for the bootstrap data (HTTP)",
		"the kernel or the initrd does not start on this hardware, has no driver for the network interface, or holds nothing that reads the " +
			"bootstrap data (cloud-init, Ignition): look at the server's console",
		"data",
	},
	{
		v1alpha1.StageData, v1alpha1.ReasonWaitingForReport,
		"The operating system fetched its bootstrap data", "its report, or its Node",
		"the bootstrap still runs or hangs (/var/log/cloud-init-output.log on the server's console), or the server does not reach the boot " +
			"server or the cluster's control plane any more",
		"report",
	},
}

// AwaitedStage is what is awaited after a stage of a boot, in two words; or that it is done, or failed.
func AwaitedStage(stage v1alpha1.BootStage) string {
	switch stage {
	case v1alpha1.StageStarted:
		stage = ""
	case v1alpha1.StageBootstrapFailed, v1alpha1.StageNodeLost:
		return "failed"
	default:
	}
	for _, line := range stages {
		if line.seen == stage {
			return "awaits " + line.short
		}
	}
	return "done"
}

// awaitingOf returns the line of the table that an attempt is in. That the bootstrap data was given out stands in the spec, so it counts
// even when no status tells of it.
func (v View) awaitingOf(attempt v1alpha1.BareMetalBootSpec) awaiting {
	last := stages[len(stages)-1]
	switch {
	case attempt.DataServedAt != nil:
		return last
	case v.Furthest.Stage == "" && (attempt.PoweredOffAt == nil || v.BMC.Power != v1alpha1.PowerOn):
		return preparing
	}
	for _, line := range stages {
		if line.seen == v.Furthest.Stage {
			return line
		}
	}
	return last
}

// progress says what a booting server was last seen to do, and so what it is waited for.
func progress(v View, attempt v1alpha1.BareMetalBootSpec) Step {
	if v.Problem != nil {
		return Step{Reason: v.Problem.Reason, Message: v.Problem.Message}
	}
	line := v.awaitingOf(attempt)
	message := line.last + ". Awaited: " + line.awaited
	if line.reason == v1alpha1.ReasonWaitingForDHCP {
		message += v.BMC.OverrideNote
	}
	return Step{Reason: line.reason, Message: message}
}

// Progress is what people are told of a boot. It changes with what is seen, not with the time.
type Progress struct {
	// Complete is true when the host runs its machine.
	Complete bool
	// Reason and Message are those of the condition BootProgress.
	Reason, Message string
}

// BootProgress says how far the boot of a host is after a step. It returns nil before a boot began.
func BootProgress(v View, s Settings, step Step) *Progress {
	if step.Action == RecordBoot {
		if old := v.Boot; old != nil && old.Number != step.Boot.Number {
			v.Furthest, v.Problem, v.WaitedAt = v1alpha1.ObservedStage{}, nil, time.Time{} // they are of the attempt before
		}
		v.Boot = step.Boot
	}
	if v.CurrentBoot() == nil {
		return nil
	}
	attempt := *v.Boot
	number := fmt.Sprintf("Boot attempt %d", attempt.Attempt)
	switch {
	case attempt.Failure != nil:
		return &Progress{Reason: attempt.Failure.Reason, Message: attempt.Failure.Message}
	case v.Furthest.Stage == v1alpha1.StageBootstrapFailed:
		return &Progress{Reason: v1alpha1.ReasonBootstrapFailed, Message: fmt.Sprintf("%s: the operating system told at %s that its bootstrap data could "+
			"not be carried out. Look at /var/log/cloud-init-output.log on the server's console, then delete the Machine to have it replaced",
			number, timestamp(v.Furthest.Time.Time))}
	case v.restarted():
		return &Progress{Reason: v1alpha1.ReasonRestarted, Message: fmt.Sprintf("Firmware asked for a network boot at %s with the server's MAC address, "+
			"and the machine runs from memory. If its Node is not Ready the server restarted, and the machine is lost; if it is Ready, somebody else "+
			"asked", timestamp(v.RestartedAt))}
	case attempt.ReportedAt != nil || v.Provisioned():
		return &Progress{Complete: true, Reason: v1alpha1.ReasonBooted, Message: number + " is complete"}
	case step.State != StateBooting && step.State != StateWaiting, step.Reason == v1alpha1.ReasonWaitingForBootSlot:
		return &Progress{Reason: step.Reason, Message: number + ": " + step.Message}
	}
	reason, message := v.awaited(attempt, s)
	return &Progress{Reason: reason, Message: number + ". " + message}
}

// awaited says what was last seen of an attempt in flight, what is awaited until when, and why it mostly does not come.
func (v View) awaited(attempt v1alpha1.BareMetalBootSpec, s Settings) (reason, message string) {
	deadline := timestamp(v.Deadline(s))
	if v.Problem != nil {
		return v.Problem.Reason, fmt.Sprintf("It cannot be served: %s. It goes on when that is mended before %s", v.Problem.Message, deadline)
	}
	line := v.awaitingOf(attempt)
	cause := line.cause
	if attempt.DataServedAt != nil && v.restartedAfter(attempt.DataServedAt.Time) {
		cause = fmt.Sprintf("the server restarted, since firmware asked for a network boot again at %s: what it held in memory is gone",
			timestamp(v.RestartedAt))
	}
	message = fmt.Sprintf("%s%s. Awaited until %s: %s. The likeliest cause if it does not come: %s", line.last, v.when(attempt, line.seen), deadline, line.awaited, cause)
	if line.reason == v1alpha1.ReasonWaitingForDHCP {
		message += v.BMC.OverrideNote
	}
	return line.reason, message
}

// when says when, from where and by what a stage was seen, as far as that is known.
func (v View) when(attempt v1alpha1.BareMetalBootSpec, stage v1alpha1.BootStage) string {
	seen := v.Furthest
	switch {
	case stage == "":
		return ""
	case seen.Stage != stage && attempt.DataServedAt != nil:
		seen = v1alpha1.ObservedStage{Time: *attempt.DataServedAt, Address: attempt.DataAddress}
	case seen.Stage != stage:
		return ""
	}
	text := " at " + timestamp(seen.Time.Time)
	if by := strings.Trim(seen.Address+", "+seen.Client, ", "); by != "" {
		text += " (" + by + ")"
	}
	return text
}

func timestamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
