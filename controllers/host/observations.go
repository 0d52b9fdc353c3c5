package host

import (
	"cmp"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// observations is what was learned of hosts through their BMCs since this process started, and what their statuses told it then. Nothing
// of it needs to survive.
type observations struct {
	mu    sync.Mutex
	hosts map[types.NamespacedName]*hostObservation
}

// hostObservation are copied to be read: what its pointers point to is replaced, never changed.
type hostObservation struct {
	uid types.UID // of the object that the facts are about
	// bmc is what the lifecycle goes by, but for what follows from the fields below. Busy is true from when a job is submitted until its
	// result stands here: the pool's word for it would leave a moment in which neither holds.
	bmc            lifecycle.BMC
	endpoint       *bmc.Endpoint
	secretVersions string // the versions of the Secrets that endpoint was read from
	failures       int    // in a row
	hardware       *v1alpha1.Hardware
	bootedHardware string             // the fingerprint of the server that the machine was booted on, where its inventory is not known
	replacement    *v1alpha1.Hardware // of another server than hardware is of, until a person confirms it; nil for none

	initializedAt    time.Time                    // when the status was read, once; zero for not yet
	description      *v1alpha1.BMCStatus          // without the override
	override         *v1alpha1.BootOverrideStatus // how the server was last told to boot from the network
	endedOperation   *v1alpha1.Operation          // the last one that ended
	runningOperation *v1alpha1.Operation          // the one in progress; nil for none

	reported           eventState // what people were told of the status
	releaseReportedFor time.Time  // when the machine was deleted for which it was told that the release begins

	recheckFailures       int       // commands in a row of which it could not be read whether they are still wanted
	commandsDeferredUntil time.Time // until when none is tried because of that
}

func newObservations() *observations {
	return &observations{hosts: map[types.NamespacedName]*hostObservation{}}
}

// update calls do with the facts of a host, which it may change. do must not block.
func (f *observations) update(key types.NamespacedName, do func(*hostObservation)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.hosts[key]
	if h == nil {
		h = &hostObservation{}
		f.hosts[key] = h
	}
	do(h)
}

// updateExisting is with for a host that is not forgotten.
func (f *observations) updateExisting(key types.NamespacedName, do func(*hostObservation)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if h := f.hosts[key]; h != nil {
		do(h)
	}
}

// get returns a copy of the facts of a host.
func (f *observations) get(key types.NamespacedName) hostObservation {
	var got hostObservation
	f.update(key, func(h *hostObservation) { got = *h })
	return got
}

func (f *observations) forget(key types.NamespacedName) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.hosts, key)
}

// initFromStatus takes over what the status says of the BMC, once: from then on this is what the status is written from. Whether the override
// still stands is not in the status, so it may. The inventory is taken for as old as it is, so that a restart does not read those of a whole fleet;
// but not when the host's spec was changed since: it may be another server's. What it says of the server's identity is kept in any case, and
// where the status was lost, what the boot says.
func (h *hostObservation) initFromStatus(host *v1alpha1.BareMetalHost, boot *v1alpha1.BareMetalBoot, now time.Time) {
	if h.uid != host.UID {
		*h = hostObservation{uid: host.UID, bmc: lifecycle.BMC{Busy: h.bmc.Busy}} // another object of the name
	}
	if !h.initializedAt.IsZero() {
		return
	}
	h.initializedAt = now
	h.hardware = host.Status.Hardware.DeepCopy() // a status that is erased later is written anew
	if ref := host.Spec.ConsumerRef; ref != nil && boot != nil && lifecycle.IsOpen(&boot.Spec) && boot.Spec.ClaimID == ref.ClaimID && boot.Spec.Identity != nil {
		h.bootedHardware = boot.Spec.Identity.Hardware
	}
	status := host.Status.BMC
	if status == nil {
		return
	}
	h.description = status.DeepCopy()
	h.override, h.description.BootOverride = h.description.BootOverride, nil
	h.bmc.OverrideSet = h.override != nil
	at := status.InspectedAt
	if at == nil || at.After(now) || host.Status.Hardware == nil || host.Status.ObservedGeneration != host.Generation {
		h.description.InspectedAt = nil // it is read anew, also by the next process if this one does not come to it
		return
	}
	h.bmc.Inspected, h.bmc.InspectedAt = true, at.Time
}

// setEndpoint takes the endpoint that the BMC is reached at from now on. New credentials are tried at once, and the same ones in a Secret that
// was touched change nothing. What was learned at another address is forgotten, for it may have been another server. The inventory stays: it shows whether it was.
func (h *hostObservation) setEndpoint(endpoint *bmc.Endpoint, secrets string) {
	h.secretVersions = secrets
	if h.endpoint != nil && sameEndpoint(h.endpoint, endpoint) {
		return
	}
	if h.endpoint != nil && h.endpoint.URL.String() != endpoint.URL.String() {
		*h = hostObservation{uid: h.uid, secretVersions: secrets, initializedAt: h.initializedAt, hardware: h.hardware, bootedHardware: h.bootedHardware, bmc: lifecycle.BMC{Busy: h.bmc.Busy}}
	}
	h.bmc.Problem, h.failures = nil, 0
	h.endpoint = endpoint
}

// bmcView returns what the lifecycle goes by.
func (h *hostObservation) bmcView(mode v1alpha1.BootMode) lifecycle.BMC {
	view := h.bmc
	if h.bmc.Inspected && h.description != nil {
		view.Missing = missingForNetworkBoot(h.description.Capabilities, mode)
	}
	if h.override != nil {
		view.OverrideNote = overrideNote(h.override)
	}
	return view
}

// bmcStatus tells what is known of the BMC.
func (h *hostObservation) bmcStatus() *v1alpha1.BMCStatus {
	if h.description == nil && h.override == nil {
		return nil
	}
	status := &v1alpha1.BMCStatus{}
	if h.description != nil {
		status = h.description.DeepCopy()
	}
	status.BootOverride = h.override.DeepCopy()
	return status
}

// updateOverride changes what is known of the override, if there was one.
func (h *hostObservation) updateOverride(change func(*v1alpha1.BootOverrideStatus)) {
	if h.override != nil {
		h.override = h.override.DeepCopy()
		change(h.override)
	}
}

// noteOverrideWorked notes that the override did its work when the server was observed on the network in the boot that it was for.
func (h *hostObservation) noteOverrideWorked(view lifecycle.View) {
	if boot := view.CurrentBoot(); boot != nil && view.Furthest.Stage != "" && h.override != nil && h.override.Boot == boot.Number {
		h.updateOverride(func(o *v1alpha1.BootOverrideStatus) { o.Worked = true })
	}
}

// notePowerState notes a power state that was read.
func (h *hostObservation) notePowerState(state bmc.PowerState, now time.Time) {
	power := v1alpha1.PowerState(state)
	if h.bmc.Power != power {
		h.bmc.Power, h.bmc.PowerSince = power, now
	}
	h.bmc.PowerAt, h.bmc.PowerNew = now, true
	if power == v1alpha1.PowerOff {
		h.clearPendingPowerOff()
	}
}

// clearPendingPowerOff notes that no command to switch the server off can take effect any more.
func (h *hostObservation) clearPendingPowerOff() {
	h.bmc.FirstShutDownAt, h.bmc.OffUnansweredAt = time.Time{}, time.Time{}
}

// notePowerCommand notes a power command that the BMC accepted.
func (h *hostObservation) notePowerCommand(command lifecycle.Command, now time.Time) {
	h.bmc.LastPower, h.bmc.LastPowerAt = command, now
	switch command {
	case lifecycle.CommandPowerOn:
		h.clearPendingPowerOff()
	case lifecycle.CommandShutDown:
		h.noteShutDownRequest(now)
	case lifecycle.CommandForceOff:
	}
}

// noteShutDownRequest notes when the operating system was first asked to shut down.
func (h *hostObservation) noteShutDownRequest(now time.Time) {
	if h.bmc.FirstShutDownAt.IsZero() {
		h.bmc.FirstShutDownAt = now
	}
}

// updateProblem notes how a job ended.
func (h *hostObservation) updateProblem(err error, now time.Time) {
	if err == nil {
		h.bmc.Problem, h.failures = nil, 0
		return
	}
	h.failures++
	problem := controllers.BMCProblem(err, h.failures, now)
	h.bmc.Problem = &problem
}

// resetCleaning notes that a cleaning begins: none before it counts for it.
func (h *hostObservation) resetCleaning() {
	h.bmc.CleanedAt, h.bmc.CleanUpFailures, h.bmc.CleanUpError = time.Time{}, 0, ""
}

// noteJobSubmitted notes that a job is submitted. What it does is an operation, which keeps what went wrong the last time that it was tried; a look at the power is none.
func (h *hostObservation) noteJobSubmitted(action lifecycle.Action, now time.Time) {
	h.bmc.Busy = true
	if action == lifecycle.ReadPower {
		return
	}
	h.runningOperation = &v1alpha1.Operation{Name: string(action), StartedAt: truncateToSecond(now)}
	if h.endedOperation != nil && h.endedOperation.Name == h.runningOperation.Name {
		h.runningOperation.Message = h.endedOperation.Message
	}
}

// noteJobEnded notes that no job is submitted any more.
func (h *hostObservation) noteJobEnded() { h.bmc.Busy, h.runningOperation = false, nil }

// lastOperation is what is being done to the server, or what was done last.
func (h *hostObservation) lastOperation() *v1alpha1.Operation {
	return cmp.Or(h.runningOperation, h.endedOperation)
}

// noteOperation notes what was done to the server.
func (h *hostObservation) noteOperation(name string, start, end time.Time, err error) {
	ended := truncateToSecond(end)
	h.endedOperation = &v1alpha1.Operation{Name: name, StartedAt: truncateToSecond(start), EndedAt: &ended, Outcome: v1alpha1.OperationSucceeded}
	if err != nil {
		h.endedOperation.Outcome, h.endedOperation.Message = v1alpha1.OperationFailed, controllers.Clip(err.Error(), controllers.MaxMessage)
	}
}

// deferCommands puts commands off, ever longer, while the API server does not tell whether they are still wanted.
func (h *hostObservation) deferCommands(now time.Time) {
	h.commandsDeferredUntil = now.Add(min(time.Second<<min(h.recheckFailures, 10), time.Minute))
	h.recheckFailures++
}

// truncateToSecond returns a time as the API server keeps it: to the second. What is written is then what is read again, and needs no second write.
func truncateToSecond(t time.Time) metav1.Time {
	fine := metav1.NewTime(t)
	return fine.Rfc3339Copy()
}
