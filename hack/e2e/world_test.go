package e2e_test

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/artifact"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/dhcp"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/server"
)

// The stages of a boot: those that the boot server notes, and those that the Booter is asked for.
const (
	stageDHCP   = string(pxe.StageDHCP)
	stageLoader = string(pxe.StageLoader)
	stageScript = "Script"
	stageKernel = string(pxe.StageKernel)
	stageSeed   = "Seed"
	stageReport = "Report"
)

// loaderDir is where Debian's package ipxe has the boot loaders, under the names that DHCP gives them.
const loaderDir = "/usr/lib/ipxe"

var hostMAC = net.HardwareAddr{0x52, 0x54, 0, 0x77, 0, 0x50}

// deadline is a stage and when it must have been seen, in seconds from power-on.
type deadline struct {
	stage   string
	seconds float64
}

// sighting is what was seen of a stage.
type sighting struct {
	stage  string
	at     time.Time
	from   netip.Addr
	client string
}

// world is the boot server, and a pxe.Booter which knows one server and notes when it was asked for what.
type world struct {
	*pxetest.Booter

	mu        sync.Mutex
	sightings []sighting
}

// newWorld starts a boot server that boots the image. It ends with the test.
func newWorld(t *testing.T, i *image) *world {
	t.Helper()
	w := &world{Booter: &pxetest.Booter{
		MAC: hostMAC, Address: hostAddress, Token: "token", Answer: pxe.Answer{Known: true, Boot: pxe.Network, Files: i.files},
		Data: seed.Data{
			InstanceID: "attempt-1", Hostname: "machine-1", ProviderID: "baremetal://dc/h/m", UserData: []byte("#cloud-config\n"),
			ReportPath: pxe.ReportPath("dc/h", "token"),
		},
	}}
	s := &server.Server{
		Booter: w, Log: testr.NewWithOptions(t, testr.Options{Verbosity: 4}),
		Config: server.Config{
			DHCP: dhcp.Config{Mode: dhcp.Authoritative, Address: bootAddress, BaseURL: "http://" + bootAddress.String(), Network: network},
			// DHCP listens on all addresses: requests are sent to everyone.
			DHCPAddress: ":67", TFTPAddress: bootAddress.String() + ":69", HTTPAddress: bootAddress.String() + ":80", LoaderDir: loaderDir,
			Artifacts: artifact.Options{Dir: t.TempDir(), AllowNetworks: []netip.Prefix{netip.PrefixFrom(localAddress, 32)}},
		},
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		NewWithT(t).Expect(<-done).To(Succeed())
	})
	return w
}

func (w *world) note(stage string, from netip.Addr, client string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sightings = append(w.sightings, sighting{stage: stage, at: time.Now(), from: from, client: client})
}

// first returns the first sighting of a stage, an empty one if there is none.
func (w *world) first(stage string) sighting {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.sightings {
		if s.stage == stage {
			return s
		}
	}
	return sighting{}
}

// await waits for a stage.
func (w *world) await(t *testing.T, m *running, d deadline, power time.Time) {
	t.Helper()
	g := NewWithT(t)
	end := power.Add(time.Duration(d.seconds * float64(time.Second)))
	for w.first(d.stage).stage == "" && time.Now().Before(end) {
		select {
		case <-m.exited:
			end = time.Now() // nothing comes any more
		case <-time.After(50 * time.Millisecond):
		}
	}
	seen := w.first(d.stage)
	g.Expect(seen.stage).To(Equal(d.stage), "not seen %.1f s after power-on", time.Since(power).Seconds())
	t.Logf("%-6s after %4.1f s  %s %s", d.stage, seen.at.Sub(power).Seconds(), seen.from, seen.client)
}

// Saw notes a stage.
func (w *world) Saw(_ net.HardwareAddr, stage pxe.Stage, from netip.Addr, client string) {
	w.note(string(stage), from, client)
}

// Script notes who asks, and sends the kernel's output to the serial line. A kernel that panics ends the machine.
func (w *world) Script(ctx context.Context, mac net.HardwareAddr, from netip.Addr) (pxe.Script, error) {
	w.note(stageScript, from, "")
	script, err := w.Booter.Script(ctx, mac, from)
	script.CommandLine = "console=ttyS0 panic=1"
	return script, err
}

// Seed notes who asks.
func (w *world) Seed(ctx context.Context, host, token string, from netip.Addr) (seed.Data, error) {
	data, err := w.Booter.Seed(ctx, host, token, from)
	if err == nil {
		w.note(stageSeed, from, host)
	}
	return data, err
}

// Report notes who reports.
func (w *world) Report(ctx context.Context, host, token string, from netip.Addr) error {
	err := w.Booter.Report(ctx, host, token, from)
	if err == nil {
		w.note(stageReport, from, host)
	}
	return err
}
