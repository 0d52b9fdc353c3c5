package boot

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
)

// indexes gives a fake client the indexes of a manager's cache.
type indexes struct{ *fake.ClientBuilder }

func (i indexes) IndexField(_ context.Context, o client.Object, field string, extract client.IndexerFunc) error {
	i.WithIndex(o, field, extract)
	return nil
}

var scheme = controllerstest.FakeScheme()

func newFake(objects ...client.Object) client.WithWatch {
	builder := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.BareMetalHost{})
	if err := errors.Join(controllers.IndexHosts(context.Background(), indexes{builder}), IndexLeases(context.Background(), indexes{builder})); err != nil {
		panic(err)
	}
	return builder.WithObjects(objects...).Build()
}

// replaceable is a client that a test may replace by another one.
type replaceable struct{ client.Client }

// leasing is a Booter whose cache is the API server, with some hosts.
type leasing struct {
	*Booter

	t      *testing.T
	cache  *replaceable
	events *events.FakeRecorder
	pool   pxe.Pool
}

func newLeasing(t *testing.T, hosts ...*v1alpha1.BareMetalHost) *leasing {
	t.Helper()
	c, recorder := newFake(), events.NewFakeRecorder(100)
	cache := &replaceable{c}
	l := &leasing{
		t: t, cache: cache, events: recorder,
		Booter: New(&Booter{Client: cache, APIReader: c, Namespace: "capbm-system", Recorder: recorder, Log: logr.Discard()}),
		pool:   pool("192.0.2.0/24", "192.0.2.10-192.0.2.13"),
	}
	for _, h := range hosts {
		l.create(h)
	}
	return l
}

func pool(prefix string, ranges ...string) pxe.Pool {
	p := pxe.Pool{Network: "rack-1", Prefix: netip.MustParsePrefix(prefix)}
	for _, r := range ranges {
		first, last, _ := strings.Cut(r, "-")
		p.Ranges = append(p.Ranges, pxe.Range{First: netip.MustParseAddr(first), Last: netip.MustParseAddr(last)})
	}
	return p
}

var uids int

// record records the last boot of a host.
func (l *leasing) record(h *v1alpha1.BareMetalHost, spec v1alpha1.BareMetalBootSpec) {
	l.t.Helper()
	spec.Number, spec.ClaimID = 1, "claim"
	NewWithT(l.t).Expect(l.Client.Create(l.t.Context(), &v1alpha1.BareMetalBoot{
		ObjectMeta: metav1.ObjectMeta{Namespace: h.Namespace, Name: h.Name}, Spec: spec,
	})).To(Succeed())
}

// create creates a host as the API server does, with a UID of its own.
func (l *leasing) create(h *v1alpha1.BareMetalHost) {
	l.t.Helper()
	uids++
	h.UID, h.ResourceVersion = types.UID(fmt.Sprint("uid-", uids)), ""
	status := h.Status
	NewWithT(l.t).Expect(l.Client.Create(l.t.Context(), h)).To(Succeed())
	h.Status = status
	NewWithT(l.t).Expect(l.Client.Status().Update(l.t.Context(), h)).To(Succeed())
}

// aHost is a host whose server was inventoried.
func aHost(name string, number byte, reserved ...string) *v1alpha1.BareMetalHost {
	return &v1alpha1.BareMetalHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: "dc", Name: name},
		Spec:       v1alpha1.BareMetalHostSpec{BootMACAddresses: []string{hw(number).String()}, BootAddresses: reserved},
		Status: v1alpha1.BareMetalHostStatus{
			Identity: &v1alpha1.HostIdentity{BootMACAddresses: []string{hw(number).String()}}, Hardware: &v1alpha1.Hardware{},
		},
	}
}

func hw(number byte) net.HardwareAddr { return net.HardwareAddr{0x52, 0x54, 0, 0, 0, number} }

// ask asks for an address, and returns it with a "+" if it is new.
func (l *leasing) ask(number byte, wanted ...string) (string, error) {
	request := pxe.LeaseRequest{MAC: hw(number), Pool: l.pool}
	if len(wanted) > 0 {
		request.Wanted = netip.MustParseAddr(wanted[0])
	}
	lease, err := l.Lease(l.t.Context(), request)
	if err != nil {
		return "", err
	}
	if lease.New {
		return "+" + lease.Address.String(), nil
	}
	return lease.Address.String(), nil
}

func (l *leasing) change(h *v1alpha1.BareMetalHost, change func(*v1alpha1.BareMetalHost)) {
	l.t.Helper()
	g := NewWithT(l.t)
	g.Expect(l.Client.Get(l.t.Context(), client.ObjectKeyFromObject(h), h)).To(Succeed())
	change(h)
	g.Expect(l.Client.Update(l.t.Context(), h)).To(Succeed())
}

// age moves the start of all probations into the past.
func (l *leasing) age(ago time.Duration) { l.t.Helper(); age(l.t, l.Client, ago) }

func age(t interface {
	Helper()
	Fatalf(format string, args ...any)
}, c client.Client, ago time.Duration,
) {
	t.Helper()
	var leases coordinationv1.LeaseList
	if err := c.List(context.Background(), &leases); err != nil {
		t.Fatalf("list leases: %v", err)
	}
	for i := range leases.Items {
		spec := &leases.Items[i].Spec
		if spec.RenewTime == nil {
			continue
		}
		spec.RenewTime = new(metav1.NewMicroTime(spec.RenewTime.Add(-ago)))
		if err := c.Update(context.Background(), &leases.Items[i]); err != nil {
			t.Fatalf("age a lease: %v", err)
		}
	}
}

func (l *leasing) writes() int {
	var leases coordinationv1.LeaseList
	NewWithT(l.t).Expect(l.Client.List(l.t.Context(), &leases)).To(Succeed())
	n := 0
	for i := range leases.Items {
		var version int
		_, _ = fmt.Sscan(leases.Items[i].ResourceVersion, &version)
		n += version
	}
	return n
}

// TestKept: a host keeps its address. It is written once, and the host gets it whatever it asks for later.
func TestKept(t *testing.T) {
	g := NewWithT(t)
	l := newLeasing(t, aHost("a", 1))
	first, err := l.ask(1)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(first).To(HavePrefix("+192.0.2.1"), "it is new")
	kept, writes := strings.TrimPrefix(first, "+"), l.writes()
	for _, wanted := range []string{kept, "192.0.2.10", "192.0.2.11", "192.0.2.200", "::1"} {
		g.Expect(l.ask(1, wanted)).To(Equal(kept))
	}
	g.Expect(l.ask(1)).To(Equal(kept))
	g.Expect(l.writes()).To(Equal(writes), "nothing is renewed")
	g.Expect(l.pool.Prefix).To(Equal(netip.MustParsePrefix("192.0.2.0/24")))

	l.pool.Ranges = pool("192.0.2.0/24", "192.0.2.100-192.0.2.110").Ranges
	g.Expect(l.ask(1)).To(Equal(kept), "also when the ranges become others")
	l.pool = pool("198.51.100.0/24", "198.51.100.10-198.51.100.10")
	g.Expect(l.ask(1)).To(Equal("+198.51.100.10"), "another network has another address for it")

	var lease coordinationv1.Lease
	g.Expect(l.Client.Get(t.Context(), client.ObjectKey{Namespace: "capbm-system", Name: "dhcp-198-51-100-10"}, &lease)).To(Succeed())
	g.Expect(lease.Labels).To(Equal(map[string]string{NetworkLabel: "rack-1"}))
	g.Expect(*lease.Spec.HolderIdentity).To(HavePrefix("dc/a/52:54:00:00:00:01/uid-"))
	g.Expect(LeaseSelector().Matches(labels.Set(lease.Labels))).To(BeTrue())
	g.Expect(LeaseSelector().Matches(labels.Set{})).To(BeFalse())
}

// TestTwice: a server is registered a second time, by a typo, or to stop it from booting. The host that had the MAC address first keeps it, with its address.
func TestTwice(t *testing.T) {
	g := NewWithT(t)
	l := newLeasing(t, aHost("a", 1))
	first, err := l.ask(1)
	g.Expect(err).NotTo(HaveOccurred())
	again := aHost("0-first-by-name", 1)
	again.Status.Identity = nil
	l.create(again)
	host, err := l.lookup.hostOf(t.Context(), hw(1))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(host.Name).To(Equal("a"))
	g.Expect(l.ask(1)).To(Equal(strings.TrimPrefix(first, "+")))
}

// TestWanted: a running server asks for the address that it has, and gets it although `clusterctl move` did not move the Lease objects, unless another
// host has it.
func TestWanted(t *testing.T) {
	booted := func(spec v1alpha1.BareMetalBootSpec) *v1alpha1.BareMetalBootSpec { return &spec }
	for name, c := range map[string]struct {
		other  func(*v1alpha1.BareMetalHost)
		boot   *v1alpha1.BareMetalBootSpec // of the other
		wanted string
		gets   bool
	}{
		"free":                         {nil, nil, "192.0.2.12", true},
		"out of the ranges":            {nil, nil, "192.0.2.200", false},
		"reserved for another":         {func(h *v1alpha1.BareMetalHost) { h.Spec.BootAddresses = []string{"192.0.2.12"} }, nil, "192.0.2.12", false},
		"another got its script there": {nil, booted(v1alpha1.BareMetalBootSpec{ScriptAddress: "192.0.2.12"}), "192.0.2.12", false},
		"another got its data there":   {nil, booted(v1alpha1.BareMetalBootSpec{DataAddress: "192.0.2.12"}), "192.0.2.12", false},
		"another reported from there":  {nil, booted(v1alpha1.BareMetalBootSpec{ReportAddress: "192.0.2.12"}), "192.0.2.12", false},
		"another was there, until its claim ended": {
			nil, booted(v1alpha1.BareMetalBootSpec{DataAddress: "192.0.2.12", VoidedTime: new(metav1.Now())}), "192.0.2.12", true,
		},
		"another runs there": {func(h *v1alpha1.BareMetalHost) {
			h.Status.Addresses = clusterv1.MachineAddresses{{Type: "Hostname", Address: "n"}, {Type: "InternalIP", Address: "192.0.2.12"}}
		}, nil, "192.0.2.12", false},
		"another runs at another address": {func(h *v1alpha1.BareMetalHost) {
			h.Status.Addresses = clusterv1.MachineAddresses{{Type: "InternalIP", Address: "192.0.2.11"}}
		}, nil, "192.0.2.12", true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			l := newLeasing(t, aHost("a", 1))
			other := aHost("b", 2)
			l.create(other)
			if c.boot != nil {
				l.record(other, *c.boot)
			}
			if c.other != nil {
				c.other(other)
				status := other.Status
				g.Expect(l.Client.Update(t.Context(), other)).To(Succeed())
				other.Status = status
				g.Expect(l.Client.Status().Update(t.Context(), other)).To(Succeed())
			}
			got, err := l.ask(1, c.wanted)
			g.Expect(err).NotTo(HaveOccurred())
			if c.gets {
				g.Expect(got).To(Equal("+" + c.wanted))
			} else {
				g.Expect(got).NotTo(HaveSuffix(c.wanted))
			}
		})
	}
}

// TestObservedAddress: a server whose Lease object is lost, and that boots again, gets the address that it was observed with.
func TestObservedAddress(t *testing.T) {
	g := NewWithT(t)
	for number := range byte(4) {
		address := fmt.Sprintf("192.0.2.%d", 10+number)
		h := aHost("a", 1)
		l := newLeasing(t, h)
		l.record(h, v1alpha1.BareMetalBootSpec{DataAddress: address, ScriptAddress: "192.0.2.77", ReportedTime: new(metav1.Now())})
		g.Expect(l.ask(1)).To(Equal("+" + address))
	}
	// A client that asked for the script before the server reported may be a stranger.
	without := newLeasing(t, aHost("a", 1))
	first, err := without.ask(1)
	g.Expect(err).NotTo(HaveOccurred())
	for _, address := range []string{"192.0.2.10", "192.0.2.11", "192.0.2.12", "192.0.2.13"} {
		for name, ended := range map[string]*metav1.Time{"under way": nil, "its claim ended": new(metav1.Now())} {
			h := aHost("a", 1)
			l := newLeasing(t, h)
			l.record(h, v1alpha1.BareMetalBootSpec{ScriptAddress: address, VoidedTime: ended})
			g.Expect(l.ask(1)).To(Equal(first), name)
		}
	}
}

// TestReservation: a host gets the address that its spec names, even if it is in no range, and even if the host has another one.
func TestReservation(t *testing.T) {
	g := NewWithT(t)
	a := aHost("a", 1, "2001:db8::5", "192.0.2.50")
	l := newLeasing(t, a)
	g.Expect(l.ask(1, "192.0.2.11")).To(Equal("+192.0.2.50"))
	g.Expect(l.ask(1, "192.0.2.50")).To(Equal("192.0.2.50"))

	l.change(a, func(h *v1alpha1.BareMetalHost) { h.Spec.BootAddresses = []string{"192.0.2.51"} })
	g.Expect(l.ask(1, "192.0.2.50")).To(Equal("192.0.2.50"), "a running server keeps its address")
	g.Expect(l.ask(1)).To(Equal("+192.0.2.51"), "the change counts when it boots")
	g.Expect(l.ask(1, "192.0.2.50")).To(Equal("192.0.2.51"), "the old address is given up")

	l.create(aHost("b", 2, "192.0.2.50"))
	_, err := l.ask(2)
	g.Expect(err).To(MatchError(ContainSubstring("192.0.2.50 is leased to no host until")))
	l.age(replacedProbation)
	g.Expect(l.ask(2)).To(Equal("+192.0.2.50"))

	l.change(a, func(h *v1alpha1.BareMetalHost) { h.Spec.BootAddresses = nil })
	g.Expect(l.ask(1)).To(Equal("192.0.2.51"), "without a reservation it keeps what it has")
}

// TestTwoInterfaces: each interface of a server has an address of its own, because both may be up. The reserved addresses of a network are for the interfaces in their
// order, and an interface without one gets an address of the ranges.
func TestTwoInterfaces(t *testing.T) {
	g := NewWithT(t)
	a := aHost("a", 1, "2001:db8::5", "192.0.2.50")
	a.Spec.BootMACAddresses = append(a.Spec.BootMACAddresses, hw(2).String())
	a.Status.Identity.BootMACAddresses = a.Spec.BootMACAddresses
	a.Status.Addresses = clusterv1.MachineAddresses{{Type: clusterv1.MachineInternalIP, Address: "192.0.2.12"}}
	l := newLeasing(t, a)
	second, err := l.ask(2)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(second).To(And(HavePrefix("+192.0.2.1"), Not(Equal("+192.0.2.12"))), "not what the other interface may have")
	g.Expect(l.events.Events).NotTo(Receive(), "the reservation is used, by the other interface")
	g.Expect(l.ask(1)).To(Equal("+192.0.2.50"))
	g.Expect(l.ask(2)).To(Equal(second[1:]))
	g.Expect(l.admission.leasedAddresses(t.Context(), a, "", []bootconfig.Network{{Name: "rack-1", Mode: bootconfig.Authoritative}})).
		To(ConsistOf(netip.MustParseAddr("192.0.2.50"), netip.MustParseAddr(second[1:])))
	g.Expect(l.Decline(t.Context(), hw(1), netip.MustParseAddr(second[1:]))).NotTo(Succeed(), "it is that of the other interface")

	l.change(a, func(h *v1alpha1.BareMetalHost) { h.Spec.BootAddresses = []string{"192.0.2.50", "192.0.2.51"} })
	g.Expect(l.ask(2)).To(Equal("+192.0.2.51"))
	g.Expect(l.ask(1)).To(Equal("192.0.2.50"))
	l.change(a, func(h *v1alpha1.BareMetalHost) { h.Spec.BootAddresses = []string{"192.0.2.51", "192.0.2.50"} })
	for _, number := range []byte{1, 2, 1, 2} {
		_, err := l.ask(number)
		g.Expect(err).To(HaveOccurred(), "a boot server with an old cache may give it to the other interface")
	}
	l.age(movedProbation)
	g.Expect(l.ask(1)).To(Equal("+192.0.2.51"), "in the next boot")
	g.Expect(l.ask(2)).To(Equal("+192.0.2.50"))
}

// TestReservedForTheOtherInterface: an address of the ranges that is reserved for one interface is not given to the other one, whichever asks first, nor one that the
// server was observed with, unless that interface asks for it.
func TestReservedForTheOtherInterface(t *testing.T) {
	g := NewWithT(t)
	a := aHost("a", 1, "192.0.2.10")
	a.Spec.BootMACAddresses = append(a.Spec.BootMACAddresses, hw(2).String())
	a.Status.Identity.BootMACAddresses = a.Spec.BootMACAddresses
	a.Status.Addresses = clusterv1.MachineAddresses{{Type: clusterv1.MachineInternalIP, Address: "192.0.2.11"}, {Type: clusterv1.MachineInternalIP, Address: "192.0.2.12"}}
	l := newLeasing(t, a)
	g.Expect(l.ask(2, "192.0.2.10")).To(Equal("+192.0.2.13"), "the only one that the other interface cannot have")
	g.Expect(l.ask(1)).To(Equal("+192.0.2.10"))
	l = newLeasing(t, a)
	g.Expect(l.ask(2, "192.0.2.12")).To(Equal("+192.0.2.12"), "an operating system keeps what it has")
}

// TestReservationRefused: a host that cannot have its reservation gets no other address, and shows the reason.
func TestReservationRefused(t *testing.T) {
	g := NewWithT(t)
	l := newLeasing(t, aHost("b", 2, "192.0.2.50"), aHost("a", 1, "192.0.2.50"), aHost("c", 3))
	_, err := l.ask(2)
	g.Expect(err).To(MatchError("192.0.2.50, which bootAddresses of dc/b names, is reserved for host a too, which is older: reserve another one"))
	g.Expect(l.events.Events).To(Receive(Equal("Warning NoAddress " + err.Error())))
	g.Expect(l.ask(1)).To(Equal("+192.0.2.50"))

	taken, err := l.ask(3)
	g.Expect(err).NotTo(HaveOccurred())
	l.create(aHost("d", 4, strings.TrimPrefix(taken, "+")))
	_, err = l.ask(4)
	g.Expect(err).To(MatchError(fmt.Sprintf("dc/d cannot have %s: host c has it", taken[1:])))

	used := aHost("e", 5)
	l.create(used)
	l.record(used, v1alpha1.BareMetalBootSpec{DataAddress: "192.0.2.60"})
	l.create(aHost("f", 6, "192.0.2.60"))
	_, err = l.ask(6)
	g.Expect(err).To(MatchError("192.0.2.60, which bootAddresses of dc/f names, is used by host e: reserve another one"))
}

// TestReservationOfOtherNetwork: a host whose reservation is not in the network of its request gets an address of a range, with an event.
func TestReservationOfOtherNetwork(t *testing.T) {
	g := NewWithT(t)
	l := newLeasing(t, aHost("a", 1, "203.0.113.7"), aHost("b", 2, "2001:db8::7"))
	got, err := l.ask(1)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(l.events.Events).To(Receive(Equal("Warning ReservationUnused None of bootAddresses [203.0.113.7] is in network rack-1, 192.0.2.0/24: the server gets " +
		got[1:] + " from the ranges")))
	_, err = l.ask(1)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = l.ask(2)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(l.events.Events).NotTo(Receive(), "there is one event, and an IPv6 network is always another one")

	l.pool.Ranges = nil
	l.create(aHost("c", 3))
	_, err = l.ask(3)
	g.Expect(err).To(MatchError("network rack-1 has no ranges, and bootAddresses of dc/c names none of its addresses"))
}

// TestExhausted: when no unused address is left, an address whose host is gone is leased again. The one that was acquired first goes
// first.
func TestExhausted(t *testing.T) {
	g := NewWithT(t)
	hosts := []*v1alpha1.BareMetalHost{aHost("a", 1), aHost("b", 2), aHost("c", 3), aHost("d", 4)}
	l := newLeasing(t, hosts...)
	got := map[byte]string{}
	for number := byte(1); number <= 3; number++ {
		address, err := l.ask(number)
		g.Expect(err).NotTo(HaveOccurred())
		got[number] = strings.TrimPrefix(address, "+")
	}
	g.Expect(l.Client.Delete(t.Context(), hosts[1])).To(Succeed())
	last, err := l.ask(4)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(last).NotTo(Equal("+"+got[2]), "an unused one goes before one whose host is gone")

	l.create(aHost("e", 5))
	l.create(aHost("f", 6))
	l.change(hosts[0], func(h *v1alpha1.BareMetalHost) { h.Spec.BootMACAddresses = []string{hw(9).String()} })
	g.Expect(l.ask(5)).To(Equal("+"+got[1]), "the host with another MAC address left its address first")
	g.Expect(l.ask(6)).To(Equal("+" + got[2]))
	_, err = l.ask(9)
	g.Expect(err).To(MatchError("none of the 4 addresses of network rack-1 is free: add ranges to it, or delete hosts that are gone"))
	g.Expect(l.events.Events).To(Receive(ContainSubstring("none of the 4 addresses of network rack-1 is free")))
	_, err = l.ask(77)
	g.Expect(err).To(MatchError("52:54:00:00:00:4d is not a server of the inventory"))
}

// TestAnotherHost: a server that is registered again, under any name, keeps its address. A server that replaces another one gets that one's
// reservation.
func TestAnotherHost(t *testing.T) {
	g := NewWithT(t)
	a := aHost("a", 1, "192.0.2.50")
	l := newLeasing(t, a)
	g.Expect(l.ask(1)).To(Equal("+192.0.2.50"))
	l.change(a, func(h *v1alpha1.BareMetalHost) { h.Spec.BootAddresses = nil })
	g.Expect(l.Client.Delete(t.Context(), a)).To(Succeed())
	z := aHost("z", 1)
	l.create(z)
	g.Expect(l.ask(1)).To(Equal("+192.0.2.50"), "its holder is another, so it is written")
	g.Expect(l.ask(1)).To(Equal("192.0.2.50"))
	l.create(aHost("b", 2, "192.0.2.50"))
	_, err := l.ask(2)
	g.Expect(err).To(MatchError("dc/b cannot have 192.0.2.50: host z has it"))
	g.Expect(l.Client.Delete(t.Context(), z)).To(Succeed())
	g.Expect(l.ask(2)).To(Equal("+192.0.2.50"))
}

// TestDecline: an address that another device uses is leased to no host for some time. Only its holder can decline it.
func TestDecline(t *testing.T) {
	g := NewWithT(t)
	l := newLeasing(t, aHost("a", 1), aHost("b", 2), aHost("r", 3, "192.0.2.50"))
	first, err := l.ask(1)
	g.Expect(err).NotTo(HaveOccurred())
	declined := netip.MustParseAddr(first[1:])
	g.Expect(l.Decline(t.Context(), hw(2), declined)).To(MatchError("decline " + declined.String() + ": dc/b does not have it"))
	g.Expect(l.Decline(t.Context(), hw(1), netip.MustParseAddr("192.0.2.99"))).NotTo(Succeed())
	g.Expect(l.Decline(t.Context(), hw(77), declined)).NotTo(Succeed())
	g.Expect(l.events.Events).NotTo(Receive())
	g.Expect(l.Decline(t.Context(), hw(1), declined)).To(Succeed())
	g.Expect(l.events.Events).To(Receive(And(HavePrefix("Warning AddressConflict Another device uses "+declined.String()+","), ContainSubstring("network rack-1"))))
	g.Expect(l.Decline(t.Context(), hw(1), declined)).NotTo(Succeed(), "it does not have it any more")

	second, err := l.ask(1, declined.String())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(second).NotTo(Equal(first), "it gets another one")
	g.Expect(l.ask(2, declined.String())).NotTo(HaveSuffix(declined.String()))

	g.Expect(l.ask(3)).To(Equal("+192.0.2.50"))
	g.Expect(l.Decline(t.Context(), hw(3), netip.MustParseAddr("192.0.2.50"))).To(Succeed())
	_, err = l.ask(3)
	g.Expect(err).To(MatchError(MatchRegexp("^192.0.2.50 is leased to no host until .*Z: host r declined it")), "a host with a reservation gets no other address")
	l.age(declineProbation)
	g.Expect(l.ask(3)).To(Equal("+192.0.2.50"))
	g.Expect(l.ask(1)).To(Equal(second[1:]), "it keeps the second")
	l.create(aHost("c", 4))
	l.create(aHost("d", 5))
	g.Expect(l.ask(4)).NotTo(HaveSuffix(declined.String()), "an unused one goes first")
	g.Expect(l.ask(5)).To(Equal(first), "then one that was declined")
}

// TestDeclineAll: a server that declines every address gets none after the first few.
func TestDeclineAll(t *testing.T) {
	g := NewWithT(t)
	l := newLeasing(t, aHost("a", 1))
	l.pool = pool("192.0.2.0/24", "192.0.2.10-192.0.2.250")
	for range maxOnProbation {
		got, err := l.ask(1)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(l.Decline(t.Context(), hw(1), netip.MustParseAddr(got[1:]))).To(Succeed())
	}
	_, err := l.ask(1)
	g.Expect(err).To(MatchError("dc/a declined 8 addresses of network rack-1 one after the other: some device answers for all of them"))
	l.age(declineProbation)
	_, err = l.ask(1)
	g.Expect(err).NotTo(HaveOccurred())
}

// TestRace: if two boot servers want one address for two servers at once, one gets it.
func TestRace(t *testing.T) {
	for name, left := range map[string]bool{"an unused address": false, "an address whose host is gone": true} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			gone := aHost("gone", 9)
			l := newLeasing(t, gone, aHost("a", 1), aHost("b", 2))
			l.pool = pool("192.0.2.0/24", "192.0.2.10-192.0.2.10")
			if left {
				g.Expect(l.ask(9)).To(Equal("+192.0.2.10"))
			}
			g.Expect(l.Client.Delete(t.Context(), gone)).To(Succeed())
			other := *l
			other.Booter = New(&Booter{Client: l.cache.Client, APIReader: l.APIReader, Namespace: l.Namespace, Log: logr.Discard()})
			var once sync.Once
			race := func() { once.Do(func() { g.Expect(other.ask(2)).To(Equal("+192.0.2.10")) }) }
			l.cache.Client = interceptor.NewClient(l.cache.Client.(client.WithWatch), interceptor.Funcs{
				Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
					if !left {
						race()
					}
					return c.Create(ctx, o, opts...)
				},
				Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
					race()
					return c.Update(ctx, o, opts...)
				},
			})
			_, err := l.ask(1)
			g.Expect(err).To(HaveOccurred())
			_, err = l.ask(1)
			g.Expect(err).To(MatchError(ContainSubstring("none of the 1 addresses of network rack-1 is free")))
			g.Expect(l.ask(2)).To(Equal("192.0.2.10"))
		})
	}
}

// TestIPv6: a range may have more addresses than can be counted.
func TestIPv6(t *testing.T) {
	g := NewWithT(t)
	l := newLeasing(t, aHost("a", 1), aHost("b", 2), aHost("r", 3, "2001:db8::1:0:0:7"))
	l.pool = pool("2001:db8::/48", "2001:db8::1:0:0:0-2001:db8::1:0:0:0", "2001:db8:0:1::-2001:db8:0:1:ffff:ffff:ffff:ffff")
	a, err := l.ask(1)
	g.Expect(err).NotTo(HaveOccurred())
	b, err := l.ask(2)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(a).NotTo(Equal(b))
	g.Expect(a).To(HavePrefix("+2001:db8:0:1:"))
	g.Expect(l.ask(1)).To(Equal(a[1:]))
	g.Expect(l.ask(3)).To(Equal("+2001:db8::1:0:0:7"))
	var lease coordinationv1.Lease
	g.Expect(l.Client.Get(t.Context(), client.ObjectKey{Namespace: "capbm-system", Name: "dhcp-2001-0db8-0000-0000-0001-0000-0000-0007"}, &lease)).To(Succeed())
}

func TestRanges(t *testing.T) {
	g := NewWithT(t)
	small := pool("192.0.2.0/24", "192.0.2.10-192.0.2.11", "192.0.2.250-192.0.2.250").Ranges
	g.Expect(total(small)).To(Equal(uint64(3)))
	var all []string
	for i := range total(small) {
		all = append(all, addressAt(small, i).String())
	}
	g.Expect(all).To(Equal([]string{"192.0.2.10", "192.0.2.11", "192.0.2.250"}))
	g.Expect(addressAt(small, 3).IsValid()).To(BeFalse())
	carry := pool("2001:db8::/48", "2001:db8::ffff:ffff:ffff:fffe-2001:db8:0:1::5").Ranges
	g.Expect(addressAt(carry, 1).String()).To(Equal("2001:db8::ffff:ffff:ffff:ffff"))
	g.Expect(addressAt(carry, 2).String()).To(Equal("2001:db8:0:1::"))
	g.Expect(total(pool("::/0", "::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "::1-::2").Ranges)).To(Equal(uint64(math.MaxUint64)))
	g.Expect(total(pool("::/0", "2001:db8::-2001:db8::ffff:ffff:ffff:ffff").Ranges)).To(Equal(uint64(math.MaxUint64)))
	g.Expect(total([]pxe.Range{{First: netip.MustParseAddr("192.0.2.2"), Last: netip.MustParseAddr("192.0.2.1")}, {}})).To(BeZero())
	g.Expect(indexAfter(math.MaxUint64-2, 5, math.MaxUint64)).To(Equal(uint64(3)))
	g.Expect(indexAfter(1, 1, 3)).To(Equal(uint64(2)))
	for _, s := range []string{"192.0.2.10", "2001:db8::1", "::", "fe80::ffff"} {
		a := netip.MustParseAddr(s)
		g.Expect(leaseAddress(leaseName(a))).To(Equal(a))
	}
	for _, name := range []string{"capbm-controllers", "dhcp-1-2-3", "dhcp-192-0-2-010", "", "dhcp-fe80--1"} {
		g.Expect(leaseAddress(name).IsValid()).To(BeFalse(), name)
	}
}
