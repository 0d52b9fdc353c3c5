package controllers

import (
	"context"
	"fmt"
	"strconv"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/claim"
)

// The indexes of BareMetalHosts in the cache.
const (
	// ConsumerIndex finds the hosts that a BareMetalMachine has, by the machine's name.
	ConsumerIndex = claim.ConsumerField
	// FreeIndex finds the hosts that no machine has, by the value "true".
	FreeIndex = "spec.consumerRef.free"
	// MACIndex finds the hosts with a boot MAC address.
	MACIndex = "spec.bootMACAddress"
	// SecretIndex finds the hosts that refer to a Secret, by its name.
	SecretIndex = "spec.bmc.secrets"
)

// AddIndexes adds the indexes of BareMetalHosts to the manager's cache.
func AddIndexes(ctx context.Context, mgr manager.Manager) error {
	for name, values := range map[string]func(*v1alpha1.BareMetalHost) []string{
		ConsumerIndex: func(h *v1alpha1.BareMetalHost) []string {
			if h.Spec.ConsumerRef == nil {
				return nil
			}
			return []string{h.Spec.ConsumerRef.Name}
		},
		FreeIndex: func(h *v1alpha1.BareMetalHost) []string {
			return []string{strconv.FormatBool(h.Spec.ConsumerRef == nil)}
		},
		MACIndex: func(h *v1alpha1.BareMetalHost) []string { return []string{h.Spec.BootMACAddress} },
		SecretIndex: func(h *v1alpha1.BareMetalHost) []string {
			return []string{h.Spec.BMC.CredentialsSecretName, h.Spec.BMC.CASecretName}
		},
	} {
		extract := func(o client.Object) []string { return values(o.(*v1alpha1.BareMetalHost)) } //nolint:forcetypeassert // the index is of hosts
		if err := mgr.GetFieldIndexer().IndexField(ctx, &v1alpha1.BareMetalHost{}, name, extract); err != nil {
			return fmt.Errorf("index hosts by %s: %w", name, err)
		}
	}
	return nil
}
