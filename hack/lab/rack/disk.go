package rack

import (
	"context"
	"errors"
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/node"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
)

// errNoDisk is the error of a boot from an empty disk.
var errNoDisk = errors.New("told to boot from a disk that is empty")

// disk is an operating system that installed itself.
type disk struct {
	node   node.Node // it never ran
	system *pxetest.System
}

// Crash ends the operating system of a server as a kernel panic does: the server stays on without a system.
func (s *Server) Crash() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.crash != nil {
		s.crash()
	}
}

// BreakDisk erases the disk of a server, which then does not boot from it.
func (s *Server) BreakDisk() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.disk = nil
}

// running returns the context of the server's operating system.
func (s *Server) running(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.crash = cancel
	return ctx, cancel
}

// install puts a system on the disk if its command line says so.
func (s *Server) install(n node.Node, system *pxetest.System) {
	if !strings.Contains(system.CommandLine, node.Install) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.disk = &disk{n, system}
}

// bootDisk boots the system on the disk.
func (r *Rack) bootDisk(ctx context.Context, s *Server, booted func()) error {
	s.mu.Lock()
	installed := s.disk
	s.mu.Unlock()
	if installed == nil {
		return errNoDisk
	}
	booted()
	if s.light {
		r.event(s, "runs from its disk")
		return nil
	}
	ctx, cancel := s.running(ctx)
	defer cancel()
	system := installed.node
	return system.RunInstalled(ctx, installed.system, func(stage string) { r.event(s, stage) })
}
