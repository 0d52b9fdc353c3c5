package boot

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/rapidtest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
)

// lagging reads hosts and Leases in the state of the last update of each kind, and writes to the API server.
type lagging struct {
	client.Client // the API server

	hosts  []v1alpha1.BareMetalHost
	leases []coordinationv1.Lease
}

func (l *lagging) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	for i := range l.leases {
		if client.ObjectKeyFromObject(&l.leases[i]) == key {
			l.leases[i].DeepCopyInto(o.(*coordinationv1.Lease))
			return nil
		}
	}
	return apierrors.NewNotFound(coordinationv1.Resource("leases"), key.Name)
}

func (l *lagging) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	match := func(o client.Object) bool {
		options := (&client.ListOptions{}).ApplyOptions(opts)
		if options.FieldSelector == nil {
			return true
		}
		by := options.FieldSelector.Requirements()[0]
		return slices.Contains(extractors[indexed(o, by.Field)](o), by.Value)
	}
	switch list := list.(type) {
	case *v1alpha1.BareMetalHostList:
		for i := range l.hosts {
			if match(&l.hosts[i]) {
				list.Items = append(list.Items, *l.hosts[i].DeepCopy())
			}
		}
	case *coordinationv1.LeaseList:
		for i := range l.leases {
			if match(&l.leases[i]) {
				list.Items = append(list.Items, *l.leases[i].DeepCopy())
			}
		}
	}
	return nil
}

// fields are the indexes of a cache by what they index.
type fields map[string]client.IndexerFunc

func (f fields) IndexField(_ context.Context, o client.Object, field string, extract client.IndexerFunc) error {
	f[indexed(o, field)] = extract
	return nil
}

func indexed(o client.Object, field string) string { return fmt.Sprintf("%T %s", o, field) }

var extractors = func() fields {
	f := fields{}
	if err := errors.Join(controllers.IndexHosts(context.Background(), f), IndexLeases(context.Background(), f)); err != nil {
		panic(err)
	}
	return f
}()

// nic is a network interface of a host.
type nic struct {
	host types.UID
	mac  string
}

// nicsOf returns the interfaces that a host boots from.
func nicsOf(h *v1alpha1.BareMetalHost) []nic {
	var all []nic
	for _, mac := range h.Spec.BootMACAddresses {
		all = append(all, nic{h.UID, mac})
	}
	return all
}

func drawNIC(t *rapid.T, h *v1alpha1.BareMetalHost) nic {
	return rapid.SampledFrom(nicsOf(h)).Draw(t, "interface")
}

// world is an API server with some boot servers, each with a cache of its own.
type world struct {
	t       *rapid.T
	api     client.Client
	boots   []*Booter
	caches  []*lagging
	pool    pxe.Pool
	created int
	// has is the last answer for each interface.
	has map[nic]netip.Addr
	// busy is true while another action runs between the steps of an action.
	busy bool
}

func newWorld(t *rapid.T) *world {
	// Two addresses for up to five hosts with up to two interfaces: in most runs an address has to be taken over.
	w := &world{t: t, pool: pool("192.0.2.0/24", "192.0.2.10-192.0.2.11"), has: map[nic]netip.Addr{}}
	w.api = interceptor.NewClient(newFake(), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			w.between() //nolint:contextcheck // what happens between is no part of the request
			return c.Create(ctx, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			w.between() //nolint:contextcheck // what happens between is no part of the request
			return c.Update(ctx, o, opts...)
		},
	})
	for range 3 {
		cache := &lagging{Client: w.api}
		w.caches = append(w.caches, cache)
		w.boots = append(w.boots, New(&Booter{Client: cache, APIReader: w.api, Namespace: "capbm-system", Log: logr.Discard()}))
	}
	return w
}

// between lets another boot server act just before a write.
func (w *world) between() {
	if !w.busy && rapid.Bool().Draw(w.t, "between") {
		w.busy = true
		w.ask(w.t)
		w.busy = false
	}
}

func (w *world) must(err error) {
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) liveHosts() []v1alpha1.BareMetalHost {
	var hosts v1alpha1.BareMetalHostList
	w.must(w.api.List(context.Background(), &hosts))
	return hosts.Items
}

func (w *world) drawHost(t *rapid.T) *v1alpha1.BareMetalHost {
	hosts := w.liveHosts()
	if len(hosts) == 0 {
		t.Skip("no hosts") // rapid draws another step
	}
	return &hosts[rapid.IntRange(0, len(hosts)-1).Draw(t, "host")]
}

// updateCache updates the cache of a boot server for one kind.
func (w *world) updateCache(t *rapid.T) {
	cache := w.caches[rapid.IntRange(0, len(w.caches)-1).Draw(t, "cache")]
	if rapid.Bool().Draw(t, "hosts") {
		w.updateHosts(cache)
	} else {
		w.updateLeases(cache)
	}
}

func (w *world) updateHosts(cache *lagging) { cache.hosts = w.liveHosts() }

func (w *world) updateLeases(cache *lagging) {
	var leases coordinationv1.LeaseList
	w.must(w.api.List(context.Background(), &leases))
	cache.leases = leases.Items
}

// create registers a server under an earlier or a new name, with one or both of the MAC addresses that belong to the name.
func (w *world) create(t *rapid.T) {
	number := rapid.IntRange(1, 5).Draw(t, "number")
	if slices.ContainsFunc(w.liveHosts(), func(h v1alpha1.BareMetalHost) bool { return h.Name == fmt.Sprint("h", number) }) {
		t.Skip("it is there") // rapid draws another step
	}
	w.created++
	h := aHost(fmt.Sprint("h", number), byte(number))
	h.UID = types.UID(strconv.Itoa(w.created))
	second := net.HardwareAddr{0x52, 0x54, 2, 0, 0, byte(number)}.String()
	if rapid.Bool().Draw(t, "second interface") {
		h.Spec.BootMACAddresses = append(h.Spec.BootMACAddresses, second)
	}
	w.reserve(t, h)
	w.must(w.api.Create(context.Background(), h))
}

func (w *world) reserve(t *rapid.T, h *v1alpha1.BareMetalHost) {
	h.Spec.BootAddresses = nil
	for n := range rapid.IntRange(0, 2).Draw(t, "reserved") {
		h.Spec.BootAddresses = append(h.Spec.BootAddresses, fmt.Sprintf("192.0.2.%d", 10+(n+rapid.IntRange(0, 1).Draw(t, "address"))%3)) // the last is in no range
	}
	h.Spec.BootAddresses = slices.Compact(h.Spec.BootAddresses)
}

func (w *world) remove(t *rapid.T) { w.must(w.api.Delete(context.Background(), w.drawHost(t))) }

func (w *world) changeReservation(t *rapid.T) {
	h := w.drawHost(t)
	w.reserve(t, h)
	w.must(w.api.Update(context.Background(), h))
}

// changeMAC gives a host another network interface, which no host ever had, in place of one that it has.
func (w *world) changeMAC(t *rapid.T) {
	h := w.drawHost(t)
	w.created++
	at := rapid.IntRange(0, len(h.Spec.BootMACAddresses)-1).Draw(t, "interface")
	h.Spec.BootMACAddresses[at] = net.HardwareAddr{0x52, 0x54, 1, 0, byte(w.created >> 8), byte(w.created)}.String()
	w.must(w.api.Update(context.Background(), h))
}

// ask lets a server ask a boot server for the address that it has, for another, or for any.
func (w *world) ask(t *rapid.T) {
	hosts := w.liveHosts()
	if len(hosts) == 0 {
		return
	}
	h := &hosts[rapid.IntRange(0, len(hosts)-1).Draw(t, "host")]
	from := drawNIC(t, h)
	wanted := w.has[from]
	switch rapid.IntRange(0, 3).Draw(t, "wanted") {
	case 0:
		wanted = netip.Addr{}
	case 1:
		wanted = netip.MustParseAddr(fmt.Sprintf("192.0.2.%d", rapid.IntRange(9, 12).Draw(t, "address")))
	}
	w.askFor(rapid.IntRange(0, len(w.boots)-1).Draw(t, "boot"), from, wanted)
}

func (w *world) askFor(boot int, from nic, wanted netip.Addr) bool {
	mac, err := net.ParseMAC(from.mac)
	w.must(err)
	known, err := w.boots[boot].lookup.hostOf(context.Background(), mac)
	w.must(err)
	lease, err := w.boots[boot].Lease(context.Background(), pxe.LeaseRequest{MAC: mac, Pool: w.pool, Wanted: wanted})
	if err != nil {
		return false
	}
	w.t.Logf("boot server %d gives %s to %s (new: %v)", boot, lease.Address, from, lease.New)
	// A boot server whose cache still shows a deleted host answers for that one.
	if known.UID == from.host {
		w.has[from] = lease.Address
	}
	w.check()
	return true
}

// decline lets a server decline its address.
func (w *world) decline(t *rapid.T) {
	from := drawNIC(t, w.drawHost(t))
	mac, err := net.ParseMAC(from.mac)
	w.must(err)
	boot := w.boots[rapid.IntRange(0, len(w.boots)-1).Draw(t, "boot")]
	if address := w.has[from]; address.IsValid() && boot.Decline(context.Background(), mac, address) == nil {
		delete(w.has, from)
	}
}

// pass lets all probations end. By then every cache is up to date, and every server has asked again for its address, or stopped using
// it after a refusal.
func (w *world) pass(*rapid.T) {
	w.busy = true
	defer func() { w.busy = false }()
	for i, cache := range w.caches {
		w.updateHosts(cache)
		w.updateLeases(cache)
		for _, h := range w.liveHosts() {
			for _, from := range nicsOf(&h) {
				if has := w.has[from]; has.IsValid() && !w.askFor(i, from, has) {
					delete(w.has, from)
				}
			}
		}
	}
	age(w.t, w.api, replacedProbation+time.Minute)
	for _, cache := range w.caches {
		w.updateLeases(cache)
	}
}

// check is the property: no two interfaces have one address, also not two of one host.
func (w *world) check() {
	owner := map[netip.Addr]nic{}
	for _, h := range w.liveHosts() {
		for _, n := range nicsOf(&h) {
			address, ok := w.has[n]
			if !ok {
				continue
			}
			if other, given := owner[address]; given {
				w.t.Fatalf("%s is given to %s and to %s", address, other, n)
			}
			owner[address] = n
		}
	}
}

// TestOneAddressOneHost: no address is leased to two interfaces, whatever boot servers with stale caches do in whatever order.
func TestOneAddressOneHost(t *testing.T) {
	rapidtest.Checks(t, 12) // each has hundreds of operations
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		for range 3 {
			w.create(t)
		}
		for _, cache := range w.caches {
			w.updateHosts(cache)
		}
		t.Repeat(map[string]func(*rapid.T){
			"create": w.create, "remove": w.remove, "reserve": w.changeReservation, "MAC": w.changeMAC, "look": w.updateCache, "look again": w.updateCache,
			"ask": w.ask, "ask again": w.ask, "ask once more": w.ask, "decline": w.decline, "pass": w.pass,
		})
	})
}
