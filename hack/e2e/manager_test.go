package e2e_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/proc"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
)

// site is a manager, with the network that its hosts are on.
type site struct {
	service

	// namespace is that of its hosts, and image what they boot.
	namespace string
	image     *image
}

// service is what a boot server does for a network.
type service struct {
	// manager is the network of the manager, and hosts that of the hosts.
	manager, hosts *segment
	// mode is that of DHCP.
	mode string
	// first and last are the addresses that hosts get, from whomever.
	first, last netip.Addr
	// router goes with the addresses. It may be empty.
	router netip.Addr
	// relay is the address that a relay agent of the network sends from. It may be empty.
	relay netip.Addr
	// mediaURL is where BMCs, or firmware, find boot media. Agents then use HTTPS. Empty offers none.
	mediaURL string
}

// authoritative serves a network alone.
func authoritative(w *segment) service {
	return service{manager: w, hosts: w, mode: "authoritative", first: w.at(100), last: w.at(200)}
}

// beside serves a network in which another DHCP server gives the addresses.
func beside(w *segment, first, last netip.Addr) service {
	return service{manager: w, hosts: w, mode: "proxy", first: first, last: last}
}

// gives is true for an address that hosts get by DHCP.
func (s service) gives(a netip.Addr) bool { return !a.Less(s.first) && !s.last.Less(a) }

// managerArgs are the flags of the manager, whose boot configuration is written into a folder. Both are complete here.
func managerArgs(t *testing.T, s *site, kubeconfig string, health uint16, folder string) []string {
	t.Helper()
	network := map[string]any{"name": "e2e", "mode": s.mode, "address": s.manager.address.String(), "subnet": s.hosts.prefix.String()}
	if s.mode == "authoritative" {
		network["ranges"] = []string{fmt.Sprintf("%s-%s", s.first, s.last)}
		if s.router.IsValid() {
			network["router"] = s.router.String()
		}
	}
	if s.relay.IsValid() {
		network["relays"] = []string{s.relay.String()}
	}
	file := map[string]any{
		"loaders": []string{filepath.Join(controllerstest.Root(), ".cache", "loaders")}, "networks": []any{network},
		"agent":  map[string]any{"dir": filepath.Join(controllerstest.Root(), "out", "agent"), "commandLine": noTimerCheck},
		"images": map[string]any{"dir": filepath.Join(folder, "images")},
		// The origin of kernels and initrds is on this machine, as are the BMCs.
		"artifacts": map[string]any{"dir": filepath.Join(folder, "artifacts"), "allowNetworks": []string{"127.0.0.0/8"}},
		"bmcs":      map[string]any{"allowNetworks": []string{"127.0.0.0/8"}},
	}
	var mediaArgs []string
	if s.mediaURL != "" {
		certificate, key := writeCertificate(t, folder, s.manager.address)
		file["http"] = map[string]any{"tls": map[string]any{
			"certFile": certificate, "keyFile": key, "url": fmt.Sprintf("https://%s", netip.AddrPortFrom(s.manager.address, bootconfig.DefaultHTTPSPort)),
		}}
		mediaArgs = []string{"--boot-media-url=" + s.mediaURL}
	}
	config, err := yaml.Marshal(file)
	g := NewWithT(t)
	g.Expect(err).NotTo(HaveOccurred())
	path := filepath.Join(folder, "boot.yaml")
	g.Expect(os.WriteFile(path, config, 0o600)).To(Succeed())
	return append(mediaArgs,
		"--kubeconfig="+kubeconfig, "--namespace="+s.namespace, "--leader-elect=false", "--boot-config="+path,
		fmt.Sprintf("--health-addr=127.0.0.1:%d", health), "--diagnostics-address=0", "--webhook-port=0", "--v=4",
		"--boot-timeout=8m", "--boot-attempts=2", "--power-active-interval=1s", "--power-poll-interval=5s", "--shutdown-timeout=2s", "--profiles",
	)
}

// startSite starts a manager, as its service account: a rule that is missing from its RBAC shows. It ends with the test.
func startSite(t *testing.T, provides service) *site {
	t.Helper()
	g := NewWithT(t)
	installed.Do(func() { install(t) })
	s := &site{service: provides, namespace: env.Namespace(t), image: makeImage(t)}
	kubeconfig := env.Kubeconfig(t, "system:serviceaccount:capbm-system:capbm-manager",
		"system:serviceaccounts", "system:serviceaccounts:capbm-system", "system:authenticated")
	health, err := pxetest.FreePort(netip.MustParseAddr("127.0.0.1"))
	g.Expect(err).NotTo(HaveOccurred())
	folder := t.TempDir()
	// The manager outlives the test's context, which ends before the cleanups: it is stopped last of all.
	ctx := context.WithoutCancel(t.Context())
	manager, err := proc.Start(ctx, folder, "manager", []string{"POD_NAMESPACE=capbm-system"}, managerProgram(),
		managerArgs(t, s, kubeconfig, health, folder)...)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() {
		manager.Stop()
		if t.Failed() {
			t.Logf("the end of the manager's log:\n%s", tail(filepath.Join(folder, "manager.log"), 150))
		}
	})
	g.Expect(manager.Wait(ctx, time.Minute, proc.Healthy(fmt.Sprintf("http://127.0.0.1:%d/readyz", health)))).To(Succeed())
	return s
}

func managerProgram() string {
	return filepath.Join(controllerstest.Root(), ".cache", "bin", "manager")
}

var installed sync.Once

// install builds the manager, and gives it the rights that it is installed with.
func install(t *testing.T) {
	t.Helper()
	start := time.Now()
	run(t, "go", "-C", controllerstest.Root(), "build", "-o", managerProgram(), "./cmd/manager")
	admin := env.Kubeconfig(t, "admin", "system:masters")
	kubectl := filepath.Join(controllerstest.Root(), ".cache", "bin", "kubectl")
	run(t, kubectl, "--kubeconfig", admin, "create", "namespace", "capbm-system")
	run(t, kubectl, "--kubeconfig", admin, "apply", "-k", filepath.Join(controllerstest.Root(), "config", "rbac"))
	run(t, kubectl, "--kubeconfig", admin, "apply", "-f", filepath.Join(controllerstest.Root(), "config", "single-pod", "binding.yaml"))
	t.Logf("the manager was built and its roles made in %.1f s", time.Since(start).Seconds())
}

// tail returns the last lines of a file.
func tail(path string, most int) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	return strings.Join(lines[max(0, len(lines)-most):], "\n")
}
