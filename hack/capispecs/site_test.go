package capispecs

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/cluster-api/test/framework"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/config/provider"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/node"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/proc"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/rack"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
)

// The flavours of cluster templates. Each is a folder of data, whose name has no "specs-".
const (
	flavorImage          = "specs-image"
	flavorTopology       = "specs-topology"
	flavorKinds          = "specs-kinds"
	flavorMDRemediation  = "specs-md-remediation"
	flavorTaints         = "specs-taints"
	flavorTopologyTaints = "specs-topology-taints"
	flavorUpgrade        = "specs-topology-upgrade"
	flavorKCPAdoption    = "specs-kcp-adoption"
)

// classFolder is the folder of data with the ClusterClass. It takes the place of that of the release, which demands an endpoint in a variable.
const classFolder = "clusterclass"

// addFlavors builds the folders of data by kustomize, and writes them into the repository that clusterctl reads. A flavour may consist of several kustomizations, with
// objects of the same names.
func (s *suite) addFlavors() {
	flavors, err := os.ReadDir("data")
	Expect(err).NotTo(HaveOccurred())
	releases, err := filepath.Glob(filepath.Join(filepath.Dir(s.lab.Repository.Config), provider.Infrastructure, "v*"))
	Expect(err).NotTo(HaveOccurred())
	Expect(releases).NotTo(BeEmpty())
	for _, flavor := range flavors {
		if !flavor.IsDir() {
			continue
		}
		folders, err := filepath.Glob(filepath.Join("data", flavor.Name(), "step*"))
		Expect(err).NotTo(HaveOccurred())
		if len(folders) == 0 {
			folders = []string{filepath.Join("data", flavor.Name())}
		}
		var template strings.Builder
		for _, folder := range folders {
			built, err := proc.Run(ctx, nil, filepath.Join(s.lab.Bin, "kubectl"), "kustomize", "--load-restrictor", "LoadRestrictionsNone", folder)
			Expect(err).NotTo(HaveOccurred())
			template.WriteString("---\n" + built)
		}
		file := "cluster-template-specs-" + flavor.Name() + ".yaml"
		if flavor.Name() == classFolder {
			file = "clusterclass-baremetal.yaml"
		}
		for _, release := range releases {
			Expect(os.WriteFile(filepath.Join(release, file), []byte(template.String()), 0o600)).To(Succeed())
		}
	}
}

// withHosts returns the hook with which a spec begins. It registers free servers as hosts in the namespace of the spec, and waits until they are Available. change may
// change a host before it is created, by its number.
func withHosts(count int, change ...func(number int, host *v1alpha1.BareMetalHost)) func(framework.ClusterProxy, string) {
	return func(proxy framework.ClusterProxy, namespace string) {
		shared.lab.Rack.Extras = node.Extras{}
		for number, server := range shared.borrow(count, namespace) {
			secret, host := server.Objects(namespace)
			for _, f := range change {
				f(number, host)
			}
			Expect(proxy.GetClient().Create(ctx, secret)).To(Succeed())
			Expect(proxy.GetClient().Create(ctx, host)).To(Succeed())
		}
		Eventually(func(g Gomega) { g.Expect(free(g, namespace)).To(HaveLen(count)) }).Should(Succeed())
	}
}

// withExtras is withHosts for a spec that needs more in the control plane of the cluster.
func withExtras(extras node.Extras, count int) func(framework.ClusterProxy, string) {
	return func(proxy framework.ClusterProxy, namespace string) {
		withHosts(count)(proxy, namespace)
		shared.lab.Rack.Extras = extras
	}
}

// free returns the names of the hosts of a namespace that are Available and powered off.
func free(g Gomega, namespace string) []string {
	var names []string
	for _, h := range hosts(g, namespace) {
		if h.Status.Phase == v1alpha1.PhaseAvailable && h.Status.Power == v1alpha1.PowerOff {
			names = append(names, h.Name)
		}
	}
	return names
}

func hosts(g Gomega, namespace string) []v1alpha1.BareMetalHost {
	var list v1alpha1.BareMetalHostList
	g.Expect(shared.proxy.GetClient().List(ctx, &list, client.InNamespace(namespace))).To(Succeed())
	return list.Items
}

// borrow returns servers that no host of an existing namespace has, and adds servers to the rack as needed. A namespace that is being deleted may still release its
// servers.
func (s *suite) borrow(count int, namespace string) []*rack.Server {
	var servers []*rack.Server
	for _, server := range s.lab.Rack.Servers() {
		if len(servers) < count && !s.exists(s.borrower[server.Name]) {
			servers = append(servers, server)
		}
	}
	for len(servers) < count {
		servers = append(servers, s.addServer(fmt.Sprintf("server-%02d", len(s.lab.Rack.Servers())+1)))
	}
	for _, server := range servers {
		s.borrower[server.Name] = namespace
		if server.On() { // its last host was deleted in an inspection: a person switches it off before it is registered again
			server.Crash()
		}
	}
	return servers
}

func (s *suite) exists(namespace string) bool {
	err := s.proxy.GetClient().Get(ctx, client.ObjectKey{Name: namespace}, &corev1.Namespace{})
	if !apierrors.IsNotFound(err) {
		Expect(err).NotTo(HaveOccurred())
	}
	return err == nil
}

// addServer adds a server to the rack. Specs can hold it in its boot, by gates.
func (s *suite) addServer(name string) *rack.Server {
	var server *rack.Server
	s.lab.Rack.BeforeDisk = func(ctx context.Context) error { return s.gates.pass(ctx, name, bootsDisk) }
	s.lab.Rack.RunAgent = func(ctx context.Context, system *pxetest.System) (agent.Next, error) {
		hardware := *server.Hardware // the agent that was booted, even if the servers have another one when the gate opens
		if err := s.gates.pass(ctx, name, runsAgent); err != nil {
			return "", err
		}
		return hardware.RunAgent(ctx, system)
	}
	server, err := s.lab.Rack.Add(ctx, name)
	Expect(err).NotTo(HaveOccurred())
	return server
}

// A gateKey is a server at a point of its boot.
type gateKey struct {
	server string
	at     point
}

// point is a point of a boot.
type point string

const (
	// runsAgent is when the kernel and the ramdisk of the agent are booted, and the agent asks for its plan next.
	runsAgent point = "agent"
	// bootsDisk is when firmware boots the disk. The operating system reads its bootstrap data next.
	bootsDisk point = "disk"
)

// gates hold servers at points of their boots. The zero value holds none.
type gates struct {
	mu   sync.Mutex
	wait map[gateKey]func(context.Context) error
}

// set makes a server wait at a point, until wait returns. ctx of wait ends when the server is switched off. Nil lets it pass.
func (g *gates) set(server string, at point, wait func(ctx context.Context) error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.wait == nil {
		g.wait = map[gateKey]func(context.Context) error{}
	}
	g.wait[gateKey{server, at}] = wait
}

func (g *gates) pass(ctx context.Context, server string, at point) error {
	g.mu.Lock()
	wait := g.wait[gateKey{server, at}]
	g.mu.Unlock()
	if wait == nil {
		return nil
	}
	return wait(ctx)
}
