package site

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	kubeadmv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/plane"
)

// supplyInterval is the time between two reads of the Clusters.
const supplyInterval = 500 * time.Millisecond

// Supply does for the Clusters of a plane what their operator would have to do, until the returned function is called:
//
//   - It creates the Secrets of the external etcd of each Cluster.
//   - It sets the control plane endpoint of a BareMetalCluster without one to an endpoint of the rack.
//   - It annotates the KubeadmConfigs of control plane machines with the expiry of the API server's certificate, as KubeadmControlPlane does.
//
// Clusters may have any names, be in any namespaces, and exist side by side. What fails is logged and tried again.
func (l *Lab) Supply(ctx context.Context, p *plane.Plane) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	s := &supplier{client: p.Client, secrets: l.Rack.EtcdSecrets, endpoint: l.Rack.NextEndpoint}
	go func() {
		defer close(done)
		last := ""
		for ctx.Err() == nil {
			text := ""
			if err := s.supply(ctx); err != nil && ctx.Err() == nil {
				text = err.Error()
			}
			if text != last && text != "" {
				l.Log("Failed to supply Clusters: %s", text)
			}
			last = text
			select {
			case <-ctx.Done():
			case <-time.After(supplyInterval):
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// create creates Secrets, unless they exist.
func create(ctx context.Context, c client.Client, secrets []*corev1.Secret) error {
	for _, secret := range secrets {
		if err := c.Create(ctx, secret); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return nil
}

// supplier is what Supply runs.
type supplier struct {
	client   client.Client
	secrets  func(namespace, cluster string) []*corev1.Secret
	endpoint func() (v1alpha1.APIEndpoint, error)
}

// supply supplies the Clusters whose control plane is not initialized yet. Nothing is done to a Cluster that is deleted, or paused, since it may be moving.
func (s *supplier) supply(ctx context.Context) error {
	var clusters clusterv1.ClusterList
	if err := s.client.List(ctx, &clusters); err != nil {
		return err
	}
	var problems []error
	for i := range clusters.Items {
		c := &clusters.Items[i]
		if !c.DeletionTimestamp.IsZero() || ptr.Deref(c.Spec.Paused, false) || ptr.Deref(c.Status.Initialization.ControlPlaneInitialized, false) {
			continue
		}
		if err := s.supplyCluster(ctx, c); err != nil {
			problems = append(problems, fmt.Errorf("the Cluster %s/%s: %w", c.Namespace, c.Name, err))
		}
	}
	return errors.Join(append(problems, s.annotateConfigs(ctx))...)
}

// supplyCluster creates what is missing. KubeadmControlPlane needs the Secrets as soon as the infrastructure is provisioned, which it is not without an endpoint. So the
// Secrets come first. They are created again if they belonged to a Cluster of the same name, with which they are being deleted.
func (s *supplier) supplyCluster(ctx context.Context, c *clusterv1.Cluster) error {
	if err := create(ctx, s.client, s.secrets(c.Namespace, c.Name)); err != nil {
		return err
	}
	ref := c.Spec.InfrastructureRef // of a topology it is set later
	if ref.Kind != "BareMetalCluster" || c.Spec.ControlPlaneEndpoint.IsValid() {
		return nil
	}
	var infra v1alpha1.BareMetalCluster
	if err := s.client.Get(ctx, types.NamespacedName{Namespace: c.Namespace, Name: ref.Name}, &infra); err != nil {
		return client.IgnoreNotFound(err) // it may be created after the Cluster
	}
	if infra.Spec.ControlPlaneEndpoint.Host != "" {
		return nil
	}
	endpoint, err := s.endpoint()
	if err != nil {
		return err
	}
	base := infra.DeepCopy()
	infra.Spec.ControlPlaneEndpoint = endpoint
	return s.client.Patch(ctx, &infra, client.MergeFrom(base)) // the API server refuses it if another endpoint was set meanwhile
}

// annotateConfigs annotates KubeadmConfigs. KubeadmControlPlane reads the certificate through a port of the API server's Pod, which exists only in memory here. Until a
// KubeadmConfig has the annotation, each of its reconciles ends with an error.
func (s *supplier) annotateConfigs(ctx context.Context) error {
	var configs kubeadmv1.KubeadmConfigList
	if err := s.client.List(ctx, &configs, client.HasLabels{clusterv1.MachineControlPlaneLabel}); err != nil {
		return err
	}
	for i := range configs.Items {
		config := &configs.Items[i]
		if _, has := config.Annotations[clusterv1.MachineCertificatesExpiryDateAnnotation]; has || !config.DeletionTimestamp.IsZero() {
			continue
		}
		base := config.DeepCopy()
		expiry := config.CreationTimestamp.UTC().AddDate(1, 0, 0) // as kubeadm's certificates
		metav1.SetMetaDataAnnotation(&config.ObjectMeta, clusterv1.MachineCertificatesExpiryDateAnnotation, expiry.Format(time.RFC3339))
		if err := s.client.Patch(ctx, config, client.MergeFrom(base)); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}
