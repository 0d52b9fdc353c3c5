package host

import (
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// observeIdentityConflicts finds out which other hosts keep what identifies this one's server.
func (r *Reconciler) observeIdentityConflicts(ctx context.Context, host *v1alpha1.BareMetalHost, view *lifecycle.View) error {
	hardware := r.observations.get(client.ObjectKeyFromObject(host)).hardware
	view.Identity = controllers.IdentityOf(host, hardware)
	if err := controllers.Permitted(r.Tenants, host); err != nil {
		view.NotPermitted = err.Error()
	}
	for taken, by := range map[*string]controllers.IdentityConflict{
		&view.BMCTakenBy: controllers.BMCRivalry(host), &view.MACTakenBy: controllers.MACRivalry(host), &view.HardwareTakenBy: controllers.HardwareRivalry(host, hardware),
	} {
		keeper, err := by.Among(r.Tenants).Keeper(ctx, r.Client)
		if err != nil {
			return err
		}
		if keeper != nil {
			*taken = controllers.NameFor(host.Namespace, client.ObjectKeyFromObject(keeper))
		}
	}
	return nil
}

// observeConflicts gathers who else has a part in the host: the other hosts of the machine that has this one, or, where nobody has it, the machine whose provider ID
// says that it runs here. The latter is so where a host object was recreated without its spec.consumerRef. And whether the machine of the last boot waits,
// also if another machine has the host now.
func (r *Reconciler) observeConflicts(ctx context.Context, host *v1alpha1.BareMetalHost, view *lifecycle.View) (err error) {
	here := client.InNamespace(host.Namespace)
	if lifecycle.IsOpen(view.Boot) {
		if view.BootMachineWaits, err = r.bootMachineWaits(ctx, host.Namespace, view.Boot); err != nil {
			return err
		}
	}
	if ref := host.Spec.ConsumerRef; ref != nil {
		var held v1alpha1.BareMetalHostList
		if err := r.Client.List(ctx, &held, here, client.MatchingFields{controllers.ConsumerIndex: ref.Name}); err != nil {
			return fmt.Errorf("look for other hosts of the same machine: %w", err)
		}
		for _, other := range held.Items {
			if other.UID != host.UID {
				view.SharesConsumerWith = append(view.SharesConsumerWith, other.Name)
			}
		}
		slices.Sort(view.SharesConsumerWith)
		view.ServedBy, err = r.servedBy(ctx, host)
		return err
	}
	var machines v1alpha1.BareMetalMachineList
	if err := r.Client.List(ctx, &machines, here, client.MatchingFields{providerIDHostIndex: host.Name}); err != nil {
		return fmt.Errorf("look for a machine that says that it runs on the host: %w", err)
	}
	for _, m := range machines.Items {
		// One that is being deleted just gave the host back.
		if m.DeletionTimestamp.IsZero() && m.Spec.ProviderID == inventory.ProviderID(host.Namespace, host.Name, m.Name) {
			view.SaidToRun = max(view.SaidToRun, m.Name)
		}
	}
	return nil
}

// providerIDHostIndex finds the machines whose provider ID names a host, by the host's name.
const providerIDHostIndex = "spec.providerID.host"

func hostOfProviderID(o client.Object) []string {
	m, ok := o.(*v1alpha1.BareMetalMachine)
	if !ok || m.Spec.ProviderID == "" {
		return nil
	}
	if namespace, host := inventory.HostOf(m.Spec.ProviderID); namespace == m.Namespace && host != "" {
		return []string{host}
	}
	return nil
}

// servedBy returns the name of another host in whose boot the bootstrap data of the machine was served that has this one; empty if there is none.
func (r *Reconciler) servedBy(ctx context.Context, host *v1alpha1.BareMetalHost) (string, error) {
	var boots v1alpha1.BareMetalBootList
	err := r.Client.List(ctx, &boots, client.InNamespace(host.Namespace), client.MatchingFields{controllers.MachineIndex: host.Spec.ConsumerRef.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return "", fmt.Errorf("look for boots of the machine that has the host: %w", err)
	}
	name := ""
	for i := range boots.Items {
		if b := &boots.Items[i]; b.Name != host.Name && b.Spec.DataServedAt != nil {
			name = max(name, b.Name)
		}
	}
	return name, nil
}

// bootMachineWaits is true for a boot in which the bootstrap data was served to a machine that would be given it again with another host: it is there, it was
// not provisioned, and it is not being deleted.
func (r *Reconciler) bootMachineWaits(ctx context.Context, namespace string, boot *v1alpha1.BareMetalBootSpec) (bool, error) {
	if boot.DataServedAt == nil {
		return false, nil
	}
	var m v1alpha1.BareMetalMachine
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: boot.MachineName}, &m)
	if err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return m.Spec.ProviderID == "" && m.DeletionTimestamp.IsZero(), nil
}
