package host_test

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/host"
)

// newServerToErase returns a server whose disks are to be erased before a machine gets it. Its serial number is SN-h.
func newServerToErase(t *testing.T, namespace string, change ...func(*v1alpha1.BareMetalHost)) *controllerstest.Server {
	t.Helper()
	server := controllerstest.NewServer(t, namespace, "h", bmctest.Options{})
	server.Host.Spec.CleaningPolicy, server.Host.Spec.EraseOnce = v1alpha1.CleaningClear, "SN-h"
	for _, c := range change {
		c(server.Host)
	}
	return server
}

// waitForEraser waits until the server was powered on for the erasure of its disks, and returns the boot.
func waitForEraser(t *testing.T, server *controllerstest.Server) *v1alpha1.BareMetalBoot {
	t.Helper()
	g := NewWithT(t)
	wait(t, server, phase(v1alpha1.PhaseCleaning))
	g.Eventually(server.On, inspectionPatience).Should(BeTrue())
	boot := controllerstest.BootOf(t, env, server.Host)
	g.Expect(boot.Spec.Purpose).To(Equal(v1alpha1.PurposeClean))
	g.Expect(boot.Spec.CleaningPolicy).To(Equal(v1alpha1.CleaningClear))
	g.Expect(boot.Spec.ClaimID).To(HavePrefix("erasure-"))
	g.Expect(boot.Spec.MachineName).To(BeEmpty())
	return boot
}

// waitForRequest is true for a host whose request is still there, and that no machine can claim.
func waitForRequest(g Gomega, h *v1alpha1.BareMetalHost) {
	g.Expect(h.Spec.EraseOnce).To(Equal("SN-h"))
	g.Expect(conditions.IsTrue(h, v1alpha1.AvailableCondition)).To(BeFalse())
}

// TestEraseOnce: the disks of a free host are erased on request. The erasure is recorded before the request is removed, and the host is available after that.
// No machine can claim it before.
func TestEraseOnce(t *testing.T) {
	g := NewWithT(t)
	r := &recorder{}
	defer startRecording(t, r)()
	server := newServerToErase(t, env.Namespace(t))
	register(t, server)
	waitForEraser(t, server)
	wait(t, server, reason(v1alpha1.AvailableCondition, v1alpha1.ReasonErasing))
	wait(t, server, waitForRequest)
	g.Expect(server.Host.Annotations).NotTo(HaveKey(v1alpha1.BlockMoveAnnotation))
	claimed := server.Host.DeepCopy()
	claimed.Spec.ConsumerRef = controllerstest.Claimed("m")
	g.Expect(env.Client.Update(t.Context(), claimed)).To(MatchError(Or(ContainSubstring("exclude each other"), ContainSubstring("has been modified"))))
	endErasure(t, server)
	wait(t, server, phase(v1alpha1.PhaseAvailable))
	g.Expect(server.Host.Spec.EraseOnce).To(BeEmpty())
	g.Expect(server.Host.Spec.Quarantine).To(BeNil())
	g.Expect(controllerstest.BootOf(t, env, server.Host).Spec.VoidedAt).NotTo(BeNil())
	g.Expect(r.recorded.Load()).To(HaveValue(HaveField("Policy", v1alpha1.CleaningClear)))
	g.Expect(server.On()).To(BeFalse())
	boots := server.Host.Spec.Boots
	g.Consistently(func(g Gomega) {
		g.Expect(env.Client.Get(t.Context(), keyOf(server.Host), server.Host)).To(Succeed())
		g.Expect(server.Host.Spec.Boots).To(Equal(boots), "it is erased once")
	}, 2*time.Second, 100*time.Millisecond).Should(Succeed())
}

// TestEraseOnceIsRefused: nothing is erased while something shows that the server is in use, or is another one. The condition says why, and the erasure begins
// when that is over.
func TestEraseOnceIsRefused(t *testing.T) {
	const refusal = v1alpha1.ReasonEraseOnceRefused
	host := func(change func(*v1alpha1.BareMetalHost)) func(*testing.T, *controllerstest.Server) {
		return func(t *testing.T, s *controllerstest.Server) {
			t.Helper()
			controllerstest.Modify(t, env, s.Host, change)
		}
	}
	power := func(on bool) func(*testing.T, *controllerstest.Server) {
		return func(_ *testing.T, s *controllerstest.Server) { s.SetPower(on) }
	}
	machine := func(t *testing.T, s *controllerstest.Server, namespace string) *controllerstest.Claim {
		t.Helper()
		return env.NewClaim(t, namespace, "m", func(c *controllerstest.Claim) {
			c.BareMetalMachine.Spec.ProviderID = "baremetal://" + s.Host.Namespace + "/h/m"
		})
	}
	for name, c := range map[string]struct {
		host            func(*v1alpha1.BareMetalHost)
		before          func(*testing.T, *controllerstest.Server) // before the host is registered
		reason, message string
		after           func(*testing.T, *controllerstest.Server) // ends the refusal; nil for none
	}{
		"the server is on": {before: power(true), reason: v1alpha1.ReasonPoweredOn, message: "spec.eraseOnce", after: power(false)},
		"the serial number is another one": {
			host: func(h *v1alpha1.BareMetalHost) { h.Spec.EraseOnce = "SN-other" }, reason: refusal, message: `It is "SN-other", and the serial number of the server is "SN-h"`,
			after: host(func(h *v1alpha1.BareMetalHost) { h.Spec.EraseOnce = "SN-h" }),
		},
		"it is wanted on": {
			host: func(h *v1alpha1.BareMetalHost) { h.Spec.Power = v1alpha1.PowerOn }, reason: refusal, message: "Remove spec.power",
		},
		"a power hold": {
			host: func(h *v1alpha1.BareMetalHost) {
				h.Spec.PowerHolds = []v1alpha1.PowerHold{{Holder: "anna", Reason: "new fan"}}
			}, reason: refusal, message: "anna (new fan)",
			after: host(func(h *v1alpha1.BareMetalHost) { h.Spec.PowerHolds = nil }),
		},
		"no policy for all disks": {
			host: func(h *v1alpha1.BareMetalHost) { h.Spec.CleaningPolicy = v1alpha1.CleaningNone }, reason: refusal, message: "Set spec.cleaningPolicy to Metadata, Clear or Purge",
			after: host(func(h *v1alpha1.BareMetalHost) { h.Spec.CleaningPolicy = v1alpha1.CleaningClear }),
		},
		"a paused Cluster": {
			before: func(t *testing.T, s *controllerstest.Server) {
				t.Helper()
				env.Create(t, &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: s.Host.Namespace, Name: "c"}, Spec: clusterv1.ClusterSpec{Paused: new(true)}})
			}, reason: refusal, message: `Cluster "c" is paused`,
			after: func(t *testing.T, s *controllerstest.Server) {
				t.Helper()
				controllerstest.Modify(t, env, &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: s.Host.Namespace, Name: "c"}}, func(c *clusterv1.Cluster) { c.Spec.Paused = new(false) })
			},
		},
		"a machine with the provider ID": {
			before: func(t *testing.T, s *controllerstest.Server) { t.Helper(); machine(t, s, s.Host.Namespace) },
			reason: v1alpha1.ReasonConsumerMissing, message: `"m" has the providerID`,
		},
		"a machine of another namespace with the provider ID": {
			before: func(t *testing.T, s *controllerstest.Server) { t.Helper(); machine(t, s, env.Namespace(t)) },
			reason: refusal, message: "A BareMetalMachine of another namespace has the providerID of this host",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			defer start(t)()
			server := newServerToErase(t, env.Namespace(t), func(h *v1alpha1.BareMetalHost) {
				if c.host != nil {
					c.host(h)
				}
			})
			if c.before != nil {
				c.before(t, server)
			}
			register(t, server)
			wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
				g.Expect(conditions.GetReason(h, v1alpha1.AvailableCondition)).To(Equal(c.reason), conditions.GetMessage(h, v1alpha1.AvailableCondition))
				g.Expect(conditions.GetMessage(h, v1alpha1.AvailableCondition)).To(ContainSubstring(c.message))
				g.Expect(h.Spec.EraseOnce).NotTo(BeEmpty(), "the request stays")
			})
			g.Expect(controllerstest.BootOf(t, env, server.Host).Spec.Number).To(BeZero())
			g.Expect(server.CommandNames()).NotTo(ContainElement(HavePrefix("Boot=")))
			if c.after != nil {
				c.after(t, server)
				waitForEraser(t, server)
			}
		})
	}
}

// TestEraseOnceOfInspectedServer: the inspection comes first.
func TestEraseOnceOfInspectedServer(t *testing.T) {
	g := NewWithT(t)
	defer start(t)()
	server := newServerToErase(t, env.Namespace(t), func(h *v1alpha1.BareMetalHost) { h.Spec.Inspection = v1alpha1.InspectionAgent })
	register(t, server)
	waitForAgent(t, server)
	g.Expect(controllerstest.BootOf(t, env, server.Host).Spec.Purpose).To(Equal(v1alpha1.PurposeInspect))
	reportHardware(t, server, server.Host.Status.Hardware.CPU.Threads)
	waitForEraser(t, server)
}

// TestEraseOnceIsNotRecorded: an erasure that cannot be recorded is not forgotten: the request stays, and the condition says why.
func TestEraseOnceIsNotRecorded(t *testing.T) {
	g := NewWithT(t)
	r := &recorder{}
	r.fails.Store(true)
	defer startRecording(t, r)()
	server := newServerToErase(t, env.Namespace(t))
	register(t, server)
	waitForEraser(t, server)
	endErasure(t, server)
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(conditions.GetReason(h, v1alpha1.AvailableCondition)).To(Equal(v1alpha1.ReasonErasureNotRecorded), "%+v", h.Status)
		g.Expect(conditions.GetMessage(h, v1alpha1.AvailableCondition)).To(ContainSubstring("the key is missing"))
		waitForRequest(g, h)
	})
	controllerstest.Modify(t, env, server.Host, func(h *v1alpha1.BareMetalHost) { h.Spec.EraseOnce = "" }) // it is recorded also if the request is gone
	calls := r.calls.Load()
	g.Eventually(r.calls.Load, inspectionPatience).Should(BeNumerically(">", calls), "it is repeated")
	g.Expect(controllerstest.BootOf(t, env, server.Host).Spec.VoidedAt).To(BeNil())
	r.fails.Store(false)
	wait(t, server, phase(v1alpha1.PhaseAvailable))
	g.Expect(r.recorded.Load()).NotTo(BeNil())
}

// TestEraseOnceIsNotProven: a report that proves no erasure leads to quarantine, and consumes the request.
func TestEraseOnceIsNotProven(t *testing.T) {
	r := &recorder{}
	r.unproven.Store(true)
	defer startRecording(t, r)()
	server := newServerToErase(t, env.Namespace(t))
	register(t, server)
	waitForEraser(t, server)
	endErasure(t, server)
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(h.Spec.EraseOnce).To(BeEmpty())
		g.Expect(h.Spec.Quarantine).To(HaveValue(And(HaveField("Reason", v1alpha1.ReasonDisksNotErased), HaveField("Message", ContainSubstring("no disk was erased")))))
		g.Expect(controllerstest.BootOf(t, env, h).Spec.VoidedAt).NotTo(BeNil())
	})
}

// TestEraseOnceFails: after the last attempt the host goes into quarantine with the serial number of the disk, and the request is consumed. A new request
// repeats the erasure when the quarantine ends.
func TestEraseOnceFails(t *testing.T) {
	g := NewWithT(t)
	r := &recorder{}
	defer startRecording(t, r)()
	server := newServerToErase(t, env.Namespace(t))
	register(t, server)
	for attempt := range int32(2) {
		var boot *v1alpha1.BareMetalBoot
		g.Eventually(func(g Gomega) {
			boot = controllerstest.BootOf(t, env, server.Host)
			g.Expect(boot).NotTo(BeNil())
			g.Expect(boot.Spec.Attempt).To(Equal(attempt + 1))
			g.Expect(boot.Spec.PoweredOnAt).NotTo(BeNil())
			g.Expect(server.On()).To(BeTrue())
		}, inspectionPatience).Should(Succeed())
		g.Expect(controllers.ApplyStages(t.Context(), env.Client, boot, controllers.NewStageAt(boot, v1alpha1.StageAgent, time.Now()))).To(Succeed())
		g.Expect(controllers.ApplyProblem(t.Context(), env.Client, keyOf(boot), v1alpha1.BootProblem{
			BootFailure: v1alpha1.BootFailure{Reason: v1alpha1.ReasonEraseFailed, Message: "disk DISK-1 was not erased: it is frozen"}, Number: boot.Spec.Number,
			Time: metav1.NewTime(time.Now().Add(time.Second)),
		})).To(Succeed())
	}
	wait(t, server, phase(v1alpha1.PhaseQuarantined))
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(h.Spec.EraseOnce).To(BeEmpty())
		g.Expect(h.Spec.Quarantine).To(HaveValue(And(HaveField("Reason", v1alpha1.ReasonDisksNotErased), HaveField("Message", ContainSubstring("DISK-1")))))
		g.Expect(controllerstest.BootOf(t, env, h).Spec.VoidedAt).NotTo(BeNil())
	})
	g.Expect(server.On()).To(BeFalse())
	g.Expect(r.calls.Load()).To(BeZero(), "a failure is no erasure")
	controllerstest.Modify(t, env, server.Host, func(h *v1alpha1.BareMetalHost) { h.Spec.Quarantine, h.Spec.EraseOnce = nil, "SN-h" })
	waitForEraser(t, server)
}

// TestEraseOnceAfterARestart: a provider that stopped after the end of the erasure records it and consumes the request, and erases nothing again. So does one
// that stopped between the two writes.
func TestEraseOnceAfterARestart(t *testing.T) {
	for name, consumed := range map[string]bool{"nothing is written": false, "the request is consumed": true} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			stop := startRecording(t, &recorder{})
			server := newServerToErase(t, env.Namespace(t))
			register(t, server)
			waitForEraser(t, server)
			stop()
			endErasure(t, server)
			if consumed {
				controllerstest.Modify(t, env, server.Host, func(h *v1alpha1.BareMetalHost) { h.Spec.EraseOnce = "" })
			}
			on := strings.Count(strings.Join(server.CommandNames(), " "), "On")
			r := &recorder{}
			defer startReconciler(t, &host.Reconciler{Settings: controllerstest.Settings(), Clock: &shiftedClock{}, Erasures: r})()
			wait(t, server, phase(v1alpha1.PhaseAvailable))
			wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
				g.Expect(h.Spec.EraseOnce).To(BeEmpty())
				g.Expect(controllerstest.BootOf(t, env, h).Spec.VoidedAt).NotTo(BeNil())
			})
			g.Expect(r.recorded.Load()).NotTo(BeNil())
			g.Expect(strings.Count(strings.Join(server.CommandNames(), " "), "On")).To(Equal(on))
			g.Expect(server.Host.Spec.Boots).To(BeEquivalentTo(1))
		})
	}
}

// TestEraseOnceOfClaimedHost: a machine that gets a host in mid-erasure, after somebody removed the request, waits for the end of the erasure.
func TestEraseOnceOfClaimedHost(t *testing.T) {
	g := NewWithT(t)
	r := &recorder{}
	defer startRecording(t, r)()
	server := newServerToErase(t, env.Namespace(t))
	register(t, server)
	boot := waitForEraser(t, server)
	env.NewClaim(t, server.Host.Namespace, "m")
	controllerstest.Modify(t, env, server.Host, func(h *v1alpha1.BareMetalHost) { h.Spec.EraseOnce = "" })
	controllerstest.Modify(t, env, server.Host, func(h *v1alpha1.BareMetalHost) {
		h.Spec.ConsumerRef = controllerstest.Claimed("m")
		h.Spec.ConsumerRef.BootsBefore = h.Spec.Boots
	})
	wait(t, server, reason(v1alpha1.BootedCondition, v1alpha1.ReasonErasing))
	g.Expect(controllerstest.BootOf(t, env, server.Host).Spec.ClaimID).To(Equal(boot.Spec.ClaimID))
	g.Expect(server.CommandNames()).NotTo(ContainElement("ForceOff"))
	endErasure(t, server)
	g.Eventually(func() v1alpha1.BareMetalBootSpec { return controllerstest.BootOf(t, env, server.Host).Spec }, inspectionPatience).Should(And(
		HaveField("Purpose", v1alpha1.PurposeProvision), HaveField("MachineName", "m"), HaveField("Number", BeEquivalentTo(2))))
	g.Expect(r.recorded.Load()).NotTo(BeNil())
}
