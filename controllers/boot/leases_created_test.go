package boot

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
)

// leaseless is a cache that shows no Lease objects yet.
type leaseless struct {
	client.Client

	creates int
}

func (l *leaseless) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if _, ok := o.(*coordinationv1.Lease); ok {
		return apierrors.NewNotFound(coordinationv1.Resource("leases"), key.Name)
	}
	return l.Client.Get(ctx, key, o, opts...)
}

func (l *leaseless) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if _, ok := list.(*coordinationv1.LeaseList); ok {
		return nil
	}
	return l.Client.List(ctx, list, opts...)
}

func (l *leaseless) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	l.creates++
	return l.Client.Create(ctx, o, opts...)
}

// TestCreatedLease: a REQUEST that comes before the cache shows the Lease object of the DISCOVER causes no request to the API server. What this process gave up is forgotten, and
// another process knows nothing of it.
func TestCreatedLease(t *testing.T) {
	g := NewWithT(t)
	l := newLeasing(t, aHost("h", 1))
	api := l.cache.Client
	cache := &leaseless{Client: api}
	l.cache.Client = cache
	given, err := l.ask(1)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(given).To(HavePrefix("+"))
	address := given[1:]
	for range 3 {
		g.Expect(l.ask(1, address)).To(Equal(address))
	}
	g.Expect(cache.creates).To(Equal(1))

	other := *l
	other.Booter = New(&Booter{Client: cache, APIReader: l.APIReader, Namespace: l.Namespace, Log: l.Log})
	g.Expect(other.ask(1, address)).To(Equal(address))
	g.Expect(cache.creates).To(Equal(2), "it asks the API server")

	g.Expect(l.Decline(t.Context(), hw(1), netip.MustParseAddr(address))).To(Succeed())
	another, err := l.ask(1, address)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(another).NotTo(ContainSubstring(address))

	l.cache.Client = api
	g.Expect(l.ask(1)).To(Equal(another[1:]))
	g.Expect(l.leases.created.leases).To(BeEmpty(), "the cache shows it")
}

// slowLeases is an API server that creates the first Lease object when the test lets it.
type slowLeases struct {
	*leaseless

	arrived, proceed chan error
}

func (s *slowLeases) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	if s.creates > 0 {
		return s.leaseless.Create(ctx, o, opts...)
	}
	s.creates++
	s.arrived <- nil
	if err := <-s.proceed; err != nil {
		return err
	}
	return s.Client.Create(ctx, o, opts...)
}

// TestLeaseIsCreatedOnce: firmware repeats a DISCOVER while the Lease object of the first one is created. That causes no request to the API server, and does not concern other
// servers. After a failure the next request tries again.
func TestLeaseIsCreatedOnce(t *testing.T) {
	for name, outcome := range map[string]error{"created": nil, "failed": errors.New("the API server is down")} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			l := newLeasing(t, aHost("h", 1), aHost("i", 2))
			cache := &slowLeases{&leaseless{Client: l.cache.Client}, make(chan error), make(chan error)}
			l.cache.Client = cache
			first := make(chan error)
			go func() {
				_, err := l.ask(1)
				first <- err
			}()
			<-cache.arrived
			_, err := l.ask(1)
			g.Expect(err).To(MatchError(pxe.ErrNotYet))
			g.Expect(cache.creates).To(Equal(1))
			g.Expect(l.ask(2)).To(HavePrefix("+"))
			g.Expect(cache.creates).To(Equal(2))
			g.Expect(l.events.Events).To(BeEmpty(), "nothing is wrong")
			cache.proceed <- outcome
			if outcome == nil {
				g.Expect(<-first).NotTo(HaveOccurred())
				g.Expect(l.ask(1)).To(HavePrefix("192.0.2."))
				g.Expect(cache.creates).To(Equal(2))
				return
			}
			g.Expect(<-first).To(MatchError(outcome))
			g.Expect(l.ask(1)).To(HavePrefix("+"))
			g.Expect(cache.creates).To(Equal(3))
		})
	}
}
