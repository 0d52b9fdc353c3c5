package runner

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/disk"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/failure"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/hardware"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/lldp"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/retry"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

// Inspector reads the hardware and sends the inventory.
type Inspector struct {
	Disks    DiskReader
	Hardware hardware.Source
	// Network receives LLDP frames. Nil receives none.
	Network lldp.Network
	// Release is that of the agent.
	Release string
	// Send sends the inventory to the boot server. It is repeated unless its error is final.
	Send func(ctx context.Context, inventory wire.Inspection) error
	Log  *slog.Logger
}

const (
	// maxLLDPWait bounds what a plan may ask for: four intervals of switches.
	maxLLDPWait = 2 * time.Minute
	// linksFor is how long an interface without a link is waited for: 10GBASE-T negotiates for seconds. A port without a cable has no neighbour.
	linksFor = 5 * time.Second
	// readTimeout bounds the commands to disks and to the BMC.
	readTimeout = 2 * time.Minute
)

// Run carries a plan out.
func (i *Inspector) Run(ctx context.Context, plan *agent.Plan, report func(agent.Progress)) agent.Result {
	if plan.Inspect == nil {
		return resultOf(failure.New(wire.ReasonPlanInvalid, "the plan has the purpose %s, and nothing to inspect", plan.Purpose))
	}
	report(agent.Progress{Step: wire.StepReading})
	inventory := hardware.Trim(i.read(ctx, *plan.Inspect))
	return resultOf(retry.Do(ctx, func(ctx context.Context) error { return i.Send(ctx, inventory) }))
}

// read reads the hardware after the wait for LLDP: until then, controllers have found their disks and links are up.
func (i *Inspector) read(ctx context.Context, plan agent.InspectPlan) wire.Inspection {
	var listener *lldp.Listener
	if i.Network != nil {
		listener = i.listen(ctx, min(time.Duration(max(plan.LLDPSeconds, 0))*time.Second, maxLLDPWait))
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	found, err := i.Disks.List(ctx)
	readContents(ctx, i.Disks, found, i.Log)
	inventory := i.Hardware.Collect(ctx, inspected(found), i.Release)
	for _, d := range found {
		if d.Unreadable != "" {
			inventory.Problems = append(inventory.Problems, fmt.Sprintf("disk %s: %s", d.Name, d.Unreadable))
		}
	}
	if err != nil {
		inventory.Problems = append(inventory.Problems, "list the disks: "+err.Error())
	}
	if listener != nil {
		inventory.Problems = append(inventory.Problems, listener.Apply(inventory.NICs)...)
	}
	return inventory
}

// inspected returns the facts of disks for the report, with what they carry, and why no plan would write to them.
func inspected(found []disk.Disk) []wire.InspectedDisk {
	disks := make([]wire.InspectedDisk, 0, len(found))
	for _, d := range found {
		for _, s := range d.Found {
			d.Signatures = append(d.Signatures, s.Type)
		}
		slices.Sort(d.Signatures)
		d.Signatures = slices.Compact(d.Signatures)
		d.Protected = disk.Protected(d, agent.RootDevice{}, nil)
		disks = append(disks, d.InspectedDisk)
	}
	return disks
}

// listen returns a closed listener with the neighbours that it has received.
func (i *Inspector) listen(ctx context.Context, wait time.Duration) *lldp.Listener {
	files := hardware.Source{Root: i.Hardware.Root, Architecture: i.Hardware.Architecture}
	var interfaces []lldp.Interface
	var names []string
	for _, n := range files.Collect(ctx, nil, i.Release).NICs {
		interfaces, names = append(interfaces, lldp.Interface{Name: n.Name, Driver: n.Driver}), append(names, n.Name)
	}
	listener := lldp.Listen(i.Network, interfaces)
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	started := time.Now()
	listener.Wait(ctx, func() []string {
		if time.Since(started) < linksFor {
			return names
		}
		return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !files.HasLink(name) })
	})
	if err := listener.Close(); err != nil {
		i.Log.Warn("Failed to stop listening for LLDP", "error", err)
	}
	return listener
}
