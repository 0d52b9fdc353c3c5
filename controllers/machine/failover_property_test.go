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
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/rapidtest"
)

// leader is a process that reconciles one machine. Each of its requests to the API server waits until the test lets it through. So the test decides
// in which order the requests of several leaders arrive, and which one never arrives.
type leader struct {
	r       *Reconciler
	arrived chan bool // true for a waiting request, false for the end of a reconcile
	proceed chan error
	waits   bool
	shown   map[string]*v1alpha1.BareMetalHost // the hosts in its cache
}

var errLost = errors.New("the process ended")

// newLeader returns a leader for an API server.
func newLeader(api client.WithWatch) *leader {
	l := &leader{arrived: make(chan bool), proceed: make(chan error), shown: map[string]*v1alpha1.BareMetalHost{}}
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
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
			l.shown[key.Name].DeepCopyInto(o.(*v1alpha1.BareMetalHost))
			return nil
		},
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

// start starts a reconcile of a machine as the leader's cache shows it, and returns at its first request or at its end.
func (l *leader) start(ctx context.Context, m *v1alpha1.BareMetalMachine) {
	s := &scope{machine: m.DeepCopy(), before: m.DeepCopy(), owner: &clusterv1.Machine{}}
	s.addFinalizer()
	go func() {
		_, _ = l.r.reconcileClaim(ctx, s) // the test checks the hosts, not the result
		_ = l.r.writeFinalizer(ctx, s)
		l.arrived <- false
	}()
	l.waits = <-l.arrived
}

// next lets the waiting request through, or fails it.
func (l *leader) next(err error) {
	l.proceed <- err
	l.waits = <-l.arrived
}

// world is an API server with a machine and hosts, and all their versions that a cache may show.
type world struct {
	api      client.WithWatch
	machines []*v1alpha1.BareMetalMachine
	hosts    map[string][]*v1alpha1.BareMetalHost
	leaders  []*leader
}

// recordVersions appends the current versions.
func (w *world) recordVersions(t *rapid.T) {
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

// changeHost changes a host as other writers do: its status changes, or another machine claims or releases it.
func (w *world) changeHost(t *rapid.T) {
	g := NewWithT(t)
	var h v1alpha1.BareMetalHost
	name := rapid.SampledFrom([]string{"h-0", "h-1", "h-2"}).Draw(t, "host")
	g.Expect(w.api.Get(t.Context(), client.ObjectKey{Namespace: "dc", Name: name}, &h)).To(Succeed())
	switch ref := h.Spec.ConsumerRef; {
	case ref == nil && rapid.Bool().Draw(t, "claimed by another"):
		g.Expect(claim.Claim(t.Context(), w.api, &h, claim.Terms{Machine: "other"})).To(Succeed())
	case ref != nil && ref.Name == "other":
		h.Spec.ConsumerRef = nil
		g.Expect(w.api.Update(t.Context(), &h)).To(Succeed())
	default:
		h.Status.Power = v1alpha1.PowerOff
		h.Labels = map[string]string{"changed": strconv.Itoa(len(w.hosts[name]))}
		g.Expect(w.api.Update(t.Context(), &h)).To(Succeed())
	}
}

// lead lets some requests of a leader through while the others wait, or starts a reconcile. The cache of the leader shows any former version of the
// machine and of each host, usually the last, or no host yet. So leaders choose different hosts.
func (w *world) lead(t *rapid.T) {
	l := rapid.SampledFrom(w.leaders).Draw(t, "leader")
	for range rapid.IntRange(1, 5).Draw(t, "requests") {
		if l.waits {
			l.next(rapid.SampledFrom([]error{nil, nil, nil, nil, nil, nil, nil, errLost}).Draw(t, "request"))
			continue
		}
		l.r.hosts, l.r.assumed = cachedHosts{}, claim.Assumed{}
		for _, name := range []string{"h-0", "h-1", "h-2"} {
			l.shown[name] = version(t, name, w.hosts[name])
			if rapid.Bool().Draw(t, "shows "+name) {
				l.r.hosts.update(l.shown[name])
			}
		}
		l.start(t.Context(), version(t, "m", w.machines))
	}
}

// version draws a version of an object, usually the last one.
func version[T any](t *rapid.T, name string, versions []T) T {
	last := len(versions) - 1
	return versions[last-max(0, rapid.IntRange(-last-3, last).Draw(t, "age of "+name))]
}

// TestPropertyOneHost: with several leaders at once, caches of any age and delayed requests, a machine has at most one host.
func TestPropertyOneHost(t *testing.T) {
	rapidtest.Checks(t, 20) // each has hundreds of requests
	claims := 0
	rapid.Check(t, func(rt *rapid.T) {
		for range 2 {
			claims += untilClaimed(t, rt)
		}
	})
	NewWithT(t).Expect(claims).To(BeNumerically(">", 10), "hardly anything was claimed")
}

// untilClaimed runs leaders and other writers on a new machine until it has a host and no request waits. It returns how many hosts it has.
func untilClaimed(t *testing.T, rt *rapid.T) int {
	t.Helper()
	g := NewWithT(rt)
	machine := &v1alpha1.BareMetalMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "dc", Name: "m", UID: "a"}}
	api := claimWorld(t, machine, "h-0", "h-1", "h-2").Client.(client.WithWatch)
	w := &world{api: api, hosts: map[string][]*v1alpha1.BareMetalHost{}, leaders: []*leader{newLeader(api), newLeader(api), newLeader(api)}}
	w.recordVersions(rt)
	var hosts []v1alpha1.BareMetalHost
	for range 30 {
		if rapid.IntRange(0, 9).Draw(rt, "who") == 9 {
			w.changeHost(rt)
		} else {
			w.lead(rt)
		}
		w.recordVersions(rt)
		var err error
		hosts, err = claim.HostsOf(rt.Context(), api, "dc", "m")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(len(hosts)).To(BeNumerically("<=", 1), "hosts that the machine has")
		if len(hosts) == 1 && !slices.ContainsFunc(w.leaders, func(l *leader) bool { return l.waits }) {
			break
		}
	}
	for _, l := range w.leaders {
		for l.waits {
			l.next(errLost)
		}
	}
	return len(hosts)
}
