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
	// home is its own folder, with its log and its files.
	home string
	// env is its environment in addition to HOME and PATH. It inherits nothing from this computer, such as proxies.
	env []string
	// user is its user; nil means the user of the tests.
	user *syscall.Credential
}

// process is a running peer.
type process struct {
	name string
	log  string
	pid  int
	done chan struct{}
	err  error // its exit error; valid after done
}

// start runs a program until the end of the test. If the test fails, start prints the program's log.
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
	// The process outlives the test's context, which ends before the cleanups. stop ends it.
	cmd := exec.CommandContext(context.Background(), p.path, p.args...) //nolint:gosec // a peer
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, p.home
	cmd.Env = append([]string{"HOME=" + p.home, "TMPDIR=" + p.home, "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"}, p.env...)
	// It has a process group, so that its children end with it. It ends with the test's process, even if that is killed.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM, Credential: p.user}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // Linux treats the end of the thread that started a process as the end of its parent
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

// stop ends the process and its remaining children.
func (p *process) stop(tb testing.TB) {
	tb.Helper()
	select {
	case <-p.done:
		tb.Errorf("%s ended before the test: %v", p.name, p.err)
	default:
		_ = syscall.Kill(p.pid, syscall.SIGTERM)
	}
	select {
	case <-p.done:
	case <-time.After(time.Minute):
		_ = syscall.Kill(-p.pid, syscall.SIGKILL) // Wait has not returned yet, so no other process has its ID
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

// run runs a program and returns its output.
func run(ctx context.Context, path string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, path, args...) //nolint:gosec // a peer's own tool
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = errors.New(filepath.Base(path) + " " + strings.Join(args, " ") + ": " + err.Error() + ": " + string(out))
	}
	return string(out), err
}
