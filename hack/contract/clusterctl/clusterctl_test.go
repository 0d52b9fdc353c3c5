// Package clusterctl runs the real clusterctl from init to move on management planes with the real Cluster API, and checks the contents of a release.
package clusterctl

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/config/provider"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/contract/contracttest"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/plane"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/site"
)

// TestClusterctl is the life of a provider and of a cluster by the real clusterctl, on the real Cluster API: installed, generated, upgraded in
// mid-boot, described, moved there and back, deleted. Steps build upon others, so that what takes long is done once.
func TestClusterctl(t *testing.T) {
	contracttest.RunParts(t, newStory(t), []contracttest.Part[*story]{
		{Name: "init", Run: (*story).init},
		{Name: "node selector of the boot server", Run: (*story).nodeSelector},
		{Name: "generate", Run: (*story).generate},
		{Name: "refuse bad values", Run: (*story).refuse},
		{Name: "bootstrap data of the flavours", Run: (*story).bootstrapData},
		{Name: "upgrade without the mode of DHCP", Run: (*story).upgradeWithoutMode},
		{Name: "upgrade in mid-boot", Run: (*story).upgrade},
		{Name: "upgrade keeps a custom boot configuration", Run: (*story).upgradeKeepsCustomConfig, Needs: []string{"upgrade without the mode of DHCP", "upgrade in mid-boot"}},
		{Name: "describe", Run: (*story).describe, Needs: []string{"upgrade in mid-boot"}},
		{Name: "erase every status", Run: (*story).erase, Needs: []string{"upgrade in mid-boot"}},
		{Name: "move, interrupted and again", Run: (*story).move, Needs: []string{"upgrade in mid-boot"}},
		{Name: "scale on the other side", Run: (*story).scale, Needs: []string{"move, interrupted and again"}},
		{Name: "move back", Run: (*story).moveBack, Needs: []string{"scale on the other side"}},
		{Name: "bootstrap data of a control plane that joins", Run: (*story).join, Needs: []string{"move back"}},
		{Name: "delete the cluster", Run: (*story).deleteCluster, Needs: []string{"move back"}},
		{Name: "delete the bootstrap provider", Run: (*story).deleteBootstrap, Needs: []string{"delete the cluster"}},
		{Name: "delete the provider", Run: (*story).deleteProvider, Needs: []string{"delete the bootstrap provider"}},
	})
}

// story is the state that the steps share.
type story struct {
	ctx            context.Context //nolint:containedctx // of the test of the steps
	lab            *site.Lab
	source, target *plane.Plane
	gate           *gate
	// given are the commands of the servers' BMCs up to the end of the first boots.
	given map[string]string
	// requested is a request to erase a host that moves.
	requested *v1alpha1.BareMetalErasureRequest
	// tokens are the join tokens that the Secret with the values of the BareMetalConfigs had, the current one last.
	tokens []string
}

func newStory(t *testing.T) *story {
	t.Helper()
	s := &story{ctx: contracttest.Context(t, 15*time.Minute), gate: &gate{}}
	s.lab = contracttest.Lab(s.ctx, t)
	tell := s.lab.Rack.Event
	s.lab.Rack.Event = func(server, what string) {
		tell(server, what)
		s.gate.pass(what)
	}
	t.Cleanup(func() {
		s.gate.open()
		if s.target != nil {
			NewWithT(t).Expect(s.target.Stop()).To(Succeed())
		}
	})
	s.source = contracttest.Plane(s.ctx, t, s.lab, "source", s.lab.Rack.ManagerArgs())
	return s
}

// startTarget starts the management plane that the cluster is moved to, which outlives the step. Its boot server serves no server before the move.
func (s *story) startTarget(t *testing.T) {
	t.Helper()
	var err error
	s.target, err = s.lab.StartPlane(s.ctx, "target", s.lab.Rack.OtherManagerArgs())
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	s.upgradeProviders(t, s.target) // clusterctl does not move to an older provider
}

// gate stops the boots of servers at a stage.
type gate struct {
	mu      sync.Mutex
	stage   string
	reached chan struct{}
	opened  chan struct{}
}

// close stops the next server that reaches the stage, and then closes the returned channel.
func (g *gate) close(stage string) <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stage, g.reached, g.opened = stage, make(chan struct{}), make(chan struct{})
	return g.reached
}

// open lets the server continue.
func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stage = ""
	if g.opened != nil {
		close(g.opened)
		g.opened = nil
	}
}

func (g *gate) pass(stage string) {
	g.mu.Lock()
	if g.stage == "" || g.stage != stage {
		g.mu.Unlock()
		return
	}
	g.stage = ""
	opened := g.opened
	close(g.reached)
	g.mu.Unlock()
	<-opened
}

// until waits for a check.
func (s *story) until(t *testing.T, timeout time.Duration, check func(context.Context) error) {
	t.Helper()
	NewWithT(t).Expect(site.Until(s.ctx, timeout, check)).To(Succeed())
}

// commands returns the commands of each server's BMC since the server was added to the rack.
func (s *story) commands() map[string]string {
	out := map[string]string{}
	for _, server := range s.lab.Rack.Servers() {
		out[server.Name] = strings.Join(server.CommandNames(), " ")
	}
	return out
}

// powerCommands returns the power commands of a server.
func powerCommands(commands string) string {
	return strings.Join(slices.DeleteFunc(strings.Fields(commands), func(c string) bool { return strings.Contains(c, "=") }), " ")
}

// init checks what clusterctl installed.
func (s *story) init(t *testing.T) { //nolint:thelper // a step: a failure is to name its line
	g := NewWithT(t)
	out, err := s.source.Kubectl(s.ctx, "get", "providers.clusterctl.cluster.x-k8s.io", "-A")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(out).To(MatchRegexp(`capbm-system +` + provider.Infrastructure + ` +\S+ +InfrastructureProvider +` + provider.Name + ` +v0\.1\.0`))
	g.Expect(out).To(MatchRegexp(`capbm-bootstrap-system +` + provider.Bootstrap + ` +\S+ +BootstrapProvider +` + provider.Name + ` +v0\.1\.0`))
	g.Expect(out).To(MatchRegexp(`capi-kubeadm-bootstrap-system +bootstrap-kubeadm +\S+ +BootstrapProvider +kubeadm `), "both bootstrap providers are named")
}

// upgradeProviders does what clusterctl's upgrade and the Deployment controller do: it ends the old managers and starts the new ones.
func (s *story) upgradeProviders(t *testing.T, p *plane.Plane) {
	t.Helper()
	g := NewWithT(t)
	p.StopProvider()
	p.StopBootstrap()
	_, err := p.Clusterctl(s.ctx, "upgrade", "apply", "--infrastructure", "capbm-system/"+provider.Name+":"+plane.NextVersion,
		"--bootstrap", "capbm-bootstrap-system/"+provider.Name+":"+plane.NextVersion)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(p.StartProvider(s.ctx, s.lab.Manager())).To(Succeed())
	g.Expect(p.StartBootstrap(s.ctx, s.lab.Manager())).To(Succeed())
}

// upgrade upgrades the providers while a server boots. The boot continues, and the server is switched on once. A move at that time is refused.
func (s *story) upgrade(t *testing.T) { //nolint:thelper // a step: a failure is to name its line
	g := NewWithT(t)
	g.Expect(s.lab.Register(s.ctx, s.source, "server-1", "server-2", "server-3", "server-4", "server-5", "server-6", "server-7")).To(Succeed())
	s.until(t, time.Minute, site.HostsIn(s.source, v1alpha1.PhaseAvailable, 7))
	reached := s.gate.close("kernel")
	g.Expect(s.lab.CreateCluster(s.ctx, s.source, site.Cluster{Workers: 1, Flavor: site.ConfigFlavor})).To(Succeed())
	select {
	case <-reached:
	case <-s.ctx.Done():
		t.Fatal("no server loaded its kernel")
	}
	before := s.commands()
	g.Eventually(func() (string, error) { // claim, boot and power of a host are one status
		return s.source.Clusterctl(s.ctx, "describe", "cluster", site.ClusterName, "-n", site.Namespace)
	}, time.Minute, time.Second).Should(MatchRegexp(`Machine default/demo-control-plane-.* False +NotReady .*InfrastructureReady: Boot attempt 1\.`), "it does not say why there is no machine")

	out, err := s.source.Clusterctl(s.ctx, "move", "--to-directory", t.TempDir(), "-n", site.Namespace)
	g.Expect(err).To(HaveOccurred(), "a cluster that boots was moved")
	g.Expect(out).To(ContainSubstring("cannot start the move operation while"))
	g.Expect(s.paused(s.source)(s.ctx)).To(MatchError("the Cluster is not paused"), "what is refused leaves the Cluster paused")

	out, err = s.source.Clusterctl(s.ctx, "upgrade", "plan")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(out).To(MatchRegexp(provider.Infrastructure + ` +capbm-system +InfrastructureProvider +v0\.1\.0 +` + regexp.QuoteMeta(plane.NextVersion)))
	g.Expect(out).To(MatchRegexp(provider.Bootstrap + ` +capbm-bootstrap-system +BootstrapProvider +v0\.1\.0 +` + regexp.QuoteMeta(plane.NextVersion)))
	s.upgradeProviders(t, s.source)
	s.upgraded(t)

	s.gate.open()
	s.rotateToken(t)
	s.until(t, 5*time.Minute, site.Running(s.source, 3))
	s.until(t, time.Minute, site.Available(s.source))
	s.until(t, time.Minute, rest(s.source, 3, 4))
	s.given = s.commands()
	for name, commands := range before {
		if strings.Contains(powerCommands(commands), "On") {
			g.Expect(powerCommands(s.given[name])).To(Equal(powerCommands(commands)), "%s was power-cycled in the middle of its boot", name)
		}
	}
	for name, commands := range s.given {
		g.Expect(strings.Count(powerCommands(commands), "On")).To(BeNumerically("<=", 1), "%s was switched on more than once", name)
	}
}

// upgraded checks what the upgrade installed.
func (s *story) upgraded(t *testing.T) {
	t.Helper()
	g := NewWithT(t)
	out, err := s.source.Kubectl(s.ctx, "get", "providers.clusterctl.cluster.x-k8s.io", "-A")
	g.Expect(err).NotTo(HaveOccurred())
	for provider, deployment := range map[string][]string{
		provider.Infrastructure: {"capbm-system", "capbm-controller-manager"},
		provider.Bootstrap:      {"capbm-bootstrap-system", "capbm-bootstrap-controller-manager"},
	} {
		g.Expect(out).To(MatchRegexp(provider + ` .* ` + regexp.QuoteMeta(plane.NextVersion)))
		image, err := s.source.Kubectl(s.ctx, "-n", deployment[0], "get", "deployment", deployment[1], "-o", "jsonpath={..image}")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(image).To(HaveSuffix(":" + plane.NextVersion))
	}
}
