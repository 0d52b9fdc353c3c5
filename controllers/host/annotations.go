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

// formatRequests tells what people asked for by annotations, with what they wrote into them.
func formatRequests(host *v1alpha1.BareMetalHost, annotations ...string) string {
	asks := make([]string, 0, len(annotations))
	for _, annotation := range annotations {
		asks = append(asks, fmt.Sprintf("%s=%q", annotation, host.Annotations[annotation]))
	}
	return strings.Join(asks, ", ")
}

// dropRequests removes annotations that want what is so already, or cannot be done. Where the server runs a machine it is on, as somebody wanted it;
// elsewhere it is told that nothing was done.
func (r *Reconciler) dropRequests(
	ctx context.Context, host *v1alpha1.BareMetalHost, view lifecycle.View, step lifecycle.Step, write func(func(*v1alpha1.BareMetalHost)) error,
) error {
	if slices.Contains(step.Drop, v1alpha1.ReleaseUnfencedAnnotation) {
		if deleted, err := r.machineDeleted(ctx, host); deleted || err != nil {
			return err // its news brings the host back
		}
	}
	asked := formatRequests(host, step.Drop...)
	ctrl.LoggerFrom(ctx).Info("What annotations want is not done", "annotations", asked, "state", step.State)
	if err := write(func(*v1alpha1.BareMetalHost) {}); err != nil {
		return err
	}
	if step.State != lifecycle.StatePowerHold {
		r.recordEvent(host, corev1.EventTypeWarning, controllers.EventPowerRequestDropped, "Power", "What the annotations %s want is not done: the host is %s",
			strings.Join(step.Drop, ", "), phaseAfter(host, step))
	}
	if step.State != lifecycle.StatePowerHold || slices.Contains(step.Drop, v1alpha1.ReleaseUnfencedAnnotation) {
		r.noteDroppedRequest(host, view, step, string(step.Action), asked)
	}
	return nil
}

// phaseAfter is the phase that users see of a host after a step.
func phaseAfter(host *v1alpha1.BareMetalHost, step lifecycle.Step) v1alpha1.HostPhase {
	return cmp.Or(step.Phase, host.Status.Phase)
}

// machineDeleted asks the API server whether the machine that has a host, or its owner, is being deleted or gone: who deletes it and annotates the host
// right after that is not to be told, by a cache that is behind, that it is not.
func (r *Reconciler) machineDeleted(ctx context.Context, host *v1alpha1.BareMetalHost) (bool, error) {
	only := func(name string) []client.ListOption { // one object as a list: the right to list is there already
		return []client.ListOption{client.InNamespace(host.Namespace), client.MatchingFields{metav1.ObjectNameField: name}}
	}
	var infra v1alpha1.BareMetalMachineList
	if err := r.APIReader.List(ctx, &infra, only(host.Spec.ConsumerRef.Name)...); err != nil {
		return false, fmt.Errorf("read the machine that has the host: %w", err)
	}
	if len(infra.Items) == 0 || !infra.Items[0].DeletionTimestamp.IsZero() {
		return true, nil
	}
	owner := slices.IndexFunc(infra.Items[0].OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == "Machine" })
	if owner < 0 {
		return false, nil
	}
	var machines clusterv1.MachineList
	if err := r.APIReader.List(ctx, &machines, only(infra.Items[0].OwnerReferences[owner].Name)...); err != nil {
		return false, fmt.Errorf("read the Machine of the machine that has the host: %w", err)
	}
	return len(machines.Items) == 0 || !machines.Items[0].DeletionTimestamp.IsZero(), nil
}

// noteDroppedRequest notes in the last operation that what people asked for was not done, and why: the annotation, which they would look at, is gone.
func (r *Reconciler) noteDroppedRequest(host *v1alpha1.BareMetalHost, view lifecycle.View, step lifecycle.Step, name, asked string) {
	why := fmt.Sprintf("The annotation was removed, and nothing was done, since the host is %s", phaseAfter(host, step))
	switch {
	case slices.Contains(step.Drop, v1alpha1.ReleaseUnfencedAnnotation):
		why += fmt.Sprintf(" and BareMetalMachine %q is not being deleted: delete its Machine first, then annotate the host again", view.Spec.ConsumerRef.Name)
	case step.Message != "":
		why += ": " + step.Message
	}
	r.observations.update(client.ObjectKeyFromObject(host), func(h *hostObservation) {
		h.noteOperation(name, view.Now, view.Now, errors.New(asked+". "+why))
	})
}

// removeRetryAnnotation removes the annotation that wants the BMC asked. It fails when the host is another by now, for one annotation is one
// login: many would lock the account.
func (r *Reconciler) removeRetryAnnotation(ctx context.Context, host *v1alpha1.BareMetalHost) error {
	changed := host.DeepCopy()
	delete(changed.Annotations, v1alpha1.RetryBMCAnnotation)
	if err := r.Client.Patch(ctx, changed, client.MergeFromWithOptions(host, client.MergeFromWithOptimisticLock{})); err != nil {
		return err
	}
	host.ObjectMeta = changed.ObjectMeta
	return nil
}

// dropRetryRequest takes the annotation away that wants the BMC asked where it is not asked. It must not take effect weeks later, when nobody remembers that it
// was meant.
func (r *Reconciler) dropRetryRequest(ctx context.Context, host *v1alpha1.BareMetalHost, view lifecycle.View, step lifecycle.Step) error {
	if !view.RetryNow || view.BMC.Busy {
		return nil
	}
	ctrl.LoggerFrom(ctx).Info("The BMC is not asked, although the annotation wants it", "annotation", v1alpha1.RetryBMCAnnotation,
		"state", step.State, "reason", step.Reason, "message", step.Message)
	asked := formatRequests(host, v1alpha1.RetryBMCAnnotation)
	err := r.removeRetryAnnotation(ctx, host)
	if err == nil {
		r.noteDroppedRequest(host, view, step, string(lifecycle.Inspect), asked)
	}
	return err
}
