package controllers

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// LabelForMove labels a Secret so that `clusterctl move` moves it, unless the Secret is being deleted. An owner reference would have the same effect,
// but deleting the owner would then delete the user's Secret.
func LabelForMove(ctx context.Context, c client.Client, secret *metav1.PartialObjectMetadata) error {
	if _, ok := secret.Labels[v1alpha1.MoveLabel]; ok || !secret.DeletionTimestamp.IsZero() {
		return nil
	}
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:""}}}`, v1alpha1.MoveLabel)
	return client.IgnoreNotFound(c.Patch(ctx, secret, client.RawPatch(types.MergePatchType, patch)))
}

// LabelSecretForMove labels the Secret of a user, as LabelForMove does. clusterctl finds Secrets with an owner by it. A Secret that does not exist is reported by what needs it, and a
// key without a name is ignored. metadata reads from the cache.
func LabelSecretForMove(ctx context.Context, metadata client.Reader, c client.Client, key client.ObjectKey) error {
	if key.Name == "" {
		return nil
	}
	secret := &metav1.PartialObjectMetadata{}
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	if err := metadata.Get(ctx, key, secret); err != nil || len(secret.OwnerReferences) > 0 {
		return client.IgnoreNotFound(err)
	}
	return LabelForMove(ctx, c, secret)
}

// MovedAway is true for an object that `clusterctl move` deletes: it lives on in another management cluster.
func MovedAway(o client.Object) bool {
	_, moved := o.GetAnnotations()[v1alpha1.DeleteForMoveAnnotation]
	return moved && !o.GetDeletionTimestamp().IsZero()
}

// RemoveFinalizer removes a finalizer from an object, if it has it, with an optimistic lock: a patch writes the whole list of finalizers.
func RemoveFinalizer[T client.Object](ctx context.Context, c client.Client, o T, finalizer string) error {
	before := o.DeepCopyObject().(T) //nolint:forcetypeassert // it is a copy
	if !controllerutil.RemoveFinalizer(o, finalizer) {
		return nil
	}
	return client.IgnoreNotFound(c.Patch(ctx, o, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})))
}
