package e2e_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/peertest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/qemu"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
)

// routed is a network without any DHCP server, behind a router. BMCs are on a third network.
func routed(t *testing.T) service {
	t.Helper()
	front, back := newSegment(t, "10.83.0.0/24"), newBareSegment(t, "10.84.0.0/24")
	_, inner, _ := connect(t, front, back)
	return service{manager: front, hosts: back, mode: "off", router: inner, mediaURL: fmt.Sprintf("http://127.0.0.1:%d", bootconfig.DefaultHTTPPort)}
}

// TestVirtualMedia: a server without DHCP is inspected, gets a small image and boots it, all by virtual media of sushy-tools. The agent and the operating system
// have the static network of the host.
func TestVirtualMedia(t *testing.T) { testVirtualMedia(t, "small-gpt.qcow2") }

// TestVirtualMediaDebian: the same with Debian and its cloud-init; then the server boots a kernel from a boot source.
func TestVirtualMediaDebian(t *testing.T) {
	s, r := testVirtualMedia(t, "debian.qcow2")
	r.bootSource(t, func(c *controllerstest.Claim) {
		c.BareMetalMachine.Spec.Boot.CommandLine += fmt.Sprintf(" e2e.address=%s/%d e2e.gateway=%s", r.static, s.hosts.prefix.Bits(), s.router)
	})
	NewWithT(t).Expect(r.record.Spec.Method).To(Equal(v1alpha1.MethodVirtualMedia))
	r.release(t)
}

func testVirtualMedia(t *testing.T, image string) (*site, *server) {
	t.Helper()
	g := NewWithT(t)
	s := startSite(t, routed(t))
	machine := peertest.Machine{Name: "media", UUID: "27946b59-9e44-4fa7-8e91-f3527a1e0078", MAC: nextMAC(), Tap: s.hosts.tap(t, peertest.TapOwner), DiskGiB: 4, CPU: "maximum"}
	libvirt := peertest.StartLibvirtWith(t, machine)
	machine = libvirt.Machines[0]
	sushy := peertest.StartSushyLibvirt(t, libvirt)
	r := s.enlist(machine.Name, machine.MAC, v1alpha1.BootModeUEFI, sushy.Endpoint(machine.UUID))
	r.console, r.silent = consoleOf(t, machine), true
	r.static = s.hosts.at(50)
	r.host.Spec.BootMethods = []v1alpha1.BootMethod{v1alpha1.MethodVirtualMedia}
	r.host.Spec.Inspection = v1alpha1.InspectionAgent
	r.host.Spec.Network = &v1alpha1.HostNetwork{Interfaces: []v1alpha1.NetworkInterface{{
		Name: "lan0", MACAddress: machine.MAC,
		LinkSettings: v1alpha1.LinkSettings{
			Addresses: []v1alpha1.IPPrefix{v1alpha1.IPPrefix(netip.PrefixFrom(r.static, s.hosts.prefix.Bits()).String())},
			Routes:    []v1alpha1.NetworkRoute{{To: "default", Via: v1alpha1.IPAddress(s.router.String())}},
		},
	}}}
	r.register(t)
	r.inspected(t, "UEFI")
	g.Expect(r.record.Spec).To(And(HaveField("Method", v1alpha1.MethodVirtualMedia), HaveField("AgentKey", Not(BeEmpty()))))
	g.Expect(r.observed(v1alpha1.StageMedia).Address).To(Equal("127.0.0.1"), "the BMC fetches the medium")
	g.Expect(r.observed(v1alpha1.StageAgent).Address).To(Equal(r.static.String()))

	r.seen = map[v1alpha1.BootStage]bool{}
	r.boot(t, func(c *controllerstest.Claim) {
		c.BareMetalMachine.Spec.Boot, c.BareMetalMachine.Spec.Image = v1alpha1.BootSource{}, osImage(t, image)
	})
	r.await(t, imagingTimeout, "the image is on the disk", func() bool {
		return r.record.Spec.Purpose == v1alpha1.PurposeProvision && r.record.Spec.CommitAllowedTime != nil
	})
	// sushy-tools never ends an override for one boot: the firmware would try the empty drive and the network, for minutes.
	g.Expect(libvirt.EndOverride(t.Context(), machine.Name, peertest.OpticalDrive)).To(Succeed())
	r.awaitProvisioned(t, imagingTimeout, "", v1alpha1.StageMedia, v1alpha1.StageAgent, v1alpha1.StageData, v1alpha1.StageCommitted, v1alpha1.StageAgentDone, v1alpha1.StageReportedIn)
	g.Expect(r.record.Spec.Method).To(Equal(v1alpha1.MethodVirtualMedia))
	// Without the count of the bytes of the image that the agent was sent, it would get the bootstrap data 15 minutes after the power-on.
	g.Expect(r.observed(v1alpha1.StageData).Time.Sub(r.observed(v1alpha1.StageAgent).Time.Time)).To(BeNumerically("<", 10*time.Minute))
	r.releaseErasedDisk(t, machine.Disk)
	return s, r
}

// bootSource claims the server again, for a machine with a kernel and an initrd, and waits until it boots these from a medium and runs.
func (r *server) bootSource(t *testing.T, change ...func(*controllerstest.Claim)) {
	t.Helper()
	r.seen, r.silent = map[v1alpha1.BootStage]bool{}, false
	r.boot(t, change...)
	r.awaitProvisioned(t, bootTimeout, "", v1alpha1.StageMedia, v1alpha1.StageData, v1alpha1.StageReportedIn)
	NewWithT(t).Expect(r.record.Spec.Agent).To(BeFalse())
}

// TestUefiHTTP: OVMF boots the agent, then a kernel from a boot source, from the URL that the BMC sets in its variables. A DHCP server that knows nothing of booting gives it an address. sushy-tools attaches
// the medium of UefiHttp as a CD, so the BMC is the emulated one.
func TestUefiHTTP(t *testing.T) {
	w := newSegment(t, "10.85.0.0/24")
	first, last := startDnsmasq(t, w)
	s := startSite(t, service{manager: w, hosts: w, mode: "off", first: first, last: last, mediaURL: fmt.Sprintf("http://%s", netip.AddrPortFrom(w.address, bootconfig.DefaultHTTPPort))})
	r := s.emulateBlank(t, "uefi-http", uefi(noIPv6...).onBlankDisk(virtioDisk))
	r.host.Spec.BootMethods = []v1alpha1.BootMethod{v1alpha1.MethodUefiHTTP}
	r.register(t)
	r.boot(t, func(c *controllerstest.Claim) {
		c.BareMetalMachine.Spec.Boot, c.BareMetalMachine.Spec.Image = v1alpha1.BootSource{}, osImage(t, "small-gpt.qcow2")
	})
	r.awaitProvisioned(t, imagingTimeout, "", v1alpha1.StageMedia, v1alpha1.StageAgent, v1alpha1.StageCommitted, v1alpha1.StageAgentDone, v1alpha1.StageReportedIn)
	g := NewWithT(t)
	g.Expect(r.record.Spec.Method).To(Equal(v1alpha1.MethodUefiHTTP))
	g.Expect(s.gives(netip.MustParseAddr(r.observed(v1alpha1.StageMedia).Address))).To(BeTrue(), "the firmware fetches the medium")
	r.chassis.bootsAgentEntry(t, r.record.Spec.MachineName)
	r.releaseErased(t)

	r.bootSource(t)
	g.Expect(r.record.Spec.Method).To(Equal(v1alpha1.MethodUefiHTTP))
	r.release(t)
}

// consoleOf returns the function for what a machine of libvirt wrote to its serial line. A test that fails logs it.
func consoleOf(t *testing.T, m peertest.Machine) func() string {
	t.Helper()
	console := func() string {
		content, err := os.ReadFile(m.Console)
		if err != nil {
			return err.Error()
		}
		return qemu.Printable(content)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the console of %s:\n%s", m.Name, console())
		}
	})
	return console
}

// writeCertificate writes a certificate for an address, and its key. Agents know its key from their boot medium or script, and the image of Debian trusts its CA.
func writeCertificate(t *testing.T, folder string, address netip.Addr) (certificate, key string) {
	t.Helper()
	g := NewWithT(t)
	made := filepath.Join(controllerstest.Root(), ".cache", "osimage")
	ca, err := tls.LoadX509KeyPair(filepath.Join(made, "ca.crt"), filepath.Join(made, "ca.key"))
	g.Expect(err).NotTo(HaveOccurred(), "make osimage makes the CA")
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	g.Expect(err).NotTo(HaveOccurred())
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "boot"}, IPAddresses: []net.IP{address.AsSlice()}, SerialNumber: big.NewInt(1),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.Leaf, private.Public(), ca.PrivateKey)
	g.Expect(err).NotTo(HaveOccurred())
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	g.Expect(err).NotTo(HaveOccurred())
	certificate, key = filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key")
	for path, block := range map[string]*pem.Block{certificate: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		g.Expect(os.WriteFile(path, pem.EncodeToMemory(block), 0o600)).To(Succeed())
	}
	return certificate, key
}
