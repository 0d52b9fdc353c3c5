// Package netns runs tests in namespaces of their own.
package netns

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// inside is set in the environment of the process that has namespaces of its own.
const inside = "NETNS_INSIDE"

// Main runs the tests of a package in a process with a network and mounts of its own, and returns the exit code: it starts the test
// program once more in new namespaces. Those have no name and belong to the process, so they are gone with it, however it ends, and no
// other run can meet them. What the tests started, and left behind when they were interrupted, is ended. It needs root.
func Main(run func() int) int {
	if os.Getenv(inside) != "" {
		return run()
	}
	if os.Geteuid() != 0 {
		fmt.Fprintln(os.Stderr, "run as root: the tests make a network namespace and listen on the ports 67 and 69")
		return 1
	}
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	child := exec.Command(self, os.Args[1:]...) //nolint:noctx,gosec // itself, with a deadline of its own: -test.timeout
	child.Env = append(os.Environ(), inside+"=1")
	child.Stdout, child.Stderr = os.Stdout, os.Stderr
	child.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL, Setsid: true}
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	if err = child.Start(); err == nil {
		go func() {
			<-interrupted
			_ = child.Process.Kill() // it may have ended
		}()
		err = child.Wait()
		sweep(child.Process.Pid)
	}
	if exit := (&exec.ExitError{}); errors.As(err, &exit) {
		return max(exit.ExitCode(), 1)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "start the tests in namespaces:", err)
		return 1
	}
	return 0
}

// Do runs programs that prepare the namespaces, one after the other, each written as its words with a blank between them.
func Do(commands ...string) error {
	for _, command := range commands {
		words := strings.Fields(command)
		if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil { //nolint:noctx,gosec // returns at once; the test names it
			return fmt.Errorf("%s: %w: %s", command, err, out)
		}
	}
	return nil
}

// sweep ends what a run leaves behind that was interrupted, or ended by its deadline: the processes of its session.
func sweep(session int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is well-formed
	for _, stat := range stats {
		content, err := os.ReadFile(stat) //nolint:gosec // of a process
		if err != nil {
			continue // it has ended
		}
		// After the name, in parentheses, come the state, the parent, the group and the session (proc(5)).
		fields := strings.Fields(string(content[bytes.LastIndexByte(content, ')')+1:]))
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(stat)))
		if err == nil && len(fields) > 3 && fields[3] == strconv.Itoa(session) {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
	}
}
