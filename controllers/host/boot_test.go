package host_test

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
)

// waitBoot waits until the record of the server's boot satisfies a function.
func waitBoot(t *testing.T, server *controllerstest.Server, until func(Gomega, *v1alpha1.BareMetalBoot)) *v1alpha1.BareMetalBoot {
	t.Helper()
	boot := &v1alpha1.BareMetalBoot{ObjectMeta: metav1.ObjectMeta{Namespace: server.Host.Namespace, Name: server.Host.Name}}
	controllerstest.Wait(t, env, boot, until)
	return boot
}

// expectOwner expects that a boot has its finalizer, and a reference to its host that does not block the host's deletion.
func expectOwner(server *controllerstest.Server) func(Gomega, *v1alpha1.BareMetalBoot) {
	return func(g Gomega, b *v1alpha1.BareMetalBoot) {
		g.Expect(b.Finalizers).To(ConsistOf(v1alpha1.BootFinalizer))
		g.Expect(b.OwnerReferences).To(HaveLen(1))
		owner := b.OwnerReferences[0]
		g.Expect(owner.Name).To(Equal(server.Host.Name))
		g.Expect(owner.UID).To(Equal(server.Host.UID))
		g.Expect(owner.BlockOwnerDeletion).To(HaveValue(BeFalse()))
	}
}

// deleteBootNow removes the finalizer of a boot and deletes it.
func deleteBootNow(t *testing.T, server *controllerstest.Server) {
	t.Helper()
	boot := bootOf(t, server)
	controllerstest.Modify(t, env, boot, func(b *v1alpha1.BareMetalBoot) { b.Finalizers = nil })
	NewWithT(t).Expect(client.IgnoreNotFound(env.Client.Delete(t.Context(), boot))).To(Succeed())
}

// TestBootOfAFreeHost: a registered host has a boot. Its owner and finalizer are restored. A deleted or lost boot is recreated with the host's count.
func TestBootOfAFreeHost(t *testing.T) {
	g := NewWithT(t)
	defer start(t)()
	server := controllerstest.NewServer(t, env.Namespace(t), "h", bmctest.Options{})
	register(t, server)
	boot := waitBoot(t, server, expectOwner(server))
	g.Expect(boot.Spec).To(Equal(v1alpha1.BareMetalBootSpec{}))
	wait(t, server, phase(v1alpha1.PhaseAvailable))

	controllerstest.Modify(t, env, boot, func(b *v1alpha1.BareMetalBoot) { b.OwnerReferences, b.Finalizers = nil, nil })
	waitBoot(t, server, expectOwner(server))
	controllerstest.Modify(t, env, boot, func(b *v1alpha1.BareMetalBoot) { b.OwnerReferences[0].UID = "of-before" })
	waitBoot(t, server, expectOwner(server))

	controllerstest.Modify(t, env, server.Host, func(h *v1alpha1.BareMetalHost) { h.Spec.ProviderState.Boots = 7 })
	waitBoot(t, server, func(g Gomega, b *v1alpha1.BareMetalBoot) { g.Expect(b.Spec.Number).To(Equal(int32(7))) })
	for _, remove := range []func(){
		func() { g.Expect(env.Client.Delete(t.Context(), bootOf(t, server))).To(Succeed()) },
		func() { deleteBootNow(t, server) },
	} {
		before := bootOf(t, server).UID
		remove()
		waitBoot(t, server, func(g Gomega, b *v1alpha1.BareMetalBoot) {
			g.Expect(b.UID).NotTo(Equal(before))
			g.Expect(b.DeletionTimestamp).To(BeNil())
			g.Expect(b.Spec.Number).To(Equal(int32(7)))
			expectOwner(server)(g, b)
		})
		wait(t, server, phase(v1alpha1.PhaseAvailable))
	}
	g.Expect(server.CommandNames()).To(BeEmpty())
}

// TestBootIsDeletedInMidBoot: a boot that is deleted while its host is claimed continues, and stays until the host is released.
func TestBootIsDeletedInMidBoot(t *testing.T) {
	g := NewWithT(t)
	defer start(t)()
	server := controllerstest.NewServer(t, env.Namespace(t), "h", bmctest.Options{})
	register(t, server)
	claim := claimed(t, server, "m")
	wait(t, server, reason(v1alpha1.BootedCondition, v1alpha1.ReasonWaitingForDHCP))
	g.Expect(env.Client.DeleteAllOf(t.Context(), &v1alpha1.BareMetalBoot{}, client.InNamespace(server.Host.Namespace))).To(Succeed())
	observeStage(t, server, v1alpha1.StageScript)
	wait(t, server, reason(v1alpha1.BootedCondition, v1alpha1.ReasonWaitingForKernel))
	g.Expect(bootOf(t, server).DeletionTimestamp).NotTo(BeNil())
	g.Expect(env.Client.Delete(t.Context(), claim.BareMetalMachine)).To(Succeed())
	wait(t, server, phase(v1alpha1.PhaseAvailable))
	boot := bootOf(t, server)
	g.Expect(boot.DeletionTimestamp).To(BeNil())
	g.Expect(boot.Spec.Number).To(Equal(int32(1)))
}

// TestBootUnknown: the machine of a host is not running yet, and the host's boot record is lost or belongs to another claim. The host gets no command
// until the record is restored or the machine is deleted.
func TestBootUnknown(t *testing.T) {
	t.Cleanup(start(t))
	const restore = "Restore the BareMetalBoot from a backup, or delete the Machine"
	for name, test := range map[string]struct {
		remedy string
		lose   func(*testing.T, *controllerstest.Server)
	}{
		"it is gone": {restore, deleteBootNow},
		"it is another claim's": {"Correct spec.consumerRef", func(t *testing.T, s *controllerstest.Server) {
			t.Helper()
			deleteBootNow(t, s)
			other := &v1alpha1.BareMetalBoot{ObjectMeta: metav1.ObjectMeta{Namespace: s.Host.Namespace, Name: s.Host.Name}}
			other.Spec = v1alpha1.BareMetalBootSpec{Number: 1, Attempt: 1, ClaimID: "another", MachineName: "n", StartTime: metav1.Now()}
			env.Create(t, other)
		}},
		"it is older than the host": {restore, func(t *testing.T, s *controllerstest.Server) {
			t.Helper()
			deleteBootNow(t, s)
			env.Create(t, &v1alpha1.BareMetalBoot{ObjectMeta: metav1.ObjectMeta{Namespace: s.Host.Namespace, Name: s.Host.Name}})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // they wait most of the time
			g := NewWithT(t)
			server := controllerstest.NewServer(t, env.Namespace(t), "h", bmctest.Options{})
			register(t, server)
			claim := claimed(t, server, "m")
			wait(t, server, reason(v1alpha1.BootedCondition, v1alpha1.ReasonWaitingForDHCP))
			record := bootOf(t, server)
			commands := server.CommandNames()
			test.lose(t, server)
			wait(t, server, phase(v1alpha1.PhaseBootUnknown))
			g.Expect(conditions.GetReason(server.Host, v1alpha1.ReadyCondition)).To(Equal(v1alpha1.ReasonBootUnknown))
			wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) { // it may have been seen missing first
				g.Expect(conditions.GetMessage(h, v1alpha1.ReadyCondition)).To(ContainSubstring(test.remedy))
			})
			g.Expect(server.CommandNames()).To(Equal(commands))

			if controllerstest.BootOf(t, env, server.Host) != nil {
				deleteBootNow(t, server)
			}
			env.Create(t, &v1alpha1.BareMetalBoot{ObjectMeta: metav1.ObjectMeta{Namespace: record.Namespace, Name: record.Name}, Spec: record.Spec})
			wait(t, server, phase(v1alpha1.PhaseBooting))
			g.Expect(server.CommandNames()).To(Equal(commands), "it goes on where it was")
			waitBoot(t, server, expectOwner(server))

			test.lose(t, server)
			wait(t, server, phase(v1alpha1.PhaseBootUnknown))
			g.Expect(env.Client.Delete(t.Context(), claim.BareMetalMachine)).To(Succeed())
			wait(t, server, phase(v1alpha1.PhaseAvailable))
			g.Expect(server.On()).To(BeFalse(), "it was powered off")
			g.Expect(bootOf(t, server).Spec.Number).To(Equal(int32(1)))
		})
	}
}

// TestStrayBoot: a user clears the consumerRef of a booting host. The host is not available, and gets no command, until a user resolves it. If the host
// is deleted, its server is powered off first.
func TestStrayBoot(t *testing.T) {
	t.Cleanup(start(t))
	stray := func(t *testing.T) (*controllerstest.Server, *v1alpha1.ConsumerReference) {
		t.Helper()
		server := controllerstest.NewServer(t, env.Namespace(t), "h", bmctest.Options{})
		register(t, server)
		claimed(t, server, "m")
		wait(t, server, reason(v1alpha1.BootedCondition, v1alpha1.ReasonWaitingForDHCP))
		ref := server.Host.Spec.ConsumerRef
		controllerstest.Modify(t, env, server.Host, func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef = nil })
		wait(t, server, reason(v1alpha1.AvailableCondition, v1alpha1.ReasonBootUnknown))
		return server, ref
	}
	t.Run("given back", func(t *testing.T) {
		t.Parallel()
		g := NewWithT(t)
		server, ref := stray(t)
		g.Expect(conditions.GetMessage(server.Host, v1alpha1.AvailableCondition)).To(ContainSubstring("{name: m, claimID: " + ref.ClaimID + "}"))
		commands := server.CommandNames()
		controllerstest.Modify(t, env, server.Host, func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef = ref })
		wait(t, server, phase(v1alpha1.PhaseBooting))
		g.Expect(server.CommandNames()).To(Equal(commands))
	})
	t.Run("its boot is deleted", func(t *testing.T) {
		t.Parallel()
		server, _ := stray(t)
		NewWithT(t).Expect(env.Client.Delete(t.Context(), bootOf(t, server))).To(Succeed())
		wait(t, server, reason(v1alpha1.AvailableCondition, v1alpha1.ReasonPoweredOn))
	})
	t.Run("it is deleted", func(t *testing.T) {
		t.Parallel()
		g := NewWithT(t)
		server, _ := stray(t)
		g.Expect(server.On()).To(BeTrue())
		g.Expect(env.Client.Delete(t.Context(), server.Host)).To(Succeed())
		env.Gone(t, server.Host)
		g.Expect(server.On()).To(BeFalse(), "its server was powered off")
		g.Expect(bootOf(t, server).Spec.VoidedTime).NotTo(BeNil())
	})
}

// TestBootOutlivesItsHost: the boot of a deleted host stays until something deletes it, because a backup may restore the host.
func TestBootOutlivesItsHost(t *testing.T) {
	g := NewWithT(t)
	defer start(t)()
	server := controllerstest.NewServer(t, env.Namespace(t), "h", bmctest.Options{})
	register(t, server)
	wait(t, server, phase(v1alpha1.PhaseAvailable))
	boot := bootOf(t, server)
	g.Expect(env.Client.Delete(t.Context(), server.Host)).To(Succeed())
	env.Gone(t, server.Host)
	g.Expect(bootOf(t, server).UID).To(Equal(boot.UID))
	g.Expect(env.Client.Delete(t.Context(), boot)).To(Succeed()) // as the garbage collector does
	env.Gone(t, boot)
}

// TestServedBootIsKept: a boot served bootstrap data to a machine that would get the data again with another host. The boot stays until the machine is
// gone, even if its host is deleted or a user deletes the boot.
func TestServedBootIsKept(t *testing.T) {
	t.Cleanup(start(t))
	served := func(t *testing.T) (*controllerstest.Server, *controllerstest.Claim, *v1alpha1.BareMetalBoot) {
		t.Helper()
		server := controllerstest.NewServer(t, env.Namespace(t), "h", bmctest.Options{})
		register(t, server)
		claim := claimed(t, server, "m")
		wait(t, server, reason(v1alpha1.BootedCondition, v1alpha1.ReasonWaitingForDHCP))
		return server, claim, controllerstest.ModifyBoot(t, env, server.Host, func(b *v1alpha1.BareMetalBootSpec) {
			b.DataAddress, b.DataServedTime = "192.0.2.9", new(metav1.Now())
		})
	}
	t.Run("its host is detached and deleted", func(t *testing.T) {
		t.Parallel()
		g := NewWithT(t)
		server, claim, boot := served(t)
		controllerstest.Modify(t, env, server.Host, func(h *v1alpha1.BareMetalHost) {
			h.Annotations = map[string]string{v1alpha1.DetachedAnnotation: "anna"}
		})
		g.Expect(env.Client.Delete(t.Context(), server.Host)).To(Succeed())
		env.Gone(t, server.Host)
		g.Expect(env.Client.Delete(t.Context(), boot)).To(Succeed()) // as the garbage collector does
		g.Consistently(func() error { return env.Client.Get(t.Context(), client.ObjectKeyFromObject(boot), boot) }, "2s").Should(Succeed())
		g.Expect(env.Client.Delete(t.Context(), claim.BareMetalMachine)).To(Succeed())
		env.Gone(t, boot)
	})
	t.Run("its host is given to nobody, and it is deleted", func(t *testing.T) {
		t.Parallel()
		g := NewWithT(t)
		server, claim, boot := served(t)
		controllerstest.Modify(t, env, server.Host, func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef = nil })
		wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
			g.Expect(conditions.GetMessage(h, v1alpha1.AvailableCondition)).To(HaveSuffix("or delete its Machine"))
		})
		g.Expect(env.Client.Delete(t.Context(), boot)).To(Succeed())
		g.Consistently(func() error { return env.Client.Get(t.Context(), client.ObjectKeyFromObject(boot), boot) }, "2s").Should(Succeed())
		g.Expect(env.Client.Delete(t.Context(), claim.BareMetalMachine)).To(Succeed())
		waitBoot(t, server, func(g Gomega, b *v1alpha1.BareMetalBoot) { g.Expect(b.UID).NotTo(Equal(boot.UID)) })
	})
	t.Run("its host is given to another machine, which is deleted", func(t *testing.T) {
		t.Parallel()
		g := NewWithT(t)
		server, claim, boot := served(t)
		other := env.NewClaim(t, server.Host.Namespace, "n")
		controllerstest.Modify(t, env, other.BareMetalMachine, func(m *v1alpha1.BareMetalMachine) { m.Finalizers = []string{v1alpha1.MachineFinalizer} })
		controllerstest.Modify(t, env, server.Host, func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef = controllerstest.Claimed("n") })
		wait(t, server, phase(v1alpha1.PhaseBootUnknown))
		g.Expect(env.Client.Delete(t.Context(), other.BareMetalMachine)).To(Succeed())
		wait(t, server, reason(v1alpha1.AvailableCondition, v1alpha1.ReasonBootUnknown))
		g.Expect(server.Host.Spec.ConsumerRef).To(BeNil())
		g.Expect(bootOf(t, server).Spec.VoidedTime).To(BeNil(), "it is the other machine's")
		g.Expect(env.Client.Delete(t.Context(), boot)).To(Succeed())
		g.Expect(env.Client.Delete(t.Context(), claim.BareMetalMachine)).To(Succeed())
		controllerstest.Modify(t, env, claim.BareMetalMachine, func(m *v1alpha1.BareMetalMachine) { m.Finalizers = nil })
		wait(t, server, phase(v1alpha1.PhaseAvailable))
	})
	t.Run("its machine is given another host", func(t *testing.T) {
		t.Parallel()
		g := NewWithT(t)
		server, _, _ := served(t)
		controllerstest.Modify(t, env, server.Host, func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef = nil })
		second := controllerstest.NewServer(t, server.Host.Namespace, "second", bmctest.Options{})
		register(t, second)
		wait(t, second, phase(v1alpha1.PhaseAvailable))
		controllerstest.Modify(t, env, second.Host, func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef = controllerstest.Claimed("m") })
		wait(t, second, reason(v1alpha1.BootedCondition, v1alpha1.ReasonConsumerConflict))
		g.Expect(conditions.GetMessage(second.Host, v1alpha1.BootedCondition)).To(ContainSubstring("The server of host h already got the bootstrap data"))
		g.Expect(second.CommandNames()).To(BeEmpty())
	})
}
