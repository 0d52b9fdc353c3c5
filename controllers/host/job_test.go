package host

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// scripted is a BMC whose answers to boot overrides are given.
type scripted struct {
	*bmctest.Fake

	read   bmc.BootOverride
	cannot error // read
	set    func(bmc.BootOverride, bmc.BootMethod) (bmc.BootResult, error)
	eject  error

	asked []choice
	media int
}

func (s *scripted) BootMethods() []bmc.BootMethod { return []bmc.BootMethod{"Plain", "NoMode"} }

func (s *scripted) BootOverride(context.Context) (bmc.BootOverride, error) { return s.read, s.cannot }

func (s *scripted) SetBootOverride(_ context.Context, o bmc.BootOverride, way bmc.BootMethod) (bmc.BootResult, error) {
	s.asked = append(s.asked, choice{o.Target, way})
	if s.set == nil {
		return bmc.BootResult{Method: way}, nil
	}
	return s.set(o, way)
}

func (s *scripted) EjectMedia(context.Context) error { s.media++; return s.eject }

func failed(kind bmc.Kind, what string) error {
	return &bmc.Error{Kind: kind, Op: "Try", Err: errors.New(what)}
}

// bench is a reconciler that knows one host and has no API server.
func bench(t *testing.T) (*Reconciler, job) {
	t.Helper()
	r := &Reconciler{Client: present{}, Clock: clock.RealClock{}, facts: newFacts(), results: make(chan event.TypedGenericEvent[types.NamespacedName], 9), stopped: make(chan struct{})}
	endpoint := &bmc.Endpoint{URL: &url.URL{Scheme: "fake", Host: "a"}, Username: "u", Password: "p"}
	j := job{key: types.NamespacedName{Namespace: "dc", Name: "h"}, endpoint: endpoint, mode: bmc.BootUEFI, boot: 1, capabilities: []string{"BootHTTP", "BootPXE"}}
	r.facts.with(j.key, func(h *hostFacts) { h.reach(endpoint, "1") })
	return r, j
}

// TestRefusedOverride: a BMC that answers with an error is told in the next way in the same job, each once.
func TestRefusedOverride(t *testing.T) {
	g := NewWithT(t)
	r, j := bench(t)
	c := &scripted{set: func(o bmc.BootOverride, _ bmc.BootMethod) (bmc.BootResult, error) {
		if o.Target == bmc.BootHTTP {
			return bmc.BootResult{Method: "NoMode"}, nil
		}
		return bmc.BootResult{}, failed(bmc.Failed, "no PXE today")
	}}
	g.Expect(r.setNetworkBoot(t.Context(), j, c)).To(Succeed())
	g.Expect(c.asked).To(Equal([]choice{{bmc.BootPXE, "Plain"}, {bmc.BootPXE, "NoMode"}, {bmc.BootHTTP, "Plain"}}))
	got := r.facts.get(j.key)
	g.Expect(got.override).To(Equal(&v1alpha1.BootOverrideStatus{Boot: 1, Target: "HTTP", Method: "NoMode"}))
	g.Expect(got.bmc.OverrideSet).To(BeTrue())
	g.Expect(got.bmc.NetworkBootSetAt).NotTo(BeZero())

	r, j = bench(t)
	c = &scripted{set: func(bmc.BootOverride, bmc.BootMethod) (bmc.BootResult, error) {
		return bmc.BootResult{}, failed(bmc.Unsupported, strings.Repeat("no", 1000))
	}}
	g.Expect(bmc.KindOf(r.setNetworkBoot(t.Context(), j, c))).To(Equal(bmc.Unsupported))
	g.Expect(c.asked).To(HaveLen(3))
	got = r.facts.get(j.key)
	g.Expect(got.override.Warning).To(And(HavePrefix("Try: no"), HaveLen(256)))
	g.Expect(got.bmc.NetworkBootSetAt).To(BeZero())

	r, j = bench(t)
	c = &scripted{set: func(bmc.BootOverride, bmc.BootMethod) (bmc.BootResult, error) {
		return bmc.BootResult{}, failed(bmc.Unreachable, "gone")
	}}
	g.Expect(bmc.KindOf(r.setNetworkBoot(t.Context(), j, c))).To(Equal(bmc.Unreachable))
	g.Expect(c.asked).To(HaveLen(1), "no answer says nothing of the way")
}

// present is a cache in which every host is there, with nothing in it.
type present struct{ client.Client }

func (present) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return nil
}

// TestTakeBack: an override is taken back unless there is none, and what came of it is told.
func TestTakeBack(t *testing.T) {
	pxe, none := bmc.BootOverride{Target: bmc.BootPXE}, bmc.BootOverride{Target: bmc.BootNone}
	set := &v1alpha1.BootOverrideStatus{Target: "PXE", Method: "NoMode", Persistent: true, Worked: true}
	doubtful := &v1alpha1.BootOverrideStatus{Target: "PXE", Method: "NoMode", Warning: "it does not show"}
	refuses := func(bmc.BootOverride, bmc.BootMethod) (bmc.BootResult, error) {
		return bmc.BootResult{}, failed(bmc.Failed, "never")
	}
	doubts := func(bmc.BootOverride, bmc.BootMethod) (bmc.BootResult, error) {
		return bmc.BootResult{Doubt: "the BMC says PXE"}, nil
	}
	for name, test := range map[string]struct {
		clean  bool // CleanUp, not ClearBootOverride
		known  *v1alpha1.BootOverrideStatus
		bmc    *scripted
		writes int
		fails  string
		again  bool
	}{
		"gone by itself":                          {false, set, &scripted{read: none}, 0, "", false},
		"still there":                             {false, set, &scripted{read: pxe}, 1, "", false},
		"never showed":                            {false, doubtful, &scripted{read: none}, 1, "", false},
		"cannot be read":                          {false, set, &scripted{cannot: failed(bmc.Unsupported, "x")}, 1, "", false},
		"the BMC refuses":                         {false, set, &scripted{read: pxe, set: refuses}, 1, "never", false},
		"the BMC does not do it":                  {false, set, &scripted{read: pxe, set: doubts}, 1, "the BMC says PXE", false},
		"the BMC is gone":                         {false, set, &scripted{cannot: failed(bmc.Unreachable, "gone")}, 0, "gone", true},
		"clean up: none":                          {true, nil, &scripted{read: none}, 0, "", false},
		"clean up: a stranger's":                  {true, nil, &scripted{read: pxe}, 1, "", false},
		"clean up: ours, which may not show":      {true, set, &scripted{read: none}, 1, "", false},
		"clean up: cannot be read, none was set":  {true, nil, &scripted{cannot: failed(bmc.Unsupported, "x")}, 0, "", false},
		"clean up: cannot be read, one was set":   {true, set, &scripted{cannot: failed(bmc.Unsupported, "x")}, 1, "", false},
		"clean up: the BMC refuses":               {true, set, &scripted{read: pxe, set: refuses}, 1, "never", false},
		"clean up: the BMC does not do it":        {true, set, &scripted{read: pxe, set: doubts}, 1, "the BMC says PXE", false},
		"clean up: the image stays":               {true, set, &scripted{read: pxe, eject: failed(bmc.NotFound, "no drive")}, 1, "no drive", false},
		"clean up: it has no drive":               {true, nil, &scripted{read: none, eject: failed(bmc.Unsupported, "no drive")}, 0, "", false},
		"clean up: refuses, and then is gone":     {true, set, &scripted{read: pxe, set: refuses, eject: failed(bmc.Unreachable, "gone")}, 1, "gone", true},
		"clean up: the reading fails and is told": {true, set, &scripted{cannot: failed(bmc.Failed, "nonsense")}, 0, "nonsense", false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			r, j := bench(t)
			j.action, j.override = lifecycle.ClearBootOverride, test.known
			if test.clean {
				j.action = lifecycle.CleanUp
			}
			r.facts.with(j.key, func(h *hostFacts) { h.override, h.bmc.OverrideSet = test.known, true })
			err := r.do(t.Context(), j, test.bmc)
			r.done(t.Context(), j, time.Now(), err)
			got := r.facts.get(j.key)
			g.Expect(test.bmc.asked).To(HaveLen(test.writes))
			g.Expect(test.bmc.media).To(Equal(map[bool]int{true: 1}[test.clean]), "both are tried")
			if test.fails == "" {
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(got.operation.Outcome).To(Equal(v1alpha1.OperationSucceeded))
				g.Expect(got.override == nil || !got.override.Persistent && got.override.Worked == test.known.Worked).To(BeTrue())
			} else {
				g.Expect(got.operation.Outcome).To(Equal(v1alpha1.OperationFailed))
				g.Expect(got.operation.Message).To(ContainSubstring(test.fails))
			}
			g.Expect(got.bmc.OverrideSet).To(Equal(test.again))
			kept := test.clean && test.bmc.eject != nil && bmc.KindOf(test.bmc.eject) == bmc.NotFound
			g.Expect(got.bmc.CleanedAt.IsZero()).To(Equal(test.again || !test.clean || kept), "an override that stays is tolerated, an image is not")
			g.Expect(got.bmc.CleanUpFailures).To(Equal(map[bool]int{true: 1}[kept]))
			if kept {
				g.Expect(got.bmc.CleanUpError).To(ContainSubstring(test.fails))
			} else {
				g.Expect(got.bmc.CleanUpError).To(BeEmpty())
			}
			g.Expect(got.bmc.Problem != nil).To(Equal(test.again), "what the BMC answers is not waited for")
		})
	}
}

// TestBusyUntilNoted: as long as the result of a job is not noted, the BMC counts as busy, whatever the pool says of the key.
func TestBusyUntilNoted(t *testing.T) {
	g := NewWithT(t)
	r, j := bench(t)
	fake := &bmctest.Fake{Errors: map[string]error{"PowerState": failed(bmc.Failed, "nonsense")}}
	r.Pool = bmc.NewPool(map[string]bmc.Driver{"fake": {Open: fake.Open}}, bmc.PoolOptions{})
	defer r.Pool.Close()
	host := &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: j.key.Namespace, Name: j.key.Name}}
	submit := func() time.Duration {
		wait, err := r.submit(t.Context(), host, lifecycle.View{Now: time.Now()}, lifecycle.ReadPower)
		g.Expect(err).NotTo(HaveOccurred())
		return wait
	}
	g.Expect(submit()).To(BeZero())
	r.facts.with(j.key, func(h *hostFacts) {
		// While the facts are held nothing can be noted, and the pool lets go of the key.
		g.Eventually(func() bool { return r.Pool.Busy(j.key.String()) }).Should(BeFalse())
		g.Expect(h.bmc.Busy || h.bmc.Problem != nil).To(BeTrue(), "the job is over and its result is not known")
	})
	g.Eventually(r.results).Should(Receive())
	got := r.facts.get(j.key)
	g.Expect(got.bmc.Busy).To(BeFalse())
	g.Expect(got.bmc.Problem).NotTo(BeNil())

	// A key that the pool has not freed yet is tried again, not forgotten.
	release := make(chan struct{})
	g.Eventually(func() bool {
		return r.Pool.Submit(bmc.Job{
			Key: j.key.String(), Endpoint: *j.endpoint, Done: func(error) {},
			Run: func(context.Context, bmc.Client) error { <-release; return nil },
		})
	}).Should(BeTrue())
	g.Expect(submit()).To(Equal(soon))
	g.Expect(r.facts.get(j.key).bmc.Busy).To(BeFalse())
	close(release)
	g.Eventually(submit).Should(BeZero())
	g.Eventually(r.results).Should(Receive())
}

// down is an API server that does not answer.
type down struct {
	client.Reader

	asked int
}

func (d *down) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	d.asked++
	return errors.New("etcd has no leader")
}

// TestAPIServerDown: a command of which it cannot be read whether it is still wanted is put off, ever longer, and is no word about the BMC.
func TestAPIServerDown(t *testing.T) {
	g := NewWithT(t)
	r, j := bench(t)
	api := &down{}
	fake := &bmctest.Fake{}
	r.APIReader, r.Pool = api, bmc.NewPool(map[string]bmc.Driver{"fake": {Open: fake.Open}}, bmc.PoolOptions{})
	defer r.Pool.Close()
	host := &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: j.key.Namespace, Name: j.key.Name}}
	var last time.Duration
	for range 3 {
		wait, err := r.submit(t.Context(), host, lifecycle.View{Now: time.Now()}, lifecycle.PowerOn)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(wait).To(BeZero())
		g.Eventually(r.results).Should(Receive())
		g.Eventually(r.Pool.Busy).WithArguments(j.key.String()).Should(BeFalse())
		wait, err = r.submit(t.Context(), host, lifecycle.View{Now: time.Now()}, lifecycle.PowerOn)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(wait).To(BeNumerically(">", last+500*time.Millisecond), "not at once, and later each time")
		last = wait
		r.facts.with(j.key, func(h *hostFacts) { h.held = time.Time{} }) // the time is over
	}
	g.Expect(api.asked).To(Equal(3))
	g.Expect(r.facts.get(j.key).bmc.Problem).To(BeNil())
	g.Expect(fake.Calls()).NotTo(ContainElement("PowerOn"))
}

// stale is an API server in which the host is another by now.
type stale struct{ client.Client }

func (stale) Patch(_ context.Context, _ client.Object, patch client.Patch, _ ...client.PatchOption) error {
	return apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("baremetalhosts").GroupResource(), "h", errors.New(string(patch.Type())))
}

// TestRetryOfAStaleHost: the BMC is asked only when the annotation that wants it is gone for sure.
func TestRetryOfAStaleHost(t *testing.T) {
	g := NewWithT(t)
	r, j := bench(t)
	fake := &bmctest.Fake{}
	r.Client, r.Pool = stale{}, bmc.NewPool(map[string]bmc.Driver{"fake": {Open: fake.Open}}, bmc.PoolOptions{})
	host := &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{
		Namespace: j.key.Namespace, Name: j.key.Name, ResourceVersion: "1", Annotations: map[string]string{v1alpha1.RetryBMCAnnotation: "me"},
	}}
	_, err := r.submit(t.Context(), host, lifecycle.View{Now: time.Now(), RetryNow: true}, lifecycle.Inspect)
	g.Expect(apierrors.IsConflict(err)).To(BeTrue())
	r.Pool.Close()
	g.Expect(fake.Calls()).To(BeEmpty())
}
