package host_test

import (
	"context"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/redfish"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/host"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

var env *controllerstest.Env

func TestMain(m *testing.M) { controllerstest.Main(m, &env) }

// start runs the host controller, and returns a function that stops it.
func start(t *testing.T) func() {
	t.Helper()
	return startWith(t, controllerstest.Settings())
}

func startWith(t *testing.T, settings lifecycle.Settings) func() {
	t.Helper()
	return startAt(t, settings, &shiftedClock{})
}

// startAt is startWith with a clock of the test.
func startAt(t *testing.T, settings lifecycle.Settings, clock *shiftedClock) func() {
	t.Helper()
	return startReconciler(t, &host.Reconciler{Settings: settings, Clock: clock})
}

// startReconciler completes and starts a reconciler.
func startReconciler(t *testing.T, r *host.Reconciler) func() {
	t.Helper()
	return startReconcilerOn(t, r, nil)
}

// startReconcilerOn starts a reconciler on what a function, where not nil, makes of the client of its manager.
func startReconcilerOn(t *testing.T, r *host.Reconciler, wrap func(client.Client) client.Client) func() {
	t.Helper()
	pool := bmc.NewPool(map[string]bmc.Driver{redfish.SchemeInsecure: (&redfish.Driver{Permit: bmctest.Loopback}).Driver()}, bmc.PoolOptions{})
	stop := env.StartManager(t, func(ctx context.Context, mgr ctrl.Manager) error {
		r.APIReader, r.Pool = mgr.GetAPIReader(), pool
		if r.Client = mgr.GetClient(); wrap != nil {
			r.Client = wrap(r.Client)
		}
		if r.Recorder == nil {
			r.Recorder = mgr.GetEventRecorder("capbm-host")
		}
		return r.SetupWithManager(ctx, mgr, controller.Options{})
	})
	return func() {
		stop()
		pool.Close()
	}
}

func register(t *testing.T, server *controllerstest.Server) {
	t.Helper()
	env.Create(t, server.Secret, server.Host)
}

func wait(t *testing.T, server *controllerstest.Server, until func(Gomega, *v1alpha1.BareMetalHost)) {
	t.Helper()
	controllerstest.Wait(t, env, server.Host, until)
}

func phase(want v1alpha1.HostPhase) func(Gomega, *v1alpha1.BareMetalHost) {
	return func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(h.Status.Phase).To(Equal(want), "%+v", h.Status)
	}
}

func reason(condition, want string) func(Gomega, *v1alpha1.BareMetalHost) {
	return func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(conditions.GetReason(h, condition)).To(Equal(want), conditions.GetMessage(h, condition))
	}
}

// TestNoWritesAtRest: neither the manager that registered a host nor the next one writes to the host while it is at rest.
func TestNoWritesAtRest(t *testing.T) {
	g := NewWithT(t)
	stop := start(t)
	server := controllerstest.NewServer(t, env.Namespace(t), "h", bmctest.Options{})
	register(t, server)
	wait(t, server, phase(v1alpha1.PhaseAvailable))
	version := func() string {
		g.Expect(env.Client.Get(t.Context(), keyOf(server.Host), server.Host)).To(Succeed())
		return server.Host.ResourceVersion
	}
	before := version()
	g.Consistently(version, time.Second, 50*time.Millisecond).Should(Equal(before))
	stop()
	defer start(t)()
	g.Consistently(version, 2*time.Second, 50*time.Millisecond).Should(Equal(before))
}

func TestRegister(t *testing.T) {
	g := NewWithT(t)
	defer start(t)()
	server := controllerstest.NewServer(t, env.Namespace(t), "h", bmctest.Options{})
	register(t, server)
	wait(t, server, phase(v1alpha1.PhaseAvailable))
	h := server.Host
	g.Expect(h.Finalizers).To(ConsistOf(v1alpha1.HostFinalizer))
	g.Expect(h.Status.Power).To(Equal(v1alpha1.PowerOff))
	g.Expect(h.Status.Hardware.Memory.String()).To(Equal("64Gi"))
	g.Expect(h.Status.LastOperation.Name).To(Equal("Inspect"))
	for _, kind := range []string{v1alpha1.ReadyCondition, v1alpha1.BMCReadyCondition, v1alpha1.VerifiedCondition, v1alpha1.AvailableCondition} {
		g.Expect(conditions.IsTrue(h, kind)).To(BeTrue(), kind)
	}
	g.Expect(env.Client.Get(t.Context(), keyOf(server.Secret), server.Secret)).To(Succeed())
	g.Expect(server.Secret.Labels).To(HaveKey(v1alpha1.MoveLabel))
	g.Expect(server.CommandNames()).To(BeEmpty())

	g.Expect(env.Client.Delete(t.Context(), h)).To(Succeed())
	env.Gone(t, h)
	g.Expect(server.CommandNames()).To(BeEmpty())
}

// TestProblemsAreResolved: each problem has a reason, and disappears with its cause.
func TestProblemsAreResolved(t *testing.T) {
	namespace := env.Namespace(t)
	t.Cleanup(start(t))
	t.Run("the password", func(t *testing.T) {
		t.Parallel() // they wait most of the time
		server := controllerstest.NewServer(t, namespace, "password", bmctest.Options{})
		server.Secret.StringData["password"] = "wrong"
		register(t, server)
		wait(t, server, reason(v1alpha1.ReadyCondition, v1alpha1.ReasonCredentialsRefused))
		wait(t, server, reason(v1alpha1.AvailableCondition, v1alpha1.ReasonNotVerified))
		controllerstest.Modify(t, env, server.Secret, func(s *corev1.Secret) { s.StringData = map[string]string{"password": controllerstest.Password} })
		wait(t, server, phase(v1alpha1.PhaseAvailable))
	})
	t.Run("the Secret", func(t *testing.T) {
		t.Parallel()
		server := controllerstest.NewServer(t, namespace, "secret", bmctest.Options{})
		env.Create(t, server.Host)
		wait(t, server, reason(v1alpha1.ReadyCondition, v1alpha1.ReasonCredentialsMissing))
		env.Create(t, server.Secret)
		wait(t, server, phase(v1alpha1.PhaseAvailable))
	})
	t.Run("the BMC", func(t *testing.T) {
		t.Parallel()
		server := controllerstest.NewServer(t, namespace, "bmc", bmctest.Options{})
		register(t, server)
		wait(t, server, phase(v1alpha1.PhaseAvailable))
		misbehave(t, server, bmctest.Down, -1)
		wait(t, server, reason(v1alpha1.ReadyCondition, v1alpha1.ReasonBMCUnreachable))
		misbehave(t, server, bmctest.Down, 0)
		wait(t, server, phase(v1alpha1.PhaseAvailable))
	})
	t.Run("the MAC address", func(t *testing.T) {
		t.Parallel()
		one := controllerstest.NewServer(t, namespace, "mac-1", bmctest.Options{})
		two := controllerstest.NewServer(t, namespace, "mac-2", bmctest.Options{})
		own := two.Host.Spec.BootMACAddresses[0]
		two.Host.Spec.BootMACAddresses = []string{one.Host.Spec.BootMACAddresses[0]}
		register(t, one)
		wait(t, one, phase(v1alpha1.PhaseAvailable))
		register(t, two)
		wait(t, two, reason(v1alpha1.ReadyCondition, v1alpha1.ReasonMACConflict))
		wait(t, one, phase(v1alpha1.PhaseAvailable))
		controllerstest.Modify(t, env, two.Host, func(h *v1alpha1.BareMetalHost) { h.Spec.BootMACAddresses = []string{own} })
		wait(t, one, phase(v1alpha1.PhaseAvailable))
		wait(t, two, phase(v1alpha1.PhaseAvailable))
	})
	t.Run("the BMC's address", func(t *testing.T) {
		t.Parallel()
		one := controllerstest.NewServer(t, namespace, "bmc-1", bmctest.Options{})
		two := controllerstest.NewServer(t, namespace, "bmc-2", bmctest.Options{})
		own := two.Host.Spec.BMC.Address
		two.Host.Spec.BMC.Address = one.Host.Spec.BMC.Address + "/?auth=session" // another spelling of the same address
		register(t, one)
		wait(t, one, phase(v1alpha1.PhaseAvailable))
		register(t, two)
		wait(t, two, reason(v1alpha1.ReadyCondition, v1alpha1.ReasonBMCConflict))
		wait(t, one, phase(v1alpha1.PhaseAvailable))
		controllerstest.Modify(t, env, two.Host, func(h *v1alpha1.BareMetalHost) { h.Spec.BMC.Address = own })
		wait(t, one, phase(v1alpha1.PhaseAvailable))
		wait(t, two, phase(v1alpha1.PhaseAvailable))
	})
}

// TestRunningServerIsNotTouched: a server that is on when it is registered gets no command: it may be in use.
func TestRunningServerIsNotTouched(t *testing.T) {
	g := NewWithT(t)
	defer start(t)()
	server := controllerstest.NewServer(t, env.Namespace(t), "h", bmctest.Options{On: true})
	register(t, server)
	wait(t, server, reason(v1alpha1.ReadyCondition, v1alpha1.ReasonPoweredOn))
	g.Expect(server.CommandNames()).To(BeEmpty())
	controllerstest.Modify(t, env, server.Host, func(h *v1alpha1.BareMetalHost) { h.Spec.Power = v1alpha1.PowerOff })
	wait(t, server, phase(v1alpha1.PhaseAvailable))
	g.Expect(server.CommandNames()).To(Equal([]string{"GracefulShutdown"}))
}

// TestBootAndRelease follows a host from its claim to its release, and restarts the provider on the way.
func TestBootAndRelease(t *testing.T) { bootAndRelease(t) }

// TestStrictBMC repeats TestBootAndRelease with BMCs that are strict about power commands. They get the same commands, and none during a power
// transition.
func TestStrictBMC(t *testing.T) {
	bootAndRelease(t, bmctest.Strict...)
	for _, fault := range bmctest.Strict {
		t.Run(string(fault), func(t *testing.T) { bootAndRelease(t, fault) })
	}
}

func bootAndRelease(t *testing.T, faults ...bmctest.Fault) {
	t.Helper()
	g := NewWithT(t)
	settings := controllerstest.Settings()
	settings.PowerSettle = time.Second // much longer than a transition, on a busy machine, too: a command is repeated after it
	stop := startWith(t, settings)
	namespace := env.Namespace(t)
	server := controllerstest.NewServer(t, namespace, "h", bmctest.Options{
		PowerDelay: 100 * time.Millisecond,
		Run:        func(ctx context.Context, _ bmc.BootTarget, booted func()) { booted(); <-ctx.Done() },
	})
	for _, fault := range faults {
		misbehave(t, server, fault, -1)
	}
	register(t, server)
	wait(t, server, phase(v1alpha1.PhaseAvailable))
	claim := env.NewClaim(t, namespace, "m", func(c *controllerstest.Claim) { c.Machine.Labels[clusterv1.MachineDeploymentNameLabel] = "md" })
	controllerstest.Modify(t, env, claim.BareMetalMachine, func(m *v1alpha1.BareMetalMachine) { m.Finalizers = []string{v1alpha1.MachineFinalizer} })
	controllerstest.Modify(t, env, server.Host, func(h *v1alpha1.BareMetalHost) {
		h.Spec.ConsumerRef = controllerstest.Claimed("m")
	})

	wait(t, server, reason(v1alpha1.BootedCondition, v1alpha1.ReasonWaitingForDHCP))
	g.Expect(server.Host.Annotations).To(HaveKey(v1alpha1.BlockMoveAnnotation))
	g.Expect(server.CommandNames()).To(Equal([]string{"Boot=PXE", "On"}))

	stop()
	defer startWith(t, settings)() // a restart in mid-boot does not start the boot again
	controllerstest.ModifyBoot(t, env, server.Host, func(b *v1alpha1.BareMetalBootSpec) {
		now := metav1.Now()
		b.DataAddress, b.ReportedTime = "192.0.2.7", &now
	})
	wait(t, server, reason(v1alpha1.BootedCondition, v1alpha1.ReasonWaitingForMachine))
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(h.Annotations).To(HaveKey(v1alpha1.BlockMoveAnnotation), "no move waits")
		g.Expect(h.Status.Addresses).To(HaveLen(1))
	})
	controllerstest.Modify(t, env, claim.BareMetalMachine, func(m *v1alpha1.BareMetalMachine) {
		m.Spec.ProviderID = "baremetal://" + namespace + "/h/m"
	})
	wait(t, server, phase(v1alpha1.PhaseProvisioned))
	g.Expect(conditions.IsTrue(server.Host, v1alpha1.ReadyCondition)).To(BeTrue())
	g.Expect(server.CommandNames()).To(Equal([]string{"Boot=PXE", "On"}))

	g.Expect(server.Host.Spec.ProviderState.LastConsumer).To(BeNil())
	g.Expect(env.Client.Delete(t.Context(), claim.BareMetalMachine)).To(Succeed())
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(h.Spec.ConsumerRef).To(BeNil())
		g.Expect(h.Spec.ProviderState.LastConsumer).To(HaveValue(And(HaveField("Name", "m"), HaveField("Owner", "MachineDeployment/md"))))
		g.Expect(h.Spec.ProviderState.LastConsumer.ReleaseTime.Time).To(BeTemporally("~", time.Now(), time.Minute))
		g.Expect(bootOf(t, server).Spec.VoidedTime).NotTo(BeNil())
		g.Expect(h.Status.Phase).To(Equal(v1alpha1.PhaseAvailable))
	})
	g.Expect(server.On()).To(BeFalse())
	g.Expect(server.CommandNames()).To(Equal([]string{"Boot=PXE", "On", "GracefulShutdown", "Boot=None"}))
	g.Expect(server.Commands()).NotTo(ContainElement(HaveField("InTransition", true)))
}

// TestSlowShutDown: the status shows that a server is being powered off. A server that exceeds the grace period is forced off, which its BMC refuses
// until the server is off.
func TestSlowShutDown(t *testing.T) {
	g := NewWithT(t)
	defer start(t)()
	server := controllerstest.NewServer(t, env.Namespace(t), "h", bmctest.Options{
		On: true, PowerDelay: 4 * time.Second, Run: func(ctx context.Context, _ bmc.BootTarget, booted func()) { booted(); <-ctx.Done() },
	})
	misbehave(t, server, bmctest.BusyInTransition, -1)
	misbehave(t, server, bmctest.TransitionStates, -1)
	server.Host.Spec.Power = v1alpha1.PowerOff
	register(t, server)
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(h.Status.Power).To(Equal(v1alpha1.PoweringOff))
		g.Expect(h.Status.Phase).To(Equal(v1alpha1.PhaseUnavailable))
	})
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(conditions.GetMessage(h, v1alpha1.BMCReadyCondition)).To(ContainSubstring("409 Conflict: The power is in transition"))
	})
	wait(t, server, phase(v1alpha1.PhaseAvailable))
	// The BMC accepts a ForceOff again from the end of the transition on, and one may be on its way then.
	g.Expect(slices.Compact(server.CommandNames())).To(Or(Equal([]string{"GracefulShutdown"}), Equal([]string{"GracefulShutdown", "ForceOff"})))
	g.Expect(server.Commands()).NotTo(ContainElement(HaveField("InTransition", true)))
}

// TestShutDownRefused: a server whose BMC cannot shut it down is forced off in the end.
func TestShutDownRefused(t *testing.T) {
	defer start(t)()
	server := controllerstest.NewServer(t, env.Namespace(t), "h", bmctest.Options{On: true})
	misbehave(t, server, bmctest.ShutDownFails, -1)
	server.Host.Spec.Power = v1alpha1.PowerOff
	register(t, server)
	wait(t, server, phase(v1alpha1.PhaseAvailable))
	NewWithT(t).Expect(server.CommandNames()).To(Equal([]string{"ForceOff"}))
}

func misbehave(t *testing.T, server *controllerstest.Server, fault bmctest.Fault, times int) {
	t.Helper()
	NewWithT(t).Expect(server.Misbehave(fault, times)).To(Succeed())
}

// TestConsumerGone: if a machine disappears without a release, its server keeps running.
func TestConsumerGone(t *testing.T) {
	g := NewWithT(t)
	defer start(t)()
	namespace := env.Namespace(t)
	server := controllerstest.NewServer(t, namespace, "h", bmctest.Options{On: true})
	server.Host.Spec.ConsumerRef = controllerstest.Claimed("m")
	register(t, server)
	wait(t, server, phase(v1alpha1.PhaseOrphaned))
	wait(t, server, reason(v1alpha1.ReadyCondition, v1alpha1.ReasonConsumerNotFound))
	g.Expect(server.CommandNames()).To(BeEmpty())

	claim := env.NewClaim(t, namespace, "m")
	controllerstest.Modify(t, env, claim.BareMetalMachine, func(m *v1alpha1.BareMetalMachine) {
		m.Spec.ProviderID = "baremetal://" + namespace + "/h/m"
	})
	wait(t, server, phase(v1alpha1.PhaseProvisioned))
	g.Expect(server.CommandNames()).To(BeEmpty())
}

func keyOf(o metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}
