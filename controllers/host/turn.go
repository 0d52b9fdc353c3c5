package host

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// decide observes a host and asks the lifecycle what to do with it. A step that begins a boot attempt comes with a place among those that boot, which
// is given back where the attempt cannot be recorded.
func (r *Reconciler) decide(ctx context.Context, host *v1alpha1.BareMetalHost, boot *v1alpha1.BareMetalBoot) (view lifecycle.View, step lifecycle.Step, err error) {
	if view, err = r.observe(ctx, host, boot); err == nil && r.line.limit > 0 {
		err = r.queue(ctx, host, boot, &view)
	}
	if err != nil {
		r.line.leave(client.ObjectKeyFromObject(host)) // others are not to wait for what keeps it
		return view, step, err
	}
	step = lifecycle.Next(view, r.Settings)
	if r.line.limit == 0 || !lifecycle.StartsBoot(view, step) {
		return view, step, nil
	}
	begun := lifecycle.View{Spec: host.Spec, Boot: step.Boot}
	if view.QueuePosition = r.line.take(client.ObjectKeyFromObject(host), step.Boot.Number, begun.BootsUntil(r.Settings), view.Now); view.QueuePosition != nil {
		step = lifecycle.Next(view, r.Settings)
	}
	return view, step, nil
}

// queue tells the line of a host, and the view where the host stands in it.
func (r *Reconciler) queue(ctx context.Context, host *v1alpha1.BareMetalHost, boot *v1alpha1.BareMetalBoot, view *lifecycle.View) error {
	if err := r.line.seed(view.Now, func() ([]seen, error) { return r.allSeen(ctx) }); err != nil {
		return err
	}
	s := r.seenOf(host, boot)
	r.line.look(s, view.Now)
	if !lifecycle.WantsToBoot(*view, r.Settings) {
		r.line.leave(s.key)
		return nil
	}
	var machine v1alpha1.BareMetalMachine
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: host.Namespace, Name: host.Spec.ConsumerRef.Name}, &machine); err != nil {
		return fmt.Errorf("read when the machine was created that has the host: %w", err)
	}
	view.QueuePosition = r.line.ask(s, machine.CreationTimestamp.Time, view.Now)
	return nil
}

func (r *Reconciler) seenOf(host *v1alpha1.BareMetalHost, boot *v1alpha1.BareMetalBoot) seen {
	s := seen{key: client.ObjectKeyFromObject(host), uid: host.UID, domain: host.Spec.FailureDomain}
	if boot != nil {
		view := lifecycle.View{Spec: host.Spec, Boot: &boot.Spec, WaitedAt: controllers.WaitedAt(boot)}
		s.number, s.until = boot.Spec.Number, view.BootsUntil(r.Settings)
	}
	return s
}

// allSeen reads all hosts and boots. Nothing is written to what the lists hold: these are the cache's own objects.
func (r *Reconciler) allSeen(ctx context.Context) ([]seen, error) {
	var hosts v1alpha1.BareMetalHostList
	if err := r.Client.List(ctx, &hosts, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the hosts that boot: %w", err)
	}
	var boots v1alpha1.BareMetalBootList
	if err := r.Client.List(ctx, &boots, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the boots: %w", err)
	}
	byHost := make(map[types.NamespacedName]*v1alpha1.BareMetalBoot, len(boots.Items))
	for i := range boots.Items {
		byHost[client.ObjectKeyFromObject(&boots.Items[i])] = &boots.Items[i]
	}
	var all []seen
	for i := range hosts.Items {
		if h := &hosts.Items[i]; controllers.HasWatchFilter(h, r.WatchFilter) {
			all = append(all, r.seenOf(h, byHost[client.ObjectKeyFromObject(h)]))
		}
	}
	return all, nil
}

// refused is true for an error that is the API server's word that it wrote nothing.
func refused(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsTooManyRequests(err)
}
