package rack

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"sigs.k8s.io/yaml"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/emulated"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/node"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
)

// Credentials of every BMC of the rack.
const (
	Username = "admin"
	Password = "emulated"
)

// Server is a server whose operating system becomes a Node.
type Server struct {
	*emulated.Server

	rack  *Rack
	light bool
	mu    sync.Mutex
	crash context.CancelFunc // ends the operating system; nil before the first one
}

// Option changes a server of the rack.
type Option func(*Server)

// Light makes a server whose operating system only reports in, so that many servers cost little.
func Light(s *Server) { s.light = true }

// Add adds a server to the rack, powered off.
func (r *Rack) Add(ctx context.Context, name string, options ...Option) (*Server, error) {
	number := len(r.servers) + 1
	s := &Server{rack: r}
	for _, option := range options {
		option(s)
	}
	event := func(what string) {
		if r.Event != nil {
			r.Event(name, what)
		}
	}
	var err error
	s.Server, err = r.Site.Add(ctx, emulated.Options{
		Options: bmctest.Options{
			Name: name, MAC: fmt.Sprintf("52:54:00:ca:%02x:%02x", byte(0xfe-number>>8), byte(number)), //nolint:gosec // the halves of the number
			UUID: fmt.Sprintf("00000000-0000-4000-8000-%012x", number), Username: Username, Password: Password, PowerDelay: r.PowerDelay,
		},
		BMC:    r.Address(byte(2+number>>8), byte(number)), //nolint:gosec // a rack has some thousand servers
		IPMI:   number%r.IPMIEvery == 0,
		Serial: "DISK-" + strings.ToUpper(name), DiskBytes: r.DiskBytes, Rate: r.Rate, Persist: r.Persist, RetryDelay: retryDelay,
		Installs: func(system *pxetest.System) bool { return strings.Contains(system.CommandLine, node.Install) },
		Run: func(ctx context.Context, life *emulated.Life, again bool, booted func()) error {
			return s.run(ctx, life, again, booted, event)
		},
		Event: event, Failed: func(err error) { event("failed: " + err.Error()) },
	})
	if err != nil {
		return nil, err
	}
	r.servers = append(r.servers, s)
	return s, nil
}

// Servers are the servers of the rack.
func (r *Rack) Servers() []*Server { return r.servers }

// run runs an operating system until ctx ends, or until it crashes.
func (s *Server) run(ctx context.Context, life *emulated.Life, again bool, booted func(), event func(string)) error {
	version, err := s.rack.Origin.VersionOf(life.System)
	if err != nil {
		return err
	}
	if !again && s.rack.Seeded != nil {
		s.rack.Seeded(s.Name, life.System)
	}
	booted()
	if again && (!s.light || life.Reported()) {
		event("runs from its disk")
	}
	if s.light {
		if life.Reported() {
			return nil
		}
		return life.Report(ctx) // cloud-init continues with what it had not done
	}
	n := node.Node{Dir: filepath.Join(s.rack.Dir, s.Name, fmt.Sprintf("life-%d", life.Number)), Bin: s.rack.Bin, Version: version, Balanced: s.rack.balancer != nil}
	if err := os.MkdirAll(n.Dir, 0o700); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.mu.Lock()
	s.crash = cancel
	s.mu.Unlock()
	if again {
		return n.RunInstalled(ctx, life.System, event)
	}
	return n.Run(ctx, life.System, event)
}

// Crash ends the operating system of a server as a kernel panic does: the server stays on without a system.
func (s *Server) Crash() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.crash != nil {
		s.crash()
	}
}

// Disk returns what is on the disk of a server: its serial number, whether firmware boots it, and the instance IDs of the bootstrap data anywhere on it.
func (s *Server) Disk() (serial string, bootable bool, instances []string, err error) {
	instances, err = s.Instances()
	if err == nil {
		bootable, err = s.Bootable()
	}
	return filepath.Base(s.Hardware.Disk), bootable, instances, err
}

// HostYAML returns the manifests that register a server.
func (s *Server) HostYAML(namespace string) string {
	secret, host := s.Objects(namespace)
	secret.APIVersion, secret.Kind = "v1", "Secret"
	host.APIVersion, host.Kind = "infrastructure.cluster.x-k8s.io/v1alpha1", "BareMetalHost"
	var out strings.Builder
	for _, o := range []any{secret, host} {
		content, err := yaml.Marshal(o)
		if err != nil {
			panic(err) // types of the API
		}
		out.WriteString("---\n" + string(content))
	}
	return out.String()
}
