package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/plane"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/proc"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/rack"
)

const (
	namespace         = "default"
	clusterName       = "demo"
	kubernetesVersion = "v1.36.3"
)

// lab is a rack, and what is needed to start management planes for it.
type lab struct {
	root, bin, dir string
	repository     *plane.Repository
	rack           *rack.Rack
	log            func(format string, args ...any)
}

// newLab makes a lab below the project's folder of built things. Close it, also after an error.
func newLab(ctx context.Context, root string, log func(format string, args ...any), event func(server, what string)) (*lab, error) {
	l := &lab{root: root, bin: filepath.Join(root, ".cache", "bin"), log: log}
	base := filepath.Join(root, ".cache", "lab")
	if err := os.MkdirAll(base, 0o700); err != nil {
		return l, err
	}
	var err error
	if l.dir, err = os.MkdirTemp(base, "run-"); err != nil {
		return l, err
	}
	log("building the manager (a minute or two with an empty Go cache)")
	if _, err := proc.Run(ctx, []string{"CGO_ENABLED=0"}, "go", "-C", root, "build", "-o", filepath.Join(l.bin, "manager"), "./cmd/manager"); err != nil {
		return l, err
	}
	if l.repository, err = plane.NewRepository(ctx, root, l.bin, filepath.Join(l.dir, "repository")); err != nil {
		return l, fmt.Errorf("make the repository for clusterctl: %w", err)
	}
	l.rack, err = rack.New(ctx, l.dir, l.bin, event)
	return l, err
}

// close ends the rack and removes the lab's folder, unless keepLogs.
func (l *lab) close(keepLogs bool) error {
	if l.rack != nil {
		l.rack.Close()
	}
	if keepLogs || l.dir == "" {
		return nil
	}
	return os.RemoveAll(l.dir)
}

// startPlane starts a management plane. Stop it, also after an error.
func (l *lab) startPlane(ctx context.Context, name string, managerArgs []string) (*plane.Plane, error) {
	return plane.Start(ctx, plane.Options{
		Dir: filepath.Join(l.dir, name), Bin: l.bin, Repository: l.repository, ManagerArgs: managerArgs, Log: l.log,
	})
}

// register registers servers as hosts.
func (l *lab) register(ctx context.Context, p *plane.Plane, servers ...string) error {
	var yaml strings.Builder
	for _, name := range servers {
		s, err := l.rack.Add(ctx, name)
		if err != nil {
			return err
		}
		yaml.WriteString(s.HostYAML(namespace))
	}
	return p.Apply(ctx, yaml.String())
}

// createCluster applies what `clusterctl generate cluster` writes.
func (l *lab) createCluster(ctx context.Context, p *plane.Plane, workers int) error {
	secrets, err := l.rack.EtcdSecrets(namespace, clusterName)
	if err != nil {
		return err
	}
	for _, v := range l.rack.TemplateVariables() {
		name, value, _ := strings.Cut(v, "=")
		if err := os.Setenv(name, value); err != nil { // clusterctl reads them
			return err
		}
	}
	yaml, err := p.Clusterctl(ctx, "generate", "cluster", clusterName, "--infrastructure", "baremetal", "--flavor", "lab", "--target-namespace", namespace,
		"--kubernetes-version", kubernetesVersion, "--control-plane-machine-count", "1", "--worker-machine-count", strconv.Itoa(workers))
	if err != nil {
		return err
	}
	return p.Apply(ctx, secrets+"---\n"+yaml)
}

// until waits until check is nil, and returns its last error when it takes longer than patience.
func until(ctx context.Context, patience time.Duration, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
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
