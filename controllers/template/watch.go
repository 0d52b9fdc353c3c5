package template

import (
	"context"
	"reflect"

	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/claim"
)

func (r *Reconciler) templatesOfHost(ctx context.Context, o client.Object) []reconcile.Request {
	return r.templates(ctx, o.GetNamespace(), func(*v1alpha1.BareMetalMachineTemplate) bool { return true })
}

func (r *Reconciler) templatesOfCluster(ctx context.Context, o client.Object) []reconcile.Request {
	return r.templates(ctx, o.GetNamespace(), func(t *v1alpha1.BareMetalMachineTemplate) bool { return clusterOf(t) == o.GetName() })
}

// templates returns requests for the templates of a namespace that pass a filter.
func (r *Reconciler) templates(ctx context.Context, namespace string, pass func(*v1alpha1.BareMetalMachineTemplate) bool) []reconcile.Request {
	var templates v1alpha1.BareMetalMachineTemplateList
	if err := r.Client.List(ctx, &templates, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Failed to list the templates of a namespace")
		return nil
	}
	var requests []reconcile.Request
	for i := range templates.Items {
		if pass(&templates.Items[i]) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&templates.Items[i])})
		}
	}
	return requests
}

// hostChanged passes changes of a host that may change the status of a template. Its consumer, its power and the progress of its boot do not.
var hostChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*v1alpha1.BareMetalHost)
	after, alsoOK := e.ObjectNew.(*v1alpha1.BareMetalHost)
	return !ok || !alsoOK || !reflect.DeepEqual(matchFieldsOf(before), matchFieldsOf(after))
}}

// matchFields are the fields of a host that matter to templates.
type matchFields struct {
	labels                       map[string]string
	taints                       []v1alpha1.HostTaint
	architecture                 v1alpha1.Architecture
	outOfService                 string
	verified, inspected          bool
	cpu                          v1alpha1.CPU
	memory                       int64 // a number: equal Quantities may differ in memory
	reportedArchitecture, health string
	disks                        []int64
}

func matchFieldsOf(h *v1alpha1.BareMetalHost) matchFields {
	f := matchFields{
		labels: h.Labels, taints: h.Spec.Taints, architecture: h.Spec.Architecture, verified: conditions.IsTrue(h, v1alpha1.VerifiedCondition),
		outOfService: claim.OutOfService(h),
	}
	if hardware := h.Status.Hardware; hardware != nil {
		f.inspected, f.cpu, f.memory, f.reportedArchitecture, f.health = true, hardware.CPU, hardware.Memory.Value(), hardware.Architecture, hardware.Health
		for i := range hardware.Disks {
			f.disks = append(f.disks, hardware.Disks[i].Size.Value())
		}
	}
	return f
}
