package lifecycle

import (
	"slices"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// Awaited is what a boot in progress waits for, as the tables of boot stages have it.
type Awaited struct {
	// Reason is the reason of the conditions Booted and BootProgress.
	Reason string
	// Observed is what was observed last, as the start of a sentence.
	Observed string
	// Text is what is awaited, as the rest of a sentence that begins with "Awaited: ".
	Text string
	// Cause is the likeliest cause if it does not come, as the rest of a sentence.
	Cause string
}

// AwaitedFor returns what a boot waits for whose conditions have this reason. boot may be nil: then the first row with the reason counts, by PXE and without the agent. It
// returns false for a reason that is no stage.
func AwaitedFor(boot *v1alpha1.BareMetalBootSpec, reason string) (Awaited, bool) {
	return findAwaited(boot, func(i stageInfo) bool { return i.reason == reason })
}

// AwaitedAfter returns what a boot waits for after a stage (BareMetalBootStatus.Stage). It returns false after the last one.
func AwaitedAfter(boot *v1alpha1.BareMetalBootSpec, stage v1alpha1.BootStage) (Awaited, bool) {
	if stage == v1alpha1.StageStarted {
		stage = ""
	}
	return findAwaited(boot, func(i stageInfo) bool { return i.stage == stage && i.reason != preparingInfo.reason })
}

// findAwaited returns the first row of the tables. Those that are for the method and the purpose of the boot come first.
func findAwaited(boot *v1alpha1.BareMetalBootSpec, matches func(stageInfo) bool) (Awaited, bool) {
	var rows []stageInfo
	if boot != nil {
		rows = append(rows, mediaStages[MethodOf(boot)]...)
	}
	if boot != nil && boot.Agent {
		rows = append(rows, agentTable...)
	} else {
		rows = append(rows, stages...)
	}
	if boot == nil { // a reason of every boot has a row
		rows = slices.Concat(rows, mediaStages[v1alpha1.MethodUefiHTTP], agentStages)
	}
	rows = append(rows, preparingInfo)
	if at := slices.IndexFunc(rows, matches); at >= 0 {
		return Awaited{Reason: rows[at].reason, Observed: rows[at].observed, Text: rows[at].awaited, Cause: rows[at].cause}, true
	}
	return Awaited{}, false
}
