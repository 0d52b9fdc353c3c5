package crash

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/endure/rig"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/promise"
)

// factTimeout is the maximum time from one fact to the next, on a busy machine.
const factTimeout = 4 * time.Minute

// pollInterval is how often a fact is checked: many runs share the API server.
const pollInterval = 50 * time.Millisecond

// run is one run of a path. The provider is halted once at most, and a fresh one follows.
type run struct {
	t     *testing.T
	site  *rig.Site
	sides []*side
	// home is the API server with the objects. left is the number of sessions that halted providers left open, by server.
	home  *controllerstest.Env
	left  map[string]int
	claim *controllerstest.Claim

	mu     sync.Mutex
	claims map[string]map[string]bool // the hosts that ever named a machine, by the machine's name
}

// side is an API server with its current provider.
type side struct {
	env      *controllerstest.Env
	fuse     *fuse
	options  rig.Options
	provider *rig.Provider
	halted   bool
}

func newRun(t *testing.T, env *controllerstest.Env) *run {
	t.Helper()
	r := &run{t: t, site: rig.NewSite(t, env), home: env, left: map[string]int{}, claims: map[string]map[string]bool{}}
	r.watchClaims(env)
	return r
}

// machine is the name of the run's machine. It is unique among all runs, since Nodes have no namespace.
func (r *run) machine() string { return "m-" + r.site.Namespace }

// start starts the provider of an API server with a fuse.
func (r *run) start(env *controllerstest.Env, f *fuse, change ...func(*rig.Options)) {
	r.t.Helper()
	s := &side{env: env, fuse: f, options: rig.Options{Env: env, Settings: controllerstest.Settings()}}
	s.options.Settings.BootTimeout = 2 * factTimeout // longer than any boot takes
	s.options.Settings.PowerSettle = time.Second     // twelve sides are busy

	for _, f := range change {
		f(&s.options)
	}
	r.sides = append(r.sides, s)
	options := s.options
	f.connect(&options)
	s.provider = r.site.Provider(r.t, options)
	f.kill = s.provider.Kill
	s.provider.Start(r.t)
}

// revive starts a fresh provider where one was halted.
func (r *run) revive() {
	r.t.Helper()
	for _, s := range r.sides {
		select {
		case <-s.provider.Killed():
		default:
			continue
		}
		if s.halted {
			r.t.Fatal("the fresh provider was halted too")
		}
		s.provider.Halt()
		s.halted = true
		for _, server := range r.site.Servers() {
			r.left[server.Name] = server.Sessions()
		}
		s.provider = r.site.Provider(r.t, s.options).Start(r.t)
	}
}

// changed counts the providers' changes, and returns whether one was halted.
func (r *run) changed() (count int, halted bool) {
	for _, s := range r.sides {
		writes, commands, _ := s.fuse.counted()
		count += writes + commands
		halted = halted || s.halted
	}
	return count, halted
}

// until waits for a fact. It also revives halted providers.
func (r *run) until(what string, fact func() error) {
	r.t.Helper()
	deadline := time.Now().Add(factTimeout)
	for {
		r.revive()
		err := fact()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("waiting until %s: %v\n%s", what, err, r.scene())
		}
		time.Sleep(pollInterval) // polling interval
	}
}

// settled waits until an idle provider changes nothing any more, so that it may be halted at its last change as well. Then it expects goal.
func (r *run) settled(goal func()) {
	r.t.Helper()
	const quiet = 300 * time.Millisecond
	goal()
	_, was := r.changed()
	count, since := -1, time.Now()
	r.until("nothing changes any more", func() error {
		if now, _ := r.changed(); now != count {
			count, since = now, time.Now()
		}
		if time.Since(since) < quiet {
			return errors.New("it still writes")
		}
		return nil
	})
	for _, s := range r.sides {
		s.fuse.disarm()
	}
	r.revive()
	if _, is := r.changed(); is != was {
		goal()
	}
}

// scene describes the state.
func (r *run) scene() string {
	var out strings.Builder
	for i, s := range r.sides {
		_, _, tripped := s.fuse.counted()
		fmt.Fprintf(&out, "provider %d: halted at %q\n", i+1, tripped)
	}
	for _, h := range r.hosts() {
		fmt.Fprintf(&out, "host %s: phase %s, spec %+v, annotations %v, finalizers %v\n", h.Name, h.Status.Phase, h.Spec, h.Annotations, h.Finalizers)
		for _, c := range h.Status.Conditions {
			fmt.Fprintf(&out, "  %s=%s %s: %s\n", c.Type, c.Status, c.Reason, c.Message)
		}
	}
	for _, b := range r.boots() {
		fmt.Fprintf(&out, "boot %s: spec %+v, status %+v, finalizers %v, owners %v, deleted %v\n", b.Name, b.Spec, b.Status, b.Finalizers, b.OwnerReferences, b.DeletionTimestamp)
	}
	for _, s := range r.site.Servers() {
		ons, offs := s.Switched()
		fmt.Fprintf(&out, "server %s: on %v, commands %v, switched on %d and off %d times, %d sessions, boots %d, errors %v\n",
			s.Name, s.On(), s.CommandNames(), ons, offs, s.Sessions(), len(s.Lives()), s.Errors())
		if log := s.AgentLog(); log != "" {
			fmt.Fprintf(&out, "its agent:\n%s\n", log)
		}
	}
	return out.String()
}

// get reads an object again.
func (r *run) get(o client.Object) error {
	return r.home.Client.Get(context.Background(), client.ObjectKeyFromObject(o), o)
}

func (r *run) hosts() []v1alpha1.BareMetalHost {
	var hosts v1alpha1.BareMetalHostList
	if err := r.home.Client.List(context.Background(), &hosts, client.InNamespace(r.site.Namespace)); err != nil {
		r.t.Error("list the hosts: ", err)
	}
	return hosts.Items
}

func (r *run) boots() []v1alpha1.BareMetalBoot {
	var boots v1alpha1.BareMetalBootList
	if err := r.home.Client.List(context.Background(), &boots, client.InNamespace(r.site.Namespace)); err != nil {
		r.t.Error("list the boots: ", err)
	}
	return boots.Items
}

// collected deletes the boots of deleted hosts, except some, as Kubernetes' garbage collector does, and waits until the provider has removed their
// finalizers. While clusterctl deletes a boot and then its host, which is free and so not paused, the provider may have created another boot for the host.
func (r *run) collected(what string, but ...string) {
	r.t.Helper()
	r.until(what, func() error {
		left := slices.DeleteFunc(r.boots(), func(b v1alpha1.BareMetalBoot) bool { return slices.Contains(but, b.Name) })
		for _, b := range left {
			if err := r.home.Client.Delete(r.t.Context(), &b); client.IgnoreNotFound(err) != nil {
				return err
			}
		}
		if len(left) > 0 {
			return fmt.Errorf("boot %s is there, with the finalizers %v", left[0].Name, left[0].Finalizers)
		}
		return nil
	})
}

// boot returns the record of a host's last boot.
func (r *run) boot(h *v1alpha1.BareMetalHost) *v1alpha1.BareMetalBootSpec {
	r.t.Helper()
	for _, b := range r.boots() {
		if b.Name == h.Name {
			return &b.Spec
		}
	}
	r.t.Fatalf("host %s has no boot\n%s", h.Name, r.scene())
	return nil
}

// recorded expects that each host owns the boot that it counts. The boot of a free host must be void.
func (r *run) recorded() error {
	boots := map[string]v1alpha1.BareMetalBoot{}
	for _, b := range r.boots() {
		boots[b.Name] = b
	}
	for _, h := range r.hosts() {
		b, there := boots[h.Name]
		owned := slices.ContainsFunc(b.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == h.UID })
		switch ref := h.Spec.ConsumerRef; {
		case !there:
			return fmt.Errorf("%s: host %s has no boot", promise.Records, h.Name)
		case !owned || !slices.Contains(b.Finalizers, v1alpha1.BootFinalizer):
			return fmt.Errorf("%s: boot %s has the owners %v and the finalizers %v", promise.Records, b.Name, b.OwnerReferences, b.Finalizers)
		case b.Spec.Number != h.Spec.ProviderState.Boots:
			return fmt.Errorf("%s: boot %s has the number %d, and its host counts %d", promise.Records, b.Name, b.Spec.Number, h.Spec.ProviderState.Boots)
		case ref == nil && b.Spec.ClaimID != "" && b.Spec.VoidedTime == nil:
			return fmt.Errorf("%s: host %s is free, and its boot is not void", promise.Void, h.Name)
		case ref != nil && b.Spec.Number > 0 && (b.Spec.ClaimID != ref.ClaimID || b.Spec.VoidedTime != nil):
			return fmt.Errorf("%s: boot %s is of claim %q, void %v, and not of claim %q", promise.Forgotten, b.Name, b.Spec.ClaimID, b.Spec.VoidedTime, ref.ClaimID)
		}
		delete(boots, h.Name)
	}
	if len(boots) > 0 {
		return fmt.Errorf("boots without a host: %v", slices.Collect(maps.Keys(boots)))
	}
	return nil
}

// phases is nil if the hosts are in these phases.
func (r *run) phases(want ...v1alpha1.HostPhase) error {
	var is []v1alpha1.HostPhase
	for _, h := range r.hosts() {
		is = append(is, h.Status.Phase)
	}
	slices.Sort(is)
	slices.Sort(want)
	if !slices.Equal(is, want) {
		return fmt.Errorf("the hosts are %v and not %v", is, want)
	}
	return nil
}

// watchClaims records the hosts that ever named a machine.
func (r *run) watchClaims(env *controllerstest.Env) {
	g := NewWithT(r.t)
	c, err := client.NewWithWatch(env.Config, client.Options{Scheme: env.Scheme})
	g.Expect(err).NotTo(HaveOccurred())
	w, err := c.Watch(r.t.Context(), &v1alpha1.BareMetalHostList{}, client.InNamespace(r.site.Namespace))
	g.Expect(err).NotTo(HaveOccurred())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range w.ResultChan() {
			h, ok := e.Object.(*v1alpha1.BareMetalHost)
			if !ok || e.Type == watch.Deleted || h.Spec.ConsumerRef == nil {
				continue
			}
			r.mu.Lock()
			if r.claims[h.Spec.ConsumerRef.Name] == nil {
				r.claims[h.Spec.ConsumerRef.Name] = map[string]bool{}
			}
			r.claims[h.Spec.ConsumerRef.Name][h.Name] = true
			r.mu.Unlock()
		}
	}()
	r.t.Cleanup(func() {
		w.Stop()
		<-done
	})
}

// oneClaim expects that only one host was ever claimed for a machine.
func (r *run) oneClaim(machine string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if hosts := slices.Collect(maps.Keys(r.claims[machine])); len(hosts) != 1 {
		return fmt.Errorf("%s: machine %s had the hosts %v one after the other", promise.OneHost, machine, hosts)
	}
	return nil
}

// ended checks the end of a run, and stops the providers.
func (r *run) ended(want powers, machines ...string) {
	r.t.Helper()
	g := NewWithT(r.t)
	var problems []error
	if r.claim != nil {
		machines = append(machines, r.machine())
	}
	for _, machine := range machines {
		problems = append(problems, r.oneClaim(machine))
	}
	problems = append(problems, r.powers().equal(want), r.recorded())
	logins := map[string]int{}
	for _, s := range r.site.Servers() {
		if _, most := s.Logins(); most > r.left[s.Name]+len(r.sides) {
			problems = append(problems, fmt.Errorf("server %s: %d sessions were open at once, and a halted provider left %d", s.Name, most, r.left[s.Name]))
		}
		logins[s.Name], _ = s.Logins()
	}
	for _, s := range r.sides {
		g.Expect(s.provider.Stop()).To(Succeed())
	}
	for _, s := range r.site.Servers() {
		if s.Sessions() > r.left[s.Name] {
			problems = append(problems, fmt.Errorf("server %s: %d sessions are left, and a halted provider left %d (%d logins)", s.Name, s.Sessions(), r.left[s.Name], logins[s.Name]))
		}
	}
	if err := errors.Join(problems...); err != nil {
		r.t.Errorf("%v\n%s", err, r.scene())
	}
}

// powers are the numbers of power-ons and power-offs of each server, highest first, and the total number of operating systems that booted over the network.
type powers struct {
	switched [][2]int
	boots    int
}

func (r *run) powers() powers {
	var p powers
	for _, s := range r.site.Servers() {
		ons, offs := s.Switched()
		p.switched = append(p.switched, [2]int{ons, offs})
		p.boots += len(s.Lives())
	}
	slices.SortFunc(p.switched, func(a, b [2]int) int { return slices.Compare(b[:], a[:]) })
	return p
}

func (p powers) equal(want powers) error {
	if !slices.Equal(p.switched, want.switched) {
		return fmt.Errorf("%s: the servers were switched on and off %v times, and not %v", promise.PowerCycle, p.switched, want.switched)
	}
	if p.boots != want.boots {
		return fmt.Errorf("%s: %d systems booted, and not %d", promise.Data, p.boots, want.boots)
	}
	return nil
}
