package emulated

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
)

// Options describe a server.
type Options struct {
	// Options are those of its hardware and its BMC. Run is set by the server.
	bmctest.Options

	// BMC is the address of its BMC, which has IPMI or Redfish. Redfish, if not nil, wraps the Redfish BMC.
	BMC     netip.Addr
	IPMI    bool
	Redfish func(http.Handler) http.Handler
	// Serial is the serial number of its disk, and DiskBytes the size. The disk takes no space before it is written. A server without one runs no agent.
	Serial    string
	DiskBytes int64
	// Rate is how many bytes a second an agent's network transfers. Zero is without a limit.
	Rate int
	// Persist is how long the firmware and the operating system repeat a request without an answer. Zero asks once.
	Persist time.Duration
	// RetryDelay is the time from a failed network boot to the next: firmware that has no other boot device does not give up.
	RetryDelay time.Duration
	// ShutdownTime is how long the ramdisk of an agent takes to power the server off, after the agent reported its result.
	ShutdownTime time.Duration
	// Installs, if not nil, is true for a system that was booted over the network and runs from the disk at the next boot. The default is that all do.
	Installs func(*pxetest.System) bool
	// BeforeNetwork and BeforeDisk, if not nil, are called before each boot with that device. They may change the firmware, and they may block.
	BeforeNetwork func(ctx context.Context, firmware *pxetest.Firmware)
	BeforeDisk    func(ctx context.Context) error
	// RunAgent, if not nil, replaces Hardware.RunAgent.
	RunAgent func(ctx context.Context, system *pxetest.System) (agent.Next, error)
	// Run is the operating system. It calls booted when the system accepts shutdown requests. again is true for one that was booted before.
	Run func(ctx context.Context, life *Life, again bool, booted func()) error
	// Event, if not nil, gets the events of the server: a constant of this package, or a stage of its boot. Failed gets its errors.
	Event  func(what string)
	Failed func(err error)
}

// Server is an emulated server.
type Server struct {
	*bmctest.Machine
	// Hardware is what its agents work with; nil for a server without a disk.
	*Hardware

	Name, MAC, UUID string
	// BMC is the address of its BMC, for a host's spec.
	BMC string

	site     *Site
	opts     Options
	bmc      io.Closer
	packets  *countedConn // nil if the BMC has Redfish
	restarts atomic.Bool  // it boots from the network next, without a boot override

	mu        sync.Mutex
	booted    int        // the number of its lives
	installed *Life      // the operating system on the disk; nil for none
	address   netip.Addr // of the last network boot; the operating system on the disk keeps it
}

// Life is an operating system that was booted over the network, or from a disk that an agent wrote.
type Life struct {
	System *pxetest.System
	// Number counts the lives of a server from 1 on.
	Number int
	// Machine is the name that the operating system was given.
	Machine string
	// FromDisk is true for a system that was booted from a disk.
	FromDisk bool

	reported atomic.Bool
}

// Report reports in, as cloud-init's phone_home does.
func (l *Life) Report(ctx context.Context) error {
	err := l.System.Report(ctx)
	if err == nil {
		l.reported.Store(true)
	}
	return err
}

// Reported is true after a report was answered.
func (l *Life) Reported() bool { return l.reported.Load() }

func (l *Life) instance() string { return l.System.MetaData["instance-id"] }

// Add adds a server to the site, powered off.
func (s *Site) Add(ctx context.Context, o Options) (*Server, error) {
	server := &Server{Name: o.Name, MAC: o.MAC, UUID: o.UUID, site: s, opts: o}
	o.Options.Run = server.run
	server.Machine = bmctest.NewMachine(o.Options)
	if o.Serial != "" {
		folder := filepath.Join(s.Dir, o.Name)
		server.Hardware = &Hardware{
			Program: s.Agent, Disk: filepath.Join(folder, o.Serial), Firmware: wire.FirmwareBIOS, Log: filepath.Join(folder, "agent.log"), Rate: o.Rate,
			Identity: agent.Server{SystemUUID: o.UUID, SerialNumber: bmctest.SerialNumber(o.Name)},
		}
		if s.UEFI {
			server.Firmware = wire.FirmwareUEFI
		}
		if err := NewDisk(server.Disk, o.DiskBytes); err != nil {
			return nil, err
		}
	}
	if err := server.listen(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.servers = append(s.servers, server)
	return server, nil
}

// listen starts the BMC.
func (s *Server) listen(ctx context.Context) error {
	if s.opts.IPMI {
		socket, err := (&net.ListenConfig{}).ListenPacket(ctx, "udp4", netip.AddrPortFrom(s.opts.BMC, 0).String())
		if err != nil {
			return err
		}
		s.packets = &countedConn{PacketConn: socket}
		go func() { _ = s.ServeIPMI(s.packets) }() //nolint:contextcheck // ends with Close
		s.bmc, s.BMC = socket, "ipmi://"+socket.LocalAddr().String()
		return nil
	}
	var handler http.Handler = s.Machine
	if s.opts.Redfish != nil {
		handler = s.opts.Redfish(handler)
	}
	web, err := serve(ctx, s.opts.BMC, handler)
	if err != nil {
		return err
	}
	s.bmc, s.BMC = web, "redfish+http://"+web.Addr
	return nil
}

// Objects returns the objects that register the server.
func (s *Server) Objects(namespace string) (*corev1.Secret, *v1alpha1.BareMetalHost) {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: s.Name + "-bmc", Labels: map[string]string{v1alpha1.BMCSecretLabel: ""}},
		StringData: map[string]string{"username": s.opts.Username, "password": s.opts.Password},
	}
	host := &v1alpha1.BareMetalHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: s.Name},
		Spec: v1alpha1.BareMetalHostSpec{
			BMC: v1alpha1.BMC{Address: s.BMC, CredentialsSecretName: secret.Name}, BootMACAddresses: []string{s.MAC},
		},
	}
	if s.Hardware != nil {
		// An agent waits for seconds until no other disk appears, unless a serial number selects the disk.
		host.Spec.Storage = &v1alpha1.HostStorage{RootDevice: &v1alpha1.RootDeviceHints{SerialNumber: s.opts.Serial}}
	}
	return secret, host
}

// Restart restarts the server without a command to its BMC, as a crash of its kernel does. Its disk does not boot, so its firmware boots from the network.
func (s *Server) Restart() {
	s.restarts.Store(true)
	s.SetPower(false)
	s.SetPower(true)
}

// BreakDisk replaces the disk by an empty one.
func (s *Server) BreakDisk() error {
	s.install(nil)
	return NewDisk(s.Disk, s.opts.DiskBytes)
}

// BMCRequests counts the requests to the server's BMC: of Redfish, or packets of IPMI.
func (s *Server) BMCRequests() int {
	if s.packets != nil {
		return int(s.packets.read.Load())
	}
	return s.Requests()
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

var errNoDisk = errors.New("told to boot from a disk that is empty")
