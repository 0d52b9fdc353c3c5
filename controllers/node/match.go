package node

import (
	"context"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/index"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory"
)

// findNode finds the Node of a host among the Nodes of its cluster: by provider ID, then by hardware, then by name. A lookup that matches several
// Nodes finds none.
func (r *Reconciler) findNode(ctx context.Context, nodes client.Reader, host *v1alpha1.BareMetalHost, boot *v1alpha1.BareMetalBoot) (*corev1.Node, error) {
	for _, lookup := range lookups(host) {
		var list corev1.NodeList
		if err := nodes.List(ctx, &list, lookup); err != nil {
			return nil, err
		}
		var found []*corev1.Node
		for i := range list.Items {
			if matches, err := r.matches(ctx, &list.Items[i], host, boot); err != nil {
				return nil, err
			} else if matches {
				found = append(found, &list.Items[i])
			}
		}
		if len(found) == 1 {
			return found[0], nil
		}
	}
	node := &corev1.Node{}
	if err := nodes.Get(ctx, client.ObjectKey{Name: host.Spec.ConsumerRef.Name}, node); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if matches, err := r.matches(ctx, node, host, boot); err != nil || !matches {
		return nil, err
	}
	return node, nil
}

// lookups are the index lookups for Nodes that may belong to a host.
func lookups(host *v1alpha1.BareMetalHost) []client.MatchingFields {
	all := []client.MatchingFields{{index.NodeProviderIDField: providerID(host)}}
	if id := hardwareID(host); id != "" {
		all = append(all, client.MatchingFields{hardwareIndex: id})
	}
	return all
}

// hardwareID returns the inventory.HardwareID of a host, empty if its BMC reports none.
func hardwareID(host *v1alpha1.BareMetalHost) string {
	if host.Status.Hardware == nil {
		return ""
	}
	return inventory.HardwareID(host.Status.Hardware.SystemUUID)
}

func (r *Reconciler) matches(ctx context.Context, node *corev1.Node, host *v1alpha1.BareMetalHost, boot *v1alpha1.BareMetalBoot) (bool, error) {
	sameHardware, err := r.hostsWithHardware(ctx, node)
	return err == nil && matches(node, host, boot, sameHardware), err
}

// hostsWithHardware returns the hosts of the inventory, in any namespace, whose BMC reported the UUID of a Node's server.
func (r *Reconciler) hostsWithHardware(ctx context.Context, node *corev1.Node) ([]v1alpha1.BareMetalHost, error) {
	id := inventory.HardwareID(node.Status.NodeInfo.SystemUUID)
	if id == "" {
		return nil, nil
	}
	var hosts v1alpha1.BareMetalHostList
	err := r.Client.List(ctx, &hosts, client.MatchingFields{controllers.HardwareIndex: id})
	return hosts.Items, err
}

// matches is true for the Node of a host's current machine: it runs on the host, and its provider ID is empty or the machine's. A matching provider
// ID is not enough if host and Node report different system UUIDs.
func matches(node *corev1.Node, host *v1alpha1.BareMetalHost, boot *v1alpha1.BareMetalBoot, sameHardware []v1alpha1.BareMetalHost) bool {
	switch {
	case !bootedHere(node, host, boot):
		return false
	case node.Spec.ProviderID != "":
		return node.Spec.ProviderID == providerID(host) && (!onOtherServer(node, host) || runsHere(node, host, boot, sameHardware))
	default:
		return runsHere(node, host, boot, sameHardware)
	}
}

// onOtherServer is true for a Node with another system UUID than the host. Two byte orders of one UUID are equal.
func onOtherServer(node *corev1.Node, host *v1alpha1.BareMetalHost) bool {
	ofNode, ofHost := inventory.HardwareID(node.Status.NodeInfo.SystemUUID), hardwareID(host)
	return ofNode != "" && ofHost != "" && ofNode != ofHost
}

// bootedHere is true for a Node that may belong to a host's current boot.
//
// A Node that was created before the server was last off in this boot belongs to a former machine. The two times come from two clocks, in whole
// seconds. There is no tolerance: a stale Node may be only seconds older. A current Node is younger by the time that a server takes to boot, which
// exceeds the difference of synchronized clocks.
func bootedHere(node *corev1.Node, host *v1alpha1.BareMetalHost, boot *v1alpha1.BareMetalBoot) bool {
	return node.DeletionTimestamp.IsZero() && host.Spec.ConsumerRef != nil && served(host, boot) && !node.CreationTimestamp.Before(bootedAfter(&boot.Spec))
}

// runsHere is true for a Node that runs on a host's server. sameHardware are the hosts with the system UUID of the Node. If there is one, the Node
// runs on that host. If there are none or several, the UUID proves nothing. The Node must then have the host name that the provider assigned and an
// address of the server.
func runsHere(node *corev1.Node, host *v1alpha1.BareMetalHost, boot *v1alpha1.BareMetalBoot, sameHardware []v1alpha1.BareMetalHost) bool {
	if len(sameHardware) == 1 {
		return sameHardware[0].UID == host.UID
	}
	has := controllers.UsedAddresses(host, boot)
	for _, a := range node.Status.Addresses {
		if parsed, err := netip.ParseAddr(a.Address); err == nil && slices.Contains(has, parsed.Unmap()) {
			return node.Name == host.Spec.ConsumerRef.Name
		}
	}
	return false
}

// served is true for a boot of the host's current claim that served its bootstrap data: no other boot has a Node.
func served(host *v1alpha1.BareMetalHost, boot *v1alpha1.BareMetalBoot) bool {
	current := controllers.CurrentBoot(host, boot)
	return current != nil && current.DataServedTime != nil
}

// bootedAfter returns the time before which a server cannot have run the operating system of a boot.
func bootedAfter(attempt *v1alpha1.BareMetalBootSpec) *metav1.Time {
	if attempt.PoweredOffTime != nil && attempt.StartTime.Before(attempt.PoweredOffTime) {
		return attempt.PoweredOffTime
	}
	return &attempt.StartTime
}

func providerID(host *v1alpha1.BareMetalHost) string {
	return inventory.ProviderID(host.Namespace, host.Name, host.Spec.ConsumerRef.Name)
}
