package bmc_test

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
)

// calls keeps what a pool tells of calls.
type calls struct {
	mu  sync.Mutex
	all []bmc.Call
}

func (c *calls) observe(call bmc.Call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, call)
}

func (c *calls) operations() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for _, call := range c.all {
		out = append(out, call.Operation)
	}
	return out
}

// interfaces are what a client may be.
var interfaces = []reflect.Type{
	reflect.TypeFor[bmc.Client](), reflect.TypeFor[bmc.VirtualMedia](), reflect.TypeFor[bmc.SecureBooter](), reflect.TypeFor[bmc.Monitor](),
}

// everyCall calls every method of a client that asks its BMC something, and returns their names.
func everyCall(ctx context.Context, c bmc.Client) []string {
	var names []string
	for _, i := range interfaces {
		for method := range i.Methods() {
			if method.Name == "BootMethods" || method.Name == "Close" {
				continue // the first asks nothing, and the second is the pool's
			}
			in := []reflect.Value{reflect.ValueOf(ctx)}
			for a := 1; a < method.Type.NumIn(); a++ {
				in = append(in, reflect.Zero(method.Type.In(a)))
			}
			reflect.ValueOf(c).MethodByName(method.Name).Call(in)
			names = append(names, method.Name)
		}
	}
	return names
}

// TestObserve: every call of a driver is told once, with its name and how it ended, and what the driver cannot do is no call.
func TestObserve(t *testing.T) {
	g := NewWithT(t)
	seen := &calls{}
	pool := newPool(t, bmc.Driver{Open: (&bmctest.Fake{}).Open}, bmc.PoolOptions{Observe: seen.observe})
	var want []string
	g.Expect(result(t, pool, bmc.Job{Key: "a", Endpoint: endpoint("a")}, func(ctx context.Context, c bmc.Client) error {
		want = everyCall(ctx, c)
		return nil
	})).To(Succeed())
	g.Expect(len(want)).To(BeNumerically(">=", 19))
	g.Expect(seen.operations()).To(Equal(append([]string{"Open"}, want...)))
	for _, c := range seen.all {
		g.Expect(c.Scheme).To(Equal("fake"))
		g.Expect(c.Took).To(BeNumerically(">=", 0))
	}

	// A fault that the pool knows is not asked for again.
	seen.all = nil
	wrong := &bmc.Error{Kind: bmc.Unauthorized, Op: "Open", Err: errors.New("no")}
	refusing := newPool(t, bmc.Driver{Open: func(context.Context, bmc.Endpoint) (bmc.Client, error) { return nil, wrong }}, bmc.PoolOptions{Observe: seen.observe})
	for range 3 {
		g.Expect(bmc.KindOf(result(t, refusing, bmc.Job{Key: "b", Endpoint: endpoint("b")}, poll))).To(Equal(bmc.Unauthorized))
	}
	g.Expect(seen.all).To(HaveExactElements(And(HaveField("Operation", "Open"), HaveField("Err", Equal(error(wrong))))))
}

// plain is a client without any capability beyond those that every BMC has.
type plain struct{ bmc.Client }

// TestObserveCapabilities: a client that is observed can do what it could before, and what it cannot is Unsupported.
func TestObserveCapabilities(t *testing.T) {
	g := NewWithT(t)
	seen := &calls{}
	pool := newPool(t, bmc.Driver{Open: func(ctx context.Context, e bmc.Endpoint) (bmc.Client, error) {
		c, err := (&bmctest.Fake{}).Open(ctx, e)
		return plain{c}, err
	}}, bmc.PoolOptions{Observe: seen.observe})
	err := result(t, pool, bmc.Job{Key: "a", Endpoint: endpoint("a")}, func(ctx context.Context, c bmc.Client) error {
		media, err := bmc.As[bmc.VirtualMedia](c, "Eject media")
		if err != nil {
			return err
		}
		return media.EjectMedia(ctx)
	})
	g.Expect(bmc.KindOf(err)).To(Equal(bmc.Unsupported))
	g.Expect(seen.operations()).To(Equal([]string{"Open"}))
}

// TestLoad: the pool tells what waits, what runs, and what takes long.
func TestLoad(t *testing.T) {
	g := NewWithT(t)
	release := make(chan struct{})
	pool := newPool(t, bmc.Driver{Open: (&bmctest.Fake{}).Open, Limit: 2}, bmc.PoolOptions{})
	for _, key := range []string{"a", "b", "c", "d", "e"} {
		g.Expect(pool.Submit(bmc.Job{
			Key: key, Endpoint: endpoint(key), Run: func(context.Context, bmc.Client) error { <-release; return nil }, Done: func(error) {},
		})).To(BeTrue())
	}
	g.Expect(pool.Load()).To(Equal(bmc.Load{Waiting: 3, Running: 2}))
	close(release)
	g.Eventually(pool.Load, time.Minute).Should(BeZero())
}
