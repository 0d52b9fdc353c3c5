// Package rack has emulated servers on a provisioning network of loopback addresses. Each has a Redfish or an IPMI BMC, firmware that boots over the
// network with the real protocols, and an operating system that becomes a real Node.
package rack

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/insomniacslk/dhcp/iana"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/imaging"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/node"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/proc"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
)

// Credentials of every BMC of the rack.
const (
	Username = "admin"
	Password = "emulated"
)

// Rack is a rack of emulated servers.
type Rack struct {
	Dir, Bin string
	// Event, if not nil, gets the events of a server: "powered on", a stage of its boot, "powered off", or an error.
	Event func(server, what string)
	// Seeded, if not nil, gets what a server booted with once the server has its bootstrap data.
	Seeded func(server string, system *pxetest.System)
	// Persist, if not zero, is how long a server's operating system repeats a request without an answer. Its firmware then also tries a failed boot again,
	// as that of real servers does.
	Persist time.Duration
	// PowerDelay is how long a change of power takes. New sets one second.
	PowerDelay time.Duration
	// Agent is the agent's program. A server that boots the agent runs it.
	Agent string
	// ImageBytes is how much data a disk image has. New sets 1 MiB.
	ImageBytes int64
	// DiskBytes is the size of the disks of servers that are added from now on. New sets 8 GiB. An agent that erases all of a disk writes and reads each byte.
	DiskBytes int64
	// Rate is how many bytes a second an agent's network transfers. Zero is without a limit.
	Rate int
	// IPMIEvery selects the servers whose BMC has IPMI: every nth. New sets 3. The others have Redfish.
	IPMIEvery int

	network [2]byte
	taken   net.Listener // marks the network as taken
	ports   map[string]uint16
	etcd    *etcd
	origin  *http.Server
	servers []*Server
	// images has the version of Kubernetes on an image by the checksum of its initrd.
	images sync.Map
	// diskImages has the checksums of the disk images by their versions of Kubernetes.
	diskImages struct {
		sync.Mutex

		checksums map[string]string
	}
	balancer *proc.Process // nil without a balancer
	// beside is a network that boot servers serve beside the rack; nil for none.
	beside *Network
	// agentFiles are the checksums of the kernel and the ramdisk of the agent.
	agentFiles []string
}

// Server is an emulated server.
type Server struct {
	*bmctest.Machine
	Name, MAC string
	// BMC is the address of its BMC, for a host's spec.
	BMC string

	bmc       io.Closer
	packets   *countedConn // nil if the BMC has Redfish
	light     bool
	mu        sync.Mutex
	ran       int
	disk      *installed         // the system that ran from the disk; nil while none did
	imaging   imaging.Machine    // the disk that agents write
	diskBytes int64              // the size of that disk
	address   netip.Addr         // the address of the last network boot
	crash     context.CancelFunc // ends the operating system
}

// New makes a rack without servers: its network, the origin of the boot files, and the etcd of its clusters.
func New(ctx context.Context, dir, bin string, event func(server, what string)) (*Rack, error) {
	r := &Rack{Dir: dir, Bin: bin, Event: event, PowerDelay: time.Second, IPMIEvery: 3, ImageBytes: 1 << 20, DiskBytes: diskBytes, ports: map[string]uint16{}}
	r.diskImages.checksums = map[string]string{}
	if err := r.takeNetwork(ctx); err != nil {
		return r, err
	}
	for _, name := range []string{"dhcp", "tftp", "http", "etcd", "etcd-peer", "api"} {
		port, err := pxetest.FreePort(r.address(0, 1))
		if err != nil {
			return r, err
		}
		r.ports[name] = port
	}
	loaders := filepath.Join(dir, "loaders")
	if err := os.MkdirAll(loaders, 0o700); err != nil {
		return r, err
	}
	if err := pxetest.WriteLoaders(loaders, "snponly.efi"); err != nil {
		return r, err
	}
	var err error
	if r.agentFiles, err = pxetest.WriteAgent(r.agentDir()); err != nil {
		return r, err
	}
	for name, address := range map[string]netip.Addr{bootConfig: r.address(0, 1), otherBootConfig: r.address(0, 4)} {
		if err := r.writeBootConfig(name, address, r.leases()); err != nil {
			return r, err
		}
	}
	if err := r.serveFiles(ctx); err != nil {
		return r, err
	}
	r.etcd, err = startEtcd(ctx, r)
	return r, err
}

// takeNetwork takes 127.64.0.0/16 or one of the 127 networks after it. Labs that run at once have different networks: a listener on a port marks a network
// as taken.
func (r *Rack) takeNetwork(ctx context.Context) error {
	const networks, mark = 128, 47999
	var err error
	for i := range networks {
		r.network = [2]byte{127, byte(64 + (os.Getpid()+i)%networks)}
		if r.taken, err = (&net.ListenConfig{}).Listen(ctx, "tcp4", netip.AddrPortFrom(r.address(0, 1), mark).String()); err == nil {
			return nil
		}
	}
	return fmt.Errorf("no network is free for the rack: %w", err)
}

// Close switches all servers off.
func (r *Rack) Close() {
	for _, s := range r.servers {
		_ = s.bmc.Close()
		s.Close()
	}
	if r.origin != nil {
		_ = r.origin.Close()
	}
	if r.taken != nil {
		_ = r.taken.Close()
	}
	if r.balancer != nil {
		r.balancer.Stop()
	}
	if r.etcd != nil {
		r.etcd.process.Stop()
	}
}

func (r *Rack) address(c, d byte) netip.Addr {
	return netip.AddrFrom4([4]byte{r.network[0], r.network[1], c, d})
}

// Endpoint is the endpoint of the cluster's API server.
func (r *Rack) Endpoint() (host string, port uint16) {
	return r.address(0, 10).String(), r.ports["api"]
}

// Servers are the servers of the rack.
func (r *Rack) Servers() []*Server { return r.servers }

// TemplateVariables are those of the cluster templates.
func (r *Rack) TemplateVariables() ([]string, error) {
	host, port := r.Endpoint()
	vars := []string{
		"CONTROL_PLANE_ENDPOINT_HOST=" + host, fmt.Sprintf("CONTROL_PLANE_ENDPOINT_PORT=%d", port),
		"BOOT_PERSISTENCE=Ephemeral", "ETCD_ENDPOINT=" + r.etcd.endpoint, fmt.Sprintf("EXTERNAL_ETCD_ENDPOINTS=[%q]", r.etcd.endpoint), "KUBE_VIP_ENABLED=false",
	}
	image := r.Image("")
	diskImage, err := r.DiskImage("")
	return append(vars, "KERNEL_URL="+image.Kernel, "KERNEL_CHECKSUM="+image.KernelChecksum, "INITRD_URL="+image.Initrd, "INITRD_CHECKSUM="+image.InitrdChecksum,
		"IMAGE_URL="+diskImage.URL, "IMAGE_CHECKSUM="+diskImage.Checksum), err
}

func sum(content string) string {
	s := sha256.Sum256([]byte(content))
	return hex.EncodeToString(s[:])
}

// serveFiles is the origin of the boot files.
func (r *Rack) serveFiles(ctx context.Context) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /kernel", serveKernel)
	mux.HandleFunc("GET /initrd", serveInitrd)
	mux.HandleFunc("GET /image", r.serveDiskImage)
	var err error
	r.origin, err = serve(ctx, r.address(0, 3), mux)
	return err
}

func serve(ctx context.Context, address netip.Addr, handler http.Handler) (*http.Server, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", netip.AddrPortFrom(address, 0).String())
	if err != nil {
		return nil, err
	}
	server := &http.Server{Addr: listener.Addr().String(), Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }() // ends with Close
	return server, nil
}

// countedConn counts the packets that it read.
type countedConn struct {
	net.PacketConn

	read atomic.Int64
}

func (c *countedConn) ReadFrom(b []byte) (int, net.Addr, error) {
	n, from, err := c.PacketConn.ReadFrom(b)
	if err == nil {
		c.read.Add(1)
	}
	return n, from, err
}

// BMCRequests counts the requests to the server's BMC: of Redfish, or packets of IPMI.
func (s *Server) BMCRequests() int {
	if s.packets != nil {
		return int(s.packets.read.Load())
	}
	return s.Requests()
}

// serveIPMI runs the IPMI BMC of a server.
func serveIPMI(ctx context.Context, address netip.Addr, machine *bmctest.Machine) (*countedConn, error) {
	socket, err := (&net.ListenConfig{}).ListenPacket(ctx, "udp4", netip.AddrPortFrom(address, 0).String())
	if err != nil {
		return nil, err
	}
	conn := &countedConn{PacketConn: socket}
	go func() { _ = machine.ServeIPMI(conn) }() //nolint:contextcheck // ends with Close
	return conn, nil
}

// Option changes a server of the rack.
type Option func(*Server)

// Light makes a server whose operating system only reports in, so that many servers cost little.
func Light(s *Server) { s.light = true }

// Add adds a server to the rack, powered off.
func (r *Rack) Add(ctx context.Context, name string, options ...Option) (*Server, error) {
	number := len(r.servers) + 1
	s := &Server{Name: name, MAC: fmt.Sprintf("52:54:00:ca:%02x:%02x", byte(0xfe-number>>8), byte(number))} //nolint:gosec // the halves of the number
	for _, option := range options {
		option(s)
	}
	s.Machine = bmctest.NewMachine(bmctest.Options{
		Name: name, MAC: s.MAC, UUID: fmt.Sprintf("00000000-0000-4000-8000-%012x", number), Username: Username, Password: Password,
		PowerDelay: r.PowerDelay,
		Run:        func(ctx context.Context, boot bmc.BootTarget, booted func()) { r.run(ctx, s, boot, booted) },
	})
	if err := s.newDisk(r); err != nil {
		return nil, err
	}
	address := r.address(byte(2+number>>8), byte(number)) //nolint:gosec // a rack has some thousand servers
	if number%r.IPMIEvery == 0 {
		conn, err := serveIPMI(ctx, address, s.Machine)
		if err != nil {
			return nil, err
		}
		s.bmc, s.packets, s.BMC = conn, conn, "ipmi://"+conn.LocalAddr().String()
	} else {
		web, err := serve(ctx, address, s.Machine)
		if err != nil {
			return nil, err
		}
		s.bmc, s.BMC = web, "redfish+http://"+web.Addr
	}
	r.servers = append(r.servers, s)
	return s, nil
}

func (r *Rack) event(s *Server, what string) {
	if r.Event != nil {
		r.Event(s.Name, what)
	}
}

// run is what a server does from power-on to power-off.
func (r *Rack) run(ctx context.Context, s *Server, device bmc.BootTarget, booted func()) {
	r.event(s, "powered on")
	defer r.event(s, "powered off")
	boot := r.bootDisk
	if device == bmc.BootPXE {
		boot = r.boot
	}
	for {
		err := boot(ctx, s, booted)
		if err != nil && ctx.Err() == nil {
			r.event(s, "failed: "+err.Error())
		}
		if err == nil || r.Persist == 0 || device != bmc.BootPXE || errors.Is(err, errRan) {
			break
		}
		select {
		case <-time.After(3 * time.Second):
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
	}
	<-ctx.Done()
}

// errRan is the error of a boot whose operating system has ended: firmware does not try again after it.
var errRan = errors.New("the operating system ended")

func (r *Rack) boot(ctx context.Context, s *Server, booted func()) error {
	mac, err := net.ParseMAC(s.MAC)
	if err != nil {
		return err
	}
	firmware := &pxetest.Firmware{
		MAC: mac, Arch: iana.EFI_X86_64, DHCPServer: netip.AddrPortFrom(r.address(0, 1), r.ports["dhcp"]), Relay: r.address(0, 2), TFTPPort: r.ports["tftp"],
		Persist: r.Persist,
		Stage:   func(stage string) { r.event(s, stage) },
	}
	system, err := firmware.Boot(ctx)
	if err != nil {
		return err
	}
	s.setAddress(system.Address)
	switch {
	case system.Disk:
		return r.bootDisk(ctx, s, booted)
	case system.Agent != nil:
		return r.runAgent(ctx, s, system, booted)
	default:
		return r.runSystem(ctx, s, system, booted)
	}
}

// runSystem runs the system that was booted for the first time until ctx ends.
func (r *Rack) runSystem(ctx context.Context, s *Server, system *pxetest.System, booted func()) error {
	version, err := r.versionOf(system)
	if err != nil {
		return err
	}
	if r.Seeded != nil {
		r.Seeded(s.Name, system)
	}
	booted()
	if err := r.runNode(ctx, s, system, version); err != nil {
		return fmt.Errorf("%w: %w", errRan, err)
	}
	return nil
}

// runNode makes the system a Node, until ctx ends.
func (r *Rack) runNode(ctx context.Context, s *Server, system *pxetest.System, version string) error {
	if s.light {
		s.install(node.Node{}, system)
		return system.Report(ctx)
	}
	s.mu.Lock()
	s.ran++
	dir := filepath.Join(r.Dir, s.Name, fmt.Sprintf("life-%d", s.ran))
	s.mu.Unlock()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	n := node.Node{Dir: dir, Bin: r.Bin, Version: version, Balanced: r.balancer != nil}
	s.install(n, system)
	ctx, cancel := s.running(ctx)
	defer cancel()
	return n.Run(ctx, system, func(stage string) { r.event(s, stage) })
}
