package host

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
)

// conflictFinder finds the conflicts of a host with other hosts, and with the machines that have or had it.
type conflictFinder struct {
	client       client.Client // reads from the cache
	tenants      bootconfig.Tenants
	observations *observations
}

// observeIdentityConflicts finds the other hosts that own the BMC, a MAC address or the hardware of a host.
func (f *conflictFinder) observeIdentityConflicts(ctx context.Context, host *v1alpha1.BareMetalHost, view *lifecycle.View) error {
	hardware := f.observations.get(client.ObjectKeyFromObject(host)).hardware
	view.Identity.Server = controllers.IdentityOf(host, hardware)
	if err := controllers.CheckPermitted(f.tenants, host); err != nil {
		view.Identity.NotPermitted = err
	}
	for taken, by := range map[**types.NamespacedName]controllers.IdentityConflict{
		&view.Identity.BMCTakenBy: controllers.BMCConflict(host), &view.Identity.HardwareTakenBy: controllers.HardwareConflict(host, hardware),
	} {
		var err error
		if *taken, err = f.keeperOf(ctx, by); err != nil {
			return err
		}
	}
	for _, mac := range host.Spec.BootMACAddresses {
		by, err := f.keeperOf(ctx, controllers.MACConflict(host, mac))
		if err != nil {
			return err
		}
		if by != nil {
			view.Identity.TakenMAC, view.Identity.MACTakenBy = mac, by
			return nil
		}
	}
	return nil
}

// keeperOf returns the other host that keeps a value of a host; nil without a conflict.
func (f *conflictFinder) keeperOf(ctx context.Context, conflict controllers.IdentityConflict) (*types.NamespacedName, error) {
	keeper, err := conflict.PermittedBy(f.tenants).Keeper(ctx, f.client)
	if err != nil || keeper == nil {
		return nil, err
	}
	return new(client.ObjectKeyFromObject(keeper)), nil
}

// observeClaimConflicts finds conflicting claims on a host and its machine:
//   - for a claimed host, other hosts that the same machine has or was served by
//   - for a host without a consumer, a machine whose provider ID names the host. This happens when a host object is recreated without its
//     spec.consumerRef.
//   - for an open boot, whether its machine still waits for a host. The host may already have another machine.
func (f *conflictFinder) observeClaimConflicts(ctx context.Context, host *v1alpha1.BareMetalHost, view *lifecycle.View) (err error) {
	here := client.InNamespace(host.Namespace)
	if lifecycle.IsOpen(view.Host.Boot) {
		if view.Claims.BootMachinePending, err = bootMachineWaits(ctx, f.client, host.Namespace, view.Host.Boot); err != nil {
			return err
		}
	}
	if ref := host.Spec.ConsumerRef; ref != nil {
		var hosts v1alpha1.BareMetalHostList
		if err := f.client.List(ctx, &hosts, here, client.MatchingFields{controllers.ConsumerIndex: ref.Name}, client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("list the other hosts of the machine: %w", err)
		}
		for i := range hosts.Items {
			if other := &hosts.Items[i]; other.UID != host.UID {
				view.Claims.SharesConsumerWith = append(view.Claims.SharesConsumerWith, other.Name)
			}
		}
		slices.Sort(view.Claims.SharesConsumerWith)
		view.Claims.DataServedOn, err = f.servedBy(ctx, host)
		return err
	}
	var machines v1alpha1.BareMetalMachineList
	if err := f.client.List(ctx, &machines, here, client.MatchingFields{providerIDServerIndex: serverIndexValue(host.Namespace, host.Name)}); err != nil {
		return fmt.Errorf("list the machines whose provider ID names the host: %w", err)
	}
	for _, m := range machines.Items {
		// A machine that is being deleted has just released the host.
		if m.DeletionTimestamp.IsZero() && m.Spec.ProviderID == inventory.ProviderID(host.Namespace, host.Name, m.Name) {
			view.Claims.UnrecordedConsumer = max(view.Claims.UnrecordedConsumer, m.Name)
		}
	}
	return nil
}

// servedBy returns the name of another host whose boot served the bootstrap data of this host's machine, or an empty string.
func (f *conflictFinder) servedBy(ctx context.Context, host *v1alpha1.BareMetalHost) (string, error) {
	var boots v1alpha1.BareMetalBootList
	err := f.client.List(ctx, &boots, client.InNamespace(host.Namespace), client.MatchingFields{controllers.MachineIndex: host.Spec.ConsumerRef.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return "", fmt.Errorf("list the boots of the machine: %w", err)
	}
	name := ""
	for i := range boots.Items {
		if b := &boots.Items[i]; b.Name != host.Name && lifecycle.DataGiven(&b.Spec) {
			name = max(name, b.Name)
		}
	}
	return name, nil
}

// bootMachineWaits is true if a boot served bootstrap data to a machine that would get the data again with another host: the machine exists, was not
// provisioned, and is not being deleted.
func bootMachineWaits(ctx context.Context, cache client.Reader, namespace string, boot *v1alpha1.BareMetalBootSpec) (bool, error) {
	if !lifecycle.DataGiven(boot) {
		return false, nil
	}
	var m v1alpha1.BareMetalMachine
	err := cache.Get(ctx, client.ObjectKey{Namespace: namespace, Name: boot.MachineName}, &m)
	if err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return m.Spec.ProviderID == "" && m.DeletionTimestamp.IsZero(), nil
}
