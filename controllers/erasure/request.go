package erasure

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/erasure"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=baremetalerasurerequests,verbs=list;watch;delete
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=baremetalerasurerequests/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=baremetalhosts;baremetalboots,verbs=get;list;watch

// RequestReconciler reports what became of BareMetalErasureRequests, and deletes those that have expired. It decides nothing about a server: the host controller
// carries the requests out.
type RequestReconciler struct {
	// Client reads from the cache.
	Client client.Client
	// APIReader reads the records from the API server.
	APIReader client.Reader
	// Recorder records an event for a request that expires without having been carried out.
	Recorder events.EventRecorder
	// Clock defaults to the real clock.
	Clock clock.PassiveClock
	// WatchFilter, if not empty, is the value of the label cluster.x-k8s.io/watch-filter of the hosts whose requests are reconciled.
	WatchFilter string
}

// SetupWithManager adds the controller to the manager. It needs controllers.RequestIndex, which the host controller adds.
func (r *RequestReconciler) SetupWithManager(mgr ctrl.Manager, options controller.Options) error {
	if r.Clock == nil {
		r.Clock = clock.RealClock{}
	}
	return ctrl.NewControllerManagedBy(mgr).Named("baremetalerasurerequest").
		For(&v1alpha1.BareMetalErasureRequest{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.BareMetalHost{}, handler.EnqueueRequestsFromMapFunc(r.requestsOfHost)).
		Watches(&v1alpha1.BareMetalBoot{}, handler.EnqueueRequestsFromMapFunc(r.requestsOfHost), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(options).
		Complete(r)
}

// requestsOfHost returns the requests for the host with the name of an object: a host, or its boot.
func (r *RequestReconciler) requestsOfHost(ctx context.Context, o client.Object) []reconcile.Request {
	var list v1alpha1.BareMetalErasureRequestList
	err := r.Client.List(ctx, &list, client.InNamespace(o.GetNamespace()), client.MatchingFields{controllers.RequestIndex: o.GetName()}, client.UnsafeDisableDeepCopy)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Failed to list the BareMetalErasureRequests of a host")
		return nil
	}
	requests := make([]reconcile.Request, 0, len(list.Items))
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}

// Reconcile writes the condition of a request, or deletes the request.
func (r *RequestReconciler) Reconcile(ctx context.Context, key ctrl.Request) (ctrl.Result, error) {
	request := &v1alpha1.BareMetalErasureRequest{}
	if err := r.Client.Get(ctx, key.NamespacedName, request); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !request.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	facts, err := r.factsOf(ctx, request)
	if err != nil {
		return ctrl.Result{}, err
	}
	left := keptUntil(request, facts.Boot, facts.Now).Sub(facts.Now)
	if left <= 0 { // also without its host, and of hosts that another manager reconciles
		return ctrl.Result{}, r.expire(ctx, request, facts.Host)
	}
	again := ctrl.Result{RequeueAfter: left}
	if facts.Host == nil && r.WatchFilter != "" || facts.Host != nil && !controllers.HasWatchFilter(facts.Host, r.WatchFilter) {
		return again, nil
	}
	var records v1alpha1.BareMetalErasureList
	label := client.MatchingLabels{v1alpha1.ErasureHostLabel: erasure.HostLabel(request.Spec.HostName)}
	if err := r.APIReader.List(ctx, &records, client.InNamespace(request.Namespace), label); err != nil {
		return ctrl.Result{}, fmt.Errorf("list the records of host %s: %w", request.Spec.HostName, err)
	}
	before := request.DeepCopy()
	conditions.Set(request, facts.Outcome(request, records.Items))
	if !equality.Semantic.DeepEqual(before.Status, request.Status) {
		if err := r.Client.Status().Patch(ctx, request, client.MergeFrom(before)); err != nil {
			return controllers.Result(client.IgnoreNotFound(err))
		}
	}
	return again, nil
}

// outcomeKept is how long the outcome of a request can be read that ended after its expireTime.
const outcomeKept = time.Hour

// keptUntil is the time at which a request is deleted: its expiry, or an hour after the end of its erasure if that is later. An erasure that runs has not ended before
// now, and the end of its boot causes another reconcile.
func keptUntil(request *v1alpha1.BareMetalErasureRequest, boot *v1alpha1.BareMetalBootSpec, now time.Time) time.Time {
	expiry, end := erasure.Expiry(request), now
	if !erasure.CarriedOutBy(request, boot) {
		return expiry
	}
	if boot.VoidedTime != nil {
		end = boot.VoidedTime.Time
	}
	if kept := end.Add(outcomeKept); kept.After(expiry) {
		return kept
	}
	return expiry
}

// factsOf returns what a request is compared with. The serial number is the one that the host shows; the host controller knows more.
func (r *RequestReconciler) factsOf(ctx context.Context, request *v1alpha1.BareMetalErasureRequest) (erasure.Facts, error) {
	facts := erasure.Facts{Now: r.Clock.Now()}
	key := client.ObjectKey{Namespace: request.Namespace, Name: request.Spec.HostName}
	host, boot := &v1alpha1.BareMetalHost{}, &v1alpha1.BareMetalBoot{}
	if err := r.Client.Get(ctx, key, host); err != nil {
		return facts, client.IgnoreNotFound(err)
	}
	facts.Host = host
	if h := host.Status.Hardware; h != nil {
		facts.SerialNumber = h.SerialNumber
	}
	if err := r.Client.Get(ctx, key, boot); err != nil {
		return facts, client.IgnoreNotFound(err)
	}
	facts.Boot = &boot.Spec
	return facts, nil
}

// expire deletes a request. The host, if it exists, gets an event unless the outcome was known.
func (r *RequestReconciler) expire(ctx context.Context, request *v1alpha1.BareMetalErasureRequest, host *v1alpha1.BareMetalHost) error {
	if err := r.Client.Delete(ctx, request, client.Preconditions{UID: &request.UID}); err != nil {
		return client.IgnoreNotFound(err)
	}
	why := "it was never reconciled"
	if erased := conditions.Get(request, v1alpha1.ErasedCondition); erased != nil {
		why = erased.Reason + ": " + erased.Message
		if erased.Status == metav1.ConditionTrue || erased.Reason == v1alpha1.ReasonDisksNotErased {
			return nil
		}
	}
	if host != nil {
		controllers.RecordEvent(r.Recorder, host, nil, corev1.EventTypeWarning, controllers.EventErasureRequestExpired, "Erase",
			"BareMetalErasureRequest %s expired without an erasure. %s", request.Name, why)
	}
	return nil
}
