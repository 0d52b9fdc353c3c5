package rig_test

import (
	"crypto/sha256"
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/endure/rig"
)

// refusedVariable is set if the agent in rig.AgentVariable has another version of the protocol than this boot server.
const refusedVariable = "RIG_AGENT_IS_REFUSED"

// TestOtherAgent: the agent of another commit completes an image and an erasure, or is refused before it touches a disk. Without rig.AgentVariable it is the agent of
// this commit, which completes them.
func TestOtherAgent(t *testing.T) {
	refused := os.Getenv(refusedVariable) != ""
	t.Run("image", func(t *testing.T) {
		t.Parallel()
		site, s, p, before := otherAgent(t)
		p.Start(t).Ready(t)
		claim := site.Claim(t, "m-"+site.Namespace, site.WithImage(t))
		if refused {
			awaitRefusal(t, s, before)
			NewWithT(t).Expect(p.Stop()).To(Succeed())
			return
		}
		g := NewWithT(t)
		controllerstest.Wait(t, env, claim.BareMetalMachine, func(g Gomega, m *v1alpha1.BareMetalMachine) {
			g.Expect(m.Spec.ProviderID).NotTo(BeEmpty(), s.AgentLog())
		})
		boots, data, err := s.Left()
		g.Expect([]any{boots, data, err}).To(Equal([]any{true, true, nil}))
		g.Expect(env.Client.Delete(t.Context(), claim.BareMetalMachine)).To(Succeed())
		env.Gone(t, claim.BareMetalMachine)
		boots, data, err = s.Left()
		g.Expect([]any{boots, data, err}).To(Equal([]any{false, false, nil}), "the release erases")
		g.Expect(p.Stop()).To(Succeed())
		node := &corev1.Node{}
		node.Name = claim.Machine.Name
		g.Expect(client.IgnoreNotFound(env.Client.Delete(t.Context(), node))).To(Succeed())
	})
	t.Run("erasure", func(t *testing.T) {
		t.Parallel()
		_, s, p, before := otherAgent(t)
		request := controllerstest.RequestErasure(t, env, s.Host, bmctest.SerialNumber("s"), v1alpha1.CleaningClear)
		p.Start(t).Ready(t)
		if refused {
			awaitRefusal(t, s, before)
		} else {
			controllerstest.Wait(t, env, request, func(g Gomega, r *v1alpha1.BareMetalErasureRequest) {
				g.Expect(r.Status.Conditions).To(ContainElement(And(HaveField("Type", v1alpha1.ErasedCondition), HaveField("Status", BeEquivalentTo("True")))), s.AgentLog())
			})
		}
		NewWithT(t).Expect(p.Stop()).To(Succeed())
	})
}

// otherAgent returns a site with a registered server that has a disk, its provider, which is not started, and what is on the disk.
func otherAgent(t *testing.T) (*rig.Site, *rig.Server, *rig.Provider, [sha256.Size]byte) {
	t.Helper()
	site := rig.NewSite(t, env)
	settings := controllerstest.Settings()
	settings.BootTimeout = 2 * time.Minute
	s := site.Server(t, "s", rig.ServerOptions{Node: true, Disk: true}).Register(t)
	return site, s, site.Provider(t, rig.Options{Settings: settings}), diskOf(t, s)
}

// awaitRefusal waits until the boot server has refused the agent of a server, and compares the disk with what was on it before.
func awaitRefusal(t *testing.T, s *rig.Server, before [sha256.Size]byte) {
	t.Helper()
	boot := &v1alpha1.BareMetalBoot{}
	boot.Namespace, boot.Name = s.Host.Namespace, s.Host.Name
	controllerstest.Wait(t, env, boot, func(g Gomega, b *v1alpha1.BareMetalBoot) {
		g.Expect(b.Status.Problem).To(HaveValue(HaveField("Reason", v1alpha1.ReasonVersionDiffers)), s.AgentLog())
	})
	g := NewWithT(t)
	g.Eventually(s.AgentLog, time.Minute).Should(ContainSubstring("another version of the protocol"))
	g.Expect(diskOf(t, s)).To(Equal(before), "the disk was touched")
}

func diskOf(t *testing.T, s *rig.Server) [sha256.Size]byte {
	t.Helper()
	content, err := os.ReadFile(s.Disk)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return sha256.Sum256(content)
}
