package machine

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/claim"
)

// leader is a process that reconciles one machine, a request to the API server at a time: each request waits until it is let through. So the test decides
// how the requests of several leaders follow each other, and which one never arrives.
type leader struct {
	r       *Reconciler
	arrived chan bool // true for a request that waits, false for the end of a reconcile
	proceed chan error
	waits   bool
}

var errLost = errors.New("the process ended")

// newLeader returns a leader whose requests go to an API server.
func newLeader(api client.WithWatch) *leader {
	l := &leader{arrived: make(chan bool), proceed: make(chan error)}
	gate := func() error {
		l.arrived <- true
		return <-l.proceed
	}
	reader := interceptor.NewClient(api, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			return errors.Join(gate(), c.Get(ctx, key, o, opts...))
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			return errors.Join(gate(), c.List(ctx, list, opts...))
		},
	})
	writer := interceptor.NewClient(api, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if err := gate(); err != nil {
				return err
			}
			return c.Patch(ctx, o, p, opts...)
		},
	})
	l.r = &Reconciler{Client: writer, APIReader: reader}
	return l
}

// begin starts a reconcile of a machine as the leader's cache shows it, and returns at its first request, or its end.
func (l *leader) begin(ctx context.Context, m *v1alpha1.BareMetalMachine) {
	s := &scope{machine: m.DeepCopy(), owner: &clusterv1.Machine{}}
	go func() {
		err := l.r.ensureFinalizer(ctx, s)
		s.before = s.machine.DeepCopy()
		if err == nil {
			_, _ = l.r.reconcileClaim(ctx, s) // what it says is not looked at: the hosts are
		}
		l.arrived <- false
	}()
	l.waits = <-l.arrived
}

// next lets the request through that waits, or has it fail.
func (l *leader) next(err error) {
	l.proceed <- err
	l.waits = <-l.arrived
}

// world is an API server with a machine and hosts, and all versions of them that a cache may show.
type world struct {
	api      client.WithWatch
	machines []*v1alpha1.BareMetalMachine
	hosts    map[string][]*v1alpha1.BareMetalHost
	leaders  []*leader
}

// saw notes the versions that are there now.
func (w *world) saw(t *rapid.T) {
	g := NewWithT(t)
	var m v1alpha1.BareMetalMachine
	g.Expect(w.api.Get(t.Context(), client.ObjectKey{Namespace: "dc", Name: "m"}, &m)).To(Succeed())
	w.machines = append(w.machines, &m)
	var hosts v1alpha1.BareMetalHostList
	g.Expect(w.api.List(t.Context(), &hosts)).To(Succeed())
	for i := range hosts.Items {
		h := &hosts.Items[i]
		w.hosts[h.Name] = append(w.hosts[h.Name], h)
	}
}

// changeHost does what others do to a host: its status changes, another machine claims it, or gives it back.
func (w *world) changeHost(t *rapid.T) {
	g := NewWithT(t)
	var h v1alpha1.BareMetalHost
	name := rapid.SampledFrom([]string{"h-0", "h-1", "h-2"}).Draw(t, "host")
	g.Expect(w.api.Get(t.Context(), client.ObjectKey{Namespace: "dc", Name: name}, &h)).To(Succeed())
	switch ref := h.Spec.ConsumerRef; {
	case ref == nil && rapid.Bool().Draw(t, "claimed by another"):
		g.Expect(claim.Claim(t.Context(), w.api, &h, "other")).To(Succeed())
	case ref != nil && ref.Name == "other":
		h.Spec.ConsumerRef = nil
		g.Expect(w.api.Update(t.Context(), &h)).To(Succeed())
	default:
		h.Status.Power = v1alpha1.PowerOff
		h.Labels = map[string]string{"changed": strconv.Itoa(len(w.hosts[name]))}
		g.Expect(w.api.Update(t.Context(), &h)).To(Succeed())
	}
}

// lead lets a leader go on for some requests, while the others wait, or has it start a reconcile. A leader's cache may show any version of the machine and
// of each host that was there, mostly the last, and may not show a host yet: so leaders choose different hosts.
func (w *world) lead(t *rapid.T) {
	l := rapid.SampledFrom(w.leaders).Draw(t, "leader")
	for range rapid.IntRange(1, 5).Draw(t, "requests") {
		if l.waits {
			l.next(rapid.SampledFrom([]error{nil, nil, nil, nil, nil, nil, nil, errLost}).Draw(t, "request"))
			continue
		}
		l.r.freeHosts, l.r.assumed = freeHosts{}, claim.Assumed{}
		for _, name := range []string{"h-0", "h-1", "h-2"} {
			if rapid.Bool().Draw(t, "shows "+name) {
				l.r.freeHosts.update(version(t, name, w.hosts[name]))
			}
		}
		l.begin(t.Context(), version(t, "m", w.machines))
	}
}

// version draws a version of an object, the last one more often than not.
func version[T any](t *rapid.T, name string, versions []T) T {
	last := len(versions) - 1
	return versions[last-max(0, rapid.IntRange(-last-3, last).Draw(t, "age of "+name))]
}

// TestPropertyOneHost: whatever leaders there are at once, whatever their caches show, and however late their requests arrive, a machine has one host at
// most.
func TestPropertyOneHost(t *testing.T) {
	claims := 0
	rapid.Check(t, func(rt *rapid.T) {
		for range 2 {
			claims += untilClaimed(t, rt)
		}
	})
	NewWithT(t).Expect(claims).To(BeNumerically(">", 50), "hardly anything was claimed")
}

// untilClaimed plays leaders and others with a new machine, until it has a host and no request waits, and returns how many hosts it has.
func untilClaimed(t *testing.T, rt *rapid.T) int {
	t.Helper()
	g := NewWithT(rt)
	machine := &v1alpha1.BareMetalMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "dc", Name: "m", UID: "a"}}
	api := claimWorld(t, machine, "h-0", "h-1", "h-2").Client.(client.WithWatch)
	w := &world{api: api, hosts: map[string][]*v1alpha1.BareMetalHost{}, leaders: []*leader{newLeader(api), newLeader(api), newLeader(api)}}
	w.saw(rt)
	var held []v1alpha1.BareMetalHost
	for range 30 {
		if rapid.IntRange(0, 9).Draw(rt, "who") == 9 {
			w.changeHost(rt)
		} else {
			w.lead(rt)
		}
		w.saw(rt)
		var err error
		held, err = claim.HostsOf(rt.Context(), api, "dc", "m")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(len(held)).To(BeNumerically("<=", 1), "hosts that the machine has")
		if len(held) == 1 && !slices.ContainsFunc(w.leaders, func(l *leader) bool { return l.waits }) {
			break
		}
	}
	for _, l := range w.leaders {
		for l.waits {
			l.next(errLost)
		}
	}
	return len(held)
}
