package boot_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/boot"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
)

// countedWrites counts the writes of stages, and fails some on demand.
type countedWrites struct {
	client.Client

	writes, failures atomic.Int32
	hold             chan struct{} // closed when writes may end; nil for no wait
}

type countedStatus struct {
	client.SubResourceWriter

	counted *countedWrites
}

func (c *countedWrites) Status() client.SubResourceWriter { return countedStatus{c.Client.Status(), c} }

func (s countedStatus) Apply(ctx context.Context, o runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
	s.counted.writes.Add(1)
	if s.counted.hold != nil {
		select {
		case <-s.counted.hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if s.counted.failures.Add(-1) >= 0 {
		return errors.New("the API server is down")
	}
	return s.SubResourceWriter.Apply(ctx, o, opts...)
}

// watcher is a Booter without the rest of the provider, whose writes are counted.
func watcher(t *testing.T) (*boot.Booter, *countedWrites) {
	t.Helper()
	return watcherAt(t, clock.RealClock{})
}

// watcherAt is watcher with a clock.
func watcherAt(t *testing.T, at clock.PassiveClock) (*boot.Booter, *countedWrites) {
	t.Helper()
	var (
		booter *boot.Booter
		writes *countedWrites
	)
	env.StartManager(t, func(_ context.Context, mgr ctrl.Manager) error {
		writes = &countedWrites{Client: mgr.GetClient()}
		booter = boot.New(&boot.Booter{
			Client: writes, APIReader: mgr.GetAPIReader(), Settings: controllerstest.Settings(), Key: []byte("key"), Log: logr.Discard(), Clock: at,
		})
		return mgr.Add(booter)
	})
	return booter, writes
}

// TestPendingStagesAtShutdown: a boot server that stops finishes running writes, and writes the pending ones.
func TestPendingStagesAtShutdown(t *testing.T) {
	g := NewWithT(t)
	watching, counted := watcher(t)
	writes := &countedWrites{Client: counted.Client, hold: make(chan struct{})}
	booter := boot.New(&boot.Booter{
		Client: writes, APIReader: watching.APIReader, Settings: controllerstest.Settings(), Key: []byte("key"), Log: logr.Discard(),
	})
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- booter.Start(ctx) }()
	namespace := env.Namespace(t)
	hosts := make([]*v1alpha1.BareMetalHost, 34) // more than are written at once
	for i := range hosts {
		var mac net.HardwareAddr
		hosts[i], mac = bootingHost(t, booter, namespace, byte(0xc0+i))
		booter.ObserveStage(mac, pxe.StageDHCP, client77, "PXE, EFI x86-64")
	}
	g.Eventually(writes.writes.Load, "30s").Should(BeEquivalentTo(32), "a slow API server does not make the others wait")
	stop()
	close(writes.hold)
	g.Eventually(over, "30s").Should(Receive(BeNil()))
	for _, host := range hosts {
		g.Eventually(func() *v1alpha1.ObservedStage { return seenBy(t, booter, host, v1alpha1.StageDHCP) }, "30s").ShouldNot(BeNil())
	}
}

// bootingHost creates a host that boots for a machine.
func bootingHost(t *testing.T, booter *boot.Booter, namespace string, number byte) (*v1alpha1.BareMetalHost, net.HardwareAddr) {
	t.Helper()
	mac := net.HardwareAddr{0x52, 0x54, 0, 9, 0, number}
	name := "h" + string("0123456789abcdef"[number>>4]) + string("0123456789abcdef"[number&15])
	then := metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second))
	host := &v1alpha1.BareMetalHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1alpha1.BareMetalHostSpec{
			BMC: v1alpha1.BMC{Address: "redfish://192.0.2.1", CredentialsSecretName: "s"}, BootMACAddresses: []string{mac.String()},
			ConsumerRef: controllerstest.Claimed(name),
		},
	}
	env.Create(t, host)
	modifyBoot(t, booter, host, func(b *v1alpha1.BareMetalBootSpec) {
		b.StartTime, b.PoweredOffTime, b.PoweredOnTime = then, &then, &then
	})
	return host, mac
}

// modifyBoot changes the boot of a host, and waits until the cache shows it.
func modifyBoot(t *testing.T, booter *boot.Booter, host *v1alpha1.BareMetalHost, change func(*v1alpha1.BareMetalBootSpec)) {
	t.Helper()
	controllerstest.ModifyBoot(t, env, host, change)
	cached(t, booter, host)
}

// cached waits until the cache shows a host, and its boot, as they are.
func cached(t *testing.T, booter *boot.Booter, host *v1alpha1.BareMetalHost) {
	t.Helper()
	record := controllerstest.BootOf(t, env, host)
	NewWithT(t).Eventually(func(g Gomega) {
		var shown v1alpha1.BareMetalHost
		g.Expect(booter.Client.Get(t.Context(), client.ObjectKeyFromObject(host), &shown)).To(Succeed())
		g.Expect(shown.Spec).To(Equal(host.Spec))
		var boot v1alpha1.BareMetalBoot
		g.Expect(booter.Client.Get(t.Context(), client.ObjectKeyFromObject(host), &boot)).To(Succeed())
		g.Expect(boot.Spec).To(Equal(record.Spec))
	}, "30s").Should(Succeed())
}

func seenBy(t *testing.T, booter *boot.Booter, host *v1alpha1.BareMetalHost, stage v1alpha1.BootStage) *v1alpha1.ObservedStage {
	t.Helper()
	var shown v1alpha1.BareMetalBoot
	NewWithT(t).Expect(booter.Client.Get(t.Context(), client.ObjectKeyFromObject(host), &shown)).To(Succeed())
	return controllers.ObservedStage(&shown, stage)
}

var client77 = netip.MustParseAddr("192.0.2.77")

// TestOneWriteAStage: firmware asks many times, and the status is written once for each stage of each attempt, also after a restart, because
// the status shows what was written. After a failed write, the next request causes another one.
func TestOneWriteAStage(t *testing.T) {
	g := NewWithT(t)
	booter, writes := watcher(t)
	host, mac := bootingHost(t, booter, env.Namespace(t), 1)
	writes.failures.Store(1)
	booter.ObserveStage(mac, pxe.StageDHCP, client77, "PXE, EFI x86-64")
	g.Eventually(writes.writes.Load, "30s").Should(BeEquivalentTo(1))
	g.Eventually(func() *v1alpha1.ObservedStage {
		booter.ObserveStage(mac, pxe.StageDHCP, client77, "PXE, EFI x86-64")
		return seenBy(t, booter, host, v1alpha1.StageDHCP)
	}, "30s").Should(HaveValue(And(
		HaveField("Number", BeEquivalentTo(1)), HaveField("Address", "192.0.2.77"), HaveField("Client", "PXE, EFI x86-64"),
	)))
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 200 {
				booter.ObserveStage(mac, pxe.StageDHCP, client77, "PXE, EFI x86-64")
				booter.ObserveStage(mac, pxe.StageLoader, client77, "TFTP")
			}
		})
	}
	all.Wait()
	g.Eventually(func() *v1alpha1.ObservedStage { return seenBy(t, booter, host, v1alpha1.StageLoader) }, "30s").ShouldNot(BeNil())
	g.Expect(writes.writes.Load()).To(BeEquivalentTo(3), "one that failed, DHCP, and the loader")

	modifyBoot(t, booter, host, func(b *v1alpha1.BareMetalBootSpec) { b.ScriptAddress = client77.String() })
	restarted, later := watcher(t)
	cached(t, restarted, host)
	restarted.ObserveStage(mac, pxe.StageDHCP, client77, "PXE, EFI x86-64")
	restarted.ObserveStage(mac, pxe.StageKernel, client77, "iPXE")
	g.Eventually(func() *v1alpha1.ObservedStage { return seenBy(t, restarted, host, v1alpha1.StageKernel) }, "30s").ShouldNot(BeNil())
	g.Expect(later.writes.Load()).To(BeEquivalentTo(1))

	modifyBoot(t, booter, host, func(b *v1alpha1.BareMetalBootSpec) {
		later := metav1.NewTime(time.Now().Add(time.Minute).Truncate(time.Second))
		b.Number, b.Attempt, b.StartTime, b.PoweredOffTime, b.PoweredOnTime, b.ScriptAddress = 2, 2, later, nil, nil, ""
	})
	booter.ObserveStage(mac, pxe.StageDHCP, client77, "PXE, EFI x86-64")
	g.Consistently(func() *v1alpha1.ObservedStage { return seenBy(t, booter, host, v1alpha1.StageDHCP) }, "1s").Should(BeNil(), "the server is not powered on yet")
	modifyBoot(t, booter, host, func(b *v1alpha1.BareMetalBootSpec) { b.PoweredOffTime, b.PoweredOnTime = &b.StartTime, &b.StartTime })
	g.Expect(seenBy(t, booter, host, v1alpha1.StageDHCP)).To(BeNil(), "it is the first attempt's")
	booter.ObserveStage(mac, pxe.StageDHCP, client77, "PXE, EFI x86-64")
	g.Eventually(func() *v1alpha1.ObservedStage { return seenBy(t, booter, host, v1alpha1.StageDHCP) }, "30s").ShouldNot(BeNil(),
		"also where this clock is behind that of who began the attempt")
	g.Expect(writes.writes.Load()).To(BeEquivalentTo(4))
}

// TestQueuePosition: a server that waits for a slot asks every few seconds, and its queue position is written once a minute. Each write moves the deadline of its
// attempt, but not once it has its script.
func TestQueuePosition(t *testing.T) {
	g := NewWithT(t)
	c := clocktesting.NewFakePassiveClock(time.Now().Truncate(time.Second))
	booter, writes := watcherAt(t, c)
	namespace := env.Namespace(t)
	host, mac := bootingHost(t, booter, namespace, 0x80)
	env.NewClaim(t, namespace, host.Name)
	boots := func() pxe.Boot {
		answer, err := booter.Lookup(t.Context(), mac)
		g.Expect(err).NotTo(HaveOccurred())
		return answer.Boot
	}
	g.Expect(boots()).To(Equal(pxe.Ignore), "its attempt began an hour ago")
	for minute := range 3 {
		place := 9 - minute
		for range 12 {
			booter.ObserveWaiting(mac, client77, place)
			g.Eventually(func() *v1alpha1.ObservedStage { return seenBy(t, booter, host, v1alpha1.StageWaiting) }, "30s").Should(HaveValue(HaveField("QueuePosition", BeEquivalentTo(place))))
			c.SetTime(c.Now().Add(5 * time.Second))
		}
	}
	g.Expect(writes.writes.Load()).To(BeEquivalentTo(3), "one a minute")
	g.Eventually(boots, "30s").Should(Equal(pxe.Network))

	modifyBoot(t, booter, host, func(b *v1alpha1.BareMetalBootSpec) { b.ScriptAddress = "192.0.2.77" })
	booter.ObserveWaiting(mac, client77, 1)
	booter.ObserveStage(mac, pxe.StageKernel, client77, "iPXE")
	g.Eventually(func() *v1alpha1.ObservedStage { return seenBy(t, booter, host, v1alpha1.StageKernel) }, "30s").ShouldNot(BeNil())
	g.Expect(writes.writes.Load()).To(BeEquivalentTo(4), "it had its script: the kernel's alone")
	c.SetTime(c.Now().Add(controllerstest.Settings().BootTimeout))
	g.Expect(boots()).To(Equal(pxe.Ignore))
}

// TestFirmwareComesBack: a request of firmware is recorded for a machine that runs from memory and got its bootstrap data, and for no
// other.
func TestFirmwareComesBack(t *testing.T) {
	g := NewWithT(t)
	booter, writes := watcher(t)
	namespace := env.Namespace(t)
	hosts := map[string]*v1alpha1.BareMetalHost{}
	for i, name := range []string{"ephemeral", "installed", "not seeded"} {
		host, mac := bootingHost(t, booter, namespace, byte(0x10+i))
		claim := env.NewClaim(t, namespace, host.Name)
		if name != "installed" {
			controllerstest.Modify(t, env, claim.BareMetalMachine, func(m *v1alpha1.BareMetalMachine) { m.Spec.Boot.Persistence = v1alpha1.PersistenceEphemeral })
		}
		if name != "not seeded" {
			modifyBoot(t, booter, host, func(b *v1alpha1.BareMetalBootSpec) { b.DataServedTime = &b.StartTime })
		}
		g.Eventually(func(g Gomega) {
			var m v1alpha1.BareMetalMachine
			g.Expect(booter.Client.Get(t.Context(), client.ObjectKeyFromObject(claim.BareMetalMachine), &m)).To(Succeed())
			g.Expect(m.Spec).To(Equal(claim.BareMetalMachine.Spec))
		}, "30s").Should(Succeed())
		hosts[name] = host
		for range 50 {
			booter.ObserveStage(mac, pxe.StageFirmware, netip.Addr{}, "PXE, EFI x86-64")
		}
	}
	// Writes are in the order of the queue: the last one shows that no other follows.
	last, mac := bootingHost(t, booter, namespace, 0x20)
	booter.ObserveStage(mac, pxe.StageDHCP, client77, "")
	g.Eventually(func() *v1alpha1.ObservedStage { return seenBy(t, booter, last, v1alpha1.StageDHCP) }, "30s").ShouldNot(BeNil())
	g.Eventually(func() *v1alpha1.ObservedStage { return seenBy(t, booter, hosts["ephemeral"], v1alpha1.StageRestarted) }, "30s").ShouldNot(BeNil())
	g.Expect(writes.writes.Load()).To(BeEquivalentTo(2))
	for _, host := range hosts {
		g.Expect(seenBy(t, booter, host, v1alpha1.StageDHCP)).To(BeNil(), "%s got no boot file", host.Name)
	}
}

// TestStagesAreWrittenAtOnce: there is no timer between a request and the status that shows it.
func TestStagesAreWrittenAtOnce(t *testing.T) {
	g := NewWithT(t)
	booter, _ := watcher(t)
	namespace := env.Namespace(t)
	const hosts = 1
	var took []time.Duration
	for number := range byte(hosts) {
		host, mac := bootingHost(t, booter, namespace, 0x40+number)
		modifyBoot(t, booter, host, func(b *v1alpha1.BareMetalBootSpec) { b.ScriptAddress = client77.String() })
		for _, stage := range []pxe.Stage{pxe.StageDHCP, pxe.StageLoader, pxe.StageKernel} {
			start := time.Now()
			booter.ObserveStage(mac, stage, client77, "")
			g.Eventually(func() *v1alpha1.ObservedStage { return seenBy(t, booter, host, v1alpha1.BootStage(stage)) }, "30s", "1ms").ShouldNot(BeNil())
			took = append(took, time.Since(start))
		}
	}
	slices.Sort(took)
	t.Logf("from a request to the cached status of %d stages: median %s, slowest %s", len(took), took[len(took)/2], took[len(took)-1])
}
