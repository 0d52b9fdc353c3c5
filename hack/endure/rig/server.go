package rig

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/imaging"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
)

// ServerOptions describe a server.
type ServerOptions struct {
	// Sessions lets the provider log in with Redfish sessions.
	Sessions bool
	// PowerDelay is how long a change of power takes. Defaults to 20 ms.
	PowerDelay time.Duration
	// Node registers a Node after the operating system reported in.
	Node bool
	// Boot, if not nil, is called before each network boot with the firmware. It may change the firmware, and it may block.
	Boot func(ctx context.Context, firmware *pxetest.Firmware)
	// Run, if not nil, is the operating system. Without it the operating system reports in, which Life.Report does.
	Run func(ctx context.Context, life *Life)
	// Disk gives the server a disk for an image, and lets it run the agent.
	Disk bool
	// Point, if not nil, is called before each request of an agent goes to the boot server, and before the server boots its disk. It may block. The connection fails
	// if it returns an error.
	Point func(ctx context.Context, point string) error
	// Emulated changes what is emulated.
	Emulated func(*bmctest.Options)
}

// Server is an emulated server, and the objects that register it.
type Server struct {
	*bmctest.Machine
	Name, MAC, UUID string
	Host            *v1alpha1.BareMetalHost
	Secret          *corev1.Secret

	site    *Site
	opts    ServerOptions
	machine *imaging.Machine // runs the agent; nil without a disk
	disk    sync.Mutex       // held while something uses the disk

	agentVersion atomic.Int64 // that its agents report; 0 for their own
	purges       atomic.Bool  // its disks can be purged
	unverified   atomic.Bool  // its agents report erased disks whose verification did not pass
	restarts     atomic.Bool  // it boots from the network next, without a boot override

	mu           sync.Mutex
	ons, offs    int
	errs         []string
	lives        []*Life
	installed    *Life // the operating system that was booted last, which is on the disk
	address      netip.Addr
	dataOffsets  []int64
	torn         []string
	logins       int
	mostSessions int
}

// Life is an operating system that was booted over the network, or from a disk that an agent wrote.
type Life struct {
	System *pxetest.System
	// Machine is the name that the operating system was given.
	Machine string
	At      time.Time
	// FromDisk is true for a system that was booted from a disk.
	FromDisk bool

	server   *Server
	mu       sync.Mutex
	reported bool
}

// bootServerTimeout is how long a server retries a boot server that does not answer.
const bootServerTimeout = time.Minute

// Server adds a server to the site, powered off. It creates nothing in the API server: Register does.
func (s *Site) Server(t *testing.T, name string, opts ServerOptions) *Server {
	t.Helper()
	number := byte(len(s.Servers()) + 1) //nolint:gosec // a site has a handful of servers
	server := &Server{Name: name, MAC: s.mac(number), UUID: s.uuid(number), site: s, opts: opts}
	emulated := bmctest.Options{
		Name: name, MAC: server.MAC, UUID: server.UUID, Username: controllerstest.Username, Password: controllerstest.Password,
		PowerDelay: max(opts.PowerDelay, 20*time.Millisecond), Run: server.run,
	}
	if opts.Emulated != nil {
		opts.Emulated(&emulated)
	}
	if opts.Disk {
		server.addDisk(t)
	}
	server.Machine = bmctest.NewMachine(emulated)
	web := httptest.NewServer(http.HandlerFunc(server.serveBMC))
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
		server.Close()
	})
	address := strings.Replace(web.URL, "http://", "redfish+http://", 1)
	if opts.Sessions {
		address += "?auth=session"
	}
	server.Secret = &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name + "-bmc", Labels: map[string]string{v1alpha1.BMCSecretLabel: ""}},
		StringData: map[string]string{"username": controllerstest.Username, "password": controllerstest.Password},
	}
	server.Host = &v1alpha1.BareMetalHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name},
		Spec: v1alpha1.BareMetalHostSpec{
			BMC: v1alpha1.BMC{Address: address, CredentialsSecretName: name + "-bmc"}, BootMACAddress: server.MAC,
		},
	}
	if opts.Disk {
		// An agent waits for seconds until no other disk appears, unless a serial number selects the disk.
		server.Host.Spec.Storage = &v1alpha1.HostStorage{RootDevice: &v1alpha1.RootDeviceHints{SerialNumber: filepath.Base(server.machine.Disk)}}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.servers = append(s.servers, server)
	return server
}

// Register creates the server's objects.
func (s *Server) Register(t *testing.T) *Server {
	t.Helper()
	s.site.Env.Create(t, s.Secret, s.Host)
	return s
}

// serveBMC serves the BMC, and counts its sessions.
func (s *Server) serveBMC(w http.ResponseWriter, r *http.Request) {
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if r.Method == http.MethodPost && strings.HasSuffix(strings.TrimSuffix(r.URL.Path, "/"), "/Sessions") {
			s.logins++
		}
		s.mostSessions = max(s.mostSessions, s.Sessions())
	}()
	s.ServeHTTP(w, r)
}

// Logins returns the number of logins that asked for a session, and the maximum number of sessions that were open at once.
func (s *Server) Logins() (logins, mostSessions int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logins, s.mostSessions
}

// Switched counts how often the server was switched on and off, by the provider or by a test.
func (s *Server) Switched() (ons, offs int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ons, s.offs
}

// Lives are the operating systems that the server booted, oldest first.
func (s *Server) Lives() []*Life {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.lives)
}

// Last is the last of Lives, or nil.
func (s *Server) Last() *Life {
	lives := s.Lives()
	if len(lives) == 0 {
		return nil
	}
	return lives[len(lives)-1]
}

// Errors are the errors of boots over the network.
func (s *Server) Errors() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.errs)
}

// run is what the server does from power-on to power-off.
func (s *Server) run(ctx context.Context, device bmc.BootTarget, booted func()) {
	s.count(&s.ons)
	defer s.count(&s.offs)
	defer func() { <-ctx.Done() }()
	network := s.restarts.Swap(false) || overNetwork(device)
	for ctx.Err() == nil {
		var system *pxetest.System
		if network {
			system = s.bootNetwork(ctx)
		}
		switch {
		case ctx.Err() != nil:
		case system == nil || system.Disk:
			s.resume(ctx, s.bootDisk(ctx), booted)
			return
		case system.Agent == nil:
			booted()
			s.live(ctx, s.begin(&Life{System: system, Machine: system.MetaData["hostname"], At: time.Now(), server: s}))
			return
		case !s.obey(ctx, system):
			return
		}
		network = overNetwork(s.Override().Target) // of a restart
	}
}

// Restart restarts the server without a command to its BMC, as a crash of its kernel does. Its disk does not boot, so its firmware boots from the network.
func (s *Server) Restart() {
	s.restarts.Store(true)
	s.SetPower(false)
	s.SetPower(true)
}

func overNetwork(device bmc.BootTarget) bool { return device == bmc.BootPXE || device == bmc.BootHTTP }

// obey runs the agent that was booted, and does what it says at its end. It returns true if the server restarts.
func (s *Server) obey(ctx context.Context, system *pxetest.System) bool {
	next, err := s.runAgent(ctx, system)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		s.note(ctx, err)
		s.SetPower(false) //nolint:contextcheck // the server continues after the agent
	case next == agent.PowerOff:
		s.SetPower(false) //nolint:contextcheck // the server continues after the agent
	default:
		return next == agent.Reboot
	}
	return false
}

// resume runs the operating system on the disk.
func (s *Server) resume(ctx context.Context, life *Life, booted func()) {
	if life == nil {
		return
	}
	booted()
	if !life.Reported() { // cloud-init continues with what it had not done
		s.live(ctx, life)
		return
	}
	if s.opts.Node {
		s.note(ctx, s.site.register(ctx, life))
	}
}

func (s *Server) count(what *int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*what++
}

// note records an error, unless the server has been switched off.
func (s *Server) note(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		if text := err.Error(); len(s.errs) == 0 || s.errs[len(s.errs)-1] != text {
			s.errs = append(s.errs, text)
		}
	}
}

// bootNetwork boots over the network, and tries again until a system was booted, as firmware does that has no other boot device. It returns nil when the
// server is switched off before.
func (s *Server) bootNetwork(ctx context.Context) *pxetest.System {
	mac, err := net.ParseMAC(s.MAC)
	if err != nil {
		panic(err) // a bug of the rig
	}
	for ctx.Err() == nil {
		firmware := &pxetest.Firmware{
			MAC: mac, DHCPServer: netip.AddrPortFrom(s.site.address(1), s.site.ports.dhcp), Relay: s.site.address(2), TFTPPort: s.site.ports.tftp, Persist: bootServerTimeout,
		}
		if s.opts.Boot != nil {
			s.opts.Boot(ctx, firmware)
		}
		system, err := firmware.Boot(ctx)
		if err == nil {
			s.mu.Lock()
			s.address = system.Address
			s.mu.Unlock()
			return system
		}
		s.note(ctx, err)
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	return nil
}

// live runs the operating system.
func (s *Server) live(ctx context.Context, life *Life) {
	if s.opts.Run != nil {
		s.opts.Run(ctx, life)
		return
	}
	if err := life.Report(ctx); err != nil {
		s.note(ctx, err)
		return
	}
	if s.opts.Node {
		s.note(ctx, s.site.register(ctx, life))
	}
}

// Report reports in, as cloud-init's phone_home does.
func (l *Life) Report(ctx context.Context) error {
	err := l.System.Report(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reported = l.reported || err == nil
	return err
}

// Reported is true after a report was answered.
func (l *Life) Reported() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reported
}

// Register creates the Node of the system, or renews its heartbeat.
func (l *Life) Register(ctx context.Context) error { return l.server.site.register(ctx, l) }
