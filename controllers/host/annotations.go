package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// annotationRequests removes the annotations with which users request something: when the request is accepted, or when it is dropped.
type annotationRequests struct {
	client       client.Client
	apiReader    client.Reader
	observations *observations
	events       *eventRecorder
}

// formatRequests formats annotations with their values, for logs and messages.
func formatRequests(host *v1alpha1.BareMetalHost, annotations ...string) string {
	requests := make([]string, 0, len(annotations))
	for _, annotation := range annotations {
		requests = append(requests, fmt.Sprintf("%s=%q", annotation, host.Annotations[annotation]))
	}
	return strings.Join(requests, ", ")
}

// dropRequests removes annotations whose request is fulfilled already or cannot be fulfilled. In the state PowerHold it records no warning: the request
// is fulfilled, because the server runs a machine and is on. In other states an event reports that nothing was done.
func (r *annotationRequests) dropRequests(
	ctx context.Context, host *v1alpha1.BareMetalHost, view lifecycle.View, step lifecycle.Step, write func(func(*v1alpha1.BareMetalHost)) error,
) error {
	if slices.Contains(step.Drop, v1alpha1.ReleaseUnfencedAnnotation) {
		if deleted, err := r.machineDeleted(ctx, host); deleted || err != nil {
			return err // the event of the machine enqueues the host
		}
	}
	requests := formatRequests(host, step.Drop...)
	if err := write(func(*v1alpha1.BareMetalHost) {}); err != nil {
		return err
	}
	ctrl.LoggerFrom(ctx).Info("Removed annotations without acting on them", "annotations", requests, "state", step.State)
	if step.State != lifecycle.StatePowerHold {
		r.events.recordEvent(host, corev1.EventTypeWarning, controllers.EventPowerRequestDropped, "Power", "Removed the annotations %s without acting on them: the host is %s",
			strings.Join(step.Drop, ", "), phaseAfter(host, step))
	}
	if step.State != lifecycle.StatePowerHold || slices.Contains(step.Drop, v1alpha1.ReleaseUnfencedAnnotation) {
		r.noteDroppedRequest(host, view, step, string(step.Action), requests)
	}
	return nil
}

// phaseAfter returns the phase of a host after a step.
func phaseAfter(host *v1alpha1.BareMetalHost, step lifecycle.Step) v1alpha1.HostPhase {
	return cmp.Or(step.Phase, host.Status.Phase)
}

// machineDeleted reads from the API server whether the machine of a host, or its owner, is being deleted or gone. A user may delete the machine and
// annotate the host right after that: a stale cache must not reject the annotation.
func (r *annotationRequests) machineDeleted(ctx context.Context, host *v1alpha1.BareMetalHost) (bool, error) {
	byName := func(name string) []client.ListOption { // a list of one object, because the role grants list and not get
		return []client.ListOption{client.InNamespace(host.Namespace), client.MatchingFields{metav1.ObjectNameField: name}}
	}
	var infra v1alpha1.BareMetalMachineList
	if err := r.apiReader.List(ctx, &infra, byName(host.Spec.ConsumerRef.Name)...); err != nil {
		return false, fmt.Errorf("read the BareMetalMachine of the host: %w", err)
	}
	if len(infra.Items) == 0 || !infra.Items[0].DeletionTimestamp.IsZero() {
		return true, nil
	}
	owner := slices.IndexFunc(infra.Items[0].OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == "Machine" })
	if owner < 0 {
		return false, nil
	}
	var machines clusterv1.MachineList
	if err := r.apiReader.List(ctx, &machines, byName(infra.Items[0].OwnerReferences[owner].Name)...); err != nil {
		return false, fmt.Errorf("read the Machine of the host: %w", err)
	}
	return len(machines.Items) == 0 || !machines.Items[0].DeletionTimestamp.IsZero(), nil
}

// noteDroppedRequest records in the last operation that a request was dropped, and why. The annotation itself is gone.
func (r *annotationRequests) noteDroppedRequest(host *v1alpha1.BareMetalHost, view lifecycle.View, step lifecycle.Step, name, requests string) {
	why := fmt.Sprintf("The annotation was removed and not acted on, because the host is %s", phaseAfter(host, step))
	switch {
	case slices.Contains(step.Drop, v1alpha1.ReleaseUnfencedAnnotation):
		why += fmt.Sprintf(" and BareMetalMachine %q is not being deleted: delete its Machine first, then annotate the host again", view.Host.Spec.ConsumerRef.Name)
	case step.Message != "":
		why += ": " + step.Message
	}
	r.observations.update(client.ObjectKeyFromObject(host), func(h *hostObservation) {
		h.noteOperation(name, view.Now, view.Now, errors.New(requests+". "+why))
	})
}

// acceptRetry removes the retry annotation, and records who requested the retry.
func (r *annotationRequests) acceptRetry(ctx context.Context, host *v1alpha1.BareMetalHost) error {
	requester := host.Annotations[v1alpha1.RetryBMCAnnotation]
	if err := r.removeRetryAnnotation(ctx, host); err != nil {
		return err
	}
	ctrl.LoggerFrom(ctx).Info("Accepted the request to retry the BMC", "annotation", v1alpha1.RetryBMCAnnotation, "value", requester)
	r.events.recordEvent(host, corev1.EventTypeNormal, controllers.EventBMCAsked, "Contact",
		"Accepted the request of the annotation %s to retry the BMC: %s", v1alpha1.RetryBMCAnnotation, requester)
	return nil
}

// removeRetryAnnotation removes the annotation that requests a retry of the BMC. It fails if the host has changed: one annotation is one login, and
// several logins could lock the account.
func (r *annotationRequests) removeRetryAnnotation(ctx context.Context, host *v1alpha1.BareMetalHost) error {
	changed := host.DeepCopy()
	delete(changed.Annotations, v1alpha1.RetryBMCAnnotation)
	if err := r.client.Patch(ctx, changed, client.MergeFromWithOptions(host, client.MergeFromWithOptimisticLock{})); err != nil {
		return err
	}
	host.ObjectMeta = changed.ObjectMeta
	return nil
}

// dropRetryRequest removes the retry annotation in a state that sends no requests to the BMC. Otherwise it could take effect weeks later, when no one
// expects it.
func (r *annotationRequests) dropRetryRequest(ctx context.Context, host *v1alpha1.BareMetalHost, view lifecycle.View, step lifecycle.Step) error {
	if !view.Requests.RetryBMC || view.BMC.Busy {
		return nil
	}
	requests := formatRequests(host, v1alpha1.RetryBMCAnnotation)
	err := r.removeRetryAnnotation(ctx, host)
	if err == nil {
		ctrl.LoggerFrom(ctx).Info("Removed the retry annotation without a request to the BMC", "annotation", v1alpha1.RetryBMCAnnotation,
			"state", step.State, "reason", step.Reason, "message", step.Message)
		r.noteDroppedRequest(host, view, step, string(lifecycle.Inspect), requests)
	}
	return err
}
