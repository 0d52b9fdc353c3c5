// Package media_test measures how the boot server serves boot media, beside nginx with a file of the same content, in one run on one machine: ranges of 64 KiB, as a
// BMC reads them. Nothing is asserted about speed: the numbers are printed, and only their ratios mean something elsewhere. `make media-bench` runs it;
// docs/development/network-boot.md quotes the outcome.
package media_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/loader"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
)

const (
	// part is the size of a range, and clients how many BMCs read at once.
	part    = 64 << 10
	clients = 64
	// period is how long each measurement lasts. Each server is measured so often, in turns.
	period = 5 * time.Second
	turns  = 3
)

// serverVariable makes this program our server, which listens at the address in it.
const serverVariable = "MEDIA_BENCH_SERVER"

var root = filepath.Join("..", "..", "..")

func TestMain(m *testing.M) {
	if address := os.Getenv(serverVariable); address != "" {
		fmt.Fprintln(os.Stderr, serveMedia(address))
		os.Exit(1)
	}
	controllerstest.Need(m, "make media-bench", ".cache/netbench", ".cache/loaders", "out/agent/amd64/ramdisk")
	os.Exit(m.Run())
}

// serveMedia serves a medium with the agent. The inventory is a fake in memory: this measures pxe.
func serveMedia(address string) error {
	set, err := loader.Load(filepath.Join(root, ".cache", "loaders"))
	if err != nil {
		return err
	}
	h := &pxe.Handler{
		Booter: &pxetest.Booter{}, Media: pxetest.NewMedia(), Loaders: set, AgentFiles: &pxe.AgentFiles{Dir: filepath.Join(root, "out", "agent")}, Log: logr.Discard(),
		BaseURL: func(netip.Addr) string { return "http://192.0.2.1:8480" },
	}
	s := &http.Server{Addr: address, Handler: h.Mux(), ReadHeaderTimeout: 10 * time.Second}
	return s.ListenAndServe()
}

// server is a process that is measured.
type server struct {
	name, address, path string
	pid                 int
}

func start(t *testing.T, s server, command *exec.Cmd) server {
	t.Helper()
	g := NewWithT(t)
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var said bytes.Buffer
	command.Stdout, command.Stderr = &said, &said
	g.Expect(command.Start()).To(Succeed(), "make media-bench unpacks what is needed")
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM) // nginx ends its workers
		_ = command.Wait()
		if t.Failed() {
			t.Logf("%s: %s", s.name, said.String())
		}
	})
	s.pid = command.Process.Pid
	g.Eventually(func() error {
		conn, err := net.Dial("tcp", s.address) //nolint:noctx // at once, or refused
		if err != nil {
			return err
		}
		return conn.Close()
	}, "60s", "50ms").Should(Succeed())
	return s
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // at once
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

func ours(t *testing.T) server {
	t.Helper()
	program, err := os.Executable()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	s := server{name: "ours", address: freeAddress(t), path: pxe.MediaPath("dc/h", "token-h")}
	command := exec.Command(program) //nolint:noctx // ended with the test; this program
	command.Env = append(os.Environ(), serverVariable+"="+s.address)
	return start(t, s, command)
}

// nginx serves a folder.
func nginx(t *testing.T, dir string) server {
	t.Helper()
	s := server{name: "nginx", address: freeAddress(t), path: "/boot.iso"}
	config := fmt.Sprintf(`daemon off; pid %[1]s/nginx.pid; error_log stderr error; worker_processes auto;
events { worker_connections 1024; }
http {
  access_log off; sendfile on; tcp_nopush on; keepalive_requests 100000000; default_type application/octet-stream;
  client_body_temp_path %[1]s; proxy_temp_path %[1]s; fastcgi_temp_path %[1]s; uwsgi_temp_path %[1]s; scgi_temp_path %[1]s;
  server { listen %[2]s; root %[1]s; }
}`, dir, s.address)
	file := filepath.Join(dir, "nginx.conf")
	NewWithT(t).Expect(os.WriteFile(file, []byte(config), 0o600)).To(Succeed())
	tools, err := filepath.Abs(filepath.Join(root, ".cache", "netbench"))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	command := exec.Command(filepath.Join(tools, "usr/sbin/nginx"), "-p", dir, "-c", file, "-g", "user root;") //nolint:noctx // ended with the test
	command.Env = append(os.Environ(), "LD_LIBRARY_PATH="+filepath.Join(tools, "usr/lib/x86_64-linux-gnu"))
	return start(t, s, command)
}

// cpu returns the CPU time that the process and its children have used.
func (s server) cpu(t *testing.T) time.Duration {
	t.Helper()
	ticks, pids := 0, []string{strconv.Itoa(s.pid)}
	for len(pids) > 0 {
		pid := pids[0]
		pids = pids[1:]
		stat, err := os.ReadFile("/proc/" + pid + "/stat")
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		for _, field := range fields[11:13] { // utime, stime
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
	return time.Duration(ticks) * 10 * time.Millisecond
}

// fetch writes the whole medium to a file.
func fetch(t *testing.T, s server, file string) int64 {
	t.Helper()
	g := NewWithT(t)
	answer, err := http.Get("http://" + s.address + s.path) //nolint:noctx // of this test
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = answer.Body.Close() }()
	g.Expect(answer.StatusCode).To(Equal(http.StatusOK))
	out, err := os.Create(file) // of this test
	g.Expect(err).NotTo(HaveOccurred())
	n, err := io.Copy(out, answer.Body)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(out.Close()).To(Succeed())
	return n
}

// result is what a server did.
type result struct {
	requests int64
	seconds  float64
	cpu      time.Duration
}

func (r result) rate() float64          { return float64(r.requests) / r.seconds }
func (r result) cpuOfARequest() float64 { return float64(r.cpu.Microseconds()) / float64(r.requests) }

// load reads ranges of a server for a period.
func load(t *testing.T, s server, size int64) result {
	t.Helper()
	var requests atomic.Int64
	var stop atomic.Bool
	var group sync.WaitGroup
	problems := make(chan error, clients)
	before, began := s.cpu(t), time.Now()
	for n := range clients {
		group.Go(func() { problems <- readRanges(s, size, uint64(n), &requests, &stop) }) // small
	}
	time.AfterFunc(period, func() { stop.Store(true) })
	group.Wait()
	r := result{requests.Load(), time.Since(began).Seconds(), s.cpu(t) - before}
	for range clients {
		NewWithT(t).Expect(<-problems).To(Succeed())
	}
	return r
}

// readRanges reads ranges over one connection. It parses no more of HTTP than it needs, since the clients share the machine with the server.
func readRanges(s server, size int64, seed uint64, requests *atomic.Int64, stop *atomic.Bool) error {
	conn, err := net.Dial("tcp", s.address) //nolint:noctx // at once, or refused
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	reader, random := bufio.NewReaderSize(conn, part), rand.New(rand.NewPCG(seed, 1)) // which parts are read is no secret
	for !stop.Load() {
		start := random.Int64N(size/part) * part
		if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: bmc\r\nRange: bytes=%d-%d\r\n\r\n", s.path, start, start+part-1); err != nil {
			return err
		}
		line, err := reader.ReadString('\n')
		if err != nil || !strings.HasPrefix(line, "HTTP/1.1 206 ") {
			return fmt.Errorf("%s answers %q: %w", s.name, line, err)
		}
		length := 0
		for line != "\r\n" {
			if line, err = reader.ReadString('\n'); err != nil {
				return err
			}
			if value, ok := strings.CutPrefix(strings.ToLower(line), "content-length: "); ok {
				if length, err = strconv.Atoi(strings.TrimSpace(value)); err != nil {
					return err
				}
			}
		}
		if _, err := reader.Discard(length); err != nil || length != part {
			return fmt.Errorf("%s sends %d bytes: %w", s.name, length, err)
		}
		requests.Add(1)
	}
	return nil
}

// TestMedia measures both servers in turns.
func TestMedia(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	g.Expect(os.Chmod(dir, 0o755)).To(Succeed()) // nginx's workers read it
	mine := ours(t)
	size := fetch(t, mine, filepath.Join(dir, "boot.iso"))
	other := nginx(t, dir)
	sum := map[string]*result{mine.name: {}, other.name: {}}
	for range turns {
		for _, s := range []server{mine, other} {
			r, total := load(t, s, size), sum[s.name]
			total.requests, total.seconds, total.cpu = total.requests+r.requests, total.seconds+r.seconds, total.cpu+r.cpu
		}
	}
	t.Logf("%d clients, ranges of %d KiB of a medium of %d bytes", clients, part>>10, size)
	t.Logf("%-6s %12s %18s", "server", "requests/s", "CPU µs a request")
	for _, name := range []string{mine.name, other.name} {
		t.Logf("%-6s %12.0f %18.1f", name, sum[name].rate(), sum[name].cpuOfARequest())
	}
	t.Logf("ours beside nginx: %.2f times the requests, %.2f times the CPU of a request", sum[mine.name].rate()/sum[other.name].rate(),
		sum[mine.name].cpuOfARequest()/sum[other.name].cpuOfARequest())
}
