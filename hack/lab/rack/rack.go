// Package rack holds emulated servers on a provisioning network of loopback addresses: each has a Redfish or an IPMI BMC, firmware that
// really boots over the network, and an operating system that really becomes a node.
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
	"slices"
	"sync"
	"time"

	"github.com/insomniacslk/dhcp/iana"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/node"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/proc"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
)

// Credentials of every BMC of the rack.
const (
	Username = "admin"
	Password = "emulated"
)

// files are what the servers boot. The firmware checks what it gets and runs none of it.
var files = map[string]string{"/kernel": "an emulated kernel", "/initrd": "an emulated initrd"}

// Rack is a rack of emulated servers.
type Rack struct {
	Dir, Bin string
	// Event, where not nil, is told what a server does: "powered on", a stage of its boot, "powered off", or what went wrong.
	Event func(server, what string)

	network [2]byte
	ports   map[string]uint16
	etcd    *etcd
	origin  *http.Server
	servers []*Server
}

// Server is an emulated server.
type Server struct {
	*bmctest.Machine
	Name, MAC string
	// BMC is the address of its BMC, for a host's spec.
	BMC string

	bmc io.Closer
	mu  sync.Mutex
	ran int
}

// New makes a rack without servers: its network, the origin of the boot files, and the etcd of the clusters to come.
func New(ctx context.Context, dir, bin string, event func(server, what string)) (*Rack, error) {
	// Labs that run at once have networks of their own.
	r := &Rack{Dir: dir, Bin: bin, Event: event, network: [2]byte{127, byte(64 + os.Getpid()%128)}, ports: map[string]uint16{}}
	for _, name := range []string{"dhcp", "tftp", "http", "etcd", "etcd-peer", "api"} {
		port, err := proc.FreePort(r.address(0, 1))
		if err != nil {
			return r, err
		}
		r.ports[name] = port
	}
	loaders := filepath.Join(dir, "loaders")
	if err := os.MkdirAll(loaders, 0o700); err != nil {
		return r, err
	}
	// The firmware is emulated, and so is the boot loader: it is fetched and not run.
	if err := os.WriteFile(filepath.Join(loaders, "snponly.efi"), []byte("an emulated boot loader"), 0o600); err != nil {
		return r, err
	}
	if err := r.serveFiles(ctx); err != nil {
		return r, err
	}
	var err error
	r.etcd, err = startEtcd(ctx, r)
	return r, err
}

// Close switches every server off.
func (r *Rack) Close() {
	for _, s := range r.servers {
		_ = s.bmc.Close()
		s.Close()
	}
	if r.origin != nil {
		_ = r.origin.Close()
	}
	if r.etcd != nil {
		r.etcd.process.Stop()
	}
}

func (r *Rack) address(c, d byte) netip.Addr {
	return netip.AddrFrom4([4]byte{r.network[0], r.network[1], c, d})
}

// Endpoint is where the cluster's API server is to be.
func (r *Rack) Endpoint() (host string, port uint16) {
	return r.address(0, 10).String(), r.ports["api"]
}

// ManagerArgs are the flags of a manager whose boot server serves the rack.
func (r *Rack) ManagerArgs() []string {
	return []string{
		"--boot-address=" + r.address(0, 1).String(), fmt.Sprintf("--boot-http-port=%d", r.ports["http"]),
		"--dhcp-mode=authoritative", "--dhcp-network=" + r.address(0, 0).String() + "/16",
		fmt.Sprintf("--dhcp-range=%s-%s", r.address(1, 1), r.address(1, 250)),
		fmt.Sprintf("--dhcp-port=%d", r.ports["dhcp"]), fmt.Sprintf("--tftp-port=%d", r.ports["tftp"]),
		"--loader-dir=" + filepath.Join(r.Dir, "loaders"), "--artifact-dir=" + filepath.Join(r.Dir, "artifacts"),
		"--artifact-allow-network=127.0.0.0/8", "--bmc-allow-network=127.0.0.0/8", "--boot-timeout=5m", "--power-active-interval=1s", "--power-poll-interval=5s",
	}
}

// OtherManagerArgs are the flags of a second manager, whose boot server stands on the network too and serves nobody.
func (r *Rack) OtherManagerArgs() []string {
	args := slices.Clone(r.ManagerArgs())
	args[0] = "--boot-address=" + r.address(0, 4).String()
	return args
}

// Servers are the servers of the rack.
func (r *Rack) Servers() []*Server { return r.servers }

// TemplateVariables are those of the cluster template "lab".
func (r *Rack) TemplateVariables() []string {
	host, port := r.Endpoint()
	vars := []string{
		"CONTROL_PLANE_ENDPOINT_HOST=" + host, fmt.Sprintf("CONTROL_PLANE_ENDPOINT_PORT=%d", port),
		"BOOT_PERSISTENCE=Ephemeral", "ETCD_ENDPOINT=" + r.etcd.endpoint,
	}
	for name, path := range map[string]string{"KERNEL": "/kernel", "INITRD": "/initrd"} {
		vars = append(vars, name+"_URL=http://"+r.origin.Addr+path, name+"_CHECKSUM=sha256:"+sum(files[path]))
	}
	return vars
}

func sum(content string) string {
	s := sha256.Sum256([]byte(content))
	return hex.EncodeToString(s[:])
}

// serveFiles is the origin of the boot files.
func (r *Rack) serveFiles(ctx context.Context) error {
	mux := http.NewServeMux()
	for path, content := range files {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(content)) })
	}
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

// serveIPMI runs the IPMI BMC of a server.
func serveIPMI(ctx context.Context, address netip.Addr, machine *bmctest.Machine) (net.PacketConn, error) {
	conn, err := (&net.ListenConfig{}).ListenPacket(ctx, "udp4", netip.AddrPortFrom(address, 0).String())
	if err != nil {
		return nil, err
	}
	go func() { _ = machine.ServeIPMI(conn) }() //nolint:contextcheck // ends with Close
	return conn, nil
}

// Add puts a server into the rack, switched off. Every third one has a BMC that speaks IPMI, the others speak Redfish.
func (r *Rack) Add(ctx context.Context, name string) (*Server, error) {
	number := byte(len(r.servers) + 1) //nolint:gosec // a lab has a handful of servers
	s := &Server{Name: name, MAC: fmt.Sprintf("52:54:00:ca:fe:%02x", number)}
	s.Machine = bmctest.NewMachine(bmctest.Options{
		Name: name, MAC: s.MAC, UUID: fmt.Sprintf("00000000-0000-4000-8000-%012x", number), Username: Username, Password: Password,
		PowerDelay: time.Second,
		Run:        func(ctx context.Context, boot bmc.BootTarget, booted func()) { r.run(ctx, s, boot, booted) },
	})
	if number%3 == 0 {
		conn, err := serveIPMI(ctx, r.address(2, number), s.Machine)
		if err != nil {
			return nil, err
		}
		s.bmc, s.BMC = conn, "ipmi://"+conn.LocalAddr().String()
	} else {
		web, err := serve(ctx, r.address(2, number), s.Machine)
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

// run plays a server from power-on to power-off.
func (r *Rack) run(ctx context.Context, s *Server, device bmc.BootTarget, booted func()) {
	r.event(s, "powered on")
	defer r.event(s, "powered off")
	if device == bmc.BootPXE {
		if err := r.boot(ctx, s, booted); err != nil && ctx.Err() == nil {
			r.event(s, "failed: "+err.Error())
		}
	}
	<-ctx.Done()
}

func (r *Rack) boot(ctx context.Context, s *Server, booted func()) error {
	mac, err := net.ParseMAC(s.MAC)
	if err != nil {
		return err
	}
	firmware := &pxetest.Firmware{
		MAC: mac, Arch: iana.EFI_X86_64, DHCPServer: netip.AddrPortFrom(r.address(0, 1), r.ports["dhcp"]), Relay: r.address(0, 2), TFTPPort: r.ports["tftp"],
		Stage: func(stage string) { r.event(s, stage) },
	}
	system, err := firmware.Boot(ctx)
	if err != nil {
		return err
	}
	if system.Disk {
		return errors.New("told to boot from a disk that is empty")
	}
	if len(system.Files) != 2 || system.Files[0] != sum(files["/kernel"]) || system.Files[1] != sum(files["/initrd"]) {
		return fmt.Errorf("the kernel or the initrd is not what it should be: %v", system.Files)
	}
	booted()
	s.mu.Lock()
	s.ran++
	dir := filepath.Join(r.Dir, s.Name, fmt.Sprintf("life-%d", s.ran))
	s.mu.Unlock()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return (&node.Node{Dir: dir, Bin: r.Bin}).Run(ctx, system, func(stage string) { r.event(s, stage) })
}
