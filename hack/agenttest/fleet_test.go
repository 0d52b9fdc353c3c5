package agenttest_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image"
)

const (
	osimages    = "../../.cache/osimage/" // hack/osimage.sh makes them
	smallImage  = osimages + "small-gpt.raw"
	debianImage = osimages + "debian.raw"
)

// TestServersAtOnce lets two servers write an image at once from the routes of the boot server, and logs the processor time that this takes there.
// AGENT_HOSTS=10 lets so many servers write a larger image.
func TestServersAtOnce(t *testing.T) {
	g := NewWithT(t)
	count, file := 2, smallImage
	if text := os.Getenv("AGENT_HOSTS"); text != "" {
		n, err := strconv.Atoi(text)
		g.Expect(err).NotTo(HaveOccurred())
		count, file = n, debianImage
	}
	service, from := prepared(t, file)
	w := newSegment(t, "10.89.0.0/24")
	w.dnsmasq(t, "10.89.0.100,10.89.0.150,2m")
	f := &fleet{service: service, from: from, results: map[string]agent.Result{}}
	url := f.serve(t, w.address())

	begun, before := time.Now(), processorTime(t)
	machines := make([]*running, count)
	hosts := make([]machine, count)
	for i := range machines {
		hosts[i] = machine{
			cards: []card{{model: "virtio-net-pci", tap: w.tap(t), number: i}}, host: fmt.Sprintf("default/host-%d", i), server: url, memory: minMemory,
			args: diskArgs(blankDisk(t)),
		}
		machines[i] = start(t, hosts[i])
	}
	for i, m := range machines {
		g.Eventually(m.exited, imagingTimeout).Should(BeClosed())
		if strings.Contains(m.said(), "Kernel panic") && !f.done(hosts[i].host) {
			// Many emulated processors at once have made a kernel panic before the agent started (QEMU 7.2). The provider would repeat the attempt.
			t.Logf("the kernel of %s panicked: started again", hosts[i].host)
			again := start(t, hosts[i])
			g.Eventually(again.exited, imagingTimeout).Should(BeClosed())
		}
	}
	took, used := time.Since(begun), processorTime(t)-before
	f.mu.Lock()
	defer f.mu.Unlock()
	g.Expect(f.results).To(HaveLen(count))
	var total int64
	for host, result := range f.results {
		g.Expect(result.Failure).To(BeNil(), host)
		g.Expect(result.Written.Committed).To(BeTrue(), host)
		total += result.Written.ImageBytes
	}
	t.Logf("%d servers wrote %d bytes each in %.0f s from QEMU's start; processor time of the boot server: %.2f s, %.2f s for each GiB that was sent, %.0f %% of a processor",
		count, total/int64(count), took.Seconds(), used.Seconds(), used.Seconds()/(float64(total)/(1<<30)), 100*used.Seconds()/took.Seconds())
}

// processorTime is that of this process, without the servers that it started.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	NewWithT(t).Expect(syscall.Getrusage(syscall.RUSAGE_SELF, &usage)).To(Succeed())
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// fleet gives every host the plan to write one image.
type fleet struct {
	pxe.Agents // the other methods are not called: the plan has no bootstrap data

	service *image.Service
	from    image.Source

	mu      sync.Mutex
	results map[string]agent.Result
}

// CheckToken accepts every agent.
func (f *fleet) CheckToken(context.Context, pxe.AgentRequest) error { return nil }

// serve serves the routes of the boot server, and returns its URL.
func (f *fleet) serve(t *testing.T, at netip.Addr) string {
	t.Helper()
	listener, err := net.Listen("tcp", netip.AddrPortFrom(at, 0).String()) //nolint:noctx // at an address of this test
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	h := &http.Server{Handler: (&pxe.Handler{Agents: f, Log: logr.Discard()}).Mux()}
	go func() { _ = h.Serve(listener) }()
	t.Cleanup(func() { _ = h.Close() })
	return "http://" + listener.Addr().String()
}

// done is true for a host whose agent sent its result.
func (f *fleet) done(host string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, ok := f.results[host]
	return ok
}

func (f *fleet) Plan(context.Context, pxe.AgentRequest, agent.Hello) (agent.Plan, error) {
	opened, err := f.service.Open("default", f.from)
	if err != nil {
		return agent.Plan{}, err
	}
	plan := imagePlan(opened.Info)
	plan.Version = agent.Version
	return plan, opened.Close()
}

func (f *fleet) Image(context.Context, pxe.AgentRequest) (*pxe.OpenedImage, error) {
	opened, err := f.service.Open("default", f.from)
	if err != nil {
		return nil, err
	}
	return &pxe.OpenedImage{Manifest: opened.Manifest, Data: opened.Data}, nil
}

func (f *fleet) Commit(context.Context, pxe.AgentRequest, agent.CommitRequest) error { return nil }

func (f *fleet) Progress(context.Context, pxe.AgentRequest, agent.Progress) error { return nil }

func (f *fleet) Result(_ context.Context, r pxe.AgentRequest, result agent.Result) (agent.Answer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.results[r.Host] = result
	return agent.Answer{Next: agent.PowerOff}, nil
}
