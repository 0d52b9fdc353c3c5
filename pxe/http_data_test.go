package pxe_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed"
)

// stalledAnswer is an answer whose client reads nothing until it is released.
type stalledAnswer struct {
	nowhere

	began    chan<- int // gets the status
	released <-chan struct{}
}

func (s *stalledAnswer) Write(b []byte) (int, error) {
	s.began <- s.status
	<-s.released
	return len(b), nil
}

// stall begins count answers to the same request, whose clients read nothing until the test ends.
func stall(t *testing.T, handler http.Handler, count int, request func() *http.Request) {
	t.Helper()
	began, released := make(chan int, count), make(chan struct{})
	var ended sync.WaitGroup
	for range count {
		ended.Go(func() {
			handler.ServeHTTP(&stalledAnswer{nowhere: nowhere{header: http.Header{}, status: http.StatusOK}, began: began, released: released}, request())
		})
	}
	t.Cleanup(func() {
		close(released)
		ended.Wait()
	})
	for range count {
		select {
		case status := <-began:
			if status != http.StatusOK {
				t.Fatalf("status %d", status)
			}
		case <-time.After(time.Minute):
			t.Fatal("an answer did not begin")
		}
	}
}

// dataAgents has bootstrap data for every host.
type dataAgents struct{ pxe.Agents }

func (dataAgents) CheckToken(context.Context, pxe.AgentRequest) error { return nil }

func (dataAgents) Data(context.Context, pxe.AgentRequest, agent.DataRequest, string) (seed.DataPartition, error) {
	return seed.DataPartition{Head: []byte("the partition")}, nil
}

// TestDataStalledClient: answers with bootstrap data are in memory until their clients have read them. So a host that reads none gets four, and no slot of another host. Its files
// without bootstrap data need no slot.
func TestDataStalledClient(t *testing.T) {
	l, _ := newImageLab(t, 8)
	l.handler.Agents = dataAgents{}
	fileOf := func(address, token, file string) *http.Request {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/seed/dc/h/"+token+"/"+file, nil)
		r.RemoteAddr = address + ":4711"
		return r
	}
	seedOf := func(address, token string) *http.Request { return fileOf(address, token, seed.UserData) }
	dataOf := func(host string) *http.Request {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, agent.Path(host, agent.EndpointData), strings.NewReader(`{}`))
		r.RemoteAddr = "192.0.2.9:4711"
		r.Header.Set("Authorization", "Bearer token")
		return r
	}
	mux := l.handler.Mux()
	status := func(r *http.Request) int {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		return w.Code
	}
	g := NewWithT(t)
	l.booter.Data = seed.Data{UserData: []byte("#cloud-config\n")}
	stall(t, mux, 4, func() *http.Request { return seedOf("192.0.2.9", "token") })
	g.Expect(status(seedOf("192.0.2.9", "token"))).To(Equal(http.StatusServiceUnavailable))
	g.Expect(status(fileOf("192.0.2.9", "token", seed.MetaData))).To(Equal(http.StatusOK))
	g.Expect(status(seedOf("192.0.2.66", "guess"))).To(Equal(http.StatusForbidden), "a stranger needs no slot, and gets a small answer")

	stall(t, mux, 4, func() *http.Request { return dataOf("dc/agent") })
	g.Expect(status(dataOf("dc/agent"))).To(Equal(http.StatusAccepted), "the agent asks again")
	g.Expect(status(dataOf("dc/h2"))).To(Equal(http.StatusOK))
	for host := range 5 {
		stall(t, mux, 4, func() *http.Request { return dataOf(fmt.Sprintf("dc/stalled-%d", host)) })
	}
	g.Expect(status(dataOf("dc/h2"))).To(Equal(http.StatusAccepted), "the namespace has its share")
	g.Expect(status(dataOf("other/h"))).To(Equal(http.StatusOK))
}
