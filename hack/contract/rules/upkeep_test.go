package rules

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/contract/contracttest"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/site"
)

// rest is how long nothing may be written while nothing happens: several times as long as a BMC is left unasked in this lab.
const rest = 30 * time.Second

// versions returns the resource versions of all objects of ours, in all namespaces, and of the Secrets of the BMCs.
func (s *suite) versions(ctx context.Context) (map[string]string, error) {
	out := map[string]string{}
	for _, kind := range append([]string{"BareMetalHost", "BareMetalBoot"}, kinds...) {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(groupVersionOf(kind).WithKind(kind + "List"))
		if err := s.plane.Client.List(ctx, list); err != nil {
			return nil, err
		}
		for _, o := range list.Items {
			out[fmt.Sprintf("%s %s/%s", kind, o.Namespace, o.Name)] = o.ResourceVersion
		}
	}
	for _, server := range s.lab.Rack.Servers() {
		secret := &metav1.PartialObjectMetadata{}
		secret.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("Secret"))
		secret.APIVersion = "v1"
		if err := s.plane.Client.Get(ctx, client.ObjectKey{Namespace: site.Namespace, Name: server.Name + "-bmc"}, secret); err != nil {
			return nil, err
		}
		out["Secret "+secret.Name] = secret.ResourceVersion
	}
	return out, nil
}

// atRest: while nothing happens, nothing of ours is written.
func (s *suite) atRest(t *testing.T) {
	g := NewWithT(t)
	ctx := contracttest.Context(t, 3*time.Minute)
	var before map[string]string
	quiet := time.Now()
	g.Expect(site.Until(ctx, 2*time.Minute, func(ctx context.Context) error {
		now, err := s.versions(ctx)
		if err != nil {
			return err
		}
		if !maps.Equal(now, before) {
			var what []string
			for name := range now {
				if now[name] != before[name] {
					what = append(what, name)
				}
			}
			before, quiet = now, time.Now()
			return fmt.Errorf("something was written: %s", what)
		}
		if still := time.Since(quiet); still < rest {
			return fmt.Errorf("nothing was written for %s", still)
		}
		return nil
	})).To(Succeed())
	g.Expect(len(before)).To(BeNumerically(">=", 16))
	for _, r := range s.requests(t) {
		// The writer of the last change reconciles it again.
		if r.Received.Before(quiet.Add(5*time.Second)) || r.Object == nil || r.Object.Resource == "leases" || r.Verb == "watch" {
			continue
		}
		// Only Clusters that have no control plane are asked for, again and again, by Cluster API's cache of connections.
		g.Expect(r.Verb == "get" && strings.HasSuffix(r.Object.Name, "-kubeconfig")).To(BeTrue(), "at rest: %s %s", r.Verb, r.RequestURI)
	}
}

// restored: the provider restores owner references, finalizers and labels that a client removed, and no server gets a command because of it.
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
