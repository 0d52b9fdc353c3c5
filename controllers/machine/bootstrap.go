package machine

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
)

// +kubebuilder:rbac:groups="",resources=secrets,verbs=list;watch;patch

// reconcileBootstrapSecret labels the bootstrap Secret of a Machine for `clusterctl move` if it has no owner, as one that a user wrote. clusterctl
// finds the Secrets of bootstrap providers by their owners. An owner reference to the Machine would delete the user's Secret with the Machine.
func (r *Reconciler) reconcileBootstrapSecret(ctx context.Context, s *scope) (bool, error) {
	name := s.owner.Spec.Bootstrap.DataSecretName
	if name == nil {
		return false, nil
	}
	secret := &metav1.PartialObjectMetadata{}
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	if err := r.metadata.Get(ctx, client.ObjectKey{Namespace: s.machine.Namespace, Name: *name}, secret); err != nil {
		return false, client.IgnoreNotFound(err) // the boot reports a Secret that is missing
	}
	if len(secret.OwnerReferences) > 0 {
		return false, nil
	}
	return false, controllers.LabelForMove(ctx, r.Client, secret)
}
