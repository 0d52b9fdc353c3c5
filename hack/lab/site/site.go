// Package site is a rack of emulated servers with the management planes that are started for it. The demo and the suites of hack/contract use it.
package site

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/config/provider"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/emulated"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/plane"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/proc"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/rack"
)

// The default names of the objects of a lab.
const (
	Namespace         = "default"
	ClusterName       = "demo"
	KubernetesVersion = "v1.36.3"
)

// Lab is a rack, and what is needed to start management planes for it.
type Lab struct {
	// Root is the project's folder, Bin the folder with the programs, Dir the lab's own folder.
	Root, Bin, Dir string
	// Repository is the repository that clusterctl installs from.
	Repository *plane.Repository
	// Rack holds the servers.
	Rack *rack.Rack
	// Log takes messages about the progress.
	Log func(format string, args ...any)
}

// New makes a lab below the project's folder of built files. Close it, also after an error. event, if not nil, gets the events of servers.
func New(ctx context.Context, root string, log func(format string, args ...any), event func(server, what string)) (*Lab, error) {
	l := &Lab{Root: root, Bin: filepath.Join(root, ".cache", "bin"), Log: log}
	base := filepath.Join(root, ".cache", "lab")
	if err := os.MkdirAll(base, 0o700); err != nil {
		return l, err
	}
	var err error
	if l.Dir, err = os.MkdirTemp(base, "run-"); err != nil {
		return l, err
	}
	log("building the manager and the agent (a minute or two with an empty Go cache)")
	// With the same settings as for the image, so that Go compiles each package once for both. The linker writes no symbols, as for the image: nobody debugs a manager of the lab.
	if _, err := proc.Run(ctx, []string{"CGO_ENABLED=0"}, "go", "-C", root, "build", "-trimpath", "-ldflags=-s -w", "-o", l.Manager(), "./cmd/manager"); err != nil {
		return l, err
	}
	if err := emulated.Build(ctx, root, l.agent()); err != nil {
		return l, err
	}
	if l.Repository, err = plane.NewRepository(ctx, root, l.Bin, filepath.Join(l.Dir, "repository")); err != nil {
		return l, fmt.Errorf("make the repository for clusterctl: %w", err)
	}
	l.Rack, err = rack.New(ctx, l.Dir, l.Bin, event)
	l.Rack.Agent = l.agent()
	return l, err
}

// agent is the path of the agent's program.
func (l *Lab) agent() string { return filepath.Join(l.Dir, "agent") }

// Manager is the path of this project's manager. Each lab has its own, since labs of several checkouts may run at once.
func (l *Lab) Manager() string { return filepath.Join(l.Dir, "manager") }

// Close ends the rack and removes the lab's folder, unless keepLogs.
func (l *Lab) Close(keepLogs bool) error {
	if l.Rack != nil {
		l.Rack.Close()
	}
	if keepLogs || l.Dir == "" {
		return nil
	}
	return os.RemoveAll(l.Dir)
}

// StartPlane starts a management plane. change may change its options. Stop the plane, also after an error.
func (l *Lab) StartPlane(ctx context.Context, name string, managerArgs []string, change ...func(*plane.Options)) (*plane.Plane, error) {
	opts := plane.Options{
		Dir: filepath.Join(l.Dir, name), Bin: l.Bin, Manager: l.Manager(), Repository: l.Repository, ManagerArgs: managerArgs, Log: l.Log,
	}
	for _, f := range change {
		f(&opts)
	}
	return plane.Start(ctx, opts)
}

// Register adds servers to the rack, and registers them as hosts.
func (l *Lab) Register(ctx context.Context, p *plane.Plane, servers ...string) error {
	return l.RegisterIn(ctx, p, Namespace, servers...)
}

// RegisterIn is Register in another namespace. No two servers of a rack have the same name.
func (l *Lab) RegisterIn(ctx context.Context, p *plane.Plane, namespace string, servers ...string) error {
	var yaml strings.Builder
	for _, name := range servers {
		s, err := l.Rack.Add(ctx, name)
		if err != nil {
			return err
		}
		yaml.WriteString(s.HostYAML(namespace))
	}
	return p.Apply(ctx, yaml.String())
}

// Cluster describes a cluster to create. Fields have the defaults of the demo.
type Cluster struct {
	// Name and Namespace are those of the Cluster; ClusterName and Namespace by default.
	Name, Namespace string
	// Flavor is the flavour of the cluster template; "lab" by default.
	Flavor string
	// ControlPlanes and Workers are numbers of machines. The default of ControlPlanes is 1.
	ControlPlanes, Workers int
	// Version is the version of Kubernetes; KubernetesVersion by default.
	Version string
	// StackedEtcd is true for a cluster whose control plane servers run etcd. Others use the rack's etcd.
	StackedEtcd bool
	// Variables are further variables of the template, as NAME=value.
	Variables []string
}

// CreateCluster applies what `clusterctl generate cluster` writes. The cluster has the rack's Endpoint, unless Variables have another one.
func (l *Lab) CreateCluster(ctx context.Context, p *plane.Plane, c Cluster) error {
	c.Name, c.Namespace = cmp.Or(c.Name, ClusterName), cmp.Or(c.Namespace, Namespace)
	if !c.StackedEtcd {
		if err := create(ctx, p.Client, l.Rack.EtcdSecrets(c.Namespace, c.Name)); err != nil {
			return err
		}
	}
	variables, err := l.Rack.TemplateVariables()
	if err != nil {
		return err
	}
	for _, v := range append(variables, c.Variables...) {
		name, value, _ := strings.Cut(v, "=")
		if err := os.Setenv(name, value); err != nil { // clusterctl reads them
			return err
		}
	}
	yaml, err := p.Clusterctl(ctx, "generate", "cluster", c.Name, "--infrastructure", provider.Name, "--flavor", cmp.Or(c.Flavor, "lab"),
		"--target-namespace", c.Namespace, "--kubernetes-version", cmp.Or(c.Version, KubernetesVersion),
		"--control-plane-machine-count", strconv.Itoa(max(c.ControlPlanes, 1)), "--worker-machine-count", strconv.Itoa(c.Workers))
	if err != nil {
		return err
	}
	return p.Apply(ctx, yaml)
}

// Until waits until a check is nil, and returns its last error after the timeout.
func Until(ctx context.Context, timeout time.Duration, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}
