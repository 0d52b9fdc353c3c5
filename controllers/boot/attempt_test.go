package boot_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"pgregory.net/rapid"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/boot"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed"
)

var (
	booting  = net.HardwareAddr{0x52, 0x54, 0, 0, 0, 9}
	honest   = netip.MustParseAddr("192.0.2.9")
	stranger = netip.MustParseAddr("192.0.2.66")
)

// fault is what befalls a write to the API server.
type fault int

const (
	noFault  fault = iota
	conflict       // somebody else wrote meanwhile
	lost           // it is done, and the answer does not come
	away           // the API server does not answer
)

var errAway = errors.New("the API server does not answer")

// world is an API server in memory with a host that is booting for a machine, and a Booter before it.
type world struct {
	*boot.Booter
	client.Client // the API server

	reads  atomic.Int64
	fault  func() fault // asked before each write
	before func()       // called before each write, where not nil
	events chan string
}

// newWorld returns a world whose Booter reads from the API server, and serves networks. Without any, nothing is known of what DHCP sees.
func newWorld(networks ...bootconfig.Network) *world {
	w := &world{fault: func() fault { return noFault }, events: make(chan string, 1000)}
	w.Client = newAPI(interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
		if w.before != nil {
			w.before()
		}
		switch w.fault() {
		case conflict:
			return apierrors.NewConflict(schema.GroupResource{Resource: "baremetalboots"}, o.GetName(), errors.New("injected"))
		case away:
			return errAway
		case lost:
			return errors.Join(c.Patch(ctx, o, p, opts...), errAway)
		case noFault:
		}
		return c.Patch(ctx, o, p, opts...)
	}})
	w.Booter = boot.New(&boot.Booter{
		Client: w.Client, APIReader: counted{w.Client, &w.reads}, Settings: controllerstest.Settings(), Key: []byte("key"), Namespace: "capbm-system",
		Networks: networks, Recorder: &events.FakeRecorder{Events: w.events}, Log: logr.Discard(),
	})
	return w
}

// indexes gives a fake client the indexes of a manager's cache.
type indexes struct{ *fake.ClientBuilder }

func (i indexes) IndexField(_ context.Context, o client.Object, field string, extract client.IndexerFunc) error {
	i.WithIndex(o, field, extract)
	return nil
}

// split reads from a cache.
type split struct {
	client.Client
	cache client.Reader
}

func (s split) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	return s.cache.Get(ctx, key, o, opts...)
}

func (s split) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return s.cache.List(ctx, list, opts...)
}

// counted counts reads.
type counted struct {
	client.Reader
	reads *atomic.Int64
}

func (c counted) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	c.reads.Add(1)
	return c.Reader.Get(ctx, key, o, opts...)
}

// newAPI returns an API server in which host dc/h boots for machine dc/m.
func newAPI(funcs interceptor.Funcs) client.WithWatch {
	now := metav1.NewTime(time.Now().Add(-time.Second))
	labels := map[string]string{clusterv1.ClusterNameLabel: "c"}
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "dc", Name: name, UID: types.UID(name + "-uid"), Labels: labels}
	}
	machine, host := meta("m"), meta("h")
	machine.Finalizers, host.Finalizers = []string{"test/keep"}, []string{"test/keep"} // so that they can be seen to go
	machine.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: "m", UID: "m-uid"}}
	builder := fake.NewClientBuilder().WithScheme(controllerstest.Scheme()).WithInterceptorFuncs(funcs).
		WithStatusSubresource(&v1alpha1.BareMetalHost{}, &v1alpha1.BareMetalBoot{})
	if err := errors.Join(controllers.IndexHosts(ctx, indexes{builder}), boot.IndexLeases(ctx, indexes{builder})); err != nil {
		panic(err)
	}
	return builder.
		WithObjects(
			&clusterv1.Cluster{ObjectMeta: meta("c")},
			&clusterv1.Machine{ObjectMeta: meta("m"), Spec: clusterv1.MachineSpec{ClusterName: "c", Bootstrap: clusterv1.Bootstrap{DataSecretName: new("data")}}},
			&v1alpha1.BareMetalMachine{ObjectMeta: machine, Spec: v1alpha1.BareMetalMachineSpec{Boot: v1alpha1.BootSource{Persistence: v1alpha1.PersistenceInstalled}}},
			&corev1.Secret{ObjectMeta: meta("data"), Data: map[string][]byte{"value": []byte("the bootstrap data")}},
			&v1alpha1.BareMetalHost{ObjectMeta: host, Spec: v1alpha1.BareMetalHostSpec{
				BootMACAddress: booting.String(), ConsumerRef: &v1alpha1.ConsumerReference{Name: "m", ClaimID: "claim"}, Boots: 3,
			}},
			&v1alpha1.BareMetalBoot{ObjectMeta: meta("h"), Spec: v1alpha1.BareMetalBootSpec{
				Number: 3, Attempt: 1, Purpose: v1alpha1.PurposeProvision, ClaimID: "claim", MachineName: "m",
				StartedAt: now, PoweredOffAt: &now, PoweredOnAt: &now,
			}},
		).Build()
}

// ctx is enough for an API server in memory.
var ctx = context.Background()

func (w *world) host() *v1alpha1.BareMetalHost {
	var host v1alpha1.BareMetalHost
	if err := w.Get(ctx, client.ObjectKey{Namespace: "dc", Name: "h"}, &host); err != nil {
		return &v1alpha1.BareMetalHost{}
	}
	return &host
}

func (w *world) boot() *v1alpha1.BareMetalBoot {
	var boot v1alpha1.BareMetalBoot
	if err := w.Get(ctx, client.ObjectKey{Namespace: "dc", Name: "h"}, &boot); err != nil {
		return &v1alpha1.BareMetalBoot{}
	}
	return &boot
}

// change changes an object in the API server.
func change[T client.Object](w *world, name string, object T, to func(T)) error {
	if err := w.Get(ctx, client.ObjectKey{Namespace: "dc", Name: name}, object); err != nil {
		return err
	}
	to(object)
	return w.Update(ctx, object)
}

func (w *world) changeHost(to func(*v1alpha1.BareMetalHost)) error {
	return change(w, "h", &v1alpha1.BareMetalHost{}, to)
}

func (w *world) changeBoot(to func(*v1alpha1.BareMetalBootSpec)) error {
	return change(w, "h", &v1alpha1.BareMetalBoot{}, func(b *v1alpha1.BareMetalBoot) { to(&b.Spec) })
}

// script asks for the script, and returns the token of the seed.
func (w *world) script(from netip.Addr) (string, error) {
	script, err := w.Script(ctx, booting, from)
	return script.SeedPath[strings.LastIndex(script.SeedPath, "/")+1:], err
}

// reportToken is the token of the report that stands in a seed.
func reportToken(data seed.Data) string { return strings.Split(data.ReportPath, "/")[4] }

// The ways in which the world changes under a boot.
func onHost(to func(*v1alpha1.BareMetalHost)) func(*world) error {
	return func(w *world) error { return w.changeHost(to) }
}

func onBoot(to func(*v1alpha1.BareMetalBootSpec)) func(*world) error {
	return func(w *world) error { return w.changeBoot(to) }
}

// nextBoot starts the next boot of the claim.
func nextBoot(w *world) error {
	return errors.Join(
		w.changeBoot(func(b *v1alpha1.BareMetalBootSpec) {
			*b = v1alpha1.BareMetalBootSpec{
				Number: b.Number + 1, Attempt: b.Attempt + 1, Purpose: b.Purpose, ClaimID: b.ClaimID, MachineName: b.MachineName,
				StartedAt: b.StartedAt, PoweredOffAt: b.PoweredOffAt, PoweredOnAt: b.PoweredOnAt,
			}
		}),
		w.changeHost(func(h *v1alpha1.BareMetalHost) { h.Spec.Boots++ }))
}

func onMachine(to func(*v1alpha1.BareMetalMachine)) func(*world) error {
	return func(w *world) error { return change(w, "m", &v1alpha1.BareMetalMachine{}, to) }
}

func deleted(name string, object client.Object) func(*world) error {
	return func(w *world) error {
		object.SetNamespace("dc")
		object.SetName(name)
		return w.Delete(ctx, object)
	}
}

// deletedAtOnce deletes the machine and its finalizer.
func deletedAtOnce(w *world) error {
	return errors.Join(onMachine(func(m *v1alpha1.BareMetalMachine) { m.Finalizers = nil })(w), deleted("m", &v1alpha1.BareMetalMachine{})(w))
}

// replaced recreates the machine under its name. Its Machine, and so its bootstrap data, is another.
func replaced(w *world) error {
	var machine v1alpha1.BareMetalMachine
	if err := change(w, "m", &machine, func(m *v1alpha1.BareMetalMachine) { m.Finalizers = nil }); err != nil {
		return err
	}
	another := machine.DeepCopy()
	another.UID, another.ResourceVersion = "another", ""
	another.OwnerReferences[0].Name = "m-2"
	return errors.Join(w.Delete(ctx, &machine), w.Create(ctx, another))
}

// TestTokensDie: what was good opens nothing once the boot is over, for whatever reason, and a report tells nothing then.
func TestTokensDie(t *testing.T) {
	now := metav1.Now()
	for name, test := range map[string]struct {
		change       func(*world) error
		seed, report bool // is it still good?
	}{
		"nothing happened": {onHost(func(*v1alpha1.BareMetalHost) {}), true, true},
		"the Cluster is paused: a boot in flight is finished": {func(w *world) error {
			return change(w, "c", &clusterv1.Cluster{}, func(c *clusterv1.Cluster) { c.Spec.Paused = new(true) })
		}, true, true},
		"in maintenance; that the system is up is a fact still": {
			onHost(func(h *v1alpha1.BareMetalHost) { h.Spec.Maintenance = &v1alpha1.Maintenance{Reason: "disk"} }), false, true,
		},
		"the Cluster cannot be found":    {deleted("c", &clusterv1.Cluster{}), false, true},
		"reported in":                    {onBoot(func(b *v1alpha1.BareMetalBootSpec) { b.ReportedAt = &now }), false, true},
		"provisioned":                    {onMachine(func(m *v1alpha1.BareMetalMachine) { m.Spec.ProviderID = "baremetal://dc/h/m" }), false, true},
		"something else runs the server": {onHost(func(h *v1alpha1.BareMetalHost) { h.Spec.ExternallyProvisioned = true }), false, true},
		"the deadline has passed": {
			// The token is that of the earlier start, so that it is not the token alone that tells.
			func(w *world) error { w.Settings.BootTimeout = time.Nanosecond; return nil }, false, false,
		},
		"the attempt has failed": {onBoot(func(b *v1alpha1.BareMetalBootSpec) {
			b.Failure = &v1alpha1.BootFailure{Reason: "Any", Message: "any"}
		}), false, false},
		"the next boot":                       {nextBoot, false, false},
		"the next boot, which is not counted": {onBoot(func(b *v1alpha1.BareMetalBootSpec) { b.Number++ }), false, false},
		"the boot is older than the host":     {onHost(func(h *v1alpha1.BareMetalHost) { h.Spec.Boots++ }), false, false},
		"no boot was recorded":                {onBoot(func(b *v1alpha1.BareMetalBootSpec) { *b = v1alpha1.BareMetalBootSpec{} }), false, false},
		"the record is gone":                  {deleted("h", &v1alpha1.BareMetalBoot{}), false, false},
		"the boot is void":                    {onBoot(func(b *v1alpha1.BareMetalBootSpec) { b.VoidedAt = &now }), false, false},
		"the boot is of another claim":        {onBoot(func(b *v1alpha1.BareMetalBootSpec) { b.ClaimID = "other" }), false, false},
		"the claim has ended":                 {onHost(func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef = nil }), false, false},
		"the machine has it by another claim": {onHost(func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef.ClaimID = "other" }), false, false},
		"another machine has it":              {onHost(func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef.Name = "other" }), false, false},
		"another machine has it, by hand": {func(w *world) error {
			var other v1alpha1.BareMetalMachine
			if err := w.Get(ctx, client.ObjectKey{Namespace: "dc", Name: "m"}, &other); err != nil {
				return err
			}
			other.Name, other.UID, other.ResourceVersion = "other", "other-uid", ""
			return errors.Join(w.Create(ctx, &other), w.changeHost(func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef.Name = "other" }))
		}, false, false},
		"the machine goes":    {deleted("m", &v1alpha1.BareMetalMachine{}), false, false},
		"the machine is gone": {deletedAtOnce, false, false},
		"the host is gone": {func(w *world) error {
			return errors.Join(onHost(func(h *v1alpha1.BareMetalHost) { h.Finalizers = nil })(w), deleted("h", &v1alpha1.BareMetalHost{})(w))
		}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w := newWorld()
			token, err := w.script(honest)
			g.Expect(err).NotTo(HaveOccurred())
			data, err := w.Seed(ctx, "dc/h", token, seed.UserData, honest)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(test.change(w)).To(Succeed())

			for _, file := range []string{seed.UserData, seed.MetaData, seed.VendorData} {
				again, err := w.Seed(ctx, "dc/h", token, file, honest)
				if test.seed {
					g.Expect(err).NotTo(HaveOccurred())
					g.Expect(again.InstanceID).To(Equal(data.InstanceID))
					g.Expect(again.UserData != nil).To(Equal(file == seed.UserData))
				} else {
					g.Expect(err).To(MatchError(pxe.ErrRefused), file)
					g.Expect(again).To(BeZero())
				}
			}
			for _, outcome := range []pxe.Outcome{pxe.Up, pxe.Succeeded, pxe.Failed, pxe.Up} {
				err := w.Report(ctx, "dc/h", reportToken(data), outcome, honest)
				if test.report {
					g.Expect(err).NotTo(HaveOccurred(), "%s", outcome)
				} else {
					g.Expect(err).To(MatchError(pxe.ErrRefused), "%s", outcome)
				}
			}
			g.Expect(w.boot().Spec.ReportedAt != nil).To(Equal(test.report))
		})
	}
}

// TestScriptDies: who has the script gets it again until the bootstrap data was given out, and only while the host boots.
func TestScriptDies(t *testing.T) {
	now := metav1.Now()
	for name, test := range map[string]struct {
		change func(*world) error
		want   error
	}{
		"nothing happened":        {onHost(func(*v1alpha1.BareMetalHost) {}), nil},
		"another MAC address":     {onHost(func(h *v1alpha1.BareMetalHost) { h.Spec.BootMACAddress = "52:54:00:00:00:0a" }), pxe.ErrRefused},
		"the data was served":     {onBoot(func(b *v1alpha1.BareMetalBootSpec) { b.DataServedAt = &now }), pxe.ErrRefused},
		"not powered on yet":      {onBoot(func(b *v1alpha1.BareMetalBootSpec) { b.PoweredOnAt = nil }), pxe.ErrNotYet},
		"not counted yet":         {onBoot(func(b *v1alpha1.BareMetalBootSpec) { b.Number++ }), pxe.ErrRefused},
		"older than the host":     {onHost(func(h *v1alpha1.BareMetalHost) { h.Spec.Boots++ }), pxe.ErrRefused},
		"void":                    {onBoot(func(b *v1alpha1.BareMetalBootSpec) { b.VoidedAt = &now }), pxe.ErrRefused},
		"of another claim":        {onBoot(func(b *v1alpha1.BareMetalBootSpec) { b.ClaimID = "other" }), pxe.ErrRefused},
		"another machine has it":  {onHost(func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef.Name = "other" }), pxe.ErrRefused},
		"the deadline has passed": {func(w *world) error { w.Settings.BootTimeout = time.Nanosecond; return nil }, pxe.ErrRefused},
		"the machine goes":        {deleted("m", &v1alpha1.BareMetalMachine{}), pxe.ErrRefused},
		"the claim has ended":     {onHost(func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef = nil }), pxe.ErrRefused},
		"in maintenance":          {onHost(func(h *v1alpha1.BareMetalHost) { h.Spec.Maintenance = &v1alpha1.Maintenance{Reason: "disk"} }), pxe.ErrRefused},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w := newWorld()
			token, err := w.script(honest)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(test.change(w)).To(Succeed())
			again, err := w.script(honest)
			if test.want == nil {
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(again).To(Equal(token))
			} else {
				g.Expect(err).To(MatchError(test.want))
				g.Expect(again).To(BeEmpty())
			}
			g.Expect(w.boot().Spec.Failure).To(BeNil(), "to ask again is no attack")
		})
	}
}

// TestLastRequester: the server that asks for its script after a stranger had it, and went on to the seed, ends the attempt.
func TestLastRequester(t *testing.T) {
	g := NewWithT(t)
	w := newWorld()
	token, err := w.script(stranger)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = w.Seed(ctx, "dc/h", token, seed.UserData, stranger)
	g.Expect(err).NotTo(HaveOccurred(), "over plain HTTP nobody can tell")
	answer, err := w.Lookup(ctx, booting)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(answer.ScriptFor).To(Equal(stranger))
	_, err = w.script(honest)
	g.Expect(err).To(MatchError(pxe.ErrRefused))
	g.Expect(w.boot().Spec.Failure.Reason).To(Equal(v1alpha1.ReasonSecondRequester))
	g.Expect(w.boot().Spec.Failure.Message).To(ContainSubstring("192.0.2.9 asked for the boot script that was given to 192.0.2.66"))
	_, err = w.Seed(ctx, "dc/h", token, seed.UserData, stranger)
	g.Expect(err).To(MatchError(pxe.ErrRefused))
}

// TestReportFromElsewhere: a system that gave itself a static address reports from there, and that is its address.
func TestReportFromElsewhere(t *testing.T) {
	g := NewWithT(t)
	w := newWorld()
	token, err := w.script(honest)
	g.Expect(err).NotTo(HaveOccurred())
	data, err := w.Seed(ctx, "dc/h", token, seed.UserData, honest)
	g.Expect(err).NotTo(HaveOccurred())
	static := netip.MustParseAddr("2001:db8::9")
	g.Expect(w.Report(ctx, "dc/h", reportToken(data), pxe.Up, static)).To(Succeed())
	g.Expect(w.Report(ctx, "dc/h", reportToken(data), pxe.Up, stranger)).To(Succeed(), "the first report counts")
	g.Expect(w.boot().Spec.ReportAddress).To(Equal("2001:db8::9"))
	g.Expect(w.boot().Spec.DataAddress).To(Equal("192.0.2.9"))
}

// TestReportAfterNode: the Node of a server may appear before its system reports. The address is that of the report all the same, and how
// the bootstrap went is heard after the deadline of the boot as well.
func TestReportAfterNode(t *testing.T) {
	g := NewWithT(t)
	w := newWorld()
	token, err := w.script(honest)
	g.Expect(err).NotTo(HaveOccurred())
	data, err := w.Seed(ctx, "dc/h", token, seed.UserData, honest)
	g.Expect(err).NotTo(HaveOccurred())
	appeared := metav1.Now()
	g.Expect(w.changeBoot(func(b *v1alpha1.BareMetalBootSpec) { b.ReportedAt = &appeared })).To(Succeed())
	g.Expect(w.Report(ctx, "dc/h", reportToken(data), pxe.Up, netip.MustParseAddr("2001:db8::9"))).To(Succeed())
	g.Expect(w.boot().Spec.ReportAddress).To(Equal("2001:db8::9"))

	w.Settings.BootTimeout = time.Nanosecond
	g.Expect(w.Report(ctx, "dc/h", reportToken(data), pxe.Failed, honest)).To(Succeed(), "a bootstrap may end long after the system is up")
}

// TestSeedReads: once the bootstrap data was served, files without it are answered from the cache, to the client that it was served to and to no other.
// The Secret is read again for the files that it is in.
func TestSeedReads(t *testing.T) {
	g := NewWithT(t)
	w := newWorld()
	token, err := w.script(honest)
	g.Expect(err).NotTo(HaveOccurred())
	before := w.reads.Load()
	whole, err := w.Seed(ctx, "dc/h", token, seed.MetaData, honest)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(whole.UserData).NotTo(BeEmpty(), "a boot that cannot be finished is not begun")
	g.Expect(w.reads.Load()-before).To(BeEquivalentTo(6), "boot, host, BareMetalMachine, Machine, Cluster, Secret")

	before = w.reads.Load()
	for _, file := range []string{seed.MetaData, seed.VendorData, seed.NetworkConfig} {
		data, err := w.Seed(ctx, "dc/h", token, file, honest)
		g.Expect(err).NotTo(HaveOccurred())
		content, _, err := seed.File(data, file, "http://192.0.2.1")
		g.Expect(err).NotTo(HaveOccurred())
		expected, _, err := seed.File(whole, file, "http://192.0.2.1")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(string(content)).To(Equal(string(expected)), file)
	}
	g.Expect(w.reads.Load() - before).To(BeZero())
	for i, file := range []string{seed.UserData, seed.IgnitionFile} {
		data, err := w.Seed(ctx, "dc/h", token, file, honest)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(data.UserData).To(Equal(whole.UserData))
		g.Expect(w.reads.Load()-before).To(BeEquivalentTo(2+2*i), "the boot and the Secret")
	}
	before = w.reads.Load()
	_, err = w.Seed(ctx, "dc/h", "guess", seed.MetaData, honest)
	g.Expect(err).To(MatchError(pxe.ErrRefused))
	g.Expect(w.reads.Load()-before).To(BeEquivalentTo(1), "the cache may not know the boot of that token")
	_, err = w.Seed(ctx, "dc/h", token, seed.MetaData, stranger)
	g.Expect(err).To(MatchError(pxe.ErrRefused))
	g.Expect(w.boot().Spec.Failure).NotTo(BeNil(), "the second requester is noticed")
	_, err = w.Seed(ctx, "dc/h", token, seed.MetaData, honest)
	g.Expect(err).To(MatchError(pxe.ErrRefused))
}

// TestReportBeforeSeed: nobody can have a report's token before the seed was given out.
func TestReportBeforeSeed(t *testing.T) {
	g := NewWithT(t)
	w := newWorld()
	token, err := w.script(honest)
	g.Expect(err).NotTo(HaveOccurred())
	data, err := w.Seed(ctx, "dc/h", token, seed.UserData, honest)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(w.changeBoot(func(b *v1alpha1.BareMetalBootSpec) { b.DataServedAt = nil })).To(Succeed())
	g.Expect(w.Report(ctx, "dc/h", reportToken(data), pxe.Up, honest)).To(MatchError(pxe.ErrRefused))
}

// race lets six addresses ask at once, and returns those that were answered.
func race(ask func(from netip.Addr) error) (winners []netip.Addr) {
	var mu sync.Mutex
	var racers sync.WaitGroup
	start := make(chan struct{})
	for i := range 6 {
		from := netip.AddrFrom4([4]byte{192, 0, 2, byte(10 + i)})
		racers.Go(func() {
			<-start
			if ask(from) == nil {
				mu.Lock()
				defer mu.Unlock()
				winners = append(winners, from)
			}
		})
	}
	close(start)
	racers.Wait()
	return winners
}

// TestRace: of many who ask at once one gets the script, whatever conflicts there are, and the attempt ends; the same of the seed.
func TestRace(t *testing.T) {
	conflicts := func() fault {
		if rand.IntN(4) == 0 {
			return conflict
		}
		return noFault
	}
	for range 5 {
		t.Run("script", func(t *testing.T) {
			g := NewWithT(t)
			w := newWorld()
			w.fault = conflicts
			winners := race(func(from netip.Addr) error {
				got, err := w.script(from)
				if (err == nil) != (got != "") {
					t.Errorf("%v with %q", err, got)
				}
				return err
			})
			g.Expect(winners).To(HaveLen(1))
			g.Expect(w.boot().Spec.ScriptAddress).To(Equal(winners[0].String()))
			g.Expect(w.boot().Spec.Failure).NotTo(BeNil())
		})
		t.Run("seed", func(t *testing.T) {
			g := NewWithT(t)
			w := newWorld()
			token, err := w.script(honest)
			g.Expect(err).NotTo(HaveOccurred())
			w.fault = conflicts
			winners := race(func(from netip.Addr) error {
				data, err := w.Seed(ctx, "dc/h", token, seed.UserData, from)
				if (err == nil) != (data.UserData != nil) {
					t.Errorf("%v with %q", err, data.UserData)
				}
				return err
			})
			g.Expect(winners).To(HaveLen(1))
			g.Expect(w.boot().Spec.DataAddress).To(Equal(winners[0].String()))
			g.Expect(w.boot().Spec.Failure).NotTo(BeNil())
		})
	}
}

// TestBinding: whoever asks for whatever in whatever order, and whatever befalls the writes: script and seed go to one address each, which
// stands on the host before a byte is given out; nothing is given out after a failure or a report; and who was bound by a write whose
// answer was lost gets it when he asks again.
func TestBinding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		var tokens known
		got := map[string]netip.Addr{}
		for range rapid.IntRange(1, 12).Draw(t, "requests") {
			from := rapid.SampledFrom([]netip.Addr{honest, honest, honest, stranger}).Draw(t, "from")
			what := rapid.SampledFrom([]string{"script", "seed", "seed", "report"}).Draw(t, "what")
			befalls := fault(rapid.IntRange(0, 3).Draw(t, "fault"))
			faults := rapid.IntRange(1, 2).Draw(t, "faults")
			w.fault = func() fault {
				if faults--; faults >= 0 {
					return befalls
				}
				return noFault
			}
			before := &w.boot().Spec
			err := w.ask(what, &tokens, from)
			after := &w.boot().Spec
			switch {
			case err == nil && what != "report":
				checkBinding(t, what, from, before, after, got)
			case errors.Is(err, errAway) && befalls == lost && inFlight(after):
				w.fault = func() fault { return noFault }
				if err := w.ask(what, &tokens, from); err != nil {
					t.Fatalf("%s for %s, whose answer was lost: %v", what, from, err)
				}
			}
		}
	})
}

func inFlight(a *v1alpha1.BareMetalBootSpec) bool { return a.Failure == nil && a.ReportedAt == nil }

// checkBinding looks at what was given to an address. got holds who got it before.
func checkBinding(t *rapid.T, what string, from netip.Addr, before, after *v1alpha1.BareMetalBootSpec, got map[string]netip.Addr) {
	bound := map[string]string{"script": after.ScriptAddress, "seed": after.DataAddress}[what]
	if first, ok := got[what]; !inFlight(before) || bound != from.String() || ok && first != from {
		t.Fatalf("%s went to %s; bound to %s, before to %s; in flight: %v", what, from, bound, first, inFlight(before))
	}
	got[what] = from
}

// known is what somebody learned who was answered.
type known struct{ seed, report string }

// ask asks for something with what is known. What nobody knows yet is guessed.
func (w *world) ask(what string, tokens *known, from netip.Addr) error {
	switch what {
	case "script":
		got, err := w.script(from)
		if err == nil {
			tokens.seed = got
		}
		return err
	case "seed":
		data, err := w.Seed(ctx, "dc/h", tokens.seed, seed.UserData, from)
		if err == nil {
			tokens.report = reportToken(data)
		}
		return err
	default:
		return w.Report(ctx, "dc/h", tokens.report, pxe.Up, from)
	}
}

// TestGuessesCostLittle: guesses are looked up in the API server so many times a second, whoever makes them; hosts that are there cost no
// more reads than others; and who has the token gets his seed meanwhile.
func TestGuessesCostLittle(t *testing.T) {
	g := NewWithT(t)
	w := newWorld()
	token, err := w.script(honest)
	g.Expect(err).NotTo(HaveOccurred())
	cost := func(host, token string) int64 {
		before := w.reads.Load()
		_, err := w.Seed(ctx, host, token, seed.UserData, stranger)
		g.Expect(err).To(MatchError(pxe.ErrRefused))
		return w.reads.Load() - before
	}
	g.Expect(cost("dc/h", "guess")).To(Equal(cost("dc/unknown", "guess")))
	for i := range 2000 {
		cost(fmt.Sprintf("dc/h%d", i), "guess")
	}
	g.Expect(w.reads.Load()).To(BeNumerically("<", 1000), "100 at once, and 20 a second, of 2000")
	_, err = w.Seed(ctx, "dc/h", token, seed.UserData, honest)
	g.Expect(err).NotTo(HaveOccurred())
}

// TestCacheBehind: a cache that does not show the boot yet keeps nobody from his seed, and one that shows a boot which is over opens nothing.
func TestCacheBehind(t *testing.T) {
	g := NewWithT(t)
	old := newAPI(interceptor.Funcs{})
	w := newWorld()
	token, err := w.script(honest)
	g.Expect(err).NotTo(HaveOccurred())

	cache := &world{Client: old}
	g.Expect(cache.changeHost(func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef, h.Spec.Boots = nil, 2 })).To(Succeed())
	g.Expect(cache.changeBoot(func(b *v1alpha1.BareMetalBootSpec) { *b = v1alpha1.BareMetalBootSpec{} })).To(Succeed())
	w.Booter.Client = split{w.Client, old}
	_, err = w.Seed(ctx, "dc/h", token, seed.UserData, honest)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = w.Seed(ctx, "dc/h", token, seed.UserData, honest)
	g.Expect(err).NotTo(HaveOccurred(), "again")

	served := w.boot().Spec
	g.Expect(cache.changeHost(func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef, h.Spec.Boots = w.host().Spec.ConsumerRef, 3 })).To(Succeed())
	g.Expect(cache.changeBoot(func(b *v1alpha1.BareMetalBootSpec) { *b = served })).To(Succeed())
	g.Expect(w.changeBoot(func(b *v1alpha1.BareMetalBootSpec) { b.ReportedAt = new(metav1.Now()) })).To(Succeed())
	_, err = w.Seed(ctx, "dc/h", token, seed.UserData, honest)
	g.Expect(err).To(MatchError(pxe.ErrRefused))
}

// TestCacheBehindFirst: before the bootstrap data is first served, the API server is asked whose it is: a cache that is behind gives it to nobody who must
// not have it any more.
func TestCacheBehindFirst(t *testing.T) {
	released := func(w *world) error {
		return errors.Join(w.changeBoot(func(b *v1alpha1.BareMetalBootSpec) { b.VoidedAt = new(metav1.Now()) }),
			w.changeHost(func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef = nil }))
	}
	for name, change := range map[string]func(*world) error{
		"the BareMetalMachine is being deleted":        deleted("m", &v1alpha1.BareMetalMachine{}),
		"the BareMetalMachine is gone":                 deletedAtOnce,
		"the BareMetalMachine was replaced":            replaced,
		"the Machine is gone":                          deleted("m", &clusterv1.Machine{}),
		"the Cluster is gone":                          deleted("c", &clusterv1.Cluster{}),
		"the machine is provisioned":                   onMachine(func(m *v1alpha1.BareMetalMachine) { m.Spec.ProviderID = "baremetal://dc/h/m" }),
		"the host was released":                        released,
		"the host was released without its boot":       onHost(func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef = nil }),
		"the host was claimed again":                   onHost(func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef.ClaimID = "next" }),
		"the host is in maintenance":                   onHost(func(h *v1alpha1.BareMetalHost) { h.Spec.Maintenance = &v1alpha1.Maintenance{Reason: "disk"} }),
		"the host counts a boot that was not recorded": onHost(func(h *v1alpha1.BareMetalHost) { h.Spec.Boots++ }),
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w := newWorld()
			token, err := w.script(honest)
			g.Expect(err).NotTo(HaveOccurred())
			cache := newAPI(interceptor.Funcs{})
			g.Expect((&world{Client: cache}).changeBoot(func(b *v1alpha1.BareMetalBootSpec) { b.ScriptAddress = honest.String() })).To(Succeed())
			w.Booter.Client = split{w.Client, cache}
			g.Expect(change(w)).To(Succeed())
			for _, file := range []string{seed.UserData, seed.MetaData} {
				data, err := w.Seed(ctx, "dc/h", token, file, honest)
				g.Expect(err).To(HaveOccurred())
				g.Expect(data).To(BeZero())
			}
			g.Expect(w.boot().Spec.DataServedAt).To(BeNil())
			g.Expect(w.boot().Spec.DataAddress).To(BeEmpty())
		})
	}
}

// TestReplacedMachine: the claim, and no name or UID of a machine, says whose a boot is. What is served for a machine that was recreated under its name is
// its own bootstrap data, never that of the machine before it.
func TestReplacedMachine(t *testing.T) {
	g := NewWithT(t)
	w := newWorld()
	token, err := w.script(honest)
	g.Expect(err).NotTo(HaveOccurred())
	w.Booter.Client = split{w.Client, newAPI(interceptor.Funcs{})}
	g.Expect(replaced(w)).To(Succeed())
	meta := metav1.ObjectMeta{Namespace: "dc", Name: "m-2"}
	g.Expect(w.Create(ctx, &clusterv1.Machine{ObjectMeta: meta, Spec: clusterv1.MachineSpec{ClusterName: "c", Bootstrap: clusterv1.Bootstrap{DataSecretName: new("m-2")}}})).To(Succeed())
	g.Expect(w.Create(ctx, &corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{"value": []byte("its own")}})).To(Succeed())
	data, err := w.Seed(ctx, "dc/h", token, seed.UserData, honest)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(data.UserData)).To(Equal("its own"))
}

// TestReleaseWins: a release that voids the boot between the read of the boot and its write wins: nothing is served, nothing is bound.
func TestReleaseWins(t *testing.T) {
	for name, ask := range map[string]func(w *world, token string) error{
		"bootstrap data": func(w *world, token string) error {
			data, err := w.Seed(ctx, "dc/h", token, seed.UserData, honest)
			if data.UserData != nil {
				return errors.New("served")
			}
			return err
		},
		"report": func(w *world, token string) error { return w.Report(ctx, "dc/h", token, pxe.Up, honest) },
		"script": func(w *world, _ string) error {
			_, err := w.script(honest)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w := newWorld()
			var token string
			var err error
			if name != "script" {
				token, err = w.script(honest)
				g.Expect(err).NotTo(HaveOccurred())
			}
			if name == "report" {
				data, err := w.Seed(ctx, "dc/h", token, seed.UserData, honest)
				g.Expect(err).NotTo(HaveOccurred())
				token = reportToken(data)
			}
			before := w.boot().Spec
			w.before = func() {
				w.before = nil
				g.Expect(w.changeBoot(func(b *v1alpha1.BareMetalBootSpec) { b.VoidedAt = new(metav1.Now()) })).To(Succeed())
			}
			g.Expect(ask(w, token)).To(MatchError(pxe.ErrRefused))
			after := w.boot().Spec
			g.Expect(after.VoidedAt).NotTo(BeNil())
			after.VoidedAt = nil
			g.Expect(after).To(Equal(before))
		})
	}
}

// TestDataComesLater: while there is no bootstrap data nothing is bound, and who has the token is told to ask again.
func TestDataComesLater(t *testing.T) {
	g := NewWithT(t)
	w := newWorld()
	token, err := w.script(honest)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(deleted("data", &corev1.Secret{})(w)).To(Succeed())
	_, err = w.Seed(ctx, "dc/h", token, seed.UserData, honest)
	g.Expect(err).To(And(HaveOccurred(), Not(MatchError(pxe.ErrRefused))))
	g.Expect(w.boot().Spec.DataAddress).To(BeEmpty())
}

// TestEvents: people are told once who got the bootstrap data, and once of the first that was refused; never a token.
func TestEvents(t *testing.T) {
	g := NewWithT(t)
	w := newWorld()
	token, err := w.script(honest)
	g.Expect(err).NotTo(HaveOccurred())
	for range 3 {
		_, err = w.Seed(ctx, "dc/h", "guess", seed.UserData, stranger)
		g.Expect(err).To(HaveOccurred())
		_, err = w.Seed(ctx, "dc/h", token, seed.UserData, honest)
		g.Expect(err).NotTo(HaveOccurred())
	}
	_, err = w.Seed(ctx, "dc/h", token, seed.UserData, stranger)
	g.Expect(err).To(HaveOccurred())
	told := func() (told []string) {
		for len(w.events) > 0 {
			// What was seen of the boot is told too.
			if event := <-w.events; strings.Contains(event, " BootRequestRefused ") || strings.Contains(event, " BootstrapDataServed ") {
				told = append(told, event)
			}
		}
		return told
	}
	g.Expect(told()).To(Equal([]string{
		"Warning BootRequestRefused Refused a request from 192.0.2.66 in boot attempt 1: refused: the token is not that of the current boot of dc/h",
		"Normal BootstrapDataServed Gave the bootstrap data of boot attempt 1 to 192.0.2.9",
	}))

	g.Expect(nextBoot(w)).To(Succeed())
	_, err = w.Seed(ctx, "dc/h", token, seed.UserData, honest)
	g.Expect(err).To(HaveOccurred())
	g.Expect(told()).To(ConsistOf(ContainSubstring("boot attempt 2")), "each attempt has its first")
}
