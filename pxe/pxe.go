// Package pxe boots servers over the network: DHCP names the boot loader, TFTP serves it, and HTTP serves the script, the kernel and the bootstrap data, and
// receives the report of the running system. Its only dependency on the inventory is the interface Booter.
//
// A boot goes DISCOVER -> boot loader -> DISCOVER by iPXE -> script -> kernel and initrds -> bootstrap data -> report. README.md
// beside this file describes each step.
package pxe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/artifact"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed"
)

// Boot is what a server boots now.
type Boot string

// What a server boots now.
const (
	// Ignore offers the server nothing. It is the answer for unknown servers.
	Ignore Boot = ""
	// Disk boots the installed system.
	Disk Boot = "Disk"
	// Network boots the script.
	Network Boot = "Network"
	// NotYet is for a server whose network boot is being prepared: it is not powered on yet. A request for its script is asked to retry.
	NotYet Boot = "NotYet"
)

// Stage is a stage of a boot.
type Stage string

// The stages of a boot that the servers of this package observe. The Booter itself observes requests for the script, the seed and the report.
const (
	StageDHCP   Stage = "DHCP"
	StageLoader Stage = "Loader"
	StageKernel Stage = "Kernel"
	// StageFirmware is a request of firmware for which there is nothing to boot. A server with a running operating system sends none.
	StageFirmware Stage = "Firmware"
)

// Answer is what a server boots.
type Answer struct {
	// Known is true for a server of the inventory. Only those get addresses.
	Known bool
	Boot  Boot
	// BIOS is true for a server that boots with a BIOS.
	BIOS bool
	// SecureBoot is true for a server whose firmware runs only signed programs. It boots with shim and GRUB.
	SecureBoot bool
	// Agent is the architecture for which a network boot loads the agent; empty if it loads Files.
	Agent string
	// Files are what a network boot loads: the kernel, then the initrds. They count against the cache share of Namespace.
	Files     []artifact.Artifact
	Namespace string
	// ScriptFor is the address that got the script of the current boot attempt; invalid for none.
	ScriptFor netip.Addr
}

// Range is an inclusive range of addresses.
type Range struct{ First, Last netip.Addr }

// Pool is the addresses that DHCP may give in a network.
type Pool struct {
	// Network is the network's name. It appears in messages, and may have to be the value of a Kubernetes label: at most 63
	// letters, digits, '-', '_' and '.'.
	Network string
	// Prefix is the network's prefix. A server's reservation is valid if it is in the prefix.
	Prefix netip.Prefix
	// Ranges are the addresses for servers without a reservation.
	Ranges []Range
}

// LeaseRequest asks for the address that a server keeps.
type LeaseRequest struct {
	MAC  net.HardwareAddr
	Pool Pool
	// Wanted is the address that the server has, or asks for. It gets that address if no other host has it. Invalid for none.
	Wanted netip.Addr
}

// Lease is the address that a server keeps.
type Lease struct {
	Address netip.Addr
	// New is true if no host was given the address recently. The DHCP server then probes whether another device uses it.
	New bool
}

// Outcome is the content of a report.
type Outcome string

const (
	// Up means that the operating system is up.
	Up Outcome = "up"
	// Succeeded and Failed mean that the bootstrap data was, or was not, applied. They follow Up, or are not reported.
	Succeeded Outcome = "succeeded"
	Failed    Outcome = "failed"
)

// Script is the input of a boot script.
type Script struct {
	// Title identifies the boot at the console. Hostname is the name that the node gets.
	Title, Hostname string
	// CommandLine is the kernel command line without the location of the seed.
	CommandLine string
	// Format is the format of the bootstrap data. It determines how the command line names the seed.
	Format seed.Format
	// Network is the network of the operating system, for the command line. Nil leaves it to the image.
	Network *seed.Network
	// Template, if not empty, is the iPXE script itself, a text/template over ipxe.Values.
	Template string
	// Files are the kernel, then the initrds.
	Files []artifact.Artifact
	// SeedPath is the path of the seed on this server, with its token.
	SeedPath string
	// Agent, if not nil, makes the script boot the agent instead of Files.
	Agent *AgentScript
}

// AgentScript is the part of a script that boots the agent.
type AgentScript struct {
	// Architecture is that of the server, in the notation of Kubernetes.
	Architecture string
	// Host is the host, as "namespace/name", and Token the token of its boot.
	Host, Token string
	// Network is the static network of the host. Nil for none.
	Network *seed.Network
	// StaticFirst makes the agent use Network without waiting for DHCP.
	StaticFirst bool
}

// ErrRefused is returned for a request that must not be served: there is nothing to boot, the token is not or no longer valid, or another client was served
// before. Its text is for the log, not for the client.
var ErrRefused = errors.New("refused")

// ErrNotYet is returned for a request that may succeed later: the client is asked to retry.
var ErrNotYet = errors.New("not yet")

// ErrTokenUnknown is an ErrNotYet for a token that was not looked up, because too many were. It counts as a failed attempt of the client, which may be guessing.
var ErrTokenUnknown = fmt.Errorf("%w: the token is not known yet", ErrNotYet)

// ErrBootSource is returned if the user's boot source does not give a script. Only the user can fix it.
var ErrBootSource = errors.New("the boot source is not usable")

// ErrOtherDHCPServer is returned if a server that should boot from the network took the answer of another DHCP server.
var ErrOtherDHCPServer = errors.New("another DHCP server answers")

// Booter connects the boot server to the inventory. Every method is safe for concurrent use.
type Booter interface {
	// Lookup returns what the server with a MAC address boots now. It answers from memory, because any packet on the network causes a call.
	Lookup(ctx context.Context, mac net.HardwareAddr) (Answer, error)
	// Lease returns the address that the server keeps, in the authoritative mode of DHCP.
	Lease(ctx context.Context, request LeaseRequest) (Lease, error)
	// Decline records that another device uses an address that was given to the server. The address is given to no server for some time.
	Decline(ctx context.Context, mac net.HardwareAddr, address netip.Addr) error
	// Admit returns nil for a client that Script would serve, given its address and the server's DHCP requests. It returns ErrNotYet for a client that is too
	// early, and ErrRefused for one that is not the server. It answers from memory, and binds nothing to the client.
	Admit(ctx context.Context, mac net.HardwareAddr, from netip.Addr) error
	// Script returns the script to the first client that asks for it in a boot attempt, and to the same client again. A second client ends the attempt.
	Script(ctx context.Context, mac net.HardwareAddr, from netip.Addr) (Script, error)
	// KnowsSeedToken is true for the token of the seed of the host's boot. It answers from memory, which may be behind, and serves nothing.
	KnowsSeedToken(ctx context.Context, host, token string) bool
	// BootstrapData returns the content of the seed to the first client that asks for one of its files with the token, and to the same client again until the
	// report. Data has no UserData and no Format if the file needs none.
	BootstrapData(ctx context.Context, host, token, file string, from netip.Addr) (seed.Data, error)
	// Report records the report of the system with the token. From then on the bootstrap data is not served any more.
	Report(ctx context.Context, host, token string, outcome Outcome, from netip.Addr) error
	// ObserveStage records a stage of a boot. It must not block.
	ObserveStage(mac net.HardwareAddr, stage Stage, from netip.Addr, client string)
	// ObserveWaiting records the position of a server in the queue for the boot slots of its network, from 1. The server asks repeatedly while it waits. It must not block.
	ObserveWaiting(mac net.HardwareAddr, from netip.Addr, position int)
	// ObserveFailure records why a boot cannot be served. It must not block.
	ObserveFailure(mac net.HardwareAddr, err error)
}
