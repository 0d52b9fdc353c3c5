package boot

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image/manifest"
)

// Images has the images that agents write. image.Service and image.Client implement it.
type Images interface {
	// Prepare returns a converted image, or starts its download. It does not wait: until the image is ready, the error is an *image.NotReady.
	Prepare(ctx context.Context, namespace string, source image.Source, credentials image.Credentials) (image.Info, error)
	// Open opens a converted image.
	Open(namespace string, source image.Source) (*image.Opened, error)
}

// errNoImages is the error of a boot server without an image service.
var errNoImages = errors.New("this boot server has no folder for images: set images.dir of its configuration file")

func sourceOf(i *v1alpha1.Image) image.Source {
	return image.Source{URL: i.URL, Checksum: i.Checksum, Raw: i.Format == v1alpha1.ImageRaw}
}

// imageStore prepares and opens the images of machines.
type imageStore struct {
	images Images // nil without images
	data   dataReader
	tokens *tokenChecker
}

// prepareImage returns the converted image of a machine.
func (s *imageStore) prepareImage(ctx context.Context, namespace string, i *v1alpha1.Image) (image.Info, error) {
	if s.images == nil {
		return image.Info{}, errNoImages
	}
	credentials, err := s.pullCredentials(ctx, namespace, i.PullSecret)
	if err != nil {
		return image.Info{}, err
	}
	return s.images.Prepare(ctx, namespace, sourceOf(i), credentials)
}

// openImage opens the converted image of a host's machine.
func (s *imageStore) openImage(ctx context.Context, host *v1alpha1.BareMetalHost, i *v1alpha1.Image) (*image.Opened, error) {
	if s.images == nil {
		return nil, errNoImages
	}
	opened, err := s.images.Open(host.Namespace, sourceOf(i))
	switch {
	case errors.Is(err, image.ErrNotYet):
		if name := host.Namespace + "/" + host.Name; !s.tokens.withinBudget(name) { // each preparation reads the pull Secret
			return nil, tooEarly("%s asks too often for an image that is being prepared", name)
		}
		// Another replica of the boot server made the plan, or the image was evicted. This starts its preparation here.
		_, err := s.prepareImage(ctx, host.Namespace, i)
		return nil, errors.Join(pxe.ErrNotYet, err)
	case err != nil:
		return nil, err
	}
	return opened, nil
}

// pullCredentials reads the credentials for a registry; nil without a Secret.
func (s *imageStore) pullCredentials(ctx context.Context, namespace, name string) (image.Credentials, error) {
	if name == "" {
		return nil, nil
	}
	var secret corev1.Secret
	if err := s.data.read(ctx, namespace, name, &secret); err != nil {
		return nil, &image.Error{Reason: v1alpha1.ReasonImageUnauthorized, Message: fmt.Sprintf("read the Secret that spec.image.pullSecret names: %v", err)}
	}
	config := secret.Data[corev1.DockerConfigJsonKey]
	if secret.Type != corev1.SecretTypeDockerConfigJson || len(config) == 0 {
		return nil, &image.Error{
			Reason: v1alpha1.ReasonImageUnauthorized, Message: fmt.Sprintf("Secret %q, which spec.image.pullSecret names, is not of the type %s", name, corev1.SecretTypeDockerConfigJson),
		}
	}
	if len(config) > maxPullCredentials {
		return nil, &image.Error{
			Reason: v1alpha1.ReasonImageUnauthorized, Message: fmt.Sprintf("Secret %q, which spec.image.pullSecret names, has %d bytes, more than %d", name, len(config), maxPullCredentials),
		}
	}
	return config, nil
}

// maxPullCredentials is the maximum size of the document in a pull Secret, in bytes: the image service keeps one for each image that it prepares.
const maxPullCredentials = 64 << 10

// imageReason returns the condition reason of an error of prepareImage. ok is false while the image is being prepared.
func imageReason(err error) (reason string, ok bool) {
	if e := new(image.Error); errors.As(err, &e) {
		return string(e.Reason), true
	}
	return v1alpha1.ReasonImageUnreachable, !errors.Is(err, image.ErrNotYet)
}

// The intervals at which the state of an image is checked: while it is prepared, after an error, and while a ready image waits for its boot. The image service is another
// process, and sends no events (decision 0054).
const (
	imagePollInterval  = 2 * time.Second
	imageErrorInterval = 15 * time.Second
	imageKeepInterval  = 5 * time.Minute
)

// imageReconciler prepares the images of claimed hosts before they boot, so that a bad image costs no power cycle, and writes their state to the status of the boots. It
// fetches the files of machines with spec.boot too. Every boot server runs one, because each has its own images and files.
type imageReconciler struct {
	*lookup
	*bootRecords
	*imageStore
	*bootstrapReader
	*eventRecorder

	Client     client.Client
	Prefetcher Prefetcher // nil fetches none
	Log        logr.Logger
}

// SetupImages adds the controller that prepares images to a manager.
func (b *Booter) SetupImages(mgr ctrl.Manager) error {
	r := b.newImageReconciler()
	return ctrl.NewControllerManagedBy(mgr).Named("image").
		For(&v1alpha1.BareMetalHost{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.BareMetalMachine{}, handler.EnqueueRequestsFromMapFunc(r.hostOf)).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(r.hostOf), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(controller.Options{NeedLeaderElection: new(false), MaxConcurrentReconciles: 4}).
		Complete(r)
}

// hostOf returns the host whose image or files may be prepared when a BareMetalMachine changes, or when the Machine that owns it gets its bootstrap data.
func (r *imageReconciler) hostOf(ctx context.Context, o client.Object) []reconcile.Request {
	m, ok := o.(*v1alpha1.BareMetalMachine)
	if owner, owns := o.(*clusterv1.Machine); owns {
		m = &v1alpha1.BareMetalMachine{}
		ok = r.Client.Get(ctx, types.NamespacedName{Namespace: owner.Namespace, Name: owner.Spec.InfrastructureRef.Name}, m) == nil
	}
	if !ok || m.Status.HostRef == nil {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: m.Namespace, Name: m.Status.HostRef.Name}}}
}

// Reconcile prepares the image of a host.
func (r *imageReconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	host := &v1alpha1.BareMetalHost{}
	if err := r.Client.Get(ctx, request.NamespacedName, host); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	boot, err := r.bootOf(ctx, request.NamespacedName)
	if err != nil || boot == nil {
		return reconcile.Result{RequeueAfter: imageErrorInterval}, err
	}
	a, err := r.view(ctx, r.Client, host, boot)
	switch {
	case err != nil:
		return reconcile.Result{}, err
	case prefetches(a):
		return reconcile.Result{RequeueAfter: r.prefetch(a)}, nil
	case !wantsImage(a):
		return reconcile.Result{}, nil
	}
	status, again := r.imageStatus(ctx, a)
	if was := boot.Status.Image; was == nil || *was != status {
		if err := controllers.ApplyImage(ctx, r.Client, request.NamespacedName, status); err != nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
		r.recordImageEvent(boot, was, status)
	}
	return reconcile.Result{RequeueAfter: again}, nil
}

// wantsImage is true for a host whose machine has an image that is not on the disk yet.
func wantsImage(a attempt) bool {
	if a.consumer == nil || a.consumer.BareMetalMachine == nil || a.consumer.BareMetalMachine.Spec.Image == nil {
		return false
	}
	switch lifecycle.StateOf(a.view) {
	case lifecycle.StateClaimed:
		return true
	case lifecycle.StateBooting:
		return a.boot.Spec.AgentDoneTime == nil
	default:
		return false
	}
}

// imageStatus prepares the image of an attempt and returns its state, and when to check it again.
func (r *imageReconciler) imageStatus(ctx context.Context, a attempt) (v1alpha1.ImageStatus, time.Duration) {
	source := a.consumer.BareMetalMachine.Spec.Image
	status := v1alpha1.ImageStatus{Checksum: source.Checksum, ClaimID: a.host.Spec.ConsumerRef.ClaimID}
	was := a.boot.Status.Image
	elsewhere := was != nil && was.Ready && was.Checksum == status.Checksum && was.ClaimID == status.ClaimID // another replica, or the boot server of another network, has it
	info, err := r.prepareImage(ctx, a.host.Namespace, source)
	waiting := new(image.NotReady)
	switch {
	case err == nil && info.Header.Table == manifest.NoTable && source.DataSource != wire.DataSourceNone:
		status.Reason, status.Message = wire.ReasonPartitionTableInvalid, fmt.Sprintf("The image %s has no partition table, and so no place for the bootstrap data: correct "+
			"spec.image.url, or set spec.image.dataSource to None", withoutQuery(source.URL))
		return status, imageErrorInterval
	case err == nil:
		if reason, message := r.bootstrapProblem(ctx, a); reason != "" {
			status.Reason, status.Message = reason, message
			return status, imageErrorInterval
		}
		status.Ready, status.SizeBytes, status.DataBytes = true, info.Header.Size, info.DataBytes
		return status, imageKeepInterval
	case errors.As(err, &waiting):
		if elsewhere {
			return *was, imagePollInterval
		}
		status.Reason, status.Message = v1alpha1.ReasonWaitingForImage, fmt.Sprintf("The boot server prepares the image %s: %s", withoutQuery(source.URL), waiting.Step)
		return status, imagePollInterval
	case elsewhere:
		r.Log.Error(err, "Failed to prepare an image that another boot server has", "host", client.ObjectKeyFromObject(a.host), "url", withoutQuery(source.URL))
		return *was, imageErrorInterval
	default:
		reason, _ := imageReason(err)
		status.Reason, status.Message = reason, controllers.Clip(fmt.Sprintf("The image %s cannot be used: %v", withoutQuery(source.URL), err), controllers.MaxMessage)
		return status, imageErrorInterval
	}
}

// bootstrapProblem returns why the bootstrap data cannot be on the disk beside the image, or an empty reason. Bad data then costs no power cycle. A problem
// that may be over when the server boots, such as a missing permission, is not returned.
func (r *imageReconciler) bootstrapProblem(ctx context.Context, a attempt) (reason, message string) {
	if a.consumer.BootstrapSecretName() == "" {
		return v1alpha1.ReasonWaitingForBootstrapData, "Waiting for the bootstrap provider to write the bootstrap data"
	}
	_, err := r.readBootstrapData(ctx, a)
	if !errors.As(err, new(invalidDataError)) {
		return "", ""
	}
	return v1alpha1.ReasonBootstrapDataInvalid, controllers.Clip(fmt.Sprintf("The bootstrap data cannot be used: %v. Correct the template or "+
		"the bootstrap config of the Machine, then delete the Machine to have it replaced", err), controllers.MaxMessage)
}

// withoutQuery returns a URL without its query, which may contain a token.
func withoutQuery(u string) string {
	u, _, _ = strings.Cut(u, "?")
	return u
}

// recordImageEvent records that an image is ready, or cannot be used.
func (r *imageReconciler) recordImageEvent(boot *v1alpha1.BareMetalBoot, was *v1alpha1.ImageStatus, is v1alpha1.ImageStatus) {
	switch {
	case is.Ready:
		r.recordAgentEvent(boot, false, controllers.EventImageReady, "The image is ready: %d MB on the disk, %d MB of data", is.SizeBytes/1_000_000, is.DataBytes/1_000_000)
	case is.Reason != v1alpha1.ReasonWaitingForImage && is.Reason != v1alpha1.ReasonWaitingForBootstrapData && (was == nil || was.Reason != is.Reason):
		r.recordAgentEvent(boot, true, controllers.EventImageProblem, "%s: %s", is.Reason, is.Message)
	}
}
