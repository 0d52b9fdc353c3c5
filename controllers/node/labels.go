package node

import (
	"context"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// maxLabels is how many labels of a host its Node gets.
const maxLabels = 32

// syncLabels gives the Node of a host the labels that its cluster asks for, and takes back those that it got earlier and that the host does not have any more. node may come from
// the cache. It returns when to try again: a kubelet or another controller may change the labels back, and must not cause more than a write in ChangeInterval.
func (r *Reconciler) syncLabels(ctx context.Context, s *scope, node *corev1.Node) (time.Duration, error) {
	if s.aside {
		return 0, nil
	}
	prefixes, err := r.labelPrefixes(ctx, s)
	if err != nil {
		return 0, err
	}
	wanted := labelsOf(s.host, prefixes)
	if !changeLabels(node.DeepCopy(), wanted) {
		return 0, nil
	}
	if wait := r.labelWrites.wait(client.ObjectKeyFromObject(s.host), r.changeInterval(), time.Now()); wait > 0 {
		return wait, nil
	}
	live, err := r.liveNode(ctx, s)
	if err != nil || live == nil {
		return 0, err
	}
	before := live.DeepCopy()
	if !changeLabels(live, wanted) {
		return 0, nil // the cache is behind
	}
	workload, err := r.Clusters.GetUncachedClient(ctx, s.cluster)
	if err != nil {
		return 0, err
	}
	if err := workload.Patch(ctx, live, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return 0, err
	}
	ctrl.LoggerFrom(ctx).Info("Changed the labels of the Node to those of the host", "Cluster", s.cluster, "Node", live.Name, "BareMetalHost", client.ObjectKeyFromObject(s.host),
		"labels", slices.Sorted(maps.Keys(wanted)))
	return 0, nil
}

// labelWrites remembers when the labels of the Nodes of hosts were written last. The zero value is ready to use.
type labelWrites struct {
	mu   sync.Mutex
	last map[client.ObjectKey]time.Time
}

// wait returns how long the next write for a host must wait. If it need not wait, the write counts as made now.
func (w *labelWrites) wait(host client.ObjectKey, interval time.Duration, now time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.last, func(_ client.ObjectKey, at time.Time) bool { return now.Sub(at) >= interval })
	if at, ok := w.last[host]; ok {
		return at.Add(interval).Sub(now)
	}
	if w.last == nil {
		w.last = map[client.ObjectKey]time.Time{}
	}
	w.last[host] = now
	return 0
}

// earlier returns the shorter of two times to wait; zero does not wait.
func earlier(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// labelPrefixes returns spec.nodeLabelPrefixes of the machine's BareMetalCluster.
func (r *Reconciler) labelPrefixes(ctx context.Context, s *scope) ([]string, error) {
	if s.infrastructure.Kind != "BareMetalCluster" {
		return nil, nil
	}
	cluster := &v1alpha1.BareMetalCluster{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: s.cluster.Namespace, Name: s.infrastructure.Name}, cluster)
	return cluster.Spec.NodeLabelPrefixes, client.IgnoreNotFound(err)
}

// labelsOf returns the labels that the Node of a host gets.
func labelsOf(host *v1alpha1.BareMetalHost, prefixes []string) map[string]string {
	all := maps.Clone(host.Labels)
	if zone := host.Spec.FailureDomain; zone != "" && len(validation.IsValidLabelValue(zone)) == 0 && all[corev1.LabelTopologyZone] == "" {
		if all == nil {
			all = map[string]string{}
		}
		all[corev1.LabelTopologyZone] = zone
	}
	wanted := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		asked := slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
		if asked && mayFollow(key) && len(wanted) < maxLabels {
			wanted[key] = all[key]
		}
	}
	return wanted
}

// changeLabels changes the labels of a Node to those that are wanted, and its annotation, which says which labels are the host's. It returns false if nothing changed.
func changeLabels(node *corev1.Node, wanted map[string]string) bool {
	labels, annotations := maps.Clone(node.Labels), maps.Clone(node.Annotations)
	for _, key := range givenLabels(node) {
		delete(node.Labels, key)
	}
	for key, value := range wanted {
		metav1.SetMetaDataLabel(&node.ObjectMeta, key, value)
	}
	if len(wanted) == 0 {
		delete(node.Annotations, v1alpha1.NodeLabelsAnnotation)
	} else {
		metav1.SetMetaDataAnnotation(&node.ObjectMeta, v1alpha1.NodeLabelsAnnotation, strings.Join(slices.Sorted(maps.Keys(wanted)), ","))
	}
	return !equality.Semantic.DeepEqual(labels, node.Labels) || !equality.Semantic.DeepEqual(annotations, node.Annotations)
}

// reserved matches the keys of labels that no Node gets from its host, as the API of BareMetalCluster has it: those of Kubernetes and Cluster API, and those without a domain.
var reserved = regexp.MustCompile(`^([^/]*[.])?(kubernetes|k8s|x-k8s)[.]io/|^[^/]*$`)

// givenLabels returns the keys of the labels that a Node got from its host. The kubelet can write the annotation and name labels that it must not remove, such as those of
// node-restriction.kubernetes.io: these are ignored.
func givenLabels(node *corev1.Node) []string {
	keys := strings.Split(node.Annotations[v1alpha1.NodeLabelsAnnotation], ",")
	return slices.DeleteFunc(keys[:min(len(keys), maxLabels)], func(key string) bool {
		return !mayFollow(key)
	})
}

// mayFollow is true for a key of labels that can follow the host. Of those of Kubernetes these are zone and region: a kubelet may change them too.
func mayFollow(key string) bool {
	return key == corev1.LabelTopologyZone || key == corev1.LabelTopologyRegion || !reserved.MatchString(key)
}

// keepLabels copies to a Node in the cache the labels that it got from its host.
func keepLabels(kept, node *corev1.Node) {
	given, ok := node.Annotations[v1alpha1.NodeLabelsAnnotation]
	if !ok {
		return
	}
	if len(given) > maxLabels*maxText {
		given = "" // the provider did not write it: it is written again
	}
	kept.Annotations = map[string]string{v1alpha1.NodeLabelsAnnotation: strings.Clone(given)}
	for _, key := range givenLabels(kept) {
		if value, ok := node.Labels[key]; ok {
			metav1.SetMetaDataLabel(&kept.ObjectMeta, strings.Clone(key), bounded(value))
		}
	}
}

// machinesOfCluster returns the machines of a BareMetalCluster.
func (r *Reconciler) machinesOfCluster(ctx context.Context, o client.Object) []ctrl.Request {
	name, ok := o.GetLabels()[clusterv1.ClusterNameLabel]
	if !ok {
		return nil
	}
	machines := &v1alpha1.BareMetalMachineList{}
	if err := r.Client.List(ctx, machines, client.InNamespace(o.GetNamespace()), client.MatchingLabels{clusterv1.ClusterNameLabel: name}); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Failed to list the machines of a cluster")
		return nil
	}
	requests := make([]ctrl.Request, 0, len(machines.Items))
	for i := range machines.Items {
		requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&machines.Items[i])})
	}
	return requests
}
