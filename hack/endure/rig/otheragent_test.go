package rig_test

import (
	"crypto/sha256"
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/endure/rig"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

// refusedVariable is set if the agent in rig.AgentVariable has another version of the protocol than this boot server.
const refusedVariable = "RIG_AGENT_IS_REFUSED"

// TestOtherAgent: an agent of another version of the protocol is refused before it touches a disk. The agent in rig.AgentVariable, that of another commit, completes an image
// and an erasure if its version is the same.
func TestOtherAgent(t *testing.T) {
	given, refused := os.Getenv(rig.AgentVariable) != "", os.Getenv(refusedVariable) != ""
	t.Run("image", func(t *testing.T) {
		t.Parallel()
		if given && !refused {
			testImage(t, wire.DataSourceNoCloud)
			return
		}
		site, s, p, before := otherAgent(t, given)
		p.Start(t).Ready(t)
		site.Claim(t, "m-"+site.Namespace, site.WithImage(t))
		awaitRefusal(t, s, before)
		NewWithT(t).Expect(p.Stop()).To(Succeed())
	})
	t.Run("erasure", func(t *testing.T) {
		t.Parallel()
		_, s, p, before := otherAgent(t, given)
		request := controllerstest.RequestErasure(t, env, s.Host, bmctest.SerialNumber("s"), wire.PolicyClear)
		p.Start(t).Ready(t)
		if given && !refused {
			controllerstest.Wait(t, env, request, func(g Gomega, r *v1alpha1.BareMetalErasureRequest) {
				g.Expect(conditions.IsTrue(r, v1alpha1.ErasedCondition)).To(BeTrue(), s.AgentLog())
			})
		} else {
			awaitRefusal(t, s, before)
		}
		NewWithT(t).Expect(p.Stop()).To(Succeed())
	})
}

// otherAgent returns a site with a registered server that has a disk with data, its provider, which is not started, and the digest of the disk. Unless an agent is given, the
// server's own one reports another version.
func otherAgent(t *testing.T, given bool) (*rig.Site, *rig.Server, *rig.Provider, [sha256.Size]byte) {
	t.Helper()
	site := rig.NewSite(t, env)
	settings := controllerstest.Settings()
	settings.BootTimeout = 2 * time.Minute
	s := site.Server(t, "s", rig.ServerOptions{Node: true, Disk: true}).Register(t)
	if !given {
		s.SetAgentVersion(agent.Version + 1)
	}
	return site, s, site.Provider(t, rig.Options{Settings: settings}), plant(t, s)
}

// awaitRefusal waits until the boot server has refused the agent of a server, and compares the disk with what was on it before.
func awaitRefusal(t *testing.T, s *rig.Server, before [sha256.Size]byte) {
	t.Helper()
	boot := &v1alpha1.BareMetalBoot{}
	boot.Namespace, boot.Name = s.Host.Namespace, s.Host.Name
	controllerstest.Wait(t, env, boot, func(g Gomega, b *v1alpha1.BareMetalBoot) {
		g.Expect(b.Status.Problem).To(HaveValue(HaveField("Reason", wire.ReasonVersionDiffers)), s.AgentLog())
	})
	g := NewWithT(t)
	g.Eventually(s.AgentLog, time.Minute).Should(ContainSubstring("another version of the protocol"))
	g.Expect(digest(t, s)).To(Equal(before), "the disk was touched")
}

// plant writes data to the disk of a server, which an erasure would remove, and returns the digest of the disk.
func plant(t *testing.T, s *rig.Server) [sha256.Size]byte {
	t.Helper()
	g := NewWithT(t)
	disk, err := os.OpenFile(s.Disk, os.O_WRONLY, 0)
	g.Expect(err).NotTo(HaveOccurred())
	for _, at := range []int64{0, 1 << 20, 3 << 20} { // where partition tables and partitions start
		_, err = disk.WriteAt([]byte("data of a tenant"), at)
		g.Expect(err).NotTo(HaveOccurred())
	}
	g.Expect(disk.Close()).To(Succeed())
	return digest(t, s)
}

// digest returns the digest of what is on the disk of a server.
func digest(t *testing.T, s *rig.Server) [sha256.Size]byte {
	t.Helper()
	content, err := os.ReadFile(s.Disk)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return sha256.Sum256(content)
}
