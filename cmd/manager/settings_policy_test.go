package main

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
)

// TestSettingsPolicy: the record of a settings run is written by the controllers alone, with the roles that config installs. A manifest that was copied from the cluster
// changes nothing, a tenant cannot forge a record, and a restore with the verb record creates one. Anybody may set the metadata.
func TestSettingsPolicy(t *testing.T) {
	g := NewWithT(t)
	ctx := t.Context()
	for _, o := range build(t, "rbac") {
		if o.GetName() == "capbm-system-settings" {
			createRole(t, &o)
		}
	}
	manager := client.WithFieldOwner(managerRole(t), controllers.FieldOwner)
	namespace := env.Namespace(t)
	record := func(name string) *v1alpha1.BareMetalSettings {
		now := metav1.Now()
		return &v1alpha1.BareMetalSettings{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: v1alpha1.BareMetalSettingsSpec{
			Number: 1, Profile: &v1alpha1.SettingsProfile{Name: "p", UID: "u", Generation: 1, Hash: strings.Repeat("a", 64)}, StartTime: &now,
		}}
	}
	own := record("h")
	g.Eventually(func() error { return manager.Create(ctx, own) }, 30*time.Second).Should(Succeed(), "its role is in effect")

	count := func(c client.Client, number int32, options ...client.PatchOption) error {
		live := &v1alpha1.BareMetalSettings{}
		g.Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(own), live)).To(Succeed())
		before := live.DeepCopy()
		live.Spec.Number = number
		return c.Patch(ctx, live, client.MergeFrom(before), options...)
	}
	g.Eventually(func() error { // a policy takes effect a moment after it was created
		return count(env.Client, 7, client.FieldOwner("argocd-controller"), client.DryRunAll)
	}, 30*time.Second).Should(MatchError(ContainSubstring("would forget what it did to the server")), "a tool with all rights")
	g.Expect(count(manager, 2)).To(Succeed())

	tenant := userOf(t, namespace, "tenant", "baremetalsettings", "create", "get", "update", "patch", "delete")
	g.Eventually(func() error { return tenant.Create(ctx, record("forged")) }, 30*time.Second).Should(MatchError(ContainSubstring("only the provider writes BareMetalSettings")))
	g.Expect(count(tenant, 3, client.FieldOwner(controllers.FieldOwner))).To(MatchError(ContainSubstring("only the provider writes")), "the name of the field manager is no right")
	live := &v1alpha1.BareMetalSettings{}
	g.Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(own), live)).To(Succeed())
	before := live.DeepCopy()
	live.Labels = map[string]string{"rack": "a"}
	g.Expect(tenant.Patch(ctx, live, client.MergeFrom(before))).To(Succeed())

	empty := &v1alpha1.BareMetalSettings{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "empty"}}
	g.Expect(manager.Create(ctx, empty)).To(Succeed())
	fill := func(c client.Client) error {
		filled := record("empty")
		filled.ResourceVersion = empty.ResourceVersion
		return c.Update(ctx, filled)
	}
	restore := userOf(t, namespace, "restore", "baremetalsettings", "create", "update", "record")
	g.Eventually(func() error { return restore.Create(ctx, record("restored")) }, 30*time.Second).Should(Succeed(), "clusterctl move and backups create records")
	g.Expect(fill(tenant)).To(MatchError(ContainSubstring("only the provider writes")))
	g.Expect(fill(restore)).To(Succeed(), "they write into an object that has no record")
}
