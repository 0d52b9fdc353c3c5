// Package emulated has emulated servers: a BMC, firmware that boots over the network with the real protocols, and a disk that is a file. They run the real
// agent. It is an ordinary process, whose connections come from the address of the server, and the servers boot what it wrote to that file. The operating
// system is the caller's: hack/endure/rig runs the whole provider in one process with these servers, and hack/lab runs it as processes with Cluster API.
package emulated

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
)

// Site has emulated servers on a network of loopback addresses, and the files that they boot. The provider and its boot server are the caller's.
type Site struct {
	// Dir is the folder of the site's files.
	Dir string
	// Agent is the agent's program. It is needed before a server with a disk boots the agent.
	Agent string
	// UEFI is true if the firmware of the servers is UEFI, and not a BIOS.
	UEFI bool
	// Origin serves what the servers boot.
	Origin *Origin
	// The ports of the boot server, which listens at Address(1).
	DHCP, TFTP, HTTP uint16

	network    netip.Prefix
	taken      net.Listener // marks the network as taken
	agentFiles []string     // the checksums of the kernel and the ramdisk of the agent
	mu         sync.Mutex
	servers    []*Server
}

// SiteOptions describe a Site.
type SiteOptions struct {
	Dir  string
	UEFI bool
	// First is the first network that the site may take. Count is the number of networks of this size from there on.
	First netip.Prefix
	Count int
}

// NewSite makes a site without servers. Close it, also after an error.
func NewSite(ctx context.Context, o SiteOptions) (*Site, error) {
	s := &Site{Dir: o.Dir, UEFI: o.UEFI}
	if err := s.takeNetwork(ctx, o.First, o.Count); err != nil {
		return s, err
	}
	for _, port := range []*uint16{&s.DHCP, &s.TFTP, &s.HTTP} {
		var err error
		if *port, err = pxetest.FreePort(s.Address(1)); err != nil {
			return s, err
		}
	}
	if err := os.MkdirAll(s.Loaders(), 0o700); err != nil {
		return s, err
	}
	loader := "undionly.kpxe"
	if s.UEFI {
		loader = "snponly.efi"
	}
	if err := pxetest.WriteLoaders(s.Loaders(), loader); err != nil {
		return s, err
	}
	var err error
	if s.agentFiles, err = pxetest.WriteAgent(s.AgentDir()); err != nil {
		return s, err
	}
	s.Origin, err = newOrigin(ctx, s.Address(3), filepath.Join(s.Dir, "images"))
	return s, err
}

// networks counts the networks that this process tried.
var networks atomic.Int64

// takeNetwork takes one of the networks. Sites that run at once have different ones, also among processes: a listener on a port marks a network as taken.
func (s *Site) takeNetwork(ctx context.Context, first netip.Prefix, count int) error {
	const mark = 47999
	var err error
	for range count {
		n := (os.Getpid() + int(networks.Add(1))) % count
		at := first.Addr().As4()
		binary.BigEndian.PutUint32(at[:], binary.BigEndian.Uint32(at[:])+uint32(n)<<(32-first.Bits())) //nolint:gosec // count bounds it
		s.network = netip.PrefixFrom(netip.AddrFrom4(at), first.Bits())
		if s.taken, err = listen(ctx, s.Address(1), mark); err == nil {
			return nil
		}
	}
	return fmt.Errorf("no network is free: %w", err)
}

func listen(ctx context.Context, address netip.Addr, port uint16) (net.Listener, error) {
	return (&net.ListenConfig{}).Listen(ctx, "tcp4", netip.AddrPortFrom(address, port).String())
}

// Address returns an address of the network by its last bytes. The boot server has 1, the relay of the servers 2, and the origin 3.
func (s *Site) Address(last ...byte) netip.Addr {
	bytes := s.network.Addr().As4()
	copy(bytes[len(bytes)-len(last):], last)
	return netip.AddrFrom4(bytes)
}

// Subnet is the network of the site.
func (s *Site) Subnet() netip.Prefix { return s.network }

// At returns an address of the boot server with a port.
func (s *Site) At(port uint16) string {
	return net.JoinHostPort(s.Address(1).String(), strconv.Itoa(int(port)))
}

// Loaders is the boot server's folder with the boot loaders, and AgentDir that with the files of the agent.
func (s *Site) Loaders() string { return filepath.Join(s.Dir, "loaders") }

// AgentDir is explained at Loaders.
func (s *Site) AgentDir() string { return filepath.Join(s.Dir, "agent-files") }

// Servers are the servers of the site.
func (s *Site) Servers() []*Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.servers)
}

// Close switches all servers off.
func (s *Site) Close() error {
	var problems []error
	for _, server := range s.Servers() {
		problems = append(problems, server.bmc.Close())
		server.Close()
	}
	if s.Origin != nil {
		problems = append(problems, s.Origin.web.Close())
	}
	if s.taken != nil {
		problems = append(problems, s.taken.Close())
	}
	return errors.Join(problems...)
}
