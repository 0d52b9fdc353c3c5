package host_test

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory"
)

// conflict expects that a host is refused for a reason, and that the message names the host that keeps the identity.
func conflict(why, keeper string) func(Gomega, *v1alpha1.BareMetalHost) {
	return func(g Gomega, h *v1alpha1.BareMetalHost) {
		reason(v1alpha1.VerifiedCondition, why)(g, h)
		g.Expect(conditions.GetMessage(h, v1alpha1.VerifiedCondition)).To(ContainSubstring(keeper))
		g.Expect(conditions.IsTrue(h, v1alpha1.AvailableCondition)).To(BeFalse())
		g.Expect(h.Status.ObservedGeneration).To(Equal(h.Generation))
	}
}

// TestManyWithOneMAC: of several hosts with one MAC address the first keeps it, and the others name that host. When it is deleted, the next host gets
// the address.
func TestManyWithOneMAC(t *testing.T) {
	defer start(t)()
	namespace := env.Namespace(t)
	names := []string{"a", "b", "c", "d"}
	var servers []*controllerstest.Server
	for _, name := range names {
		server := controllerstest.NewServer(t, namespace, name, bmctest.Options{})
		if len(servers) > 0 {
			server.Host.Spec.BootMACAddresses = []string{servers[0].Host.Spec.BootMACAddresses[0]}
		}
		register(t, server)
		if name == "a" {
			wait(t, server, phase(v1alpha1.PhaseAvailable))
		}
		servers = append(servers, server)
	}
	for _, server := range servers[1:] {
		wait(t, server, conflict(v1alpha1.ReasonMACConflict, "that of host a"))
	}
	for _, domain := range names {
		controllerstest.Modify(t, env, servers[0].Host, func(h *v1alpha1.BareMetalHost) { h.Spec.FailureDomain = domain })
		wait(t, servers[0], phase(v1alpha1.PhaseAvailable))
	}
	NewWithT(t).Expect(env.Client.Delete(t.Context(), servers[0].Host)).To(Succeed())
	NewWithT(t).Eventually(func(g Gomega) {
		var available []string
		for _, server := range servers[1:] {
			g.Expect(env.Client.Get(t.Context(), keyOf(server.Host), server.Host)).To(Succeed())
			if server.Host.Status.Phase == v1alpha1.PhaseAvailable {
				available = append(available, server.Host.Name)
			}
		}
		g.Expect(available).To(HaveLen(1))
	}).Should(Succeed())
}

// TestTenantTakesNothing: a tenant with write access to hosts in one namespace cannot take a server of another namespace out of service: not with a new
// host, changed addresses of a booted host, a consumerRef, or a recreated host. Requests with the tenant's credentials do not reach the BMC, and no
// message contains the name of the other host.
func TestTenantTakesNothing(t *testing.T) {
	g := NewWithT(t)
	stop := start(t)
	victim := controllerstest.NewServer(t, env.Namespace(t), "victim", bmctest.Options{})
	tenant := env.Namespace(t)
	own := controllerstest.NewServer(t, tenant, "own", bmctest.Options{})
	register(t, own)
	wait(t, own, phase(v1alpha1.PhaseAvailable))
	claimed(t, own, "m")
	wait(t, own, phase(v1alpha1.PhaseBooting))
	register(t, victim)
	wait(t, victim, phase(v1alpha1.PhaseAvailable))

	fresh := controllerstest.NewServer(t, tenant, "fresh", bmctest.Options{})
	fresh.Host.Spec.BMC.Address = victim.Host.Spec.BMC.Address
	fresh.Secret.StringData["password"] = "wrong"
	register(t, fresh)
	wait(t, fresh, conflict(v1alpha1.ReasonBMCConflict, "a host of another namespace"))
	g.Expect(conditions.GetMessage(fresh.Host, v1alpha1.ReadyCondition)).NotTo(ContainSubstring(victim.Host.Name))

	controllerstest.Modify(t, env, own.Host, func(h *v1alpha1.BareMetalHost) {
		h.Spec.BootMACAddresses = []string{victim.Host.Spec.BootMACAddresses[0]}
	})
	wait(t, own, conflict(v1alpha1.ReasonMACConflict, "a host of another namespace"))

	forged := controllerstest.NewServer(t, tenant, "forged", bmctest.Options{})
	forged.Host.Spec.BootMACAddresses = []string{victim.Host.Spec.BootMACAddresses[0]}
	forged.Host.Spec.ConsumerRef = controllerstest.Claimed("m")
	register(t, forged)
	wait(t, forged, conflict(v1alpha1.ReasonMACConflict, "a host of another namespace"))

	aside := controllerstest.NewServer(t, tenant, "aside", bmctest.Options{})
	aside.Host.Spec.BMC.Address = victim.Host.Spec.BMC.Address + "/redfish/v1/Systems/none"
	aside.Host.Spec.ConsumerRef = controllerstest.Claimed("m")
	register(t, aside)
	controllerstest.Modify(t, env, aside.Host, func(h *v1alpha1.BareMetalHost) { h.Spec.BMC.Address = victim.Host.Spec.BMC.Address })
	wait(t, aside, conflict(v1alpha1.ReasonBMCConflict, "a host of another namespace"))

	// The boot of a detached host outlives the host, and then belongs to a host that is recreated with the same name.
	again := own.Host.DeepCopy()
	controllerstest.Modify(t, env, own.Host, func(h *v1alpha1.BareMetalHost) {
		metav1.SetMetaDataAnnotation(&h.ObjectMeta, v1alpha1.DetachedAnnotation, "x")
	})
	g.Expect(env.Client.Delete(t.Context(), own.Host)).To(Succeed()) // without a garbage collector, as with --cascade=orphan
	env.Gone(t, own.Host)
	again.ObjectMeta = metav1.ObjectMeta{Namespace: tenant, Name: again.Name}
	again.Spec.BMC.Address = victim.Host.Spec.BMC.Address
	own.Host = again
	env.Create(t, again)
	wait(t, own, conflict(v1alpha1.ReasonBMCConflict, "a host of another namespace"))

	for range 2 {
		unaffected(t, victim)
		stop() // another process comes to the same result
		stop = start(t)
	}
	stop()
}

// TestConflictOverASecondInterface: each MAC address of a host is unique among all hosts. The message names the one that is taken.
func TestConflictOverASecondInterface(t *testing.T) {
	g := NewWithT(t)
	defer start(t)()
	one, two := controllerstest.NewServer(t, env.Namespace(t), "one", bmctest.Options{}), controllerstest.NewServer(t, env.Namespace(t), "two", bmctest.Options{})
	shared := one.Host.Spec.BootMACAddresses[0][:15] + "fe"
	one.Host.Spec.BootMACAddresses = append(one.Host.Spec.BootMACAddresses, shared)
	register(t, one)
	wait(t, one, phase(v1alpha1.PhaseAvailable))
	g.Expect(one.Host.Status.Identity.BootMACAddresses).To(Equal(one.Host.Spec.BootMACAddresses))
	two.Host.Spec.BootMACAddresses = append(two.Host.Spec.BootMACAddresses, shared)
	register(t, two)
	wait(t, two, conflict(v1alpha1.ReasonMACConflict, "spec.bootMACAddresses "+shared+" is already that of a host of another namespace"))
	wait(t, one, phase(v1alpha1.PhaseAvailable))
	controllerstest.Modify(t, env, two.Host, func(h *v1alpha1.BareMetalHost) { h.Spec.BootMACAddresses = h.Spec.BootMACAddresses[:1] })
	wait(t, two, phase(v1alpha1.PhaseAvailable))
}

// TestMoveKeepsIdentity: a move loses every status. The host whose machine was booted keeps its identity, even if another host with the same identity is
// older.
func TestMoveKeepsIdentity(t *testing.T) {
	g := NewWithT(t)
	idle := controllerstest.NewServer(t, env.Namespace(t), "idle", bmctest.Options{})
	runs := controllerstest.NewServer(t, env.Namespace(t), "runs", bmctest.Options{})
	idle.Host.Spec.BootMACAddresses = []string{runs.Host.Spec.BootMACAddresses[0]}
	register(t, idle)
	claim := env.NewClaim(t, runs.Host.Namespace, "m")
	runs.Host.Spec.ConsumerRef, runs.Host.Spec.ProviderState.Boots = controllerstest.Claimed(claim.BareMetalMachine.Name), 1
	runs.Host.Finalizers = []string{v1alpha1.HostFinalizer}
	boot := &v1alpha1.BareMetalBoot{ObjectMeta: metav1.ObjectMeta{Namespace: runs.Host.Namespace, Name: runs.Host.Name, Finalizers: []string{v1alpha1.BootFinalizer}}}
	boot.Spec = v1alpha1.BareMetalBootSpec{
		Number: 1, Attempt: 1, Purpose: v1alpha1.PurposeProvision, ClaimID: runs.Host.Spec.ConsumerRef.ClaimID, MachineName: claim.BareMetalMachine.Name,
		StartTime: metav1.Now(), PoweredOffTime: new(metav1.Now()), Identity: &v1alpha1.HostIdentity{BootMACAddresses: []string{runs.Host.Spec.BootMACAddresses[0]}},
	}
	env.Create(t, boot)
	register(t, runs)
	defer start(t)()
	wait(t, idle, conflict(v1alpha1.ReasonMACConflict, "a host of another namespace"))
	wait(t, runs, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(h.Status.Identity).To(HaveField("BootMACAddresses", h.Spec.BootMACAddresses))
	})
	g.Expect(idle.CommandNames()).To(BeEmpty())
}

// TestOneServerTwice: a server is registered with two addresses of its BMC, which report one system UUID and serial number. The second host is reported,
// and not booted or commanded, until a user says that they are two servers. The first host is not affected, not even while a machine has the second.
func TestOneServerTwice(t *testing.T) {
	g := NewWithT(t)
	defer start(t)()
	const uuid = "8b7a1c2e-0d3f-4a5b-9c6d-000000000078"
	one := controllerstest.NewServer(t, env.Namespace(t), "one", bmctest.Options{UUID: uuid})
	two := controllerstest.NewServer(t, env.Namespace(t), "one", bmctest.Options{UUID: uuid, On: true})
	two.Host.Spec.Power = v1alpha1.PowerOff
	register(t, one)
	wait(t, one, phase(v1alpha1.PhaseAvailable))
	register(t, two)
	wait(t, two, conflict(v1alpha1.ReasonHardwareConflict, "a host of another namespace"))
	wait(t, one, phase(v1alpha1.PhaseAvailable))
	g.Expect(two.CommandNames()).To(BeEmpty())
	controllerstest.Modify(t, env, two.Host, func(h *v1alpha1.BareMetalHost) {
		h.Annotations = map[string]string{v1alpha1.SharedHardwareAnnotation: "checked in the rack"}
	})
	wait(t, two, phase(v1alpha1.PhaseAvailable))
	claimed(t, two, "m")
	wait(t, two, phase(v1alpha1.PhaseBooting))
	unaffected(t, one)
}

// TestConfirmedBoard: a user cannot take over another tenant's system UUID and serial number by confirming a replaced server.
func TestConfirmedBoard(t *testing.T) {
	defer start(t)()
	const uuid = "8b7a1c2e-0d3f-4a5b-9c6d-00000000007d"
	victim := controllerstest.NewServer(t, env.Namespace(t), "same", bmctest.Options{UUID: uuid})
	tenant := env.Namespace(t)
	first := controllerstest.NewServer(t, tenant, "h", bmctest.Options{UUID: "8b7a1c2e-0d3f-4a5b-9c6d-00000000007e"})
	second := controllerstest.NewServer(t, tenant, "same", bmctest.Options{UUID: uuid})
	register(t, first)
	wait(t, first, phase(v1alpha1.PhaseAvailable))
	register(t, victim)
	wait(t, victim, phase(v1alpha1.PhaseAvailable))
	controllerstest.Modify(t, env, first.Host, func(h *v1alpha1.BareMetalHost) {
		h.Spec.BMC.Address = second.Host.Spec.BMC.Address
		metav1.SetMetaDataAnnotation(&h.ObjectMeta, v1alpha1.ConfirmServerAnnotation, inventory.Fingerprint(uuid, "SN-same"))
	})
	wait(t, first, conflict(v1alpha1.ReasonHardwareConflict, "a host of another namespace"))
	unaffected(t, victim)
}

// unaffected expects that a free host is still available after it was reconciled again.
func unaffected(t *testing.T, server *controllerstest.Server) {
	t.Helper()
	controllerstest.Modify(t, env, server.Host, func(h *v1alpha1.BareMetalHost) { h.Spec.FailureDomain += "x" })
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(h.Status.ObservedGeneration).To(Equal(h.Generation))
		phase(v1alpha1.PhaseAvailable)(g, h)
	})
}
