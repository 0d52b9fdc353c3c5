package main

import (
	"fmt"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/emulated"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/endure/invariant"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/node"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
)

// What agents do, by the events of their servers.
var agentWork = map[string]string{
	emulated.AgentBooted:  "agents booted",
	emulated.AgentReboots: "images written by an agent",
	emulated.AgentPowers:  "disks erased by an agent",
}

// Disks returns what agents left on the disk of the server.
func (h *host) Disks() []invariant.Disk {
	serial, bootable, instances, err := h.Disk()
	if err != nil {
		panic(fmt.Sprintf("read the disk of %s: %v", h.Name, err)) // a file of the lab
	}
	disks := []invariant.Disk{{Serial: serial, Bootable: bootable}}
	for _, instance := range instances {
		disks = append(disks, invariant.Disk{Serial: serial, Bootable: bootable, Instance: instance})
	}
	return disks
}

// ranFromDisk records the first boot of a system from a disk that an agent wrote.
func (s *soak) ranFromDisk(h *host, system *pxetest.System) {
	s.report.done("systems booted from an image")
	serial, _, _, err := h.Disk()
	if err != nil {
		s.report.failed(fmt.Sprintf("read the disk of %s: %v", h.Name, err))
	}
	s.checker.Ran(h.id(), system.MetaData["hostname"], system.MetaData["instance-id"], serial)
}

// endQuarantine does what a person does before the end of a quarantine: the server is switched off, and its disk is wiped.
func (s *soak) endQuarantine(h *host) error {
	s.switchOff(h)
	return h.BreakDisk()
}

// source returns how the machine gets its operating system.
func (s *soak) source(m *machine) (boot v1alpha1.BootSource, image *v1alpha1.Image, err error) {
	if m.image {
		image, err := s.lab.Rack.DiskImage("")
		return boot, image, err
	}
	boot = s.lab.Rack.Image("")
	boot.Persistence = v1alpha1.PersistenceEphemeral
	if m.installed {
		boot.Persistence, boot.CommandLine = v1alpha1.PersistenceInstalled, node.Install
	}
	return boot, nil, nil
}
