package main

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/erasure"
	erasurerules "github.com/capbm-io/cluster-api-provider-baremetal/inventory/erasure"
)

// managerRole creates the service account of the controllers with the roles that config installs for it, and the policies of erasures. It returns its client.
func managerRole(t *testing.T) client.Client {
	t.Helper()
	g := NewWithT(t)
	providerNamespace(t)
	var installed []string
	for _, o := range build(t, "rbac") {
		switch what := o.GetKind() + " " + o.GetName(); what {
		case "ClusterRole capbm-system-manager", "Role capbm-manager", "ClusterRoleBinding capbm-system-manager", "RoleBinding capbm-manager",
			"ValidatingAdmissionPolicy capbm-system-erasures", "ValidatingAdmissionPolicyBinding capbm-system-erasures",
			"ValidatingAdmissionPolicy capbm-system-erasurerequests", "ValidatingAdmissionPolicyBinding capbm-system-erasurerequests",
			"ValidatingAdmissionPolicy capbm-system-machines", "ValidatingAdmissionPolicyBinding capbm-system-machines",
			"ValidatingAdmissionPolicy capbm-system-manager-secrets", "ValidatingAdmissionPolicyBinding capbm-system-manager-secrets":
			installed = append(installed, what)
			createRole(t, &o)
		}
	}
	g.Expect(installed).To(HaveLen(12))
	config, _ := env.User(t, "system:serviceaccount:capbm-system:capbm-manager")
	c, err := client.New(config, client.Options{Scheme: env.Scheme})
	g.Expect(err).NotTo(HaveOccurred())
	return c
}

// erasureUser returns a client of a user with these verbs for records in a namespace.
func erasureUser(t *testing.T, namespace, name string, verbs ...string) client.Client {
	t.Helper()
	return userOf(t, namespace, name, "baremetalerasures", verbs...)
}

// userOf returns a client of a user with these verbs for a resource of the provider in a namespace.
func userOf(t *testing.T, namespace, name, resource string, verbs ...string) client.Client {
	t.Helper()
	g := NewWithT(t)
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
	env.Create(t, &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{resource}, Verbs: verbs},
	}}, &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}},
	})
	config, _ := env.User(t, name)
	c, err := client.New(config, client.Options{Scheme: env.Scheme})
	g.Expect(err).NotTo(HaveOccurred())
	return c
}

// TestErasureRights: with the roles that config installs, the controllers record an erasure, create their key and nothing else. The boot server can neither read the key nor
// touch a record. Users need the verb record to create records, may delete them, and give them no owner.
func TestErasureRights(t *testing.T) {
	g := NewWithT(t)
	ctx := t.Context()
	manager := managerRole(t)
	_, bootServer := bootRole(t)
	namespace := env.Namespace(t)
	host := &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "h"}}
	now := metav1.Now()
	boot := &v1alpha1.BareMetalBoot{ObjectMeta: host.ObjectMeta, Spec: v1alpha1.BareMetalBootSpec{
		Purpose: v1alpha1.PurposeClean, ClaimID: "claim", AgentDoneTime: &now,
		Erasure: &v1alpha1.ErasureReport{Policy: wire.PolicyMetadata, StartTime: now, EndTime: now},
	}}
	recorder := &erasure.Recorder{Client: manager, APIReader: manager, Namespace: "capbm-system"}
	for n := range int32(3) { // the third deletes the first
		boot.Spec.Number = n + 1
		g.Eventually(func() error { return recorder.Record(ctx, host, boot) }, 30*time.Second).Should(Succeed()) // the authorizer sees a new role a moment later
	}
	var records v1alpha1.BareMetalErasureList
	g.Expect(env.Client.List(ctx, &records, client.InNamespace(namespace))).To(Succeed())
	g.Expect(records.Items).To(HaveLen(2))
	genuine := &records.Items[0]

	g.Eventually(func() error { return bootServer.List(ctx, &v1alpha1.BareMetalHostList{}) }, 30*time.Second).Should(Succeed(), "its role is in effect")
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"x":"y"}}}`))
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "capbm-system", Name: name} }
	forged := func() *v1alpha1.BareMetalErasure {
		return &v1alpha1.BareMetalErasure{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "forged"}, Spec: *genuine.Spec.DeepCopy()}
	}
	for what, err := range map[string]error{
		"boot: read the key":           bootServer.Get(ctx, client.ObjectKey{Namespace: "capbm-system", Name: erasure.KeySecret}, &corev1.Secret{}),
		"boot: list Secrets":           bootServer.List(ctx, &corev1.SecretList{}, client.InNamespace("capbm-system")),
		"boot: change the key":         bootServer.Patch(ctx, &corev1.Secret{ObjectMeta: meta(erasure.KeySecret)}, patch),
		"boot: delete the key":         bootServer.Delete(ctx, &corev1.Secret{ObjectMeta: meta(erasure.KeySecret)}),
		"boot: change the public keys": bootServer.Patch(ctx, &corev1.ConfigMap{ObjectMeta: meta(erasure.PublicKeysConfigMap)}, patch),
		"boot: create a record":        bootServer.Create(ctx, forged()),
		"boot: change a record":        bootServer.Patch(ctx, genuine.DeepCopy(), patch),
		"boot: delete a record":        bootServer.Delete(ctx, genuine.DeepCopy()),
		"delete the key":               manager.Delete(ctx, &corev1.Secret{ObjectMeta: meta(erasure.KeySecret)}),
		"change a record":              manager.Patch(ctx, genuine.DeepCopy(), patch),
		"change another ConfigMap":     manager.Patch(ctx, &corev1.ConfigMap{ObjectMeta: meta("another")}, patch),
		"read another ConfigMap":       manager.Get(ctx, client.ObjectKey{Namespace: "capbm-system", Name: "another"}, &corev1.ConfigMap{}),
		"create a Secret elsewhere":    manager.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: erasure.KeySecret}}),
		"create a ConfigMap elsewhere": manager.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "x"}}),
	} {
		g.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%s: %v", what, err)
	}
	// A policy takes effect a moment after it was created.
	g.Eventually(func() error {
		return bootServer.Create(ctx, &corev1.Secret{ObjectMeta: meta(erasure.KeySecret)}, client.DryRunAll)
	}, 30*time.Second).Should(MatchError(ContainSubstring("must not write a Secret other than capbm-boot-key")), "a key that an attacker knows")
	const byName, byType = "must not create a Secret other than capbm-erasure-key", "must not create a Secret of a type other than Opaque"
	g.Eventually(func() error {
		return manager.Create(ctx, &corev1.Secret{ObjectMeta: meta("a-token")}, client.DryRunAll)
	}, 30*time.Second).Should(MatchError(ContainSubstring(byName)))
	g.Expect(env.Client.Delete(ctx, &corev1.Secret{ObjectMeta: meta(erasure.KeySecret)})).To(Succeed(), "as when somebody has it recreated")
	token := &corev1.Secret{ObjectMeta: meta(erasure.KeySecret), Type: corev1.SecretTypeServiceAccountToken}
	token.Annotations = map[string]string{corev1.ServiceAccountNameKey: "capbm-boot"}
	g.Expect(manager.Create(ctx, token, client.DryRunAll)).To(MatchError(ContainSubstring(byType)))

	tenant := erasureUser(t, namespace, "tenant", "create", "get", "update", "patch", "delete")
	g.Eventually(func() error { return tenant.Create(ctx, forged(), client.DryRunAll) }, 30*time.Second).Should(MatchError(ContainSubstring("only the provider creates BareMetalErasures")))
	g.Expect(tenant.Patch(ctx, genuine.DeepCopy(), patch, client.DryRunAll)).To(Succeed(), "clusterctl move annotates what it moved away")
	for says, patch := range map[string]string{
		"must not have owners": `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"x","uid":"x"}]}}`,
		"must not change":      `{"metadata":{"labels":{"` + v1alpha1.ErasureHostLabel + `":"another"}}}`,
		"spec is immutable":    `{"spec":{"hostName":"another"}}`,
	} {
		g.Expect(tenant.Patch(ctx, genuine.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch)))).To(MatchError(ContainSubstring(says)))
	}
	g.Expect(tenant.Delete(ctx, genuine.DeepCopy())).To(Succeed(), "whom RBAC permits it may delete proofs")
	restore := erasureUser(t, namespace, "restore", "create", "record")
	g.Eventually(func() error {
		return restore.Create(ctx, &v1alpha1.BareMetalErasure{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: genuine.Name}, Spec: genuine.Spec})
	}, 30*time.Second).Should(Succeed(), "clusterctl move and backups restore records")
	owned := forged()
	owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "x"}}
	g.Expect(restore.Create(ctx, owned)).To(MatchError(ContainSubstring("must not have owners")))
}

// TestErasureRequestRights: a request expires within seven days, and does not change. The controllers delete it and write its status. They create none, and neither does the
// boot server.
func TestErasureRequestRights(t *testing.T) {
	g := NewWithT(t)
	ctx := t.Context()
	manager := managerRole(t)
	_, bootServer := bootRole(t)
	host := &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace(t), Name: "h", UID: "uid"}}
	request := func(life time.Duration) *v1alpha1.BareMetalErasureRequest {
		return erasurerules.NewRequest(host, "SN1", wire.PolicyClear, time.Now().Add(life))
	}
	for life, says := range map[time.Duration]string{-time.Second: "must be in the future", 7*24*time.Hour + time.Minute: "at most 7 days after now"} {
		g.Eventually(func() error { // a policy takes effect a moment after it was created
			return env.Client.Create(ctx, request(life), client.DryRunAll)
		}, 30*time.Second).Should(MatchError(ContainSubstring(says)))
	}
	longest := request(7*24*time.Hour - time.Minute)
	g.Expect(env.Client.Create(ctx, longest)).To(Succeed())
	later := longest.DeepCopy()
	later.Spec.ExpireTime = metav1.NewTime(time.Now().Add(24 * time.Hour))
	g.Expect(env.Client.Update(ctx, later)).To(MatchError(ContainSubstring("spec is immutable")))
	for what, change := range map[string]func(*v1alpha1.BareMetalErasureRequestSpec){
		"spec.bootsBefore: Required": func(s *v1alpha1.BareMetalErasureRequestSpec) { s.BootsBefore = nil },
		"must be Metadata, Clear":    func(s *v1alpha1.BareMetalErasureRequestSpec) { s.Policy = wire.PolicyManual },
		"spec.hostUID: Required":     func(s *v1alpha1.BareMetalErasureRequestSpec) { s.HostUID = "" },
		"spec.expireTime: Required":  func(s *v1alpha1.BareMetalErasureRequestSpec) { s.ExpireTime = metav1.Time{} },
	} {
		wrong := request(time.Hour)
		change(&wrong.Spec)
		g.Expect(env.Client.Create(ctx, wrong)).To(MatchError(ContainSubstring(what)))
	}
	status := client.RawPatch(types.MergePatchType, []byte(`{"status":{"conditions":[]}}`))
	g.Eventually(func() error { return manager.Status().Patch(ctx, longest.DeepCopy(), status) }, 30*time.Second).Should(Succeed(), "its role is in effect")
	g.Eventually(func() error { return bootServer.List(ctx, &v1alpha1.BareMetalHostList{}) }, 30*time.Second).Should(Succeed(), "its role is in effect")
	for what, err := range map[string]error{
		"create one":       manager.Create(ctx, request(time.Hour)),
		"boot: create one": bootServer.Create(ctx, request(time.Hour)),
		"boot: delete one": bootServer.Delete(ctx, longest.DeepCopy()),
		"boot: its status": bootServer.Status().Patch(ctx, longest.DeepCopy(), status),
	} {
		g.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%s: %v", what, err)
	}
	g.Expect(manager.Delete(ctx, longest)).To(Succeed())
}
