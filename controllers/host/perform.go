package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// perform does a step. What it writes to the host's spec and metadata is one optimistic-lock patch: the step was chosen for
// this version of the host and no other.
func (r *Reconciler) perform(ctx context.Context, host *v1alpha1.BareMetalHost, view lifecycle.View, step lifecycle.Step) error {
	write := func(change func(*v1alpha1.BareMetalHost)) error {
		changed := host.DeepCopy()
		change(changed)
		return r.Client.Patch(ctx, changed, client.MergeFromWithOptions(host, client.MergeFromWithOptimisticLock{}))
	}
	switch step.Action {
	case lifecycle.Nothing:
		return nil
	case lifecycle.RecordBoot:
		return write(func(h *v1alpha1.BareMetalHost) {
			h.Spec.Boot = step.Boot
			if step.Boot.Failure == nil {
				blockMove(h)
			}
		})
	case lifecycle.AllowMove:
		return write(func(h *v1alpha1.BareMetalHost) { delete(h.Annotations, v1alpha1.BlockMoveAnnotation) })
	case lifecycle.Release:
		return write(func(h *v1alpha1.BareMetalHost) {
			h.Spec.ConsumerRef, h.Spec.Boot = nil, nil
			delete(h.Annotations, v1alpha1.BlockMoveAnnotation)
		})
	case lifecycle.Forget:
		return write(func(h *v1alpha1.BareMetalHost) { controllerutil.RemoveFinalizer(h, v1alpha1.HostFinalizer) })
	default:
		return r.submit(ctx, host, view, step.Action)
	}
}

func blockMove(h *v1alpha1.BareMetalHost) {
	if h.Annotations == nil {
		h.Annotations = map[string]string{}
	}
	h.Annotations[v1alpha1.BlockMoveAnnotation] = "capbm: a boot is under way"
}

// errOutdated ends a job whose reason is gone. It says nothing of the BMC.
var errOutdated = errors.New("the reason for the command is gone")

// job is something that is done to a host through its BMC.
type job struct {
	key      types.NamespacedName
	uid      types.UID
	endpoint *bmc.Endpoint
	action   lifecycle.Action
	mode     bmc.BootMode
	decided  time.Time

	// How the server was told to boot the last time, what its BMC can do, and which attempt this is.
	override     *v1alpha1.BootOverrideStatus
	capabilities []string
	attempt      int32
}

// submit hands a step to the pool.
func (r *Reconciler) submit(ctx context.Context, host *v1alpha1.BareMetalHost, view lifecycle.View, action lifecycle.Action) error {
	// The job must not share the host with the reconcile, which goes on.
	j := job{
		key: client.ObjectKeyFromObject(host), uid: host.UID, action: action, mode: bmc.BootMode(view.Spec.BootMode), decided: view.Now,
	}
	learned := r.facts.get(j.key)
	if j.endpoint = learned.endpoint; j.endpoint == nil {
		return fmt.Errorf("%s: it is not known how to reach the BMC", action)
	}
	known := mergeBMC(host.Status.BMC, learned).DeepCopy()
	j.override, j.capabilities = known.BootOverride, known.Capabilities
	if host.Spec.Boot != nil {
		j.attempt = host.Spec.Boot.Attempt
	}
	timeout := time.Duration(0) // the pool's
	if action == lifecycle.Inspect {
		timeout = inspectTimeout
	}
	log := ctrl.LoggerFrom(ctx)
	var start time.Time
	submitted := r.Pool.Submit(bmc.Job{
		Key: j.key.String(), Endpoint: *j.endpoint, Timeout: timeout, Now: view.AskNow,
		Run: func(ctx context.Context, c bmc.Client) error {
			start = time.Now()
			if action.PowerCommand() {
				// The job may have waited for its turn: someone may have taken the host, or paused it, since.
				if err := r.stillWanted(ctx, j); err != nil {
					return err
				}
				log.Info("Commanding the BMC", "action", action)
			}
			return r.do(ctx, j, c)
		},
		Done: func(err error) {
			r.done(ctx, j, start, err)
			select {
			case r.results <- event.TypedGenericEvent[types.NamespacedName]{Object: j.key}:
			case <-r.stopped:
			}
		},
	})
	if !submitted || !view.AskNow {
		return nil
	}
	log.Info("Asking the BMC because a person wants it", "annotation", v1alpha1.RetryBMCAnnotation, "value", host.Annotations[v1alpha1.RetryBMCAnnotation])
	changed := host.DeepCopy()
	delete(changed.Annotations, v1alpha1.RetryBMCAnnotation)
	return client.IgnoreNotFound(r.Client.Patch(ctx, changed, client.MergeFrom(host)))
}

// inspectTimeout is how long an inventory may take: large servers have hundreds of resources, and slow BMCs a second for each.
const inspectTimeout = 5 * time.Minute

// learn notes what a job learned, unless the BMC is reached elsewhere or with other credentials by now.
func (r *Reconciler) learn(j job, note func(*hostFacts)) {
	r.facts.with(j.key, func(h *hostFacts) {
		if h.endpoint == j.endpoint {
			note(h)
		}
	})
}

func (r *Reconciler) done(ctx context.Context, j job, start time.Time, err error) {
	now := time.Now()
	if errors.Is(err, errOutdated) {
		return
	}
	r.learn(j, func(h *hostFacts) {
		h.ended(err, now)
		if !start.IsZero() && j.action != lifecycle.ReadPower {
			h.operated(string(j.action), start, now, err)
		}
	})
	if err != nil {
		ctrl.LoggerFrom(ctx).Info("The BMC did not do it", "action", j.action, "error", err.Error())
	}
}

// stillWanted reads the host from the API server and asks the lifecycle once more, with the BMC facts of the decision.
func (r *Reconciler) stillWanted(ctx context.Context, j job) error {
	var host v1alpha1.BareMetalHost
	if err := r.APIReader.Get(ctx, j.key, &host); err != nil {
		return errors.Join(errOutdated, err)
	}
	view, err := r.observe(ctx, &host)
	if err != nil {
		return errors.Join(errOutdated, err)
	}
	view.Now, view.BMC.Busy = j.decided, false
	if host.UID != j.uid || lifecycle.Next(view, r.Settings).Action != j.action {
		return errOutdated
	}
	return nil
}

// do speaks to the BMC. Every power command is followed by a look at the power.
func (r *Reconciler) do(ctx context.Context, j job, c bmc.Client) error {
	switch j.action {
	case lifecycle.ReadPower:
	case lifecycle.Inspect:
		if err := r.inspect(ctx, j, c); err != nil {
			return err
		}
	case lifecycle.SetNetworkBoot:
		return r.setNetworkBoot(ctx, j, c)
	case lifecycle.ClearBootOverride:
		return r.clearBootOverride(ctx, j, c)
	case lifecycle.CleanUp:
		if err := r.cleanUp(ctx, j, c); err != nil {
			return err
		}
	case lifecycle.PowerOn:
		if err := r.command(j, lifecycle.CommandPowerOn, c.PowerOn(ctx)); err != nil {
			return err
		}
	case lifecycle.ForceOff:
		if err := r.command(j, lifecycle.CommandForceOff, c.ForceOff(ctx)); err != nil {
			return err
		}
	case lifecycle.ShutDown:
		if err := r.shutDown(ctx, j, c); err != nil {
			return err
		}
	default:
		return fmt.Errorf("%s is nothing for a BMC", j.action)
	}
	state, err := c.PowerState(ctx)
	if err != nil {
		return err
	}
	r.learn(j, func(h *hostFacts) { h.sawPower(state, time.Now()) })
	return nil
}

// command notes a command that the BMC accepted.
func (r *Reconciler) command(j job, command lifecycle.Command, err error) error {
	if err != nil {
		return err
	}
	r.learn(j, func(h *hostFacts) { h.commanded(command, time.Now()) })
	return nil
}

// shutDown asks the operating system to shut down. Its time runs also when the BMC answers with an error, as many do while the
// system hangs: at its end the server is switched off.
func (r *Reconciler) shutDown(ctx context.Context, j job, c bmc.Client) error {
	err := c.ShutDown(ctx)
	switch {
	case err == nil:
		return r.command(j, lifecycle.CommandShutDown, nil)
	case bmc.KindOf(err) == bmc.Unsupported:
		r.learn(j, func(h *hostFacts) { h.bmc.ShutDownUnsupported = true })
		return nil
	case bmc.KindOf(err) == bmc.Failed:
		r.learn(j, func(h *hostFacts) { h.shutDownTried(time.Now()) })
	}
	return err
}
