package host

import (
	"cmp"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/metrics"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/health"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// observations is what this process learned about hosts: from their BMCs, and once from their statuses. None of it has to survive a restart.
type observations struct {
	mu    sync.Mutex
	hosts map[types.NamespacedName]*hostObservation
	// models are the methods by which the last observed server of each model was booted.
	models map[serverModel]v1alpha1.BootMethod
}

// serverModel identifies a model of servers in a namespace: a BMC of another tenant may claim any model.
type serverModel struct{ namespace, manufacturer, model string }

// hostObservation is copied for reading. The values behind its pointers are replaced, never changed.
type hostObservation struct {
	uid types.UID // of the BareMetalHost
	// bmc is the BMC part of the view; bmcView adds what follows from the fields below. Busy is true from the submission of a job until its
	// result is recorded here. The state of the pool would leave a gap between the two.
	bmc            lifecycle.BMC
	endpoint       *bmc.Endpoint
	secretVersions string // versions of the Secrets that endpoint was read from
	failures       int    // consecutive jobs that failed
	hardware       *v1alpha1.Hardware
	bootedHardware string      // fingerprint of the server that the machine was booted on; used while hardware is nil
	report         agentReport // what the agent found
	firmware       firmwareObservation
	replacement    *v1alpha1.Hardware // inventory of another server than that of hardware, until a user confirms it
	inventoryAt    time.Time          // when hardware was read
	// inventoryIncomplete are the classes of which that could not read each part.
	inventoryIncomplete map[v1alpha1.PartClass]health.Incomplete
	cached              *v1alpha1.Hardware // that of the host in the cache; see share
	health              health.Tracker     // what is reported about the health
	sensors             []metrics.Sensor   // those that metrics show
	sensorsAt           time.Time          // when they were read

	initializedAt    time.Time                    // when initFromStatus read the status
	description      *v1alpha1.BMCStatus          // without BootOverride
	override         *v1alpha1.BootOverrideStatus // last network boot override
	endedOperation   *v1alpha1.Operation          // last operation that ended
	runningOperation *v1alpha1.Operation          // operation in progress

	reported  eventState // last recorded by events
	shownBoot int32      // number of the last boot attempt whose server the status showed as on

	recheckFailures       int       // consecutive commands that could not be rechecked
	commandsDeferredUntil time.Time // no command is tried before, because of recheckFailures
}

func newObservations() *observations {
	return &observations{hosts: map[types.NamespacedName]*hostObservation{}, models: map[serverModel]v1alpha1.BootMethod{}}
}

// methodOfModel returns the method that worked on another server of the same model in a namespace; empty if none is known. worked is the method that worked on this server; it is
// remembered for the others. What is remembered is read again from the hosts after a restart.
func (o *observations) methodOfModel(namespace string, hardware *v1alpha1.Hardware, worked v1alpha1.BootMethod) v1alpha1.BootMethod {
	if hardware == nil || hardware.Model == "" {
		return ""
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	model := serverModel{namespace, hardware.Manufacturer, hardware.Model}
	if worked != "" {
		o.models[model] = worked
	}
	return o.models[model]
}

// update calls change with the observation of a host, and creates it if it is missing. change must not block.
func (o *observations) update(key types.NamespacedName, change func(*hostObservation)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	h := o.hosts[key]
	if h == nil {
		h = &hostObservation{}
		o.hosts[key] = h
	}
	change(h)
}

// updateExisting is update for a host that has an observation. It does nothing for other hosts.
func (o *observations) updateExisting(key types.NamespacedName, change func(*hostObservation)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if h := o.hosts[key]; h != nil {
		change(h)
	}
}

// get returns a copy of the observation of a host.
func (o *observations) get(key types.NamespacedName) hostObservation {
	var got hostObservation
	o.update(key, func(h *hostObservation) { got = *h })
	return got
}

// share takes a host as the cache has it. Inventories are the largest part of both, so the observation refers to that of the cache if its own is equal. The objects of a cache never change: clients empty an
// object before they decode an answer into it.
func (o *observations) share(host *v1alpha1.BareMetalHost) {
	o.update(client.ObjectKeyFromObject(host), func(h *hostObservation) {
		h.cached = host.Status.Hardware
		own := h.hardware
		if own == nil || !equality.Semantic.DeepEqual(own, h.cached) {
			return
		}
		h.hardware = h.cached
		if h.report.hardware == own {
			h.report.hardware = h.cached
		}
	})
}

// count returns the number of hosts.
func (o *observations) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.hosts)
}

func (o *observations) forget(key types.NamespacedName) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.hosts, key)
}

// initFromStatus takes over, once, what the status and the boot show; from then on the status is written from this observation. The status does not show
// whether the override is still set, so the observation assumes that it is.
//
// The age of the inventory is taken over, so that a restart does not inspect a whole fleet. It is not if the spec changed since then: the inventory may
// be that of another server. The identity of the server is always kept. If the status was lost, the identity comes from the boot.
func (h *hostObservation) initFromStatus(host *v1alpha1.BareMetalHost, boot *v1alpha1.BareMetalBoot, now time.Time) {
	if h.uid != host.UID {
		*h = hostObservation{uid: host.UID, bmc: lifecycle.BMC{Busy: h.bmc.Busy}, cached: h.cached} // another object with the same name
	}
	if !h.initializedAt.IsZero() {
		return
	}
	h.initializedAt = now
	h.hardware = h.cached // a status that is erased later is restored from it
	if !equality.Semantic.DeepEqual(h.hardware, host.Status.Hardware) {
		h.hardware = host.Status.Hardware.DeepCopy()
	}
	h.initHealth(host, now)
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
	h.bmc.MediaInserted = h.override != nil && h.override.BootMethod == v1alpha1.MethodVirtualMedia
	at := status.InspectedTime
	if at == nil || at.After(now) || host.Status.Hardware == nil || host.Status.ObservedGeneration != host.Generation {
		h.description.InspectedTime = nil // so that the next process inspects the server if this process does not
		return
	}
	h.bmc.Inspected, h.bmc.InspectedTime = true, at.Time
}

// initHealth takes over what the status shows about the health.
func (h *hostObservation) initHealth(host *v1alpha1.BareMetalHost, now time.Time) {
	if h.hardware == nil {
		return
	}
	if b := host.Status.BMC; b != nil && b.InspectedTime != nil {
		h.inventoryAt = b.InspectedTime.Time
	}
	h.health.Restore(host.Status.Health, h.inventoryHealth(h.hardware.Health), now)
}

// setEndpoint sets the endpoint of the BMC. New credentials are tried immediately. Equal credentials in a changed Secret change nothing. A new address
// may be that of another server: setEndpoint then drops what was observed, except for the inventory, which shows whether it is.
func (h *hostObservation) setEndpoint(endpoint *bmc.Endpoint, secrets string) {
	h.secretVersions = secrets
	if h.endpoint != nil && sameEndpoint(h.endpoint, endpoint) {
		return
	}
	if h.endpoint != nil && h.endpoint.URL.String() != endpoint.URL.String() {
		*h = hostObservation{
			uid: h.uid, secretVersions: secrets, initializedAt: h.initializedAt, hardware: h.hardware, cached: h.cached, bootedHardware: h.bootedHardware,
			bmc: lifecycle.BMC{Busy: h.bmc.Busy},
		}
	}
	h.bmc.Problem, h.failures = nil, 0
	h.endpoint = endpoint
}

// bmcView returns the BMC part of the view.
func (h *hostObservation) bmcView(spec *v1alpha1.BareMetalHostSpec, mediaURL string) lifecycle.BMC {
	view := h.bmc
	view.Health.Since = h.initializedAt
	if h.bmc.Inspected && h.description != nil {
		view.Methods = offeredMethods(h.description.Capabilities)
		view.HealthCritical = isCritical(h.hardware)
		view.Missing = missingForBoot(h.description.Capabilities, spec, mediaURL)
	}
	if h.override != nil && h.override.Worked {
		view.MethodWorked = cmp.Or(h.override.BootMethod, v1alpha1.MethodPXE)
	}
	view.Override = h.override
	return view
}

// bmcStatus returns the BMC part of the status.
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

// updateOverride changes a copy of the last override. It does nothing if there was none.
func (h *hostObservation) updateOverride(change func(*v1alpha1.BootOverrideStatus)) {
	if h.override != nil {
		h.override = h.override.DeepCopy()
		change(h.override)
	}
}

// noteOverrideWorked records that the override worked, if the server was observed in the boot that the override was set for.
func (h *hostObservation) noteOverrideWorked(view lifecycle.View) {
	if view.MethodWorked() && h.override != nil && h.override.Boot == view.Host.Boot.Number {
		h.updateOverride(func(o *v1alpha1.BootOverrideStatus) { o.Worked = true })
	}
}

// notePowerState records a reading of the power state.
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

// notePowerReadingUsed records that a decision used the power state that was read at a time.
func (h *hostObservation) notePowerReadingUsed(at time.Time) {
	h.bmc.PowerNew = h.bmc.PowerNew && !h.bmc.PowerAt.Equal(at)
}

// clearPendingPowerOff records that no command to power off the server can take effect any more.
func (h *hostObservation) clearPendingPowerOff() {
	h.bmc.FirstShutDownAt, h.bmc.OffUnansweredAt = time.Time{}, time.Time{}
}

// notePowerCommand records a power command that the BMC accepted or may have received.
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

// noteShutDownRequest records when the operating system was first asked to shut down.
func (h *hostObservation) noteShutDownRequest(now time.Time) {
	if h.bmc.FirstShutDownAt.IsZero() {
		h.bmc.FirstShutDownAt = now
	}
}

// updateProblem sets or clears the problem of the BMC after a job.
func (h *hostObservation) updateProblem(err error, now time.Time) {
	if err == nil {
		h.bmc.Problem, h.failures = nil, 0
		return
	}
	h.failures++
	h.bmc.FailedAt = now
	problem := controllers.BMCProblem(err, h.failures, now)
	h.bmc.Problem = &problem
}

// resetCleaning records the start of a cleaning: results of earlier cleanings do not count for it.
func (h *hostObservation) resetCleaning() {
	h.bmc.CleanedAt, h.bmc.CleanUpFailures, h.bmc.CleanUpError = time.Time{}, 0, ""
}

// noteJobSubmitted records a submitted job. Every job except a recurring reading is an operation. While an operation is repeated, it shows the
// last error.
func (h *hostObservation) noteJobSubmitted(action lifecycle.Action, now time.Time) {
	h.bmc.Busy = true
	if !isOperation(action) {
		return
	}
	h.runningOperation = &v1alpha1.Operation{Name: string(action), StartTime: truncateToSecond(now)}
	if h.endedOperation != nil && h.endedOperation.Name == h.runningOperation.Name {
		h.runningOperation.Message = h.endedOperation.Message
	}
}

// noteJobEnded records that no job is submitted.
func (h *hostObservation) noteJobEnded() { h.bmc.Busy, h.runningOperation = false, nil }

// lastOperation returns the operation in progress, or otherwise the last operation that ended.
func (h *hostObservation) lastOperation() *v1alpha1.Operation {
	return cmp.Or(h.runningOperation, h.endedOperation)
}

// noteOperation records an operation that ended.
func (h *hostObservation) noteOperation(name string, start, end time.Time, err error) {
	ended := truncateToSecond(end)
	h.endedOperation = &v1alpha1.Operation{Name: name, StartTime: truncateToSecond(start), EndTime: &ended, Outcome: v1alpha1.OperationSucceeded}
	if err != nil {
		h.endedOperation.Outcome, h.endedOperation.Message = v1alpha1.OperationFailed, controllers.Clip(err.Error(), controllers.MaxMessage)
	}
}

// deferCommands defers commands while the API server cannot be asked whether they are still wanted. The delay doubles from one second to one minute.
func (h *hostObservation) deferCommands(now time.Time) {
	h.commandsDeferredUntil = now.Add(min(time.Second<<min(h.recheckFailures, 10), time.Minute))
	h.recheckFailures++
}

// truncateToSecond returns a time as the API server stores it, so that the next read shows the written value and causes no second write.
func truncateToSecond(t time.Time) metav1.Time {
	fine := metav1.NewTime(t)
	return fine.Rfc3339Copy()
}
