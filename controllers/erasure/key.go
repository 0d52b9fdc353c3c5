package erasure

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/erasure"
)

// The key, in the provider's own namespace. RBAC cannot restrict create by name, so the account may create any Secret and any ConfigMap there. The
// ValidatingAdmissionPolicy capbm-system-manager-secrets restricts which Secrets.
//
// +kubebuilder:rbac:groups="",resources=secrets,verbs=create,namespace=capbm-system
// +kubebuilder:rbac:groups="",resources=secrets,resourceNames=capbm-erasure-key,verbs=get,namespace=capbm-system
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=create,namespace=capbm-system
// +kubebuilder:rbac:groups="",resources=configmaps,resourceNames=capbm-erasure-keys,verbs=get;patch,namespace=capbm-system

const (
	// KeySecret is a Secret of the type Opaque. Its key PrivateKeyName has the private key that signs erasures. The role of the boot server does not permit reading it.
	KeySecret = "capbm-erasure-key"
	// PrivateKeyName is the key of KeySecret with the private key of Ed25519: PKCS #8 in PEM, as `openssl genpkey -algorithm ed25519` writes it.
	PrivateKeyName = "ed25519.pem"
	// PublicKeysConfigMap has the public keys in PEM, each under its ID and the suffix ".pem". Keys that are not used any more stay, so that their records can be
	// verified.
	PublicKeysConfigMap = "capbm-erasure-keys"

	keySuffix = ".pem"
)

// key returns the key that signs. It creates the key if there is none, and publishes its public key before anything is signed with it. If several managers create it
// at the same time, all use that of the first.
func (r *Recorder) key(ctx context.Context) (ed25519.PrivateKey, error) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: KeySecret}}
	name := client.ObjectKeyFromObject(secret)
	err := r.APIReader.Get(ctx, name, secret)
	if apierrors.IsNotFound(err) {
		if secret.Data, err = newKey(); err != nil {
			return nil, err
		}
		secret.Type = corev1.SecretTypeOpaque
		if err = r.Client.Create(ctx, secret); apierrors.IsAlreadyExists(err) {
			err = r.APIReader.Get(ctx, name, secret)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read or create Secret %s, which has the key that signs erasures: %w", name, err)
	}
	key, err := erasure.ParsePrivateKey(secret.Data[PrivateKeyName])
	if err != nil {
		return nil, fmt.Errorf("the key %q of Secret %s: %w. Correct it, or delete the Secret: then the provider creates a new key", PrivateKeyName, name, err)
	}
	public, _ := key.Public().(ed25519.PublicKey)
	return key, r.publish(ctx, public)
}

func newKey() (map[string][]byte, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	content, err := erasure.EncodePrivateKey(key)
	return map[string][]byte{PrivateKeyName: content}, err
}

// publish writes a public key to the ConfigMap, if it does not have it. It changes no other key.
func (r *Recorder) publish(ctx context.Context, key ed25519.PublicKey) error {
	name, content := erasure.KeyID(key)+keySuffix, string(erasure.EncodePublicKey(key))
	published, err := r.published(ctx)
	if err != nil || published.Data[name] == content {
		return err
	}
	if published.UID == "" {
		published.Data = map[string]string{name: content}
		if err := r.Client.Create(ctx, published); !apierrors.IsAlreadyExists(err) {
			return withContext(err, "create", published)
		}
	}
	patch, err := json.Marshal(map[string]any{"data": map[string]string{name: content}})
	if err != nil {
		return err
	}
	return withContext(r.Client.Patch(ctx, published, client.RawPatch(types.MergePatchType, patch)), "patch", published)
}

// published returns the ConfigMap of the public keys. It has no UID if it does not exist.
func (r *Recorder) published(ctx context.Context) (*corev1.ConfigMap, error) {
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: PublicKeysConfigMap}}
	err := client.IgnoreNotFound(r.APIReader.Get(ctx, client.ObjectKeyFromObject(config), config))
	return config, withContext(err, "read", config)
}

func withContext(err error, verb string, config *corev1.ConfigMap) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s ConfigMap %s/%s, which has the public keys of erasures: %w", verb, config.Namespace, config.Name, err)
}
