package nodetest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/peertest"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/plane"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/rack"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/site"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/netns"
)

// The network of the virtual machines: a bridge with an address of this namespace, at which the boot server and the API server of the workload cluster are.
const (
	bridge  = "br0"
	address = "10.90.0.1"
	subnet  = "10.90.0.0/24"
)

// rig is a management plane, and the network of the virtual machines.
type rig struct {
	ctx   context.Context //nolint:containedctx // of the test
	root  string
	lab   *site.Lab
	plane *plane.Plane
}

// startRig starts a lab whose boot server also serves the virtual machines. It ends with the test.
func startRig(t *testing.T, timeout time.Duration) *rig {
	t.Helper()
	g := NewWithT(t)
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	t.Cleanup(cancel)
	root, err := filepath.Abs(filepath.Join("..", ".."))
	g.Expect(err).NotTo(HaveOccurred())
	r := &rig{ctx: ctx, root: root}
	makeBridge(t)

	begin := time.Now()
	log := func(format string, args ...any) {
		t.Logf("%6.1f s  %s", time.Since(begin).Seconds(), fmt.Sprintf(format, args...))
	}
	r.lab, err = site.New(ctx, root, log, func(server, what string) { log("%s: %s", server, what) })
	t.Cleanup(func() { // the lab is closed even if ctx has ended
		if t.Failed() {
			t.Logf("logs are in %s", r.lab.Dir)
		}
		NewWithT(t).Expect(r.lab.Close(t.Failed())).To(Succeed())
	})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(r.lab.Rack.ServeAlso(rack.Network{
		Address: netip.MustParseAddr(address), Subnet: netip.MustParsePrefix(subnet),
		First: netip.MustParseAddr("10.90.0.100"), Last: netip.MustParseAddr("10.90.0.200"),
		Loaders: filepath.Join(root, ".cache", "loaders"), Agent: filepath.Join(root, "out", "agent"),
	})).To(Succeed())
	// An emulated processor needs minutes for a join.
	r.plane, err = r.lab.StartPlane(ctx, "management", append(r.lab.Rack.ManagerArgs(), "--boot-timeout=30m"), func(o *plane.Options) {
		o.APIServerArgs = []string{"advertise-address=127.0.0.1"} // it finds none without a default route
	})
	t.Cleanup(func() { NewWithT(t).Expect(r.plane.Stop()).To(Succeed()) })
	g.Expect(err).NotTo(HaveOccurred())
	return r
}

func makeBridge(t *testing.T) {
	t.Helper()
	ip(t, "link", "add", bridge, "type", "bridge")
	t.Cleanup(func() { ip(t, "link", "delete", bridge) })
	ip(t, "link", "set", bridge, "addrgenmode", "none", "up")
	// A router of IPv6 must be usable at once: an address that the kernel chooses is first probed for.
	ip(t, "address", "add", "fe80::1/64", "dev", bridge, "nodad")
	ip(t, "address", "add", address+"/24", "dev", bridge)
	router, err := netns.Advertise(bridge, netip.MustParsePrefix(subnet))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { NewWithT(t).Expect(router.Close()).To(Succeed()) })
}

func ip(t *testing.T, args ...string) {
	t.Helper()
	out, err := exec.Command("ip", args...).CombinedOutput() //nolint:noctx // it also runs in cleanups, when the test's context has ended
	NewWithT(t).Expect(err).NotTo(HaveOccurred(), "ip %s: %s", strings.Join(args, " "), out)
}

// imageVariables serves an image of hack/nodeimage.sh at an origin on this machine, and returns the variables of the cluster template for it.
func imageVariables(t *testing.T, root, name string) []string {
	t.Helper()
	g := NewWithT(t)
	path := filepath.Join(root, ".cache", "nodeimage", name)
	file, err := os.Open(path) // in the project's folder
	g.Expect(err).NotTo(HaveOccurred(), "hack/nodeimage.sh makes it")
	defer func() { _ = file.Close() }()
	sum := sha256.New()
	_, err = io.Copy(sum, file)
	g.Expect(err).NotTo(HaveOccurred())
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, path) }))
	t.Cleanup(origin.Close)
	return []string{"IMAGE_URL=" + origin.URL + "/" + name, "IMAGE_CHECKSUM=sha256:" + hex.EncodeToString(sum.Sum(nil))}
}

// virtual describes a virtual machine.
type virtual struct {
	name                  string
	memoryGiB, processors int
	// address is its static address; empty for that of DHCP.
	address string
}

// start makes a virtual machine with an empty disk, which is off, and a BMC of sushy-tools in front of it.
func (r *rig) start(t *testing.T, v virtual) *machine {
	t.Helper()
	tap := "tap" + v.name
	ip(t, "tuntap", "add", tap, "mode", "tap", "user", peertest.TapOwner)
	t.Cleanup(func() { ip(t, "link", "delete", tap) })
	ip(t, "link", "set", tap, "master", bridge, "up")
	libvirt := peertest.StartLibvirtWith(t, peertest.Machine{
		Name: v.name, UUID: "27946b59-9e44-4fa7-8e91-f3527a1e1001", MAC: "52:54:00:0d:00:01", Tap: tap, MemoryGiB: v.memoryGiB, Processors: v.processors, DiskGiB: 8,
		CPU: "maximum", // with Go's cryptography in the guest other processors are ten times as slow
	})
	sushy := peertest.StartSushyLibvirt(t, libvirt)
	m := libvirt.Machines[0]
	return &machine{rig: r, libvirt: libvirt, Machine: m, bmc: sushy.Endpoint(m.UUID), address: v.address, seen: map[string]bool{}}
}

const hostYAML = `---
apiVersion: v1
kind: Secret
metadata: {namespace: %[1]s, name: %[2]s-bmc, labels: {%[7]s: ""}}
stringData: {username: %[5]s, password: %[6]s}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1
kind: BareMetalHost
metadata: {namespace: %[1]s, name: %[2]s, labels: {example.com/kind: virtual}}
spec:
  bmc: {address: "%[3]s", credentialsSecretName: %[2]s-bmc}
  bootMACAddresses: ["%[4]s"]
`

const networkYAML = `  network:
    interfaces:
    - name: lan0
      macAddress: "%[1]s"
      addresses: [%[2]s/24]
      routes: [{to: default, via: %[3]s}]
`

// register registers a virtual machine as a host.
func (m *machine) register(t *testing.T) {
	t.Helper()
	yaml := fmt.Sprintf(hostYAML, site.Namespace, m.Name, m.bmc.URL, m.MAC, m.bmc.Username, m.bmc.Password, v1alpha1.BMCSecretLabel)
	if m.address != "" {
		yaml += fmt.Sprintf(networkYAML, m.MAC, m.address, address)
	}
	NewWithT(t).Expect(m.rig.plane.Apply(m.rig.ctx, yaml)).To(Succeed())
}
