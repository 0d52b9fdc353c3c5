package boot_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/boot"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed"
)

var (
	booting  = net.HardwareAddr{0x52, 0x54, 0, 0, 0, 9}
	honest   = netip.MustParseAddr("192.0.2.9")
	stranger = netip.MustParseAddr("192.0.2.66")
)

// fault is the fault of a write to the API server.
type fault int

const (
	noFault  fault = iota
	conflict       // another client wrote in the meantime
	lost           // the write succeeds, and the answer is lost
	away           // the API server does not answer
)

var errAway = errors.New("the API server does not answer")

// replaceable is a client that a test may replace by another one.
type replaceable struct{ client.Client }

// world is an API server in memory with a host that is booting for a machine, and a Booter before it.
type world struct {
	*boot.Booter
	client.Client // the API server

	cache *replaceable // the cache of the Booter

	reads  atomic.Int64
	fault  func() fault // called before each write
	before func()       // called before each write, if not nil
	events chan string
}

// newWorld returns a world whose Booter reads from the API server, and serves networks. Without networks, DHCP shows nothing about a server.
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
	w.cache = &replaceable{w.Client}
	w.Booter = boot.New(&boot.Booter{
		Client: w.cache, APIReader: counted{w.Client, &w.reads}, Settings: controllerstest.Settings(), Key: []byte("key"), Namespace: "capbm-system",
		Networks: networks, Recorder: &events.FakeRecorder{Events: w.events}, Log: logr.Discard(),
	})
	return w
}

// restart replaces the Booter by one with another configuration, as a restart of the boot server does.
func (w *world) restart(change func(*boot.Booter)) {
	b := &boot.Booter{
		Client: w.Booter.Client, APIReader: w.APIReader, Settings: w.Settings, Key: w.Key, PreviousKey: w.PreviousKey, Namespace: w.Namespace, Networks: w.Networks,
		Tenants: w.Tenants, Images: w.Images, Prefetcher: w.Prefetcher, Recorder: w.Recorder, Log: w.Log, Clock: w.Clock,
	}
	change(b)
	w.Booter = boot.New(b)
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
	machine.Finalizers, host.Finalizers = []string{"test/keep"}, []string{"test/keep"} // so that a deletion is visible
	machine.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: "m", UID: "m-uid"}}
	builder := fake.NewClientBuilder().WithScheme(controllerstest.FakeScheme()).WithInterceptorFuncs(funcs).
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
				BootMACAddresses: []string{booting.String()}, ConsumerRef: &v1alpha1.ConsumerReference{Name: "m", ClaimID: "claim"}, ProviderState: v1alpha1.HostProviderState{Boots: 3},
			}},
			&v1alpha1.BareMetalBoot{ObjectMeta: meta("h"), Spec: v1alpha1.BareMetalBootSpec{
				Number: 3, Attempt: 1, Purpose: v1alpha1.PurposeProvision, ClaimID: "claim", MachineName: "m",
				StartTime: now, PoweredOffTime: &now, PoweredOnTime: &now,
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

// reportToken returns the token of the report from a seed.
func reportToken(data seed.Data) string { return strings.Split(data.ReportPath, "/")[4] }

// Changes of the world during a boot.
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
				StartTime: b.StartTime, PoweredOffTime: b.PoweredOffTime, PoweredOnTime: b.PoweredOnTime,
			}
		}),
		w.changeHost(func(h *v1alpha1.BareMetalHost) { h.Spec.ProviderState.Boots++ }))
}

func onMachine(to func(*v1alpha1.BareMetalMachine)) func(*world) error {
	return func(w *world) error { return change(w, "m", &v1alpha1.BareMetalMachine{}, to) }
}

// afterDeadline lets the deadline of the boot pass.
func afterDeadline(w *world) error {
	w.restart(func(b *boot.Booter) { b.Settings.BootTimeout = time.Nanosecond })
	return nil
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

// replaced recreates the machine under its name, with another Machine and other bootstrap data.
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
