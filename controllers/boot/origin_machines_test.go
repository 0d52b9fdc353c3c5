package boot_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	bootstrapv1 "github.com/capbm-io/cluster-api-provider-baremetal/api/bootstrap/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed"
)

// TestConfigOfAnotherMachine: a Machine that names the bootstrap config of another Machine gets no data: not by the script, and not by the seed. It is asked to retry, since
// the config may become its own.
func TestConfigOfAnotherMachine(t *testing.T) {
	controls := func(kind, name string, uid types.UID) func(*bootstrapv1.BareMetalConfig) {
		return func(c *bootstrapv1.BareMetalConfig) {
			c.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: kind, Name: name, UID: uid, Controller: new(true)}}
		}
	}
	for name, c := range map[string]struct {
		config func(*bootstrapv1.BareMetalConfig) // nil for none
		served bool
	}{
		"its own":                       {controls("Machine", "m", "m-uid"), true},
		"another Machine's":             {controls("Machine", "cp-0", "cp-0-uid"), false},
		"that of an earlier Machine":    {controls("Machine", "m", "earlier"), false},
		"still that of a control plane": {controls("KubeadmControlPlane", "cp", "cp-uid"), false},
		"without an owner":              {func(*bootstrapv1.BareMetalConfig) {}, false},
		"another of the same name":      {func(c *bootstrapv1.BareMetalConfig) { controls("Machine", "m", "m-uid")(c); c.UID = "another" }, false},
		"gone":                          {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w := newWorld()
			token, err := w.script(honest)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(change(w, "m", &clusterv1.Machine{}, func(m *clusterv1.Machine) {
				m.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{APIGroup: bootstrapv1.GroupVersion.Group, Kind: "BareMetalConfig", Name: "config"}
			})).To(Succeed())
			g.Expect(change(w, "data", &corev1.Secret{}, func(s *corev1.Secret) {
				s.OwnerReferences = []metav1.OwnerReference{{APIVersion: bootstrapv1.GroupVersion.String(), Kind: "BareMetalConfig", Name: "config", UID: "config-uid", Controller: new(true)}}
			})).To(Succeed())
			if c.config != nil {
				config := &bootstrapv1.BareMetalConfig{ObjectMeta: metav1.ObjectMeta{Namespace: "dc", Name: "config", UID: "config-uid"}}
				c.config(config)
				g.Expect(w.Create(ctx, config)).To(Succeed())
			}
			_, err = w.script(honest)
			_, seedErr := w.BootstrapData(ctx, "dc/h", token, seed.UserData, honest)
			if c.served {
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(seedErr).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(MatchError(pxe.ErrNotYet))
			g.Expect(seedErr).To(And(HaveOccurred(), Not(MatchError(pxe.ErrRefused))))
			g.Expect(w.boot().Spec.Failure).To(BeNil())
			g.Expect(w.boot().Spec.DataAddress).To(BeEmpty())
		})
	}
}
