package plane

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/proc"
)

// The programs of the plane for Restart, Pause and Resume. Restart does not accept Manager: use Crash.
const (
	APIServer = "kube-apiserver"
	Etcd      = "etcd"
	Manager   = "manager"
)

// storeProcess is kube-apiserver or etcd. At first it is a child of envtest, and after Restart a child of the lab.
type storeProcess struct {
	pid     int
	args    []string // with the program
	process *proc.Process
}

func (s *storeProcess) stop() {
	if s.process != nil {
		s.process.Stop()
	}
}

// children returns the running children of this process.
func children() map[int]bool {
	found := map[int]bool{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is well-formed
	for _, path := range stats {
		content, err := os.ReadFile(path) //nolint:gosec // in /proc
		if err != nil {
			continue // it has ended
		}
		// PID (NAME) STATE PPID ...: the name may contain any bytes.
		fields := strings.Fields(string(content[bytes.LastIndexByte(content, ')')+1:]))
		if len(fields) > 1 && fields[1] == strconv.Itoa(os.Getpid()) {
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
				found[pid] = true
			}
		}
	}
	return found
}

// findStore finds the kube-apiserver and etcd that envtest has just started: envtest does not return their process IDs (controller-runtime v0.24; no
// upstream issue found). Delete when it does.
func (p *Plane) findStore(before map[int]bool) {
	p.store = map[string]*storeProcess{}
	for pid := range children() {
		content, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err != nil || before[pid] {
			continue
		}
		args := strings.Split(strings.TrimSuffix(string(content), "\x00"), "\x00")
		if name := filepath.Base(args[0]); name == APIServer || name == Etcd {
			p.store[name] = &storeProcess{pid: pid, args: args}
		}
	}
}

// restartTimeout is long: where other suites run, the API server may be short of the processor while all clients list again.
const restartTimeout = 5 * time.Minute

// Restart ends kube-apiserver or etcd by a signal, and starts it again with the same flags and data.
func (p *Plane) Restart(ctx context.Context, name string, signal syscall.Signal) error {
	s := p.store[name]
	if s == nil {
		return fmt.Errorf("%s is not known", name)
	}
	if err := syscall.Kill(s.pid, signal); err != nil {
		return fmt.Errorf("end %s: %w", name, err)
	}
	if err := gone(ctx, s); err != nil {
		return fmt.Errorf("end %s: %w", name, err)
	}
	var err error
	if s.process, err = proc.Start(ctx, p.opts.Dir, name, nil, s.args[0], s.args[1:]...); err != nil {
		return err
	}
	s.pid = s.process.Pid()
	administrator, err := discovery.NewDiscoveryClientForConfig(p.config)
	if err != nil {
		return err
	}
	return s.process.Wait(ctx, restartTimeout, func(ctx context.Context) error {
		return administrator.RESTClient().Get().AbsPath("/readyz").Timeout(10 * time.Second).Do(ctx).Error()
	})
}

// gone waits until a program has ended.
func gone(ctx context.Context, s *storeProcess) error {
	if s.process != nil {
		select {
		case <-s.process.Done():
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for syscall.Kill(s.pid, 0) == nil { // envtest waits for its children
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Pause stops a program as SIGSTOP does, until Resume.
func (p *Plane) Pause(name string) error { return p.signal(name, syscall.SIGSTOP) }

// Resume lets a paused program continue.
func (p *Plane) Resume(name string) error { return p.signal(name, syscall.SIGCONT) }

func (p *Plane) signal(name string, signal syscall.Signal) error {
	if name == Manager {
		return p.provider.Signal(signal)
	}
	return syscall.Kill(p.store[name].pid, signal)
}

// Crash kills this provider's manager and starts it again at once. It returns when the new process is ready.
func (p *Plane) Crash(ctx context.Context) error {
	p.provider.Kill()
	again, err := p.provider.Again(ctx)
	if err != nil {
		return err
	}
	p.processes, p.provider = append(p.processes, again), again
	return again.Wait(ctx, restartTimeout, proc.Healthy(p.health))
}

// ManagerPid returns the process ID of this provider's manager.
func (p *Plane) ManagerPid() int { return p.provider.Pid() }

// StorePids returns the process IDs of kube-apiserver and etcd.
func (p *Plane) StorePids() (apiServer, etcd int) { return p.store[APIServer].pid, p.store[Etcd].pid }

// Config returns the administrator's access to the API server, without a limit of requests.
func (p *Plane) Config() *rest.Config {
	config := rest.CopyConfig(p.config)
	config.QPS = -1
	return config
}

// Watcher returns a further client of the administrator, which can watch.
func (p *Plane) Watcher() (client.WithWatch, error) {
	return client.NewWithWatch(p.config, client.Options{Scheme: p.Client.Scheme()})
}
