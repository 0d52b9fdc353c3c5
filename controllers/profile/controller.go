// Package profile reconciles BareMetalProfiles: it counts the hosts that have the settings of a profile, and says how far the profile is rolled out. It changes no host:
// the host controller does.
package profile

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=baremetalprofiles,verbs=get;list;watch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=baremetalprofiles/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=baremetalhosts;baremetalsettings,verbs=list;watch

// Reconciler reconciles BareMetalProfiles.
type Reconciler struct {
	// Client reads from the cache.
	Client client.Client
	// WatchFilter, if not empty, is the value of the label cluster.x-k8s.io/watch-filter of the hosts that are counted.
	WatchFilter string
}

// SetupWithManager adds the controller to the manager.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, options controller.Options) error {
	return ctrl.NewControllerManagedBy(mgr).Named("baremetalprofile").
		Watches(&v1alpha1.BareMetalProfile{}, controllers.EnqueueObject, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.BareMetalHost{}, controllers.EnqueueBatched(r.profilesOfNamespace), builder.WithPredicates(hostChanged)).
		Watches(&v1alpha1.BareMetalSettings{}, controllers.EnqueueBatched(r.profilesOfNamespace), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(options).
		Complete(r)
}

// hostChanged passes the changes of a host that may change what a profile counts.
var hostChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*v1alpha1.BareMetalHost)
	after, alsoOK := e.ObjectNew.(*v1alpha1.BareMetalHost)
	if !ok || !alsoOK {
		return true
	}
	conforms := func(h *v1alpha1.BareMetalHost) string {
		return conditions.GetReason(h, v1alpha1.SettingsConformCondition)
	}
	return conforms(before) != conforms(after) || !equality.Semantic.DeepEqual(before.Labels, after.Labels) || modelOf(before) != modelOf(after)
}}

func modelOf(h *v1alpha1.BareMetalHost) [2]string {
	if h.Status.Hardware == nil {
		return [2]string{}
	}
	return [2]string{h.Status.Hardware.Manufacturer, h.Status.Hardware.Model}
}

// profilesOfNamespace returns the profiles in the namespace of an object. There are few.
func (r *Reconciler) profilesOfNamespace(ctx context.Context, o client.Object) []reconcile.Request {
	var list v1alpha1.BareMetalProfileList
	if err := r.Client.List(ctx, &list, client.InNamespace(o.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Failed to list the BareMetalProfiles of a namespace")
		return nil
	}
	requests := make([]reconcile.Request, 0, len(list.Items))
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}

// Reconcile computes the status of a profile.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	profile := &v1alpha1.BareMetalProfile{}
	if err := r.Client.Get(ctx, request.NamespacedName, profile); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !profile.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	var hosts v1alpha1.BareMetalHostList // objects of the cache: they must not be changed
	if err := r.Client.List(ctx, &hosts, client.InNamespace(profile.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return ctrl.Result{}, fmt.Errorf("list the hosts of the namespace: %w", err)
	}
	var runs v1alpha1.BareMetalSettingsList
	if err := r.Client.List(ctx, &runs, client.InNamespace(profile.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return ctrl.Result{}, fmt.Errorf("list the BareMetalSettings of the namespace: %w", err)
	}
	before := profile.DeepCopy()
	compute(profile, hosts.Items, runs.Items, r.WatchFilter)
	if equality.Semantic.DeepEqual(before.Status, profile.Status) {
		return ctrl.Result{}, nil
	}
	return controllers.Result(r.Client.Status().Patch(ctx, profile, client.MergeFrom(before)))
}

// compute sets the status of a profile from the hosts and the runs of its namespace.
func compute(profile *v1alpha1.BareMetalProfile, hosts []v1alpha1.BareMetalHost, runs []v1alpha1.BareMetalSettings, watchFilter string) {
	var matching, conforming, failed int32
	for i := range hosts {
		host := &hosts[i]
		if !controllers.HasWatchFilter(host, watchFilter) || !controllers.SelectsHost(&profile.Spec.Hosts, host, host.Status.Hardware) {
			continue
		}
		matching++
		if conditions.IsTrue(host, v1alpha1.SettingsConformCondition) {
			conforming++
		}
	}
	wish := controllers.SettingsProfileOf(profile)
	for i := range runs {
		if p := runs[i].Spec.Profile; p != nil && p.SameWish(wish) && runs[i].Spec.Outcome == v1alpha1.SettingsFailed {
			failed++
		}
	}
	status := &profile.Status
	status.MatchingHosts, status.ConformingHosts, status.FailedHosts, status.ObservedGeneration = &matching, &conforming, &failed, profile.Generation
	ready := metav1.Condition{Type: v1alpha1.ReadyCondition, Status: metav1.ConditionFalse, ObservedGeneration: profile.Generation}
	ready.Message = fmt.Sprintf("%d of %d hosts have the settings", conforming, matching)
	switch rollout := profile.Spec.Rollout; {
	case matching == 0:
		ready.Reason, ready.Message = v1alpha1.ReasonProfileNoHosts, "spec.hosts selects no host of the namespace"
	case conforming == matching:
		ready.Status, ready.Reason = metav1.ConditionTrue, v1alpha1.ReasonProfileRolledOut
	case rollout.State != v1alpha1.RolloutActive:
		ready.Reason = v1alpha1.ReasonProfilePaused
		ready.Message += ". Read the condition SettingsConform of the hosts, then set spec.rollout.state to Active"
	case failed >= max(rollout.MaxFailures, 1):
		ready.Reason = v1alpha1.ReasonProfileStopped
		ready.Message += fmt.Sprintf(". On %d hosts the settings were not applied (spec.rollout.maxFailures). The BareMetalSettings of the hosts say why. Change the settings, or raise maxFailures, to continue", failed)
	default:
		ready.Reason = v1alpha1.ReasonProfileRollingOut
	}
	conditions.Set(profile, ready)
}
