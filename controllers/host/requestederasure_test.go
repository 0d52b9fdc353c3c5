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
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/host"
)

// requestedServer registers a server, with the serial number SN-h, and requests that its disks are erased before a machine gets it.
func requestedServer(t *testing.T, change ...func(*v1alpha1.BareMetalHost)) (*controllerstest.Server, *v1alpha1.BareMetalErasureRequest) {
	t.Helper()
	server := controllerstest.NewServer(t, env.Namespace(t), "h", bmctest.Options{})
	for _, c := range change {
		c(server.Host)
	}
	register(t, server)
	return server, request(t, server, "SN-h")
}

// request requests that the disks of a server are erased.
func request(t *testing.T, server *controllerstest.Server, serialNumber string) *v1alpha1.BareMetalErasureRequest {
	t.Helper()
	return controllerstest.RequestErasure(t, env, server.Host, serialNumber, wire.PolicyClear)
}

// waitForEraser waits until the server was powered on for the erasure of its disks, and returns the boot.
func waitForEraser(t *testing.T, server *controllerstest.Server, request *v1alpha1.BareMetalErasureRequest) *v1alpha1.BareMetalBoot {
	t.Helper()
	g := NewWithT(t)
	wait(t, server, phase(v1alpha1.PhaseCleaning))
	g.Eventually(server.On, inspectionTimeout).Should(BeTrue())
	boot := controllerstest.BootOf(t, env, server.Host)
	g.Expect(boot.Spec.Purpose).To(Equal(v1alpha1.PurposeClean))
	g.Expect(boot.Spec.CleaningPolicy).To(Equal(wire.PolicyClear))
	g.Expect(boot.Spec.ClaimID).To(BeEquivalentTo(request.UID))
	g.Expect(boot.Spec.ErasureRequest).To(HaveValue(HaveField("Name", request.Name)))
	g.Expect(boot.Spec.MachineName).To(BeEmpty())
	return boot
}

// notOffered is true for a host that no machine can claim.
func notOffered(g Gomega, h *v1alpha1.BareMetalHost) {
	g.Expect(conditions.IsTrue(h, v1alpha1.AvailableCondition)).To(BeFalse())
}

// TestRequestedErasure: the disks of a free host are erased on request, once. The erasure is recorded before the host is available again. No machine can claim it
// before.
func TestRequestedErasure(t *testing.T) {
	g := NewWithT(t)
	r := &recorder{}
	defer startRecording(t, r)()
	server, order := requestedServer(t)
	waitForEraser(t, server, order)
	wait(t, server, reason(v1alpha1.AvailableCondition, v1alpha1.ReasonErasing))
	wait(t, server, notOffered)
	g.Expect(server.Host.Annotations).NotTo(HaveKey(v1alpha1.BlockMoveAnnotation))
	endErasure(t, server)
	wait(t, server, phase(v1alpha1.PhaseAvailable))
	g.Expect(server.Host.Spec.Quarantine).To(BeNil())
	g.Expect(controllerstest.BootOf(t, env, server.Host).Spec.VoidedTime).NotTo(BeNil())
	g.Expect(r.recorded.Load()).To(HaveValue(HaveField("Policy", wire.PolicyClear)))
	g.Expect(server.On()).To(BeFalse())
	boots := server.Host.Spec.ProviderState.Boots
	g.Consistently(func(g Gomega) {
		g.Expect(env.Client.Get(t.Context(), keyOf(server.Host), server.Host)).To(Succeed())
		g.Expect(server.Host.Spec.ProviderState.Boots).To(Equal(boots), "it is erased once")
	}, 2*time.Second, 100*time.Millisecond).Should(Succeed())
}

// TestRequestedErasureIsRefused: nothing is erased while something shows that the server is in use, or is another one. The condition says why, and the erasure begins
// when that is over.
func TestRequestedErasureIsRefused(t *testing.T) {
	t.Cleanup(start(t))
	const refusal = v1alpha1.ReasonErasureRefused
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
		"the server is on": {before: power(true), reason: v1alpha1.ReasonPoweredOn, message: "waits for that", after: power(false)},
		"it is wanted on": {
			host: func(h *v1alpha1.BareMetalHost) { h.Spec.Power = v1alpha1.PowerOn }, reason: refusal, message: "Remove spec.power",
		},
		"a power hold": {
			host: func(h *v1alpha1.BareMetalHost) {
				h.Spec.PowerHolds = []v1alpha1.PowerHold{{Holder: "anna", Reason: "new fan"}}
			}, reason: refusal, message: "anna (new fan)",
			after: host(func(h *v1alpha1.BareMetalHost) { h.Spec.PowerHolds = nil }),
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
			t.Parallel() // they wait most of the time
			g := NewWithT(t)
			server := controllerstest.NewServer(t, env.Namespace(t), "h", bmctest.Options{})
			if c.host != nil {
				c.host(server.Host)
			}
			if c.before != nil {
				c.before(t, server)
			}
			register(t, server)
			order := request(t, server, "SN-h")
			wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
				g.Expect(conditions.GetReason(h, v1alpha1.AvailableCondition)).To(Equal(c.reason), conditions.GetMessage(h, v1alpha1.AvailableCondition))
				g.Expect(conditions.GetMessage(h, v1alpha1.AvailableCondition)).To(ContainSubstring(c.message))
			})
			g.Expect(controllerstest.BootOf(t, env, server.Host).Spec.Number).To(BeZero())
			g.Expect(server.CommandNames()).NotTo(ContainElement(HavePrefix("Boot=")))
			if c.after != nil {
				c.after(t, server)
				waitForEraser(t, server, order)
			}
		})
	}
}

// TestRequestOfAnotherServer: a request with another serial number does not touch the host, and does not stand in the way of the right one.
func TestRequestOfAnotherServer(t *testing.T) {
	g := NewWithT(t)
	defer start(t)()
	server := controllerstest.NewServer(t, env.Namespace(t), "h", bmctest.Options{})
	register(t, server)
	request(t, server, "SN-other")
	wait(t, server, phase(v1alpha1.PhaseAvailable))
	g.Expect(controllerstest.BootOf(t, env, server.Host).Spec.Number).To(BeZero())
	waitForEraser(t, server, request(t, server, "SN-h"))
}

// TestRequestBeginsAgain: an attempt that is given up before the server was powered on changed nothing, so the request is carried out when the cause is gone.
func TestRequestBeginsAgain(t *testing.T) {
	g := NewWithT(t)
	defer start(t)()
	server := controllerstest.NewServer(t, env.Namespace(t), "h", bmctest.Options{})
	misbehave(t, server, bmctest.ETagStorm, -1) // it refuses the boot override, so an attempt is recorded, and the server stays off
	register(t, server)
	order := request(t, server, "SN-h")
	wait(t, server, phase(v1alpha1.PhaseCleaning))
	controllerstest.Modify(t, env, server.Host, func(h *v1alpha1.BareMetalHost) {
		h.Spec.PowerHolds = []v1alpha1.PowerHold{{Holder: "anna", Reason: "new fan"}}
	})
	wait(t, server, reason(v1alpha1.AvailableCondition, v1alpha1.ReasonErasureRefused))
	g.Expect(controllerstest.BootOf(t, env, server.Host).Spec.VoidedTime).NotTo(BeNil())
	misbehave(t, server, bmctest.ETagStorm, 0)
	controllerstest.Modify(t, env, server.Host, func(h *v1alpha1.BareMetalHost) { h.Spec.PowerHolds = nil })
	waitForEraser(t, server, order)
}

// TestRequestedErasureOfInspectedServer: the inspection comes first. It is a boot, so a request from before it does not fit any more.
func TestRequestedErasureOfInspectedServer(t *testing.T) {
	g := NewWithT(t)
	defer start(t)()
	server, _ := requestedServer(t, func(h *v1alpha1.BareMetalHost) { h.Spec.Inspection = v1alpha1.InspectionAgent })
	waitForAgent(t, server)
	g.Expect(controllerstest.BootOf(t, env, server.Host).Spec.Purpose).To(Equal(v1alpha1.PurposeInspect))
	reportHardware(t, server, server.Host.Status.Hardware.CPU.Threads)
	wait(t, server, phase(v1alpha1.PhaseAvailable)) // the request was for a server that had not booted
	waitForEraser(t, server, request(t, server, "SN-h"))
}

// TestRequestedErasureIsNotRecorded: an erasure that cannot be recorded is not forgotten: the boot stays, and the condition says why.
func TestRequestedErasureIsNotRecorded(t *testing.T) {
	g := NewWithT(t)
	r := &recorder{}
	r.fails.Store(true)
	defer startRecording(t, r)()
	server, order := requestedServer(t)
	waitForEraser(t, server, order)
	endErasure(t, server)
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(conditions.GetReason(h, v1alpha1.AvailableCondition)).To(Equal(v1alpha1.ReasonErasureNotRecorded), "%+v", h.Status)
		g.Expect(conditions.GetMessage(h, v1alpha1.AvailableCondition)).To(ContainSubstring("the key is missing"))
		notOffered(g, h)
	})
	g.Expect(env.Client.Delete(t.Context(), order)).To(Succeed()) // it is recorded also if the request is gone
	calls := r.calls.Load()
	g.Eventually(r.calls.Load, inspectionTimeout).Should(BeNumerically(">", calls), "it is repeated")
	g.Expect(controllerstest.BootOf(t, env, server.Host).Spec.VoidedTime).To(BeNil())
	r.fails.Store(false)
	wait(t, server, phase(v1alpha1.PhaseAvailable))
	g.Expect(r.recorded.Load()).NotTo(BeNil())
}

// TestRequestedErasureIsNotProven: a report that proves no erasure leads to quarantine.
func TestRequestedErasureIsNotProven(t *testing.T) {
	r := &recorder{}
	r.unproven.Store(true)
	defer startRecording(t, r)()
	server, order := requestedServer(t)
	waitForEraser(t, server, order)
	endErasure(t, server)
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(h.Spec.Quarantine).To(HaveValue(And(HaveField("Reason", v1alpha1.ReasonDisksNotErased), HaveField("Message", ContainSubstring("no disk was erased")))))
		g.Expect(controllerstest.BootOf(t, env, h).Spec.VoidedTime).NotTo(BeNil())
	})
}

// TestRequestedErasureFails: after the last attempt the host goes into quarantine with the serial number of the disk. The request does not fit any more. A new one repeats
// the erasure when the quarantine ends.
func TestRequestedErasureFails(t *testing.T) {
	g := NewWithT(t)
	r := &recorder{}
	defer startRecording(t, r)()
	server, _ := requestedServer(t)
	for attempt := range int32(2) {
		var boot *v1alpha1.BareMetalBoot
		g.Eventually(func(g Gomega) {
			boot = controllerstest.BootOf(t, env, server.Host)
			g.Expect(boot).NotTo(BeNil())
			g.Expect(boot.Spec.Attempt).To(Equal(attempt + 1))
			g.Expect(boot.Spec.PoweredOnTime).NotTo(BeNil())
			g.Expect(server.On()).To(BeTrue())
		}, inspectionTimeout).Should(Succeed())
		g.Expect(controllers.ApplyStages(t.Context(), env.Client, boot, controllers.NewStageAt(boot, v1alpha1.StageAgent, time.Now()))).To(Succeed())
		g.Expect(controllers.ApplyProblem(t.Context(), env.Client, keyOf(boot), v1alpha1.BootProblem{
			BootFailure: v1alpha1.BootFailure{Reason: wire.ReasonEraseFailed, Message: "disk DISK-1 was not erased: it is frozen"}, Number: boot.Spec.Number,
			Time: metav1.NewTime(time.Now().Add(time.Second)),
		})).To(Succeed())
	}
	wait(t, server, phase(v1alpha1.PhaseQuarantined))
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(h.Spec.Quarantine).To(HaveValue(And(HaveField("Reason", v1alpha1.ReasonDisksNotErased), HaveField("Message", ContainSubstring("DISK-1")))))
		g.Expect(controllerstest.BootOf(t, env, h).Spec.VoidedTime).NotTo(BeNil())
	})
	g.Expect(server.On()).To(BeFalse())
	g.Expect(r.calls.Load()).To(BeZero(), "a failure is no erasure")
	order := request(t, server, "SN-h")
	controllerstest.Modify(t, env, server.Host, func(h *v1alpha1.BareMetalHost) { h.Spec.Quarantine = nil })
	waitForEraser(t, server, order)
}

// TestRequestedErasureAfterARestart: a provider that stopped after the end of the erasure records it, and erases nothing again, also if the request is gone.
func TestRequestedErasureAfterARestart(t *testing.T) {
	for name, gone := range map[string]bool{"the request exists": false, "the request is gone": true} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			stop := startRecording(t, &recorder{})
			server, order := requestedServer(t)
			waitForEraser(t, server, order)
			stop()
			endErasure(t, server)
			if gone {
				g.Expect(env.Client.Delete(t.Context(), order)).To(Succeed())
			}
			on := strings.Count(strings.Join(server.CommandNames(), " "), "On")
			r := &recorder{}
			defer startReconciler(t, &host.Reconciler{Settings: controllerstest.Settings(), Clock: &shiftedClock{}, Erasures: r})()
			wait(t, server, phase(v1alpha1.PhaseAvailable))
			wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
				g.Expect(controllerstest.BootOf(t, env, h).Spec.VoidedTime).NotTo(BeNil())
			})
			g.Expect(r.recorded.Load()).NotTo(BeNil())
			g.Expect(strings.Count(strings.Join(server.CommandNames(), " "), "On")).To(Equal(on))
			g.Expect(server.Host.Spec.ProviderState.Boots).To(BeEquivalentTo(1))
		})
	}
}

// TestRequestedErasureOfClaimedHost: a machine that gets a host in mid-erasure, because somebody set consumerRef by hand, waits for the end of the erasure.
func TestRequestedErasureOfClaimedHost(t *testing.T) {
	g := NewWithT(t)
	r := &recorder{}
	defer startRecording(t, r)()
	server, order := requestedServer(t)
	boot := waitForEraser(t, server, order)
	env.NewClaim(t, server.Host.Namespace, "m")
	controllerstest.Modify(t, env, server.Host, func(h *v1alpha1.BareMetalHost) {
		h.Spec.ConsumerRef = controllerstest.Claimed("m")
		h.Spec.ConsumerRef.BootsBefore = h.Spec.ProviderState.Boots
	})
	wait(t, server, reason(v1alpha1.BootedCondition, v1alpha1.ReasonErasing))
	g.Expect(controllerstest.BootOf(t, env, server.Host).Spec.ClaimID).To(Equal(boot.Spec.ClaimID))
	g.Expect(server.CommandNames()).NotTo(ContainElement("ForceOff"))
	endErasure(t, server)
	g.Eventually(func() v1alpha1.BareMetalBootSpec { return controllerstest.BootOf(t, env, server.Host).Spec }, inspectionTimeout).Should(And(
		HaveField("Purpose", v1alpha1.PurposeProvision), HaveField("MachineName", "m"), HaveField("Number", BeEquivalentTo(2))))
	g.Expect(r.recorded.Load()).NotTo(BeNil())
}
