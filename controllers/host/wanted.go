package host

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// mayAsk returns errOutdated where the host was detached or deleted, or its BMC was found to be another host's, while the job waited for its turn.
func (r *Reconciler) mayAsk(ctx context.Context, j job) error {
	var host v1alpha1.BareMetalHost
	err := r.Client.Get(ctx, j.key, &host)
	if apierrors.IsNotFound(err) {
		return errOutdated
	}
	var keeper *v1alpha1.BareMetalHost
	if err == nil {
		keeper, err = controllers.BMCConflict(&host).PermittedBy(r.Tenants).Keeper(ctx, r.Client)
	}
	switch _, detached := host.Annotations[v1alpha1.DetachedAnnotation]; {
	case err != nil:
		return fmt.Errorf("%w: %w", errUnsure, err)
	case detached || keeper != nil || controllers.CheckPermitted(r.Tenants, &host) != nil:
		return errOutdated
	}
	return nil
}

// stillWanted reads the host and its boot from the API server and asks the lifecycle once more, with the BMC facts of the decision.
func (r *Reconciler) stillWanted(ctx context.Context, j job) error {
	var host v1alpha1.BareMetalHost
	err := r.APIReader.Get(ctx, j.key, &host)
	if apierrors.IsNotFound(err) {
		return errOutdated
	}
	var boot *v1alpha1.BareMetalBoot
	if err == nil {
		boot, err = controllers.GetBoot(ctx, r.APIReader, j.key)
	}
	var view lifecycle.View
	if err == nil {
		view, err = r.observe(ctx, &host, boot)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errUnsure, err)
	}
	view.Now, view.BMC.Busy, view.BMC.PowerNew = j.decided, false, j.powerNew
	reachedElsewhere := r.facts.get(j.key).endpoint != j.endpoint
	if host.UID != j.uid || reachedElsewhere || lifecycle.Next(view, r.Settings).Action != j.action {
		return errOutdated
	}
	return nil
}
