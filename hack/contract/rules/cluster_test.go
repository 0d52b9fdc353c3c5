package rules

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/site"
)

// both reads a Cluster and its BareMetalCluster of the same name.
func (s *suite) both(t *testing.T, g Gomega, namespace, name string) (*clusterv1.Cluster, *v1alpha1.BareMetalCluster) {
	t.Helper()
	cluster, infra := &clusterv1.Cluster{}, &v1alpha1.BareMetalCluster{}
	for _, o := range []client.Object{cluster, infra} {
		g.Expect(s.plane.Client.Get(t.Context(), types.NamespacedName{Namespace: namespace, Name: name}, o)).To(Succeed())
	}
	return cluster, infra
}

// clusterWaits shows a BareMetalCluster that waits for the endpoint of its API server.
func (s *suite) clusterWaits(t *testing.T) {
	g := NewWithT(t)
	eventually(t, func(g Gomega) {
		cluster, infra := s.both(t, g, side, waiting)
		g.Expect(infra.OwnerReferences).To(ContainElement(And(HaveField("Kind", "Cluster"), HaveField("Name", waiting))))
		g.Expect(infra).To(because(v1alpha1.ReadyCondition, v1alpha1.ReasonEndpointMissing))
		g.Expect(infra.Status.Initialization.Provisioned).To(BeNil())
		mirrored(g, cluster, infra)
	})
	ownerless := &v1alpha1.BareMetalCluster{}
	s.get(t, side, "ownerless", ownerless)
	g.Expect(ownerless.Status.Conditions).To(BeEmpty(), "without a Cluster nothing is done")
}

// clusterPaused: while the Cluster is paused, so are its BareMetalCluster and its machines. A change during the pause takes effect afterwards.
func (s *suite) clusterPaused(t *testing.T) {
	g := NewWithT(t)
	ctx, c := t.Context(), s.plane.Client
	cluster, infra := &clusterv1.Cluster{ObjectMeta: meta(side, waiting)}, &v1alpha1.BareMetalCluster{ObjectMeta: meta(side, waiting)}
	is := func(paused bool) {
		t.Helper()
		eventually(t, func(g Gomega) {
			machine := &v1alpha1.BareMetalMachine{}
			for _, o := range []client.Object{infra, machine} {
				g.Expect(c.Get(ctx, types.NamespacedName{Namespace: side, Name: waiting}, o)).To(Succeed())
			}
			pausedCondition(g, infra, infra.Generation, paused)
			pausedCondition(g, machine, machine.Generation, paused)
		})
	}
	g.Expect(c.Patch(ctx, cluster, merge(`{"spec":{"paused":true}}`))).To(Succeed())
	is(true)
	before := infra.Status.FailureDomains
	g.Expect(c.Patch(ctx, infra, merge(`{"spec":{"failureDomains":[{"name":"hall-2"}]}}`))).To(Succeed())
	is(true)
	g.Expect(infra.Status.FailureDomains).To(Equal(before))
	g.Expect(c.Patch(ctx, cluster, merge(`{"spec":{"paused":null}}`))).To(Succeed())
	is(false)
	eventually(t, func(g Gomega) {
		cluster, _ := s.both(t, g, side, waiting)
		g.Expect(cluster.Status.FailureDomains).To(ConsistOf(HaveField("Name", "hall-2")))
	})

	g.Expect(c.Patch(ctx, infra, merge(`{"metadata":{"annotations":{%q:""}}}`, clusterv1.PausedAnnotation))).To(Succeed())
	eventually(t, func(g Gomega) {
		_, infra := s.both(t, g, side, waiting)
		pausedCondition(g, infra, infra.Generation, true)
	})
	g.Expect(c.Patch(ctx, infra, merge(`{"metadata":{"annotations":{%q:null}}}`, clusterv1.PausedAnnotation))).To(Succeed())
	is(false)
}

// externallyManaged: the provider does not write to a BareMetalCluster that another program manages. What that program writes reaches the Cluster.
func (s *suite) externallyManaged(t *testing.T) {
	external := &v1alpha1.BareMetalCluster{}
	external.Annotations = map[string]string{clusterv1.ManagedByAnnotation: "rack-tool"}
	s.leftAlone(t, "external", external)
}

// leftAlone creates a cluster that is managed externally, and another one that is not.
func (s *suite) leftAlone(t *testing.T, name string, external *v1alpha1.BareMetalCluster) {
	t.Helper()
	g := NewWithT(t)
	ctx, c := t.Context(), s.plane.Client
	s.createBareCluster(ctx, t, side, name, external)
	plain := &v1alpha1.BareMetalCluster{Spec: v1alpha1.BareMetalClusterSpec{ControlPlaneEndpoint: v1alpha1.APIEndpoint{Host: "192.0.2.8", Port: 6443}}}
	s.createBareCluster(ctx, t, side, name+"-not", plain)
	eventually(t, func(g Gomega) {
		cluster, plain := s.both(t, g, side, name+"-not")
		g.Expect(cluster.Status.Initialization.InfrastructureProvisioned).To(HaveValue(BeTrue()))
		g.Expect(writers(plain)).To(ContainElement(ourFieldManager))
		_, external := s.both(t, g, side, name)
		g.Expect(external.OwnerReferences).NotTo(BeEmpty(), "Cluster API took it up")
	})
	g.Expect(c.Get(ctx, client.ObjectKeyFromObject(external), external)).To(Succeed())
	g.Expect(c.Patch(ctx, external, merge(`{"spec":{"controlPlaneEndpoint":{"host":"192.0.2.9","port":6443}}}`))).To(Succeed())
	g.Expect(c.Status().Patch(ctx, external, merge(`{"status":{"initialization":{"provisioned":true},"failureDomains":[{"name":"cage-4"}]}}`))).To(Succeed())
	eventually(t, func(g Gomega) {
		cluster, external := s.both(t, g, side, name)
		g.Expect(cluster.Status.Initialization.InfrastructureProvisioned).To(HaveValue(BeTrue()))
		g.Expect(cluster.Spec.ControlPlaneEndpoint).To(Equal(clusterv1.APIEndpoint{Host: "192.0.2.9", Port: 6443}))
		g.Expect(cluster.Status.FailureDomains).To(ConsistOf(HaveField("Name", "cage-4")))
		g.Expect(writers(external)).NotTo(ContainElement(ourFieldManager))
		g.Expect(external.Status.Conditions).To(BeEmpty())
	})
}

// ourFieldManager is the field manager of this provider's writes.
const ourFieldManager = controllers.FieldOwner

func writers(o client.Object) []string {
	var names []string
	for _, m := range o.GetManagedFields() {
		names = append(names, m.Manager)
	}
	return names
}

// clusterDeleted: a BareMetalCluster is deleted with its Cluster. It has no finalizer, since there is nothing to clean up outside of the API.
func (s *suite) clusterDeleted(t *testing.T) {
	g := NewWithT(t)
	_, infra := s.both(t, g, side, waiting)
	g.Expect(infra.Finalizers).To(BeEmpty())
	cluster := &clusterv1.Cluster{ObjectMeta: meta(side, waiting)}
	g.Expect(s.plane.Client.Delete(t.Context(), cluster)).To(Succeed())
	s.gone(t, side, waiting, &v1alpha1.BareMetalCluster{})
	s.gone(t, side, waiting, cluster)
}

// endpoint: the endpoint of the BareMetalCluster is copied to the Cluster, and cannot be changed. machineWaits shows the other way: a user sets the
// endpoint of the Cluster.
func (s *suite) endpoint(t *testing.T) {
	g := NewWithT(t)
	cluster, infra := s.both(t, g, site.Namespace, site.ClusterName)
	g.Expect(infra.Spec.ControlPlaneEndpoint.Host).NotTo(BeEmpty())
	g.Expect(cluster.Spec.ControlPlaneEndpoint).To(Equal(clusterv1.APIEndpoint{Host: infra.Spec.ControlPlaneEndpoint.Host, Port: infra.Spec.ControlPlaneEndpoint.Port}))
	err := s.plane.Client.Patch(t.Context(), infra, merge(`{"spec":{"controlPlaneEndpoint":{"host":"192.0.2.99"}}}`))
	g.Expect(err).To(MatchError(ContainSubstring("controlPlaneEndpoint cannot be changed once it is set")))
}

func (s *suite) clusterInitialized(t *testing.T) {
	g := NewWithT(t)
	cluster, infra := s.both(t, g, site.Namespace, site.ClusterName)
	g.Expect(infra.Status.Initialization.Provisioned).To(HaveValue(BeTrue()))
	g.Expect(cluster.Status.Initialization.InfrastructureProvisioned).To(HaveValue(BeTrue()))
	g.Expect(s.old(t, "clusters", site.Namespace, site.ClusterName, "{.status.infrastructureReady}")).To(Equal("true"))
}

func (s *suite) clusterConditions(t *testing.T) {
	g := NewWithT(t)
	cluster, infra := s.both(t, g, site.Namespace, site.ClusterName)
	mirrored(g, cluster, infra)
	g.Expect(conditions.IsTrue(infra, v1alpha1.ReadyCondition)).To(BeTrue())
	old := cluster.Status.Deprecated.V1Beta1.Conditions //nolint:staticcheck // what readers of v1beta1 see
	g.Expect(old).To(ContainElement(And(HaveField("Type", BeEquivalentTo("InfrastructureReady")), HaveField("Status", corev1.ConditionTrue))))
}

// failureDomains: the failure domains of the spec are copied to the Cluster with all their fields, in both versions of its API.
func (s *suite) failureDomains(t *testing.T) {
	g := NewWithT(t)
	want := []clusterv1.FailureDomain{{Name: "hall-1", ControlPlane: new(true), Attributes: map[string]string{"row": "7"}}, {Name: "hall-2", ControlPlane: new(false)}}
	s.createBareCluster(t.Context(), t, side, "domains", &v1alpha1.BareMetalCluster{Spec: v1alpha1.BareMetalClusterSpec{
		ControlPlaneEndpoint: v1alpha1.APIEndpoint{Host: "192.0.2.10", Port: 6443}, FailureDomains: want,
	}})
	eventually(t, func(g Gomega) {
		cluster, infra := s.both(t, g, side, "domains")
		g.Expect(infra.Status.FailureDomains).To(ConsistOf(want))
		g.Expect(cluster.Status.FailureDomains).To(ConsistOf(want))
	})
	g.Expect(s.old(t, "clusters", side, "domains", "{.status.failureDomains.hall-1.controlPlane} {.status.failureDomains.hall-1.attributes.row}")).To(Equal("true 7"))
}

// multiTenancy: a manager with a namespace and a watch filter ignores objects elsewhere and those with another label. A manager without them reconciles
// all.
func (s *suite) multiTenancy(t *testing.T) {
	g := NewWithT(t)
	ctx, c := t.Context(), s.plane.Client
	s.plane.StopProvider()
	t.Setenv(watchList, "false") // this time client-go lists first
	for _, namespace := range []string{"tenant-a", "tenant-b"} {
		g.Expect(c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})).To(Succeed())
	}
	create := func(namespace, name string, labels map[string]string) {
		infra := &v1alpha1.BareMetalCluster{ObjectMeta: metav1.ObjectMeta{Labels: labels}}
		infra.Spec.ControlPlaneEndpoint = v1alpha1.APIEndpoint{Host: "192.0.2.11", Port: 6443}
		s.createBareCluster(ctx, t, namespace, name, infra)
	}
	blue := map[string]string{clusterv1.WatchLabel: "blue"}
	create("tenant-b", "blue", blue)
	create("tenant-a", "plain", nil)
	create("tenant-a", "green", map[string]string{clusterv1.WatchLabel: "green"})
	create("tenant-a", "blue", blue)
	provisioned := func(namespace, name string) {
		t.Helper()
		eventually(t, func(g Gomega) {
			cluster, infra := s.both(t, g, namespace, name)
			g.Expect(infra.Status.Initialization.Provisioned).To(HaveValue(BeTrue()))
			g.Expect(cluster.Status.Initialization.InfrastructureProvisioned).To(HaveValue(BeTrue()))
		})
	}
	// Cluster API must have set the owners before the manager starts, so that it sees all of them at once.
	for _, key := range [][2]string{{"tenant-a", "blue"}, {"tenant-a", "plain"}, {"tenant-a", "green"}, {"tenant-b", "blue"}} {
		eventually(t, func(g Gomega) {
			_, infra := s.both(t, g, key[0], key[1])
			g.Expect(infra.OwnerReferences).NotTo(BeEmpty())
		})
	}
	s.createHosts(t)
	g.Expect(s.startControllers("--namespace=tenant-a", "--watch-filter=blue")).To(Succeed())
	provisioned("tenant-a", "blue")
	s.hostsOfBlue(t)
	for _, key := range [][2]string{{"tenant-a", "plain"}, {"tenant-a", "green"}, {"tenant-b", "blue"}} {
		_, infra := s.both(t, g, key[0], key[1])
		g.Expect(infra.Status.Conditions).To(BeEmpty(), "%s is not this manager's", key)
	}
	s.plane.StopProvider()
	g.Expect(s.startControllers()).To(Succeed())
	for _, key := range [][2]string{{"tenant-a", "plain"}, {"tenant-a", "green"}, {"tenant-b", "blue"}} {
		provisioned(key[0], key[1])
	}
	s.seenTo(t, "green")
}

// createHosts creates two hosts, each with a boot that has the label of the other.
func (s *suite) createHosts(t *testing.T) {
	t.Helper()
	for i, labels := range [][2]string{{"blue", "green"}, {"green", "blue"}} {
		host := &v1alpha1.BareMetalHost{ObjectMeta: meta("tenant-a", labels[0]), Spec: v1alpha1.BareMetalHostSpec{
			BMC:              v1alpha1.BMC{Address: fmt.Sprintf("redfish://192.0.2.%d", 20+i), CredentialsSecretName: "none"},
			BootMACAddresses: []string{fmt.Sprintf("52:54:00:99:00:0%d", i)},
		}}
		boot := &v1alpha1.BareMetalBoot{ObjectMeta: meta("tenant-a", labels[0])}
		host.Labels, boot.Labels = map[string]string{clusterv1.WatchLabel: labels[0]}, map[string]string{clusterv1.WatchLabel: labels[1]}
		NewWithT(t).Expect(s.plane.Client.Create(t.Context(), boot)).To(Succeed())
		NewWithT(t).Expect(s.plane.Client.Create(t.Context(), host)).To(Succeed())
	}
}

// hostsOfBlue: the label of a host selects the manager of its boot. The label of the boot has no effect.
func (s *suite) hostsOfBlue(t *testing.T) {
	t.Helper()
	s.seenTo(t, "blue")
	host, boot := &v1alpha1.BareMetalHost{}, &v1alpha1.BareMetalBoot{}
	s.get(t, "tenant-a", "green", host)
	s.get(t, "tenant-a", "green", boot)
	g := NewWithT(t)
	g.Expect(host.Finalizers).To(BeEmpty(), "the host is not this manager's")
	g.Expect(host.Status.Conditions).To(BeEmpty())
	g.Expect(boot.Finalizers).To(BeEmpty(), "nor is its boot")
	g.Expect(boot.OwnerReferences).To(BeEmpty())
}

// seenTo waits until a host and its boot are reconciled.
func (s *suite) seenTo(t *testing.T, name string) {
	t.Helper()
	eventually(t, func(g Gomega) {
		boot := &v1alpha1.BareMetalBoot{}
		g.Expect(s.plane.Client.Get(t.Context(), types.NamespacedName{Namespace: "tenant-a", Name: name}, boot)).To(Succeed())
		g.Expect(boot.Finalizers).To(ContainElement(v1alpha1.BootFinalizer))
		g.Expect(boot.OwnerReferences).To(ContainElement(HaveField("Kind", "BareMetalHost")))
	})
}

// failureDomainsFound: the failure domains of the hosts are copied to the Cluster automatically, for workers.
func (s *suite) failureDomainsFound(t *testing.T) {
	eventually(t, func(g Gomega) {
		cluster, infra := s.both(t, g, site.Namespace, site.ClusterName)
		g.Expect(infra.Status.FailureDomains).To(ConsistOf(HaveField("Name", "room-a"), HaveField("Name", "room-b")))
		for _, d := range infra.Status.FailureDomains {
			g.Expect(d.ControlPlane == nil || !*d.ControlPlane).To(BeTrue(), "control planes are for the user to allow")
		}
		g.Expect(cluster.Status.FailureDomains).To(ConsistOf(HaveField("Name", "room-a"), HaveField("Name", "room-b")))
	})
}

// externallyLabelled is externallyManaged according to the book: with a label, where Cluster API's code reads an annotation.
func (s *suite) externallyLabelled(t *testing.T) {
	external := &v1alpha1.BareMetalCluster{}
	external.Labels = map[string]string{clusterv1.ManagedByAnnotation: "rack-tool"}
	s.leftAlone(t, "labelled", external)
}
