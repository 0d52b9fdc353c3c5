package bmc_test

import (
	"context"
	"errors"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
)

func endpoint(host string) bmc.Endpoint {
	return bmc.Endpoint{URL: &url.URL{Scheme: "fake", Host: host}}
}

// TestPoolOneJobAtATime: a key has one job at a time, and so has a BMC that two keys name.
func TestPoolOneJobAtATime(t *testing.T) {
	g := NewWithT(t)
	pool := bmc.NewPool(map[string]bmc.OpenFunc{"fake": (&bmctest.Fake{}).Open}, bmc.PoolOptions{})
	defer pool.Close()

	release, started := make(chan struct{}), make(chan struct{})
	var atOnce, most atomic.Int32
	done := make(chan error, 3)
	run := func(context.Context, bmc.Client) error {
		if n := atOnce.Add(1); n > most.Load() {
			most.Store(n)
		}
		started <- struct{}{}
		<-release
		atOnce.Add(-1)
		return nil
	}
	job := func(key string) bmc.Job {
		return bmc.Job{Key: key, Endpoint: endpoint("bmc-1"), Run: run, Done: func(err error) { done <- err }}
	}
	g.Expect(pool.Submit(job("a"))).To(BeTrue())
	<-started
	g.Expect(pool.Submit(job("a"))).To(BeFalse())
	g.Expect(pool.Submit(job("b"))).To(BeTrue())
	g.Expect(pool.Busy("b")).To(BeTrue())
	release <- struct{}{}
	<-started
	release <- struct{}{}
	g.Expect(<-done).To(Succeed())
	g.Expect(<-done).To(Succeed())
	g.Expect(most.Load()).To(Equal(int32(1)))
	g.Eventually(func() bool { return pool.Busy("a") || pool.Busy("b") }).Should(BeFalse())
}

// TestPoolDeadBMCsDelayNoOther: more dead BMCs than the pool speaks to at once don't keep a living one waiting.
func TestPoolDeadBMCsDelayNoOther(t *testing.T) {
	g := NewWithT(t)
	dead := &bmctest.Fake{Block: make(chan struct{})}
	living := &bmctest.Fake{}
	pool := bmc.NewPool(map[string]bmc.OpenFunc{"dead": dead.Open, "fake": living.Open}, bmc.PoolOptions{Concurrency: 2, Timeout: 100 * time.Millisecond})
	defer pool.Close()

	nothing := func(context.Context, bmc.Client) error { return nil }
	for round := range 2 { // the first round teaches the pool which BMCs are dead
		var wg sync.WaitGroup
		for _, host := range []string{"d1", "d2", "d3", "d4", "d5", "d6"} {
			wg.Add(1)
			target := endpoint(host)
			target.URL.Scheme = "dead"
			g.Expect(pool.Submit(bmc.Job{Key: host, Endpoint: target, Run: nothing, Done: func(err error) {
				g.Expect(bmc.KindOf(err)).To(Equal(bmc.Unreachable))
				wg.Done()
			}})).To(BeTrue())
		}
		if round == 1 {
			done := make(chan error)
			g.Expect(pool.Submit(bmc.Job{Key: "alive", Endpoint: endpoint("alive"), Run: nothing, Done: func(err error) { done <- err }})).To(BeTrue())
			g.Expect(<-done).To(Succeed())
			g.Expect(pool.Busy("d6")).To(BeTrue(), "the dead ones are still waited for")
		}
		wg.Wait()
	}
}

func TestPoolErrors(t *testing.T) {
	g := NewWithT(t)
	fake := &bmctest.Fake{Errors: map[string]error{"Open": &bmc.Error{Kind: bmc.Unauthorized, Op: "Connect", Err: errors.New("no")}}}
	pool := bmc.NewPool(map[string]bmc.OpenFunc{"fake": fake.Open}, bmc.PoolOptions{})
	outcome := func(scheme string) error {
		done := make(chan error, 1)
		target := endpoint("h")
		target.URL.Scheme = scheme
		g.Expect(pool.Submit(bmc.Job{Key: "k", Endpoint: target, Done: func(err error) { done <- err }})).To(BeTrue())
		return <-done
	}
	g.Expect(bmc.KindOf(outcome("fake"))).To(Equal(bmc.Unauthorized))
	g.Expect(bmc.KindOf(outcome("telnet"))).To(Equal(bmc.Unsupported))
	pool.Close()
	g.Expect(pool.Submit(bmc.Job{Key: "k", Endpoint: endpoint("h")})).To(BeFalse())
}
