// Package netbench_test measures our boot server under real load generators, with other common servers for comparison, in one
// run on one machine: DHCP with kea and dnsmasq (perfdhcp), TFTP with tftpd-hpa (curl, and a client with windows), HTTP with nginx (wrk). Nothing is
// asserted about speed: the numbers are printed, and only their ratios mean something elsewhere. `make netbench` runs it, as
// root; docs/development/network-boot.md quotes the outcome.
package netbench_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/netns"
)

var env *controllerstest.Env

func TestMain(m *testing.M) {
	controllerstest.Need(m, "make netbench", ".cache/netbench", ".cache/loaders")
	os.Exit(netns.Main(m, func() int {
		if err := netns.Do("ip link set lo up"); err != nil { // the API server listens there
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		controllerstest.Main(m, &env)
		return 0
	}))
}

// The servers are at one end of a pair of devices, the load generators at the other end in a separate namespace.
const (
	serverDevice, clientDevice   = "srv0", "cli0"
	serverAddress, clientAddress = "10.99.0.1", "10.99.0.2"
)

// bench is the wire, and what runs on it.
type bench struct {
	t      *testing.T
	dir    string
	client int // the process that holds the namespace of the load generators
}

func newBench(t *testing.T) *bench {
	t.Helper()
	g := NewWithT(t)
	holder := exec.Command("sleep", "infinity") //nolint:noctx // killed below
	holder.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	g.Expect(holder.Start()).To(Succeed())
	b := &bench{t: t, dir: t.TempDir(), client: holder.Process.Pid}
	b.run("ip", "link", "add", serverDevice, "type", "veth", "peer", "name", clientDevice, "netns", strconv.Itoa(b.client))
	t.Cleanup(func() {
		b.run("ip", "link", "delete", serverDevice)
		_ = holder.Process.Kill()
		_ = holder.Wait() // killed
	})
	b.run("ip", "address", "add", serverAddress+"/16", "dev", serverDevice)
	b.run("ip", "link", "set", serverDevice, "up")
	b.load("ip", "link", "set", "lo", "up")
	b.load("ip", "address", "add", clientAddress+"/16", "dev", clientDevice)
	b.load("ip", "link", "set", clientDevice, "up")
	return b
}

// tools is where hack/netbench.sh unpacked the programs.
func tools(path ...string) string {
	return filepath.Join(append([]string{controllerstest.Root(), ".cache", "netbench"}, path...)...)
}

// command makes a command that finds its libraries among the unpacked ones.
func command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...) //nolint:noctx // servers are killed at the end, load generators end without a signal
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+tools("usr/lib/x86_64-linux-gnu"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// run runs a program next to the servers.
func (b *bench) run(program string, args ...string) string {
	b.t.Helper()
	out, err := command(program, args...).CombinedOutput()
	NewWithT(b.t).Expect(err).NotTo(HaveOccurred(), "%s %s: %s", program, strings.Join(args, " "), out)
	return string(out)
}

// loading makes the command of a load generator.
func (b *bench) loading(program string, args ...string) *exec.Cmd {
	return command("nsenter", append([]string{fmt.Sprintf("--net=/proc/%d/ns/net", b.client), program}, args...)...)
}

// load runs a load generator.
func (b *bench) load(program string, args ...string) string {
	b.t.Helper()
	out, err := b.loading(program, args...).CombinedOutput()
	NewWithT(b.t).Expect(err).NotTo(HaveOccurred(), "%s %s: %s (hack/netbench.sh unpacks what is needed)", program, strings.Join(args, " "), out)
	return string(out)
}

// server is a server that is measured.
type server struct {
	cmd  *exec.Cmd
	log  string
	done chan struct{}
}

// serve starts a server; it is killed by stop, or at the end of the test.
func (b *bench) serve(name, program string, args ...string) *server {
	b.t.Helper()
	g := NewWithT(b.t)
	s := &server{cmd: command(program, args...), log: filepath.Join(b.dir, name+".log"), done: make(chan struct{})}
	log, err := os.Create(s.log)
	g.Expect(err).NotTo(HaveOccurred())
	s.cmd.Stdout, s.cmd.Stderr, s.cmd.Dir = log, log, b.dir
	s.cmd.Env = append(s.cmd.Env, "KEA_PIDFILE_DIR="+b.dir, "KEA_LOCKFILE_DIR="+b.dir, "POD_NAMESPACE=default")
	g.Expect(s.cmd.Start()).To(Succeed(), "hack/netbench.sh unpacks what is needed")
	go func() {
		_ = s.cmd.Wait() // killed
		_ = log.Close()
		close(s.done)
	}()
	b.t.Cleanup(func() {
		s.stop()
		if content, err := os.ReadFile(s.log); err == nil && b.t.Failed() {
			b.t.Logf("%s said:\n%s", name, content[max(0, len(content)-4000):])
		}
	})
	return s
}

func (s *server) stop() {
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // it may be gone
	select {
	case <-s.done:
	case <-time.After(10 * time.Second):
		_ = s.cmd.Process.Kill()
		<-s.done
	}
}

// cpu returns the CPU time that the server and its children, dead and alive, have used.
func (s *server) cpu(t *testing.T) time.Duration {
	t.Helper()
	ticks := 0
	pids := []string{strconv.Itoa(s.cmd.Process.Pid)}
	for len(pids) > 0 {
		pid := pids[0]
		pids = pids[1:]
		stat, err := os.ReadFile("/proc/" + pid + "/stat")
		if err != nil {
			continue // a child that has ended counts with its parent
		}
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		for _, field := range fields[11:15] { // utime, stime, cutime, cstime
			n, err := strconv.Atoi(field)
			NewWithT(t).Expect(err).NotTo(HaveOccurred())
			ticks += n
		}
		tasks, _ := filepath.Glob("/proc/" + pid + "/task/*/children")
		for _, task := range tasks {
			children, _ := os.ReadFile(task)
			pids = append(pids, strings.Fields(string(children))...)
		}
	}
	return time.Duration(ticks) * 10 * time.Millisecond // USER_HZ is 100 on every Linux
}
