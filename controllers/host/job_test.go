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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// scriptedBMC is a BMC with scripted answers to boot overrides.
type scriptedBMC struct {
	*bmctest.Fake

	read     bmc.BootOverride
	readErr  error
	set      func(bmc.BootOverride, bmc.BootMethod) (bmc.BootResult, error)
	ejectErr error

	requested []overrideChoice
	ejections int
}

func (s *scriptedBMC) BootMethods() []bmc.BootMethod { return []bmc.BootMethod{"Plain", "NoMode"} }

func (s *scriptedBMC) BootOverride(context.Context) (bmc.BootOverride, error) {
	return s.read, s.readErr
}

func (s *scriptedBMC) SetBootOverride(_ context.Context, o bmc.BootOverride, method bmc.BootMethod) (bmc.BootResult, error) {
	s.requested = append(s.requested, overrideChoice{o.Target, method})
	if s.set == nil {
		return bmc.BootResult{Method: method}, nil
	}
	return s.set(o, method)
}

func (s *scriptedBMC) EjectMedia(context.Context) error { s.ejections++; return s.ejectErr }

func failed(kind bmc.Kind, what string) error {
	return &bmc.Error{Kind: kind, Op: "Try", Err: errors.New(what)}
}

// newTestReconciler returns a reconciler that has observed one host, and a job for that host. It has no API server, unless an option sets one.
func newTestReconciler(t *testing.T, options ...func(*Reconciler)) (*Reconciler, job) {
	t.Helper()
	r := &Reconciler{Client: emptyCache{}}
	for _, option := range options {
		option(r)
	}
	r.connect(nil, make(chan struct{}))
	endpoint := &bmc.Endpoint{URL: &url.URL{Scheme: "fake", Host: "a"}, Username: "u", Password: "p"}
	j := job{key: types.NamespacedName{Namespace: "dc", Name: "h"}, endpoint: endpoint, mode: bmc.BootUEFI, decidedAt: r.Clock.Now(), boot: v1alpha1.BareMetalBootSpec{Number: 1}, method: v1alpha1.MethodPXE, capabilities: []string{"BootHTTP", "BootPXE"}}
	r.observations.update(j.key, func(h *hostObservation) { h.setEndpoint(endpoint, "1") })
	return r, j
}

// withBMC returns an option whose pool connects to a fake BMC.
func withBMC(fake *bmctest.Fake) func(*Reconciler) {
	return func(r *Reconciler) {
		r.Pool = bmc.NewPool(map[string]bmc.Driver{"fake": {Open: fake.Open}}, bmc.PoolOptions{})
	}
}

// TestRefusedOverride: if a BMC refuses a method, the job tries each other method once.
func TestRefusedOverride(t *testing.T) {
	g := NewWithT(t)
	r, j := newTestReconciler(t)
	c := &scriptedBMC{set: func(o bmc.BootOverride, _ bmc.BootMethod) (bmc.BootResult, error) {
		if o.Target == bmc.BootHTTP {
			return bmc.BootResult{Method: "NoMode"}, nil
		}
		return bmc.BootResult{}, failed(bmc.Failed, "no PXE today")
	}}
	g.Expect(r.performer.jobs.executor.boot.setNetworkBoot(t.Context(), j, c)).To(Succeed())
	g.Expect(c.requested).To(Equal([]overrideChoice{{bmc.BootPXE, "Plain"}, {bmc.BootPXE, "NoMode"}, {bmc.BootHTTP, "Plain"}}))
	got := r.observations.get(j.key)
	g.Expect(got.override).To(Equal(&v1alpha1.BootOverrideStatus{Boot: 1, Target: "HTTP", Method: "NoMode"}))
	g.Expect(got.bmc.OverrideSet).To(BeTrue())
	g.Expect(got.bmc.NetworkBootSetAt).To(Equal(j.decidedAt))
	g.Expect(got.bmc.NetworkBootNumber).To(Equal(j.boot.Number))

	r, j = newTestReconciler(t)
	c = &scriptedBMC{set: func(bmc.BootOverride, bmc.BootMethod) (bmc.BootResult, error) {
		return bmc.BootResult{}, failed(bmc.Unsupported, strings.Repeat("no", 1000))
	}}
	g.Expect(bmc.KindOf(r.performer.jobs.executor.boot.setNetworkBoot(t.Context(), j, c))).To(Equal(bmc.Unsupported))
	g.Expect(c.requested).To(HaveLen(3))
	got = r.observations.get(j.key)
	g.Expect(got.override.Warning).To(And(HavePrefix("Try: no"), HaveLen(256)))
	g.Expect(got.bmc.NetworkBootSetAt).To(BeZero())

	r, j = newTestReconciler(t)
	c = &scriptedBMC{set: func(bmc.BootOverride, bmc.BootMethod) (bmc.BootResult, error) {
		return bmc.BootResult{}, failed(bmc.Unreachable, "gone")
	}}
	g.Expect(bmc.KindOf(r.performer.jobs.executor.boot.setNetworkBoot(t.Context(), j, c))).To(Equal(bmc.Unreachable))
	g.Expect(c.requested).To(HaveLen(1), "without an answer the method is not known to fail")
}

// emptyCache is a cache in which every object exists and is empty.
type emptyCache struct{ client.Client }

func (emptyCache) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return nil
}

// TestClearOverrideIfNeeded: an override is cleared unless there is none, and the result is recorded.
func TestClearOverrideIfNeeded(t *testing.T) {
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
		bmc    *scriptedBMC
		writes int
		fails  string
		again  bool
	}{
		"cleared by the BMC":                     {false, set, &scriptedBMC{read: none}, 0, "", false},
		"still there":                            {false, set, &scriptedBMC{read: pxe}, 1, "", false},
		"never showed":                           {false, doubtful, &scriptedBMC{read: none}, 1, "", false},
		"cannot be read":                         {false, set, &scriptedBMC{readErr: failed(bmc.Unsupported, "x")}, 1, "", false},
		"the BMC refuses":                        {false, set, &scriptedBMC{read: pxe, set: refuses}, 1, "never", false},
		"the BMC ignores it":                     {false, set, &scriptedBMC{read: pxe, set: doubts}, 1, "the BMC says PXE", false},
		"the BMC is unreachable":                 {false, set, &scriptedBMC{readErr: failed(bmc.Unreachable, "gone")}, 0, "gone", true},
		"clean up: none":                         {true, nil, &scriptedBMC{read: none}, 0, "", false},
		"clean up: set by someone else":          {true, nil, &scriptedBMC{read: pxe}, 1, "", false},
		"clean up: set by us, may not show":      {true, set, &scriptedBMC{read: none}, 1, "", false},
		"clean up: cannot be read, none was set": {true, nil, &scriptedBMC{readErr: failed(bmc.Unsupported, "x")}, 0, "", false},
		"clean up: cannot be read, one was set":  {true, set, &scriptedBMC{readErr: failed(bmc.Unsupported, "x")}, 1, "", false},
		"clean up: the BMC refuses":              {true, set, &scriptedBMC{read: pxe, set: refuses}, 1, "never", false},
		"clean up: the BMC ignores it":           {true, set, &scriptedBMC{read: pxe, set: doubts}, 1, "the BMC says PXE", false},
		"clean up: the media stay":               {true, set, &scriptedBMC{read: pxe, ejectErr: failed(bmc.NotFound, "no drive")}, 1, "no drive", false},
		"clean up: it has no drive":              {true, nil, &scriptedBMC{read: none, ejectErr: failed(bmc.Unsupported, "no drive")}, 0, "", false},
		"clean up: refuses, then is unreachable": {true, set, &scriptedBMC{read: pxe, set: refuses, ejectErr: failed(bmc.Unreachable, "gone")}, 1, "gone", true},
		"clean up: the read fails":               {true, set, &scriptedBMC{readErr: failed(bmc.Failed, "nonsense")}, 0, "nonsense", false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			r, j := newTestReconciler(t)
			j.action, j.lastOverride = lifecycle.ClearBootOverride, test.known
			if test.clean {
				j.action = lifecycle.CleanUp
			}
			r.observations.update(j.key, func(h *hostObservation) { h.override, h.bmc.OverrideSet = test.known, true })
			err := r.performer.jobs.executor.execute(t.Context(), j, test.bmc)
			r.performer.jobs.finish(t.Context(), j, time.Now(), err)
			got := r.observations.get(j.key)
			g.Expect(test.bmc.requested).To(HaveLen(test.writes))
			g.Expect(test.bmc.ejections).To(Equal(map[bool]int{true: 1}[test.clean]), "the media are ejected even if the override is not cleared")
			if test.fails == "" {
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(got.endedOperation.Outcome).To(Equal(v1alpha1.OperationSucceeded))
				g.Expect(got.override == nil || !got.override.Persistent && got.override.Worked == test.known.Worked).To(BeTrue())
			} else {
				g.Expect(got.endedOperation.Outcome).To(Equal(v1alpha1.OperationFailed))
				g.Expect(got.endedOperation.Message).To(ContainSubstring(test.fails))
			}
			g.Expect(got.bmc.OverrideSet).To(Equal(test.again))
			kept := test.clean && test.bmc.ejectErr != nil && bmc.KindOf(test.bmc.ejectErr) == bmc.NotFound
			g.Expect(got.bmc.CleanedAt.IsZero()).To(Equal(test.again || !test.clean || kept), "an override that stays is tolerated, media are not")
			g.Expect(got.bmc.CleanUpFailures).To(Equal(map[bool]int{true: 1}[kept]))
			if kept {
				g.Expect(got.bmc.CleanUpError).To(ContainSubstring(test.fails))
			} else {
				g.Expect(got.bmc.CleanUpError).To(BeEmpty())
			}
			g.Expect(got.bmc.Problem != nil).To(Equal(test.again), "an answer of the BMC causes no retry")
		})
	}
}

// TestClearIsConfirmed: an override is read without a look at the API server, and cleared only after one.
func TestClearIsConfirmed(t *testing.T) {
	for name, c := range map[string]struct {
		read   bmc.BootTarget
		looks  int
		writes int
		err    error
	}{
		"cleared by the BMC":          {bmc.BootNone, 0, 0, nil},
		"still there":                 {bmc.BootPXE, 1, 1, nil},
		"still there, in maintenance": {bmc.BootPXE, 1, 0, errOutdated},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			r, j := newTestReconciler(t)
			j.action, j.lastOverride = lifecycle.ClearBootOverride, &v1alpha1.BootOverrideStatus{Target: "PXE", Method: "NoMode"}
			looks, fake := 0, &scriptedBMC{read: bmc.BootOverride{Target: c.read}}
			j.confirm = func(context.Context) error { looks++; return c.err }
			r.observations.update(j.key, func(h *hostObservation) { h.bmc.OverrideSet = true })
			err := r.performer.jobs.executor.execute(t.Context(), j, fake)
			if c.err == nil {
				g.Expect(err).NotTo(HaveOccurred())
			} else {
				g.Expect(err).To(MatchError(c.err))
			}
			g.Expect(looks).To(Equal(c.looks))
			g.Expect(r.observations.get(j.key).bmc.OverrideSet).To(Equal(c.err != nil), "what was not confirmed is still to be done")
			g.Expect(fake.requested).To(HaveLen(c.writes))
		})
	}
}

// TestBusyUntilResultIsRecorded: the BMC counts as busy until the result of a job is recorded, whatever the pool reports for its key.
func TestBusyUntilResultIsRecorded(t *testing.T) {
	g := NewWithT(t)
	fake := &bmctest.Fake{Errors: map[string]error{"PowerState": failed(bmc.Failed, "nonsense")}}
	r, j := newTestReconciler(t, withBMC(fake))
	defer r.Pool.Close()
	host := &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: j.key.Namespace, Name: j.key.Name}}
	submit := func() time.Duration {
		wait, err := r.performer.jobs.submit(t.Context(), host, lifecycle.View{Now: time.Now()}, lifecycle.ReadPower)
		g.Expect(err).NotTo(HaveOccurred())
		return wait
	}
	g.Expect(submit()).To(BeZero())
	r.observations.update(j.key, func(h *hostObservation) {
		// This function holds the lock of the observations, so the result cannot be recorded. The pool still releases the key.
		g.Eventually(func() bool { return r.Pool.Busy(j.key.String()) }).Should(BeFalse())
		g.Expect(h.bmc.Busy || h.bmc.Problem != nil).To(BeTrue(), "the job has ended and its result is not recorded")
	})
	g.Eventually(r.enqueuer.channel).Should(Receive())
	got := r.observations.get(j.key)
	g.Expect(got.bmc.Busy).To(BeFalse())
	g.Expect(got.bmc.Problem).NotTo(BeNil())

	// A job for a key that the pool has not released yet is submitted again.
	release := make(chan struct{})
	g.Eventually(func() bool {
		return r.Pool.Submit(bmc.Job{
			Key: j.key.String(), Endpoint: *j.endpoint, Done: func(error) {},
			Run: func(context.Context, bmc.Client) error { <-release; return nil },
		})
	}).Should(BeTrue())
	g.Expect(submit()).To(Equal(resubmitDelay))
	g.Expect(r.observations.get(j.key).bmc.Busy).To(BeFalse())
	close(release)
	g.Eventually(submit).Should(BeZero())
	g.Eventually(r.enqueuer.channel).Should(Receive())
}

// unreachableAPI is an API server that does not answer.
type unreachableAPI struct {
	client.Reader

	reads int
}

func (d *unreachableAPI) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	d.reads++
	return errors.New("etcd has no leader")
}

// TestAPIServerDown: a command that cannot be rechecked is deferred with a growing delay, and is not a problem of the BMC.
func TestAPIServerDown(t *testing.T) {
	g := NewWithT(t)
	api := &unreachableAPI{}
	fake := &bmctest.Fake{}
	r, j := newTestReconciler(t, withBMC(fake), func(r *Reconciler) { r.APIReader = api })
	defer r.Pool.Close()
	host := &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: j.key.Namespace, Name: j.key.Name}}
	var last time.Duration
	for range 3 {
		wait, err := r.performer.jobs.submit(t.Context(), host, lifecycle.View{Now: time.Now()}, lifecycle.PowerOn)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(wait).To(BeZero())
		g.Eventually(r.enqueuer.channel).Should(Receive())
		g.Eventually(r.Pool.Busy).WithArguments(j.key.String()).Should(BeFalse())
		wait, err = r.performer.jobs.submit(t.Context(), host, lifecycle.View{Now: time.Now()}, lifecycle.PowerOn)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(wait).To(BeNumerically(">", last+500*time.Millisecond), "the delay grows")
		last = wait
		r.observations.update(j.key, func(h *hostObservation) { h.commandsDeferredUntil = time.Time{} }) // the delay has passed
	}
	g.Expect(api.reads).To(Equal(3))
	g.Expect(r.observations.get(j.key).bmc.Problem).To(BeNil())
	g.Expect(fake.Calls()).NotTo(ContainElement("PowerOn"))
}

// staleAPI is an API server in which the host has changed.
type staleAPI struct{ client.Client }

func (staleAPI) Patch(_ context.Context, _ client.Object, patch client.Patch, _ ...client.PatchOption) error {
	return apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("baremetalhosts").GroupResource(), "h", errors.New(string(patch.Type())))
}

// TestRetryOfAStaleHost: the BMC gets a request only after the retry annotation was removed.
func TestRetryOfAStaleHost(t *testing.T) {
	g := NewWithT(t)
	fake := &bmctest.Fake{}
	r, j := newTestReconciler(t, withBMC(fake), func(r *Reconciler) { r.Client = staleAPI{} })
	host := &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{
		Namespace: j.key.Namespace, Name: j.key.Name, ResourceVersion: "1", Annotations: map[string]string{v1alpha1.RetryBMCAnnotation: "me"},
	}}
	_, err := r.performer.jobs.submit(t.Context(), host, lifecycle.View{Now: time.Now(), Requests: lifecycle.Requests{RetryBMC: true}}, lifecycle.Inspect)
	g.Expect(apierrors.IsConflict(err)).To(BeTrue())
	r.Pool.Close()
	g.Expect(fake.Calls()).To(BeEmpty())
}
