package inventorycheck

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/erasure"
)

// testErasures: a user who may only list records exports those of a host and of all hosts, and the file is valid with the published key, offline.
func testErasures(t *testing.T) {
	g := NewWithT(t)
	namespace := env.Namespace(t)
	recorder := &erasure.Recorder{Client: env.Client, APIReader: env.Client, Namespace: namespace}
	now := metav1.Now()
	for _, name := range []string{"a", "b"} {
		meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
		boot := &v1alpha1.BareMetalBoot{ObjectMeta: meta, Spec: v1alpha1.BareMetalBootSpec{
			Purpose: v1alpha1.PurposeClean, ClaimID: "claim", Number: 1, AgentDoneTime: &now,
			Erasure: &v1alpha1.ErasureReport{Policy: wire.PolicyMetadata, StartTime: now, EndTime: now},
		}}
		g.Expect(recorder.Record(t.Context(), &v1alpha1.BareMetalHost{ObjectMeta: meta}, boot)).To(Succeed())
	}
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "auditor"}
	env.Create(t, &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"baremetalerasures"}, Verbs: []string{"list"}},
	}}, &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "auditor"}},
	})
	kubeconfig := env.Kubeconfig(t, "auditor")
	run := func(program string, args ...string) outcome {
		command := exec.CommandContext(t.Context(), program, append([]string{"erasures"}, args...)...)
		var out, errs bytes.Buffer
		command.Stdout, command.Stderr = &out, &errs
		_ = command.Run()
		return outcome{command.ProcessState.ExitCode(), out.String(), errs.String()}
	}
	g.Eventually(func(g Gomega) { // the authorizer sees a new role a moment later
		got := run(plugin, "a", "-o", "certificate", "--kubeconfig", kubeconfig, "--namespace", namespace)
		g.Expect(got.code).To(Equal(0), got.err)
		g.Expect(got.out).To(And(ContainSubstring(namespace+"/a"), Not(ContainSubstring(namespace+"/b"))))
	}).Should(Succeed())
	got := run(plugin, "c", "--kubeconfig", kubeconfig, "--namespace", namespace)
	g.Expect(got.code).To(Equal(2))
	g.Expect(got.err).To(ContainSubstring(`the host "c" in the namespace`))

	got = run(plugin, "-o", "export", "--kubeconfig", kubeconfig, "--namespace", namespace)
	g.Expect(got.code).To(Equal(0), got.err)
	folder := t.TempDir()
	file, key := filepath.Join(folder, "erasures.json"), filepath.Join(folder, "keys.pem")
	g.Expect(os.WriteFile(file, []byte(got.out), 0o600)).To(Succeed())
	keys := &corev1.ConfigMap{}
	g.Expect(env.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: erasure.PublicKeysConfigMap}, keys)).To(Succeed())
	var pem bytes.Buffer
	for _, content := range keys.Data {
		pem.WriteString(content)
	}
	g.Expect(os.WriteFile(key, pem.Bytes(), 0o600)).To(Succeed())
	got = run(bmcctl, "verify", file, "--key", key)
	g.Expect(got.code).To(Equal(0), got.out+got.err)
	g.Expect(got.out).To(And(ContainSubstring("valid    certificate 1 (host "+namespace+"/a"), ContainSubstring("valid    certificate 2 (host "+namespace+"/b")))
}
