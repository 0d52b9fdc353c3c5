package rig

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	recording "github.com/capbm-io/cluster-api-provider-baremetal/controllers/erasure"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/erasure"
)

// ErasureKeys returns the public keys that the provider of an API server has published, by their IDs.
func (s *Site) ErasureKeys(ctx context.Context, c client.Reader) (map[string]ed25519.PublicKey, error) {
	config := &corev1.ConfigMap{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: recording.PublicKeysConfigMap}, config); err != nil {
		return nil, err
	}
	keys := map[string]ed25519.PublicKey{}
	for _, content := range config.Data {
		parsed, err := erasure.ParsePublicKeys([]byte(content))
		if err != nil {
			return nil, err
		}
		maps.Copy(keys, parsed)
	}
	return keys, nil
}

// Proven expects exactly one BareMetalErasure of a host. It must have a valid signature by one of the keys, a policy, and these disks, each of which was erased with a
// class that reaches the policy, and with a verification that passed.
func (s *Site) Proven(ctx context.Context, c client.Reader, keys map[string]ed25519.PublicKey, host string, policy wire.ErasePolicy, serials ...string) error {
	var list v1alpha1.BareMetalErasureList
	if err := c.List(ctx, &list, client.InNamespace(s.Namespace), client.MatchingLabels{v1alpha1.ErasureHostLabel: erasure.HostLabel(host)}); err != nil {
		return err
	}
	if len(list.Items) != 1 {
		return fmt.Errorf("host %s has %d BareMetalErasures", host, len(list.Items))
	}
	spec := &list.Items[0].Spec
	key := keys[spec.Signature.KeyID]
	if key == nil {
		return fmt.Errorf("the key %s is not among the public keys", spec.Signature.KeyID)
	}
	problems := []error{erasure.Verify(spec, key), erasure.Check(&spec.Report)}
	if spec.HostName != host || spec.Report.Policy != policy {
		problems = append(problems, fmt.Errorf("the record is about host %s and the policy %s", spec.HostName, spec.Report.Policy))
	}
	var erased []string
	for _, d := range spec.Report.Disks {
		erased = append(erased, d.Disk.SerialNumber)
		if v := d.Verification; d.Outcome != wire.Erased || v == nil || !v.Passed || !d.Class.Reaches(policy) || d.Method == "" || d.Basis == "" {
			problems = append(problems, fmt.Errorf("the record of disk %s: %+v", d.Disk.SerialNumber, d))
		}
	}
	slices.Sort(erased)
	slices.Sort(serials)
	if !slices.Equal(erased, serials) {
		problems = append(problems, fmt.Errorf("the record has the disks %v, and not %v", erased, serials))
	}
	return errors.Join(problems...)
}
