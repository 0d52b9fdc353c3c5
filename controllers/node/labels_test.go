package node_test

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
)

// TestNodeLabels: a Node has the labels of its host that its cluster asks for, and they follow host and cluster. Other labels of the Node stay.
func TestNodeLabels(t *testing.T) {
	start(t)
	p := newPair(t, func(p *pair) {
		p.host.Labels = map[string]string{"example.com/rack": "r7", "example.com/row": "b", "other.example.com/x": "y"}
		p.host.Spec.FailureDomain = "room-1"
		p.node.Labels = map[string]string{"example.com/mine": "1", "kubernetes.io/os": "linux"}
	})
	name := p.host.Spec.ConsumerRef.Name
	cluster := &v1alpha1.BareMetalCluster{ObjectMeta: metav1.ObjectMeta{Namespace: p.host.Namespace, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: name}}}
	cluster.Spec.NodeLabelPrefixes = []string{"example.com/", "topology.kubernetes.io/"}
	env.Create(t, cluster)
	has := func(want map[string]string) {
		t.Helper()
		want["example.com/mine"], want["kubernetes.io/os"] = "1", "linux"
		controllerstest.Wait(t, env, p.node, func(g Gomega, n *corev1.Node) { g.Expect(n.Labels).To(Equal(want)) })
	}
	has(map[string]string{"example.com/rack": "r7", "example.com/row": "b", corev1.LabelTopologyZone: "room-1"})

	controllerstest.Modify(t, env, p.host, func(h *v1alpha1.BareMetalHost) {
		h.Labels = map[string]string{"example.com/rack": "r8"}
	})
	has(map[string]string{"example.com/rack": "r8", corev1.LabelTopologyZone: "room-1"})
	controllerstest.Modify(t, env, p.node, func(n *corev1.Node) { delete(n.Labels, "example.com/rack") })
	has(map[string]string{"example.com/rack": "r8", corev1.LabelTopologyZone: "room-1"})
	controllerstest.Modify(t, env, cluster, func(c *v1alpha1.BareMetalCluster) { c.Spec.NodeLabelPrefixes = nil })
	has(map[string]string{})
	NewWithT(t).Expect(p.node.Annotations).NotTo(HaveKey(v1alpha1.NodeLabelsAnnotation))
}

// TestNodeLabelPrefixes: labels that the kubelet or Cluster API writes cannot follow the host.
func TestNodeLabelPrefixes(t *testing.T) {
	g := NewWithT(t)
	namespace := env.Namespace(t)
	for prefix, accepted := range map[string]bool{
		"example.com/": true, "topology.kubernetes.io/": true, "notkubernetes.io/": true,
		"kubernetes.io/": false, "node-role.kubernetes.io/": false, "k8s.io/": false, "node.cluster.x-k8s.io/": false, "rack": false, "example.com/rack": false, "/": false,
	} {
		cluster := &v1alpha1.BareMetalCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "c-"}}
		cluster.Spec.NodeLabelPrefixes = []string{prefix}
		err := env.Client.Create(context.Background(), cluster)
		g.Expect(err == nil).To(Equal(accepted), "%s: %v", prefix, err)
	}
}
