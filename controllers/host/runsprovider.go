package host

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// The manager reads its own Node once, at its start. RBAC cannot narrow that right to a name that changes. The Node name in a BareMetalMachine's status would
// need no right, but names of Nodes repeat between clusters, and the system UUID does not.
//
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get

// ownNodeTimeout limits the read of the process's own Node.
const ownNodeTimeout = 30 * time.Second

// OwnNode reads the Node of the management cluster that this process runs on, by its name. It returns nil for an empty name, for a Node that does not
// exist, and if the process may not read Nodes. Without a Node the provider's own server is unknown, and is powered off like any other.
func OwnNode(ctx context.Context, reader client.Reader, name string) (*corev1.Node, error) {
	if name == "" {
		return nil, nil //nolint:nilnil // no Node is a valid answer
	}
	ctx, cancel := context.WithTimeout(ctx, ownNodeTimeout)
	defer cancel()
	node := &corev1.Node{}
	err := reader.Get(ctx, types.NamespacedName{Name: name}, node)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		ctrl.LoggerFrom(ctx).Info("Failed to read the Node that the provider runs on: its server is not protected from being powered off", "Node", name, "error", err.Error())
		return nil, nil //nolint:nilnil // no Node is a valid answer
	case err != nil:
		return nil, fmt.Errorf("read the Node that the provider runs on: %w", err)
	}
	return node, nil
}

// runsOn is true for the host on whose server a Node runs. If both report a system UUID, that decides. Otherwise the Node's provider ID decides, which
// may name a host of another management cluster.
func runsOn(node *corev1.Node, host *v1alpha1.BareMetalHost, hardware *v1alpha1.Hardware) bool {
	if node == nil {
		return false
	}
	if hardware != nil {
		ofNode, ofHost := inventory.HardwareID(node.Status.NodeInfo.SystemUUID), inventory.HardwareID(hardware.SystemUUID)
		if ofNode != "" && ofHost != "" {
			return ofNode == ofHost
		}
	}
	namespace, name := inventory.HostOf(node.Spec.ProviderID)
	return name != "" && namespace == host.Namespace && name == host.Name
}

// setRunsProvider sets the condition RunsProvider on the host that the provider runs on, and removes it from all other hosts.
func setRunsProvider(host *v1alpha1.BareMetalHost, view lifecycle.View) {
	if !view.Provider.RunsHere {
		conditions.Delete(host, v1alpha1.RunsProviderCondition)
		return
	}
	reason, message := v1alpha1.ReasonRunsProvider, lifecycle.OwnServerMessage
	if view.Requests.PowerOffProvider.Set {
		reason, message = v1alpha1.ReasonPowerOffAllowed, lifecycle.PowerOffAllowedMessage(view)
	}
	conditions.Set(host, metav1.Condition{
		Type: v1alpha1.RunsProviderCondition, Status: metav1.ConditionTrue, Reason: reason, Message: controllers.Clip(message, controllers.MaxMessage),
		ObservedGeneration: host.Generation,
	})
}
