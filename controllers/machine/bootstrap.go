package machine

import (
	"context"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
)

// +kubebuilder:rbac:groups="",resources=secrets,verbs=list;watch;patch

// reconcileSecrets labels the Secrets that a machine needs for `clusterctl move`: bootstrap data that a user wrote, and the credentials of its image's registry.
func (r *Reconciler) reconcileSecrets(ctx context.Context, s *scope) (bool, error) {
	names := []string{ptr.Deref(s.owner.Spec.Bootstrap.DataSecretName, "")}
	if image := s.machine.Spec.Image; image != nil {
		names = append(names, image.PullSecret)
	}
	for _, name := range names {
		if err := controllers.LabelSecretForMove(ctx, r.metadata, r.Client, client.ObjectKey{Namespace: s.machine.Namespace, Name: name}); err != nil {
			return false, err
		}
	}
	return false, nil
}
