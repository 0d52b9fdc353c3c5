package host

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/cleaning"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// gatherer gathers what is known of a host, of its objects and of its BMC, into a view for the lifecycle.
type gatherer struct {
	client       client.Client // reads from the cache
	apiReader    client.Reader
	clock        clock.PassiveClock
	settings     lifecycle.Settings
	mediaURLs    MediaURLs
	node         *corev1.Node // that this process runs on; nil if it is unknown
	observations *observations
	endpoints    *endpointReader
	reports      *agentReports
	conflicts    *conflictFinder
	requests     *erasureRequests
	firmware     *settingsFacts // nil without profiles

	recordsErasures bool // erasures are recorded as BareMetalErasures
}

// observe gathers the facts that the lifecycle decides by:
//   - the API objects of the host: controllers.View
//   - whether this process runs on the server: runsOn
//   - what the agent found: observeInspection
//   - conflicts with other hosts and machines: observeIdentityConflicts, observeClaimConflicts
//   - what the BMC reported: hostObservation.bmcView
//   - problems of the BMC's Secrets: reconcileEndpoint
//   - the firmware settings: observeSettings
//   - the other servers of a failure domain that lost its power: observeOutage
func (g *gatherer) observe(ctx context.Context, host *v1alpha1.BareMetalHost, boot *v1alpha1.BareMetalBoot) (lifecycle.View, error) {
	consumer, err := controllers.GetConsumer(ctx, g.client, host)
	if err != nil {
		return lifecycle.View{}, fmt.Errorf("read the consumer of the host: %w", err)
	}
	key := client.ObjectKeyFromObject(host)
	g.observations.update(key, func(h *hostObservation) {
		h.initFromStatus(host, boot, g.clock.Now())
		h.confirmReplacement(host)
	})
	problem, err := g.endpoints.reconcileEndpoint(ctx, host)
	if err != nil {
		return lifecycle.View{}, fmt.Errorf("read the BMC's Secrets: %w", err)
	}
	view := controllers.View(host, boot, consumer, g.clock.Now())
	view.Provider.MediaURL = g.mediaURLs.For(host.Spec.BMC.Address)
	view.Provider.Hosts = g.observations.count()
	view.Provider.RunsHere = runsOn(g.node, host, g.observations.knownHardware(host))
	if g.recordsErasures {
		view.Erasure.Record.Outcome = lifecycle.RecordDue
	}
	if view.Host.Deleting && (view.Host.Claimed() || view.Host.StrayBoot() != nil || view.Host.HostBoot() != nil) {
		if view.Host.NamespaceDeleting, err = namespaceDeleting(ctx, g.apiReader, host.Namespace); err != nil {
			return lifecycle.View{}, err
		}
	}
	if err := g.conflicts.observeIdentityConflicts(ctx, host, &view); err != nil {
		return lifecycle.View{}, err
	}
	if err := g.conflicts.observeClaimConflicts(ctx, host, &view); err != nil {
		return lifecycle.View{}, err
	}
	if err := g.reports.observeInspection(ctx, host, &view); err != nil {
		return lifecycle.View{}, err
	}
	if err := g.requests.observeErasureRequest(ctx, host, &view); err != nil {
		return lifecycle.View{}, err
	}
	if err := g.firmware.observeSettings(ctx, host, &view); err != nil {
		return lifecycle.View{}, err
	}
	view.Inspection.NotPurgeable = cleaning.NotPurgeable(&host.Spec, g.observations.get(key).report.summary)
	g.observations.update(key, func(h *hostObservation) {
		h.noteOverrideWorked(view)
		view.BMC, view.Identity.Replacement = h.bmcView(&host.Spec, view.Provider.MediaURL), h.replacementView()
	})
	view.BMC.ModelMethod = g.observations.methodOfModel(host.Namespace, host.Status.Hardware, view.BMC.MethodWorked)
	if problem != nil {
		view.BMC.Problem = problem
	}
	return view, g.observeOutage(ctx, host, &view)
}

// namespaceDeleting is true if a namespace is being deleted, or is gone.
func namespaceDeleting(ctx context.Context, apiReader client.Reader, name string) (bool, error) {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := apiReader.Get(ctx, types.NamespacedName{Name: name}, namespace); err != nil {
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, fmt.Errorf("read the host's namespace: %w", err)
	}
	return !namespace.DeletionTimestamp.IsZero(), nil
}
