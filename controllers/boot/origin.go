package boot

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	capisecret "sigs.k8s.io/cluster-api/util/secret"

	bootstrapv1 "github.com/capbm-io/cluster-api-provider-baremetal/api/bootstrap/v1alpha1"
)

// isBootstrapConfig is true for an object of the API group of bootstrap providers. The user who writes a Machine chooses its configRef, so a configRef that names the
// owner of a Secret shows nothing: the owner of a kubeconfig is a control plane.
func isBootstrapConfig(owner *metav1.OwnerReference) bool {
	return strings.HasPrefix(owner.APIVersion, bootstrapv1.GroupVersion.Group+"/")
}

// checkOrigin returns nil for a Secret that may have the bootstrap data of a Machine. A user who may write Machines may not be allowed to read Secrets, and the
// bootstrap data goes to a server of that user. So the Secret must not be one that Cluster API keeps for a cluster, such as a kubeconfig, which has the same key;
// nor one of another cluster; nor one that another object controls.
func checkOrigin(machine *clusterv1.Machine, s *corev1.Secret) error {
	owner, own := metav1.GetControllerOf(s), isOfConfig(machine, s)
	if _, purpose, err := capisecret.ParseSecretName(s.Name); err == nil && !own {
		return fmt.Errorf("bootstrap Secret %q is not served: by its name it is a %s Secret of a cluster. Set spec.bootstrap of the Machine to a bootstrap config, "+
			"or to a Secret with another name", s.Name, purpose)
	}
	if cluster := s.Labels[clusterv1.ClusterNameLabel]; cluster != "" && cluster != machine.Spec.ClusterName {
		return fmt.Errorf("bootstrap Secret %q is not served: by its label %s it belongs to Cluster %q, and the Machine to Cluster %q",
			s.Name, clusterv1.ClusterNameLabel, cluster, machine.Spec.ClusterName)
	}
	if owner != nil && !own && owner.UID != machine.UID {
		return fmt.Errorf("bootstrap Secret %q is not served: %s %q controls it, and spec.bootstrap.configRef of the Machine does not name that", s.Name, owner.Kind, owner.Name)
	}
	return nil
}

// isOfConfig is true for a Secret that the bootstrap config of a Machine controls.
func isOfConfig(machine *clusterv1.Machine, s *corev1.Secret) bool {
	owner, config := metav1.GetControllerOf(s), machine.Spec.Bootstrap.ConfigRef
	return owner != nil && isBootstrapConfig(owner) && owner.Kind == config.Kind && owner.Name == config.Name
}

// checkConfig returns an error for the Secret of a bootstrap config that belongs to another Machine, or to none yet. Cluster API makes one Machine the owner of a config,
// but also reconciles a second one whose spec names it.
func (r *bootstrapReader) checkConfig(ctx context.Context, machine *clusterv1.Machine, s *corev1.Secret) error {
	if !isOfConfig(machine, s) {
		return nil
	}
	owner, config := metav1.GetControllerOf(s), &metav1.PartialObjectMetadata{}
	config.SetGroupVersionKind(schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind))
	if err := r.data.read(ctx, machine.Namespace, owner.Name, config); err != nil {
		return fmt.Errorf("read the bootstrap config that controls bootstrap Secret %q: %w", s.Name, err)
	}
	if by := metav1.GetControllerOf(config); config.UID != owner.UID || by == nil || by.UID != machine.UID {
		return fmt.Errorf("bootstrap Secret %q is not served: %s %q does not belong to Machine %q. Set spec.bootstrap.configRef of the Machine to a bootstrap config of its own",
			s.Name, owner.Kind, owner.Name, machine.Name)
	}
	return nil
}
