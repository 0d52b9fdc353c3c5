package site

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeadmv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/plane"
)

// store is an API server with a supplier. Creating Secrets fails on demand.
type store struct {
	client.Client
	*supplier

	failing  bool
	assigned int
}

func newStore(objects ...client.Object) *store {
	s := &store{}
	s.Client = fake.NewClientBuilder().WithScheme(plane.Scheme()).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			if s.failing {
				return errors.New("refused on demand")
			}
			return c.Create(ctx, o, options...)
		},
	}).Build()
	s.supplier = &supplier{
		client: s.Client,
		secrets: func(namespace, cluster string) []*corev1.Secret {
			return []*corev1.Secret{{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: cluster + "-etcd"}}}
		},
		endpoint: func() (v1alpha1.APIEndpoint, error) {
			s.assigned++
			return v1alpha1.APIEndpoint{Host: fmt.Sprintf("192.0.2.%d", s.assigned), Port: 6443}, nil
		},
	}
	return s
}

// named returns a Cluster and its BareMetalCluster.
func named(namespace, name string) (*clusterv1.Cluster, *v1alpha1.BareMetalCluster) {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
	cluster := &clusterv1.Cluster{ObjectMeta: meta, Spec: clusterv1.ClusterSpec{InfrastructureRef: clusterv1.ContractVersionedObjectReference{
		APIGroup: v1alpha1.GroupVersion.Group, Kind: "BareMetalCluster", Name: name,
	}}}
	return cluster, &v1alpha1.BareMetalCluster{ObjectMeta: meta}
}

// host returns the host of the endpoint of a BareMetalCluster.
func (s *store) host(g Gomega, namespace, name string) string {
	var infra v1alpha1.BareMetalCluster
	g.Expect(s.Get(context.Background(), client.ObjectKey{Namespace: namespace, Name: name}, &infra)).To(Succeed())
	return infra.Spec.ControlPlaneEndpoint.Host
}

// created returns the namespaces and names of all Secrets.
func (s *store) created(g Gomega) []string {
	var secrets corev1.SecretList
	g.Expect(s.List(context.Background(), &secrets)).To(Succeed())
	var names []string
	for _, secret := range secrets.Items {
		names = append(names, secret.Namespace+"/"+secret.Name)
	}
	return names
}

// TestSupply: each Cluster gets its Secrets and one endpoint, whatever its name and namespace.
func TestSupply(t *testing.T) {
	g := NewWithT(t)
	a, infraA := named("one", "a")
	b, infraB := named("two", "a")
	given, infraGiven := named("one", "given")
	infraGiven.Spec.ControlPlaneEndpoint = v1alpha1.APIEndpoint{Host: "198.51.100.1", Port: 6443}
	s := newStore(a, infraA, b, infraB, given, infraGiven)
	for range 2 {
		g.Expect(s.supply(t.Context())).To(Succeed())
		g.Expect([]string{s.host(g, "one", "a"), s.host(g, "two", "a")}).To(ConsistOf("192.0.2.1", "192.0.2.2"))
		g.Expect(s.host(g, "one", "given")).To(Equal("198.51.100.1"))
		g.Expect(s.created(g)).To(ConsistOf("one/a-etcd", "two/a-etcd", "one/given-etcd"))
	}
}

// TestSupplyInOrder: a BareMetalCluster gets no endpoint before the Secrets exist, and what fails for one Cluster does not keep another one waiting.
func TestSupplyInOrder(t *testing.T) {
	g := NewWithT(t)
	a, infra := named("one", "a")
	later, infraLater := named("two", "later")
	s := newStore(a, infra, later)
	s.failing = true
	g.Expect(s.supply(t.Context())).To(MatchError(And(ContainSubstring("one/a: refused"), ContainSubstring("two/later: refused"))))
	g.Expect(s.host(g, "one", "a")).To(BeEmpty())
	s.failing = false
	g.Expect(s.supply(t.Context())).To(Succeed())
	g.Expect(s.host(g, "one", "a")).To(Equal("192.0.2.1"))
	g.Expect(s.Create(t.Context(), infraLater)).To(Succeed())
	g.Expect(s.supply(t.Context())).To(Succeed())
	g.Expect(s.host(g, "two", "later")).To(Equal("192.0.2.2"))
}

// TestSupplyLeavesAlone: nothing is done to Clusters that are paused or deleted, have another infrastructure provider or an endpoint, or whose control plane is
// initialized.
func TestSupplyLeavesAlone(t *testing.T) {
	for name, change := range map[string]func(*clusterv1.Cluster){
		"paused": func(c *clusterv1.Cluster) { c.Spec.Paused = new(true) },
		"deleted": func(c *clusterv1.Cluster) {
			c.DeletionTimestamp, c.Finalizers = &metav1.Time{Time: time.Now()}, []string{"example.com/wait"}
		},
		"initialized": func(c *clusterv1.Cluster) { c.Status.Initialization.ControlPlaneInitialized = new(true) },
		"other":       func(c *clusterv1.Cluster) { c.Spec.InfrastructureRef.Kind = "DockerCluster" },
		"topology":    func(c *clusterv1.Cluster) { c.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{} },
		"endpoint": func(c *clusterv1.Cluster) {
			c.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "198.51.100.1", Port: 6443}
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			cluster, infra := named("one", "a")
			change(cluster)
			s := newStore(cluster, infra)
			g.Expect(s.supply(t.Context())).To(Succeed())
			g.Expect(s.host(g, "one", "a")).To(BeEmpty())
			g.Expect(s.assigned).To(BeZero())
		})
	}
}

// TestSupplyAgain: Secrets that are deleted while the control plane is not initialized are created again.
func TestSupplyAgain(t *testing.T) {
	g := NewWithT(t)
	cluster, infra := named("one", "a")
	s := newStore(cluster, infra)
	g.Expect(s.supply(t.Context())).To(Succeed())
	g.Expect(s.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "one", Name: "a-etcd"}})).To(Succeed())
	g.Expect(s.supply(t.Context())).To(Succeed())
	g.Expect(s.created(g)).To(ConsistOf("one/a-etcd"))
}

// TestAnnotateConfigs: only the KubeadmConfigs of control plane machines get the annotation, once.
func TestAnnotateConfigs(t *testing.T) {
	g := NewWithT(t)
	config := func(name string, labels, annotations map[string]string) *kubeadmv1.KubeadmConfig {
		return &kubeadmv1.KubeadmConfig{ObjectMeta: metav1.ObjectMeta{
			Namespace: "one", Name: name, Labels: labels, Annotations: annotations, CreationTimestamp: metav1.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC),
		}}
	}
	controlPlane := map[string]string{clusterv1.MachineControlPlaneLabel: ""}
	s := newStore(config("new", controlPlane, nil), config("worker", nil, nil),
		config("known", controlPlane, map[string]string{clusterv1.MachineCertificatesExpiryDateAnnotation: "2030-01-01T00:00:00Z"}))
	g.Expect(s.supply(t.Context())).To(Succeed())
	expiries := map[string]string{}
	var configs kubeadmv1.KubeadmConfigList
	g.Expect(s.List(t.Context(), &configs)).To(Succeed())
	for _, c := range configs.Items {
		expiries[c.Name] = c.Annotations[clusterv1.MachineCertificatesExpiryDateAnnotation]
	}
	g.Expect(expiries).To(Equal(map[string]string{"new": "2027-11-29T00:00:00Z", "worker": "", "known": "2030-01-01T00:00:00Z"}))
}
