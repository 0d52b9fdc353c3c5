package host

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/cleaning"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// observe gathers the facts that the lifecycle decides by:
//   - the API objects of the host: controllers.View
//   - whether this process runs on the server: runsOn
//   - what the agent found: observeInspection
//   - conflicts with other hosts and machines: observeIdentityConflicts, observeClaimConflicts
//   - what the BMC reported: hostObservation.bmcView
//   - problems of the BMC's Secrets: reconcileEndpoint
//   - the other servers of a failure domain that lost its power: observeOutage
func (r *Reconciler) observe(ctx context.Context, host *v1alpha1.BareMetalHost, boot *v1alpha1.BareMetalBoot) (lifecycle.View, error) {
	consumer, err := controllers.GetConsumer(ctx, r.Client, host)
	if err != nil {
		return lifecycle.View{}, fmt.Errorf("read the consumer of the host: %w", err)
	}
	key := client.ObjectKeyFromObject(host)
	r.observations.update(key, func(h *hostObservation) {
		h.initFromStatus(host, boot, r.Clock.Now())
		h.confirmReplacement(host)
	})
	problem, err := r.reconcileEndpoint(ctx, host)
	if err != nil {
		return lifecycle.View{}, fmt.Errorf("read the BMC's Secrets: %w", err)
	}
	view := controllers.View(host, boot, consumer, r.Clock.Now())
	view.MediaURL = r.MediaURLs.For(host.Spec.BMC.Address)
	view.RunsProvider = runsOn(r.Node, host, r.knownHardware(host))
	if view.Deleting && (view.Claimed() || view.StrayBoot() != nil || view.OwnBoot() != nil) {
		if view.NamespaceDeleting, err = r.namespaceDeleting(ctx, host.Namespace); err != nil {
			return lifecycle.View{}, err
		}
	}
	if err := r.observeIdentityConflicts(ctx, host, &view); err != nil {
		return lifecycle.View{}, err
	}
	if err := r.observeClaimConflicts(ctx, host, &view); err != nil {
		return lifecycle.View{}, err
	}
	if err := r.observeInspection(ctx, host, &view); err != nil {
		return lifecycle.View{}, err
	}
	if err := r.observeErasureRequest(ctx, host, &view); err != nil {
		return lifecycle.View{}, err
	}
	view.Inspection.NotPurgeable = cleaning.NotPurgeable(&host.Spec, r.observations.get(key).report.summary)
	r.observations.update(key, func(h *hostObservation) {
		h.noteOverrideWorked(view)
		view.BMC, view.Replaced = h.bmcView(&host.Spec, view.MediaURL), h.replacementMessage(host)
	})
	view.BMC.ModelMethod = r.observations.methodOfModel(host.Namespace, host.Status.Hardware, view.BMC.MethodWorked)
	if problem != nil {
		view.BMC.Problem = problem
	}
	return view, r.observeOutage(ctx, host, &view)
}

// namespaceDeleting is true if a namespace is being deleted, or is gone.
func (r *Reconciler) namespaceDeleting(ctx context.Context, name string) (bool, error) {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := r.APIReader.Get(ctx, types.NamespacedName{Name: name}, namespace); err != nil {
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, fmt.Errorf("read the host's namespace: %w", err)
	}
	return !namespace.DeletionTimestamp.IsZero(), nil
}
