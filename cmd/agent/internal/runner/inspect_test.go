package runner

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/hardware"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/lldp"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/retry"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

// TestInspect: the disks are in the inventory that is sent, and an inventory that the boot server refuses is a failure.
func TestInspect(t *testing.T) {
	g := NewWithT(t)
	_, f := newProvisioner(t, newBoots())
	var sent []wire.Inspection
	var refused error
	inspector := &Inspector{
		Disks: f, Hardware: hardware.Source{Root: t.TempDir(), Architecture: "amd64"}, Release: "v1", Log: slog.New(slog.DiscardHandler),
		Send: func(_ context.Context, inventory wire.Inspection) error {
			sent = append(sent, inventory)
			return refused
		},
	}
	var steps []wire.AgentStep
	run := func(plan *agent.InspectPlan) agent.Result {
		return inspector.Run(t.Context(), &agent.Plan{Purpose: agent.Inspect, Inspect: plan}, func(p agent.Progress) { steps = append(steps, p.Step) })
	}
	g.Expect(run(nil).Failure.Reason).To(Equal(wire.ReasonPlanInvalid))
	g.Expect(sent).To(BeEmpty())
	g.Expect(run(&agent.InspectPlan{}).Failure).To(BeNil())
	g.Expect(steps).To(Equal([]wire.AgentStep{wire.StepReading}))
	g.Expect(sent).To(HaveLen(1))
	g.Expect(sent[0].AgentRelease).To(Equal("v1"))
	g.Expect(sent[0].Disks).To(HaveLen(1))
	g.Expect(sent[0].Disks[0].SerialNumber).To(Equal("S1"))
	refused = retry.Final(errors.New("refused"))
	g.Expect(run(&agent.InspectPlan{}).Failure).NotTo(BeNil())
	g.Expect(sent).To(HaveLen(2), "a final refusal is not repeated")
}

// switches are a network in which the interfaces of a server hear a neighbour after some time, or never, if no neighbour is set.
type switches map[string]time.Duration

func (s switches) Open(name string) (lldp.Conn, error) {
	after, ok := s[name]
	if !ok {
		after = time.Hour
	}
	return &switchPort{frame: time.After(after), closed: make(chan struct{})}, nil
}

func (switches) ReleaseFrames(string) (bool, error) { return false, nil }

type switchPort struct {
	frame  <-chan time.Time
	closed chan struct{}
}

func (p *switchPort) Receive() ([]byte, error) {
	select {
	case <-p.frame:
		return []byte("\x02\x02\x07a\x04\x02\x05b\x06\x02\x00\x78\x00\x00"), nil
	case <-p.closed:
		return nil, io.EOF
	}
}

func (p *switchPort) Close() error { close(p.closed); return nil }

// TestWaitForNeighbours: the inspection waits for the neighbours of the interfaces that have a link, also if they get it late, and not for those of free ports.
func TestWaitForNeighbours(t *testing.T) {
	const wait = 35 * time.Second
	for name, c := range map[string]struct {
		links   []string // that have a carrier
		late    string   // gets one after 3 s
		heard   switches
		atLeast time.Duration
		atMost  time.Duration
		want    []string // the interfaces with a neighbour
	}{
		"all":                {links: []string{"eth0", "eth1"}, heard: switches{"eth0": time.Second, "eth1": 2 * time.Second}, atLeast: 2 * time.Second, atMost: 2 * time.Second, want: []string{"eth0", "eth1"}},
		"a free port":        {links: []string{"eth0"}, heard: switches{"eth0": 12 * time.Second}, atLeast: 12 * time.Second, atMost: 12 * time.Second, want: []string{"eth0"}},
		"a free port, early": {links: []string{"eth0"}, heard: switches{"eth0": time.Second}, atLeast: linksFor, atMost: linksFor + time.Second, want: []string{"eth0"}},
		"a late link":        {links: []string{"eth0"}, late: "eth1", heard: switches{"eth0": time.Second, "eth1": 30 * time.Second}, atLeast: 30 * time.Second, atMost: 30 * time.Second, want: []string{"eth0", "eth1"}},
		"no neighbour":       {links: []string{"eth0", "eth1"}, heard: switches{"eth0": time.Second}, atLeast: wait, atMost: wait, want: []string{"eth0"}},
		"no link":            {heard: switches{}, atLeast: linksFor, atMost: linksFor + time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			plug := func(name string) {
				if err := os.WriteFile(filepath.Join(root, "sys/class/net", name, "carrier"), []byte("1\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			for _, name := range []string{"eth0", "eth1"} {
				folder := filepath.Join(root, "sys/class/net", name)
				if err := os.MkdirAll(filepath.Join(folder, "device"), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(folder, "type"), []byte("1\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			for _, name := range c.links {
				plug(name)
			}
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				if c.late != "" {
					time.AfterFunc(3*time.Second, func() { plug(c.late) })
				}
				var sent wire.Inspection
				inspector := &Inspector{
					Disks: FileDisks{}, Hardware: hardware.Source{Root: root, Architecture: "amd64"}, Network: c.heard, Log: slog.New(slog.DiscardHandler),
					Send: func(_ context.Context, inventory wire.Inspection) error { sent = inventory; return nil },
				}
				started := time.Now()
				plan := &agent.Plan{Purpose: agent.Inspect, Inspect: &agent.InspectPlan{LLDPSeconds: int(wait.Seconds())}}
				g.Expect(inspector.Run(t.Context(), plan, func(agent.Progress) {}).Failure).To(BeNil())
				g.Expect(time.Since(started)).To(And(BeNumerically(">=", c.atLeast), BeNumerically("<=", c.atMost)))
				var got []string
				for _, n := range sent.NICs {
					if n.Neighbor != nil {
						got = append(got, n.Name)
					}
				}
				g.Expect(got).To(Equal(c.want))
			})
		})
	}
}
