package host_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
)

// applyStage records a boot stage, as the boot server or the node controller does.
func applyStage(t *testing.T, server *controllerstest.Server, seen v1alpha1.ObservedStage) {
	t.Helper()
	NewWithT(t).Expect(controllers.ApplyStages(t.Context(), env.Client, bootOf(t, server), seen)).To(Succeed())
}

// TestStageOfTheLastBoot: a stage has nothing of an earlier boot, also if both were written together with different other stages, so under different field owners.
func TestStageOfTheLastBoot(t *testing.T) {
	g := NewWithT(t)
	host := &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace(t), Name: "h"}}
	boot := &v1alpha1.BareMetalBoot{
		ObjectMeta: metav1.ObjectMeta{Namespace: host.Namespace, Name: "h"}, Spec: v1alpha1.BareMetalBootSpec{Number: 1, Attempt: 1, StartTime: metav1.Now()},
	}
	env.Create(t, boot)
	write := func(a v1alpha1.ObservedAgent, more ...v1alpha1.BootStage) {
		seen := controllers.NewStage(boot, v1alpha1.StageAgent)
		seen.Agent = &a
		stages := []v1alpha1.ObservedStage{seen}
		for _, s := range more {
			stages = append(stages, controllers.NewStage(boot, s))
		}
		g.Expect(controllers.ApplyStages(t.Context(), env.Client, boot, stages...)).To(Succeed())
	}
	write(v1alpha1.ObservedAgent{Release: "v1", FirmwareMode: wire.FirmwareUEFI, SecureBoot: wire.SecureBootEnabled})
	controllerstest.Modify(t, env, boot, func(b *v1alpha1.BareMetalBoot) { b.Spec.Number, b.Spec.Attempt = 2, 1 })
	write(v1alpha1.ObservedAgent{FirmwareMode: wire.FirmwareBIOS}, v1alpha1.StageKernel)
	g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(boot), boot)).To(Succeed())
	g.Expect(controllers.ObservedStage(boot, v1alpha1.StageAgent).Agent).To(HaveValue(Equal(v1alpha1.ObservedAgent{FirmwareMode: wire.FirmwareBIOS})))
}

// TestProgress follows the condition BootProgress from the start of a boot to the release. A machine that runs from memory, and whose firmware boots
// from the network again, is lost with its Node, and its server gets no command.
func TestProgress(t *testing.T) {
	g := NewWithT(t)
	defer start(t)()
	server := controllerstest.NewServer(t, env.Namespace(t), "h", bmctest.Options{})
	register(t, server)
	wait(t, server, phase(v1alpha1.PhaseAvailable))
	g.Expect(conditions.Has(server.Host, v1alpha1.BootProgressCondition)).To(BeFalse())
	claim := claimed(t, server, "m")
	controllerstest.Modify(t, env, claim.BareMetalMachine, func(m *v1alpha1.BareMetalMachine) { m.Spec.Boot.Persistence = v1alpha1.PersistenceEphemeral })

	progress := func(reason, part string) {
		t.Helper()
		wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
			g.Expect(conditions.GetReason(h, v1alpha1.BootProgressCondition)).To(Equal(reason))
			g.Expect(conditions.GetMessage(h, v1alpha1.BootProgressCondition)).To(ContainSubstring(part))
		})
	}
	progress(v1alpha1.ReasonWaitingForDHCP, "Boot attempt 1. The server was powered on. Awaited until ")
	g.Expect(conditions.GetMessage(server.Host, v1alpha1.BootProgressCondition)).To(ContainSubstring(
		bootOf(t, server).Spec.StartTime.Add(controllerstest.Settings().BootTimeout).UTC().Format(time.RFC3339) + ": the request for a boot file (DHCP)"))
	seen := controllers.NewStage(bootOf(t, server), v1alpha1.StageDHCP)
	seen.Address, seen.Client = "192.0.2.7", "PXE, EFI x86-64"
	applyStage(t, server, seen)
	progress(v1alpha1.ReasonWaitingForLoader, "(192.0.2.7, PXE, EFI x86-64). Awaited until ")
	g.Expect(conditions.GetReason(server.Host, v1alpha1.BootedCondition)).To(Equal(v1alpha1.ReasonWaitingForLoader))
	other := controllers.NewStage(bootOf(t, server), v1alpha1.StageScript)
	other.Number = 7
	applyStage(t, server, other) // of another attempt: it has no effect on this one
	seen.Stage = v1alpha1.StageLoader
	applyStage(t, server, seen)
	progress(v1alpha1.ReasonWaitingForScript, "The server fetched the boot loader at ")

	controllerstest.ModifyBoot(t, env, server.Host, func(b *v1alpha1.BareMetalBootSpec) {
		b.DataAddress, b.DataServedTime, b.ReportedTime = "192.0.2.7", new(metav1.Now()), new(metav1.Now())
	})
	progress(v1alpha1.ReasonBooted, "Boot attempt 1 is complete")
	g.Expect(conditions.IsTrue(server.Host, v1alpha1.BootProgressCondition)).To(BeTrue())
	controllerstest.Modify(t, env, claim.BareMetalMachine, func(m *v1alpha1.BareMetalMachine) {
		m.Spec.ProviderID = "baremetal://" + server.Host.Namespace + "/h/m"
	})
	wait(t, server, phase(v1alpha1.PhaseProvisioned))
	commands := server.CommandNames()

	seen.Stage, seen.Time = v1alpha1.StageRestarted, metav1.NewTime(time.Now().Add(time.Minute))
	applyStage(t, server, seen)
	progress(v1alpha1.ReasonRestarted, "Firmware requested a network boot at ")
	g.Expect(server.Host.Status.Phase).To(Equal(v1alpha1.PhaseProvisioned))
	g.Expect(conditions.IsTrue(server.Host, v1alpha1.BootedCondition)).To(BeTrue())
	seen.Stage = v1alpha1.StageNodeLost
	applyStage(t, server, seen)
	wait(t, server, phase(v1alpha1.PhaseStateLost))
	progress(v1alpha1.ReasonStateLost, "its server was restarted: delete the Machine")
	g.Expect(bootOf(t, server).Spec.Failure.Reason).To(Equal(v1alpha1.ReasonStateLost))
	g.Expect(server.CommandNames()).To(Equal(commands))

	g.Expect(env.Client.Delete(t.Context(), claim.BareMetalMachine)).To(Succeed())
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(h.Status.Phase).To(Equal(v1alpha1.PhaseAvailable))
		g.Expect(conditions.Has(h, v1alpha1.BootProgressCondition)).To(BeFalse())
		g.Expect(bootOf(t, server).Spec.VoidedTime).NotTo(BeNil())
	})
}
