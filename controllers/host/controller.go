// Package host reconciles BareMetalHosts. A reconcile gathers a view of the host, calls lifecycle.Next to decide, performs the step, and
// writes the status. It makes no decisions of its own, and never waits for a BMC: BMC work runs as jobs of a pool, whose results enqueue the host.
//
// The Reconciler connects the parts that do this: the gatherer (view.go) gathers the view, the performer (actions.go) performs the step, and the
// statusWriter (status.go, conditions.go) writes the status. The jobRunner (job.go) runs the commands to a BMC, and the eventRecorder (events.go)
// records events.
package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/finalizers"
	"sigs.k8s.io/cluster-api/util/predicates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=baremetalhosts,verbs=get;list;watch;patch;record
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=baremetalhosts/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=baremetalmachines,verbs=list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters;machines,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get

// Reconciler reconciles BareMetalHosts. It has the configuration, and connects the parts that do the work.
type Reconciler struct {
	// Client reads from the cache.
	Client client.Client
	// APIReader reads Secrets from the API server: the cache contains no Secrets.
	APIReader client.Reader
	// Pool does the BMC work.
	Pool *bmc.Pool
	// Recorder records the events of hosts. Nil records no events.
	Recorder events.EventRecorder
	// Settings are the timeouts and limits of the lifecycle.
	Settings lifecycle.Settings
	// Tenants restrict what the hosts of a namespace may use.
	Tenants bootconfig.Tenants
	// MediaURLs are the URLs of the boot media as BMCs reach them. Without any, hosts boot by PXE only.
	MediaURLs MediaURLs
	// MediaToken returns the token of the boot medium of a boot, which is a secret. Nil offers no boot media.
	MediaToken func(ctx context.Context, boot *v1alpha1.BareMetalBoot) (string, error)
	// Erasures records the erasures of disks. Nil records none.
	Erasures ErasureRecorder
	// Profiles is true if BareMetalProfiles are applied. Without it no settings run starts, and a host whose run is open waits.
	Profiles bool
	// SensorKinds are the kinds of sensors that EachSensor has. Without a kind no sensor is read.
	SensorKinds []string
	// Clock defaults to the real clock.
	Clock clock.PassiveClock
	// Node is the Node that this process runs on (see OwnNode): its server is not powered off. Nil if it is unknown.
	Node *corev1.Node
	// ProgressDelay is how long the progress of a boot or of a release stays unwritten in the status of a host. With 0 it is throttled as other progress.
	ProgressDelay time.Duration
	// WatchFilter, if not empty, is the value of the label cluster.x-k8s.io/watch-filter of the hosts to reconcile.
	WatchFilter string

	// What the parts below share.
	observations *observations
	writeCache   *controllers.WriteCache[*v1alpha1.BareMetalHost]
	enqueuer     *enqueuer
	queue        *bootQueue
	starts       *startLimiter
	boots        *bootRecords
	// settingsRecords reads nothing without Profiles.
	settingsRecords *settingsRecords
	events          *eventRecorder
	// rollout is nil without Profiles.
	rollout *rollout

	// The parts that do the work of a reconcile, in this order.
	gatherer       *gatherer
	erasureRecords *erasureRecords
	performer      *performer
	status         *statusWriter
	settingsStatus *settingsStatusWriter // nil without Profiles

	watches *watchMapper
}

// SetupWithManager adds the controller to the manager. ctx is the context that the manager runs with.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	if err := mgr.GetFieldIndexer().IndexField(ctx, &v1alpha1.BareMetalMachine{}, providerIDServerIndex, serverOfProviderID); err != nil {
		return fmt.Errorf("index machines by the host of their provider ID: %w", err)
	}
	if err := mgr.GetFieldIndexer().IndexField(ctx, &v1alpha1.BareMetalErasureRequest{}, controllers.RequestIndex, hostNameOfErasureRequest); err != nil {
		return fmt.Errorf("index BareMetalErasureRequests by their host: %w", err)
	}
	if err := r.indexSettings(ctx, mgr); err != nil {
		return err
	}
	r.connect(mgr.GetCache(), ctx.Done())
	enqueued := source.TypedChannel(r.enqueuer.channel, handler.TypedFuncs[types.NamespacedName, reconcile.Request]{
		GenericFunc: func(_ context.Context, e event.TypedGenericEvent[types.NamespacedName], q controllers.Queue) {
			q.Add(reconcile.Request{NamespacedName: e.Object})
		},
	})
	hosts := ctrl.NewControllerManagedBy(mgr).
		Named("baremetalhost").
		Watches(&v1alpha1.BareMetalHost{}, enqueueAndShare(r.observations),
			builder.WithPredicates(predicates.ResourceHasFilterLabel(mgr.GetScheme(), ctrl.LoggerFrom(ctx), r.WatchFilter))).
		Watches(&v1alpha1.BareMetalHost{}, handler.EnqueueRequestsFromMapFunc(r.watches.hostsWithSameServer), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.BareMetalBoot{}, controllers.EnqueueHost, builder.WithPredicates(predicate.NewPredicateFuncs(r.watches.ofOwnHost))).
		Watches(&v1alpha1.BareMetalMachine{}, handler.EnqueueRequestsFromMapFunc(r.watches.hostsOfMachine), builder.WithPredicates(machineChanges)).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(r.watches.hostsOfOwnerMachine)).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.watches.hostsOfCluster),
			builder.WithPredicates(predicates.Any(mgr.GetScheme(), ctrl.LoggerFrom(ctx),
				predicates.ClusterCreateNotPaused(mgr.GetScheme(), ctrl.LoggerFrom(ctx)),
				predicates.ClusterPausedTransitions(mgr.GetScheme(), ctrl.LoggerFrom(ctx)), deleteEvents))).
		WatchesMetadata(&v1alpha1.BareMetalInspection{}, controllers.EnqueueObject, builder.WithPredicates(predicate.NewPredicateFuncs(r.watches.ofOwnHost))).
		Watches(&v1alpha1.BareMetalErasureRequest{}, handler.EnqueueRequestsFromMapFunc(hostOfErasureRequest), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesMetadata(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.watches.hostsOfSecret)).
		WatchesRawSource(enqueued).
		WithOptions(options)
	if r.Profiles {
		hosts = hosts.Watches(&v1alpha1.BareMetalSettings{}, controllers.EnqueueObject, builder.WithPredicates(predicate.NewPredicateFuncs(r.watches.ofOwnHost))).
			Watches(&v1alpha1.BareMetalProfile{}, handler.EnqueueRequestsFromMapFunc(r.watches.hostsOfProfile), builder.WithPredicates(predicate.GenerationChangedPredicate{}))
	}
	return hosts.Complete(r)
}

// indexSettings adds the index that counts the failures of a profile.
func (r *Reconciler) indexSettings(ctx context.Context, mgr ctrl.Manager) error {
	if !r.Profiles {
		return nil
	}
	if err := mgr.GetFieldIndexer().IndexField(ctx, &v1alpha1.BareMetalSettings{}, settingsFailedIndex, failedProfileOf); err != nil {
		return fmt.Errorf("index BareMetalSettings by the profile that failed: %w", err)
	}
	return nil
}

// connect makes the parts of a reconciler whose exported fields are set. A later change of these fields has no effect on the parts. metadata is the
// cache: Client would read the metadata of Secrets from the API server. stopped is closed when the manager stops.
func (r *Reconciler) connect(metadata client.Reader, stopped <-chan struct{}) {
	if r.Clock == nil {
		r.Clock = clock.RealClock{}
	}
	r.observations, r.writeCache = newObservations(), &controllers.WriteCache[*v1alpha1.BareMetalHost]{}
	r.enqueuer = &enqueuer{channel: make(chan event.TypedGenericEvent[types.NamespacedName], 1024), stopped: stopped}
	r.watches = &watchMapper{client: r.Client, filter: r.WatchFilter}
	r.queue = newBootQueue(r.Client, r.Settings, r.WatchFilter, r.enqueuer.enqueue)
	r.starts = newStartLimiter(func(view lifecycle.View) bool { return lifecycle.WantsToBoot(view, r.Settings) }, r.enqueuer.enqueue)
	r.events = &eventRecorder{recorder: r.Recorder, client: r.Client, clock: r.Clock, observations: r.observations}
	reports := &agentReports{client: r.Client, apiReader: r.APIReader, metadata: metadata, observations: r.observations}
	r.boots = &bootRecords{client: r.Client, apiReader: r.APIReader, clock: r.Clock, queue: r.queue, reports: reports}
	r.gatherer = &gatherer{
		client: r.Client, apiReader: r.APIReader, clock: r.Clock, settings: r.Settings, mediaURLs: r.MediaURLs, node: r.Node, observations: r.observations, reports: reports,
		endpoints:       &endpointReader{client: r.Client, apiReader: r.APIReader, metadata: metadata, observations: r.observations},
		conflicts:       &conflictFinder{client: r.Client, tenants: r.Tenants, observations: r.observations},
		requests:        &erasureRequests{client: r.Client, apiReader: r.APIReader, observations: r.observations},
		recordsErasures: r.Erasures != nil,
	}
	r.connectSettings()
	r.erasureRecords = &erasureRecords{apiReader: r.APIReader, recorder: r.Erasures}
	r.performer = r.newPerformer()
	r.status = &statusWriter{
		client: r.Client, settings: r.Settings, observations: r.observations, writeCache: r.writeCache, throttle: controllers.NewThrottle(), progressDelay: r.ProgressDelay,
		events: r.events,
	}
}

// connectSettings makes the parts that change firmware settings.
func (r *Reconciler) connectSettings() {
	r.settingsRecords = &settingsRecords{client: r.Client, apiReader: r.APIReader}
	if !r.Profiles {
		return
	}
	r.gatherer.firmware = &settingsFacts{client: r.Client, observations: r.observations, records: r.settingsRecords}
	r.rollout = newRollout(r.Client, r.Settings, r.observations, r.WatchFilter, r.enqueuer.enqueue)
	r.settingsStatus = &settingsStatusWriter{client: r.Client, observations: r.observations, records: r.settingsRecords}
}

// newPerformer makes the performer, which needs the other parts.
func (r *Reconciler) newPerformer() *performer {
	annotations := &annotationRequests{client: r.Client, apiReader: r.APIReader, observations: r.observations, events: r.events}
	return &performer{
		client: r.Client, observations: r.observations, writeCache: r.writeCache, queue: r.queue, boots: r.boots, annotations: annotations, events: r.events,
		settings: r.settingsRecords,
		jobs: &jobRunner{
			pool: r.Pool, clock: r.Clock, settings: r.Settings, profiles: r.Profiles, observations: r.observations, annotations: annotations, enqueuer: r.enqueuer,
			recheck: &rechecker{
				client: r.Client, apiReader: r.APIReader, settings: r.Settings, tenants: r.Tenants, observations: r.observations, gatherer: r.gatherer,
			},
			executor: &jobExecutor{
				clock: r.Clock, observations: r.observations, events: r.events, sensorKinds: r.SensorKinds,
				firmware: &settingsExecutor{clock: r.Clock, observations: r.observations, events: r.events},
				boot:     &bootDevices{observations: r.observations, mediaURLs: r.MediaURLs, mediaToken: r.MediaToken},
			},
		},
	}
}

// Reconcile moves a host one step forward.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	host := &v1alpha1.BareMetalHost{}
	if err := r.Client.Get(ctx, request.NamespacedName, host); err != nil {
		if apierrors.IsNotFound(err) {
			r.observations.forget(request.NamespacedName)
			r.forget(request.NamespacedName)
			return controllers.Result(r.boots.forgetBootOfDeletedHost(ctx, request.NamespacedName))
		}
		return ctrl.Result{}, err
	}
	if !controllers.HasWatchFilter(host, r.WatchFilter) {
		r.forget(request.NamespacedName)
		return ctrl.Result{}, nil
	}
	host = r.writeCache.Read(host)
	if wait := r.writeCache.Outdated(host, time.Now()); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil // the event of a newer version comes earlier
	}
	if added, err := r.ensureFinalizer(ctx, host); err != nil || added {
		return ctrl.Result{}, err
	}
	return r.advance(ctx, host)
}

// maxRounds is the maximum number of steps that one reconcile performs: the record of a boot, its count, and the first command.
const maxRounds = 3

// advance performs the next step of a host. After the record or the count of a boot it performs the step after that, too: nothing has to happen between them. Each step is
// decided by what this process has written until then, as in a reconcile of its own, which would wait for a worker.
func (r *Reconciler) advance(ctx context.Context, host *v1alpha1.BareMetalHost) (ctrl.Result, error) {
	for round := 1; ; round++ {
		result, again, err := r.performNext(ctx, host)
		if err != nil || !again || round == maxRounds {
			return result, err
		}
		key := client.ObjectKeyFromObject(host)
		host = &v1alpha1.BareMetalHost{}
		if err := r.Client.Get(ctx, key, host); err != nil || !controllers.HasWatchFilter(host, r.WatchFilter) {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
		host = r.writeCache.Read(host)
	}
}

// performNext decides the next step of a host, performs it, and writes the status. again is true if the step after it can be decided at once.
func (r *Reconciler) performNext(ctx context.Context, host *v1alpha1.BareMetalHost) (result ctrl.Result, again bool, err error) {
	key := client.ObjectKeyFromObject(host)
	boot, err := r.boots.get(ctx, key)
	if err != nil {
		return ctrl.Result{}, false, err
	}
	if wait := r.boots.written.Outdated(boot); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, false, nil // the event of a newer version comes earlier
	}
	view, step, err := r.decide(ctx, host, boot)
	if err != nil {
		return ctrl.Result{}, false, err
	}
	r.observations.update(key, func(h *hostObservation) { h.notePowerReadingUsed(view.BMC.PowerAt) })
	if wait := r.starts.delay(key, view, step); wait > 0 { // the power is read again before the boot begins
		result, err = r.writeStatus(ctx, host, view, lifecycle.AwaitStart(step), wait)
		return result, false, err
	}
	if err := r.boots.ensureOwner(ctx, host, boot, step); err != nil {
		r.leaveQueues(host, view.Now)
		result, err = controllers.Result(err)
		return result, false, err
	}
	ctrl.LoggerFrom(ctx).V(4).Info("Next step", "state", step.State, "action", step.Action, "reason", step.Reason)
	if step.Action == lifecycle.RecordErasure {
		view.Erasure.Record = r.erasureRecords.recordErasure(ctx, host, boot)
		if step = lifecycle.Next(view, r.Settings); step.Action == lifecycle.RecordErasure { // the error makes the reconcile repeat it
			_, err := r.status.writeStatus(ctx, host, view, step)
			result, err = controllers.Result(errors.Join(fmt.Errorf("record the erasure of the disks: %w", view.Erasure.Record.Err), err))
			return result, false, err
		}
		logWithoutRecord(ctx, view, step)
		ctrl.LoggerFrom(ctx).V(4).Info("Step after the record", "state", step.State, "action", step.Action, "reason", step.Reason)
	}
	wait, err := r.performer.perform(ctx, host, boot, view, step)
	if err != nil {
		if !apierrors.IsConflict(err) { // the next reconcile resolves a conflict
			r.leaveBootQueues(key, view.Now) // other hosts must not wait for the cause of this error
			r.rollout.leaveAfter(host, step, err, view.Now)
		}
		result, err = controllers.Result(err)
		return result, false, err
	}
	r.events.recordStepEvents(ctx, host, view, step)
	if writesRecord(step.Action) {
		return ctrl.Result{}, startsBoot(step) && boot != nil, nil // the event of this write enqueues the host, and the status is written then
	}
	result, err = r.writeStatus(ctx, host, view, step, wait)
	return result, false, err
}

// writeStatus writes the status after a step, and returns when to reconcile the host again. wait is how long the step itself must wait.
func (r *Reconciler) writeStatus(ctx context.Context, host *v1alpha1.BareMetalHost, view lifecycle.View, step lifecycle.Step, wait time.Duration) (ctrl.Result, error) {
	statusDelay, err := r.status.writeStatus(ctx, host, view, step)
	if err != nil {
		return controllers.Result(err)
	}
	if err := r.settingsStatus.writeSettingsStatus(ctx, host, step); err != nil {
		return controllers.Result(err)
	}
	if wait == 0 || statusDelay > 0 && statusDelay < wait {
		wait = statusDelay
	}
	if !step.RequeueAt.IsZero() && (wait == 0 || step.RequeueAt.Before(view.Now.Add(wait))) {
		wait = max(step.RequeueAt.Sub(view.Now), 10*time.Millisecond)
	}
	return ctrl.Result{RequeueAfter: wait}, nil
}

// decide observes a host and returns what the lifecycle says to do with it.
func (r *Reconciler) decide(ctx context.Context, host *v1alpha1.BareMetalHost, boot *v1alpha1.BareMetalBoot) (view lifecycle.View, step lifecycle.Step, err error) {
	if view, err = r.gatherer.observe(ctx, host, boot); err == nil {
		err = r.rollout.acquire(ctx, host, &view)
	}
	if err == nil {
		err = r.queue.acquireBootSlot(ctx, host, &view)
	}
	if err != nil {
		r.leaveQueues(host, r.Clock.Now())
		return view, step, err
	}
	return view, lifecycle.Next(view, r.Settings), nil
}

// leaveQueues removes a host for which an error occurred before its step: other hosts must not wait for this one.
func (r *Reconciler) leaveQueues(host *v1alpha1.BareMetalHost, now time.Time) {
	r.leaveBootQueues(client.ObjectKeyFromObject(host), now)
	r.rollout.leave(host, now)
}

// forget drops the state of a host that this controller does not reconcile. It keeps the observations of the server, because the host may be recreated.
func (r *Reconciler) forget(key types.NamespacedName) {
	r.queue.forget(key, r.Clock.Now())
	r.starts.Release(key, r.Clock.Now())
	r.rollout.forget(key, r.Clock.Now())
	r.settingsRecords.forget(key)
	r.status.forget(key)
	r.writeCache.Forget(key)
	r.boots.forgetWritten(key)
}

// ensureFinalizer creates the boot of a new host, and then adds the finalizer to the host. A host that was restored from a backup gets the boot of the
// backup instead.
func (r *Reconciler) ensureFinalizer(ctx context.Context, host *v1alpha1.BareMetalHost) (bool, error) {
	if !controllerutil.ContainsFinalizer(host, v1alpha1.HostFinalizer) && host.DeletionTimestamp.IsZero() && host.Spec.ProviderState.Boots == 0 && host.Spec.ConsumerRef == nil {
		err := r.Client.Create(ctx, newBoot(host, v1alpha1.BareMetalBootSpec{}))
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return false, fmt.Errorf("create the host's BareMetalBoot: %w", err)
		}
	}
	added, err := finalizers.EnsureFinalizer(ctx, r.Client, host, v1alpha1.HostFinalizer)
	if added {
		r.writeCache.Record(host)
	}
	return added, err
}

// startsBoot is true for a step that records or counts a boot that goes on.
func startsBoot(step lifecycle.Step) bool {
	return step.Action == lifecycle.CountBoot || step.Action == lifecycle.RecordBoot && step.Boot.VoidedTime == nil && step.Boot.Failure == nil
}

// writesRecord is true for actions that write to the spec or metadata of the host or of its boot, or to status.powerRestore. They always write: the lifecycle chooses them only if
// something differs.
func writesRecord(action lifecycle.Action) bool {
	switch action {
	case lifecycle.RecordSettings, lifecycle.CountSettings, lifecycle.EndSettings:
		return true
	case lifecycle.RecordBoot, lifecycle.CountBoot, lifecycle.ForgetBoot, lifecycle.RecordPowerRestore, lifecycle.RecordCleaning, lifecycle.AllowMove, lifecycle.Release, lifecycle.Isolate, lifecycle.Forget:
		return true
	default:
		return false
	}
}
