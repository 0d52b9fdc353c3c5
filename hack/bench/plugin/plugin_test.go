// Package plugin measures what the commands of kubectl baremetal cost with a large fleet: the number of their requests as a test, and their times as a benchmark. The API
// server is real, the objects are as the provider writes them, and no manager runs.
package plugin

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
)

var env *controllerstest.Env

func TestMain(m *testing.M) { controllerstest.Main(m, &env) }

const (
	// bootingHosts is the number of hosts that boot, in the test and in the benchmark.
	bootingHosts = 300
	// testHosts is enough for several pages of a list.
	testHosts = 1_100
	// pageSize is that of the plugin (access.PageSize).
	pageSize = 500
	// maxRequests is how many requests an explanation may need.
	maxRequests = 12
)

// question is a command that is measured.
type question struct {
	name string
	args []string
	// lists is true for a command that lists each kind once, and otherwise it may have maxRequests.
	lists bool
}

// questions are the commands, for a fleet of which host-0 boots and the machine "waiting" has no host.
var questions = []question{
	{"Status", []string{"status"}, true},
	{"StatusHosts", []string{"status", "--hosts", "-o", "wide"}, true},
	{"WhyHost", []string{"why", "host/host-0"}, false},
	{"WhyMachine", []string{"why", "machine/machine-0"}, false},
	{"WhyMachineWithoutHost", []string{"why", "machine/waiting"}, false},
	{"WhyCluster", []string{"why", "cluster/fleet"}, false},
	{"Events", []string{"events", "host-0"}, false},
}

// build builds the plugin, as make plugin does, and returns its path.
func build(tb testing.TB) string {
	tb.Helper()
	program := filepath.Join(tb.TempDir(), "kubectl-baremetal")
	command := exec.CommandContext(tb.Context(), "go", "build", "-trimpath", "-o", program, "./cmd/kubectl-baremetal")
	command.Dir, command.Env = controllerstest.Root(), append(os.Environ(), "CGO_ENABLED=0")
	out, err := command.CombinedOutput()
	NewWithT(tb).Expect(err).NotTo(HaveOccurred(), "%s", out)
	return program
}

// ask runs the plugin, and returns its output. An explanation may say that a person has to act (exit code 1).
func ask(ctx context.Context, program, kubeconfig string, args []string) (string, error) {
	var out, errs bytes.Buffer
	command := exec.CommandContext(ctx, program, append([]string{"--kubeconfig", kubeconfig}, args...)...)
	command.Stdout, command.Stderr = &out, &errs
	err := command.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 && args[0] == "why" {
		err = nil
	}
	if err != nil {
		err = errors.Join(err, errors.New(errs.String()))
	}
	return out.String(), err
}

// TestRequests: status lists each kind once, in pages, and no explanation needs more than 12 requests. The number does not depend on the size of the fleet, except for the pages.
func TestRequests(t *testing.T) {
	g := NewWithT(t)
	fill(t, testHosts)
	program := build(t)
	kubeconfig, requests := proxy(t)
	for _, q := range questions {
		requests.reset()
		out, err := ask(t.Context(), program, kubeconfig, q.args)
		g.Expect(err).NotTo(HaveOccurred(), q.name)
		g.Expect(out).NotTo(BeEmpty(), q.name)
		counted := requests.get()
		t.Logf("%-22s %2d requests: %v", q.name, counted.total, counted.lists)
		if !q.lists {
			g.Expect(counted.total).To(BeNumerically("<=", maxRequests), "%s: %v", q.name, counted.lists)
			continue
		}
		g.Expect(counted.lists).To(Equal(map[string]int{"baremetalhosts": 1, "baremetalboots": 1, "baremetalmachines": 1}), q.name)
		g.Expect(counted.total).To(BeNumerically("<=", pages(testHosts)+2*pages(bootingHosts+1)), q.name)
	}
}

func pages(objects int) int { return (objects + pageSize - 1) / pageSize }

// BenchmarkPlugin measures the time of each command with HOSTS=10000 hosts, from the start of the program to its end. The requests pass a proxy that counts them.
func BenchmarkPlugin(b *testing.B) {
	hosts := 10_000
	if text := os.Getenv("HOSTS"); text != "" {
		number, err := strconv.Atoi(text)
		NewWithT(b).Expect(err).NotTo(HaveOccurred())
		hosts = number
	}
	fill(b, hosts)
	program := build(b)
	kubeconfig, requests := proxy(b)
	for _, q := range questions {
		b.Run(q.name, func(b *testing.B) {
			requests.reset()
			runs := 0
			for b.Loop() {
				runs++
				if _, err := ask(b.Context(), program, kubeconfig, q.args); err != nil {
					b.Fatal(err)
				}
			}
			counted := requests.get()
			b.ReportMetric(float64(counted.total)/float64(runs), "requests/op")
			b.ReportMetric(float64(counted.bytes)/float64(runs)/(1<<20), "MiB/op")
		})
	}
}
