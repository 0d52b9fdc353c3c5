package node

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory"
)

// hardwareIndex finds Nodes by the inventory.HardwareID of their server.
const hardwareIndex = "status.nodeInfo.systemUUID"

// NewClusterCache returns the connections to the workload clusters whose infrastructure is a BareMetalCluster. kubeconfigs reads the kubeconfig
// Secret when a connection is made; the Secret is not cached. The cache keeps about a kilobyte of each Node, a tenth of its size: 10,000 Nodes take
// about 10 MB, and each cluster one watch.
func NewClusterCache(
	ctx context.Context, mgr ctrl.Manager, kubeconfigs *controllers.Kubeconfigs, watchFilter string, options controller.Options,
) (clustercache.ClusterCache, error) {
	return clustercache.SetupWithManager(ctx, mgr, clustercache.Options{
		SecretClient: kubeconfigs, WatchFilterValue: watchFilter, ClusterFilter: isBareMetal,
		Cache: clustercache.CacheOptions{
			ByObject: map[client.Object]cache.ByObject{&corev1.Node{}: {Transform: stripNode}},
			Indexes: []clustercache.CacheOptionsIndex{
				clustercache.NodeProviderIDIndex, {Object: &corev1.Node{}, Field: hardwareIndex, ExtractValue: hardwareOf},
			},
		},
		Client: clustercache.ClientOptions{UserAgent: "cluster-api-provider-baremetal"},
	}, options)
}

func isBareMetal(cluster *clusterv1.Cluster) bool {
	ref := cluster.Spec.InfrastructureRef
	return ref.APIGroup == v1alpha1.GroupVersion.Group && ref.Kind == "BareMetalCluster"
}

func hardwareOf(o client.Object) []string {
	if node, ok := o.(*corev1.Node); ok {
		if id := inventory.HardwareID(node.Status.NodeInfo.SystemUUID); id != "" {
			return []string{id}
		}
	}
	return nil
}

// stripNode keeps the fields of a Node that this package reads. It drops fields that change continuously, such as the time of the last heartbeat.
func stripNode(o any) (any, error) {
	node, ok := o.(*corev1.Node)
	if !ok {
		return o, nil
	}
	kept := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: node.Name, UID: node.UID, ResourceVersion: node.ResourceVersion,
			CreationTimestamp: node.CreationTimestamp, DeletionTimestamp: node.DeletionTimestamp,
		},
		Spec: corev1.NodeSpec{ProviderID: node.Spec.ProviderID},
		Status: corev1.NodeStatus{
			Addresses: node.Status.Addresses, NodeInfo: corev1.NodeSystemInfo{SystemUUID: node.Status.NodeInfo.SystemUUID, KubeletVersion: node.Status.NodeInfo.KubeletVersion},
		},
	}
	if c := readiness(node); c != nil {
		kept.Status.Conditions = []corev1.NodeCondition{{Type: c.Type, Status: c.Status, LastTransitionTime: c.LastTransitionTime}}
	}
	return kept, nil
}

// nodeChanged is true if a field changed that this package reads.
func nodeChanged(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*corev1.Node)
	after, alsoOK := e.ObjectNew.(*corev1.Node)
	return !ok || !alsoOK || before.Spec.ProviderID != after.Spec.ProviderID || !equality.Semantic.DeepEqual(before.Status, after.Status)
}

// readiness returns the condition Ready of a Node, nil if it has none.
func readiness(node *corev1.Node) *corev1.NodeCondition {
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == corev1.NodeReady {
			return c
		}
	}
	return nil
}
