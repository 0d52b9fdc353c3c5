package host

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
)

// rechecker confirms a job that was queued, just before its first request to the BMC.
type rechecker struct {
	client       client.Client // reads from the cache
	apiReader    client.Reader
	settings     lifecycle.Settings
	tenants      bootconfig.Tenants
	observations *observations
	gatherer     *gatherer
}

// recheckRead returns errOutdated if the host was detached or deleted, or lost its BMC to another host, while the job was queued.
func (r *rechecker) recheckRead(ctx context.Context, j job) error {
	var host v1alpha1.BareMetalHost
	err := r.client.Get(ctx, j.key, &host)
	if apierrors.IsNotFound(err) {
		return errOutdated
	}
	var keeper *v1alpha1.BareMetalHost
	if err == nil {
		keeper, err = controllers.BMCConflict(&host).PermittedBy(r.tenants).Keeper(ctx, r.client)
	}
	switch _, detached := host.Annotations[v1alpha1.DetachedAnnotation]; {
	case err != nil:
		return fmt.Errorf("%w: %w", errRecheckFailed, err)
	case detached || keeper != nil || controllers.CheckPermitted(r.tenants, &host) != nil:
		return errOutdated
	}
	return nil
}

// recheckCommand reads the host and its boot from the API server and repeats the decision, with the BMC observations that the decision used. It returns
// errOutdated if the decision is now another one, or is for another boot: its boot medium and its method are those of one attempt.
func (r *rechecker) recheckCommand(ctx context.Context, j job) error {
	var host v1alpha1.BareMetalHost
	err := r.apiReader.Get(ctx, j.key, &host)
	if apierrors.IsNotFound(err) {
		return errOutdated
	}
	var boot *v1alpha1.BareMetalBoot
	if err == nil {
		boot, err = controllers.GetBoot(ctx, r.apiReader, j.key)
	}
	var view lifecycle.View
	if err == nil {
		view, err = r.gatherer.observe(ctx, &host, boot)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errRecheckFailed, err)
	}
	view.BMC.Busy, view.BMC.PowerNew = false, j.powerNew
	if restores := j.action == lifecycle.PowerOn && lifecycle.StateOf(view) == lifecycle.StateProvisioned; !restores { // its record is valid for a minute only
		view.Now = j.decidedAt
	}
	reachedElsewhere := r.observations.get(j.key).endpoint != j.endpoint
	otherBoot := j.action == lifecycle.SetNetworkBoot && (boot == nil || boot.Spec.Number != j.boot.Number || lifecycle.MethodOf(&boot.Spec) != j.method)
	if host.UID != j.uid || reachedElsewhere || otherBoot || lifecycle.Next(view, r.settings).Action != j.action {
		return errOutdated
	}
	return nil
}
