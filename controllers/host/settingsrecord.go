package host

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=baremetalsettings,verbs=get;list;watch;create;patch;record
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=baremetalsettings/status,verbs=patch

// settingsResource is the resource of the records, as errors name it.
var settingsResource = v1alpha1.GroupVersion.WithResource("baremetalsettings").GroupResource()

// maxSettingValue is the maximum length of a value in the record of a run, as in the API.
const maxSettingValue = 256

// settingsRecords reads and writes the BareMetalSettings of hosts. An object that this process wrote is read as it was written, until the cache shows it.
type settingsRecords struct {
	client    client.Client // reads from the cache
	apiReader client.Reader
	written   controllers.WriteCache[*v1alpha1.BareMetalSettings]
}

// get returns the BareMetalSettings of a host as this process knows it; nil without one.
func (r *settingsRecords) get(ctx context.Context, host types.NamespacedName) (*v1alpha1.BareMetalSettings, error) {
	object := &v1alpha1.BareMetalSettings{}
	switch err := r.client.Get(ctx, host, object); {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // a missing object is a valid answer
	case err != nil:
		return nil, fmt.Errorf("read the host's BareMetalSettings: %w", err)
	default:
		return r.written.Read(object), nil
	}
}

// ofHost is get, and reads from the API server what the cache lacks: the record of a run that the host counts.
func (r *settingsRecords) ofHost(ctx context.Context, host *v1alpha1.BareMetalHost) (*v1alpha1.BareMetalSettings, error) {
	key := client.ObjectKeyFromObject(host)
	object, err := r.get(ctx, key)
	state := host.Spec.ProviderState
	if err != nil || state.SettingsRuns <= state.SettingsRunsEnded || object != nil && object.Spec.Number >= state.SettingsRuns {
		return object, err
	}
	live := &v1alpha1.BareMetalSettings{}
	if err := r.apiReader.Get(ctx, key, live); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil //nolint:nilnil // it is lost
		}
		return nil, fmt.Errorf("read the host's BareMetalSettings from the API server: %w", err)
	}
	return live, nil
}

// record writes the record of a run, and creates the object if it is missing. It was decided with the record in the view.
func (r *settingsRecords) record(ctx context.Context, host *v1alpha1.BareMetalHost, view lifecycle.View, step lifecycle.Step) error {
	before, err := r.ofHost(ctx, host)
	if err != nil {
		return err
	}
	spec := *step.Settings.DeepCopy()
	for i := range spec.Changes {
		spec.Changes[i].Before = controllers.Clip(spec.Changes[i].Before, maxSettingValue)
	}
	spec.Message = controllers.Clip(spec.Message, controllers.MaxMessage)
	if before == nil {
		_, err := r.create(ctx, host, spec)
		return err
	}
	if decided := view.BIOS.Record; decided != nil && !equality.Semantic.DeepEqual(*decided, before.Spec) {
		return apierrors.NewConflict(settingsResource, host.Name, errRecordChanged)
	}
	object := before.DeepCopy()
	object.Spec = spec
	setSettingsOwner(object, host)
	if r.written.Outdated(before, time.Now()) > 0 { // the API server would answer with another conflict
		return apierrors.NewConflict(settingsResource, host.Name, errRecordChanged)
	}
	if err := r.client.Patch(ctx, object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		if apierrors.IsConflict(err) {
			r.written.NoteConflict(before, time.Now())
		}
		return fmt.Errorf("record the settings run: %w", err)
	}
	r.written.Record(object)
	ctrl.LoggerFrom(ctx).Info("Recorded the settings run", "number", spec.Number, "outcome", spec.Outcome, "message", step.Message)
	return nil
}

// create creates the BareMetalSettings of a host.
func (r *settingsRecords) create(ctx context.Context, host *v1alpha1.BareMetalHost, spec v1alpha1.BareMetalSettingsSpec) (*v1alpha1.BareMetalSettings, error) {
	object := &v1alpha1.BareMetalSettings{ObjectMeta: metav1.ObjectMeta{Namespace: host.Namespace, Name: host.Name}, Spec: spec}
	setSettingsOwner(object, host)
	if err := r.client.Create(ctx, object); err != nil {
		return nil, fmt.Errorf("create the host's BareMetalSettings: %w", err)
	}
	return object, nil
}

// setSettingsOwner makes a host the owner of its BareMetalSettings: backup tools remove the reference, and a restored host has a new UID.
func setSettingsOwner(object *v1alpha1.BareMetalSettings, host *v1alpha1.BareMetalHost) {
	object.OwnerReferences = []metav1.OwnerReference{controllers.OwnedByHost(host)}
}

func (r *settingsRecords) forget(host types.NamespacedName) { r.written.Forget(host) }
