package guides

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/config/provider"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/contract/contracttest"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/node"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/plane"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/proc"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/rack"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/site"
)

const (
	root        = "../../.."
	clusterName = "prod"
	servers     = 6
)

// installed are the variables of servers that install their system on the disk: a guide powers them off and on.
var installed = []string{"BOOT_PERSISTENCE=Installed", "KERNEL_COMMAND_LINE=console=ttyS0 " + node.Install}

// pages returns the pages whose commands are tested, by their path from the project's folder: those that find an empty lab first.
func pages(t *testing.T) (names []string, blocks map[string][]block) {
	t.Helper()
	blocks = map[string][]block{}
	for _, pattern := range []string{"docs/start/*.md", "docs/guides/*.md", "docs/troubleshooting.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("no pages %s: %v", pattern, err)
		}
		for _, path := range found {
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			name, err := filepath.Rel(root, path)
			if err != nil {
				t.Fatal(err)
			}
			if blocks[name], err = parse(string(content)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			names = append(names, name)
		}
	}
	slices.SortStableFunc(names, func(a, b string) int {
		return order(wantsEmptyWorld(blocks[a])) - order(wantsEmptyWorld(blocks[b]))
	})
	return names, blocks
}

func order(empty bool) int {
	if empty {
		return 0
	}
	return 1
}

// TestPages: every block of commands is run by TestGuides, or says why not.
func TestPages(t *testing.T) {
	names, all := pages(t)
	for _, name := range names {
		run, skipped := 0, 0
		for _, b := range all[name] {
			switch {
			case b.hidden && b.skipped != "":
				t.Errorf("%s:%d: a block for the test alone cannot be skipped", name, b.line)
			case b.hidden:
			case b.skipped != "":
				skipped++
			default:
				run++
			}
			for line := range strings.Lines(b.script) {
				if strings.HasPrefix(line, "$ ") {
					t.Errorf("%s:%d: write commands without a prompt", name, b.line)
				}
			}
		}
		t.Logf("%-45s %2d blocks are run, %2d are not", name, run, skipped)
	}
}

// lab is what the pages find.
type lab struct {
	*site.Lab

	plane  *plane.Plane
	folder string // of the reader
	env    []string
	filled bool
}

// TestGuides runs the commands of each page in one shell, in the order of the page.
func TestGuides(t *testing.T) {
	ctx := contracttest.Context(t, 25*time.Minute)
	l := newLab(ctx, t)
	names, all := pages(t)
	for _, name := range names {
		t.Run(strings.TrimSuffix(strings.TrimPrefix(name, "docs/"), ".md"), func(t *testing.T) {
			if !slices.ContainsFunc(all[name], func(b block) bool { return !b.hidden && b.skipped == "" }) {
				return // the page has no commands to run, which TestPages reports
			}
			if !wantsEmptyWorld(all[name]) {
				l.fill(ctx, t)
			}
			start := time.Now()
			l.run(ctx, t, name, script(name, all[name]))
			l.check(ctx, t, wantsEmptyWorld(all[name]))
			t.Logf("%s took %.0f s", name, time.Since(start).Seconds())
		})
	}
}

func newLab(ctx context.Context, t *testing.T) *lab {
	t.Helper()
	g := NewWithT(t)
	l := &lab{Lab: contracttest.Lab(ctx, t), folder: t.TempDir()}
	project, err := filepath.Abs(root)
	g.Expect(err).NotTo(HaveOccurred())
	bin := filepath.Join(l.folder, "bin")
	_, err = proc.Run(ctx, []string{"CGO_ENABLED=0"}, "go", "-C", project, "build", "-trimpath", "-o", bin+"/", "./cmd/bmcctl", "./cmd/bmcsim", "./cmd/kubectl-baremetal")
	g.Expect(err).NotTo(HaveOccurred())
	// A reader runs the commands in the project's folder; what they write stays in the test's.
	for _, name := range []string{"config", "hack", "docs"} {
		g.Expect(os.Symlink(filepath.Join(project, name), filepath.Join(l.folder, name))).To(Succeed())
	}
	g.Expect(l.useLabTemplate()).To(Succeed())
	// A server without a system does not react to a graceful shutdown.
	l.plane = contracttest.Plane(ctx, t, l.Lab, "guides", append(l.Rack.ManagerArgs(), "--shutdown-timeout=10s"))
	t.Cleanup(l.Supply(ctx, l.plane)) // a page may create a cluster, and delete it
	l.env = append(os.Environ(), "PATH="+bin+":"+l.Bin+":"+os.Getenv("PATH"), "HOME="+l.folder, "XDG_CONFIG_HOME="+l.folder,
		"KUBECONFIG="+l.plane.Kubeconfig, "PS4=+ ", "BMC_USERNAME="+rack.Username, "BMC_PASSWORD="+rack.Password)
	// Machines claim the smallest host, and IPMI tells no size: server-4 and server-1 run the cluster, and server-6 stays free.
	l.Rack.IPMIEvery = 4
	for i := range servers {
		s, err := l.Rack.Add(ctx, fmt.Sprintf("server-%d", i+1))
		g.Expect(err).NotTo(HaveOccurred())
		l.env = append(l.env, fmt.Sprintf("BMC_ADDRESS_%d=%s", i+1, s.BMC), fmt.Sprintf("BMC_MAC_%d=%s", i+1, s.MAC))
	}
	g.Expect(l.writeConfig()).To(Succeed())
	return l
}

// useLabTemplate makes the lab's template with disk images the default one of the repository: emulated servers need an etcd outside of them.
func (l *lab) useLabTemplate() error {
	templates, err := filepath.Glob(filepath.Join(filepath.Dir(l.Repository.Config), provider.Infrastructure, "*", "cluster-template-lab-image.yaml"))
	if err != nil {
		return err
	}
	for _, path := range templates {
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(filepath.Dir(path), "cluster-template.yaml"), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// writeConfig writes clusterctl's configuration file where clusterctl looks for it, with the variables of a cluster that emulated servers can run.
func (l *lab) writeConfig() error {
	config, err := os.ReadFile(l.Repository.Config)
	if err != nil {
		return err
	}
	variables := map[string]string{"CAPBM_BOOT_ADDRESS": "192.0.2.1", "CAPBM_DHCP_MODE": "proxy"}
	lab, err := l.Rack.TemplateVariables()
	if err != nil {
		return err
	}
	for _, v := range append(lab, installed...) {
		name, value, _ := strings.Cut(v, "=")
		variables[name] = value
	}
	var content strings.Builder
	content.Write(config)
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		fmt.Fprintf(&content, "%s: %q\n", name, variables[name])
	}
	folder := filepath.Join(l.folder, "cluster-api")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "clusterctl.yaml"), []byte(content.String()), 0o600)
}

// fill registers the servers and creates the cluster, once.
func (l *lab) fill(ctx context.Context, t *testing.T) {
	t.Helper()
	if l.filled {
		return
	}
	l.filled = true
	var yaml strings.Builder
	for _, s := range l.Rack.Servers() {
		yaml.WriteString(s.HostYAML(site.Namespace))
	}
	g := NewWithT(t)
	g.Expect(l.plane.Apply(ctx, yaml.String())).To(Succeed())
	g.Expect(l.shell(ctx, t, "fill", `
kubectl label baremetalhosts server-1 server-2 server-3 rack=r1
kubectl label baremetalhosts server-4 server-5 server-6 rack=r2`)).To(Succeed())
	g.Expect(site.Until(ctx, time.Minute, site.HostsIn(l.plane, v1alpha1.PhaseAvailable, servers))).To(Succeed())
	g.Expect(l.CreateCluster(ctx, l.plane, site.Cluster{Name: clusterName, Workers: 1, Variables: installed})).To(Succeed())
	l.check(ctx, t, false)
}

// check expects that the lab is as a page finds it.
func (l *lab) check(ctx context.Context, t *testing.T, empty bool) {
	t.Helper()
	hosts, machines := servers-2, 2
	if empty {
		hosts, machines = 0, 0
	}
	g := NewWithT(t)
	g.Expect(site.Until(ctx, 3*time.Minute, site.HostsIn(l.plane, v1alpha1.PhaseAvailable, hosts))).To(Succeed())
	g.Expect(site.Until(ctx, 3*time.Minute, l.running(machines))).To(Succeed())
}

// running is nil if this number of Machines is Running, and there are no others.
func (l *lab) running(want int) func(context.Context) error {
	return func(ctx context.Context) error {
		out, err := l.plane.Kubectl(ctx, "-n", site.Namespace, "get", "machines", "-o", "jsonpath={.items[*].status.phase}")
		if phases := strings.Fields(out); err == nil && (len(phases) != want || slices.ContainsFunc(phases, func(p string) bool { return p != "Running" })) {
			err = fmt.Errorf("the Machines are %v", phases)
		}
		return err
	}
}

func (l *lab) run(ctx context.Context, t *testing.T, page, commands string) {
	t.Helper()
	if err := l.shell(ctx, t, page, commands); err != nil {
		t.Fatalf("%s: %v", page, err)
	}
}

func (l *lab) shell(ctx context.Context, t *testing.T, name, commands string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 6*time.Minute)
	defer cancel()
	shell := exec.CommandContext(ctx, "bash", "-c", commands)
	shell.Dir, shell.Env = l.folder, l.env
	// At the time limit everything that the shell started ends, too.
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	shell.Cancel = func() error { return syscall.Kill(-shell.Process.Pid, syscall.SIGKILL) }
	shell.WaitDelay = 5 * time.Second
	out, err := shell.CombinedOutput()
	if err != nil {
		t.Logf("%s:\n%s", name, out)
	}
	return err
}
