package boot_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
)

// TestBootMode: the boot server answers a host by its boot mode.
func TestBootMode(t *testing.T) {
	for mode, want := range map[v1alpha1.BootMode]pxe.Answer{
		v1alpha1.BootModeUEFI:           {},
		v1alpha1.BootModeUEFISecureBoot: {SecureBoot: true},
		v1alpha1.BootModeBIOS:           {BIOS: true},
	} {
		t.Run(string(mode), func(t *testing.T) {
			g := NewWithT(t)
			w := newWorld()
			g.Expect(w.changeHost(func(h *v1alpha1.BareMetalHost) { h.Spec.BootMode = mode })).To(Succeed())
			answer, err := w.Lookup(ctx, booting)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(answer.Boot).To(Equal(pxe.Network))
			g.Expect(answer.Namespace).To(Equal("dc"), "whose share of the cache the files take")
			g.Expect([]bool{answer.SecureBoot, answer.BIOS}).To(Equal([]bool{want.SecureBoot, want.BIOS}))
		})
	}
}
