// Package rig runs whole providers inside a test, with emulated servers and against a real API server. Any number of them run at once, each in its own
// namespace, and each can be halted at any request. Tests use it to find out what survives a crash.
package rig

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
)

// Site is a namespace of an API server with emulated servers on a network of their own.
type Site struct {
	Env       *controllerstest.Env
	Namespace string

	t        *testing.T
	network  [3]byte // the first bytes of its addresses
	ports    struct{ dhcp, tftp, http uint16 }
	loaders  string
	origin   *httptest.Server
	workload *httptest.Server
	files    string // the folder of the artifacts and images
	mu       sync.Mutex
	imageSum string // the checksum of the image; empty before it was written
	servers  []*Server
	current  atomic.Pointer[Provider] // connects to the workload cluster
}

// kernel is what servers boot. It is fetched, but not run.
const kernel = "an emulated kernel"

// networks counts the networks that this process took.
var networks struct {
	sync.Mutex
	next int
}

// NewSite makes a namespace and a network. The name of the namespace starts with "test-" and is unique.
func NewSite(t *testing.T, env *controllerstest.Env) *Site {
	t.Helper()
	g := NewWithT(t)
	s := &Site{Env: env, Namespace: env.Namespace(t), t: t, loaders: t.TempDir(), files: t.TempDir()}
	s.takeNetwork()
	for _, port := range []*uint16{&s.ports.dhcp, &s.ports.tftp, &s.ports.http} {
		var err error
		*port, err = pxetest.FreePort(s.address(1))
		g.Expect(err).NotTo(HaveOccurred())
	}
	g.Expect(pxetest.WriteLoaders(s.loaders, "undionly.kpxe")).To(Succeed())
	_, err := pxetest.WriteAgent(s.agentDir())
	g.Expect(err).NotTo(HaveOccurred())
	s.origin = httptest.NewServer(http.HandlerFunc(s.serveOrigin))
	t.Cleanup(s.origin.Close)
	s.serveWorkload()
	return s
}

// takeNetwork takes one of the networks 127.192.0.0/24 to 127.253.255.0/24. Each site has its own network, also among processes: a listener on a port marks
// it as taken.
func (s *Site) takeNetwork() {
	const first, last, mark = 192, 253, 47998
	networks.Lock()
	defer networks.Unlock()
	for range (last - first + 1) * 256 {
		n := networks.next
		networks.next++
		s.network = [3]byte{127, byte(first + n/256%(last-first+1)), byte(n)}             //nolint:gosec // modulo 256 is meant
		taken, err := net.Listen("tcp4", netip.AddrPortFrom(s.address(1), mark).String()) //nolint:noctx // returns at once
		if err == nil {
			s.t.Cleanup(func() { _ = taken.Close() })
			return
		}
	}
	s.t.Fatal("no network is free")
}

func (s *Site) address(last byte) netip.Addr {
	return netip.AddrFrom4([4]byte{s.network[0], s.network[1], s.network[2], last})
}

// BootURL is the URL of the boot server.
func (s *Site) BootURL() string {
	return "http://" + netip.AddrPortFrom(s.address(1), s.ports.http).String()
}

func (s *Site) networkConfig() bootconfig.Network {
	return bootconfig.Network{
		Name: "site", Mode: bootconfig.Authoritative, Address: s.address(1), URL: s.BootURL(), Subnet: netip.PrefixFrom(s.address(0), 24), LeaseTime: time.Hour,
		Ranges: []pxe.Range{{First: s.address(10), Last: s.address(250)}},
	}
}

// agentDir is the folder with the files of the agent.
func (s *Site) agentDir() string { return filepath.Join(s.files, "agent") }

// Kernel is the boot file of the site's machines.
func (s *Site) Kernel() v1alpha1.Artifact {
	sum := sha256.Sum256([]byte(kernel))
	return v1alpha1.Artifact{URL: s.origin.URL, Checksum: "sha256:" + hex.EncodeToString(sum[:])}
}

// Claim creates a Cluster with its BareMetalCluster, whose infrastructure is ready, and a Machine with its BareMetalMachine and its bootstrap data, as
// Cluster API would create them. change is applied before they are created. The workload cluster is the site's API server. A machine with a Node needs a
// name that no other site uses.
func (s *Site) Claim(t *testing.T, name string, change ...func(*controllerstest.Claim)) *controllerstest.Claim {
	t.Helper()
	boots := func(c *controllerstest.Claim) {
		c.BareMetalMachine.Spec.Boot.Kernel = s.Kernel()
	}
	s.Workload(t, name)
	c := s.Env.NewClaim(t, s.Namespace, name, append([]func(*controllerstest.Claim){boots}, change...)...)
	s.Env.Create(t, &v1alpha1.BareMetalCluster{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Namespace, Name: c.Cluster.Spec.InfrastructureRef.Name, Labels: map[string]string{clusterv1.ClusterNameLabel: name},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: name, UID: c.Cluster.UID}},
		},
		Spec: v1alpha1.BareMetalClusterSpec{ControlPlaneEndpoint: v1alpha1.APIEndpoint{Host: "192.0.2.1", Port: 6443}},
	})
	return c
}

// Servers are the servers of the site.
func (s *Site) Servers() []*Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.servers)
}

// mac and uuid are unique among the sites of a process.
func (s *Site) mac(number byte) string {
	return fmt.Sprintf("52:54:%02x:%02x:00:%02x", s.network[1], s.network[2], number)
}

func (s *Site) uuid(number byte) string {
	return fmt.Sprintf("00000000-0000-4000-8000-%02x%02x000000%02x", s.network[1], s.network[2], number)
}
