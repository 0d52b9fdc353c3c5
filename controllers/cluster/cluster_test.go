package cluster_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/cluster"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
)

var env *controllerstest.Env

func TestMain(m *testing.M) { controllerstest.Main(m, &env) }

type infraCluster = *v1alpha1.BareMetalCluster

// start starts the controller.
func start(t *testing.T) {
	t.Helper()
	env.StartManager(t, func(ctx context.Context, mgr ctrl.Manager) error {
		return (&cluster.Reconciler{Client: mgr.GetClient()}).SetupWithManager(ctx, mgr, controller.Options{})
	})
}

// create creates a BareMetalCluster and its Cluster, after change modified them, and sets the owner reference as Cluster API does.
func create(t *testing.T, namespace, name string, change ...func(*clusterv1.Cluster, infraCluster)) (*clusterv1.Cluster, infraCluster) {
	t.Helper()
	owner := &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: clusterv1.ClusterSpec{InfrastructureRef: clusterv1.ContractVersionedObjectReference{
			APIGroup: v1alpha1.GroupVersion.Group, Kind: "BareMetalCluster", Name: name,
		}},
	}
	infra := &v1alpha1.BareMetalCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	for _, f := range change {
		f(owner, infra)
	}
	env.Create(t, owner)
	infra.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: name, UID: owner.UID}}
	env.Create(t, infra)
	return owner, infra
}

// withEndpoint sets the endpoint of a BareMetalCluster.
func withEndpoint(host string) func(*clusterv1.Cluster, infraCluster) {
	return func(_ *clusterv1.Cluster, c infraCluster) {
		c.Spec.ControlPlaneEndpoint = v1alpha1.APIEndpoint{Host: host, Port: 6443}
	}
}

// withClusterEndpoint sets the endpoint of a Cluster.
func withClusterEndpoint(host string) func(*clusterv1.Cluster, infraCluster) {
	return func(c *clusterv1.Cluster, _ infraCluster) {
		c.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: host, Port: 6443}
	}
}

func newHost(namespace, name, domain string) *v1alpha1.BareMetalHost {
	return &v1alpha1.BareMetalHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1alpha1.BareMetalHostSpec{
			BMC:              v1alpha1.BMC{Address: "redfish://192.0.2.10", CredentialsSecretName: "bmc"},
			BootMACAddresses: []string{"52:54:00:12:34:56"}, FailureDomain: domain,
		},
	}
}

// TestEndpoint: the cluster waits for its endpoint, reports that it does, and is provisioned once it has one.
func TestEndpoint(t *testing.T) {
	start(t)
	_, infra := create(t, env.Namespace(t), "c")
	controllerstest.Wait(t, env, infra, func(g Gomega, c infraCluster) {
		for _, kind := range []string{v1alpha1.ReadyCondition, v1alpha1.ControlPlaneEndpointSetCondition} {
			g.Expect(conditions.IsFalse(c, kind)).To(BeTrue())
			g.Expect(conditions.GetReason(c, kind)).To(Equal(v1alpha1.ReasonEndpointMissing))
			g.Expect(conditions.GetMessage(c, kind)).To(ContainSubstring("Set spec.controlPlaneEndpoint"))
		}
		g.Expect(c.Status.Initialization.Provisioned).To(BeNil())
		g.Expect(conditions.GetReason(c, clusterv1.PausedCondition)).To(Equal(clusterv1.NotPausedReason))
	})
	controllerstest.Modify(t, env, infra, func(c infraCluster) { withEndpoint("192.0.2.1")(nil, c) })
	controllerstest.Wait(t, env, infra, provisioned)
	NewWithT(t).Expect(infra.Finalizers).To(BeEmpty(), "nothing is made outside the cluster")
}

func provisioned(g Gomega, c infraCluster) {
	g.Expect(conditions.IsTrue(c, v1alpha1.ReadyCondition)).To(BeTrue())
	g.Expect(conditions.IsTrue(c, v1alpha1.ControlPlaneEndpointSetCondition)).To(BeTrue())
	g.Expect(c.Status.Initialization.Provisioned).To(HaveValue(BeTrue()))
}

// TestEndpointOfCluster: an endpoint of the Cluster is copied to the spec and stays there.
func TestEndpointOfCluster(t *testing.T) {
	start(t)
	_, infra := create(t, env.Namespace(t), "c", withClusterEndpoint("api.example.com"))
	controllerstest.Wait(t, env, infra, func(g Gomega, c infraCluster) {
		provisioned(g, c)
		g.Expect(c.Spec.ControlPlaneEndpoint).To(Equal(v1alpha1.APIEndpoint{Host: "api.example.com", Port: 6443}))
	})
	change := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"controlPlaneEndpoint":{"host":"other.example.com"}}}`))
	NewWithT(t).Expect(env.Client.Patch(t.Context(), infra, change)).To(MatchError(ContainSubstring("controlPlaneEndpoint cannot be changed once it is set")))
}

// TestEndpointInvalid: an invalid endpoint of a Cluster is reported, and can be corrected there.
func TestEndpointInvalid(t *testing.T) {
	start(t)
	owner, infra := create(t, env.Namespace(t), "c", withClusterEndpoint("https://api.example.com"))
	controllerstest.Wait(t, env, infra, func(g Gomega, c infraCluster) {
		g.Expect(conditions.GetReason(c, v1alpha1.ReadyCondition)).To(Equal(v1alpha1.ReasonEndpointInvalid))
		g.Expect(conditions.GetMessage(c, v1alpha1.ReadyCondition)).To(ContainSubstring(`spec.controlPlaneEndpoint.host "https://api.example.com" is neither a hostname nor an IP address: correct it there`))
		g.Expect(c.Status.Initialization.Provisioned).To(BeNil())
	})
	controllerstest.Modify(t, env, owner, func(c *clusterv1.Cluster) { withClusterEndpoint("2001:db8::1")(c, nil) })
	controllerstest.Wait(t, env, infra, provisioned)
}

// TestEndpointMismatch: two different endpoints are reported with a remedy, which works.
func TestEndpointMismatch(t *testing.T) {
	start(t)
	owner, infra := create(t, env.Namespace(t), "c", withEndpoint("192.0.2.1"), withClusterEndpoint("192.0.2.2"))
	mismatch := func(g Gomega, c infraCluster) {
		g.Expect(conditions.GetReason(c, v1alpha1.ReadyCondition)).To(Equal(v1alpha1.ReasonEndpointMismatch))
		g.Expect(conditions.IsFalse(c, v1alpha1.ControlPlaneEndpointSetCondition)).To(BeTrue())
		g.Expect(conditions.GetMessage(c, v1alpha1.ControlPlaneEndpointSetCondition)).To(Equal("The Cluster's spec.controlPlaneEndpoint is 192.0.2.2:6443, but that " +
			"of this BareMetalCluster is 192.0.2.1:6443 and cannot be changed: set the Cluster's to 192.0.2.1:6443, or create a new Cluster"))
	}
	controllerstest.Wait(t, env, infra, func(g Gomega, c infraCluster) {
		mismatch(g, c)
		g.Expect(c.Status.Initialization.Provisioned).To(BeNil())
	})
	controllerstest.Modify(t, env, owner, func(c *clusterv1.Cluster) { withClusterEndpoint("192.0.2.1")(c, nil) })
	controllerstest.Wait(t, env, infra, provisioned)
	controllerstest.Modify(t, env, owner, func(c *clusterv1.Cluster) { withClusterEndpoint("192.0.2.2")(c, nil) })
	controllerstest.Wait(t, env, infra, func(g Gomega, c infraCluster) {
		mismatch(g, c)
		g.Expect(c.Status.Initialization.Provisioned).To(HaveValue(BeTrue()), "it was provisioned, and stays so")
	})
}

// TestFailureDomains: the status lists the failure domains of the hosts, for workers only unless the spec says otherwise, and follows the hosts.
func TestFailureDomains(t *testing.T) {
	start(t)
	namespace, elsewhere := env.Namespace(t), env.Namespace(t)
	leaving := newHost(namespace, "leaving", "rack-4")
	leaving.Finalizers = []string{"example.com/held"}
	hosts := []*v1alpha1.BareMetalHost{newHost(namespace, "h1", "rack-2"), newHost(namespace, "h2", "rack-1"), newHost(namespace, "h3", "rack-1"), newHost(namespace, "h4", "")}
	for _, h := range append(hosts, leaving, newHost(elsewhere, "h5", "rack-5")) {
		env.Create(t, h)
	}
	_, infra := create(t, namespace, "c", withEndpoint("192.0.2.1"))
	names := func(want ...clusterv1.FailureDomain) {
		t.Helper()
		controllerstest.Wait(t, env, infra, func(g Gomega, c infraCluster) {
			g.Expect(c.Status.FailureDomains).To(HaveExactElements(want))
			g.Expect(conditions.IsTrue(c, v1alpha1.ReadyCondition)).To(BeTrue())
		})
	}
	workers := func(name string) clusterv1.FailureDomain {
		return clusterv1.FailureDomain{Name: name, ControlPlane: new(false)}
	}
	names(workers("rack-1"), workers("rack-2"), workers("rack-4"))
	NewWithT(t).Expect(conditions.GetReason(infra, v1alpha1.FailureDomainsReadyCondition)).To(Equal(v1alpha1.ReasonFailureDomainsFound))

	NewWithT(t).Expect(env.Client.Delete(t.Context(), leaving)).To(Succeed())
	names(workers("rack-1"), workers("rack-2"))
	controllerstest.Modify(t, env, hosts[0], func(h *v1alpha1.BareMetalHost) { h.Spec.FailureDomain = "rack-3" })
	names(workers("rack-1"), workers("rack-3"))
	env.Create(t, newHost(namespace, "h6", "rack-6"))
	names(workers("rack-1"), workers("rack-3"), workers("rack-6"))
	NewWithT(t).Expect(env.Client.Delete(t.Context(), newHost(namespace, "h6", ""))).To(Succeed())
	names(workers("rack-1"), workers("rack-3"))

	opted := clusterv1.FailureDomain{Name: "rack-1", ControlPlane: new(true), Attributes: map[string]string{"row": "a"}}
	controllerstest.Modify(t, env, infra, func(c infraCluster) { c.Spec.FailureDomains = []clusterv1.FailureDomain{opted, {Name: "rack-9"}} })
	names(opted, workers("rack-3"), workers("rack-9"))
	NewWithT(t).Expect(conditions.GetReason(infra, v1alpha1.FailureDomainsReadyCondition)).To(Equal(v1alpha1.ReasonFailureDomainWithoutHosts))
	NewWithT(t).Expect(conditions.GetMessage(infra, v1alpha1.FailureDomainsReadyCondition)).To(Equal("spec.failureDomains: no host of the namespace is in rack-9 " +
		"(the hosts are in rack-1, rack-3). Machines that are placed there wait for a host. Correct the name, or set spec.failureDomain of the hosts"))
	env.Create(t, newHost(namespace, "h9", "rack-9"))
	controllerstest.Wait(t, env, infra, func(g Gomega, c infraCluster) {
		g.Expect(conditions.IsTrue(c, v1alpha1.FailureDomainsReadyCondition)).To(BeTrue())
	})

	controllerstest.Modify(t, env, leaving, func(h *v1alpha1.BareMetalHost) { h.Finalizers = nil })
	env.Gone(t, leaving)
}

// TestExternallyManaged: an externally managed cluster is never written to, whichever mark it has, before and after a host event.
func TestExternallyManaged(t *testing.T) {
	start(t)
	g := NewWithT(t)
	namespace := env.Namespace(t)
	marked := map[string]infraCluster{}
	_, marked["annotation"] = create(t, namespace, "by-annotation", withClusterEndpoint("192.0.2.1"), func(_ *clusterv1.Cluster, c infraCluster) {
		c.Annotations = map[string]string{clusterv1.ManagedByAnnotation: "somebody"}
	})
	_, marked["label"] = create(t, namespace, "by-label", withClusterEndpoint("192.0.2.1"), func(_ *clusterv1.Cluster, c infraCluster) {
		c.Labels = map[string]string{clusterv1.ManagedByAnnotation: "somebody"}
	})
	_, marked["no value"] = create(t, namespace, "no-value", withClusterEndpoint("192.0.2.1"), func(_ *clusterv1.Cluster, c infraCluster) {
		c.Annotations = map[string]string{clusterv1.ManagedByAnnotation: "", clusterv1.PausedAnnotation: ""}
	})
	env.Create(t, newHost(namespace, "h", "rack-1")) // enqueues each of them
	// A cluster of this provider that is created last is reconciled after all of them.
	_, ours := create(t, namespace, "ours", withClusterEndpoint("192.0.2.1"))
	controllerstest.Wait(t, env, ours, provisioned)
	for name, infra := range marked {
		was := infra.ResourceVersion
		controllerstest.Wait(t, env, infra, func(g Gomega, c infraCluster) {
			g.Expect(c.ResourceVersion).To(Equal(was), "marked by %s", name)
		})
		g.Expect(infra.Status).To(BeZero())
	}
	controllerstest.Modify(t, env, marked["annotation"], func(c infraCluster) { c.Annotations = nil })
	controllerstest.Wait(t, env, marked["annotation"], provisioned)
}

// TestPaused: only the condition of a paused cluster is written, whether the cluster or its Cluster is paused.
func TestPaused(t *testing.T) {
	start(t)
	namespace := env.Namespace(t)
	_, alone := create(t, namespace, "alone", withClusterEndpoint("192.0.2.1"), func(_ *clusterv1.Cluster, c infraCluster) {
		c.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
	})
	owner, infra := create(t, namespace, "with-cluster", withClusterEndpoint("192.0.2.1"), func(c *clusterv1.Cluster, _ infraCluster) { c.Spec.Paused = new(true) })
	for _, c := range []infraCluster{alone, infra} {
		controllerstest.Wait(t, env, c, func(g Gomega, c infraCluster) {
			g.Expect(c.Status.Conditions).To(HaveLen(1))
			g.Expect(conditions.GetReason(c, clusterv1.PausedCondition)).To(Equal(clusterv1.PausedReason))
			g.Expect(c.Spec.ControlPlaneEndpoint).To(BeZero())
		})
	}
	controllerstest.Modify(t, env, owner, func(c *clusterv1.Cluster) { c.Spec.Paused = new(false) })
	controllerstest.Wait(t, env, infra, provisioned)
	controllerstest.Modify(t, env, alone, func(c infraCluster) { c.Annotations = nil })
	controllerstest.Wait(t, env, alone, provisioned)
}

// TestWithoutOwner: a cluster is not reconciled before Cluster API sets its owner.
func TestWithoutOwner(t *testing.T) {
	start(t)
	namespace := env.Namespace(t)
	infra := &v1alpha1.BareMetalCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "alone"}}
	withEndpoint("192.0.2.1")(nil, infra)
	env.Create(t, infra)
	_, other := create(t, namespace, "other", withEndpoint("192.0.2.2"))
	controllerstest.Wait(t, env, other, provisioned)
	controllerstest.Wait(t, env, infra, func(g Gomega, c infraCluster) { g.Expect(c.Status).To(BeZero()) })
}

// TestDeletion: a cluster that a foreign finalizer keeps reports its deletion.
func TestDeletion(t *testing.T) {
	start(t)
	_, infra := create(t, env.Namespace(t), "c", withEndpoint("192.0.2.1"), func(_ *clusterv1.Cluster, c infraCluster) { c.Finalizers = []string{"example.com/held"} })
	controllerstest.Wait(t, env, infra, provisioned)
	NewWithT(t).Expect(env.Client.Delete(t.Context(), infra)).To(Succeed())
	controllerstest.Wait(t, env, infra, func(g Gomega, c infraCluster) {
		g.Expect(conditions.GetReason(c, v1alpha1.ReadyCondition)).To(Equal(v1alpha1.ReasonDeleting))
	})
	controllerstest.Modify(t, env, infra, func(c infraCluster) { c.Finalizers = nil })
	env.Gone(t, infra)
}

// TestEventBatching: hosts that register at the same time cause few reconciles, not one each.
func TestEventBatching(t *testing.T) {
	const rack = 60
	g := NewWithT(t)
	var looks atomic.Int32
	env.StartManager(t, func(ctx context.Context, mgr ctrl.Manager) error {
		c, err := client.NewWithWatch(mgr.GetConfig(), client.Options{Scheme: mgr.GetScheme(), Cache: &client.CacheOptions{Reader: mgr.GetCache()}})
		if err != nil {
			return err
		}
		counting := interceptor.NewClient(c, interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				if _, ok := list.(*v1alpha1.BareMetalHostList); ok {
					looks.Add(1)
				}
				return c.List(ctx, list, opts...)
			},
		})
		return (&cluster.Reconciler{Client: counting}).SetupWithManager(ctx, mgr, controller.Options{})
	})
	namespace := env.Namespace(t)
	_, infra := create(t, namespace, "c", withEndpoint("192.0.2.1"))
	controllerstest.Wait(t, env, infra, provisioned)
	before, began := looks.Load(), time.Now()
	for i := range rack {
		env.Create(t, newHost(namespace, fmt.Sprintf("h-%02d", i), fmt.Sprintf("rack-%02d", i)))
	}
	controllerstest.Wait(t, env, infra, func(g Gomega, c infraCluster) { g.Expect(c.Status.FailureDomains).To(HaveLen(rack)) })
	seconds := int(time.Since(began)/time.Second) + 1
	t.Logf("%d hosts in %d s: looked %d times", rack, seconds, looks.Load()-before)
	// Once a second, and once more after each write of the status and of the conditions.
	g.Expect(looks.Load() - before).To(BeNumerically("<=", 3*seconds+3))
}
