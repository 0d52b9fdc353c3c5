// Package rig runs whole providers inside a test, with emulated servers and against a real API server. Any number of them run at once, each in its own
// namespace, and each can be halted at any request. Tests use it to find out what survives a crash.
package rig

import (
	"fmt"
	"net/http/httptest"
	"net/netip"
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
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/emulated"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
)

// Site is a namespace of an API server with emulated servers on a network of their own.
type Site struct {
	Env       *controllerstest.Env
	Namespace string

	t        *testing.T
	emulated *emulated.Site
	workload *httptest.Server
	mu       sync.Mutex
	servers  []*Server
	current  atomic.Pointer[Provider] // connects to the workload cluster
}

// firstNetwork is the first of the networks of which each site takes one.
var firstNetwork = netip.MustParsePrefix("127.192.0.0/24")

const networks = 62 * 256

// NewSite makes a namespace and a network. The name of the namespace starts with "test-" and is unique.
func NewSite(t *testing.T, env *controllerstest.Env) *Site {
	t.Helper()
	s := &Site{Env: env, Namespace: env.Namespace(t), t: t}
	var err error
	s.emulated, err = emulated.NewSite(t.Context(), emulated.SiteOptions{Dir: t.TempDir(), First: firstNetwork, Count: networks})
	t.Cleanup(func() { _ = s.emulated.Close() }) // requests may be interrupted
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	s.serveWorkload()
	return s
}

// BootURL is the URL of the boot server.
func (s *Site) BootURL() string { return "http://" + s.emulated.At(s.emulated.HTTP) }

func (s *Site) networkConfig() bootconfig.Network {
	return bootconfig.Network{
		Name: "site", Mode: bootconfig.Authoritative, Address: s.emulated.Address(1), URL: s.BootURL(), Subnet: s.emulated.Subnet(), LeaseTime: time.Hour,
		Ranges: []pxe.Range{{First: s.emulated.Address(10), Last: s.emulated.Address(250)}},
	}
}

// Kernel is the boot file of the site's machines.
func (s *Site) Kernel() v1alpha1.Artifact { return s.emulated.Origin.Kernel() }

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
	network := s.emulated.Subnet().Addr().As4()
	return fmt.Sprintf("52:54:%02x:%02x:00:%02x", network[1], network[2], number)
}

func (s *Site) uuid(number byte) string {
	network := s.emulated.Subnet().Addr().As4()
	return fmt.Sprintf("00000000-0000-4000-8000-%02x%02x000000%02x", network[1], network[2], number)
}
