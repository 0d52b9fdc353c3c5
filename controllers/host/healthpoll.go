package host

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/health"
)

// readHealth reads the health of a server and, when they are due, the logs of its BMC and the sensors that metrics show. Its errors do not concern the power state, except a refused
// login: another request would be another refused login.
func (e *jobExecutor) readHealth(ctx context.Context, j job, c bmc.Client) error {
	reading, cancel := withReserve(ctx)
	defer cancel()
	err := e.pollHealth(reading, j, c)
	switch kind := bmc.KindOf(err); {
	case err == nil:
		e.observations.updateByJob(j, func(h *hostObservation) { h.noteHealthTried(e.clock.Now(), false) })
		return nil
	case kind == bmc.Unsupported:
		e.observations.updateByJob(j, func(h *hostObservation) { h.noteHealthUnsupported(truncateToSecond(e.clock.Now()).Time) })
		return nil
	case kind == bmc.Unauthorized:
		return err
	default:
		e.observations.updateByJob(j, func(h *hostObservation) { h.noteHealthTried(e.clock.Now(), true) })
		return asFinal(err)
	}
}

// pollHealth reads and records the health, and what else is due.
func (e *jobExecutor) pollHealth(ctx context.Context, j job, c bmc.Client) error {
	reader, err := bmc.As[bmc.HealthReader](c, "Read the health")
	if err != nil {
		return err
	}
	start := e.clock.Now()
	known := e.observations.get(j.key)
	details, cancel := withShare(ctx)
	read, err := reader.ReadHealth(details, bmc.HealthRequest{Rollup: bmc.Health(known.health.Rollup()), Details: known.health.WantsDetails(start)})
	cancel()
	if err != nil {
		return err
	}
	e.observations.updateByJob(j, func(h *hostObservation) {
		h.health.ReadEvery(j.healthInterval)
		h.noteHealth(read, truncateToSecond(e.clock.Now()).Time)
	})
	if known = e.observations.get(j.key); known.health.WantsLogs(start) {
		if err := e.readLogs(ctx, j, reader); err != nil {
			return err
		}
	}
	return e.readSensors(ctx, j, c, start)
}

// withShare returns a context with two thirds of the time that is left: a server that is not healthy writes into its logs, and its details may take all of the time each time.
func withShare(ctx context.Context) (context.Context, context.CancelFunc) {
	if deadline, ok := ctx.Deadline(); ok {
		return context.WithTimeout(ctx, time.Until(deadline)*2/3)
	}
	return context.WithCancel(ctx)
}

// onlyRefused returns the error of a refused login, and nil for others: what could not be read is read the next time that it is due.
func onlyRefused(ctx context.Context, err error) error {
	if err == nil || bmc.KindOf(err) == bmc.Unauthorized {
		return err
	}
	ctrl.LoggerFrom(ctx).V(4).Info("Failed to read logs or sensors of a BMC", "error", maskError(err).Error())
	return nil
}

// noteHealthTried records that the health was read, or could not be read.
func (h *hostObservation) noteHealthTried(now time.Time, failed bool) {
	h.bmc.Health.TriedAt = now
	if !failed {
		h.bmc.Health.Failures = 0
		return
	}
	h.bmc.Health.Failures++
}

// noteHealth records a reading of the health. A reading of another server than the known one says nothing about this host.
func (h *hostObservation) noteHealth(read bmc.HealthReading, now time.Time) {
	h.bmc.Health.Soon = false
	if h.replacement != nil {
		return
	}
	h.health.Note(readingOf(read), now)
	server := h.healthOfServer()
	if now := controllers.HealthOf(read.Server); now != "" {
		server = now
	}
	inventory := h.inventoryHealth(server)
	h.health.Update(inventory, now)
	if h.hardware != nil && h.hardware.Health != server && (!h.health.Flapping() || health.IsWorse(server, h.hardware.Health)) { // claims follow it
		hardware := *h.hardware // what others have of it does not change
		hardware.Health = server
		h.hardware = &hardware
	}
	if len(read.Read) > 0 && h.health.Contradicts(inventory) {
		h.bmc.InspectedTime = time.Time{} // a part was replaced, or has recovered: the inventory is read again
	}
}

// noteHealthUnsupported records that the BMC offers no readings of the health: what it offered before counts no longer.
func (h *hostObservation) noteHealthUnsupported(now time.Time) {
	h.bmc.Health.Unsupported = true
	h.health.DropReadings()
	if h.health.Known() {
		h.health.Update(h.inventoryHealth(h.healthOfServer()), now)
	}
}

// healthOfServer returns the health of the server itself as it is known; empty if it is not.
func (h *hostObservation) healthOfServer() wire.Health {
	if h.hardware == nil {
		return ""
	}
	return h.hardware.Health
}

// inventoryHealth returns what the inventory reports about the health. The server itself has the given health.
func (h *hostObservation) inventoryHealth(server wire.Health) health.Inventory {
	return health.Inventory{Parts: partsOf(h.hardware, server), Time: h.inventoryAt, Incomplete: h.inventoryIncomplete}
}

// healthStatus returns what is reported about the health, or what the status already shows before anything is known.
func (h *hostObservation) healthStatus(before *v1alpha1.HealthStatus) *v1alpha1.HealthStatus {
	if !h.health.Known() {
		return before
	}
	return h.health.Status()
}

// readingOf returns a reading with texts and words that fit the API: a BMC may report anything.
func readingOf(read bmc.HealthReading) health.Reading {
	reading := health.Reading{Rollup: controllers.HealthOf(read.Rollup), Partial: read.Partial}
	for _, p := range read.Parts[:min(len(read.Parts), bmc.MaxParts)] {
		part := v1alpha1.UnhealthyPart{
			Class: classOf(p.Class), Name: controllers.Clip(p.Name, controllers.MaxText), Model: controllers.Clip(p.Model, controllers.MaxText),
			SerialNumber: controllers.Clip(p.SerialNumber, controllers.MaxText), Health: controllers.HealthOf(p.Health),
		}
		if part.Class != "" && isUnhealthy(part.Health) {
			reading.Parts = append(reading.Parts, part)
		}
	}
	for _, class := range read.Read {
		if known := classOf(class); known != "" {
			reading.Read = append(reading.Read, known)
		}
	}
	return reading
}

// classOf returns the class of the API.
func classOf(class bmc.PartClass) v1alpha1.PartClass {
	return controllers.OneOf(class, health.Classes()...)
}

// hostOf returns an object that names the host of a job, for events.
func hostOf(j job) *v1alpha1.BareMetalHost {
	return &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: j.key.Namespace, Name: j.key.Name, UID: j.uid}}
}
