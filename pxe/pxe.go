// Package pxe answers the network boot of servers: DHCP says where the boot loader is, TFTP serves it, HTTP serves the script,
// the kernel and the bootstrap data, and takes the report of the running system. It knows the world through Booter alone.
//
// A boot goes DISCOVER -> boot loader -> DISCOVER by iPXE -> script -> kernel and initrds -> bootstrap data -> report; README.md
// beside this file tells it step by step.
package pxe

import (
	"context"
	"errors"
	"net"
	"net/netip"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/artifact"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed"
)

// Boot is what a server boots now.
type Boot string

// What a server boots now.
const (
	// Ignore leaves the server to itself. It is the answer for servers that are not known.
	Ignore Boot = ""
	// Disk boots what is installed.
	Disk Boot = "Disk"
	// Network boots the script.
	Network Boot = "Network"
)

// Stage is how far a boot came.
type Stage string

// The stages of a boot that are seen on the wire. That the script, the seed and the report were asked for, the Booter sees.
const (
	StageDHCP   Stage = "DHCP"
	StageLoader Stage = "Loader"
	StageKernel Stage = "Kernel"
)

// Answer is what the Booter knows of a server.
type Answer struct {
	// Known is true for a server of the inventory: only those get addresses.
	Known bool
	Boot  Boot
	// Legacy is true for a server that boots with a BIOS.
	Legacy bool
	// Files are what a network boot loads: the kernel, then the initrds.
	Files []artifact.Artifact
}

// Script is what a boot script is made of.
type Script struct {
	// Title tells people whose script it is.
	Title string
	// CommandLine is the kernel command line, without where the seed is.
	CommandLine string
	// Files are the kernel, then the initrds.
	Files []artifact.Artifact
	// SeedPath is the path of the seed on this server, with the token that opens it.
	SeedPath string
}

// ErrRefused is returned for a request that must not be answered: nothing is booted, the token is not or no longer good, or
// somebody else was answered before. Its text is for the log, not for the requester.
var ErrRefused = errors.New("refused")

// Booter is what the boot server knows of the world. Every method is safe for concurrent use.
type Booter interface {
	// Lookup says what the server with a MAC address boots now. It answers from memory: any packet on the wire asks it.
	Lookup(ctx context.Context, mac net.HardwareAddr) (Answer, error)
	// Lease returns the address that the server keeps, in the authoritative mode of DHCP.
	Lease(ctx context.Context, mac net.HardwareAddr) (netip.Addr, error)
	// Script gives the script to the first who asks for it in a boot attempt, and to him again.
	Script(ctx context.Context, mac net.HardwareAddr, from netip.Addr) (Script, error)
	// Seed gives the bootstrap data to the first who asks for it with the token, and to him again until he reported.
	Seed(ctx context.Context, host, token string, from netip.Addr) (seed.Data, error)
	// Report notes that the system with the token is up. The token is void from then on.
	Report(ctx context.Context, host, token string, from netip.Addr) error
	// Saw notes a stage of a boot. It must not block.
	Saw(mac net.HardwareAddr, stage Stage, from netip.Addr, client string)
	// Failed notes why a boot cannot be served. It must not block.
	Failed(mac net.HardwareAddr, err error)
}
