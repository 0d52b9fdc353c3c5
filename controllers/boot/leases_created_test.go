package boot

import (
	"context"
	"net/netip"
	"testing"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
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
