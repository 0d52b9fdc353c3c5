package apifault_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/capbm-io/cluster-api-provider-baremetal/hack/endure/apifault"
)

const hosts = "/apis/infrastructure.cluster.x-k8s.io/v1alpha1/namespaces/a/baremetalhosts"

// server is an API server that counts requests. Its watches return the lines from the channel tell.
type server struct {
	*httptest.Server
	faults   *apifault.Faults
	client   *http.Client
	requests int
	tell     chan string
}

func start(t *testing.T) *server {
	t.Helper()
	s := &server{faults: &apifault.Faults{}, tell: make(chan string)}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") == "" {
			s.requests++ // the tests send one request after the other
			return
		}
		_ = http.NewResponseController(w).Flush()
		for {
			select {
			case line := <-s.tell:
				_, _ = fmt.Fprintln(w, line)
				_ = http.NewResponseController(w).Flush()
			case <-r.Context().Done():
				return
			}
		}
	}))
	s.client = &http.Client{Transport: s.faults.Wrap(http.DefaultTransport)}
	t.Cleanup(s.Close)
	return s
}

// ask returns the HTTP status of the answer to a request. It checks that client-go understands an answer that replaces the API server's.
func (s *server) ask(t *testing.T, method, path string) int {
	t.Helper()
	g := NewWithT(t)
	request, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader("{}"))
	g.Expect(err).NotTo(HaveOccurred())
	response, err := s.client.Do(request)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode == http.StatusOK {
		return http.StatusOK
	}
	content, err := io.ReadAll(response.Body)
	g.Expect(err).NotTo(HaveOccurred())
	var status metav1.Status
	g.Expect(json.Unmarshal(content, &status)).To(Succeed())
	told := &apierrors.StatusError{ErrStatus: status}
	g.Expect(apierrors.IsConflict(told)).To(Equal(response.StatusCode == http.StatusConflict))
	g.Expect(apierrors.IsTooManyRequests(told)).To(Equal(response.StatusCode == http.StatusTooManyRequests))
	if response.StatusCode == http.StatusTooManyRequests {
		g.Expect(response.Header.Get("Retry-After")).To(Equal("1"))
	}
	return response.StatusCode
}

func (s *server) watch(t *testing.T) *bufio.Reader {
	t.Helper()
	g := NewWithT(t)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+hosts+"?watch=true", nil)
	g.Expect(err).NotTo(HaveOccurred())
	response, err := s.client.Do(request)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = response.Body.Close() })
	return bufio.NewReader(response.Body)
}

// TestAnswers: each fault meets the requests that it is for, as often as it is set to, and no others.
func TestAnswers(t *testing.T) {
	for _, c := range []struct {
		name         string
		fault        func(*apifault.Faults)
		method, path string
		want         []int
		passed       int
	}{
		{"none", func(*apifault.Faults) {}, http.MethodPatch, hosts + "/h", []int{200, 200}, 2},
		{"throttled", func(f *apifault.Faults) { f.Throttle(2) }, http.MethodGet, hosts, []int{200, 429, 200, 429}, 2},
		{"each patch conflicts", func(f *apifault.Faults) { f.Conflict(1) }, http.MethodPatch, hosts + "/h/status", []int{409, 409}, 0},
		{"each second update conflicts", func(f *apifault.Faults) { f.Conflict(2) }, http.MethodPut, hosts + "/h", []int{200, 409, 200}, 2},
		{"no conflict of what is read", func(f *apifault.Faults) { f.Conflict(1) }, http.MethodGet, hosts + "/h", []int{200}, 1},
		{"no conflict of other kinds", func(f *apifault.Faults) { f.Conflict(1) }, http.MethodPatch, "/api/v1/namespaces/a/secrets/s", []int{200}, 1},
		{"cleared", func(f *apifault.Faults) {
			f.Conflict(1)
			f.Throttle(1)
			f.Slow(time.Hour)
			f.Away(true)
			f.Clear()
		}, http.MethodPatch, hosts + "/h", []int{200}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := NewWithT(t)
			s := start(t)
			c.fault(s.faults)
			got := []int{}
			for range c.want {
				got = append(got, s.ask(t, c.method, c.path))
			}
			g.Expect(got).To(Equal(c.want))
			g.Expect(s.requests).To(Equal(c.passed))
		})
	}
}

func TestSlow(t *testing.T) {
	g := NewWithT(t)
	s := start(t)
	s.faults.Slow(50 * time.Millisecond)
	began := time.Now()
	g.Expect(s.ask(t, http.MethodGet, hosts)).To(Equal(200))
	g.Expect(time.Since(began)).To(BeNumerically(">=", 50*time.Millisecond))
	g.Expect(s.faults.Disturbed()).To(Equal(map[string]int{apifault.Slow: 1}))

	s.faults.Slow(time.Hour) // a request that is cancelled does not wait
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+hosts, nil)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = s.client.Do(request) //nolint:bodyclose // there is no body
	g.Expect(err).To(MatchError(context.Canceled))
}

// TestAway: requests are refused as by a port without a listener, and watches end.
func TestAway(t *testing.T) {
	g := NewWithT(t)
	s := start(t)
	told := s.watch(t)
	s.faults.Away(true)
	_, err := told.ReadString('\n')
	g.Expect(err).To(HaveOccurred())
	_, err = s.client.Get(s.URL + hosts) //nolint:bodyclose,noctx // there is no body
	g.Expect(errors.Is(err, syscall.ECONNREFUSED)).To(BeTrue(), "%v", err)
	g.Expect(s.requests).To(BeZero())
	s.faults.Away(false)
	g.Expect(s.ask(t, http.MethodGet, hosts)).To(Equal(200))
}

// TestHeldWatches: held watch events are delivered late, all of them and in order, while reads are answered.
func TestHeldWatches(t *testing.T) {
	g := NewWithT(t)
	s := start(t)
	told := s.watch(t)
	lines := make(chan string, 10)
	go func() {
		for {
			line, err := told.ReadString('\n')
			if err != nil {
				close(lines)
				return
			}
			lines <- line
		}
	}()
	s.tell <- "one"
	g.Eventually(lines).Should(Receive(Equal("one\n")))
	s.faults.HoldWatches(true)
	s.tell <- "two"
	s.tell <- "three"
	g.Eventually(s.faults.Disturbed).Should(HaveKeyWithValue(apifault.Held, BeNumerically(">", 0)))
	g.Expect(s.ask(t, http.MethodGet, hosts)).To(Equal(200))
	g.Expect(lines).To(BeEmpty())
	s.faults.HoldWatches(false)
	g.Eventually(lines).Should(Receive(Equal("two\n")))
	g.Eventually(lines).Should(Receive(Equal("three\n")))

	s.faults.HoldWatches(true) // a held watch can be cut too
	s.tell <- "four"
	s.faults.CutWatches()
	s.faults.HoldWatches(false)
	g.Eventually(lines, 30*time.Second).Should(BeClosed())
}

// TestClock: a jump changes the wall time and no durations. Time that passes changes both.
func TestClock(t *testing.T) {
	g := NewWithT(t)
	c := &apifault.Clock{}
	near := func(got time.Duration) { t.Helper(); g.Expect(got).To(BeNumerically("~", 0, time.Minute)) }
	before := c.Now()
	near(time.Since(before))
	for _, jump := range []time.Duration{time.Hour, -2 * time.Hour} {
		since := c.Now()
		c.Jump(jump)
		near(c.Since(since))
		near(c.Now().Round(0).Sub(since.Round(0)) - jump)
		near(metav1.NewTime(c.Now()).Rfc3339Copy().Sub(since.Round(0)) - jump) // as the API server stores it
	}
	since := c.Now()
	c.Pass(time.Hour)
	near(c.Since(since) - time.Hour)
	near(c.Now().Round(0).Sub(since.Round(0)) - time.Hour)
}
