package peertest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// program is a program to run.
type program struct {
	path string
	args []string
	// home is a folder of its own, where it logs and keeps its files.
	home string
	// env is its whole environment, beside HOME and PATH: what is set on this machine, such as proxies, is none of its business.
	env []string
	// user is whom it runs as; nil is whoever runs the tests.
	user *syscall.Credential
}

// process is a running peer.
type process struct {
	name string
	log  string
	pid  int
	done chan struct{}
	err  error // how it ended; to be read after done
}

// start runs a program until the end of the test. When the test has failed its log is shown.
func start(tb testing.TB, p program) *process {
	tb.Helper()
	name := filepath.Base(p.path)
	if len(p.args) > 0 && strings.HasPrefix(name, "python") {
		name = filepath.Base(p.args[0])
	}
	running := &process{name: name, log: filepath.Join(p.home, name+".log"), done: make(chan struct{})}
	log, err := os.Create(running.log)
	if err != nil {
		tb.Fatal(err)
	}
	// The process outlives the test's context, which ends before the cleanups: it is ended by stop.
	cmd := exec.CommandContext(context.Background(), p.path, p.args...) //nolint:gosec // a peer
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, p.home
	cmd.Env = append([]string{"HOME=" + p.home, "TMPDIR=" + p.home, "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"}, p.env...)
	// It has a group, so that its children end with it; and it ends with the test's process, also when that is killed.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM, Credential: p.user}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // Linux takes the end of the thread that started a process for that of its parent
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if err == nil {
			running.pid = cmd.Process.Pid
		}
		started <- err
		if err == nil {
			running.err = cmd.Wait()
		}
		_ = log.Close()
		close(running.done)
	}()
	if err := <-started; err != nil {
		tb.Fatalf("start %s: %v", name, err)
	}
	tb.Cleanup(func() { running.stop(tb) })
	return running
}

// stop ends the process, and its children where it leaves them behind.
func (p *process) stop(tb testing.TB) {
	tb.Helper()
	select {
	case <-p.done:
		tb.Errorf("%s ended by itself: %v", p.name, p.err)
	default:
		_ = syscall.Kill(p.pid, syscall.SIGTERM)
	}
	select {
	case <-p.done:
	case <-time.After(time.Minute):
		_ = syscall.Kill(-p.pid, syscall.SIGKILL) // it was not waited for yet, so its ID is nobody else's
		<-p.done
		tb.Errorf("%s had to be killed", p.name)
	}
	if tb.Failed() {
		tb.Logf("the end of the log of %s:\n%s", p.name, p.tail(60))
	}
}

// tail returns the last lines of the log.
func (p *process) tail(most int) string {
	content, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	return strings.Join(lines[max(0, len(lines)-most):], "\n")
}

// run runs a program to its end and returns what it printed.
func run(ctx context.Context, path string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, path, args...) //nolint:gosec // a peer's own tool
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = errors.New(filepath.Base(path) + " " + strings.Join(args, " ") + ": " + err.Error() + ": " + string(out))
	}
	return string(out), err
}
