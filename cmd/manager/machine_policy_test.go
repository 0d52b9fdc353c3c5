package main

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// TestMachinesOfTheManager: with the roles that config installs, the account of the controllers changes one annotation of a Machine, and only with a value of its own.
func TestMachinesOfTheManager(t *testing.T) {
	g := NewWithT(t)
	manager := managerRole(t)
	claim := env.NewClaim(t, env.Namespace(t), "m")
	const skip, own = clusterv1.MachineSkipRemediationAnnotation, v1alpha1.SkipRemediationValuePrefix + "h"
	annotate := func(key, value string) func(*clusterv1.Machine) {
		return func(m *clusterv1.Machine) { metav1.SetMetaDataAnnotation(&m.ObjectMeta, key, value) }
	}
	patch := func(from *clusterv1.Machine, change func(*clusterv1.Machine)) error {
		changed := from.DeepCopy()
		change(changed)
		return manager.Patch(t.Context(), changed, client.MergeFrom(from), client.DryRunAll)
	}
	for what, test := range map[string]struct {
		change func(*clusterv1.Machine)
		says   string
	}{
		"spec":               {func(m *clusterv1.Machine) { m.Spec.Version = "v1.99.0" }, "must not change the spec"},
		"label":              {func(m *clusterv1.Machine) { m.Labels = map[string]string{"x": "y"} }, "must not change labels, finalizers or owners"},
		"finalizer":          {func(m *clusterv1.Machine) { m.Finalizers = []string{"example.com/x"} }, "must not change labels, finalizers or owners"},
		"owner":              {func(m *clusterv1.Machine) { m.OwnerReferences = owners("ConfigMap", "x") }, "must not change labels, finalizers or owners"},
		"another annotation": {annotate("cluster.x-k8s.io/delete-machine", ""), "must not change annotations of a Machine other than"},
		"a value of a user":  {annotate(skip, ""), "that something else set"},
	} {
		g.Eventually(func() error { return patch(claim.Machine, test.change) }, 30*time.Second).Should(MatchError(ContainSubstring(test.says)), what)
	}
	g.Expect(patch(claim.Machine, annotate(skip, own))).To(Succeed())

	ofUser := claim.Machine.DeepCopy()
	annotate(skip, "")(ofUser)
	g.Expect(env.Client.Patch(t.Context(), ofUser, client.MergeFrom(claim.Machine))).To(Succeed(), "a user may do anything")
	remove := func(m *clusterv1.Machine) { delete(m.Annotations, skip) }
	g.Expect(patch(ofUser, remove)).To(MatchError(ContainSubstring("that something else set")))
	g.Expect(patch(ofUser, annotate(skip, own))).To(MatchError(ContainSubstring("that something else set")))
	ofProvider := ofUser.DeepCopy()
	annotate(skip, own)(ofProvider)
	g.Expect(env.Client.Patch(t.Context(), ofProvider, client.MergeFrom(ofUser))).To(Succeed())
	g.Expect(patch(ofProvider, remove)).To(Succeed())
}
