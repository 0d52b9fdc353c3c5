package netbench_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
)

// tftpClients is how many clients load at once. Each has its own address: ours limits the transfers of one.
const tftpClients = 100

func tftpClient(i int) string { return fmt.Sprintf("10.99.1.%d", 1+i) }

// tftpBench is a wire on which the clients of TFTP have their addresses.
func tftpBench(t *testing.T) (b *bench, size float64) {
	t.Helper()
	b = newBench(t)
	for i := range tftpClients {
		b.load("ip", "address", "add", tftpClient(i)+"/16", "dev", clientDevice)
	}
	info, err := os.Stat(filepath.Join(loaders, loader))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return b, float64(info.Size())
}

// tftpLoad loads the boot loader once, as a client with a number.
type tftpLoad func(client int) error

// measure lets so many clients load the boot loader so often together. It returns the MB a second, and the CPU of the server for a file.
func (b *bench) measure(s *server, clients, loads int, size float64, load tftpLoad) (rate, cpu float64) {
	b.t.Helper()
	before, start := s.cpu(b.t), time.Now()
	turns := make(chan struct{})
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			for range turns {
				if err := load(i); err != nil {
					b.t.Errorf("load over TFTP: %v", err)
				}
			}
		})
	}
	for range loads {
		turns <- struct{}{}
	}
	close(turns)
	wg.Wait()
	took := time.Since(start)
	return size * float64(loads) / 1e6 / took.Seconds(), float64((s.cpu(b.t) - before).Microseconds()) / 1000 / float64(loads)
}

// curlLoad loads the boot loader as firmware does: with blocks of the size of an Ethernet frame.
func (b *bench) curlLoad(client int) error {
	return b.loading(tools("usr/bin/curl"), "--silent", "--show-error", "--max-time", "30", "--interface", tftpClient(client),
		"--tftp-blksize", "1468", "--output", "/dev/null", "tftp://"+serverAddress+"/"+loader).Run()
}

// TestTFTP loads a boot loader over TFTP, with 1 client and with 100 at once. Each load is a process, so this is the rate of clients that begin and end.
func TestTFTP(t *testing.T) {
	b, size := tftpBench(t)
	kernel, initrd := b.files(1 << 20)
	const loads = 400
	t.Logf("%-10s %8s %12s %16s", "server", "clients", "MB/s", "CPU ms a file")
	rates := map[int]float64{}
	for _, c := range []struct {
		name  string
		start func() *server
	}{
		{"ours", func() *server { return b.ours(initrd, kernel).server }},
		{"tftpd-hpa", func() *server { return b.tftpd(loaders) }},
	} {
		s := c.start()
		NewWithT(t).Eventually(func() error { return b.curlLoad(0) }, "90s", "200ms").Should(Succeed())
		for _, clients := range []int{1, tftpClients} {
			rate, cpu := b.measure(s, clients, loads, size, b.curlLoad)
			ratio := ""
			if rates[clients] == 0 {
				rates[clients] = rate
			} else {
				ratio = fmt.Sprintf("  (ours: %.2f times as much)", rates[clients]/rate)
			}
			t.Logf("%-10s %8d %12.1f %16.2f%s", c.name, clients, rate, cpu, ratio)
		}
		s.stop()
	}
}

// TestTFTPWindows loads a boot loader with windows (RFC 7440), which curl does not have. The clients are in this process, so their start costs nothing. tftpd-hpa ignores
// the option, as a window of 1.
func TestTFTPWindows(t *testing.T) {
	b, size := tftpBench(t)
	kernel, initrd := b.files(1 << 20)
	const loads = 2000
	t.Logf("%-10s %8s %8s %12s %16s", "server", "clients", "window", "MB/s", "CPU ms a file")
	for _, c := range []struct {
		name    string
		start   func() *server
		windows []int
	}{
		{"ours", func() *server { return b.ours(initrd, kernel).server }, []int{1, 4, 16}},
		{"tftpd-hpa", func() *server { return b.tftpd(loaders) }, []int{1}},
	} {
		s := c.start()
		NewWithT(t).Eventually(func() error { return b.curlLoad(0) }, "90s", "200ms").Should(Succeed())
		for _, window := range c.windows {
			for _, clients := range []int{1, tftpClients} {
				rate, cpu := b.measure(s, clients, loads, size, b.windowLoads(clients, window))
				t.Logf("%-10s %8d %8d %12.1f %16.2f", c.name, clients, window, rate, cpu)
			}
		}
		s.stop()
	}
}

// windowLoads returns the load of clients that request a window. Each keeps its port: a server must serve its next request too.
func (b *bench) windowLoads(clients, window int) tftpLoad {
	b.t.Helper()
	all := make([]*pxetest.TFTPClient, clients)
	for i := range all {
		conn, err := b.clientSocket(tftpClient(i))
		NewWithT(b.t).Expect(err).NotTo(HaveOccurred())
		b.t.Cleanup(func() { _ = conn.Close() })
		all[i] = &pxetest.TFTPClient{Conn: conn, Server: netip.MustParseAddrPort(serverAddress + ":69"), BlockSize: 1468, Window: window}
	}
	return func(client int) error { return all[client].Fetch(loader, io.Discard) }
}

// clientSocket opens a socket in the namespace of the load generators.
func (b *bench) clientSocket(address string) (*net.UDPConn, error) {
	var conn *net.UDPConn
	var err error
	var wg sync.WaitGroup
	wg.Go(func() {
		runtime.LockOSThread() // it is not unlocked, so the thread with the other namespace ends with this function
		namespace, openErr := os.Open(fmt.Sprintf("/proc/%d/ns/net", b.client))
		if err = openErr; err != nil {
			return
		}
		if err = errors.Join(unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET), namespace.Close()); err != nil {
			return
		}
		conn, err = net.ListenUDP("udp4", &net.UDPAddr{IP: net.ParseIP(address)})
	})
	wg.Wait()
	return conn, err
}
