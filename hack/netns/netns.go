// Package netns runs tests in their own network and mount namespaces.
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
	"testing"

	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
)

// inside is the environment variable of the process in the new namespaces.
const inside = "NETNS_INSIDE"

// Main runs the tests of a package in a process with its own network and mounts, and returns the exit code. It starts the test program again in new
// namespaces. These have no name and belong to the process: they end with it, and no other run can see them. Main also ends the processes that an
// interrupted test left behind. It needs root: without it the tests are skipped, as controllerstest.NeedRoot says.
func Main(m *testing.M, run func() int) int {
	if os.Getenv(inside) != "" {
		return run()
	}
	controllerstest.NeedRoot(m)
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	child := exec.Command(self, os.Args[1:]...) //nolint:noctx,gosec // the program has its own deadline: -test.timeout
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

// Do runs programs that prepare the namespaces, one after the other. Words of a command are separated by blanks.
func Do(commands ...string) error {
	for _, command := range commands {
		words := strings.Fields(command)
		if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil { //nolint:noctx,gosec // returns at once; the test names the program
			return fmt.Errorf("%s: %w: %s", command, err, out)
		}
	}
	return nil
}

// sweep ends the processes of a session: those that a run left behind that was interrupted or reached its deadline.
func sweep(session int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is well-formed
	for _, stat := range stats {
		content, err := os.ReadFile(stat) //nolint:gosec // in /proc
		if err != nil {
			continue // it has ended
		}
		// After the name, in parentheses, are the state, the parent, the group and the session (proc(5)).
		fields := strings.Fields(string(content[bytes.LastIndexByte(content, ')')+1:]))
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(stat)))
		if err == nil && len(fields) > 3 && fields[3] == strconv.Itoa(session) {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
	}
}
