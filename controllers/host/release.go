package host

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/claim"
)

// namespaceDeleting is true when a namespace is being deleted with all that is in it, or is gone.
func (r *Reconciler) namespaceDeleting(ctx context.Context, name string) (bool, error) {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := r.APIReader.Get(ctx, types.NamespacedName{Name: name}, namespace); err != nil {
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, fmt.Errorf("read the host's namespace: %w", err)
	}
	return !namespace.DeletionTimestamp.IsZero(), nil
}

// lastConsumer returns what a host that is released keeps of the machine that had it: whose it was, so that the next machine of the
// same owner can have the host again.
func (r *Reconciler) lastConsumer(ctx context.Context, host *v1alpha1.BareMetalHost, now time.Time) (*v1alpha1.LastConsumer, error) {
	consumer, err := controllers.GetConsumer(ctx, r.Client, host)
	if err != nil {
		return nil, fmt.Errorf("read whose machine had the host: %w", err)
	}
	return &v1alpha1.LastConsumer{Name: host.Spec.ConsumerRef.Name, Owner: claim.Owner(consumer.Objects()...), ReleasedAt: metav1.NewTime(now)}, nil
}

// joinQuarantines is the quarantine of a host that is released: the one that the release puts it into tells of the one that it was in already.
func joinQuarantines(before, now *v1alpha1.Quarantine) *v1alpha1.Quarantine {
	if before == nil || now == nil {
		return cmp.Or(before, now)
	}
	both := *now
	both.Message = controllers.Clip(fmt.Sprintf("%s. It was in quarantine before: %s: %s", now.Message, before.Reason, before.Message), controllers.MaxMessage)
	return &both
}
