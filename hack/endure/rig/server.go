package rig

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/emulated"
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
	// Point, if not nil, is called before each request of an agent goes to the boot server, and before the server boots its disk. It may block. The
	// request or the boot fails if it returns an error.
	Point func(ctx context.Context, point string) error
	// Emulated changes what is emulated.
	Emulated func(*bmctest.Options)
}

// Server is an emulated server, and the objects that register it.
type Server struct {
	*emulated.Server

	Host   *v1alpha1.BareMetalHost
	Secret *corev1.Secret

	site *Site
	opts ServerOptions
	disk sync.Mutex // held while an agent or a test uses the disk

	agentVersion atomic.Int64 // that its agents report; 0 for their own
	purges       atomic.Bool  // its disks can be purged
	unverified   atomic.Bool  // its agents report erased disks whose verification did not pass

	mu           sync.Mutex
	ons, offs    int
	errs         []string
	failures     int
	lives        []*Life
	dataOffsets  []int64
	torn         []string
	logins       int
	mostSessions int
}

// Life is an operating system that was booted.
type Life = emulated.Life

// How long a server retries a boot server that does not answer, and the time from a failed network boot to the next.
const (
	bootServerTimeout = time.Minute
	retryDelay        = 100 * time.Millisecond
)

// Server adds a server to the site, powered off. It creates nothing in the API server: Register does.
func (s *Site) Server(t *testing.T, name string, opts ServerOptions) *Server {
	t.Helper()
	g := NewWithT(t)
	number := byte(len(s.Servers()) + 1) //nolint:gosec // a site has a handful of servers
	server := &Server{site: s, opts: opts}
	options := emulated.Options{
		Options: bmctest.Options{
			Name: name, MAC: s.mac(number), UUID: s.uuid(number), Username: controllerstest.Username, Password: controllerstest.Password,
			PowerDelay: max(opts.PowerDelay, 20*time.Millisecond),
		},
		BMC: s.emulated.Address(4), Redfish: server.countSessions, Persist: bootServerTimeout, RetryDelay: retryDelay,
		BeforeNetwork: opts.Boot, BeforeDisk: func(ctx context.Context) error { return server.pass(ctx, DiskPoint) },
		RunAgent: server.runAgent, Run: server.run, Event: server.count, Failed: server.note,
	}
	if opts.Emulated != nil {
		opts.Emulated(&options.Options)
	}
	var err error
	if opts.Disk {
		options.Serial, options.DiskBytes = "DISK-"+name, diskSize
		s.emulated.Agent, err = buildAgent()
		g.Expect(err).NotTo(HaveOccurred())
	}
	server.Server, err = s.emulated.Add(t.Context(), options)
	g.Expect(err).NotTo(HaveOccurred())
	if opts.Disk {
		server.More = []string{server.diskFile(SecondDisk), server.diskFile(ThirdDisk)}
	}
	if opts.Sessions {
		server.BMC += "?auth=session"
	}
	server.Secret, server.Host = server.Objects(s.Namespace)
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

// countSessions counts the sessions of the BMC.
func (s *Server) countSessions(bmc http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if r.Method == http.MethodPost && strings.HasSuffix(strings.TrimSuffix(r.URL.Path, "/"), "/Sessions") {
				s.logins++
			}
			s.mostSessions = max(s.mostSessions, s.Sessions())
		}()
		bmc.ServeHTTP(w, r)
	})
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

// Failures returns how many boots of the server failed by themselves: nothing was booted, or what was booted ended with an error.
func (s *Server) Failures() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failures
}

// run runs an operating system.
func (s *Server) run(ctx context.Context, life *Life, again bool, booted func()) error {
	booted()
	if !again {
		s.mu.Lock()
		s.lives = append(s.lives, life)
		s.mu.Unlock()
	}
	if !life.Reported() { // a system that is booted again continues with what it had not done
		if s.opts.Run != nil {
			s.opts.Run(ctx, life)
			return nil
		}
		if err := life.Report(ctx); err != nil {
			return err
		}
	}
	if s.opts.Node {
		return s.site.register(ctx, life)
	}
	return nil
}

// count counts the power changes.
func (s *Server) count(event string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch event {
	case emulated.PoweredOn:
		s.ons++
	case emulated.PoweredOff:
		s.offs++
	}
}

// note records an error.
func (s *Server) note(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures++
	if text := err.Error(); len(s.errs) == 0 || s.errs[len(s.errs)-1] != text {
		s.errs = append(s.errs, text)
	}
}
