package host_test

import (
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory"
)

// These tests are the recipes of docs/guides; docs/development/operations-tests.md lists them.

// waitForPolls waits until the BMC was polled a few times: any pending command would have been sent by then.
func waitForPolls(t *testing.T, server *controllerstest.Server) {
	t.Helper()
	from := server.Requests()
	NewWithT(t).Eventually(server.Requests, 30*time.Second).Should(BeNumerically(">", from+2))
}

// TestMaintenance: a server that runs a machine gets no command in maintenance, whatever users do to its power, and is managed again afterwards.
func TestMaintenance(t *testing.T) {
	g := NewWithT(t)
	defer start(t)()
	server, _ := runningServer(t)
	wait(t, server, phase(v1alpha1.PhaseProvisioned))
	controllerstest.Modify(t, env, server.Host, func(h *v1alpha1.BareMetalHost) {
		h.Spec.Maintenance = &v1alpha1.Maintenance{Reason: "anna: new fan"}
		annotate(v1alpha1.PowerOnPrefix + "otto")(h)
		annotate(v1alpha1.PowerHoldPrefix + "otto")(h)
	})
	wait(t, server, phase(v1alpha1.PhaseMaintenance))
	server.SetPower(false)
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) { g.Expect(h.Status.Power).To(Equal(v1alpha1.PowerOff)) })
	waitForPolls(t, server)
	g.Expect(server.CommandNames()).To(BeEmpty())
	server.SetPower(true)
	controllerstest.Modify(t, env, server.Host, func(h *v1alpha1.BareMetalHost) { h.Spec.Maintenance, h.Annotations = nil, nil })
	wait(t, server, phase(v1alpha1.PhaseProvisioned))
	g.Expect(server.CommandNames()).To(BeEmpty())
}

// TestMaintenanceInMidBoot: a boot that is stopped by maintenance blocks a move until its deadline, and no longer.
func TestMaintenanceInMidBoot(t *testing.T) {
	for name, stop := range map[string]func(*v1alpha1.BareMetalHost){
		"maintenance": func(h *v1alpha1.BareMetalHost) { h.Spec.Maintenance = &v1alpha1.Maintenance{Reason: "anna: new fan"} },
		"detached":    annotate(v1alpha1.DetachedAnnotation),
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			clock := startBoth(t, controllerstest.Settings())
			server := controllerstest.NewServer(t, env.Namespace(t), "h", bmctest.Options{})
			register(t, server)
			wait(t, server, phase(v1alpha1.PhaseAvailable))
			env.NewClaim(t, server.Host.Namespace, "m")
			wait(t, server, reason(v1alpha1.BootedCondition, v1alpha1.ReasonWaitingForDHCP))
			controllerstest.Modify(t, env, server.Host, stop)
			wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
				g.Expect(h.Status.Phase).To(BeElementOf(v1alpha1.PhaseMaintenance, v1alpha1.PhaseDetached))
			})
			g.Expect(server.Host.Annotations).To(HaveKey(v1alpha1.BlockMoveAnnotation))
			commands := server.CommandNames()
			clock.forward(controllerstest.Settings().BootTimeout)
			controllerstest.Modify(t, env, server.Host, func(h *v1alpha1.BareMetalHost) { h.Labels = map[string]string{"reconcile": "1"} })
			wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
				g.Expect(h.Annotations).NotTo(HaveKey(v1alpha1.BlockMoveAnnotation))
			})
			g.Expect(server.CommandNames()).To(Equal(commands))
		})
	}
}

// TestPowerByAnnotation: several users keep a server powered off, each with a separate key, and none removes another's hold. A requested power cycle
// happens once, also during a hold.
func TestPowerByAnnotation(t *testing.T) {
	g := NewWithT(t)
	stop := start(t)
	server, _ := runningServer(t)
	wait(t, server, phase(v1alpha1.PhaseProvisioned))
	anna, otto := v1alpha1.PowerHoldPrefix+"anna", v1alpha1.ForcePowerHoldPrefix+"otto"
	off := func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(h.Spec.ProviderState.PowerHoldOffTime).NotTo(BeNil())
		g.Expect(h.Status.Phase).To(Equal(v1alpha1.PhasePowerHold))
	}
	controllerstest.Modify(t, env, server.Host, annotate(anna))
	wait(t, server, off)
	g.Expect(conditions.GetMessage(server.Host, v1alpha1.ReadyCondition)).To(ContainSubstring("Kept powered off by anna (anna: the rack burns)"))
	controllerstest.Modify(t, env, server.Host, annotate(otto))
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(conditions.GetMessage(h, v1alpha1.ReadyCondition)).To(ContainSubstring("otto (anna: the rack burns)"))
	})
	controllerstest.Modify(t, env, server.Host, unannotate(anna))
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(conditions.GetMessage(h, v1alpha1.ReadyCondition)).NotTo(ContainSubstring("anna ("))
	})
	waitForPolls(t, server)
	g.Expect(server.On()).To(BeFalse(), "otto still holds it")

	// A power cycle of a server that is off is complete. A power-on waits for the end of the hold of otto.
	stop()
	controllerstest.Modify(t, env, server.Host, func(h *v1alpha1.BareMetalHost) {
		annotate(v1alpha1.PowerCyclePrefix + "anna")(h)
		annotate(v1alpha1.PowerOnPrefix + "anna")(h)
	})
	defer start(t)()
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(h.Annotations).NotTo(HaveKey(v1alpha1.PowerCyclePrefix + "anna"))
		g.Expect(h.Annotations).To(HaveKey(v1alpha1.PowerOnPrefix + "anna"))
	})
	g.Expect(server.On()).To(BeFalse())
	controllerstest.Modify(t, env, server.Host, unannotate(otto))
	back := func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(h.Spec.ProviderState.PowerHoldStartTime).To(BeNil())
		g.Expect(h.Annotations).To(BeEmpty())
		g.Expect(h.Status.Phase).To(Equal(v1alpha1.PhaseProvisioned))
	}
	wait(t, server, back)
	g.Expect(server.CommandNames()).To(Equal([]string{"GracefulShutdown", "On"}))

	// A power cycle of a running server, and a power-on of a server that a user switched off.
	controllerstest.Modify(t, env, server.Host, annotate(v1alpha1.PowerCyclePrefix+"otto"))
	wait(t, server, func(g Gomega, _ *v1alpha1.BareMetalHost) {
		g.Expect(len(server.CommandNames())).To(BeNumerically(">=", 4))
	})
	wait(t, server, back)
	cycle := server.CommandNames()[2:] // the emulated system starts slowly, so a shutdown request may have no effect
	g.Expect(slices.Index(cycle, "On")).To(Equal(len(cycle)-1), "%v", cycle)
	server.SetPower(false)
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) { g.Expect(h.Status.Power).To(Equal(v1alpha1.PowerOff)) })
	controllerstest.Modify(t, env, server.Host, annotate(v1alpha1.PowerOnPrefix+"otto"))
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
		back(g, h)
		g.Expect(server.On()).To(BeTrue())
	})
	g.Expect(server.CommandNames()[2+len(cycle):]).To(Equal([]string{"On"}))
}

// TestPowerRequestsAreDropped: a power request for a server without a machine is not kept for the next machine, and an event reports that it was
// dropped.
func TestPowerRequestsAreDropped(t *testing.T) {
	g := NewWithT(t)
	defer start(t)()
	server := controllerstest.NewServer(t, env.Namespace(t), "h", bmctest.Options{})
	register(t, server)
	wait(t, server, phase(v1alpha1.PhaseAvailable))
	cycle := v1alpha1.PowerCyclePrefix + "anna"
	controllerstest.Modify(t, env, server.Host, annotate(cycle))
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(h.Annotations).NotTo(HaveKey(cycle))
		g.Expect(h.Status.LastOperation).To(HaveValue(And(HaveField("Outcome", v1alpha1.OperationFailed),
			HaveField("Message", And(ContainSubstring(cycle), ContainSubstring("anna: the rack burns"), ContainSubstring("the host is Available"))))))
		g.Expect(h.Status.Phase).To(Equal(v1alpha1.PhaseAvailable))
	})
	g.Expect(server.CommandNames()).To(BeEmpty())
}

// TestInspectAgain: after a hardware change a user can have the inventory read immediately.
func TestInspectAgain(t *testing.T) {
	defer start(t)()
	server := controllerstest.NewServer(t, env.Namespace(t), "h", bmctest.Options{})
	misbehave(t, server, bmctest.PartsAre501, -1)
	register(t, server)
	wait(t, server, phase(v1alpha1.PhaseAvailable))
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(h.Status.Hardware.Facts).To(ContainElement(And(HaveField("Name", "devices"), HaveField("State", v1alpha1.FactUnknown))))
	})
	misbehave(t, server, bmctest.PartsAre501, 0)
	controllerstest.Modify(t, env, server.Host, annotate(v1alpha1.RetryBMCAnnotation))
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(h.Status.Hardware.Facts).To(ContainElement(And(HaveField("Name", "devices"), HaveField("State", v1alpha1.FactKnown))))
	})
	wait(t, server, withoutAnnotation)
}

// TestInspectAgainInVain: in a state without requests to the BMC, the last operation says why the annotation had no effect.
func TestInspectAgainInVain(t *testing.T) {
	defer start(t)()
	server := controllerstest.NewServer(t, env.Namespace(t), "h", bmctest.Options{})
	register(t, server)
	wait(t, server, phase(v1alpha1.PhaseAvailable))
	controllerstest.Modify(t, env, server.Host, annotate(v1alpha1.DetachedAnnotation))
	wait(t, server, phase(v1alpha1.PhaseDetached))
	controllerstest.Modify(t, env, server.Host, annotate(v1alpha1.RetryBMCAnnotation))
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
		withoutAnnotation(g, h)
		g.Expect(h.Status.LastOperation).To(HaveValue(And(HaveField("Outcome", v1alpha1.OperationFailed),
			HaveField("Message", And(ContainSubstring(v1alpha1.RetryBMCAnnotation), ContainSubstring("the host is Detached"))))))
	})
}

// recreate deletes the object of a host and creates it again after a change.
func recreate(t *testing.T, server *controllerstest.Server, change func(*v1alpha1.BareMetalHost)) {
	t.Helper()
	NewWithT(t).Expect(env.Client.Delete(t.Context(), server.Host)).To(Succeed())
	env.Gone(t, server.Host)
	before := server.Host
	server.Host = &v1alpha1.BareMetalHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: before.Namespace, Name: before.Name, Annotations: before.Annotations}, Spec: before.Spec,
	}
	change(server.Host)
	env.Create(t, server.Host)
}

// TestDetach: the BMC of a detached host gets no requests. The object may be deleted and created again, with or without its machine, and the server
// keeps running.
func TestDetach(t *testing.T) {
	g := NewWithT(t)
	stop := start(t)
	server, _ := runningServer(t)
	wait(t, server, phase(v1alpha1.PhaseProvisioned))
	controllerstest.Modify(t, env, server.Host, annotate(v1alpha1.DetachedAnnotation))
	wait(t, server, phase(v1alpha1.PhaseDetached))
	g.Expect(conditions.GetMessage(server.Host, v1alpha1.ReadyCondition)).To(ContainSubstring("anna: the rack burns"))
	var asked int // after requests in progress have ended: the interval allows two polls
	g.Eventually(func() bool {
		before := asked
		asked = server.Requests()
		return asked == before
	}, "30s", "1s").Should(BeTrue())
	controllerstest.Modify(t, env, server.Host, func(h *v1alpha1.BareMetalHost) { annotate(v1alpha1.PowerCyclePrefix + "otto")(h) })
	g.Consistently(server.Requests, 2*time.Second).Should(Equal(asked))
	stop()
	defer start(t)()
	g.Consistently(server.Requests, 2*time.Second).Should(Equal(asked), "nor by a manager that starts")

	// With its consumerRef the host is as before.
	recreate(t, server, func(*v1alpha1.BareMetalHost) {})
	wait(t, server, phase(v1alpha1.PhaseDetached))
	g.Expect(server.Requests()).To(Equal(asked))
	controllerstest.Modify(t, env, server.Host, func(h *v1alpha1.BareMetalHost) { h.Annotations = nil })
	wait(t, server, phase(v1alpha1.PhaseProvisioned))

	// Without it the host is not available, and is not powered off although its spec says so.
	controllerstest.Modify(t, env, server.Host, annotate(v1alpha1.DetachedAnnotation))
	wait(t, server, phase(v1alpha1.PhaseDetached))
	recreate(t, server, func(h *v1alpha1.BareMetalHost) {
		h.Annotations, h.Spec.ConsumerRef, h.Spec.Power = nil, nil, v1alpha1.PowerOff
	})
	wait(t, server, reason(v1alpha1.AvailableCondition, v1alpha1.ReasonConsumerMissing))
	g.Expect(conditions.GetMessage(server.Host, v1alpha1.ReadyCondition)).To(ContainSubstring("spec.consumerRef.name: m"))
	waitForPolls(t, server)
	controllerstest.Modify(t, env, server.Host, func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef = controllerstest.Claimed("m") })
	wait(t, server, phase(v1alpha1.PhaseProvisioned))
	g.Expect(server.CommandNames()).To(BeEmpty())
	g.Expect(server.On()).To(BeTrue())
}

// TestConsumerMissing: a host without a consumer, whose machine names it in its provider ID, is not available until that is fixed. The deletion of the
// machine frees the host.
func TestConsumerMissing(t *testing.T) {
	g := NewWithT(t)
	startBoth(t, controllerstest.Settings())
	namespace := env.Namespace(t)
	server := controllerstest.NewServer(t, namespace, "h", bmctest.Options{On: true})
	server.Host.Spec.Power = v1alpha1.PowerOff
	claim := env.NewClaim(t, namespace, "m", func(c *controllerstest.Claim) {
		c.BareMetalMachine.Spec.ProviderID = inventory.ProviderID(namespace, "h", "m")
	})
	register(t, server)
	wait(t, server, reason(v1alpha1.AvailableCondition, v1alpha1.ReasonConsumerMissing))
	waitForPolls(t, server)
	g.Expect(server.CommandNames()).To(BeEmpty())
	g.Expect(env.Client.Delete(t.Context(), claim.BareMetalMachine)).To(Succeed())
	env.Gone(t, claim.BareMetalMachine)
	wait(t, server, phase(v1alpha1.PhaseAvailable))
	g.Expect(server.On()).To(BeFalse())
}

// TestAdoptExternallyProvisioned: an externally provisioned server is monitored, and gets no command.
func TestAdoptExternallyProvisioned(t *testing.T) {
	g := NewWithT(t)
	defer start(t)()
	server := controllerstest.NewServer(t, env.Namespace(t), "h", bmctest.Options{On: true})
	server.Host.Spec.ExternallyProvisioned, server.Host.Spec.Power = true, v1alpha1.PowerOff
	register(t, server)
	wait(t, server, phase(v1alpha1.PhaseExternallyProvisioned))
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) { g.Expect(h.Status.Hardware).NotTo(BeNil()) })
	waitForPolls(t, server)
	g.Expect(server.CommandNames()).To(BeEmpty())
}

// TestAdoptByProviderID: a running server is adopted without a command when the machine that its host names has the host's provider ID. A machine with
// another provider ID has no effect on the server, and the host says what is wrong.
func TestAdoptByProviderID(t *testing.T) {
	startBoth(t, controllerstest.Settings())
	adopt := func(t *testing.T, host string) (*controllerstest.Server, *controllerstest.Claim) {
		t.Helper()
		namespace := env.Namespace(t)
		server := controllerstest.NewServer(t, namespace, "h", bmctest.Options{On: true})
		server.Host.Spec.ConsumerRef = controllerstest.Claimed("m")
		register(t, server)
		wait(t, server, phase(v1alpha1.PhaseOrphaned))
		return server, env.NewClaim(t, namespace, "m", func(c *controllerstest.Claim) {
			c.BareMetalMachine.Spec.ProviderID = inventory.ProviderID(namespace, host, "m")
		})
	}
	t.Run("its provider ID", func(t *testing.T) {
		g := NewWithT(t)
		server, claim := adopt(t, "h")
		wait(t, server, phase(v1alpha1.PhaseProvisioned))
		controllerstest.Wait(t, env, claim.BareMetalMachine, func(g Gomega, m *v1alpha1.BareMetalMachine) {
			g.Expect(m.Status.HostRef).To(HaveValue(Equal(v1alpha1.HostReference{Name: "h"})))
			g.Expect(m.Status.Initialization.Provisioned).To(HaveValue(BeTrue()))
			g.Expect(conditions.IsTrue(m, v1alpha1.ReadyCondition)).To(BeTrue())
		})
		waitForPolls(t, server)
		g.Expect(server.CommandNames()).To(BeEmpty())
	})
	t.Run("another provider ID", func(t *testing.T) {
		g := NewWithT(t)
		server, _ := adopt(t, "another")
		wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
			phase(v1alpha1.PhaseOrphaned)(g, h)
			g.Expect(conditions.GetMessage(h, v1alpha1.ReadyCondition)).To(ContainSubstring(`has the providerID "baremetal://` + h.Namespace + `/another/m" of another claim`))
		})
		g.Expect(server.CommandNames()).To(BeEmpty())
	})
}

// changedAddress returns another address of a server's BMC, as after a change of the network.
func changedAddress(t *testing.T, server *controllerstest.Server) string {
	t.Helper()
	second := httptest.NewServer(server.Machine)
	t.Cleanup(second.Close)
	return strings.Replace(second.URL, "http://", "redfish+http://", 1)
}

// TestReplaceFreeServer: a server is replaced under the same host name, and the new one is inspected before the host is available.
func TestReplaceFreeServer(t *testing.T) {
	defer start(t)()
	namespace := env.Namespace(t)
	server := controllerstest.NewServer(t, namespace, "h", bmctest.Options{})
	register(t, server)
	wait(t, server, phase(v1alpha1.PhaseAvailable))
	replaceServer(t, server, controllerstest.NewServer(t, namespace, "new", bmctest.Options{MemoryGiB: 32}))
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(h.Status.Hardware.Memory.String()).To(Equal("32Gi"))
		phase(v1alpha1.PhaseAvailable)(g, h)
	})
}

// replaceServer replaces a server with another, confirms that, and ends the quarantine.
func replaceServer(t *testing.T, server, by *controllerstest.Server) {
	t.Helper()
	controllerstest.Modify(t, env, server.Host, func(h *v1alpha1.BareMetalHost) {
		h.Spec.BMC.Address, h.Spec.BootMACAddresses = by.Host.Spec.BMC.Address, by.Host.Spec.BootMACAddresses
		h.Spec.Quarantine = nil
		metav1.SetMetaDataAnnotation(&h.ObjectMeta, v1alpha1.ConfirmServerAnnotation, inventory.Fingerprint("", "SN-"+by.Host.Name))
	})
}

// TestReplaceBrokenServer: a server with a machine breaks. Its host is quarantined, the machine is deleted, and the host is force-released if the BMC is
// unreachable. No machine gets the host until the server is replaced.
func TestReplaceBrokenServer(t *testing.T) {
	startBoth(t, controllerstest.Settings())
	quarantined := changeHost(func(h *v1alpha1.BareMetalHost) { h.Spec.Quarantine = &v1alpha1.Quarantine{Reason: "Broken"} })
	replaced := func(t *testing.T, s *deletionCase) {
		t.Helper()
		env.Gone(t, s.claim.BareMetalMachine)
		wait(t, s.Server, phase(v1alpha1.PhaseQuarantined))
		spare := controllerstest.NewServer(t, s.Host.Namespace, "new", bmctest.Options{MemoryGiB: 32})
		replaceServer(t, s.Server, spare)
		wait(t, s.Server, func(g Gomega, h *v1alpha1.BareMetalHost) {
			g.Expect(h.Status.Hardware.Memory.String()).To(Equal("32Gi"))
			phase(v1alpha1.PhaseAvailable)(g, h)
		})
		NewWithT(t).Expect(spare.CommandNames()).To(BeEmpty())
	}
	t.Run("with its BMC", func(t *testing.T) {
		t.Parallel()
		g := NewWithT(t)
		s := reachState(t, deletionState{make: faulty(bmctest.Down)})
		quarantined(t, s)
		g.Expect(env.Client.Delete(t.Context(), s.claim.BareMetalMachine)).To(Succeed())
		changeHost(annotate(v1alpha1.ReleaseUnfencedAnnotation))(t, s)
		replaced(t, s)
		g.Expect(s.CommandNames()).To(BeEmpty())
	})
	t.Run("all but its BMC", func(t *testing.T) {
		t.Parallel()
		g := NewWithT(t)
		s := reachState(t, deletionState{make: quarantined})
		g.Expect(env.Client.Delete(t.Context(), s.claim.BareMetalMachine)).To(Succeed())
		replaced(t, s)
		g.Expect(s.On()).To(BeFalse())
	})
}

// TestBMCAddressChanges: a new BMC address affects neither a running machine nor a boot under way. What was observed at the old address is observed
// again.
func TestBMCAddressChanges(t *testing.T) {
	g := NewWithT(t)
	defer start(t)()
	t.Run("of a running machine", func(t *testing.T) {
		server, _ := runningServer(t)
		wait(t, server, phase(v1alpha1.PhaseProvisioned))
		asked := server.Requests()
		controllerstest.Modify(t, env, server.Host, func(h *v1alpha1.BareMetalHost) { h.Spec.BMC.Address = "redfish+http://127.0.0.1:1" })
		wait(t, server, reason(v1alpha1.ReadyCondition, v1alpha1.ReasonBMCUnreachable))
		controllerstest.Modify(t, env, server.Host, func(h *v1alpha1.BareMetalHost) { h.Spec.BMC.Address = changedAddress(t, server) })
		wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
			phase(v1alpha1.PhaseProvisioned)(g, h)
			g.Expect(conditions.IsTrue(h, v1alpha1.ReadyCondition)).To(BeTrue())
		})
		g.Expect(server.Requests()).To(BeNumerically(">", asked+5), "the server is inspected again")
		g.Expect(server.CommandNames()).To(BeEmpty())
	})
	t.Run("in mid-boot", func(t *testing.T) {
		server := controllerstest.NewServer(t, env.Namespace(t), "h", bmctest.Options{})
		register(t, server)
		claimed(t, server, "m")
		waitForOverride(t, server, 1)
		controllerstest.Modify(t, env, server.Host, func(h *v1alpha1.BareMetalHost) { h.Spec.BMC.Address = changedAddress(t, server) })
		waitForPolls(t, server)
		wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
			g.Expect(conditions.GetReason(h, v1alpha1.BootedCondition)).To(Equal(v1alpha1.ReasonWaitingForDHCP))
			g.Expect(h.Spec.ProviderState.Boots).To(Equal(int32(1)))
		})
		g.Expect(server.CommandNames()).To(Equal([]string{"Boot=PXE", "On"}))
	})
}
