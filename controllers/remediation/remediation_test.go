package remediation_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
)

// TestPowerCycle: power-off, taint, power-on, healthy Node, taint removed. Nothing is left when the MachineHealthCheck deletes the remediation.
func TestPowerCycle(t *testing.T) {
	g := NewWithT(t)
	start(t)
	p := newFixture(t)
	p.setHealthCheck(t, metav1.ConditionFalse)
	p.wait(t, v1alpha1.RemediationWaiting, v1alpha1.ReasonWaitingForNode)
	g.Expect(p.remediation.Status.Attempt).To(Equal(int32(1)))
	p.waitHost(t, noPowerHold)
	p.waitNode(t, true)
	g.Expect(p.CommandNames()).To(Equal([]string{"ForceOff", "On"}))

	p.setNodeReady(t, corev1.ConditionTrue)
	p.waitNode(t, false)
	p.wait(t, v1alpha1.RemediationRecovered, v1alpha1.ReasonRecovered)
	p.setHealthCheck(t, metav1.ConditionTrue)
	g.Expect(env.Client.Delete(t.Context(), p.remediation)).To(Succeed())
	env.Gone(t, p.remediation)
	g.Expect(p.CommandNames()).To(Equal([]string{"ForceOff", "On"}))
	g.Expect(p.replaced(t)).To(BeFalse())
	p.waitEvents(t, "RemediationStarted", "NodeFenced", "RemediationRecovered")
}

// TestOldHeartbeat: a heartbeat from before the power-off does not make the Node healthy.
func TestOldHeartbeat(t *testing.T) {
	g := NewWithT(t)
	start(t)
	p := newFixture(t)
	p.setNodeReady(t, corev1.ConditionTrue) // its kubelet runs, something else is wrong
	p.node.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(p.node.CreationTimestamp.Add(-time.Hour))
	g.Expect(env.Client.Status().Update(t.Context(), p.node)).To(Succeed())
	p.setHealthCheck(t, metav1.ConditionFalse)
	p.wait(t, v1alpha1.RemediationWaiting, v1alpha1.ReasonWaitingForNode)
	g.Expect(p.message()).To(ContainSubstring("has not sent a heartbeat since the server was off"))
	p.setHealthCheck(t, metav1.ConditionTrue)
	p.setNodeReady(t, corev1.ConditionTrue)
	p.wait(t, v1alpha1.RemediationRecovered, v1alpha1.ReasonRecovered)
}

// TestRetries: after a power cycle that does not help the next one starts, and after the last one follow hand-over and quarantine.
func TestRetries(t *testing.T) {
	g := NewWithT(t)
	start(t)
	p := newFixture(t, func(p *fixture) { p.remediation.Spec.Retries = new(int32(2)) })
	p.setHealthCheck(t, metav1.ConditionFalse)
	for attempt := range int32(2) {
		controllerstest.Wait(t, env, p.remediation, func(g Gomega, r *v1alpha1.BareMetalRemediation) {
			g.Expect(r.Status.Attempt).To(Equal(attempt + 1))
			g.Expect(r.Status.Phase).To(Equal(v1alpha1.RemediationWaiting))
		})
		g.Expect(p.replaced(t)).To(BeFalse())
		p.expire(t)
	}
	p.handedOver(t)
	g.Expect(p.message()).To(ContainSubstring("power-cycled 2 times, with a timeout of 20m0s each, and did not recover: Node " + p.node.Name + " is not Ready yet"))
	p.waitHost(t, func(g Gomega, h *v1alpha1.BareMetalHost) {
		noPowerHold(g, h)
		g.Expect(h.Spec.Quarantine).NotTo(BeNil())
		g.Expect(h.Spec.Quarantine.Reason).To(Equal(v1alpha1.ReasonRemediationFailed))
		g.Expect(h.Spec.Quarantine.Message).To(ContainSubstring("power-cycled 2 times"))
	})
	p.waitNode(t, false)
	g.Expect(p.CommandNames()).To(Equal([]string{"ForceOff", "On", "ForceOff", "On"}))
	p.waitEvents(t, "RemediationStarted", "NodeFenced", "RemediationTimedOut", "RemediationStarted", "RemediationHandedOver", "HostQuarantined")
}

// TestBMCDead: a server without a confirmed power-off is not fenced, and is not powered off when its BMC answers again.
func TestBMCDead(t *testing.T) {
	g := NewWithT(t)
	start(t)
	p := newFixture(t, func(p *fixture) { g.Expect(p.Misbehave(bmctest.Down, -1)).To(Succeed()) })
	p.setHealthCheck(t, metav1.ConditionFalse)
	p.waitHost(t, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(h.Spec.ProviderState.PowerHoldStartTime).NotTo(BeNil())
	})
	p.waitMessage(t, "BMC: Unreachable")
	p.expire(t)
	p.handedOver(t)
	g.Expect(p.message()).To(ContainSubstring("did not confirm the power-off, so its Node has no out-of-service taint"))
	p.waitNode(t, false)
	p.waitHost(t, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(h.Spec.PowerHolds).To(BeEmpty())
		g.Expect(h.Spec.ProviderState.PowerHoldOffTime).To(BeNil())
		g.Expect(h.Spec.Quarantine).NotTo(BeNil())
	})
	g.Expect(p.Misbehave(bmctest.Down, 0)).To(Succeed())
	controllerstest.Modify(t, env, p.Host, func(h *v1alpha1.BareMetalHost) {
		h.Annotations = map[string]string{v1alpha1.RetryBMCAnnotation: "the test"}
	})
	p.waitHost(t, noPowerHold)
	g.Expect(p.On()).To(BeTrue())
	g.Expect(p.CommandNames()).To(BeEmpty())
}

// TestHandedOverAtOnce: a machine that no power cycle can help is handed over without one. Its host is quarantined only if the server is to blame.
func TestHandedOverAtOnce(t *testing.T) {
	start(t)
	failed := func(reason string) func(*fixture) {
		return func(p *fixture) {
			p.boot = &v1alpha1.BareMetalBootSpec{Attempt: 3, Failure: &v1alpha1.BootFailure{Reason: reason, Message: "because"}}
		}
	}
	unprovisioned := func(p *fixture) { p.claim.BareMetalMachine.Spec.ProviderID = "" }
	for name, test := range map[string]struct {
		changes    []func(*fixture)
		says       string
		quarantine string
	}{
		"from memory": {[]func(*fixture){func(p *fixture) {
			p.claim.BareMetalMachine.Spec.Boot.Persistence = v1alpha1.PersistenceEphemeral
		}}, "runs from memory", ""},
		"state lost":               {[]func(*fixture){failed(v1alpha1.ReasonStateLost)}, "because", ""},
		"boot failed":              {[]func(*fixture){failed(v1alpha1.ReasonBootTimedOut), unprovisioned}, "did not boot: because", v1alpha1.ReasonBootTimedOut},
		"boot source invalid":      {[]func(*fixture){failed(v1alpha1.ReasonBootSourceInvalid), unprovisioned}, "did not boot: because", ""},
		"state lost in mid-boot":   {[]func(*fixture){failed(v1alpha1.ReasonStateLost), unprovisioned}, "because", ""},
		"no power cycle is wanted": {[]func(*fixture){func(p *fixture) { p.remediation.Spec.Retries = new(int32(0)) }}, "spec.retries is 0", ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			p := newFixture(t, test.changes...)
			p.handedOver(t)
			g.Expect(p.message()).To(ContainSubstring(test.says))
			g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(p.Host), p.Host)).To(Succeed())
			if test.quarantine == "" {
				g.Expect(p.Host.Spec.Quarantine).To(BeNil())
			} else {
				g.Expect(p.Host.Spec.Quarantine.Reason).To(Equal(test.quarantine))
			}
			g.Expect(p.Host.Spec.ProviderState.PowerHoldStartTime).To(BeNil())
			g.Expect(p.CommandNames()).To(BeEmpty())
		})
	}
}

// TestPowerHoldOfUser: a machine is not handed over while a user holds the power of its server: its release would remove the hold.
func TestPowerHoldOfUser(t *testing.T) {
	start(t)
	p := newFixture(t, func(p *fixture) {
		p.remediation.Spec.Retries = new(int32(0))
		p.Host.Spec.PowerHolds = []v1alpha1.PowerHold{{Holder: "anna", Reason: "new fan", Force: true}}
	})
	p.wait(t, v1alpha1.RemediationIdle, v1alpha1.ReasonHostNotReady)
	NewWithT(t).Expect(p.remediation.Spec.HandOver).To(BeNil())
	controllerstest.Modify(t, env, p.Host, func(h *v1alpha1.BareMetalHost) { h.Spec.PowerHolds = nil })
	p.handedOver(t)
}

// TestHealthyMeanwhile: a machine that the MachineHealthCheck finds healthy is not handed over, even if that was decided.
func TestHealthyMeanwhile(t *testing.T) {
	g := NewWithT(t)
	start(t)
	p := newFixture(t, func(p *fixture) {
		p.remediation.Spec.Retries = new(int32(0))
		p.noCluster = true
	})
	p.handedOver(t)
	other := newFixture(t, func(p *fixture) {
		p.remediation.Spec.Retries = new(int32(0))
		p.claim.Cluster.Spec.Paused = new(true)
	})
	other.setHealthCheck(t, metav1.ConditionTrue)
	controllerstest.Modify(t, env, other.claim.Cluster, func(c *clusterv1.Cluster) { c.Spec.Paused = new(false) })
	other.wait(t, v1alpha1.RemediationHandedOver, v1alpha1.ReasonHandedOver)
	g.Expect(other.replaced(t)).To(BeFalse())
	other.setHealthCheck(t, metav1.ConditionFalse)
	other.handedOver(t)
}

// TestMachineWithoutHost: a machine without a host is not a failed boot, nor is a machine whose host still boots.
func TestMachineWithoutHost(t *testing.T) {
	g := NewWithT(t)
	start(t)
	p := newFixture(t, func(p *fixture) {
		p.Host.Spec.ConsumerRef = nil
		p.claim.BareMetalMachine.Spec.ProviderID = ""
	})
	p.wait(t, v1alpha1.RemediationIdle, v1alpha1.ReasonWaitingForHost)
	g.Expect(p.message()).To(ContainSubstring("waits for a free host"))
	controllerstest.Modify(t, env, p.Host, func(h *v1alpha1.BareMetalHost) {
		h.Spec.ConsumerRef = controllerstest.Claimed(p.claim.Machine.Name)
	})
	p.wait(t, v1alpha1.RemediationIdle, v1alpha1.ReasonHostNotReady)
	g.Expect(p.message()).To(ContainSubstring("is booting for the machine"))
	g.Expect(p.replaced(t)).To(BeFalse())
	g.Expect(p.remediation.Status.Attempt).To(BeZero())
}

// TestLeftAlone: a server in maintenance or with another power hold is left alone, and a started power cycle is undone. Afterwards the server has
// time to recover before it is power-cycled.
func TestLeftAlone(t *testing.T) {
	start(t)
	for name, test := range map[string]struct {
		take, give func(*v1alpha1.BareMetalHost)
		reason     string
	}{
		"in maintenance": {
			func(h *v1alpha1.BareMetalHost) { h.Spec.Maintenance = &v1alpha1.Maintenance{Reason: "new fan"} },
			func(h *v1alpha1.BareMetalHost) { h.Spec.Maintenance = nil },
			v1alpha1.ReasonMaintenance,
		},
		"power hold of another holder": {
			func(h *v1alpha1.BareMetalHost) {
				h.Spec.PowerHolds = append(h.Spec.PowerHolds, v1alpha1.PowerHold{Holder: "anna", Reason: "new fan", Force: true})
			},
			func(h *v1alpha1.BareMetalHost) { h.Spec.PowerHolds = nil },
			v1alpha1.ReasonHostNotReady,
		},
		"power hold of an annotation": {
			func(h *v1alpha1.BareMetalHost) {
				metav1.SetMetaDataAnnotation(&h.ObjectMeta, v1alpha1.ForcePowerHoldPrefix+"anna", "new fan")
			},
			func(h *v1alpha1.BareMetalHost) { delete(h.Annotations, v1alpha1.ForcePowerHoldPrefix+"anna") },
			v1alpha1.ReasonHostNotReady,
		},
		"given to something else": {
			func(h *v1alpha1.BareMetalHost) { h.Spec.ExternallyProvisioned = true },
			func(h *v1alpha1.BareMetalHost) { h.Spec.ExternallyProvisioned = false },
			v1alpha1.ReasonHostNotReady,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			p := newFixture(t)
			p.wait(t, v1alpha1.RemediationWaiting, v1alpha1.ReasonWaitingForNode)
			p.waitHost(t, noPowerHold)
			controllerstest.Modify(t, env, p.Host, test.take)
			p.wait(t, v1alpha1.RemediationIdle, test.reason)
			controllerstest.Wait(t, env, p.remediation, func(g Gomega, r *v1alpha1.BareMetalRemediation) {
				g.Expect(r.Status.Attempt).To(BeZero())
				g.Expect(r.Spec.TaintedNode).To(BeEmpty())
			})
			p.waitNode(t, false)
			p.waitHost(t, func(g Gomega, h *v1alpha1.BareMetalHost) {
				_, annotated := h.Annotations[v1alpha1.ForcePowerHoldPrefix+"anna"]
				g.Expect(h.Spec.ProviderState.PowerHoldOffTime != nil).To(Equal(annotated || len(h.Spec.PowerHolds) > 0))
			})
			forced := func() (n int) {
				for _, c := range p.CommandNames() {
					if c == "ForceOff" {
						n++
					}
				}
				return n
			}
			before := forced()
			controllerstest.Modify(t, env, p.Host, test.give)
			p.wait(t, v1alpha1.RemediationWaiting, v1alpha1.ReasonWaitingForNode)
			g.Expect(p.remediation.Status.Attempt).To(BeZero())
			g.Expect(forced()).To(Equal(before))
			p.expire(t)
			controllerstest.Wait(t, env, p.remediation, func(g Gomega, r *v1alpha1.BareMetalRemediation) {
				g.Expect(r.Status.Phase).To(Equal(v1alpha1.RemediationWaiting))
				g.Expect(r.Status.Attempt).To(Equal(int32(1)))
			})
			g.Expect(forced()).To(Equal(before + 1))
		})
	}
}

// TestPaused: a remediation of a paused Cluster is not reconciled.
func TestPaused(t *testing.T) {
	g := NewWithT(t)
	start(t)
	p := newFixture(t, func(p *fixture) { p.claim.Cluster.Spec.Paused = new(true) })
	controllerstest.Wait(t, env, p.remediation, func(g Gomega, r *v1alpha1.BareMetalRemediation) {
		g.Expect(r.Status.Conditions).To(ContainElement(HaveField("Status", metav1.ConditionTrue)))
	})
	g.Expect(p.remediation.Spec.PowerCycle).To(BeNil())
	g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(p.Host), p.Host)).To(Succeed())
	noPowerHold(g, p.Host)
	controllerstest.Modify(t, env, p.claim.Cluster, func(c *clusterv1.Cluster) { c.Spec.Paused = new(false) })
	p.wait(t, v1alpha1.RemediationWaiting, v1alpha1.ReasonWaitingForNode)
}

// addPod adds a Pod to the Node that is never deleted: so the remediation waits with the server off.
func (p *fixture) addPod(t *testing.T) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.remediation.Namespace, Name: "stays"},
		Spec:       corev1.PodSpec{NodeName: p.node.Name, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: "default"}}
	env.Create(t, account, pod)
	t.Cleanup(func() { _ = env.Client.Delete(context.Background(), pod, client.GracePeriodSeconds(0)) })
	return pod
}

// newPoweredOff returns a fixture whose server is kept powered off, whose Node has the taint, and on which a Pod is left.
func newPoweredOff(t *testing.T) (*fixture, *corev1.Pod) {
	t.Helper()
	var pod *corev1.Pod
	p := newFixture(t, func(p *fixture) { pod = p.addPod(t) })
	p.waitMessage(t, "Pod "+pod.Namespace+"/stays is removed from its Node")
	p.waitHost(t, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(h.Spec.ProviderState.PowerHoldOffTime).NotTo(BeNil())
	})
	p.waitNode(t, true)
	NewWithT(t).Expect(p.On()).To(BeFalse())
	return p, pod
}

// TestPodsRemovedFirst: the server is powered on after the Pods of its Node are deleted: then they run on other Nodes.
func TestPodsRemovedFirst(t *testing.T) {
	g := NewWithT(t)
	start(t)
	p, pod := newPoweredOff(t)
	g.Expect(env.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0))).To(Succeed())
	p.wait(t, v1alpha1.RemediationWaiting, v1alpha1.ReasonWaitingForNode)
	g.Expect(p.CommandNames()).To(Equal([]string{"ForceOff", "On"}))
}

// offLongAgo makes the server powered off for a day.
func (p *fixture) offLongAgo(t *testing.T) {
	t.Helper()
	controllerstest.Modify(t, env, p.Host, func(h *v1alpha1.BareMetalHost) {
		h.Spec.ProviderState.PowerHoldOffTime = &metav1.Time{Time: time.Now().Add(-24 * time.Hour)}
	})
}

// TestPodsRemain: the wait for Pods that are not deleted ends.
func TestPodsRemain(t *testing.T) {
	start(t)
	p, _ := newPoweredOff(t)
	p.offLongAgo(t)
	p.wait(t, v1alpha1.RemediationWaiting, v1alpha1.ReasonWaitingForNode)
}

// TestRemediationDeleted: a deleted remediation removes its power hold and its taint, and the server is powered on.
func TestRemediationDeleted(t *testing.T) {
	g := NewWithT(t)
	start(t)
	p, _ := newPoweredOff(t)
	g.Expect(env.Client.Delete(t.Context(), p.remediation)).To(Succeed())
	env.Gone(t, p.remediation)
	p.waitNode(t, false)
	p.waitHost(t, noPowerHold)
	g.Expect(p.On()).To(BeTrue())
	g.Expect(p.CommandNames()).To(Equal([]string{"ForceOff", "On"}))
}

// TestMachineDeleted: the deletion of the Machine ends the remediation, which delays no deletion. The server, whose volumes were detached, is not
// powered on before its release.
func TestMachineDeleted(t *testing.T) {
	g := NewWithT(t)
	start(t)
	p, _ := newPoweredOff(t)
	g.Expect(env.Client.Delete(t.Context(), p.claim.Machine)).To(Succeed())
	p.wait(t, v1alpha1.RemediationIdle, v1alpha1.ReasonMachineDeleting)
	g.Expect(p.remediation.Finalizers).To(BeEmpty())
	g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(p.Host), p.Host)).To(Succeed())
	g.Expect(p.Host.Spec.PowerHolds).To(HaveLen(1))
	g.Expect(env.Client.Delete(t.Context(), p.claim.BareMetalMachine)).To(Succeed())
	p.waitHost(t, func(g Gomega, h *v1alpha1.BareMetalHost) {
		noPowerHold(g, h)
		g.Expect(h.Spec.ConsumerRef).To(BeNil())
	})
	g.Expect(p.CommandNames()).NotTo(ContainElement("On"))
}

// TestManagerRestart: a manager that restarts with every status lost continues the same power cycle.
func TestManagerRestart(t *testing.T) {
	g := NewWithT(t)
	stop := start(t)
	p, pod := newPoweredOff(t)
	stop()
	for _, o := range []client.Object{p.remediation, p.Host} {
		g.Expect(env.Client.Status().Patch(t.Context(), o, client.RawPatch(types.MergePatchType, []byte(`{"status":null}`)))).To(Succeed())
	}
	stop = start(t)
	p.wait(t, v1alpha1.RemediationPoweringOff, v1alpha1.ReasonPoweringOff)
	g.Expect(p.On()).To(BeFalse())
	g.Expect(env.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0))).To(Succeed())
	p.wait(t, v1alpha1.RemediationWaiting, v1alpha1.ReasonWaitingForNode)
	stop()
	start(t)
	p.setNodeReady(t, corev1.ConditionTrue)
	p.wait(t, v1alpha1.RemediationRecovered, v1alpha1.ReasonRecovered)
	p.waitNode(t, false)
	g.Expect(p.CommandNames()).To(Equal([]string{"ForceOff", "On"}))
}

// TestMovedAway: a remediation that `clusterctl move` deletes keeps its power hold and its taint.
func TestMovedAway(t *testing.T) {
	g := NewWithT(t)
	start(t)
	p, _ := newPoweredOff(t)
	controllerstest.Modify(t, env, p.claim.Cluster, func(c *clusterv1.Cluster) { c.Spec.Paused = new(true) })
	controllerstest.Modify(t, env, p.remediation, func(r *v1alpha1.BareMetalRemediation) {
		r.Annotations = map[string]string{v1alpha1.DeleteForMoveAnnotation: ""}
	})
	g.Expect(env.Client.Delete(t.Context(), p.remediation)).To(Succeed())
	env.Gone(t, p.remediation)
	g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(p.Host), p.Host)).To(Succeed())
	g.Expect(p.Host.Spec.PowerHolds).To(HaveLen(1))
	p.waitNode(t, true)
	g.Expect(p.On()).To(BeFalse())
}

// TestUnreachable: if the workload cluster does not answer, the server is power-cycled without the taint, and an event reports it.
func TestUnreachable(t *testing.T) {
	g := NewWithT(t)
	start(t)
	p := newFixture(t, func(p *fixture) { p.noCluster = true })
	p.setHealthCheck(t, metav1.ConditionFalse)
	p.waitMessage(t, "cannot be tainted or read yet")
	g.Expect(p.On()).To(BeFalse())
	p.unpausedLong(t)
	p.offLongAgo(t)
	p.wait(t, v1alpha1.RemediationWaiting, v1alpha1.ReasonWaitingForNode)
	g.Expect(p.message()).To(ContainSubstring("cannot be read"))
	p.waitNode(t, false)
	p.waitEvents(t, "RemediationStarted", "NodeNotFenced")
	p.setHealthCheck(t, metav1.ConditionTrue)
	env.Workload(t, p.remediation.Namespace, p.claim.Cluster.Name)
	p.setNodeReady(t, corev1.ConditionTrue)
	p.wait(t, v1alpha1.RemediationRecovered, v1alpha1.ReasonRecovered)
	g.Expect(p.CommandNames()).To(Equal([]string{"ForceOff", "On"}))
}

// TestForeignTaint: a taint that another client added to the Node stays.
func TestForeignTaint(t *testing.T) {
	start(t)
	p := newFixture(t, func(p *fixture) {
		p.node.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute}}
	})
	p.wait(t, v1alpha1.RemediationWaiting, v1alpha1.ReasonWaitingForNode)
	p.setNodeReady(t, corev1.ConditionTrue)
	p.wait(t, v1alpha1.RemediationRecovered, v1alpha1.ReasonRecovered)
	p.waitNode(t, true)
}

// TestUnhealthyAgain: a machine that becomes unhealthy again under the same remediation gets a new first power cycle.
func TestUnhealthyAgain(t *testing.T) {
	g := NewWithT(t)
	start(t)
	p := newFixture(t)
	p.wait(t, v1alpha1.RemediationWaiting, v1alpha1.ReasonWaitingForNode)
	p.setNodeReady(t, corev1.ConditionTrue)
	controllerstest.Wait(t, env, p.remediation, func(g Gomega, r *v1alpha1.BareMetalRemediation) {
		g.Expect(r.Spec.PowerCycle.RecoveredTime).NotTo(BeNil())
	})
	controllerstest.Modify(t, env, p.remediation, func(r *v1alpha1.BareMetalRemediation) {
		r.Spec.PowerCycle.RecoveredTime.Time = r.Spec.PowerCycle.RecoveredTime.Add(-time.Hour)
	})
	p.expire(t)
	p.setNodeReady(t, corev1.ConditionUnknown)
	p.setHealthCheck(t, metav1.ConditionFalse)
	controllerstest.Wait(t, env, p.remediation, func(g Gomega, r *v1alpha1.BareMetalRemediation) {
		g.Expect(r.Status.Phase).To(Equal(v1alpha1.RemediationWaiting))
		g.Expect(r.Spec.PowerCycle.RecoveredTime).To(BeNil())
	})
	g.Expect(p.CommandNames()).To(Equal([]string{"ForceOff", "On", "ForceOff", "On"}))
	g.Expect(p.replaced(t)).To(BeFalse())
}

// TestNoMachine: without an owner nothing is done.
func TestNoMachine(t *testing.T) {
	start(t)
	r := &v1alpha1.BareMetalRemediation{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace(t), Name: "r"}}
	env.Create(t, r)
	p := &fixture{remediation: r}
	p.wait(t, v1alpha1.RemediationIdle, v1alpha1.ReasonMachineNotFound)
	NewWithT(t).Expect(r.Finalizers).To(BeEmpty())
}
