// Package erasure records the erasures of hosts as signed BareMetalErasures. The host controller calls Record before it releases a host, and does not release it
// if Record fails.
//
// recorder.go writes the records, key.go keeps the key that signs them, request.go reports what became of requests to erase. The rules are in inventory/erasure.
package erasure

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/erasure"
)

// Kubernetes does not know the verb record. The ValidatingAdmissionPolicy capbm-system-erasures lets only an account with this verb create records.
//
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=baremetalerasures,verbs=get;list;create;delete;record
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=list

// Recorder records erasures. It has no state and no cache: erasures are rare, and what it reads decides about a proof. Its methods may be called concurrently.
type Recorder struct {
	// Client writes records, the key and the public keys.
	Client client.Client
	// APIReader reads from the API server.
	APIReader client.Reader
	// Namespace is the provider's own namespace, which has the key.
	Namespace string
	// Clock gives recordedTime. Defaults to the real clock.
	Clock clock.PassiveClock
}

// NewRecorder returns a Recorder that reads and writes with the clients of a manager. namespace is the provider's own.
func NewRecorder(mgr ctrl.Manager, namespace string) *Recorder {
	return &Recorder{Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Namespace: namespace}
}

// Record writes the signed record of the erasure in a boot, and deletes the records of the host that it supersedes. It is idempotent: a record that exists with the
// same content is success, also if the host's hardware is not known any more. The caller must not release the host if Record fails.
//
// An error for which errors.As finds an *erasure.UnprovenError is permanent: the report proves no erasure, so the host belongs into quarantine. Every other
// error is about the API server, the key or an existing record, and ends when that is solved: call Record again.
//
// Superseded records stay while a Cluster of the namespace is paused. If they cannot be deleted, that is logged and no error: a policy that forbids the deletion
// of proofs must not keep hosts, and the next erasure of the host deletes them.
func (r *Recorder) Record(ctx context.Context, host *v1alpha1.BareMetalHost, boot *v1alpha1.BareMetalBoot) error {
	spec, err := specOf(host, boot)
	if err != nil {
		return err
	}
	key, err := r.key(ctx)
	if err != nil {
		return err
	}
	record := &v1alpha1.BareMetalErasure{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: host.Namespace, Name: erasure.Name(host.Name, spec.ClaimID, spec.BootNumber),
			Labels: map[string]string{v1alpha1.ErasureHostLabel: erasure.HostLabel(host.Name)},
		},
		Spec: *spec,
	}
	record.Spec.RecordedTime = metav1.NewTime(r.clock().Now().UTC())
	if err := erasure.Sign(&record.Spec, key); err != nil {
		return fmt.Errorf("sign the erasure: %w", err)
	}
	switch err := r.Client.Create(ctx, record.DeepCopy()); {
	case apierrors.IsAlreadyExists(err):
		if record, err = r.existing(ctx, record); err != nil {
			return err
		}
	case err != nil:
		return fmt.Errorf("create BareMetalErasure %s: %w", record.Name, err)
	}
	if err := r.prune(ctx, record); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Failed to delete superseded BareMetalErasures", "BareMetalErasure", client.ObjectKeyFromObject(record))
	}
	return nil
}

func (r *Recorder) clock() clock.PassiveClock {
	if r.Clock == nil {
		return clock.RealClock{}
	}
	return r.Clock
}

// specOf returns what is recorded, without its time and its signature. Its errors are UnprovenErrors.
func specOf(host *v1alpha1.BareMetalHost, boot *v1alpha1.BareMetalBoot) (*v1alpha1.BareMetalErasureSpec, error) {
	b := &boot.Spec
	reason := ""
	switch {
	case boot.Name != host.Name || boot.Namespace != host.Namespace:
		reason = "the boot belongs to another host"
	case b.Purpose != v1alpha1.PurposeClean:
		reason = fmt.Sprintf("boot %d has the purpose %q", b.Number, b.Purpose)
	case b.ClaimID == "" || b.Number == 0:
		reason = "the boot has no claimID or no number"
	case b.Failure != nil:
		reason = fmt.Sprintf("boot %d failed: %s", b.Number, b.Failure.Message)
	case b.AgentDoneTime == nil || b.Erasure == nil:
		reason = fmt.Sprintf("the agent reported no erasure in boot %d", b.Number)
	case b.Erasure.Policy != cmp.Or(b.CleaningPolicy, wire.PolicyMetadata): // without a policy, what the provider wrote is erased
		reason = fmt.Sprintf("boot %d has the policy %q, and its report %q", b.Number, b.CleaningPolicy, b.Erasure.Policy)
	}
	if reason != "" {
		return nil, &erasure.UnprovenError{Reason: reason}
	}
	if err := erasure.Check(b.Erasure); err != nil {
		return nil, err
	}
	spec := &v1alpha1.BareMetalErasureSpec{
		Namespace: host.Namespace, HostName: host.Name, ClaimID: b.ClaimID, BootNumber: b.Number, MachineName: b.MachineName, Report: *b.Erasure.DeepCopy(),
		Server: v1alpha1.ErasedServer{BootMACAddresses: host.Spec.BootMACAddresses},
	}
	if b.MachineName != "" {
		spec.ProviderID = inventory.ProviderID(host.Namespace, host.Name, b.MachineName)
	}
	if h := host.Status.Hardware; h != nil {
		spec.Server.Manufacturer, spec.Server.Model, spec.Server.SerialNumber, spec.Server.SystemUUID = h.Manufacturer, h.Model, h.SerialNumber, h.SystemUUID
	}
	return spec, nil
}

// existing returns the record that exists under the name of a new one. It must be about the same erasure, and have a signature of a key that is or was the
// provider's: a record that somebody else wrote is no proof.
func (r *Recorder) existing(ctx context.Context, record *v1alpha1.BareMetalErasure) (*v1alpha1.BareMetalErasure, error) {
	found := &v1alpha1.BareMetalErasure{}
	if err := r.APIReader.Get(ctx, client.ObjectKeyFromObject(record), found); err != nil {
		return nil, fmt.Errorf("read BareMetalErasure %s: %w", record.Name, err)
	}
	if !found.DeletionTimestamp.IsZero() {
		return nil, fmt.Errorf("the BareMetalErasure %s is being deleted: it is created again when it is gone", found.Name)
	}
	same, err := sameErasure(&record.Spec, &found.Spec)
	switch {
	case err != nil:
		return nil, err
	case !same:
		return nil, fmt.Errorf("the BareMetalErasure %s has another content than the boot of the host: somebody else wrote it. Keep a copy, and delete it", found.Name)
	}
	keys, err := r.publicKeys(ctx)
	if err != nil {
		return nil, err
	}
	key, known := keys[found.Spec.Signature.KeyID]
	if !known {
		return nil, fmt.Errorf("the BareMetalErasure %s was signed with the key %q, which is not in ConfigMap %s/%s: add the public key of the management cluster "+
			"that it comes from, or delete the record", found.Name, found.Spec.Signature.KeyID, r.Namespace, PublicKeysConfigMap)
	}
	if err := erasure.Verify(&found.Spec, key); err != nil {
		return nil, fmt.Errorf("the BareMetalErasure %s: %w. Keep a copy, and delete it", found.Name, err)
	}
	return found, nil
}

// sameErasure is true if two records are about the same erasure. What identifies the server comes from the host's status, which may be lost between two calls.
func sameErasure(a, b *v1alpha1.BareMetalErasureSpec) (bool, error) {
	c := *a
	c.RecordedTime, c.Server, c.ProviderID = b.RecordedTime, b.Server, b.ProviderID
	first, err := erasure.Canonical(&c)
	if err != nil {
		return false, err
	}
	second, err := erasure.Canonical(b)
	return bytes.Equal(first, second), err
}

// prune deletes the records that a record supersedes. It deletes nothing while a Cluster of the namespace is paused, because a move would lose what it has already
// listed.
func (r *Recorder) prune(ctx context.Context, record *v1alpha1.BareMetalErasure) error {
	var records v1alpha1.BareMetalErasureList
	if err := r.APIReader.List(ctx, &records, client.InNamespace(record.Namespace), client.MatchingLabels{v1alpha1.ErasureHostLabel: erasure.HostLabel(record.Spec.HostName)}); err != nil {
		return fmt.Errorf("list the records of the host: %w", err)
	}
	superseded := erasure.Superseded(records.Items, record)
	if len(superseded) == 0 {
		return nil
	}
	if paused, err := controllers.PausedCluster(ctx, r.APIReader, record.Namespace); err != nil || paused != "" {
		return err
	}
	for i := range superseded {
		// The precondition: a record that was created again since the list is not the one that was read.
		if err := r.Client.Delete(ctx, &superseded[i], client.Preconditions{UID: &superseded[i].UID}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete BareMetalErasure %s: %w", superseded[i].Name, err)
		}
	}
	return nil
}

// publicKeys returns the keys that are or were the provider's, by their IDs.
func (r *Recorder) publicKeys(ctx context.Context) (map[string]ed25519.PublicKey, error) {
	published, err := r.published(ctx)
	if err != nil {
		return nil, err
	}
	keys := map[string]ed25519.PublicKey{}
	for name, content := range published.Data {
		parsed, err := erasure.ParsePublicKeys([]byte(content))
		if err != nil {
			continue // of what users added, a record that needs it has no known key
		}
		// The name counts, as it does for people: a key under another name is not taken.
		if id := strings.TrimSuffix(name, keySuffix); parsed[id] != nil {
			keys[id] = parsed[id]
		}
	}
	return keys, nil
}
