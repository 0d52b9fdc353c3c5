package bmc_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/leaktest"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/redfish"
)

// TestMain fails if goroutines, and with them connections, remain after the tests.
func TestMain(m *testing.M) { leaktest.Main(m) }

func endpoint(host string) bmc.Endpoint {
	return bmc.Endpoint{URL: &url.URL{Scheme: "fake", Host: host}, Username: "admin", Password: "secret"}
}

func newPool(t *testing.T, driver bmc.Driver, opts bmc.PoolOptions) *bmc.Pool {
	t.Helper()
	pool := bmc.NewPool(map[string]bmc.Driver{"fake": driver}, opts)
	t.Cleanup(pool.Close)
	return pool
}

// result runs a job and returns its error.
func result(t *testing.T, pool *bmc.Pool, job bmc.Job, do func(context.Context, bmc.Client) error) error {
	t.Helper()
	done := make(chan error, 1)
	job.Run = do
	job.Done = func(err error) { done <- err }
	NewWithT(t).Expect(pool.Submit(job)).To(BeTrue())
	return <-done
}

func poll(ctx context.Context, c bmc.Client) error {
	_, err := c.PowerState(ctx)
	return err
}

// TestOneJobAKey: a key has one job at a time, and is free when Done is called.
func TestOneJobAKey(t *testing.T) {
	g := NewWithT(t)
	fake, release := &bmctest.Fake{}, make(chan struct{})
	pool := newPool(t, bmc.Driver{Open: fake.Open}, bmc.PoolOptions{})
	done := make(chan bool)
	job := bmc.Job{Key: "a", Endpoint: endpoint("a"), Run: func(context.Context, bmc.Client) error { <-release; return nil }}
	job.Done = func(error) { done <- pool.Busy("a") }
	g.Expect(pool.Submit(job)).To(BeTrue())
	g.Expect(pool.Busy("a")).To(BeTrue())
	g.Expect(pool.Submit(job)).To(BeFalse())
	close(release)
	g.Expect(<-done).To(BeFalse())
	g.Expect(result(t, pool, bmc.Job{Key: "b", Endpoint: bmc.Endpoint{URL: &url.URL{Scheme: "x", Host: "b"}}}, poll)).To(
		MatchError(ContainSubstring("no driver for the scheme")))
}

// TestLimits: a BMC runs one job at a time, and a driver not more jobs than its limit.
func TestLimits(t *testing.T) {
	g := NewWithT(t)
	const bmcs, jobsEach, limit = 20, 5, 3
	var (
		mu      sync.Mutex
		running = map[string]int{}
		all     int
		most    int
		wg      sync.WaitGroup
		fake    bmctest.Fake
	)
	pool := newPool(t, bmc.Driver{Open: fake.Open, Limit: limit}, bmc.PoolOptions{SlotTimeout: time.Nanosecond, Rate: 1e6})
	for i := range bmcs * jobsEach {
		host := strconv.Itoa(i % bmcs)
		wg.Add(1)
		g.Expect(pool.Submit(bmc.Job{
			Key: strconv.Itoa(i), Endpoint: endpoint(host), Done: func(error) { wg.Done() },
			Run: func(context.Context, bmc.Client) error {
				count := func(by int) int {
					mu.Lock()
					defer mu.Unlock()
					running[host] += by
					all += by
					most = max(most, all)
					return running[host]
				}
				if count(1) > 1 {
					t.Errorf("two jobs at once for BMC %s", host)
				}
				count(-1)
				return nil
			},
		})).To(BeTrue())
	}
	wg.Wait()
	g.Expect(most).To(BeNumerically("<=", limit))
}

// TestConnections: a connection is kept for the next job with the same credentials, and is closed when it is idle,
// after an error, and when the pool is closed.
func TestConnections(t *testing.T) {
	g := NewWithT(t)
	fake := &bmctest.Fake{}
	pool := bmc.NewPool(map[string]bmc.Driver{"fake": {Open: fake.Open}}, bmc.PoolOptions{Idle: time.Hour})
	opens := func() (n int) {
		for _, call := range fake.Calls() {
			if call == "Open" {
				n++
			}
		}
		return n
	}
	job := bmc.Job{Key: "a", Endpoint: endpoint("a")}
	g.Expect(result(t, pool, job, poll)).To(Succeed())
	g.Expect(result(t, pool, job, poll)).To(Succeed())
	g.Expect(opens()).To(Equal(1))
	job.Endpoint.Password = "new"
	g.Expect(result(t, pool, job, poll)).To(Succeed())
	g.Expect(opens()).To(Equal(2))
	g.Expect(fake.Opened()).To(Equal(1))
	nonsense := &bmc.Error{Kind: bmc.Failed, Op: "Read", Err: errors.New("nonsense")}
	g.Expect(result(t, pool, job, func(context.Context, bmc.Client) error { return nonsense })).NotTo(Succeed())
	g.Expect(fake.Opened()).To(BeZero(), "a connection that failed is not used again")
	g.Expect(result(t, pool, job, poll)).To(Succeed())
	pool.Close()
	g.Expect(fake.Opened()).To(BeZero())
	g.Expect(pool.Submit(job)).To(BeFalse())

	idle := newPool(t, bmc.Driver{Open: fake.Open, KeepIdle: func(bmc.Endpoint) time.Duration { return time.Millisecond }}, bmc.PoolOptions{Idle: 4 * time.Millisecond})
	g.Expect(result(t, idle, job, poll)).To(Succeed())
	g.Eventually(fake.Opened).Should(BeZero())
	g.Expect(result(t, idle, job, poll)).To(Succeed())
}

// TestLogout: when a pool is closed, it has ended all its sessions on the BMCs.
func TestLogout(t *testing.T) {
	g := NewWithT(t)
	driver := &redfish.Driver{Permit: bmctest.Loopback}
	pool := bmc.NewPool(map[string]bmc.Driver{redfish.SchemeInsecure: driver.Driver()}, bmc.PoolOptions{})
	machines := make([]*bmctest.Machine, 20)
	for i := range machines {
		machines[i] = bmctest.NewMachine(bmctest.Options{Username: "admin", Password: "secret"})
		server := httptest.NewServer(machines[i])
		defer server.Close()
		u, err := url.Parse(server.URL)
		g.Expect(err).NotTo(HaveOccurred())
		u.Scheme, u.RawQuery = redfish.SchemeInsecure, "auth=session"
		job := bmc.Job{Key: u.Host, Endpoint: bmc.Endpoint{URL: u, Username: "admin", Password: "secret"}}
		for range 3 {
			g.Expect(result(t, pool, job, poll)).To(Succeed())
		}
		g.Expect(machines[i].Sessions()).To(Equal(1), "three jobs share one")
	}
	pool.Close()
	driver.CloseIdleConnections()
	for _, machine := range machines {
		g.Expect(machine.Sessions()).To(BeZero())
	}
}

// TestLogoutLater: a failed logout is repeated when the BMC works again, so that no session remains after an outage.
func TestLogoutLater(t *testing.T) {
	g := NewWithT(t)
	driver := &redfish.Driver{Permit: bmctest.Loopback}
	pool := bmc.NewPool(map[string]bmc.Driver{redfish.SchemeInsecure: driver.Driver()}, bmc.PoolOptions{})
	t.Cleanup(pool.Close)
	defer driver.CloseIdleConnections()
	machine := bmctest.NewMachine(bmctest.Options{Username: "admin", Password: "secret"})
	server := httptest.NewServer(machine)
	defer server.Close()
	u, err := url.Parse(server.URL)
	g.Expect(err).NotTo(HaveOccurred())
	u.Scheme, u.RawQuery = redfish.SchemeInsecure, "auth=session"
	job := bmc.Job{Key: u.Host, Endpoint: bmc.Endpoint{URL: u, Username: "admin", Password: "secret"}}
	g.Expect(result(t, pool, job, poll)).To(Succeed())
	g.Expect(machine.Misbehave(bmctest.Busy503, -1)).To(Succeed())
	g.Expect(result(t, pool, job, poll)).NotTo(Succeed())
	g.Expect(machine.Misbehave(bmctest.Busy503, 0)).To(Succeed())
	g.Expect(machine.Sessions()).To(Equal(1), "it could not be ended")
	job.IgnoreBackoff = true
	g.Expect(result(t, pool, job, poll)).To(Succeed())
	g.Expect(machine.Sessions()).To(Equal(1), "the old one is gone, and the new one is kept for the next job")
	pool.Close()
	g.Expect(machine.Sessions()).To(BeZero())
}

// TestRefusedLogin: a refused login is repeated only with other credentials or with IgnoreBackoff.
func TestRefusedLogin(t *testing.T) {
	g := NewWithT(t)
	var logins atomic.Int32
	fake := &bmctest.Fake{}
	pool := newPool(t, bmc.Driver{Open: func(ctx context.Context, e bmc.Endpoint) (bmc.Client, error) {
		logins.Add(1)
		if e.Password != "right" {
			return nil, &bmc.Error{Kind: bmc.Unauthorized, Op: "Log in", Err: errors.New("refused")}
		}
		return fake.Open(ctx, e)
	}}, bmc.PoolOptions{})
	job := bmc.Job{Key: "a", Endpoint: endpoint("a")}
	other := bmc.Job{Key: "b", Endpoint: endpoint("a")} // another system of the same BMC
	other.Endpoint.URL = &url.URL{Scheme: "fake", Host: "a", Path: "/2"}
	err := result(t, pool, job, poll)
	g.Expect(bmc.KindOf(err)).To(Equal(bmc.Unauthorized))
	g.Expect(bmc.RetryAfter(err)).To(BeNumerically(">=", 2*time.Minute))
	for range 20 {
		g.Expect(bmc.KindOf(result(t, pool, job, poll))).To(Equal(bmc.Unauthorized))
		g.Expect(bmc.KindOf(result(t, pool, other, poll))).To(Equal(bmc.Unauthorized))
	}
	g.Expect(logins.Load()).To(Equal(int32(1)))

	again := job
	again.IgnoreBackoff = true
	err = result(t, pool, again, poll)
	g.Expect(logins.Load()).To(Equal(int32(2)))
	g.Expect(bmc.RetryAfter(err)).To(BeNumerically(">=", 10*time.Minute), "ever more slowly")
	err = result(t, pool, again, poll)
	g.Expect(bmc.RetryAfter(err)).To(BeNumerically(">=", time.Hour))

	job.Endpoint.Password = "right"
	g.Expect(result(t, pool, job, poll)).To(Succeed(), "a changed password is tried at once")
}

// TestRefusedLogins: refusals of two hosts of one BMC with different passwords are kept separately.
func TestRefusedLogins(t *testing.T) {
	g := NewWithT(t)
	var refused atomic.Int32
	fake := &bmctest.Fake{}
	pool := newPool(t, bmc.Driver{Open: func(ctx context.Context, e bmc.Endpoint) (bmc.Client, error) {
		if e.Password != "right" {
			refused.Add(1)
			return nil, &bmc.Error{Kind: bmc.Unauthorized, Op: "Log in", Err: errors.New("refused")}
		}
		return fake.Open(ctx, e)
	}}, bmc.PoolOptions{})
	stale, right := bmc.Job{Key: "a", Endpoint: endpoint("a")}, bmc.Job{Key: "b", Endpoint: endpoint("a")}
	right.Endpoint.Password = "right"
	for range 5 {
		g.Expect(bmc.KindOf(result(t, pool, stale, poll))).To(Equal(bmc.Unauthorized))
		g.Expect(result(t, pool, right, poll)).To(Succeed())
	}
	g.Expect(refused.Load()).To(Equal(int32(1)))
}

// TestLockout: hosts of any namespace, whatever name they give a BMC, cause at most two refused logins of a user in ten minutes, also with ever new passwords. Credentials that
// were accepted before log in all the time, and so does another user.
func TestLockout(t *testing.T) {
	g := NewWithT(t)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { g.Expect(listener.Close()).To(Succeed()) }()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	g.Expect(err).NotTo(HaveOccurred())
	var refused atomic.Int32
	fake := &bmctest.Fake{}
	driver := bmc.Driver{Open: func(ctx context.Context, e bmc.Endpoint) (bmc.Client, error) {
		conn, err := bmctest.Loopback.Dial(ctx, time.Minute, "tcp4", e.URL.Host)
		if err != nil {
			return nil, bmc.Wrap("Open", err)
		}
		defer func() { _ = conn.Close() }()
		if e.Password != "right" {
			refused.Add(1)
			return nil, &bmc.Error{Kind: bmc.Unauthorized, Op: "Log in", Err: errors.New("refused")}
		}
		return fake.Open(ctx, e)
	}}
	pool := newPool(t, driver, bmc.PoolOptions{Idle: time.Millisecond})
	login := func(key, host, user, password string) error {
		e := bmc.Endpoint{URL: &url.URL{Scheme: "fake", Host: net.JoinHostPort(host, port)}, Username: user, Password: password}
		return result(t, pool, bmc.Job{Key: key, Endpoint: e, IgnoreBackoff: key == "new"}, poll)
	}
	g.Expect(login("owner", "127.0.0.1", "root", "right")).To(Succeed())
	for i := range 20 {
		err := login("tenant", []string{"127.0.0.1", "localhost"}[i%2], "root", strconv.Itoa(i))
		g.Expect(bmc.KindOf(err)).To(Equal(bmc.Unauthorized))
		if i >= 2 {
			g.Expect(err).To(MatchError(ContainSubstring("would lock the account")))
			g.Expect(bmc.RetryAfter(err)).To(BeNumerically("~", 10*time.Minute, time.Minute))
		}
		g.Expect(login("owner", "localhost", "root", "right")).To(Succeed(), "accepted before")
	}
	g.Expect(refused.Load()).To(Equal(int32(2)))
	g.Expect(login("other", "127.0.0.1", "operator", "right")).To(Succeed(), "another user")
	for range 4 {
		err := login("new", "127.0.0.1", "root", "also right")
		g.Expect(bmc.KindOf(err)).To(Equal(bmc.Unauthorized), "credentials that were never accepted wait")
		g.Expect(bmc.RetryAfter(err)).To(BeNumerically("<=", 10*time.Minute), "and not longer, since they were not tried")
	}
	g.Expect(refused.Load()).To(Equal(int32(2)))
}

// TestLockoutByRedfish: a connection that was kept open admits no more logins than new ones do.
func TestLockoutByRedfish(t *testing.T) {
	g := NewWithT(t)
	machine := bmctest.NewMachine(bmctest.Options{Name: "m", Username: "root", Password: "right"})
	var refused atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		recorder := httptest.NewRecorder()
		machine.ServeHTTP(recorder, r)
		if recorder.Code == http.StatusUnauthorized && (r.Header.Get("Authorization") != "" || r.Method == http.MethodPost) {
			refused.Add(1)
		}
		maps.Copy(w.Header(), recorder.Header())
		w.WriteHeader(recorder.Code)
		_, _ = w.Write(recorder.Body.Bytes())
	}))
	t.Cleanup(server.Close)
	_, pool, e := redfishPool(t, server)
	login := func(password string) error {
		e.Password = password
		return result(t, pool, bmc.Job{Key: "tenant", Endpoint: e}, poll)
	}
	for i := range 10 {
		g.Expect(bmc.KindOf(login(strconv.Itoa(i)))).To(Equal(bmc.Unauthorized))
	}
	g.Expect(refused.Load()).To(BeNumerically("<=", 2))
	g.Expect(refused.Load()).To(BeNumerically(">", 0))
}

// redfishPool returns a pool with the driver for Redfish, and the endpoint of the user root at a server.
func redfishPool(t *testing.T, server *httptest.Server) (*redfish.Driver, *bmc.Pool, bmc.Endpoint) {
	t.Helper()
	driver := &redfish.Driver{Permit: bmctest.Loopback}
	pool := bmc.NewPool(map[string]bmc.Driver{redfish.SchemeInsecure: driver.Driver()}, bmc.PoolOptions{})
	t.Cleanup(pool.Close)
	address := &url.URL{Scheme: redfish.SchemeInsecure, Host: server.Listener.Addr().String()}
	return driver, pool, bmc.Endpoint{URL: address, Username: "root", Password: "right"}
}

// TestConnectionAfterLogin: the first login has a connection of its own. Later jobs use those that the driver shares between BMCs and limits, also those of the client that logged in.
func TestConnectionAfterLogin(t *testing.T) {
	g := NewWithT(t)
	server := httptest.NewUnstartedServer(bmctest.NewMachine(bmctest.Options{Name: "m", Username: "root", Password: "right"}))
	var open atomic.Int32
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		open.Add(map[http.ConnState]int32{http.StateNew: 1, http.StateClosed: -1}[state])
	}
	server.Start()
	t.Cleanup(server.Close)
	driver, pool, e := redfishPool(t, server)
	g.Expect(result(t, pool, bmc.Job{Key: "a", Endpoint: e}, poll)).To(Succeed())
	g.Eventually(open.Load).Should(BeZero(), "that of the first login")
	g.Expect(result(t, pool, bmc.Job{Key: "a", Endpoint: e}, poll)).To(Succeed())
	driver.CloseIdleConnections()
	g.Eventually(open.Load).Should(BeZero())
}

// TestForeignErrors: an error that is not from the BMC starts no backoff.
func TestForeignErrors(t *testing.T) {
	g := NewWithT(t)
	fake := &bmctest.Fake{}
	pool := newPool(t, bmc.Driver{Open: fake.Open}, bmc.PoolOptions{})
	job := bmc.Job{Key: "a", Endpoint: endpoint("a")}
	foreign := fmt.Errorf("read the host: %w", &net.OpError{Op: "dial", Err: errors.New("the API server is away")})
	g.Expect(result(t, pool, job, func(context.Context, bmc.Client) error { return foreign })).To(Equal(foreign))
	g.Expect(result(t, pool, job, poll)).To(Succeed(), "the BMC is not left alone")
	g.Expect(fake.Calls()).To(Equal([]string{"Open", "PowerState"}), "nor is its connection dropped")
}

// TestChangedScheme: a job with another scheme gets that scheme's driver, even while the old connection is being closed.
func TestChangedScheme(t *testing.T) {
	g := NewWithT(t)
	var wrong atomic.Int32
	driver := func(scheme string) bmc.Driver {
		fake := &bmctest.Fake{}
		return bmc.Driver{
			Open: func(ctx context.Context, e bmc.Endpoint) (bmc.Client, error) {
				if e.URL.Scheme != scheme {
					wrong.Add(1)
				}
				return fake.Open(ctx, e)
			},
			KeepIdle: func(bmc.Endpoint) time.Duration { return time.Nanosecond },
		}
	}
	pool := bmc.NewPool(map[string]bmc.Driver{"fake": driver("fake"), "other": driver("other")}, bmc.PoolOptions{Idle: 4 * time.Millisecond, Concurrency: 1})
	t.Cleanup(pool.Close)
	for range 50 {
		for _, scheme := range []string{"fake", "other"} {
			job := bmc.Job{Key: "a", Endpoint: endpoint("a")}
			job.Endpoint.URL.Scheme = scheme
			g.Expect(result(t, pool, job, poll)).To(Succeed())
		}
	}
	g.Expect(wrong.Load()).To(BeZero())
}

// TestUnreachable: after an error, jobs of the BMC end at once until the backoff is over.
func TestUnreachable(t *testing.T) {
	g := NewWithT(t)
	fake := &bmctest.Fake{Errors: map[string]error{"Open": context.DeadlineExceeded}}
	pool := newPool(t, bmc.Driver{Open: fake.Open}, bmc.PoolOptions{})
	job := bmc.Job{Key: "a", Endpoint: endpoint("a")}
	for range 5 {
		err := result(t, pool, job, poll)
		g.Expect(bmc.KindOf(err)).To(Equal(bmc.Unreachable))
		g.Expect(bmc.RetryAfter(err)).To(BeNumerically(">", 0))
	}
	g.Expect(fake.Calls()).To(Equal([]string{"Open"}))
}

// TestRate: the request rate is limited, with bursts of half as many.
func TestRate(t *testing.T) {
	g := NewWithT(t)
	fake := &bmctest.Fake{}
	var e bmc.Endpoint
	pool := newPool(t, bmc.Driver{Open: func(ctx context.Context, opened bmc.Endpoint) (bmc.Client, error) {
		e = opened
		return fake.Open(ctx, opened)
	}}, bmc.PoolOptions{Rate: 4, Timeout: time.Minute})
	g.Expect(result(t, pool, bmc.Job{Key: "a", Endpoint: endpoint("a")}, func(ctx context.Context, _ bmc.Client) error {
		ctx, cancel := context.WithTimeout(ctx, 200*time.Millisecond) // the third would have to wait for 250 ms
		defer cancel()
		return errors.Join(e.Wait(ctx), e.Wait(ctx), e.Wait(ctx))
	})).To(MatchError(ContainSubstring("would exceed context deadline")))
}

// TestTarPits: 200 BMCs that accept connections and never answer do not delay 800 others: their jobs end before those of the 200.
func TestTarPits(t *testing.T) {
	g := NewWithT(t)
	const all, pits = 1000, 200
	driver := &redfish.Driver{Permit: bmctest.Loopback, RequestTimeout: time.Hour}
	pool := bmc.NewPool(map[string]bmc.Driver{redfish.SchemeInsecure: driver.Driver()}, bmc.PoolOptions{Timeout: time.Hour, SlotTimeout: 200 * time.Millisecond})
	var well, bad atomic.Int32
	healthy := make(chan error, all)
	servers := make([]*httptest.Server, 0, all)
	for i := range all {
		machine := bmctest.NewMachine(bmctest.Options{Name: strconv.Itoa(i), Username: "admin", Password: "secret"})
		pit := i%(all/pits) == 0
		if pit {
			g.Expect(machine.Misbehave([]bmctest.Fault{bmctest.Hang, bmctest.Drip}[i/5%2], -1)).To(Succeed())
		}
		server := httptest.NewServer(machine)
		servers = append(servers, server)
		u, err := url.Parse(server.URL)
		g.Expect(err).NotTo(HaveOccurred())
		u.Scheme = redfish.SchemeInsecure
		g.Expect(pool.Submit(bmc.Job{
			Key: u.Host, Endpoint: bmc.Endpoint{URL: u, Username: "admin", Password: "secret"}, Run: poll,
			Done: func(err error) {
				if pit {
					bad.Add(1)
					return
				}
				well.Add(1)
				healthy <- err
			},
		})).To(BeTrue())
	}
	for range all - pits {
		g.Expect(<-healthy).To(Succeed())
	}
	g.Expect(bad.Load()).To(BeZero(), "the tar pits are still being waited for")
	pool.Close()
	g.Expect(bad.Load()).To(Equal(int32(pits)), "each job ends")
	driver.CloseIdleConnections()
	for _, server := range servers {
		server.CloseClientConnections()
		server.Close()
	}
}

// TestFaultsOfOthers: a host with the wrong protocol or credentials of a BMC does not block another host's jobs.
func TestFaultsOfOthers(t *testing.T) {
	for name, change := range map[string]func(*bmc.Endpoint){
		"protocol":    func(e *bmc.Endpoint) { e.URL.Scheme = "other" },
		"credentials": func(e *bmc.Endpoint) { e.Username = "stranger" },
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			fake := &bmctest.Fake{}
			open := func(ctx context.Context, e bmc.Endpoint) (bmc.Client, error) {
				if e.URL.Scheme == "other" || e.Username == "stranger" {
					return nil, &bmc.Error{Kind: bmc.Unreachable, Op: "Open", Err: errors.New("connection refused")}
				}
				return fake.Open(ctx, e)
			}
			pool := bmc.NewPool(map[string]bmc.Driver{"fake": {Open: open}, "other": {Open: open}}, bmc.PoolOptions{})
			t.Cleanup(pool.Close)
			stranger, own := bmc.Job{Key: "b", Endpoint: endpoint("a")}, bmc.Job{Key: "a", Endpoint: endpoint("a")}
			change(&stranger.Endpoint)
			for range 3 {
				err := result(t, pool, stranger, poll)
				g.Expect(bmc.KindOf(err)).To(Equal(bmc.Unreachable))
				g.Expect(bmc.RetryAfter(err)).To(BeNumerically(">", 0))
				g.Expect(result(t, pool, own, poll)).To(Succeed())
			}
		})
	}
}
