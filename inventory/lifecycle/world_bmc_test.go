package lifecycle

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/promise"
)

// switchTo switches the server on or off after a while.
func (w *world) switchTo(on bool, after time.Duration) {
	w.target, w.switchesAt = on, w.v.Now.Add(after)
	if after == 0 {
		w.switchNow()
	}
}

func (w *world) switchNow() {
	w.switchesAt = time.Time{}
	if w.on == w.target {
		return
	}
	w.on, w.switchedAt = w.target, w.v.Now
	w.notef("the server goes on: %v", w.on)
	w.fromNetwork, w.runs, w.disk.step = false, false, agentStarts
	if w.on {
		w.post()
		w.fromNetwork, w.overridden = w.overridden && !slices.Contains(w.deaf, w.method), false
		if w.installed && !w.fromNetwork {
			w.runInstalled()
		}
	}
}

// finish ends the job in progress.
func (w *world) finish() {
	j := w.job
	w.job, w.v.BMC.Busy = nil, false
	if j.action.Commands() {
		v := w.view()
		v.Now, v.BMC.Busy = j.decided, false
		if Next(v, w.s).Action != j.action {
			w.notef("%s is not wanted any more", j.action)
			return
		}
		w.actedAt = w.v.Now
		w.commands++
		w.seen.given[j.action]++
		if j.action == SetNetworkBoot {
			w.seen.methods[MethodOf(v.Host.Boot)]++
		}
		w.judgeCommand(v, j.action)
	}
	if problem := w.execute(j.action); problem != "" {
		w.failures++
		w.v.BMC.Problem = &BMCProblem{Reason: problem, Message: "it " + string(w.mood), RetryAt: w.v.Now.Add(min(5*time.Second<<min(w.failures, 6), 5*time.Minute))}
		if j.action == Inspect {
			w.v.BMC.InspectedTime = time.Time{}
		}
		return
	}
	w.v.BMC.Problem, w.failures = nil, 0
	if j.action != SetNetworkBoot && j.action != ClearBootOverride && j.action != EjectMedia && j.action != StageSettings && j.action != ClearSettings {
		w.readPower()
	}
}

// execute applies an action to the server as the BMC does in its mood. It returns the reason if the BMC counts as failed after that.
func (w *world) execute(action Action) string {
	problem := ""
	switch {
	case w.mood == away:
		return v1alpha1.ReasonBMCUnreachable
	case w.mood == rejects:
		return v1alpha1.ReasonCredentialsRefused
	case w.executeSettings(action):
	case action == SetNetworkBoot:
		problem = w.executeNetworkBoot()
	case action == PowerOn || action == ShutDown || action == ForceOff:
		problem = w.executePower(action)
	case action == CleanUp:
		w.executeCleanUp()
	case action == EjectMedia:
		w.ejectMedia()
	case action == ClearBootOverride:
		w.overridden = w.overridden && (w.mood == refuses || w.mood == pretends)
		w.v.BMC.OverrideSet = w.v.BMC.OverrideSet && w.mood == silent
	case action == Inspect && w.mood != silent:
		if w.v.BMC.Methods == nil && w.v.Provider.MediaURL != "" {
			w.v.BMC.Methods = defaultMethods
		}
		w.v.BMC.Inspected, w.v.BMC.InspectedTime = true, w.v.Now
	}
	if problem == "" && w.mood == silent {
		return v1alpha1.ReasonBMCUnreachable
	}
	return problem
}

func (w *world) executeNetworkBoot() string {
	b, now := &w.v.BMC, w.v.Now
	method := MethodOf(w.v.Host.Boot)
	if method == v1alpha1.MethodVirtualMedia {
		w.insertMedia()
	} else if b.MediaInserted {
		w.ejectMedia()
	}
	if w.mood == silent {
		w.overridden, w.netAt, w.method = true, now, method
		return v1alpha1.ReasonBMCUnreachable
	}
	b.OverrideSet = true
	if w.mood == refuses {
		if HasNextMethod(w.view(), w.s) {
			b.MethodRefused = &MethodRefusal{Boot: w.v.Host.Boot.Number, Message: "no"}
			return ""
		}
		return v1alpha1.ReasonBMCError
	}
	b.NetworkBootNumber = w.v.Host.Boot.Number
	b.NetworkBootSetAt, w.netAt, w.overridden, w.method = now, now, w.overridden || w.mood != pretends, method
	return ""
}

// insertMedia inserts the boot medium. The BMC may fetch it at once.
func (w *world) insertMedia() {
	if w.on && !w.uncertain {
		w.brokenf(promise.Command, "a medium is inserted while the server is on")
	}
	w.v.BMC.MediaInserted = true
	if w.mood == refuses || w.mood == pretends {
		return
	}
	w.media = true
	if w.fetches {
		w.v.Observed.Media = v1alpha1.ObservedStage{Stage: v1alpha1.StageMedia, Time: metav1.NewTime(w.v.Now)}
		if w.v.Observed.Furthest.Stage == "" {
			w.v.Observed.Furthest = w.v.Observed.Media
		}
	}
}

// ejectMedia ejects the boot medium.
func (w *world) ejectMedia() {
	if w.on && w.fromNetwork && !w.runs && !w.uncertain && w.media && w.method == v1alpha1.MethodVirtualMedia {
		w.brokenf(promise.Command, "a medium is ejected under a server that boots from it")
	}
	w.media = w.media && (w.mood == refuses || w.mood == pretends)
	w.v.BMC.MediaInserted = w.v.BMC.MediaInserted && w.mood == silent
}

func (w *world) executeCleanUp() {
	b, now := &w.v.BMC, w.v.Now
	w.overridden = w.overridden && (w.mood == refuses || w.mood == pretends)
	if w.mood == silent {
		return
	}
	b.OverrideSet = false
	w.media = w.media && (w.stuckMedia || w.mood != obeys)
	if w.stuckMedia || w.mood == refuses {
		b.CleanUpFailures++
		b.CleanUpTriedAt, b.CleanUpError = now, "no"
		return
	}
	b.CleanedAt, b.CleanUpFailures, b.CleanUpError, b.MediaInserted = now, 0, "", false
}

func (w *world) executePower(action Action) string {
	b, now := &w.v.BMC, w.v.Now
	first := func() {
		if b.FirstShutDownAt.IsZero() {
			b.FirstShutDownAt = now
		}
	}
	switch {
	case action == ShutDown && w.noShutDown:
		b.ShutDownUnsupported = true
		return ""
	case w.mood == refuses:
		if action == ShutDown {
			first()
		}
		if action == PowerOn {
			b.LastPower, b.LastPowerAt = CommandPowerOn, now // the command may have had an effect
		}
		return v1alpha1.ReasonBMCError
	}
	if w.mood == silent && action != PowerOn {
		b.OffUnansweredAt = now
	}
	if w.mood != silent || action == PowerOn { // the controller records a power-on that may have had an effect
		b.LastPower, b.LastPowerAt = map[Action]Command{PowerOn: CommandPowerOn, ShutDown: CommandShutDown, ForceOff: CommandForceOff}[action], now
	}
	acts := w.mood != pretends
	w.offForHold = action != PowerOn && w.v.Host.Spec.ProviderState.PowerHoldStartTime != nil && (w.offForHold || acts && w.on)
	switch action {
	case PowerOn:
		b.FirstShutDownAt, b.OffUnansweredAt = time.Time{}, time.Time{}
		if acts && !w.on && w.switchesAt.IsZero() {
			w.switchTo(true, w.latency)
		}
	case ShutDown:
		if w.mood != silent {
			first()
		}
		if acts && w.on && w.switchesAt.IsZero() && !w.ignoresShutDown {
			w.switchTo(false, 30*time.Second+w.latency)
		}
	default:
		if acts {
			w.switchTo(false, min(w.latency, 2*time.Second))
		}
	}
	return ""
}

func (w *world) readPower() {
	b, now := &w.v.BMC, w.v.Now
	power := map[bool]v1alpha1.PowerState{true: v1alpha1.PowerOn, false: v1alpha1.PowerOff}
	shown := power[w.on]
	if w.showsTransitions && !w.switchesAt.IsZero() && w.target != w.on {
		shown = map[bool]v1alpha1.PowerState{true: v1alpha1.PoweringOn, false: v1alpha1.PoweringOff}[w.target]
	}
	w.reads++
	w.trueReadings++
	if w.mood == garbles && w.reads%2 == 0 {
		shown, w.uncertain, w.trueReadings = power[!w.on], true, 0
	}
	w.uncertain = w.uncertain && w.trueReadings < 3
	if b.Power != shown {
		b.Power, b.PowerSince = shown, now
	}
	b.PowerAt = now
	if shown == v1alpha1.PowerOff {
		b.FirstShutDownAt, b.OffUnansweredAt = time.Time{}, time.Time{}
	}
}
