package rack

import (
	"context"
	"errors"
	"path/filepath"
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/imaging"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/node"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
)

// errNoDisk is the error of a boot from an empty disk.
var errNoDisk = errors.New("told to boot from a disk that is empty")

// installed is an operating system that ran from the disk of a server.
type installed struct {
	node   node.Node // it never ran
	system *pxetest.System
}

// diskBytes is the default of Rack.DiskBytes. The disks take no space before they are erased.
const diskBytes = 8 << 30

// newDisk gives a server an empty disk.
func (s *Server) newDisk(r *Rack) error {
	folder := filepath.Join(r.Dir, s.Name)
	s.imaging = imaging.Machine{
		Program: r.Agent, Disk: filepath.Join(folder, s.serialNumber()), Firmware: agent.UEFI, Log: filepath.Join(folder, "agent.log"), Rate: r.Rate,
	}
	s.diskBytes = r.DiskBytes
	return imaging.NewDisk(s.imaging.Disk, s.diskBytes)
}

// serialNumber is the serial number of the disk of a server.
func (s *Server) serialNumber() string { return "DISK-" + strings.ToUpper(s.Name) }

// Crash ends the operating system of a server as a kernel panic does: the server stays on without a system.
func (s *Server) Crash() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.crash != nil {
		s.crash()
	}
}

// BreakDisk erases the disk of a server, which then does not boot from it.
func (s *Server) BreakDisk() error {
	s.setInstalled(nil)
	return imaging.NewDisk(s.imaging.Disk, s.diskBytes)
}

// Disk returns what is on the disk of a server: its serial number, whether firmware boots it, and the instance IDs of the bootstrap data anywhere on it.
func (s *Server) Disk() (serial string, bootable bool, instances []string, err error) {
	instances, err = s.imaging.Instances()
	if err == nil {
		bootable, err = s.imaging.Bootable()
	}
	return s.serialNumber(), bootable, instances, err
}

func (s *Server) setInstalled(i *installed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.disk = i
}

// running returns the context of the server's operating system.
func (s *Server) running(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.crash = cancel
	return ctx, cancel
}

// install records a system that runs from the disk: it was booted from there, or its command line says that it installs itself.
func (s *Server) install(n node.Node, system *pxetest.System) {
	if system.Volumes != nil || strings.Contains(system.CommandLine, node.Install) {
		s.setInstalled(&installed{n, system})
	}
}

// bootDisk boots the system on the disk. One that an agent wrote reads its bootstrap data at its first boot.
func (r *Rack) bootDisk(ctx context.Context, s *Server, booted func()) error {
	s.mu.Lock()
	ran, address := s.disk, s.address
	s.mu.Unlock()
	system, err := s.imaging.BootDisk(address, r.Persist)
	switch {
	case errors.Is(err, pxetest.ErrNotBootable) && ran == nil:
		return errNoDisk
	case errors.Is(err, pxetest.ErrNotBootable):
	case err != nil:
		return err
	case ran == nil || ran.system.MetaData["instance-id"] != system.MetaData["instance-id"]:
		return r.runSystem(ctx, s, system, booted)
	}
	booted()
	if s.light {
		r.event(s, "runs from its disk")
		return nil
	}
	ctx, cancel := s.running(ctx)
	defer cancel()
	return ran.node.RunInstalled(ctx, ran.system, func(stage string) { r.event(s, stage) })
}
