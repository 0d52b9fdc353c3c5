package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/gateway"
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
	// With the UID of its own Pod, the cluster cache replaces the server of the cluster that it runs on (v1.14.2, runningOnWorkloadCluster), and so the gateway, whose token no
	// API server knows.
	if err := os.Unsetenv("POD_UID"); err != nil {
		return nil, err
	}
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

// The API server of a workload cluster may send anything, and a real one has checked what it sends. keptAddresses is how many addresses of a Node are kept: a server has a
// few. maxText is the maximum length of a text that is kept, in bytes: names have 253.
const (
	keptAddresses = 64
	maxText       = 512
)

// bounded returns a text that is not too long. It is a copy if it is cut, so that the whole text is not kept.
func bounded(text string) string {
	if len(text) > maxText {
		return strings.Clone(text[:maxText])
	}
	return text
}

// stripNode keeps the fields of a Node that this package reads. It drops fields that change continuously, such as the time of the last heartbeat.
func stripNode(o any) (any, error) {
	node, ok := o.(*corev1.Node)
	if !ok {
		return o, nil
	}
	info := node.Status.NodeInfo
	kept := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: bounded(node.Name), UID: types.UID(bounded(string(node.UID))), ResourceVersion: bounded(node.ResourceVersion),
			CreationTimestamp: node.CreationTimestamp, DeletionTimestamp: node.DeletionTimestamp,
		},
		Spec:   corev1.NodeSpec{ProviderID: bounded(node.Spec.ProviderID)},
		Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{SystemUUID: bounded(info.SystemUUID), KubeletVersion: bounded(info.KubeletVersion)}},
	}
	for _, a := range node.Status.Addresses[:min(len(node.Status.Addresses), keptAddresses)] {
		kept.Status.Addresses = append(kept.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeAddressType(bounded(string(a.Type))), Address: bounded(a.Address)})
	}
	if c := readiness(node); c != nil {
		kept.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionStatus(bounded(string(c.Status))), LastTransitionTime: c.LastTransitionTime}}
	}
	keepLabels(kept, node)
	return kept, nil
}

// countEvery is how many new Nodes of a connection come between two counts.
const countEvery = 64

// limitNodes counts the Nodes of a cluster as new ones come, and refuses its API server when it has more than its Machines explain: the cache keeps every Node that it is sent.
func (r *Reconciler) limitNodes(cluster client.ObjectKey) func(event.CreateEvent) bool {
	var created atomic.Int64
	return func(event.CreateEvent) bool {
		if created.Add(1)%countEvery != 0 {
			return true
		}
		ctx, cancel := context.WithTimeout(context.Background(), countTimeout)
		defer cancel()
		if err := r.checkNodes(ctx, cluster); err != nil {
			r.Kubeconfigs.Refuse(cluster, err)
			return false
		}
		return true
	}
}

// countTimeout is how long a count may take. It reads only caches.
const countTimeout = 5 * time.Second

// checkNodes returns an error if a cluster has too many Nodes. It returns nil if they cannot be counted: the connection is lost then.
func (r *Reconciler) checkNodes(ctx context.Context, cluster client.ObjectKey) error {
	reader, err := r.Clusters.GetReader(ctx, cluster)
	if err != nil {
		return nil //nolint:nilerr // there is no connection, and so no cache
	}
	var nodes corev1.NodeList
	machines, err := controllers.CountMachines(ctx, r.Client, cluster)
	if err = errors.Join(err, reader.List(ctx, &nodes, client.UnsafeDisableDeepCopy)); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Failed to count the Nodes of a cluster", "Cluster", cluster)
		return nil
	}
	if most := gateway.NodesOf(machines); len(nodes.Items) > most {
		return fmt.Errorf("its server lists %d Nodes, and a cluster with %d Machines may have %d", len(nodes.Items), machines, most)
	}
	return nil
}

// nodeChanged is true if a field changed that this package reads.
func nodeChanged(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*corev1.Node)
	after, alsoOK := e.ObjectNew.(*corev1.Node)
	return !ok || !alsoOK || before.Spec.ProviderID != after.Spec.ProviderID || !equality.Semantic.DeepEqual(before.Status, after.Status) ||
		!equality.Semantic.DeepEqual(before.Labels, after.Labels) || !equality.Semantic.DeepEqual(before.Annotations, after.Annotations)
}

// readiness returns the condition Ready of a Node, nil for a Node without it.
func readiness(node *corev1.Node) *corev1.NodeCondition {
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == corev1.NodeReady {
			return c
		}
	}
	return nil
}
