package emulated

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/insomniacslk/dhcp/iana"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
)

// The events of a server besides the stages of its network boots.
const (
	PoweredOn    = "powered on"
	PoweredOff   = "powered off"
	AgentBooted  = "agent"
	AgentReboots = "the agent restarts the server, which boots its disk"
	AgentPowers  = "the agent powers the server off"
)

// outcome is what follows a boot.
type outcome int

const (
	stays    outcome = iota // the server stays as it is until it is switched off
	failed                  // nothing was booted: firmware tries the network again
	restarts                // the server restarts
)

// run is what the server does from power-on to power-off.
func (s *Server) run(ctx context.Context, device bmc.BootTarget, booted func()) {
	s.event(PoweredOn)
	defer s.event(PoweredOff)
	defer func() { <-ctx.Done() }()
	network := s.restarts.Swap(false) || overNetwork(device)
	for {
		boot := s.bootDisk
		if network {
			boot = s.bootNetwork
		}
		next, err := boot(ctx, booted)
		s.note(ctx, err)
		switch {
		case next == restarts:
			network = overNetwork(s.Override().Target)
		case next == failed && network:
			select {
			case <-time.After(s.opts.RetryDelay):
			case <-ctx.Done():
			}
		default:
			return
		}
		if ctx.Err() != nil {
			return
		}
	}
}

func overNetwork(device bmc.BootTarget) bool { return device == bmc.BootPXE || device == bmc.BootHTTP }

func (s *Server) event(what string) {
	if s.opts.Event != nil {
		s.opts.Event(what)
	}
}

// note passes an error on, unless the server was switched off.
func (s *Server) note(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		s.opts.Failed(err)
	}
}

func (s *Server) bootNetwork(ctx context.Context, booted func()) (outcome, error) {
	mac, err := net.ParseMAC(s.MAC)
	if err != nil {
		return stays, err
	}
	firmware := &pxetest.Firmware{
		MAC: mac, DHCPServer: netip.AddrPortFrom(s.site.Address(1), s.site.DHCP), Relay: s.site.Address(2), TFTPPort: s.site.TFTP,
		Persist: s.opts.Persist, Stage: s.event,
	}
	if s.site.UEFI {
		firmware.Arch = iana.EFI_X86_64
	}
	if s.opts.BeforeNetwork != nil {
		s.opts.BeforeNetwork(ctx, firmware)
	}
	system, err := firmware.Boot(ctx)
	if err != nil {
		return failed, err
	}
	s.mu.Lock()
	s.address = system.Address
	s.mu.Unlock()
	switch {
	case system.Disk:
		return s.bootDisk(ctx, booted)
	case system.Agent != nil:
		return s.obey(ctx, system)
	}
	life := s.begin(system)
	if s.opts.Installs == nil || s.opts.Installs(system) {
		s.install(life)
	}
	return stays, s.opts.Run(ctx, life, false, booted)
}

// bootDisk boots the operating system on the disk. One that an agent wrote reads its bootstrap data at its first boot.
func (s *Server) bootDisk(ctx context.Context, booted func()) (outcome, error) {
	if s.opts.BeforeDisk != nil {
		if err := s.opts.BeforeDisk(ctx); err != nil {
			return failed, err
		}
	}
	s.mu.Lock()
	life, address := s.installed, s.address
	s.mu.Unlock()
	if s.Hardware != nil {
		system, err := s.BootDisk(address, s.opts.Persist)
		switch {
		case errors.Is(err, pxetest.ErrNotBootable):
			if life != nil && life.FromDisk {
				life = nil // it was erased
			}
		case err != nil:
			return failed, err
		case life == nil || life.instance() != system.MetaData["instance-id"]:
			life = s.begin(system)
			s.install(life)
			return stays, s.opts.Run(ctx, life, false, booted)
		}
	}
	if life == nil {
		return failed, errNoDisk
	}
	return stays, s.opts.Run(ctx, life, true, booted)
}

// obey runs the agent that was booted, and does what it says at its end.
func (s *Server) obey(ctx context.Context, system *pxetest.System) (outcome, error) {
	if s.Hardware == nil || !slices.Equal(system.Files, s.site.agentFiles) {
		return failed, fmt.Errorf("the server has no disk, or the kernel or the ramdisk of the agent is not what it should be: %v", system.Files)
	}
	s.event(AgentBooted)
	s.mu.Lock()
	if s.installed != nil && !s.installed.FromDisk {
		s.installed = nil // it is not in the file, and what is in the file is decided when that is booted
	}
	s.mu.Unlock()
	run := s.RunAgent
	if s.opts.RunAgent != nil {
		run = s.opts.RunAgent
	}
	next, err := run(ctx, system)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		s.note(ctx, err)
		s.SetPower(false) //nolint:contextcheck // the server continues after the agent
	case next == agent.PowerOff:
		s.event(AgentPowers)
		select {
		case <-ctx.Done(): // it was switched off meanwhile
		case <-time.After(s.opts.ShutdownTime):
			s.SetPower(false) //nolint:contextcheck // as above
		}
	case next == agent.Reboot:
		s.event(AgentReboots)
		return restarts, nil
	}
	return stays, nil //nolint:nilerr // the error is an event, and the server is off
}

// begin starts a life.
func (s *Server) begin(system *pxetest.System) *Life {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.booted++
	return &Life{System: system, Number: s.booted, Machine: system.MetaData["hostname"], FromDisk: system.Volumes != nil}
}

// install records the operating system that is on the disk from now on; nil for none.
func (s *Server) install(life *Life) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.installed = life
}
