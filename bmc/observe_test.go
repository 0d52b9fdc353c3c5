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

// calls records the calls that a pool observes.
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

// interfaces are those of a client.
var interfaces = []reflect.Type{
	reflect.TypeFor[bmc.Client](), reflect.TypeFor[bmc.VirtualMedia](), reflect.TypeFor[bmc.SecureBooter](), reflect.TypeFor[bmc.Monitor](),
	reflect.TypeFor[bmc.BootRecorder](), reflect.TypeFor[bmc.HealthReader](),
}

// as returns the client as each of the interfaces.
func as(g *WithT, c bmc.Client) []any {
	media, err := bmc.As[bmc.VirtualMedia](c, "")
	g.Expect(err).NotTo(HaveOccurred())
	secure, err := bmc.As[bmc.SecureBooter](c, "")
	g.Expect(err).NotTo(HaveOccurred())
	monitor, err := bmc.As[bmc.Monitor](c, "")
	g.Expect(err).NotTo(HaveOccurred())
	recorder, err := bmc.As[bmc.BootRecorder](c, "")
	g.Expect(err).NotTo(HaveOccurred())
	reader, err := bmc.As[bmc.HealthReader](c, "")
	g.Expect(err).NotTo(HaveOccurred())
	return []any{c, media, secure, monitor, recorder, reader}
}

// callAll calls every method of a client that sends requests to its BMC, and returns their names.
func callAll(ctx context.Context, g *WithT, c bmc.Client) []string {
	var names []string
	for n, client := range as(g, c) {
		for method := range interfaces[n].Methods() {
			if method.Name == "BootMethods" || method.Name == "Close" {
				continue // the first sends no request, and the pool calls the second
			}
			in := []reflect.Value{reflect.ValueOf(ctx)}
			for a := 1; a < method.Type.NumIn(); a++ {
				in = append(in, reflect.Zero(method.Type.In(a)))
			}
			reflect.ValueOf(client).MethodByName(method.Name).Call(in)
			names = append(names, method.Name)
		}
	}
	return names
}

// managerCalls are the methods that the manager calls (controllers/host).
var managerCalls = []string{
	"PowerState", "PowerOn", "ShutDown", "ForceOff", "BootOverride", "SetBootOverride", "Inspect", "Describe", "InsertMedia", "EjectMedia",
	"ReadHealth", "ReadLogs",
}

// TestObserve: every call that the manager makes is observed once, with its operation and its result. Other calls work and are not observed.
func TestObserve(t *testing.T) {
	g := NewWithT(t)
	seen := &calls{}
	fake := &bmctest.Fake{}
	pool := newPool(t, bmc.Driver{Open: fake.Open}, bmc.PoolOptions{Observe: seen.observe})
	var called []string
	g.Expect(result(t, pool, bmc.Job{Key: "a", Endpoint: endpoint("a")}, func(ctx context.Context, c bmc.Client) error {
		called = callAll(ctx, g, c)
		return nil
	})).To(Succeed())
	g.Expect(called).To(ContainElements(managerCalls))
	g.Expect(called).To(ContainElements("Cycle", "Media", "SetSecureBoot", "Sensors", "LastBoot"))
	g.Expect(seen.operations()).To(ConsistOf(append([]string{"Open"}, managerCalls...)))
	for _, c := range seen.all {
		g.Expect(c.Scheme).To(Equal("fake"))
		g.Expect(c.Took).To(BeNumerically(">=", 0))
	}

	// A job that a backoff rejects makes no call.
	seen.all = nil
	wrong := &bmc.Error{Kind: bmc.Unauthorized, Op: "Open", Err: errors.New("no")}
	refusing := newPool(t, bmc.Driver{Open: func(context.Context, bmc.Endpoint) (bmc.Client, error) { return nil, wrong }}, bmc.PoolOptions{Observe: seen.observe})
	for range 3 {
		g.Expect(bmc.KindOf(result(t, refusing, bmc.Job{Key: "b", Endpoint: endpoint("b")}, poll))).To(Equal(bmc.Unauthorized))
	}
	g.Expect(seen.all).To(HaveExactElements(And(HaveField("Operation", "Open"), HaveField("Err", Equal(error(wrong))))))
}

// plain is a client without optional interfaces.
type plain struct{ bmc.Client }

// TestObserveCapabilities: an interface that the driver does not implement is Unsupported for an observed client too.
func TestObserveCapabilities(t *testing.T) {
	g := NewWithT(t)
	seen := &calls{}
	pool := newPool(t, bmc.Driver{Open: func(ctx context.Context, e bmc.Endpoint) (bmc.Client, error) {
		c, err := (&bmctest.Fake{}).Open(ctx, e)
		return plain{c}, err
	}}, bmc.PoolOptions{Observe: seen.observe})
	err := result(t, pool, bmc.Job{Key: "a", Endpoint: endpoint("a")}, func(ctx context.Context, c bmc.Client) error {
		_, ok := c.(bmc.VirtualMedia)
		g.Expect(ok).To(BeFalse())
		reader, err := bmc.As[bmc.HealthReader](c, "Read the health")
		g.Expect(err).NotTo(HaveOccurred())
		_, err = reader.ReadHealth(ctx, bmc.HealthRequest{})
		g.Expect(bmc.KindOf(err)).To(Equal(bmc.Unsupported))
		_, err = reader.ReadLogs(ctx, nil)
		g.Expect(bmc.KindOf(err)).To(Equal(bmc.Unsupported))
		media, err := bmc.As[bmc.VirtualMedia](c, "Eject media")
		if err != nil {
			return err
		}
		return media.EjectMedia(ctx)
	})
	g.Expect(bmc.KindOf(err)).To(Equal(bmc.Unsupported))
	g.Expect(seen.operations()).To(Equal([]string{"Open"}))
}

// TestLoad: the pool counts the jobs that wait, run, and are slow.
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
