package main

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
)

// TestHostPolicy: while a machine has a host, no user can change the addresses by which the provider reaches and recognises its server, unless the host is
// detached.
func TestHostPolicy(t *testing.T) {
	g := NewWithT(t)
	var installed int
	for _, o := range build(t, "rbac") {
		if o.GetName() == "capbm-system-hosts" {
			env.Create(t, &o)
			installed++
		}
	}
	g.Expect(installed).To(Equal(2))
	host := &v1alpha1.BareMetalHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace(t), Name: "h"},
		Spec: v1alpha1.BareMetalHostSpec{
			BMC: v1alpha1.BMC{Address: "redfish://192.0.2.1", CredentialsSecretName: "s"}, BootMACAddresses: []string{"52:54:00:00:09:01"},
			ConsumerRef: &v1alpha1.ConsumerReference{Name: "m", ClaimID: "claim"},
		},
	}
	env.Create(t, host)
	patch := func(change func(*v1alpha1.BareMetalHost)) error {
		changed := host.DeepCopy()
		change(changed)
		return env.Client.Patch(t.Context(), changed, client.MergeFrom(host), client.DryRunAll)
	}
	address := func(h *v1alpha1.BareMetalHost) { h.Spec.BMC.Address = "redfish://192.0.2.2" }
	mac := func(h *v1alpha1.BareMetalHost) { h.Spec.BootMACAddresses = []string{"52:54:00:00:09:02"} }
	// A policy takes effect a moment after it was created.
	g.Eventually(func() error { return patch(address) }, 30*time.Second).Should(MatchError(ContainSubstring("spec.bmc.address must not change while a machine has the host")))
	g.Expect(patch(mac)).To(MatchError(ContainSubstring("spec.bootMACAddresses must not change while a machine has the host")))
	detach := func(h *v1alpha1.BareMetalHost) {
		metav1.SetMetaDataAnnotation(&h.ObjectMeta, v1alpha1.DetachedAnnotation, "a new BMC")
	}
	g.Expect(patch(func(h *v1alpha1.BareMetalHost) { detach(h); address(h) })).NotTo(Succeed(), "the host is detached first: the provider may be at work")
	g.Expect(patch(func(h *v1alpha1.BareMetalHost) { h.Spec.FailureDomain = "x" })).To(Succeed())
	g.Expect(patch(func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef = nil })).To(Succeed())

	before := host.DeepCopy()
	detach(host)
	g.Expect(env.Client.Patch(t.Context(), host, client.MergeFrom(before))).To(Succeed())
	g.Expect(patch(address)).To(Succeed())
	g.Expect(patch(mac)).To(Succeed())
	before = host.DeepCopy()
	host.Annotations, host.Spec.ConsumerRef = nil, nil
	g.Expect(env.Client.Patch(t.Context(), host, client.MergeFrom(before))).To(Succeed())
	g.Expect(patch(address)).To(Succeed(), "no machine has it")
}

// TestHostConsumerPolicy: a host cannot be for a machine of another namespace.
func TestHostConsumerPolicy(t *testing.T) {
	g := NewWithT(t)
	for _, o := range build(t, "rbac") {
		if o.GetName() == "capbm-system-hosts-consumer" {
			createRole(t, &o)
		}
	}
	host := func(namespace string) *v1alpha1.BareMetalHost {
		h := &v1alpha1.BareMetalHost{
			ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace(t), Name: "h"},
			Spec:       v1alpha1.BareMetalHostSpec{BMC: v1alpha1.BMC{Address: "redfish://192.0.2.1", CredentialsSecretName: "s"}, BootMACAddresses: []string{"52:54:00:00:09:21"}},
		}
		h.Spec.ConsumerRef = &v1alpha1.ConsumerReference{Name: "m", ClaimID: "claim", Namespace: namespace}
		return h
	}
	g.Eventually(func() error { // a policy takes effect a moment after it was created
		return env.Client.Create(t.Context(), host("elsewhere"), client.DryRunAll)
	}, 30*time.Second).Should(MatchError(ContainSubstring("spec.consumerRef.namespace must be the namespace of the host")))
	own := host("")
	g.Expect(env.Client.Create(t.Context(), own, client.DryRunAll)).To(Succeed())
	own = host("")
	own.Spec.ConsumerRef.Namespace = own.Namespace
	g.Expect(env.Client.Create(t.Context(), own)).To(Succeed())
	own.Spec.ConsumerRef.Namespace = "elsewhere"
	g.Expect(env.Client.Update(t.Context(), own)).To(MatchError(ContainSubstring("must be the namespace of the host")))
}

// TestHostStatePolicy: a manifest that was copied from the cluster, and that a tool with all rights applies by force, changes nothing of what the provider remembers of a host. The
// controllers write it with the roles that config installs. A restore needs the verb record, and creates the host.
func TestHostStatePolicy(t *testing.T) {
	g := NewWithT(t)
	ctx := t.Context()
	for _, o := range build(t, "rbac") {
		if o.GetName() == "capbm-system-hosts-state" {
			createRole(t, &o)
		}
	}
	manager := client.WithFieldOwner(managerRole(t), controllers.FieldOwner)
	namespace, argo := env.Namespace(t), client.FieldOwner("argocd-controller")
	host := &v1alpha1.BareMetalHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "h"},
		Spec:       v1alpha1.BareMetalHostSpec{BMC: v1alpha1.BMC{Address: "redfish://192.0.2.1", CredentialsSecretName: "s"}, BootMACAddresses: []string{"52:54:00:00:09:11"}},
	}
	env.Create(t, host)
	count := func(boots int32) error {
		live := &v1alpha1.BareMetalHost{}
		g.Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(host), live)).To(Succeed())
		before := live.DeepCopy()
		live.Spec.ProviderState.Boots = boots
		return manager.Patch(ctx, live, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	}
	g.Eventually(func() error { return count(3) }, 30*time.Second).Should(Succeed(), "its role is in effect")
	copied, err := runtime.DefaultUnstructuredConverter.ToUnstructured(manifest(t, host))
	g.Expect(err).NotTo(HaveOccurred())
	apply := func(change func(spec map[string]any), options ...client.ApplyOption) error {
		o := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(copied)}
		change(o.Object["spec"].(map[string]any))
		return env.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), append(options, argo, client.ForceOwnership)...)
	}
	const only = "must not change, because the provider would forget"
	g.Expect(apply(func(map[string]any) {})).To(Succeed(), "as long as nothing has changed")
	g.Expect(count(4)).To(Succeed())
	g.Eventually(func() error { // a policy takes effect a moment after it was created
		return apply(func(spec map[string]any) {
			spec["providerState"] = map[string]any{"boots": int64(4), "powerHoldOffTime": "2026-01-01T00:00:00Z"}
		}, client.DryRunAll)
	}, 30*time.Second).Should(MatchError(ContainSubstring(only)), "a power hold that is over")
	g.Expect(apply(func(map[string]any) {})).To(MatchError(ContainSubstring("providerState.boots must not decrease")))
	g.Expect(apply(func(spec map[string]any) { spec["providerState"] = map[string]any{"boots": int64(5)} })).To(MatchError(ContainSubstring(only)))
	live := &v1alpha1.BareMetalHost{}
	g.Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(host), live)).To(Succeed())
	replaced := live.DeepCopy()
	replaced.Spec.ProviderState = v1alpha1.HostProviderState{}
	g.Expect(env.Client.Update(ctx, replaced, argo)).NotTo(Succeed(), "kubectl replace, and Replace=true of Argo CD")
	g.Expect(apply(func(spec map[string]any) { delete(spec, "providerState") })).To(Succeed(), "the remedy in the message: the controllers own the fields too")
	g.Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(host), live)).To(Succeed())
	g.Expect(live.Spec.ProviderState.Boots).To(BeEquivalentTo(4))

	tenant := hostUser(t, namespace, "tenant", "create", "get", "update", "patch", "delete")
	g.Eventually(func() error {
		changed := live.DeepCopy()
		changed.Spec.ProviderState.Boots = 9
		return tenant.Update(ctx, changed, client.FieldOwner(controllers.FieldOwner))
	}, 30*time.Second).Should(MatchError(ContainSubstring("only the provider writes spec.providerState")), "the name of the field manager is no right")
	again := live.DeepCopy()
	again.Name, again.ResourceVersion, again.UID = "restored", "", ""
	again.Spec.BootMACAddresses = []string{"52:54:00:00:09:12"}
	g.Expect(tenant.Create(ctx, again.DeepCopy())).To(MatchError(ContainSubstring("only the provider writes spec.providerState")))
	restore := hostUser(t, namespace, "restore", "create", "record")
	g.Eventually(func() error { return restore.Create(ctx, again.DeepCopy()) }, 30*time.Second).Should(Succeed(), "clusterctl move and backups create hosts")
}

// manifest is what `kubectl get -o yaml` shows of a host, without what the API server adds.
func manifest(t *testing.T, host *v1alpha1.BareMetalHost) *v1alpha1.BareMetalHost {
	t.Helper()
	live := &v1alpha1.BareMetalHost{}
	NewWithT(t).Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(host), live)).To(Succeed())
	kind := metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "BareMetalHost"}
	return &v1alpha1.BareMetalHost{TypeMeta: kind, ObjectMeta: metav1.ObjectMeta{Namespace: live.Namespace, Name: live.Name}, Spec: live.Spec}
}

// hostUser returns a client of a user with these verbs for hosts in a namespace.
func hostUser(t *testing.T, namespace, name string, verbs ...string) client.Client {
	t.Helper()
	return userOf(t, namespace, name, "baremetalhosts", verbs...)
}
