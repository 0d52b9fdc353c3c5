package bootstrap

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capbm-io/cluster-api-provider-baremetal/api/bootstrap/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/bootstrap/render"
)

// The keys of a bootstrap Secret. Cluster API's contract names the first only. The second is written for a format other than the default, as Cluster API's
// own bootstrap provider does.
const (
	valueKey  = "value"
	formatKey = "format"
)

// secretKey returns the name of a config's Secret. It follows from the config alone, so that it is the same after a move.
func secretKey(config *bootstrapv1.BareMetalConfig) client.ObjectKey {
	return client.ObjectKeyFromObject(config)
}

// reconcileSecret restores what others removed from the config's Secret. missing is true if the Secret does not exist.
func (r *Reconciler) reconcileSecret(ctx context.Context, s *scope) (_ *problem, missing bool, _ error) {
	secret := &corev1.Secret{}
	if err := r.Client.Get(ctx, secretKey(s.config), secret); err != nil {
		return nil, apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	}
	if !isOwn(s, secret) {
		return &problem{reason: bootstrapv1.ReasonSecretConflict, retry: true, message: fmt.Sprintf(
			"Secret %s exists and is not this config's, so it is not overwritten. Delete or rename it, or use a config with another name", secret.Name)}, false, nil
	}
	owner := ownerOf(s.config)
	if util.HasExactOwnerRef(secret.OwnerReferences, owner) && secret.Labels[clusterv1.ClusterNameLabel] == s.cluster.Name {
		return nil, false, nil
	}
	before := secret.DeepCopy()
	secret.OwnerReferences = util.EnsureOwnerRef(secret.OwnerReferences, owner)
	metav1.SetMetaDataLabel(&secret.ObjectMeta, clusterv1.ClusterNameLabel, s.cluster.Name)
	if err := r.Client.Patch(ctx, secret, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return nil, apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	}
	controllers.RecordEvent(r.Recorder, s.config, secret, corev1.EventTypeNormal, bootstrapv1.EventDataSecretRestored, "Restore",
		"Restored the owner and the labels of Secret %s", secret.Name)
	return nil, false, nil
}

// isOwn is true for the Secret of a config. Backup tools restore it without its owner, or with the UID of an owner that does not exist any more. It is the
// config's then if it is as the provider creates it, and the Machine uses it: that a Machine uses it is durable. What a Machine names is not enough, because a user
// writes it who may have no right to Secrets, and the garbage collector deletes what the config owns.
func isOwn(s *scope, secret *corev1.Secret) bool {
	owner := metav1.GetControllerOf(secret)
	if owner != nil && owner.UID == s.config.UID {
		return true
	}
	wasOurs := owner == nil || owner.Kind == configKind && owner.Name == s.config.Name && owner.APIVersion == bootstrapv1.GroupVersion.String()
	rendered := secret.Type == clusterv1.ClusterSecretType && ptr.Deref(secret.Immutable, false) && secret.Annotations[bootstrapv1.ConfigAnnotation] == s.config.Name
	return wasOurs && rendered && ptr.Deref(s.machine.Spec.Bootstrap.DataSecretName, "") == secret.Name
}

// ownerOf returns the owner reference to a config. It does not block the deletion of the config, which would need a right to its finalizers.
func ownerOf(config *bootstrapv1.BareMetalConfig) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: bootstrapv1.GroupVersion.String(), Kind: configKind, Name: config.Name, UID: config.UID, Controller: new(true),
	}
}

// createSecret creates the Secret. A Secret that already exists is an error, and the next reconcile checks it.
func (r *Reconciler) createSecret(ctx context.Context, s *scope, data []byte) error {
	key := secretKey(s.config)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name, Labels: map[string]string{clusterv1.ClusterNameLabel: s.cluster.Name},
			Annotations:     map[string]string{bootstrapv1.ConfigAnnotation: s.config.Name},
			OwnerReferences: []metav1.OwnerReference{ownerOf(s.config)},
		},
		Type:      clusterv1.ClusterSecretType,
		Immutable: new(true),
		Data:      map[string][]byte{valueKey: data},
	}
	if s.config.Spec.Format != bootstrapv1.FormatCloudConfig {
		secret.Data[formatKey] = []byte(s.config.Spec.Format)
	}
	if err := r.Client.Create(ctx, secret); err != nil {
		return fmt.Errorf("create the bootstrap Secret: %w", err)
	}
	controllers.RecordEvent(r.Recorder, s.config, secret, corev1.EventTypeNormal, bootstrapv1.ReasonDataSecretCreated, "Render",
		"Rendered the bootstrap data of Machine %s into Secret %s", s.machine.Name, secret.Name)
	if s.config.Spec.Sentinel == bootstrapv1.SentinelUserData && !render.MentionsSentinel(data) {
		controllers.RecordEvent(r.Recorder, s.config, secret, corev1.EventTypeWarning, bootstrapv1.EventSentinelMissing, "Render", "%s", render.SentinelWarning)
	}
	return nil
}
