package server_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/iana"
	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

// strangers admits nobody.
type strangers struct{ pxe.Agents }

func (strangers) CheckToken(context.Context, pxe.AgentRequest) error { return pxe.ErrRefused }

// manyDisks is a body of length bytes, in which each element of the list has 3 bytes, and 288 in memory.
func manyDisks(length int) string {
	const start, end = `{"disks":[{}`, "]}"
	return start + strings.Repeat(",{}", (length-len(start)-len(end))/3) + end
}

// TestStrangersWithBodies: a thousand clients without a valid token, from many addresses, send the largest bodies that they may, of which each would need 25 MiB. None is read into
// memory, and servers boot meanwhile: DHCP, TFTP and HTTP answer.
func TestStrangersWithBodies(t *testing.T) {
	g := NewWithT(t)
	var content atomic.Value
	content.Store("good")
	firmware, web := labWith(t, newBooter(t, &content), strangers{})
	firmware.Arch = iana.EFI_X86_64
	const clients, maxHeap = 1000, 200 << 20
	body := manyDisks(agent.MaxBody)
	request := fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: boot\r\nAuthorization: Bearer x\r\nContent-Length: %d\r\n\r\n%s", agent.Path("dc/h", agent.EndpointInventory), len(body), body)
	var ready, done sync.WaitGroup
	booted, problems := make(chan struct{}), make(chan error, clients)
	ready.Add(clients)
	for n := range clients {
		done.Go(func() {
			dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 82, byte(n/250), byte(1+n%250))}, Timeout: time.Minute}
			problems <- stranger(t.Context(), dialer, web, request, &ready, booted)
		})
	}
	stop, peak := watchHeap()
	ready.Wait() // all but the last byte is sent, or refused
	system, err := firmware.Boot(t.Context())
	close(booted)
	done.Wait()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(system.UserData)).To(Equal("#cloud-config\n"))
	for range clients {
		g.Expect(<-problems).To(Succeed())
	}
	stop()
	t.Logf("at most %d MiB of heap, with both ends of %d connections", peak.Load()>>20, clients)
	g.Expect(peak.Load()).To(BeNumerically("<", maxHeap))
}

// stranger sends a request, the last byte after the channel is closed, and expects a refusal. The server may close the connection before it has read the body.
func stranger(ctx context.Context, dialer net.Dialer, web string, request []byte, ready *sync.WaitGroup, last <-chan struct{}) error {
	early := sync.OnceFunc(ready.Done)
	defer early()
	conn, err := dialer.DialContext(ctx, "tcp4", web)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		return err
	}
	_, err = conn.Write(request[:len(request)-1])
	early()
	<-last
	if err == nil {
		_, err = conn.Write(request[len(request)-1:])
	}
	closed := errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
	if err != nil && !closed {
		return err
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	switch {
	case err != nil && (closed || errors.Is(err, syscall.ECONNRESET)): // what was not read when the server closed it ends the answer too
		return nil
	case err != nil:
		return err
	case answer.StatusCode != http.StatusUnauthorized:
		return fmt.Errorf("status %d", answer.StatusCode)
	}
	return answer.Body.Close()
}

// watchHeap measures the largest heap of the process until stop.
func watchHeap() (stop func(), peak *atomic.Uint64) {
	runtime.GC()
	peak = &atomic.Uint64{}
	ended, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			var now runtime.MemStats
			runtime.ReadMemStats(&now)
			peak.Store(max(peak.Load(), now.HeapAlloc))
			select {
			case <-ended:
				return
			case <-tick.C:
			}
		}
	}()
	return func() { close(ended); <-watched }, peak
}
