package rules

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/contract/contracttest"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/site"
)

// rest is how long nothing may be requested while nothing happens: several times as long as a BMC is left unasked in this lab.
const rest = 30 * time.Second

// atRest: while nothing happens, the provider asks the API server for nothing but its leases. ValidateResourceVersionStable of Cluster API's QuickStartSpec sees writes only.
func (s *suite) atRest(t *testing.T) {
	NewWithT(t).Eventually(func(g Gomega) {
		for _, r := range s.requests(t) {
			if time.Since(r.Received) >= rest || r.Object == nil || r.Object.Resource == "leases" || r.Verb == "watch" {
				continue
			}
			// Only Clusters that have no control plane are asked for, again and again, by Cluster API's cache of connections.
			g.Expect(r.Verb == "get" && strings.HasSuffix(r.Object.Name, "-kubeconfig")).To(BeTrue(), "at rest: %s %s", r.Verb, r.RequestURI)
		}
	}, 2*time.Minute, 2*time.Second).Should(Succeed())
}

// restored: the provider restores owner references, finalizers and labels that a client removed, and no server gets a command because of it. Cluster API's QuickStartSpec does
// not look at labels and servers, and pauses the Cluster while it removes.
func (s *suite) restored(t *testing.T) {
	g := NewWithT(t)
	ctx, c := t.Context(), s.plane.Client
	given := s.commands()
	marks := func(kind string) map[string]metav1.ObjectMeta {
		out := map[string]metav1.ObjectMeta{}
		for _, o := range s.objects(t, kind) {
			out[o.GetName()] = metav1.ObjectMeta{OwnerReferences: o.GetOwnerReferences(), Finalizers: o.GetFinalizers(), Labels: o.GetLabels()}
		}
		return out
	}
	owned := []string{"BareMetalHost", "BareMetalBoot", "BareMetalMachine", "BareMetalCluster", "BareMetalMachineTemplate"}
	before := map[string]map[string]metav1.ObjectMeta{}
	for _, kind := range owned {
		before[kind] = marks(kind)
		g.Expect(before[kind]).NotTo(BeEmpty())
	}
	for _, kind := range owned {
		for name := range before[kind] {
			o := &unstructured.Unstructured{}
			o.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
			o.SetNamespace(site.Namespace)
			o.SetName(name)
			g.Expect(c.Patch(ctx, o, merge(`{"metadata":{"ownerReferences":null,"finalizers":null,"labels":null}}`))).To(Succeed())
		}
	}
	for _, server := range s.lab.Rack.Servers() {
		g.Expect(c.Patch(ctx, s.secret(t, server.Name+"-bmc"), merge(`{"metadata":{"labels":{"`+v1alpha1.MoveLabel+`":null}}}`))).To(Succeed())
	}
	// The owners of templates are set when a MachineSet or a control plane is reconciled: the end of a pause makes them be.
	cluster := &clusterv1.Cluster{ObjectMeta: meta(site.Namespace, site.ClusterName)}
	g.Expect(c.Patch(ctx, cluster, merge(`{"spec":{"paused":true}}`))).To(Succeed())
	g.Expect(c.Patch(ctx, cluster, merge(`{"spec":{"paused":null}}`))).To(Succeed())
	eventually(t, func(g Gomega) {
		for _, kind := range owned {
			for name, was := range before[kind] {
				is := marks(kind)[name]
				g.Expect(is.OwnerReferences).To(ConsistOf(was.OwnerReferences), "%s %s", kind, name)
				g.Expect(is.Finalizers).To(ConsistOf(was.Finalizers), "%s %s", kind, name)
				if was.Labels[clusterv1.ClusterNameLabel] != "" {
					g.Expect(is.Labels).To(HaveKeyWithValue(clusterv1.ClusterNameLabel, was.Labels[clusterv1.ClusterNameLabel]), "%s %s", kind, name)
				}
			}
		}
		for _, server := range s.lab.Rack.Servers() {
			g.Expect(s.secret(t, server.Name+"-bmc").Labels).To(HaveKey(v1alpha1.MoveLabel))
		}
	})
	g.Expect(site.Until(contracttest.Context(t, time.Minute), time.Minute, site.Running(s.plane, 3))).To(Succeed())
	g.Expect(s.commands()).To(Equal(given), "a server was given a command")
}
