package template

import (
	"context"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
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
	labels               map[string]string
	taints               []v1alpha1.HostTaint
	architecture         v1alpha1.Architecture
	outOfService         string
	verified, inspected  bool
	cpu                  int32
	memory               int64 // a number: equal Quantities may differ in memory
	reportedArchitecture string
	health               wire.Health
	disks                []int64
	inspection           v1alpha1.InspectionPolicy
	found                v1alpha1.InspectionSummary
	rotational           []*bool // of the disks that the BMC reports
	nics                 []v1alpha1.NIC
	devices              []v1alpha1.Device
}

func matchFieldsOf(h *v1alpha1.BareMetalHost) matchFields {
	f := matchFields{
		labels: h.Labels, taints: h.Spec.Taints, architecture: h.Spec.Architecture, verified: conditions.IsTrue(h, v1alpha1.VerifiedCondition),
		outOfService: claim.OutOfService(h),
	}
	f.cpu, f.memory, f.disks, f.inspection = claim.CPU(h), claim.Memory(h), claim.DiskSizes(h), h.Spec.Inspection
	if hardware := h.Status.Hardware; hardware != nil {
		f.inspected, f.reportedArchitecture, f.health, f.nics, f.devices = true, hardware.Architecture, hardware.Health, hardware.NICs, hardware.Devices
		for i := range hardware.Disks {
			f.rotational = append(f.rotational, hardware.Disks[i].Rotational)
		}
	}
	if found := h.Status.Inspection; found != nil {
		f.found = *found
		f.found.ReceivedTime, f.found.ReportUID, f.found.ReportGeneration = metav1.Time{}, "", 0 // another report of the same hardware changes nothing
	}
	return f
}
