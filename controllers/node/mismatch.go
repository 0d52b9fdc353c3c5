package node

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
)

// reportMismatch writes to the status of the boot which Node the host runs that is not the machine's, and why. It removes the entry when there is no
// such Node any more.
func (r *Reconciler) reportMismatch(ctx context.Context, s *scope) error {
	cached, err := r.Clusters.GetReader(ctx, s.cluster)
	if err != nil {
		return err
	}
	found, err := r.findMismatch(ctx, cached, s.host, s.boot)
	if err != nil || equality.Semantic.DeepEqual(found, controllers.NodeOf(s.boot)) {
		return err
	}
	if err := controllers.ApplyNode(ctx, r.Client, s.boot, found); err != nil {
		return err
	}
	if found != nil {
		controllers.RecordEvent(r.Recorder, s.host, nil, corev1.EventTypeWarning, controllers.EventNodeMismatch, "Observe", "%s: %s", found.Mismatch.Reason, found.Mismatch.Message)
	}
	return nil
}

// findMismatch returns the first Node, by name, that the host runs and that is not the machine's, or that has the machine's provider ID and runs
// elsewhere. It returns nil without one.
func (r *Reconciler) findMismatch(ctx context.Context, nodes client.Reader, host *v1alpha1.BareMetalHost, boot *v1alpha1.BareMetalBoot) (*v1alpha1.ObservedNode, error) {
	var candidates []corev1.Node
	for _, lookup := range lookups(host) {
		var list corev1.NodeList
		if err := nodes.List(ctx, &list, lookup); err != nil {
			return nil, err
		}
		candidates = append(candidates, list.Items...)
	}
	byName := corev1.Node{}
	switch err := nodes.Get(ctx, client.ObjectKey{Name: host.Spec.ConsumerRef.Name}, &byName); {
	case err == nil:
		candidates = append(candidates, byName)
	case client.IgnoreNotFound(err) != nil:
		return nil, err
	}
	slices.SortStableFunc(candidates, func(a, b corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	for i := range candidates {
		node := &candidates[i]
		sameHardware, err := r.hostsWithHardware(ctx, node)
		if err != nil {
			return nil, err
		}
		if why := mismatch(node, host, boot, sameHardware); why != nil {
			return &v1alpha1.ObservedNode{Name: node.Name, Number: boot.Spec.Number, KubeletVersion: kubeletVersion(node), Mismatch: why}, nil
		}
	}
	return nil, nil //nolint:nilnil // no mismatch is a valid answer
}

// embeddedClouds are the schemes of the provider IDs that the embedded cloud controllers of k3s and RKE2 set.
var embeddedClouds = []string{"k3s://", "rke2://"}

// mismatch returns why a Node that may belong to a host's current boot is not the machine's. It returns nil for the machine's Node and for a Node
// that has nothing to do with the host. A provider ID is set once, so a machine whose Node has another one must be replaced.
func mismatch(node *corev1.Node, host *v1alpha1.BareMetalHost, boot *v1alpha1.BareMetalBoot, sameHardware []v1alpha1.BareMetalHost) *v1alpha1.BootFailure {
	want := ""
	if host.Spec.ConsumerRef != nil {
		want = providerID(host)
	}
	switch {
	case !bootedHere(node, host, boot), node.Spec.ProviderID == "":
		return nil
	case node.Spec.ProviderID == want && onOtherServer(node, host) && !runsHere(node, host, boot, sameHardware):
		return &v1alpha1.BootFailure{Reason: v1alpha1.ReasonNodeSystemUUIDDiffers, Message: controllers.Clip(fmt.Sprintf("Node %q has the provider ID of the machine, but its system UUID "+
			"is %.64q and the BMC of BareMetalHost %q reports %.64q: it runs on another server. Check who set its provider ID, and spec.bmc.address of the host", node.Name,
			node.Status.NodeInfo.SystemUUID, host.Name, host.Status.Hardware.SystemUUID), controllers.MaxMessage)}
	case node.Spec.ProviderID == want, !runsHere(node, host, boot, sameHardware):
		return nil
	}
	remedy := "start the kubelet with --provider-id"
	if slices.ContainsFunc(embeddedClouds, func(scheme string) bool { return strings.HasPrefix(node.Spec.ProviderID, scheme) }) {
		remedy = "start k3s or RKE2 with --disable-cloud-controller and --kubelet-arg=provider-id"
	}
	return &v1alpha1.BootFailure{Reason: v1alpha1.ReasonNodeProviderIDDiffers, Message: controllers.Clip(fmt.Sprintf("The server runs Node %q with the provider ID %.256q instead of %q, so Cluster API "+
		"does not find it for the Machine. In the bootstrap config, %s=%s, which the bootstrap data has as {{ ds.meta_data.provider_id }}. Then delete the Machine to have it replaced",
		node.Name, node.Spec.ProviderID, want, remedy, want), controllers.MaxMessage)}
}

// kubeletVersion returns the version that the kubelet of a Node reports, clipped for a status.
func kubeletVersion(node *corev1.Node) string {
	return controllers.Clip(node.Status.NodeInfo.KubeletVersion, controllers.MaxText)
}
