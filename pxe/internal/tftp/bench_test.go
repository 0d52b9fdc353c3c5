package tftp

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	pin "github.com/pin/tftp/v3"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
)

// BenchmarkTransfers fetches a boot loader of 300 KB with several clients at once, beside the server of github.com/pin/tftp in its usual mode and with a single port:
//
//	go test -run '^$' -bench Transfers -benchtime 2000x ./pxe/internal/tftp
//
// Clients and servers share the processors, so only the ratios of one run mean something. MB/s is what all clients receive together. A client of pin's server has no
// window.
func BenchmarkTransfers(b *testing.B) {
	content := make([]byte, 300_000)
	for _, server := range []struct {
		name    string
		start   func(b *testing.B, conn *net.UDPConn, content []byte) (stop func())
		windows []int
	}{
		{"ours", startOurs, []int{0, 4, 16}},
		{"pin", func(b *testing.B, conn *net.UDPConn, content []byte) func() {
			b.Helper()
			return startPin(conn, content, false)
		}, []int{0}},
		{"pin-single-port", func(b *testing.B, conn *net.UDPConn, content []byte) func() {
			b.Helper()
			return startPin(conn, content, true)
		}, []int{0}},
	} {
		for _, window := range server.windows {
			for _, clients := range []int{1, 100} {
				b.Run(fmt.Sprintf("%s/window=%d/clients=%d", server.name, max(1, window), clients), func(b *testing.B) {
					conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
					if err != nil {
						b.Fatal(err)
					}
					address := conn.LocalAddr().(*net.UDPAddr).AddrPort()
					stop := server.start(b, conn, content)
					defer stop()
					b.SetBytes(int64(len(content)))
					b.ReportAllocs()
					fetchAll(b, address, clients, window, len(content))
				})
			}
		}
	}
}

func startOurs(b *testing.B, conn *net.UDPConn, content []byte) func() {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s := &Server{Log: logr.Discard(), Open: func(string, netip.Addr) ([]byte, bool) { return content, true }}
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, conn) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
	}
}

func startPin(conn *net.UDPConn, content []byte, singlePort bool) func() {
	s := pin.NewServer(func(_ string, rf io.ReaderFrom) error {
		_, err := rf.ReadFrom(bytes.NewReader(content))
		return err
	}, nil)
	s.SetBlockSize(maxBlock)
	if singlePort {
		s.EnableSinglePort()
	}
	done := make(chan struct{})
	go func() {
		_ = s.Serve(conn) // it returns after Shutdown
		close(done)
	}()
	return func() {
		s.Shutdown()
		<-done
	}
}

// fetchAll fetches the file b.N times with so many clients.
func fetchAll(b *testing.B, server netip.AddrPort, clients, window, size int) {
	b.Helper()
	loads := make(chan struct{})
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			c := &pxetest.TFTPClient{Server: server, BlockSize: maxBlock, Window: window}
			for range loads {
				// Each client has its own address, as the transfers of one are limited, and each transfer its own port: pin's single port drops a request from the
				// port of a transfer that is about to end.
				received, err := fetchOnce(c, net.IPv4(127, 0, 1, byte(1+i)))
				if err != nil || received != size {
					b.Errorf("%d bytes, %v", received, err)
				}
			}
		})
	}
	b.ResetTimer()
	for range b.N {
		loads <- struct{}{}
	}
	close(loads)
	wg.Wait()
	b.StopTimer()
}

func fetchOnce(c *pxetest.TFTPClient, from net.IP) (int, error) {
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: from})
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }()
	c.Conn = conn
	var received counter
	err = c.Fetch("snponly.efi", &received)
	return int(received), err
}

// counter counts what is written to it.
type counter int

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
