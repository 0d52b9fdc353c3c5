package rack

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
)

// agentDir is the folder of the boot servers with the files of the agent.
func (r *Rack) agentDir() string { return filepath.Join(r.Dir, "agent-files") }

// setAddress records the address that DHCP gave to a server. Its operating system keeps the lease.
func (s *Server) setAddress(address netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.address = address
}

// runAgent runs the agent that a server booted, and does what it says at its end.
func (r *Rack) runAgent(ctx context.Context, s *Server, system *pxetest.System, booted func()) error {
	if !slices.Equal(system.Files, r.agentFiles) {
		return fmt.Errorf("the kernel or the ramdisk of the agent is not what it should be: %v", system.Files)
	}
	r.event(s, "agent")
	s.setInstalled(nil) // what ran from the disk is not there after the agent
	next, err := s.imaging.RunAgent(ctx, system)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil //nolint:nilerr // the server was switched off
	case err != nil:
		s.SetPower(false) //nolint:contextcheck // nothing runs after it
		return fmt.Errorf("%w: %w", errRan, err)
	case next == agent.Reboot:
		r.event(s, "the agent restarts the server, which boots its disk")
		return r.bootDisk(ctx, s, booted)
	case next == agent.PowerOff:
		r.event(s, "the agent powers the server off")
		s.SetPower(false) //nolint:contextcheck // as above
	case next == agent.Wait:
	}
	return nil
}
