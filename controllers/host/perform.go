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
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// perform does a step, and returns how long to wait before it is tried again where it cannot be done now. What it writes to the host's
// spec and metadata is one optimistic-lock patch: the step was chosen for this version of the host and no other.
func (r *Reconciler) perform(
	ctx context.Context, host *v1alpha1.BareMetalHost, boot *v1alpha1.BareMetalBoot, view lifecycle.View, step lifecycle.Step,
) (time.Duration, error) {
	write := func(change func(*v1alpha1.BareMetalHost)) error {
		changed := host.DeepCopy()
		change(changed)
		for _, annotation := range step.Drop {
			delete(changed.Annotations, annotation)
		}
		err := r.Client.Patch(ctx, changed, client.MergeFromWithOptions(host, client.MergeFromWithOptimisticLock{}))
		if err == nil {
			r.newest.Record(changed)
		}
		return err
	}
	switch step.Action {
	case lifecycle.Nothing:
		return 0, r.dropRetry(ctx, host, view, step)
	case lifecycle.RecordBoot:
		return 0, r.recordBoot(ctx, host, boot, view, step)
	case lifecycle.CountBoot:
		return 0, r.countBoot(ctx, boot, step, write)
	case lifecycle.ForgetBoot:
		return 0, r.forgetBoot(ctx, boot)
	case lifecycle.RecordHold:
		return 0, r.recordHold(ctx, host, step, write)
	case lifecycle.RecordCleaning:
		r.facts.with(client.ObjectKeyFromObject(host), (*hostFacts).soil)
		return 0, write(func(h *v1alpha1.BareMetalHost) { h.Spec.CleaningStartedAt = step.CleaningStartedAt })
	case lifecycle.DropRequests:
		return 0, r.dropRequests(ctx, host, view, step, write)
	case lifecycle.AllowMove:
		return 0, write(func(h *v1alpha1.BareMetalHost) { delete(h.Annotations, v1alpha1.BlockMoveAnnotation) })
	case lifecycle.Release:
		last, err := r.lastConsumer(ctx, host, view.Now)
		if err != nil {
			return 0, err
		}
		return 0, write(func(h *v1alpha1.BareMetalHost) {
			h.Spec.ConsumerRef, h.Spec.LastConsumer = nil, last
			h.Spec.PowerHolds, h.Spec.PowerHoldSince, h.Spec.PowerHoldOffAt, h.Spec.CleaningStartedAt = nil, nil, nil, nil // they were of this machine
			h.Spec.Quarantine = joinQuarantines(h.Spec.Quarantine, step.Quarantine)
			delete(h.Annotations, v1alpha1.BlockMoveAnnotation)
		})
	case lifecycle.Forget:
		return 0, write(func(h *v1alpha1.BareMetalHost) { controllerutil.RemoveFinalizer(h, v1alpha1.HostFinalizer) })
	default:
		return r.submit(ctx, host, view, step.Action)
	}
}

// dropRetry takes the annotation away that wants the BMC asked where it is not asked. It must not take effect weeks later, when nobody remembers that it
// was meant.
func (r *Reconciler) dropRetry(ctx context.Context, host *v1alpha1.BareMetalHost, view lifecycle.View, step lifecycle.Step) error {
	if !view.RetryNow || view.BMC.Busy {
		return nil
	}
	ctrl.LoggerFrom(ctx).Info("The BMC is not asked, although the annotation wants it", "annotation", v1alpha1.RetryBMCAnnotation,
		"state", step.State, "reason", step.Reason, "message", step.Message)
	asked := asksOf(host, v1alpha1.RetryBMCAnnotation)
	err := r.takeRetry(ctx, host)
	if err == nil {
		r.notDone(host, view, step, string(lifecycle.Inspect), asked)
	}
	return err
}

// recordHold records where a hold stands. When it is over no command that was given for it can take effect any more.
func (r *Reconciler) recordHold(
	ctx context.Context, host *v1alpha1.BareMetalHost, step lifecycle.Step, write func(func(*v1alpha1.BareMetalHost)) error,
) error {
	if err := write(func(h *v1alpha1.BareMetalHost) { h.Spec.PowerHoldSince, h.Spec.PowerHoldOffAt = step.Held.Since, step.Held.OffAt }); err != nil {
		return err
	}
	if step.Held.Since == nil {
		r.facts.with(client.ObjectKeyFromObject(host), (*hostFacts).nothingOwed)
	}
	ctrl.LoggerFrom(ctx).Info("Recorded that the server is held off, or not any more", "since", step.Held.Since, "offAt", step.Held.OffAt, "message", step.Message)
	return nil
}

// How a job ends for reasons that say nothing of the BMC.
var (
	// errOutdated means that the reason for the command is gone.
	errOutdated = errors.New("the reason for the command is gone")
	// errUnsure means that it could not be read whether the command is still wanted.
	errUnsure = errors.New("it cannot be read whether the command is still wanted")
)

// refusal is an error that was the BMC's last word: the operation failed, is not tried again, and nothing waits for it.
type refusal struct{ error }

// refuse makes an error a refusal. It returns nil for nil.
func refuse(err error) error {
	if err == nil {
		return nil
	}
	return &refusal{err}
}

func (r *refusal) Unwrap() error { return r.error }

// job is something that is done to a host through its BMC.
type job struct {
	key      types.NamespacedName
	uid      types.UID
	endpoint *bmc.Endpoint
	action   lifecycle.Action
	mode     bmc.BootMode
	decided  time.Time
	powerNew bool // it was decided with a new reading of the power

	// How the server was told to boot the last time, what its BMC can do, the number of the boot, and whether there is an inventory.
	override     *v1alpha1.BootOverrideStatus
	capabilities []string
	boot         int32
	inspected    bool
}

// soon is when a job is submitted again that the pool does not take yet.
const soon = 100 * time.Millisecond

// submit hands a step to the pool, or returns when to try again.
func (r *Reconciler) submit(ctx context.Context, host *v1alpha1.BareMetalHost, view lifecycle.View, action lifecycle.Action) (time.Duration, error) {
	// The job must not share the host with the reconcile, which goes on.
	j := job{
		key: client.ObjectKeyFromObject(host), uid: host.UID, action: action, mode: firmwareInterface(view.Spec.BootMode), decided: view.Now, powerNew: view.BMC.PowerNew,
	}
	learned := r.facts.get(j.key)
	if wait := learned.held.Sub(r.Clock.Now()); action.Commands() && wait > 0 {
		return wait, nil
	}
	if learned.endpoint == nil || r.Pool.Busy(j.key.String()) {
		return soon, nil // the last job, of which all is noted, has not left the pool yet
	}
	j.endpoint, j.override, j.inspected = learned.endpoint, learned.override, learned.bmc.Inspected
	if learned.description != nil {
		j.capabilities = learned.description.Capabilities
	}
	if view.Boot != nil {
		j.boot = view.Boot.Number
	}
	log := ctrl.LoggerFrom(ctx)
	if view.RetryNow {
		who := host.Annotations[v1alpha1.RetryBMCAnnotation]
		if err := r.takeRetry(ctx, host); err != nil {
			return 0, err
		}
		log.Info("Asking the BMC because a person wants it", "annotation", v1alpha1.RetryBMCAnnotation, "value", who)
		r.tell(host, corev1.EventTypeNormal, controllers.EventBMCAsked, "Ask", "The BMC is asked now, since the annotation %s wants it: %s", v1alpha1.RetryBMCAnnotation, who)
	}
	timeout := time.Duration(0) // the pool's
	if action == lifecycle.Inspect {
		timeout = inspectTimeout
	}
	var (
		start   time.Time
		outcome error
	)
	r.facts.with(j.key, func(h *hostFacts) { h.began(action, view.Now) })
	if !r.Pool.Submit(bmc.Job{
		Key: j.key.String(), Endpoint: *j.endpoint, Timeout: timeout, IgnoreBackoff: view.RetryNow,
		Run: func(ctx context.Context, c bmc.Client) error {
			start = r.Clock.Now()
			outcome = r.run(ctrl.LoggerInto(ctx, log), j, c)
			if errors.Is(outcome, errOutdated) || errors.Is(outcome, errUnsure) || errors.As(outcome, new(*refusal)) {
				return nil // the BMC is well
			}
			return outcome
		},
		Done: func(err error) {
			if err == nil {
				err = outcome
			}
			r.done(ctx, j, start, err)
		},
	}) {
		r.facts.with(j.key, (*hostFacts).rests)
		return soon, nil
	}
	return 0, nil
}

// inspectTimeout is how long an inventory may take: large servers have hundreds of resources, and slow BMCs a second for each.
const inspectTimeout = 5 * time.Minute

// learn notes what a job learned, unless the BMC is reached elsewhere or with other credentials by now.
func (r *Reconciler) learn(j job, note func(*hostFacts)) {
	r.facts.known(j.key, func(h *hostFacts) {
		if h.endpoint == j.endpoint {
			note(h)
		}
	})
}

// learnOfServer notes what was done to the server, also when the BMC has other credentials by now. At another address it may be another server.
func (r *Reconciler) learnOfServer(j job, note func(*hostFacts)) {
	r.facts.known(j.key, func(h *hostFacts) {
		if h.endpoint != nil && h.endpoint.URL.String() == j.endpoint.URL.String() {
			note(h)
		}
	})
}

// done notes how a job ended, and brings the host back. Up to that moment the BMC counts as busy, so that nothing is decided without it.
func (r *Reconciler) done(ctx context.Context, j job, start time.Time, err error) {
	now := r.Clock.Now()
	r.facts.known(j.key, func(h *hostFacts) {
		h.rests()
		if h.endpoint == j.endpoint {
			h.note(j, start, now, err)
		}
	})
	if err != nil && !errors.Is(err, errOutdated) {
		ctrl.LoggerFrom(ctx).Info("The BMC did not do it", "action", j.action, "error", err.Error())
	}
	r.bringBack(j.key)
}

// bringBack has a host reconciled.
func (r *Reconciler) bringBack(key types.NamespacedName) {
	select {
	case r.results <- event.TypedGenericEvent[types.NamespacedName]{Object: key}:
	case <-r.stopped:
	}
}

// note notes how a job ended.
func (h *hostFacts) note(j job, start, now time.Time, err error) {
	switch {
	case errors.Is(err, errUnsure):
		h.hold(now)
		return
	case errors.Is(err, errOutdated):
		h.unsure = 0
		return
	case errors.As(err, new(*refusal)):
		h.ended(nil, now)
	default:
		h.ended(err, now)
	}
	h.unsure = 0
	if j.action == lifecycle.Inspect {
		// One that failed is due: it is repeated when the BMC is asked again.
		h.bmc.InspectedAt = time.Time{}
		if h.bmc.Problem == nil {
			h.bmc.InspectedAt = now
		}
	}
	if !start.IsZero() && j.action != lifecycle.ReadPower {
		h.operated(string(j.action), start, now, err)
	}
}

// run does a job.
func (r *Reconciler) run(ctx context.Context, j job, c bmc.Client) error {
	if j.action.Commands() {
		// The job may have waited for its turn: someone may have taken the host, or paused it, since.
		if err := r.stillWanted(ctx, j); err != nil {
			return err
		}
		ctrl.LoggerFrom(ctx).Info("Commanding the BMC", "action", j.action)
	} else if err := r.mayAsk(ctx, j); err != nil {
		return err
	}
	err := r.do(ctx, j, c)
	if err != nil && !errors.As(err, new(*refusal)) || j.action == lifecycle.SetNetworkBoot || j.action == lifecycle.ClearBootOverride {
		return err
	}
	// Every power command is followed by a look at the power.
	state, lookErr := c.PowerState(ctx)
	if lookErr != nil {
		return lookErr
	}
	r.learn(j, func(h *hostFacts) { h.sawPower(state, r.Clock.Now()) })
	return err
}

// do speaks to the BMC.
func (r *Reconciler) do(ctx context.Context, j job, c bmc.Client) error {
	switch j.action {
	case lifecycle.ReadPower:
		return nil
	case lifecycle.Inspect:
		err := r.inspect(ctx, j, c)
		if j.inspected && bmc.KindOf(err) != bmc.Unauthorized {
			return refuse(err) // what was read before still holds, as long as the BMC can be asked for the power
		}
		return err // also a refused login: the next request would be the next one
	case lifecycle.SetNetworkBoot:
		return r.setNetworkBoot(ctx, j, c)
	case lifecycle.ClearBootOverride:
		return r.clearBootOverride(ctx, j, c)
	case lifecycle.CleanUp:
		return r.cleanUp(ctx, j, c)
	case lifecycle.PowerOn:
		return r.command(j, lifecycle.CommandPowerOn, c.PowerOn(ctx))
	case lifecycle.ForceOff:
		return r.command(j, lifecycle.CommandForceOff, c.ForceOff(ctx))
	case lifecycle.ShutDown:
		return r.shutDown(ctx, j, c)
	default:
		return fmt.Errorf("%s is nothing for a BMC", j.action)
	}
}

// command notes a command that the BMC accepted, or may have heard although its answer was lost or was an error: a server that was to be switched on
// must not count as off because it still reads so, nor one that was to be switched off as on.
func (r *Reconciler) command(j job, command lifecycle.Command, err error) error {
	kind := bmc.KindOf(err)
	switch {
	case err == nil:
		r.learnOfServer(j, func(h *hostFacts) { h.commanded(command, r.Clock.Now()) })
		r.tellJob(j, commands[command].reason, "Power", commands[command].note)
	case command == lifecycle.CommandPowerOn && (kind == bmc.Unreachable || kind == bmc.Failed || kind == bmc.Busy):
		r.learnOfServer(j, func(h *hostFacts) { h.commanded(command, r.Clock.Now()) })
	case command != lifecycle.CommandPowerOn && kind == bmc.Unreachable:
		r.learnOfServer(j, func(h *hostFacts) { h.bmc.OffUnansweredAt = r.Clock.Now() })
	}
	return err
}

// shutDown asks the operating system to shut down. Its time runs also when the BMC answers with an error, as many do while the
// system hangs: at its end the server is switched off.
func (r *Reconciler) shutDown(ctx context.Context, j job, c bmc.Client) error {
	err := c.ShutDown(ctx)
	switch kind := bmc.KindOf(err); {
	case err != nil && kind == bmc.Unsupported:
		r.learn(j, func(h *hostFacts) { h.bmc.ShutDownUnsupported = true })
		return nil
	case err != nil && (kind == bmc.Failed || kind == bmc.Busy):
		r.learnOfServer(j, func(h *hostFacts) { h.shutDownTried(r.Clock.Now()) })
		return err
	default:
		return r.command(j, lifecycle.CommandShutDown, err)
	}
}
