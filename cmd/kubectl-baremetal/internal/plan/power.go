package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/internal/terminal"
)

// The reasons of the events that record requests about power.
const (
	EventPowerOn    = "PowerOnRequested"
	EventPowerOff   = "PowerOffRequested"
	EventPowerCycle = "PowerCycleRequested"
)

// Holds returns what keeps the server of a host powered off, with annotations and spec.powerHolds in one form.
func Holds(h *v1alpha1.BareMetalHost) []v1alpha1.PowerHold {
	holds := slices.Clone(h.Spec.PowerHolds)
	for _, name := range slices.Sorted(maps.Keys(h.Annotations)) {
		reason := h.Annotations[name]
		if key, ok := strings.CutPrefix(name, v1alpha1.PowerHoldPrefix); ok {
			holds = append(holds, v1alpha1.PowerHold{Holder: key, Reason: reason})
		}
		if key, ok := strings.CutPrefix(name, v1alpha1.ForcePowerHoldPrefix); ok {
			holds = append(holds, v1alpha1.PowerHold{Holder: key, Reason: reason, Force: true})
		}
	}
	return holds
}

// Request is a power-on or a power cycle that a person requested and the provider has not carried out yet.
type Request struct {
	// Action is PowerOn or PowerCycle.
	Action string `json:"action"`
	// Requester is the name in the annotation.
	Requester string `json:"requester"`
	// Reason is the value of the annotation.
	Reason string `json:"reason,omitempty"`
}

// Requests returns the requests about the power of a host's server that its annotations have.
func Requests(h *v1alpha1.BareMetalHost) []Request {
	var requests []Request
	for _, name := range slices.Sorted(maps.Keys(h.Annotations)) {
		for prefix, action := range map[string]string{v1alpha1.PowerOnPrefix: "PowerOn", v1alpha1.PowerCyclePrefix: "PowerCycle"} {
			if requester, ok := strings.CutPrefix(name, prefix); ok {
				requests = append(requests, Request{Action: action, Requester: requester, Reason: h.Annotations[name]})
			}
		}
	}
	return requests
}

// describe lists holds with their reasons.
func describe(holds []v1alpha1.PowerHold) string {
	texts := make([]string, 0, len(holds))
	for _, hold := range holds {
		texts = append(texts, fmt.Sprintf("%s (%s)", terminal.Line(hold.Holder), terminal.Line(hold.Reason)))
	}
	return strings.Join(texts, ", ")
}

// runs says why the power of a claimed server cannot be requested: only the server of a machine that runs has such requests.
func runs(h *v1alpha1.BareMetalHost) error {
	switch h.Status.Phase {
	case v1alpha1.PhaseProvisioned, v1alpha1.PhasePowerHold:
		return nil
	default:
		return fmt.Errorf("%s is %s, and the provider controls its power until its machine runs: kubectl baremetal why %s says what it waits for", h.Name, h.Status.Phase, h.Name)
	}
}

// PowerOn powers a server on: that of a machine after the holds of the user, or after a person switched it off; a free one with spec.power. If it is on, the power cycle that the user
// has requested is withdrawn.
func PowerOn(h *v1alpha1.BareMetalHost, r Requester) (Plan, error) {
	if err := readOnly(h); err != nil {
		return Plan{}, err
	}
	on := func(h *v1alpha1.BareMetalHost) bool { return h.Status.Power == v1alpha1.PowerOn }
	if h.Spec.ConsumerRef == nil {
		return freePower(h, v1alpha1.PowerOn, EventPowerOn, []string{
			"Set spec.power to On: the provider powers the server on and keeps it on. No machine can claim the host while its server is on",
			"The server boots from its disk, which may have the data of its last machine",
		})
	}
	if err := runs(h); err != nil {
		return Plan{}, err
	}
	own := []string{v1alpha1.PowerHoldPrefix + r.Holder(), v1alpha1.ForcePowerHoldPrefix + r.Holder()}
	cycle := v1alpha1.PowerCyclePrefix + r.Holder()
	_, cycles := h.Annotations[cycle]
	held := slices.ContainsFunc(own, func(name string) bool { _, ok := h.Annotations[name]; return ok })
	others := slices.DeleteFunc(Holds(h), func(hold v1alpha1.PowerHold) bool { return hold.Holder == r.Holder() })
	release := func(h *v1alpha1.BareMetalHost) {
		for _, name := range append(own, cycle) {
			delete(h.Annotations, name)
		}
	}
	back := func(h *v1alpha1.BareMetalHost) bool { return on(h) && h.Spec.ProviderState.PowerHoldStartTime == nil }
	switch {
	case held && len(others) > 0:
		return Plan{Event: EventPowerOn, Change: release, Does: []string{
			"Remove your power hold. The server stays off, because these power holds remain: " + describe(others),
		}}, nil
	case held:
		return Plan{Event: EventPowerOn, Power: true, Change: release, Reached: back, Does: []string{"Remove your power hold: the provider powers the server on"}}, nil
	case len(others) > 0:
		return Plan{}, fmt.Errorf("power holds of others keep %s off: %s. Each holder removes its own", h.Name, describe(others))
	case on(h) && cycles:
		return Plan{Event: EventPowerOn, Change: func(h *v1alpha1.BareMetalHost) { delete(h.Annotations, cycle) }, Does: []string{
			fmt.Sprintf("Withdraw your request for a power cycle (%s). Requests of others stay", terminal.Line(h.Annotations[cycle])),
			"If the server is going off already, the provider powers it on again; a machine that runs from memory is lost then",
		}}, nil
	case on(h):
		return already("the server of %s is on", h.Name), nil
	default:
		return Plan{Event: EventPowerOn, Power: true, Change: setAnnotation(v1alpha1.PowerOnPrefix+r.Holder(), r.Text()), Reached: back, Does: []string{
			"Request one power-on: the provider powers the server on, and removes the request",
		}}, nil
	}
}

// PowerOff returns the function that powers a server off: that of a machine with a power hold of the user, a free one with spec.power. force does not wait for the operating system.
// drained is true if the caller drains the Node before.
func PowerOff(force, drained bool) Func {
	return func(h *v1alpha1.BareMetalHost, r Requester) (Plan, error) {
		if err := readOnly(h); err != nil {
			return Plan{}, err
		}
		if h.Spec.ConsumerRef == nil {
			if force {
				return Plan{}, fmt.Errorf("--force is for the server of a machine: %s is free, so nothing of it has to be shut down", h.Name)
			}
			return freePower(h, v1alpha1.PowerOff, EventPowerOff, []string{
				"Set spec.power to Off: the provider powers the server off. Machines can claim the host when it is off",
			})
		}
		if err := runs(h); err != nil {
			return Plan{}, err
		}
		prefix, how := v1alpha1.PowerHoldPrefix, "The operating system is asked to shut down, and is powered off after a timeout"
		if force {
			prefix, how = v1alpha1.ForcePowerHoldPrefix, "The server is powered off at once, WITHOUT a shutdown of its operating system"
		}
		off := func(h *v1alpha1.BareMetalHost) bool { return h.Spec.ProviderState.PowerHoldOffTime != nil }
		if _, ok := h.Annotations[prefix+r.Holder()]; ok && off(h) {
			return already("the server of %s is off by your power hold", h.Name), nil
		}
		end := "power on"
		if drained {
			end = "drain end"
		}
		does := []string{fmt.Sprintf("Set a power hold: the server of %s goes off, and stays off until kubectl baremetal %s %s", machineOf(h), end, h.Name), how}
		if !drained {
			does = append(does, "Its Node is not drained: kubectl baremetal drain start does that")
		}
		return Plan{Event: EventPowerOff, Power: true, Consent: ConsentName, Change: setAnnotation(prefix+r.Holder(), r.Text()), Reached: off, Does: does}, nil
	}
}

// PowerCycle powers the server of a machine off and on again, once.
func PowerCycle(h *v1alpha1.BareMetalHost, r Requester) (Plan, error) {
	if err := readOnly(h); err != nil {
		return Plan{}, err
	}
	if h.Spec.ConsumerRef == nil {
		return Plan{}, fmt.Errorf("%s has no machine, and only the server of a machine can be power-cycled: use power off and power on", h.Name)
	}
	if err := runs(h); err != nil {
		return Plan{}, err
	}
	if holds := Holds(h); len(holds) > 0 {
		return Plan{}, fmt.Errorf("power holds keep %s off: %s", h.Name, describe(holds))
	}
	name := v1alpha1.PowerCyclePrefix + r.Holder()
	return Plan{
		Event: EventPowerCycle, Power: true, Consent: ConsentName, Change: setAnnotation(name, r.Text()),
		Reached: func(h *v1alpha1.BareMetalHost) bool {
			_, requested := h.Annotations[name]
			return !requested && h.Spec.ProviderState.PowerHoldStartTime == nil && h.Status.Power == v1alpha1.PowerOn
		},
		Does: []string{
			fmt.Sprintf("Request one power cycle: the server of %s goes off and on again", machineOf(h)),
			"The operating system is asked to shut down, and is powered off after a timeout. Its Node is not drained",
		},
	}, nil
}

// freePower sets the power of a server that no machine has. It is refused while the provider erases, inspects or configures the server.
func freePower(h *v1alpha1.BareMetalHost, want v1alpha1.PowerState, event string, does []string) (Plan, error) {
	switch {
	case slices.Contains(interruptedPhases, h.Status.Phase) || h.Status.Phase == v1alpha1.PhaseInspecting:
		return Plan{}, fmt.Errorf("%s is %s, and the provider controls its power until that has ended: kubectl baremetal why %s says what it waits for", h.Name, h.Status.Phase, h.Name)
	case h.Spec.Power == want && h.Status.Power == want:
		return already("the server of %s is %s", h.Name, strings.ToLower(string(want))), nil
	}
	return Plan{
		Event: event, Power: true, Does: does, Change: func(h *v1alpha1.BareMetalHost) { h.Spec.Power = want },
		Reached: func(h *v1alpha1.BareMetalHost) bool { return h.Status.Power == want },
	}, nil
}
