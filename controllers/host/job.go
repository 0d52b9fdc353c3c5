package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// jobRunner runs BMC work as jobs of the pool, and records their results.
type jobRunner struct {
	pool         *bmc.Pool
	clock        clock.PassiveClock
	settings     lifecycle.Settings
	profiles     bool // the provider applies BareMetalProfiles
	observations *observations
	annotations  *annotationRequests
	recheck      *rechecker
	executor     *jobExecutor
	enqueuer     *enqueuer
}

// jobExecutor sends the requests of a job to the BMC, and records their results in the observations.
type jobExecutor struct {
	clock        clock.PassiveClock
	observations *observations
	boot         *bootDevices
	firmware     *settingsExecutor
	events       *eventRecorder
	sensorKinds  []string // of the sensors that metrics show
}

// job is BMC work for one host.
type job struct {
	key       types.NamespacedName
	uid       types.UID
	endpoint  *bmc.Endpoint
	action    lifecycle.Action
	mode      bmc.BootMode
	decidedAt time.Time
	powerNew  bool // the decision used a new reading of the power state
	requested bool // a user requested the job: the newest entries of the logs become events, too
	// healthInterval is the interval of the readings of the health.
	healthInterval time.Duration

	// What was known of the server when the job was submitted.
	lastOverride *v1alpha1.BootOverrideStatus
	capabilities []string
	hasInventory bool
	// mediaInserted is true if a boot medium may be in a virtual drive.
	mediaInserted bool
	// boot is the boot that the command is for, and method its boot method. hasNextMethod is true if the boot continues with another method when the BMC refuses this one.
	boot          v1alpha1.BareMetalBootSpec
	method        v1alpha1.BootMethod
	hasNextMethod bool
	// wantsSecureBoot is true if an inspection reads Secure Boot, because spec.bootMode declares it.
	wantsSecureBoot bool
	// settings is what a job about firmware settings needs.
	settings settingsWork
	// showsPending is true for the first boot command of a boot that would apply what others have staged at the BMC: a restart of a settings run applies what that staged.
	showsPending bool
	// confirm confirms that the job is still wanted, right before its first request that changes something; nil if that was confirmed before the first request.
	confirm func(context.Context) error
}

// Results of a job that are unrelated to the state of the BMC.
var (
	errOutdated      = errors.New("the job is outdated")
	errRecheckFailed = errors.New("cannot check whether the job is still wanted")
)

// finalError is a final answer of the BMC: the operation failed, is not retried, and nothing waits for it.
type finalError struct{ error }

// asFinal marks an error as final. It returns nil for nil.
func asFinal(err error) error {
	if err == nil {
		return nil
	}
	return &finalError{err}
}

func (e *finalError) Unwrap() error { return e.error }

// resubmitDelay is the delay before a job that the pool rejected is submitted again.
const resubmitDelay = 100 * time.Millisecond

// inspectTimeout limits one inspection: large servers have hundreds of resources, and slow BMCs take a second for each.
const inspectTimeout = 5 * time.Minute

// mediaTimeout limits a job that inserts or ejects a boot medium: BMCs take a minute to eject one, and fetch the next one before they answer.
const mediaTimeout = 5 * time.Minute

// timeout limits the job. Zero is the pool's default.
func (j job) timeout() time.Duration {
	switch {
	case j.action == lifecycle.Inspect:
		return inspectTimeout
	case isAboutSettings(j.action):
		return settingsTimeout
	case j.action == lifecycle.EjectMedia, j.action == lifecycle.CleanUp,
		j.action == lifecycle.SetNetworkBoot && (j.method == v1alpha1.MethodVirtualMedia || j.mediaInserted):
		return mediaTimeout
	default:
		return 0
	}
}

// submit hands an action to the pool. If the pool cannot take it now, submit returns when to retry.
func (r *jobRunner) submit(ctx context.Context, host *v1alpha1.BareMetalHost, view lifecycle.View, action lifecycle.Action) (time.Duration, error) {
	// The job outlives this reconcile, so it must not refer to the host object.
	j := job{
		key: client.ObjectKeyFromObject(host), uid: host.UID, action: action, mode: firmwareInterface(view.Host.Spec.BootMode),
		decidedAt: view.Now, powerNew: view.BMC.PowerNew, requested: view.Requests.RetryBMC, healthInterval: lifecycle.HealthInterval(view, r.settings),
		wantsSecureBoot: view.Host.Spec.BootMode == v1alpha1.BootModeUEFISecureBoot,
	}
	observed := r.observations.get(j.key)
	if wait := observed.commandsDeferredUntil.Sub(r.clock.Now()); action.Commands() && wait > 0 {
		return wait, nil
	}
	if observed.endpoint == nil || r.pool.Busy(j.key.String()) {
		return resubmitDelay, nil // the result of the last job is recorded, but the pool has not removed the job yet
	}
	j.endpoint, j.lastOverride, j.hasInventory = observed.endpoint, observed.override, observed.bmc.Inspected
	if observed.description != nil {
		j.capabilities = observed.description.Capabilities
	}
	j.method, j.mediaInserted = v1alpha1.MethodPXE, observed.bmc.MediaInserted
	if view.Host.Boot != nil {
		j.boot, j.method, j.hasNextMethod = *view.Host.Boot.DeepCopy(), lifecycle.MethodOf(view.Host.Boot), lifecycle.HasNextMethod(view, r.settings)
	}
	if isAboutSettings(action) {
		j.settings = workOf(view, observed.firmware)
	}
	j.showsPending = r.profiles && action == lifecycle.SetNetworkBoot && j.boot.Attempt == 1 && j.boot.Purpose != v1alpha1.PurposeConfigure && (j.lastOverride == nil || j.lastOverride.Boot != j.boot.Number)
	log := ctrl.LoggerFrom(ctx)
	if view.Requests.RetryBMC {
		if err := r.annotations.acceptRetry(ctx, host); err != nil {
			return 0, err
		}
	}
	var (
		start   time.Time
		outcome error
	)
	r.observations.update(j.key, func(h *hostObservation) { h.noteJobSubmitted(action, view.Now) })
	if !r.pool.Submit(bmc.Job{
		Key: j.key.String(), Endpoint: *j.endpoint, Timeout: j.timeout(), IgnoreBackoff: view.Requests.RetryBMC,
		Run: func(ctx context.Context, c bmc.Client) error {
			start = r.clock.Now()
			outcome = maskError(r.run(ctrl.LoggerInto(ctx, log), j, c))
			if errors.Is(outcome, errOutdated) || errors.Is(outcome, errRecheckFailed) || errors.As(outcome, new(*finalError)) {
				return nil // the BMC is healthy
			}
			return outcome
		},
		Done: func(err error) {
			if err == nil {
				err = outcome
			}
			r.finish(ctx, j, start, err)
		},
	}) {
		r.observations.update(j.key, (*hostObservation).noteJobEnded)
		return resubmitDelay, nil
	}
	return 0, nil
}

// run rechecks a job, executes it and reads the resulting power state.
func (r *jobRunner) run(ctx context.Context, j job, c bmc.Client) error {
	confirm := func(ctx context.Context) error {
		// While the job was queued, the host may have been claimed or paused.
		if err := r.recheck.recheckCommand(ctx, j); err != nil {
			return err
		}
		ctrl.LoggerFrom(ctx).Info("Started a BMC command", "action", j.action)
		return nil
	}
	recheck := func(ctx context.Context) error { return r.recheck.recheckRead(ctx, j) }
	deferred := j.action == lifecycle.ClearBootOverride // the BMC has usually cleared it, and is only read
	if j.action.Commands() && !deferred {
		recheck = confirm
	}
	if err := recheck(ctx); err != nil {
		return err
	}
	if deferred {
		j.confirm = confirm
	}
	err := r.executor.execute(ctx, j, c)
	if err != nil && !errors.As(err, new(*finalError)) || readsNoPower(j.action) {
		return err
	}
	// Every power command is followed by a read of the power state.
	state, readErr := c.PowerState(ctx)
	if readErr != nil {
		return readErr
	}
	r.observations.updateByJob(j, func(h *hostObservation) { h.notePowerState(state, r.clock.Now()) })
	return err
}

// readsNoPower is true for the commands that do not change the power.
func readsNoPower(action lifecycle.Action) bool {
	return action == lifecycle.SetNetworkBoot || action == lifecycle.EjectMedia || action == lifecycle.ClearBootOverride || action == lifecycle.StageSettings || action == lifecycle.ClearSettings
}

// execute sends the requests of a job to the BMC.
func (e *jobExecutor) execute(ctx context.Context, j job, c bmc.Client) error {
	switch j.action {
	case lifecycle.ReadPower:
		return nil
	case lifecycle.ReadHealth:
		return e.readHealth(ctx, j, c)
	case lifecycle.Inspect:
		err := e.inspect(ctx, j, c)
		if err == nil && j.requested {
			err = e.readRequestedLogs(ctx, j, c)
		}
		if j.hasInventory && bmc.KindOf(err) != bmc.Unauthorized {
			return asFinal(err) // the earlier inventory stays valid while the power state can be read
		}
		return err // including a refused login: another request would be another refused login
	case lifecycle.SetNetworkBoot:
		if err := e.boot.setNetworkBoot(ctx, j, c); err != nil || !j.showsPending {
			return err
		}
		e.firmware.showPending(ctx, j, c)
		return nil
	case lifecycle.EjectMedia:
		return e.boot.ejectMedia(ctx, j, c)
	case lifecycle.ClearBootOverride:
		return e.boot.clearBootOverride(ctx, j, c)
	case lifecycle.ReadSettings, lifecycle.StageSettings, lifecycle.ClearSettings:
		return e.firmware.execute(ctx, j, c)
	case lifecycle.CleanUp:
		return e.cleanUp(ctx, j, c)
	case lifecycle.PowerOn:
		return e.recordCommand(j, lifecycle.CommandPowerOn, c.PowerOn(ctx))
	case lifecycle.ForceOff:
		return e.recordCommand(j, lifecycle.CommandForceOff, c.ForceOff(ctx))
	case lifecycle.ShutDown:
		return e.shutDown(ctx, j, c)
	default:
		return fmt.Errorf("%s is not a BMC action", j.action)
	}
}

// recordCommand records a power command that the BMC accepted, or may have received although its answer was lost or was an error. A server that was
// powered on must not count as off because the BMC still reports off, nor the reverse.
func (e *jobExecutor) recordCommand(j job, command lifecycle.Command, err error) error {
	kind := bmc.KindOf(err)
	switch {
	case err == nil:
		e.observations.updateServerByJob(j, func(h *hostObservation) { h.notePowerCommand(command, e.clock.Now()) })
		if command == lifecycle.CommandForceOff { // it may have interrupted an operating system
			e.events.recordJobEvent(j, corev1.EventTypeNormal, controllers.EventForceOff, "Power", "The BMC accepted the command to force the server off")
		}
	case command == lifecycle.CommandPowerOn && (kind == bmc.Unreachable || kind == bmc.Failed || kind == bmc.Busy):
		e.observations.updateServerByJob(j, func(h *hostObservation) { h.notePowerCommand(command, e.clock.Now()) })
	case command != lifecycle.CommandPowerOn && kind == bmc.Unreachable:
		e.observations.updateServerByJob(j, func(h *hostObservation) { h.bmc.OffUnansweredAt = e.clock.Now() })
	}
	return err
}

// shutDown asks the operating system to shut down. The grace period also runs if the BMC answers with an error, as many do while the system hangs: at
// its end the server is forced off.
func (e *jobExecutor) shutDown(ctx context.Context, j job, c bmc.Client) error {
	err := c.ShutDown(ctx)
	switch kind := bmc.KindOf(err); {
	case err != nil && kind == bmc.Unsupported:
		e.observations.updateByJob(j, func(h *hostObservation) { h.bmc.ShutDownUnsupported = true })
		return nil
	case err != nil && (kind == bmc.Failed || kind == bmc.Busy):
		e.observations.updateServerByJob(j, func(h *hostObservation) { h.noteShutDownRequest(e.clock.Now()) })
		return err
	default:
		return e.recordCommand(j, lifecycle.CommandShutDown, err)
	}
}

// finish records the result of a job and enqueues the host. Until then the BMC counts as busy, so that no decision is made without the result.
func (r *jobRunner) finish(ctx context.Context, j job, start time.Time, err error) {
	now := r.clock.Now()
	r.observations.updateExisting(j.key, func(h *hostObservation) {
		h.noteJobEnded()
		if h.endpoint == j.endpoint {
			h.noteJobResult(j, start, now, err)
		}
	})
	if err != nil && !errors.Is(err, errOutdated) {
		ctrl.LoggerFrom(ctx).Info("BMC job failed", "action", j.action, "error", err.Error())
	}
	r.enqueuer.enqueue(j.key)
}

// isOperation is true for the actions that the status shows. A reading that recurs is not one of them: it would write the status each time.
func isOperation(action lifecycle.Action) bool {
	return action != lifecycle.ReadPower && action != lifecycle.ReadHealth
}

// noteJobResult records the result of a job.
func (h *hostObservation) noteJobResult(j job, start, now time.Time, err error) {
	switch {
	case errors.Is(err, errRecheckFailed):
		h.deferCommands(now)
		return
	case errors.Is(err, errOutdated):
		h.recheckFailures = 0
		return
	case errors.As(err, new(*finalError)):
		h.updateProblem(nil, now)
	default:
		h.updateProblem(err, now)
	}
	h.recheckFailures = 0
	if j.action == lifecycle.Inspect {
		// A failed inspection stays due: it is repeated with the next request to the BMC.
		h.bmc.InspectedTime = time.Time{}
		if h.bmc.Problem == nil {
			h.bmc.InspectedTime = now
		}
	}
	if start.IsZero() && j.requested {
		start = now // the login failed, and a person waits for the outcome
	}
	if !start.IsZero() && isOperation(j.action) {
		h.noteOperation(string(j.action), start, now, err)
	}
}

// updateByJob records what a job observed, unless the endpoint or the credentials of the BMC have changed since the job was submitted.
func (o *observations) updateByJob(j job, note func(*hostObservation)) {
	o.updateExisting(j.key, func(h *hostObservation) {
		if h.endpoint == j.endpoint {
			note(h)
		}
	})
}

// updateServerByJob records what a job did to the server, even if the credentials have changed. A BMC at another address may belong to another
// server.
func (o *observations) updateServerByJob(j job, note func(*hostObservation)) {
	o.updateExisting(j.key, func(h *hostObservation) {
		if h.endpoint != nil && h.endpoint.URL.String() == j.endpoint.URL.String() {
			note(h)
		}
	})
}
