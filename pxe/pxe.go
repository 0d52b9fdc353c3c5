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
	// Soon is the answer for a server whose network boot is being prepared: it is not powered on yet. A request for its script is told to ask again.
	Soon Boot = "Soon"
)

// Stage is how far a boot came.
type Stage string

// The stages of a boot that are seen on the wire. That the script, the seed and the report were asked for, the Booter sees.
const (
	StageDHCP   Stage = "DHCP"
	StageLoader Stage = "Loader"
	StageKernel Stage = "Kernel"
	// StageWaiting is a request for the script by a server that has to wait for a boot slot of its network. It is seen again and again while it
	// waits, with its place in line as the client.
	StageWaiting Stage = "Waiting"
	// StageFirmware is a request of firmware for which there is nothing to boot. A server that runs its operating system sends none.
	StageFirmware Stage = "Firmware"
)

// Answer is what the Booter knows of a server.
type Answer struct {
	// Known is true for a server of the inventory: only those get addresses.
	Known bool
	Boot  Boot
	// Legacy is true for a server that boots with a BIOS.
	Legacy bool
	// SecureBoot is true for a server whose firmware runs signed programs only: it boots with shim and GRUB.
	SecureBoot bool
	// Files are what a network boot loads: the kernel, then the initrds. Namespace is whose share of the cache they take.
	Files     []artifact.Artifact
	Namespace string
	// ScriptFor is the address that the script of the boot attempt under way was given to; invalid while nobody has it.
	ScriptFor netip.Addr
}

// Range is a range of addresses, both ends among them.
type Range struct{ First, Last netip.Addr }

// Pool is where DHCP takes the addresses of a network from.
type Pool struct {
	// Network names the network. It stands in what people read, and may have to be the value of a Kubernetes label: at most 63
	// letters, digits, '-', '_' and '.'.
	Network string
	// Prefix is the network. A reservation of a server counts when it lies within.
	Prefix netip.Prefix
	// Ranges are the addresses for servers without a reservation.
	Ranges []Range
}

// LeaseRequest asks for the address that a server keeps.
type LeaseRequest struct {
	MAC  net.HardwareAddr
	Pool Pool
	// Wanted is the address that the server has, or asks for. It gets it if nobody else has it. Invalid for none.
	Wanted netip.Addr
}

// Lease is the address that a server keeps.
type Lease struct {
	Address netip.Addr
	// New is true when nobody was given the address lately: whoever gives it looks first whether somebody uses it unasked.
	New bool
}

// Outcome is what a running system reports.
type Outcome string

// What a running system reports.
const (
	// Up means that the operating system is up.
	Up Outcome = "up"
	// Succeeded and Failed tell whether the bootstrap data was carried out. They come after Up, or never.
	Succeeded Outcome = "succeeded"
	Failed    Outcome = "failed"
)

// Script is what a boot script is made of.
type Script struct {
	// Title tells people whose script it is, and Hostname is the name that its node gets.
	Title, Hostname string
	// CommandLine is the kernel command line, without where the seed is.
	CommandLine string
	// Format is the format of the bootstrap data: it says how the command line tells where the seed is.
	Format seed.Format
	// Network is the network of the operating system, which the command line tells. Nil leaves it to the image.
	Network *seed.Network
	// Template, where not empty, is the iPXE script itself, a text/template over ipxe.Values.
	Template string
	// Files are the kernel, then the initrds.
	Files []artifact.Artifact
	// SeedPath is the path of the seed on this server, with the token that opens it.
	SeedPath string
}

// ErrRefused is returned for a request that must not be answered: nothing is booted, the token is not or no longer good, or
// somebody else was answered before. Its text is for the log, not for the requester.
var ErrRefused = errors.New("refused")

// ErrNotYet is returned for what cannot be answered now and may be soon: whoever asks for it is told to ask again.
var ErrNotYet = errors.New("not yet")

// ErrBootSource is why a script cannot be made of what the user said: only he mends it.
var ErrBootSource = errors.New("the boot source is not usable")

// Booter is what the boot server knows of the world. Every method is safe for concurrent use.
type Booter interface {
	// Lookup says what the server with a MAC address boots now. It answers from memory: any packet on the wire asks it.
	Lookup(ctx context.Context, mac net.HardwareAddr) (Answer, error)
	// Lease returns the address that the server keeps, in the authoritative mode of DHCP.
	Lease(ctx context.Context, request LeaseRequest) (Lease, error)
	// Decline notes that somebody else uses an address that was given to the server. It is given to nobody for a while.
	Decline(ctx context.Context, mac net.HardwareAddr, address netip.Addr) error
	// Admit returns nil for a client that Script would serve by its address and by what DHCP showed of the server, ErrNotYet for one that is too
	// early, and ErrRefused for one that is not the server. It answers from memory, and binds nothing to the client.
	Admit(ctx context.Context, mac net.HardwareAddr, from netip.Addr) error
	// Script gives the script to the first who asks for it in a boot attempt, and to him again. When another asks the attempt ends.
	Script(ctx context.Context, mac net.HardwareAddr, from netip.Addr) (Script, error)
	// BootstrapData gives what a file of the seed is made of to the first who asks for any with the token, and to him again until he reported. Data has no
	// UserData and no Format where the file needs none.
	BootstrapData(ctx context.Context, host, token, file string, from netip.Addr) (seed.Data, error)
	// Report notes what the system with the token says of itself. The bootstrap data is not given out any more from then on.
	Report(ctx context.Context, host, token string, outcome Outcome, from netip.Addr) error
	// ObserveStage notes a stage of a boot. It must not block.
	ObserveStage(mac net.HardwareAddr, stage Stage, from netip.Addr, client string)
	// ObserveFailure notes why a boot cannot be served. It must not block.
	ObserveFailure(mac net.HardwareAddr, err error)
}
