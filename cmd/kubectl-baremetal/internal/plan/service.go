package plan

import (
	"cmp"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/internal/terminal"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/why"
)

// The reasons of the events that record requests about the service of a host.
const (
	EventMaintenanceStart = "MaintenanceRequested"
	EventMaintenanceEnd   = "MaintenanceEndRequested"
	EventQuarantineStart  = "QuarantineRequested"
	EventQuarantineEnd    = "QuarantineEndRequested"
	EventInspection       = "InspectionRequested"
)

// ReasonByUser is the reason of a quarantine that a user set.
const ReasonByUser = "SetByUser"

// interruptedPhases are the phases of hosts whose work a maintenance interrupts.
var interruptedPhases = []v1alpha1.HostPhase{v1alpha1.PhaseBooting, v1alpha1.PhaseCleaning, v1alpha1.PhaseReleasing, v1alpha1.PhaseConfiguring}

// erases is what no command stops.
const erases = "An agent that erases disks already is not stopped: it ends its erasure and powers the server off"

// MaintenanceStart takes a server out of service while a person works on it.
func MaintenanceStart(h *v1alpha1.BareMetalHost, r Requester) (Plan, error) {
	if m := h.Spec.Maintenance; m != nil {
		if m.Reason == r.Text() {
			return already("%s is in maintenance (%s)", h.Name, terminal.Line(m.Reason)), nil
		}
		return Plan{}, fmt.Errorf("%s is in maintenance already (%s): end that first", h.Name, terminal.Line(m.Reason))
	}
	does := []string{"Set spec.maintenance: no machine can claim the host, and the provider sends no power or boot command"}
	switch {
	case slices.Contains(interruptedPhases, h.Status.Phase):
		does = append(does, fmt.Sprintf("%s is %s: that stops, and continues after the maintenance. A boot fails if its bootstrap data was already served", h.Name, h.Status.Phase), erases)
	case h.Spec.ConsumerRef != nil:
		does = append(does, machineOf(h)+" keeps the host and runs. Its Node is not drained: kubectl baremetal drain start does that")
	}
	return Plan{Event: EventMaintenanceStart, Does: does, Change: func(h *v1alpha1.BareMetalHost) {
		h.Spec.Maintenance = &v1alpha1.Maintenance{Reason: r.Text()}
	}}, nil
}

// MaintenanceEnd puts a server back into service.
func MaintenanceEnd(h *v1alpha1.BareMetalHost, _ Requester) (Plan, error) {
	m := h.Spec.Maintenance
	if m == nil {
		return already("%s is not in maintenance", h.Name), nil
	}
	does := []string{fmt.Sprintf("End the maintenance (%s): the provider controls the server again", terminal.Line(m.Reason))}
	if holds := Holds(h); len(holds) > 0 {
		does = append(does, "These power holds power the server off, or keep it off: "+describe(holds))
	}
	p := Plan{Event: EventMaintenanceEnd, Service: true, Does: does, Change: func(h *v1alpha1.BareMetalHost) { h.Spec.Maintenance = nil }}
	if bmcUnused(h) == nil { // otherwise the phase stays
		p.Reached = func(h *v1alpha1.BareMetalHost) bool { return h.Status.Phase != v1alpha1.PhaseMaintenance }
	}
	return p, nil
}

// QuarantineStart makes a host unavailable to machines until a person ends it.
func QuarantineStart(h *v1alpha1.BareMetalHost, r Requester) (Plan, error) {
	if q := h.Spec.Quarantine; q != nil {
		return Plan{}, fmt.Errorf("%s is in quarantine already (%s: %s)", h.Name, terminal.Line(q.Reason), terminal.Line(q.Message))
	}
	does := []string{"Set spec.quarantine: no machine can claim the host until kubectl baremetal quarantine end " + h.Name}
	switch {
	case h.Spec.ConsumerRef != nil:
		does = append(does, machineOf(h)+" keeps the host. After its release the host stays in quarantine")
	case slices.Contains(interruptedPhases, h.Status.Phase):
		does = append(does, fmt.Sprintf("%s is %s: that stops", h.Name, h.Status.Phase), erases)
	}
	return Plan{Event: EventQuarantineStart, Does: does, Change: func(h *v1alpha1.BareMetalHost) {
		now := metav1.NewTime(r.Now.UTC())
		h.Spec.Quarantine = &v1alpha1.Quarantine{Reason: ReasonByUser, Message: r.Text(), StartTime: &now}
	}}, nil
}

// QuarantineEnd makes a host available to machines again.
func QuarantineEnd(h *v1alpha1.BareMetalHost, _ Requester) (Plan, error) {
	q := h.Spec.Quarantine
	if q == nil {
		return already("%s is not in quarantine", h.Name), nil
	}
	does := []string{
		fmt.Sprintf("End the quarantine (%s: %s)", terminal.Line(q.Reason), terminal.Line(q.Message)),
		"Machines can claim the host when the provider finds nothing else",
	}
	if row, ok := why.Lookup(why.KindHost, q.Reason); ok {
		does = append(does, fmt.Sprintf("%s. To do before: %s", why.Plain(row.Means), cmp.Or(why.Plain(row.Do), "fix the cause")))
	}
	return Plan{Event: EventQuarantineEnd, Service: true, Does: does, Change: func(h *v1alpha1.BareMetalHost) { h.Spec.Quarantine = nil }}, nil
}

// Inspect returns the function that has the server inspected again: by the agent if the host has such inspections, unless byBMC is true, and otherwise through its BMC.
func Inspect(byBMC bool) Func {
	return func(h *v1alpha1.BareMetalHost, r Requester) (Plan, error) {
		if err := bmcUnused(h); err != nil {
			return Plan{}, err
		}
		agent := h.Spec.Inspection == v1alpha1.InspectionAgent || h.Spec.Inspection == v1alpha1.InspectionBoth
		if !agent || byBMC {
			return Plan{
				Event: EventInspection, Change: setAnnotation(v1alpha1.RetryBMCAnnotation, r.Text()), Reached: operationAfter(h.Status.LastOperation), Outcome: failedInspection,
				Does: []string{"Contact the BMC now: login, capabilities, inventory, event log and power. The server is not touched"},
			}, nil
		}
		does := []string{"The provider boots the agent on the server, which reads the hardware and writes nothing. Until then machines cannot claim the host"}
		if h.Spec.ConsumerRef != nil {
			does = []string{"The agent inspects the server when " + machineOf(h) + " has released it. --bmc reads the inventory through the BMC now"}
		} else if h.Status.Power != v1alpha1.PowerOff {
			does = append(does, "The server is "+cmp.Or(terminal.Line(string(h.Status.Power)), "in an unknown power state")+", and the inspection waits until it is off")
		}
		return Plan{Event: EventInspection, Does: does, Change: setAnnotation(v1alpha1.InspectAnnotation, r.Text())}, nil
	}
}

// operationAfter is reached when the provider has removed its annotation and an operation has ended since. It is the requested one, or another that followed at once. before is the last
// operation before the request.
func operationAfter(before *v1alpha1.Operation) func(*v1alpha1.BareMetalHost) bool {
	return func(h *v1alpha1.BareMetalHost) bool {
		_, requested := h.Annotations[v1alpha1.RetryBMCAnnotation]
		op := h.Status.LastOperation
		return !requested && op != nil && op.EndTime != nil && (before == nil || op.StartTime.After(before.StartTime.Time))
	}
}

// failedInspection returns the error of an inspection by the BMC that is the last operation; nil otherwise.
func failedInspection(h *v1alpha1.BareMetalHost) error {
	if op := h.Status.LastOperation; op != nil && op.Name == string(lifecycle.Inspect) && op.Outcome == v1alpha1.OperationFailed {
		return fmt.Errorf("%s failed: %s", op.Name, terminal.Line(op.Message))
	}
	return nil
}
