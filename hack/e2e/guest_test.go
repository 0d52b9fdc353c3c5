package e2e_test

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
)

// userData is the bootstrap data of the guest: what it prints is what cloud-init carried out, and the network that the guest has then.
// {{ ds.meta_data }} is what a KubeadmConfig can name. The file at the end is that of Cluster API's bootstrap providers.
const userData = `## template: jinja
#cloud-config
write_files:
- path: /run/e2e
  content: "{{ ds.meta_data.provider_id }}"
runcmd:
- [sh, -c, 'echo "e2e: $(hostname) has carried out its user data as $(cat /run/e2e)" >/dev/ttyS0']
- [sh, -c, 'echo e2e: network $(ip -4 -brief address show scope global) $(ip -4 route show default) $(grep ^DNS= /run/systemd/netif/state) >/dev/ttyS0']
- [mkdir, -p, /run/cluster-api]
- [touch, /run/cluster-api/bootstrap-success.complete]
`

// testCloudInit boots a Debian from memory, which has a static address. Its cloud-init sets up that network, reads the seed over it,
// applies the user data, phones home, and reports that the bootstrap succeeded.
func testCloudInit(t *testing.T, s *site) {
	t.Helper()
	g := NewWithT(t)
	m := bios()
	m.memory = 1536
	r := s.emulate(t, "cloud-init", m)
	initrd := serve(t, filepath.Join(controllerstest.Root(), ".cache", "guest", "initrd"), "hack/guest.sh makes it")
	gateway := s.hosts.address
	r.static = s.hosts.at(50) // DHCP gives none below 100
	prefix := netip.PrefixFrom(r.static, s.hosts.prefix.Bits())
	r.host.Spec.Network = &v1alpha1.HostNetwork{Interfaces: []v1alpha1.NetworkInterface{{
		Name: "lan0", MACAddress: r.host.Spec.BootMACAddresses[0],
		LinkSettings: v1alpha1.LinkSettings{
			Addresses:   []v1alpha1.IPPrefix{v1alpha1.IPPrefix(prefix.String())},
			Routes:      []v1alpha1.NetworkRoute{{To: "default", Via: v1alpha1.IPAddress(gateway.String())}},
			Nameservers: &v1alpha1.Nameservers{Addresses: []v1alpha1.IPAddress{v1alpha1.IPAddress(gateway.String())}},
		},
	}}}
	r.register(t)
	r.silent = true // its user data prints what is looked for below
	r.boot(t, func(c *controllerstest.Claim) {
		c.Bootstrap.StringData["value"] = userData
		boot := &c.BareMetalMachine.Spec.Boot
		boot.Initrds, boot.Persistence, boot.ReportBootstrap = []v1alpha1.Artifact{initrd}, v1alpha1.PersistenceEphemeral, true
		boot.CommandLine = commandLine + " systemd.show_status=1"
	})
	r.awaitProvisioned(t, 2*bootTimeout, "iPXE, Intel x86PC", stages...)
	g.Eventually(r.console, bootTimeout, "100ms").Should(And(
		ContainSubstring("e2e: cloud-init has carried out its user data as "+r.claim.BareMetalMachine.Spec.ProviderID),
		// All addresses that it has, its routes out and its DNS server.
		ContainSubstring(fmt.Sprintf("e2e: network lan0 UP %s default via %s dev lan0 proto static DNS=%[2]s\n", prefix, gateway)),
	))
	r.await(t, bootTimeout, "the bootstrap succeeded", func() bool { return r.observed(v1alpha1.StageBootstrapSucceeded) != nil })
	g.Expect(r.observed(v1alpha1.StageBootstrapSucceeded).Address).To(Equal(r.static.String()))
}
