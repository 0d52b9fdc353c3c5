// Package invariant has the rules that hold for hosts, machines and servers at any time. It watches the API and the commands to the emulated BMCs, and
// reports violations with the history of the object.
package invariant

import (
	"fmt"
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory"
	policies "github.com/capbm-io/cluster-api-provider-baremetal/inventory/cleaning"
)

// hostFacts are what the rules read from a host. They are comparable: only changes are kept.
type hostFacts struct {
	exists, deleting, detached, external, maintained, tainted bool
	// drained is true in a maintenance that permits a settings run. configures is true while a run is open, and runs counts them.
	drained, configures bool
	runs                int32

	uid, consumer, claimID, quarantine string
	phase                              v1alpha1.HostPhase
	power                              v1alpha1.PowerState // spec.power
	// wanted is true while an annotation or a remediation asks for a power hold. held and heldOff are the records of that.
	wanted, held, heldOff, cleaning bool
	// boots counts the boots. blocked is true while a move waits for the host.
	boots   int32
	blocked bool
	// erases is true if a release erases the disks that agents wrote.
	erases bool
	// erasesAll is true if a release erases all disks, also those that nobody wrote.
	erasesAll bool
}

// factsOf returns the facts of a host. A nil host does not exist.
func factsOf(h *v1alpha1.BareMetalHost) hostFacts {
	if h == nil {
		return hostFacts{}
	}
	spec, state := &h.Spec, &h.Spec.ProviderState
	f := hostFacts{
		exists: true, deleting: !h.DeletionTimestamp.IsZero(), detached: h.Annotations[v1alpha1.DetachedAnnotation] != "",
		external: spec.ExternallyProvisioned, maintained: spec.Maintenance != nil, tainted: len(spec.Taints) > 0, uid: string(h.UID),
		phase: h.Status.Phase, power: spec.Power, held: state.PowerHoldStartTime != nil, heldOff: state.PowerHoldOffTime != nil, cleaning: state.CleaningStartTime != nil,
		wanted: len(spec.PowerHolds) > 0, boots: state.Boots,
		erases: policies.Erases(spec.CleaningPolicy), erasesAll: policies.AllDisks(spec.CleaningPolicy),
	}
	f.drained = spec.Maintenance != nil && spec.Maintenance.DrainedBy != ""
	f.runs, f.configures = state.SettingsRuns, state.SettingsRuns > state.SettingsRunsEnded
	_, f.blocked = h.Annotations[v1alpha1.BlockMoveAnnotation]
	if spec.ConsumerRef != nil {
		f.consumer, f.claimID = spec.ConsumerRef.Name, spec.ConsumerRef.ClaimID
		policy := policies.Effective(spec.CleaningPolicy, spec.ConsumerRef.CleaningPolicy, "")
		f.erases, f.erasesAll = policies.Erases(policy), policies.AllDisks(policy)
	}
	if spec.Quarantine != nil {
		f.quarantine = spec.Quarantine.Reason
	}
	for name := range h.Annotations {
		for _, prefix := range []string{v1alpha1.PowerHoldPrefix, v1alpha1.ForcePowerHoldPrefix, v1alpha1.PowerCyclePrefix} {
			f.wanted = f.wanted || strings.HasPrefix(name, prefix)
		}
	}
	return f
}

// String returns the facts as a line of a history.
func (f hostFacts) String() string {
	if !f.exists {
		return "is not there"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s consumer=%q claim=%s boots=%d", f.phase, f.consumer, f.claimID, f.boots)
	for _, is := range []struct {
		is   bool
		what string
	}{
		{f.deleting, "deleting"}, {f.detached, "detached"}, {f.external, "external"}, {f.maintained, "maintenance"}, {f.wanted, "power-wanted"},
		{f.held, "powerHoldStartTime"}, {f.heldOff, "powerHoldOffTime"}, {f.cleaning, "cleaning"}, {f.blocked, "move-blocked"},
		{f.drained, "drained"}, {f.configures, fmt.Sprintf("run=%d", f.runs)}, {f.quarantine != "", "quarantine=" + f.quarantine},
	} {
		if is.is {
			b.WriteString(" " + is.what)
		}
	}
	return b.String()
}

// machineFacts are what the rules read from a BareMetalMachine.
type machineFacts struct {
	exists, deleting bool

	uid, providerID, host string
}

func machineFactsOf(m *v1alpha1.BareMetalMachine) machineFacts {
	if m == nil {
		return machineFacts{}
	}
	f := machineFacts{exists: true, deleting: !m.DeletionTimestamp.IsZero(), uid: string(m.UID), providerID: m.Spec.ProviderID}
	if m.Status.HostRef != nil {
		f.host = m.Status.HostRef.Name
	}
	return f
}

// String returns the facts as a line of a history.
func (f machineFacts) String() string {
	if !f.exists {
		return "is not there"
	}
	return fmt.Sprintf("deleting=%t providerID=%q host=%q", f.deleting, f.providerID, f.host)
}

// The commands of an emulated BMC that the rules name. A command that starts with Boot= or mediaCommand prepares a boot, or cleans up after one.
const (
	onCommand, forceOff, shutDown = "On", "ForceOff", "GracefulShutdown"
	mediaCommand                  = "Media="
	noBoot, noMedia               = "Boot=None", mediaCommand
)

// isSetting is true for a command that changes the firmware settings of a server.
func isSetting(command string) bool {
	return strings.HasPrefix(command, "BIOS=") || strings.HasPrefix(command, "SecureBoot=")
}

// permits is true if a command to a host's server is in order in a state of the host, its boot and its machine. It follows ARCHITECTURE.md and not the
// implementation.
func permits(at moment, name, command string) bool {
	h, m := at.host, at.machine
	namespace, hostName, _ := strings.Cut(name, "/")
	switch {
	case permitsMachineRun(at, inventory.ProviderID(namespace, hostName, h.consumer), command):
		return true
	case !h.exists, h.detached, h.maintained, h.external:
		return false
	case isSetting(command):
		return h.configures && h.quarantine == "" && h.consumer == "" && !h.deleting
	case h.consumer == "" && h.deleting:
		return command == forceOff && at.boot.open()
	case h.consumer == "":
		asked := h.power != "" && (command == onCommand || command == forceOff || command == shutDown)
		return h.quarantine == "" && (asked || permitsUnclaimed(h, at.boot, command))
	case !m.exists:
		return false
	case m.deleting:
		return command == forceOff || command == shutDown || command == noBoot || command == noMedia || permitsErasure(h, at.boot, command)
	case m.providerID == inventory.ProviderID(namespace, hostName, h.consumer):
		return permitsHeld(h, command)
	case m.providerID != "":
		return false
	case at.boot.open() && at.boot.isHostBoot() && at.boot.purpose != v1alpha1.PurposeInspect:
		return permitsUnclaimed(h, at.boot, command) // the machine claimed the host in mid-erasure, or in a settings run, which ends first
	case at.boot.open() && at.boot.purpose == v1alpha1.PurposeInspect:
		return command == forceOff || command == noBoot // the machine claimed the host in mid-inspection, which ends
	default:
		return permitsBoot(h, at.boot, command)
	}
}

// permitsMachineRun is permits for the server of a machine in a settings run.
func permitsMachineRun(at moment, providerID, command string) bool {
	h, m := at.host, at.machine
	if !h.exists || h.detached || h.external || !h.configures || !m.exists || m.providerID != providerID {
		return false
	}
	if h.drained { // two users permit it: the one of the profile, and the one of the maintenance
		return isSetting(command) || command == forceOff || command == shutDown || command == onCommand
	}
	return !h.maintained && !m.deleting && command == onCommand // the maintenance has ended, and the run had powered the server off
}

// permitsUnclaimed is permits for a free server that its agent inspects, or erases on request. The first attempt begins with a server that is off.
func permitsUnclaimed(h hostFacts, b bootFacts, command string) bool {
	return b.open() && b.isHostBoot() && b.number == h.boots && permitsAgent(b, command)
}

// permitsErasure is permits for a server whose disks are erased for its release.
func permitsErasure(h hostFacts, b bootFacts, command string) bool {
	return h.cleaning && b.isOf(h) && b.purpose == v1alpha1.PurposeClean && b.number == h.boots && !b.agentDone && permitsAgent(b, command)
}

// permitsAgent is permits for a server that boots the agent for no machine.
func permitsAgent(b bootFacts, command string) bool {
	switch {
	case b.failed:
		return command == forceOff
	case command == onCommand:
		return b.wasOff && b.poweredOn
	default:
		return command == forceOff || b.wasOff && strings.HasPrefix(command, "Boot=")
	}
}

// permitsBoot is permits for a server that boots for its machine: the boot is recorded, the host counts it, and a move waits for it. Until the server was
// observed off only a power-off is permitted. A power-on is permitted only after that was recorded.
func permitsBoot(h hostFacts, b bootFacts, command string) bool {
	switch {
	case !b.isOf(h), b.number != h.boots, b.failed, b.purpose == v1alpha1.PurposeClean:
		return false
	case b.reported:
		return command == noBoot
	case !h.blocked:
		return false
	case !b.wasOff:
		return command == forceOff
	case command == onCommand:
		return b.poweredOn
	default:
		return command == noBoot || strings.HasPrefix(command, "Boot=") && (!b.served || b.agent && !b.isUsed())
	}
}

// permitsHeld is permits for a server that runs its machine. Only a power hold permits a command: "off" while the hold is requested and the server is not
// recorded as off, and "on" when no hold is left.
func permitsHeld(h hostFacts, command string) bool {
	switch {
	case !h.held || h.heldOff:
		return false
	case h.wanted:
		return command == forceOff || command == shutDown
	default:
		return command == onCommand
	}
}
