package rack

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"sigs.k8s.io/yaml"

	"github.com/capbm-io/cluster-api-provider-baremetal/hack/emulated"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/node"
)

// Credentials of every BMC of the rack.
const (
	Username = "admin"
	Password = "emulated"
)

// Server is a server whose operating system becomes a Node.
type Server struct {
	*emulated.Server

	rack   *Rack
	light  bool
	labels map[string]string // of its host
	mu     sync.Mutex
	crash  context.CancelFunc // ends the operating system; nil before the first one
}

// Option changes a server of the rack.
type Option func(*Server)

// Light makes a server whose operating system only reports in, so that many servers cost little.
func Light(s *Server) { s.light = true }

// Labels makes a server whose host has labels from its registration on.
func Labels(labels map[string]string) Option { return func(s *Server) { s.labels = labels } }

// Add adds a server to the rack, powered off. It may be called concurrently.
func (r *Rack) Add(ctx context.Context, name string, options ...Option) (*Server, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
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
	o := r.Options
	o.Name, o.MAC = name, fmt.Sprintf("52:54:00:ca:%02x:%02x", byte(0xfe-number>>8), byte(number)) //nolint:gosec // the halves of the number
	o.UUID, o.Serial = fmt.Sprintf("00000000-0000-4000-8000-%012x", number), "DISK-"+strings.ToUpper(name)
	o.BMC, o.IPMI = r.Address(byte(2+number>>8), byte(number)), number%r.IPMIEvery == 0 //nolint:gosec // a rack has some thousand servers
	o.Event, o.Failed = event, func(err error) { event("failed: " + err.Error()) }
	o.Run = func(ctx context.Context, life *emulated.Life, again bool, booted func()) error {
		return s.run(ctx, life, again, booted, event)
	}
	var err error
	s.Server, err = r.Site.Add(ctx, o)
	if err != nil {
		return nil, err
	}
	r.servers = append(r.servers, s)
	return s, nil
}

// Servers are the servers of the rack.
func (r *Rack) Servers() []*Server {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.servers)
}

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
	dir := filepath.Join(s.rack.Dir, s.Name, fmt.Sprintf("life-%d", life.Number))
	n := node.Node{Dir: dir, Bin: s.rack.Bin, Version: version, Balancer: s.rack.balancer, Extras: s.rack.Extras}
	if err := os.MkdirAll(dir, 0o700); err != nil {
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
	host.APIVersion, host.Kind, host.Labels = "infrastructure.cluster.x-k8s.io/v1alpha1", "BareMetalHost", s.labels
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
