package host

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// decide observes a host and asks the lifecycle what to do with it. A step that begins a boot attempt comes with a place among those that boot, which
// is given back where the attempt cannot be recorded.
func (r *Reconciler) decide(ctx context.Context, host *v1alpha1.BareMetalHost) (view lifecycle.View, step lifecycle.Step, err error) {
	if view, err = r.observe(ctx, host); err == nil && r.line.limit > 0 {
		err = r.queue(ctx, host, &view)
	}
	if err != nil {
		r.line.leave(client.ObjectKeyFromObject(host)) // others are not to wait for what keeps it
		return view, step, err
	}
	step = lifecycle.Next(view, r.Settings)
	if r.line.limit == 0 || !lifecycle.Begins(view, step) {
		return view, step, nil
	}
	attempt := host.Spec
	attempt.Boot = step.Boot
	if view.Line = r.line.take(client.ObjectKeyFromObject(host), lifecycle.BootsUntil(attempt, time.Time{}, r.Settings), view.Now); view.Line != nil {
		step = lifecycle.Next(view, r.Settings)
	}
	return view, step, nil
}

// queue tells the line of a host, and the view where the host stands in it.
func (r *Reconciler) queue(ctx context.Context, host *v1alpha1.BareMetalHost, view *lifecycle.View) error {
	if err := r.line.seed(view.Now, func() ([]seen, error) { return r.allSeen(ctx) }); err != nil {
		return err
	}
	s := r.seenOf(host)
	r.line.look(s, view.Now)
	if !lifecycle.WantsToBoot(*view, r.Settings) {
		r.line.leave(s.key)
		return nil
	}
	var machine v1alpha1.BareMetalMachine
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: host.Namespace, Name: host.Spec.ConsumerRef.Name}, &machine); err != nil {
		return fmt.Errorf("read when the machine was created that has the host: %w", err)
	}
	view.Line = r.line.ask(s, machine.CreationTimestamp.Time, view.Now)
	return nil
}

func (r *Reconciler) seenOf(host *v1alpha1.BareMetalHost) seen {
	return seen{
		key: client.ObjectKeyFromObject(host), uid: host.UID, generation: host.Generation, domain: host.Spec.FailureDomain,
		until: lifecycle.BootsUntil(host.Spec, controllers.WaitedAt(host), r.Settings),
	}
}

// allSeen looks at all hosts. Nothing is written to what the list holds: it is the cache's own objects.
func (r *Reconciler) allSeen(ctx context.Context) ([]seen, error) {
	var hosts v1alpha1.BareMetalHostList
	if err := r.Client.List(ctx, &hosts, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the hosts that boot: %w", err)
	}
	var all []seen
	for i := range hosts.Items {
		if h := &hosts.Items[i]; controllers.HasWatchFilter(h, r.WatchFilter) {
			all = append(all, r.seenOf(h))
		}
	}
	return all, nil
}

// recordBoot records an attempt. One that is under way keeps a move waiting.
func (r *Reconciler) recordBoot(
	ctx context.Context, host *v1alpha1.BareMetalHost, view lifecycle.View, step lifecycle.Step, write func(func(*v1alpha1.BareMetalHost)) error,
) error {
	attempt, key := step.Boot, client.ObjectKeyFromObject(host)
	var written *v1alpha1.BareMetalHost
	err := write(func(h *v1alpha1.BareMetalHost) {
		written, h.Spec.Boot = h, attempt
		if attempt.Failure != nil {
			return
		}
		if h.Annotations == nil {
			h.Annotations = map[string]string{}
		}
		h.Annotations[v1alpha1.BlockMoveAnnotation] = "capbm: a boot is under way"
	})
	switch {
	case err == nil:
		ctrl.LoggerFrom(ctx).Info("Recorded how the boot goes", "attempt", attempt.Attempt, "reason", step.Reason, "message", step.Message)
		if lifecycle.Begins(view, step) {
			r.line.recorded(key, written.Generation)
		}
	case !lifecycle.Begins(view, step):
	case apierrors.IsConflict(err):
		r.line.outdated(key)
	default:
		r.line.notRecorded(key, host.Generation, refused(err), view.Now)
	}
	return err
}

// refused is true for an error that is the API server's word that it wrote nothing.
func refused(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsTooManyRequests(err)
}
