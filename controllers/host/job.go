package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// job is something that is done to a host through its BMC.
type job struct {
	key       types.NamespacedName
	uid       types.UID
	endpoint  *bmc.Endpoint
	action    lifecycle.Action
	mode      bmc.BootMode
	decidedAt time.Time
	powerNew  bool // it was decided with a new reading of the power

	// How the server was told to boot the last time, what its BMC can do, the number of the boot, and whether there is an inventory.
	lastOverride *v1alpha1.BootOverrideStatus
	capabilities []string
	bootNumber   int32
	hasInventory bool
}

// How a job ends for reasons that say nothing of the BMC.
var (
	// errOutdated means that the reason for the command is gone.
	errOutdated = errors.New("the reason for the command is gone")
	// errRecheckFailed means that it could not be read whether the command is still wanted.
	errRecheckFailed = errors.New("it cannot be read whether the command is still wanted")
)

// finalError is an error that was the BMC's last word: the operation failed, is not tried again, and nothing waits for it.
type finalError struct{ error }

// asFinal makes an error a refusal. It returns nil for nil.
func asFinal(err error) error {
	if err == nil {
		return nil
	}
	return &finalError{err}
}

func (r *finalError) Unwrap() error { return r.error }

// resubmitDelay is when a job is submitted again that the pool does not take yet.
const resubmitDelay = 100 * time.Millisecond

// inspectTimeout is how long an inventory may take: large servers have hundreds of resources, and slow BMCs a second for each.
const inspectTimeout = 5 * time.Minute

// submit hands a step to the pool, or returns when to try again.
func (r *Reconciler) submit(ctx context.Context, host *v1alpha1.BareMetalHost, view lifecycle.View, action lifecycle.Action) (time.Duration, error) {
	// The job must not share the host with the reconcile, which goes on.
	j := job{
		key: client.ObjectKeyFromObject(host), uid: host.UID, action: action, mode: firmwareInterface(view.Spec.BootMode), decidedAt: view.Now, powerNew: view.BMC.PowerNew,
	}
	learned := r.observations.get(j.key)
	if wait := learned.commandsDeferredUntil.Sub(r.Clock.Now()); action.Commands() && wait > 0 {
		return wait, nil
	}
	if learned.endpoint == nil || r.Pool.Busy(j.key.String()) {
		return resubmitDelay, nil // the last job, of which all is noted, has not left the pool yet
	}
	j.endpoint, j.lastOverride, j.hasInventory = learned.endpoint, learned.override, learned.bmc.Inspected
	if learned.description != nil {
		j.capabilities = learned.description.Capabilities
	}
	if view.Boot != nil {
		j.bootNumber = view.Boot.Number
	}
	log := ctrl.LoggerFrom(ctx)
	if view.RetryNow {
		who := host.Annotations[v1alpha1.RetryBMCAnnotation]
		if err := r.removeRetryAnnotation(ctx, host); err != nil {
			return 0, err
		}
		log.Info("Asking the BMC because a person wants it", "annotation", v1alpha1.RetryBMCAnnotation, "value", who)
		r.recordEvent(host, corev1.EventTypeNormal, controllers.EventBMCAsked, "Ask", "The BMC is asked now, since the annotation %s wants it: %s", v1alpha1.RetryBMCAnnotation, who)
	}
	timeout := time.Duration(0) // the pool's
	if action == lifecycle.Inspect {
		timeout = inspectTimeout
	}
	var (
		start   time.Time
		outcome error
	)
	r.observations.update(j.key, func(h *hostObservation) { h.noteJobSubmitted(action, view.Now) })
	if !r.Pool.Submit(bmc.Job{
		Key: j.key.String(), Endpoint: *j.endpoint, Timeout: timeout, Now: view.RetryNow,
		Run: func(ctx context.Context, c bmc.Client) error {
			start = r.Clock.Now()
			outcome = r.run(ctrl.LoggerInto(ctx, log), j, c)
			if errors.Is(outcome, errOutdated) || errors.Is(outcome, errRecheckFailed) || errors.As(outcome, new(*finalError)) {
				return nil // the BMC is well
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

// run does a job.
func (r *Reconciler) run(ctx context.Context, j job, c bmc.Client) error {
	if j.action.Commands() {
		// The job may have waited for its turn: someone may have taken the host, or paused it, since.
		if err := r.recheckCommand(ctx, j); err != nil {
			return err
		}
		ctrl.LoggerFrom(ctx).Info("Commanding the BMC", "action", j.action)
	} else if err := r.recheckRead(ctx, j); err != nil {
		return err
	}
	err := r.execute(ctx, j, c)
	if err != nil && !errors.As(err, new(*finalError)) || j.action == lifecycle.SetNetworkBoot || j.action == lifecycle.ClearBootOverride {
		return err
	}
	// Every power command is followed by a look at the power.
	state, lookErr := c.PowerState(ctx)
	if lookErr != nil {
		return lookErr
	}
	r.updateObservation(j, func(h *hostObservation) { h.notePowerState(state, r.Clock.Now()) })
	return err
}

// execute speaks to the BMC.
func (r *Reconciler) execute(ctx context.Context, j job, c bmc.Client) error {
	switch j.action {
	case lifecycle.ReadPower:
		return nil
	case lifecycle.Inspect:
		err := r.inspect(ctx, j, c)
		if j.hasInventory && bmc.KindOf(err) != bmc.Unauthorized {
			return asFinal(err) // what was read before still holds, as long as the BMC can be asked for the power
		}
		return err // also a refused login: the next request would be the next one
	case lifecycle.SetNetworkBoot:
		return r.setNetworkBoot(ctx, j, c)
	case lifecycle.ClearBootOverride:
		return r.clearBootOverride(ctx, j, c)
	case lifecycle.CleanUp:
		return r.cleanUp(ctx, j, c)
	case lifecycle.PowerOn:
		return r.recordCommand(j, lifecycle.CommandPowerOn, c.PowerOn(ctx))
	case lifecycle.ForceOff:
		return r.recordCommand(j, lifecycle.CommandForceOff, c.ForceOff(ctx))
	case lifecycle.ShutDown:
		return r.shutDown(ctx, j, c)
	default:
		return fmt.Errorf("%s is nothing for a BMC", j.action)
	}
}

// recordCommand notes a command that the BMC accepted, or may have heard although its answer was lost or was an error: a server that was to be switched on
// must not count as off because it still reads so, nor one that was to be switched off as on.
func (r *Reconciler) recordCommand(j job, command lifecycle.Command, err error) error {
	kind := bmc.KindOf(err)
	switch {
	case err == nil:
		r.updateServerObservation(j, func(h *hostObservation) { h.notePowerCommand(command, r.Clock.Now()) })
		r.recordJobEvent(j, powerCommandEvents[command].reason, "Power", powerCommandEvents[command].note)
	case command == lifecycle.CommandPowerOn && (kind == bmc.Unreachable || kind == bmc.Failed || kind == bmc.Busy):
		r.updateServerObservation(j, func(h *hostObservation) { h.notePowerCommand(command, r.Clock.Now()) })
	case command != lifecycle.CommandPowerOn && kind == bmc.Unreachable:
		r.updateServerObservation(j, func(h *hostObservation) { h.bmc.OffUnansweredAt = r.Clock.Now() })
	}
	return err
}

// shutDown asks the operating system to shut down. Its time runs also when the BMC answers with an error, as many do while the
// system hangs: at its end the server is switched off.
func (r *Reconciler) shutDown(ctx context.Context, j job, c bmc.Client) error {
	err := c.ShutDown(ctx)
	switch kind := bmc.KindOf(err); {
	case err != nil && kind == bmc.Unsupported:
		r.updateObservation(j, func(h *hostObservation) { h.bmc.ShutDownUnsupported = true })
		return nil
	case err != nil && (kind == bmc.Failed || kind == bmc.Busy):
		r.updateServerObservation(j, func(h *hostObservation) { h.noteShutDownRequest(r.Clock.Now()) })
		return err
	default:
		return r.recordCommand(j, lifecycle.CommandShutDown, err)
	}
}

// finish notes how a job ended, and brings the host back. Up to that moment the BMC counts as busy, so that nothing is decided without it.
func (r *Reconciler) finish(ctx context.Context, j job, start time.Time, err error) {
	now := r.Clock.Now()
	r.observations.updateExisting(j.key, func(h *hostObservation) {
		h.noteJobEnded()
		if h.endpoint == j.endpoint {
			h.noteJobResult(j, start, now, err)
		}
	})
	if err != nil && !errors.Is(err, errOutdated) {
		ctrl.LoggerFrom(ctx).Info("The BMC did not do it", "action", j.action, "error", err.Error())
	}
	r.enqueue(j.key)
}

// noteJobResult notes how a job ended.
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
		// One that failed is due: it is repeated when the BMC is asked again.
		h.bmc.InspectedAt = time.Time{}
		if h.bmc.Problem == nil {
			h.bmc.InspectedAt = now
		}
	}
	if !start.IsZero() && j.action != lifecycle.ReadPower {
		h.noteOperation(string(j.action), start, now, err)
	}
}

// updateObservation notes what a job learned, unless the BMC is reached elsewhere or with other credentials by now.
func (r *Reconciler) updateObservation(j job, note func(*hostObservation)) {
	r.observations.updateExisting(j.key, func(h *hostObservation) {
		if h.endpoint == j.endpoint {
			note(h)
		}
	})
}

// updateServerObservation notes what was done to the server, also when the BMC has other credentials by now. At another address it may be another server.
func (r *Reconciler) updateServerObservation(j job, note func(*hostObservation)) {
	r.observations.updateExisting(j.key, func(h *hostObservation) {
		if h.endpoint != nil && h.endpoint.URL.String() == j.endpoint.URL.String() {
			note(h)
		}
	})
}
