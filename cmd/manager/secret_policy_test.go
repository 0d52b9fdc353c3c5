package main

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capbm-io/cluster-api-provider-baremetal/api/bootstrap/v1alpha1"
)

// TestSecretsOfTheManager: with the roles that config installs, the account of the controllers changes the labels of a Secret and nothing else.
func TestSecretsOfTheManager(t *testing.T) {
	manager, namespace := managerRole(t), env.Namespace(t)
	existing := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "bmc"}, StringData: map[string]string{"password": "p"}}
	env.Create(t, existing)
	changesOnly(t, manager, existing, "must not change anything of a Secret but its labels", map[string]func(*corev1.Secret){
		"data":  func(s *corev1.Secret) { s.Data["password"] = []byte("q") },
		"owner": func(s *corev1.Secret) { s.OwnerReferences = owners("ConfigMap", "x") },
	})
}

// TestSecretsOfTheBootstrapProvider: with the roles that config installs, its account creates the Secret of a BareMetalConfig and no other, and changes labels, and the owner of
// what it has created.
func TestSecretsOfTheBootstrapProvider(t *testing.T) {
	g := NewWithT(t)
	for _, o := range build(t, "bootstrap/rbac") {
		if o.GetNamespace() == "" {
			createRole(t, &o)
		}
	}
	config, _ := env.User(t, "system:serviceaccount:capbm-bootstrap-system:capbm-bootstrap-manager")
	provider, err := client.New(config, client.Options{Scheme: env.Scheme})
	g.Expect(err).NotTo(HaveOccurred())
	namespace := env.Namespace(t)
	rendered := func() *corev1.Secret {
		return &corev1.Secret{Type: clusterv1.ClusterSecretType, ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "m", OwnerReferences: owners("BareMetalConfig", "m"), Annotations: map[string]string{bootstrapv1.ConfigAnnotation: "m"},
		}}
	}
	for what, change := range map[string]func(*corev1.Secret){
		"a token": func(s *corev1.Secret) {
			s.Type = corev1.SecretTypeServiceAccountToken
			s.Annotations[corev1.ServiceAccountNameKey] = "default"
		},
		"no owner":       func(s *corev1.Secret) { s.OwnerReferences = nil },
		"another owner":  func(s *corev1.Secret) { s.OwnerReferences = owners("BareMetalConfig", "n") },
		"a second owner": func(s *corev1.Secret) { s.OwnerReferences = append(s.OwnerReferences, owners("ConfigMap", "x")...) },
		"no mark":        func(s *corev1.Secret) { s.Annotations = nil },
	} {
		g.Eventually(func() error { // the role and the policy take effect a moment after they were created
			s := rendered()
			change(s)
			return provider.Create(t.Context(), s, client.DryRunAll)
		}, 30*time.Second).Should(MatchError(ContainSubstring("must not create a Secret other than that of a BareMetalConfig")), what)
	}
	own := rendered()
	g.Expect(provider.Create(t.Context(), own)).To(Succeed())
	changesOnly(t, provider, own, "must not change anything of a Secret but its labels and its owner", map[string]func(*corev1.Secret){
		"data": func(s *corev1.Secret) { s.Data = map[string][]byte{"value": []byte("x")} },
		"mark": func(s *corev1.Secret) { s.Annotations = nil },
	})
	restored := own.DeepCopy()
	restored.OwnerReferences[0].UID = "another"
	g.Expect(provider.Patch(t.Context(), restored, client.MergeFrom(own), client.DryRunAll)).To(Succeed())
	bmc := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "bmc"}}
	env.Create(t, bmc)
	changesOnly(t, provider, bmc, "must not change the owner of a Secret that it has not created", map[string]func(*corev1.Secret){
		"owner": func(s *corev1.Secret) { s.OwnerReferences = owners("BareMetalConfig", "bmc") },
	})
}

func owners(kind, name string) []metav1.OwnerReference {
	version := "v1"
	if kind == "BareMetalConfig" {
		version = bootstrapv1.GroupVersion.String()
	}
	return []metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: name, UID: "x", Controller: new(kind == "BareMetalConfig")}}
}

// changesOnly expects that a client may change the labels of a Secret, and that the policy refuses these changes with a text.
func changesOnly(t *testing.T, c client.Client, s *corev1.Secret, says string, changes map[string]func(*corev1.Secret)) {
	t.Helper()
	g := NewWithT(t)
	patch := func(change func(*corev1.Secret)) error {
		changed := s.DeepCopy()
		change(changed)
		return c.Patch(t.Context(), changed, client.MergeFrom(s), client.DryRunAll)
	}
	for what, change := range changes {
		g.Eventually(func() error { return patch(change) }, 30*time.Second).Should(MatchError(ContainSubstring(says)), what)
	}
	g.Expect(patch(func(s *corev1.Secret) { s.Labels = map[string]string{"clusterctl.cluster.x-k8s.io/move": ""} })).To(Succeed())
}
