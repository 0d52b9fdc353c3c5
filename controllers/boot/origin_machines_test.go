package boot_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed"
)

// TestConfigOfAnotherMachine: a Machine that names the bootstrap config of another Machine gets no data. Neither does the other one, until that Machine is
// gone, and its boot says why.
func TestConfigOfAnotherMachine(t *testing.T) {
	config := clusterv1.ContractVersionedObjectReference{APIGroup: "bootstrap.cluster.x-k8s.io", Kind: "KubeadmConfig", Name: "cp-0"}
	for name, other := range map[string]clusterv1.Bootstrap{
		"its config":                 {ConfigRef: config},
		"its config, and a Secret":   {ConfigRef: config, DataSecretName: new("elsewhere")},
		"its Secret":                 {DataSecretName: new("data")},
		"its Secret, and an own one": {ConfigRef: clusterv1.ContractVersionedObjectReference{APIGroup: config.APIGroup, Kind: config.Kind, Name: "own"}, DataSecretName: new("data")},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w := newWorld()
			g.Expect(change(w, "m", &clusterv1.Machine{}, func(m *clusterv1.Machine) { m.Spec.Bootstrap.ConfigRef = config })).To(Succeed())
			g.Expect(change(w, "data", &corev1.Secret{}, func(s *corev1.Secret) {
				s.OwnerReferences = []metav1.OwnerReference{{APIVersion: config.APIGroup + "/v1beta2", Kind: config.Kind, Name: config.Name, UID: "x", Controller: new(true)}}
			})).To(Succeed())
			elsewhere := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "m2"}, Spec: clusterv1.MachineSpec{ClusterName: "c", Bootstrap: other}}
			g.Expect(w.Create(ctx, elsewhere)).To(Succeed())
			token, err := w.script(honest)
			g.Expect(err).NotTo(HaveOccurred(), "a Machine of another namespace")

			second := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "dc", Name: "evil"}, Spec: elsewhere.Spec}
			g.Expect(w.Create(ctx, second)).To(Succeed())
			refusal := And(MatchError(ContainSubstring(`the Machines "m" and "evil" both name it or its bootstrap config`)), Not(MatchError(pxe.ErrRefused)))
			_, err = w.script(honest)
			g.Expect(err).To(And(refusal, MatchError(pxe.ErrNotYet)))
			_, err = w.BootstrapData(ctx, "dc/h", token, seed.UserData, honest)
			g.Expect(err).To(refusal)
			g.Expect(w.boot().Spec.Failure).To(BeNil())
			g.Expect(w.boot().Spec.DataAddress).To(BeEmpty())

			g.Expect(w.Delete(ctx, second)).To(Succeed())
			_, err = w.BootstrapData(ctx, "dc/h", token, seed.UserData, honest)
			g.Expect(err).NotTo(HaveOccurred())
		})
	}
}
