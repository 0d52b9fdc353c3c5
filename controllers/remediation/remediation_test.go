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

// TestPowerCycle: off, taint, on, Node healthy, no taint; and nothing of it is left when the MachineHealthCheck deletes the remediation.
func TestPowerCycle(t *testing.T) {
	g := NewWithT(t)
	start(t)
	p := admit(t)
	p.judge(t, metav1.ConditionFalse)
	p.wait(t, v1alpha1.RemediationWaiting, v1alpha1.ReasonWaitingForNode)
	g.Expect(p.remediation.Status.Attempt).To(Equal(int32(1)))
	p.waitHost(t, unheld)
	p.waitNode(t, true)
	g.Expect(p.CommandNames()).To(Equal([]string{"ForceOff", "On"}))

	p.speak(t, corev1.ConditionTrue)
	p.waitNode(t, false)
	p.wait(t, v1alpha1.RemediationRecovered, v1alpha1.ReasonRecovered)
	p.judge(t, metav1.ConditionTrue)
	g.Expect(env.Client.Delete(t.Context(), p.remediation)).To(Succeed())
	env.Gone(t, p.remediation)
	g.Expect(p.CommandNames()).To(Equal([]string{"ForceOff", "On"}))
	g.Expect(p.replaced(t)).To(BeFalse())
	p.story(t, "RemediationStarted", "NodeFenced", "RemediationRecovered")
}

// TestOldWord: what a Node said before its server was off does not make it healthy.
func TestOldWord(t *testing.T) {
	g := NewWithT(t)
	start(t)
	p := admit(t)
	p.speak(t, corev1.ConditionTrue) // its kubelet is alive, something else is wrong
	p.node.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(p.node.CreationTimestamp.Add(-time.Hour))
	g.Expect(env.Client.Status().Update(t.Context(), p.node)).To(Succeed())
	p.judge(t, metav1.ConditionFalse)
	p.wait(t, v1alpha1.RemediationWaiting, v1alpha1.ReasonWaitingForNode)
	g.Expect(p.message()).To(ContainSubstring("has not sent a heartbeat since the server was off"))
	p.judge(t, metav1.ConditionTrue)
	p.speak(t, corev1.ConditionTrue)
	p.wait(t, v1alpha1.RemediationRecovered, v1alpha1.ReasonRecovered)
}

// TestRetries: each power cycle that does not help is followed by the next one, and the last one by the hand-over and the quarantine.
func TestRetries(t *testing.T) {
	g := NewWithT(t)
	start(t)
	p := admit(t, func(p *patient) { p.remediation.Spec.Retries = new(int32(2)) })
	p.judge(t, metav1.ConditionFalse)
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
		unheld(g, h)
		g.Expect(h.Spec.Quarantine).NotTo(BeNil())
		g.Expect(h.Spec.Quarantine.Reason).To(Equal(v1alpha1.ReasonRemediationFailed))
		g.Expect(h.Spec.Quarantine.Message).To(ContainSubstring("power-cycled 2 times"))
	})
	p.waitNode(t, false)
	g.Expect(p.CommandNames()).To(Equal([]string{"ForceOff", "On", "ForceOff", "On"}))
	p.story(t, "RemediationStarted", "NodeFenced", "RemediationTimedOut", "RemediationStarted", "RemediationHandedOver", "HostQuarantined")
}

// TestBMCDead: a server of which nothing shows that it is off is not fenced, and is not switched off when its BMC answers again.
func TestBMCDead(t *testing.T) {
	g := NewWithT(t)
	start(t)
	p := admit(t, func(p *patient) { g.Expect(p.Misbehave(bmctest.Down, -1)).To(Succeed()) })
	p.judge(t, metav1.ConditionFalse)
	p.waitHost(t, func(g Gomega, h *v1alpha1.BareMetalHost) { g.Expect(h.Spec.PowerHoldSince).NotTo(BeNil()) })
	p.says(t, "BMC: Unreachable")
	p.expire(t)
	p.handedOver(t)
	g.Expect(p.message()).To(ContainSubstring("did not confirm the power-off, so its Node has no out-of-service taint"))
	p.waitNode(t, false)
	p.waitHost(t, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(h.Spec.PowerHolds).To(BeEmpty())
		g.Expect(h.Spec.PowerHoldOffAt).To(BeNil())
		g.Expect(h.Spec.Quarantine).NotTo(BeNil())
	})
	g.Expect(p.Misbehave(bmctest.Down, 0)).To(Succeed())
	controllerstest.Modify(t, env, p.Host, func(h *v1alpha1.BareMetalHost) {
		h.Annotations = map[string]string{v1alpha1.RetryBMCAnnotation: "the test"}
	})
	p.waitHost(t, unheld)
	g.Expect(p.On()).To(BeTrue())
	g.Expect(p.CommandNames()).To(BeEmpty())
}

// TestHandedOverAtOnce: what no power cycle can help is handed over without one. Only a server that is to blame is put into quarantine.
func TestHandedOverAtOnce(t *testing.T) {
	start(t)
	failed := func(reason string) func(*patient) {
		return func(p *patient) {
			p.boot = &v1alpha1.BareMetalBootSpec{Attempt: 3, Failure: &v1alpha1.BootFailure{Reason: reason, Message: "because"}}
		}
	}
	unprovisioned := func(p *patient) { p.claim.BareMetalMachine.Spec.ProviderID = "" }
	for name, test := range map[string]struct {
		changes    []func(*patient)
		says       string
		quarantine string
	}{
		"from memory": {[]func(*patient){func(p *patient) {
			p.claim.BareMetalMachine.Spec.Boot.Persistence = v1alpha1.PersistenceEphemeral
		}}, "runs from memory", ""},
		"state lost":               {[]func(*patient){failed(v1alpha1.ReasonStateLost)}, "because", ""},
		"boot failed":              {[]func(*patient){failed(v1alpha1.ReasonBootTimedOut), unprovisioned}, "did not boot: because", v1alpha1.ReasonBootTimedOut},
		"boot source invalid":      {[]func(*patient){failed(v1alpha1.ReasonBootSourceInvalid), unprovisioned}, "did not boot: because", ""},
		"state lost in mid-boot":   {[]func(*patient){failed(v1alpha1.ReasonStateLost), unprovisioned}, "because", ""},
		"no power cycle is wanted": {[]func(*patient){func(p *patient) { p.remediation.Spec.Retries = new(int32(0)) }}, "spec.retries is 0", ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			p := admit(t, test.changes...)
			p.handedOver(t)
			g.Expect(p.message()).To(ContainSubstring(test.says))
			g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(p.Host), p.Host)).To(Succeed())
			if test.quarantine == "" {
				g.Expect(p.Host.Spec.Quarantine).To(BeNil())
			} else {
				g.Expect(p.Host.Spec.Quarantine.Reason).To(Equal(test.quarantine))
			}
			g.Expect(p.Host.Spec.PowerHoldSince).To(BeNil())
			g.Expect(p.CommandNames()).To(BeEmpty())
		})
	}
}

// TestHeldByAPerson: a machine is not handed over, whose release would take away the hold, while a person works on its server.
func TestHeldByAPerson(t *testing.T) {
	start(t)
	p := admit(t, func(p *patient) {
		p.remediation.Spec.Retries = new(int32(0))
		p.Host.Spec.PowerHolds = []v1alpha1.PowerHold{{Holder: "anna", Reason: "new fan", Force: true}}
	})
	p.wait(t, v1alpha1.RemediationIdle, v1alpha1.ReasonHostNotReady)
	NewWithT(t).Expect(p.remediation.Spec.HandOver).To(BeNil())
	controllerstest.Modify(t, env, p.Host, func(h *v1alpha1.BareMetalHost) { h.Spec.PowerHolds = nil })
	p.handedOver(t)
}

// TestHealthyMeanwhile: a machine that the MachineHealthCheck finds healthy is not handed over, whatever was decided.
func TestHealthyMeanwhile(t *testing.T) {
	g := NewWithT(t)
	start(t)
	p := admit(t, func(p *patient) {
		p.remediation.Spec.Retries = new(int32(0))
		p.noCluster = true
	})
	p.handedOver(t)
	other := admit(t, func(p *patient) {
		p.remediation.Spec.Retries = new(int32(0))
		p.claim.Cluster.Spec.Paused = new(true)
	})
	other.judge(t, metav1.ConditionTrue)
	controllerstest.Modify(t, env, other.claim.Cluster, func(c *clusterv1.Cluster) { c.Spec.Paused = new(false) })
	other.wait(t, v1alpha1.RemediationHandedOver, v1alpha1.ReasonHandedOver)
	g.Expect(other.replaced(t)).To(BeFalse())
	other.judge(t, metav1.ConditionFalse)
	other.handedOver(t)
}

// TestWaitsForAHost: a machine without a host is no failed boot. Nor is one whose host still boots.
func TestWaitsForAHost(t *testing.T) {
	g := NewWithT(t)
	start(t)
	p := admit(t, func(p *patient) {
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

// TestLeftAlone: who works on a server, or holds it off, is not disturbed, and what was begun is taken back. Afterwards the server has time to come
// back by itself before it is power-cycled.
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
		"held by another": {
			func(h *v1alpha1.BareMetalHost) {
				h.Spec.PowerHolds = append(h.Spec.PowerHolds, v1alpha1.PowerHold{Holder: "anna", Reason: "new fan", Force: true})
			},
			func(h *v1alpha1.BareMetalHost) { h.Spec.PowerHolds = nil },
			v1alpha1.ReasonHostNotReady,
		},
		"held by an annotation": {
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
			p := admit(t)
			p.wait(t, v1alpha1.RemediationWaiting, v1alpha1.ReasonWaitingForNode)
			p.waitHost(t, unheld)
			controllerstest.Modify(t, env, p.Host, test.take)
			p.wait(t, v1alpha1.RemediationIdle, test.reason)
			controllerstest.Wait(t, env, p.remediation, func(g Gomega, r *v1alpha1.BareMetalRemediation) {
				g.Expect(r.Status.Attempt).To(BeZero())
				g.Expect(r.Spec.TaintedNode).To(BeEmpty())
			})
			p.waitNode(t, false)
			p.waitHost(t, func(g Gomega, h *v1alpha1.BareMetalHost) {
				_, annotated := h.Annotations[v1alpha1.ForcePowerHoldPrefix+"anna"]
				g.Expect(h.Spec.PowerHoldOffAt != nil).To(Equal(annotated || len(h.Spec.PowerHolds) > 0))
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

// TestPaused: nothing is done while the Cluster is paused.
func TestPaused(t *testing.T) {
	g := NewWithT(t)
	start(t)
	p := admit(t, func(p *patient) { p.claim.Cluster.Spec.Paused = new(true) })
	controllerstest.Wait(t, env, p.remediation, func(g Gomega, r *v1alpha1.BareMetalRemediation) {
		g.Expect(r.Status.Conditions).To(ContainElement(HaveField("Status", metav1.ConditionTrue)))
	})
	g.Expect(p.remediation.Spec.PowerCycle).To(BeNil())
	g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(p.Host), p.Host)).To(Succeed())
	unheld(g, p.Host)
	controllerstest.Modify(t, env, p.claim.Cluster, func(c *clusterv1.Cluster) { c.Spec.Paused = new(false) })
	p.wait(t, v1alpha1.RemediationWaiting, v1alpha1.ReasonWaitingForNode)
}

// stay puts a Pod on the Node that nobody deletes: so the remediation waits with the server off.
func (p *patient) stay(t *testing.T) *corev1.Pod {
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

// held admits a patient and waits until its server is held off, its Node tainted, and a Pod on it awaited.
func held(t *testing.T) (*patient, *corev1.Pod) {
	t.Helper()
	var pod *corev1.Pod
	p := admit(t, func(p *patient) { pod = p.stay(t) })
	p.says(t, "Pod "+pod.Namespace+"/stays is removed from its Node")
	p.waitHost(t, func(g Gomega, h *v1alpha1.BareMetalHost) { g.Expect(h.Spec.PowerHoldOffAt).NotTo(BeNil()) })
	p.waitNode(t, true)
	NewWithT(t).Expect(p.On()).To(BeFalse())
	return p, pod
}

// TestPodsGoFirst: the server is switched on when the Pods of its Node are gone: then they run elsewhere.
func TestPodsGoFirst(t *testing.T) {
	g := NewWithT(t)
	start(t)
	p, pod := held(t)
	g.Expect(env.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0))).To(Succeed())
	p.wait(t, v1alpha1.RemediationWaiting, v1alpha1.ReasonWaitingForNode)
	g.Expect(p.CommandNames()).To(Equal([]string{"ForceOff", "On"}))
}

// offLongAgo lets the server have been off for a day.
func (p *patient) offLongAgo(t *testing.T) {
	t.Helper()
	controllerstest.Modify(t, env, p.Host, func(h *v1alpha1.BareMetalHost) {
		h.Spec.PowerHoldOffAt = &metav1.Time{Time: time.Now().Add(-24 * time.Hour)}
	})
}

// TestPodsThatStay: Pods that do not go are not waited for without end.
func TestPodsThatStay(t *testing.T) {
	start(t)
	p, _ := held(t)
	p.offLongAgo(t)
	p.wait(t, v1alpha1.RemediationWaiting, v1alpha1.ReasonWaitingForNode)
}

// TestDeletedInBetween: a remediation that is deleted takes back its hold and its taint, and the server is switched on.
func TestDeletedInBetween(t *testing.T) {
	g := NewWithT(t)
	start(t)
	p, _ := held(t)
	g.Expect(env.Client.Delete(t.Context(), p.remediation)).To(Succeed())
	env.Gone(t, p.remediation)
	p.waitNode(t, false)
	p.waitHost(t, unheld)
	g.Expect(p.On()).To(BeTrue())
	g.Expect(p.CommandNames()).To(Equal([]string{"ForceOff", "On"}))
}

// TestMachineDeletedInBetween: the deletion of the Machine ends the remediation, which keeps nothing from going. The server, whose volumes were
// taken away, is not switched on again before it is released.
func TestMachineDeletedInBetween(t *testing.T) {
	g := NewWithT(t)
	start(t)
	p, _ := held(t)
	g.Expect(env.Client.Delete(t.Context(), p.claim.Machine)).To(Succeed())
	p.wait(t, v1alpha1.RemediationIdle, v1alpha1.ReasonMachineDeleting)
	g.Expect(p.remediation.Finalizers).To(BeEmpty())
	g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(p.Host), p.Host)).To(Succeed())
	g.Expect(p.Host.Spec.PowerHolds).To(HaveLen(1))
	g.Expect(env.Client.Delete(t.Context(), p.claim.BareMetalMachine)).To(Succeed())
	p.waitHost(t, func(g Gomega, h *v1alpha1.BareMetalHost) {
		unheld(g, h)
		g.Expect(h.Spec.ConsumerRef).To(BeNil())
	})
	g.Expect(p.CommandNames()).NotTo(ContainElement("On"))
}

// TestRestartInBetween: a manager that starts anew, with every status lost, goes on where the old one was: there is one power cycle.
func TestRestartInBetween(t *testing.T) {
	g := NewWithT(t)
	stop := start(t)
	p, pod := held(t)
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
	p.speak(t, corev1.ConditionTrue)
	p.wait(t, v1alpha1.RemediationRecovered, v1alpha1.ReasonRecovered)
	p.waitNode(t, false)
	g.Expect(p.CommandNames()).To(Equal([]string{"ForceOff", "On"}))
}

// TestMovedAway: a remediation that a move deletes lives on elsewhere, with its hold and its taint.
func TestMovedAway(t *testing.T) {
	g := NewWithT(t)
	start(t)
	p, _ := held(t)
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

// TestUnreachable: where the workload cluster does not answer the server is power-cycled without the taint, and that is said.
func TestUnreachable(t *testing.T) {
	g := NewWithT(t)
	start(t)
	p := admit(t, func(p *patient) { p.noCluster = true })
	p.judge(t, metav1.ConditionFalse)
	p.says(t, "cannot be tainted or read yet")
	g.Expect(p.On()).To(BeFalse())
	p.unpausedLong(t)
	p.offLongAgo(t)
	p.wait(t, v1alpha1.RemediationWaiting, v1alpha1.ReasonWaitingForNode)
	g.Expect(p.message()).To(ContainSubstring("cannot be read"))
	p.waitNode(t, false)
	p.story(t, "RemediationStarted", "NodeNotFenced")
	p.judge(t, metav1.ConditionTrue)
	env.Workload(t, p.remediation.Namespace, p.claim.Cluster.Name)
	p.speak(t, corev1.ConditionTrue)
	p.wait(t, v1alpha1.RemediationRecovered, v1alpha1.ReasonRecovered)
	g.Expect(p.CommandNames()).To(Equal([]string{"ForceOff", "On"}))
}

// TestOthersTaint: a taint that somebody else put on the Node stays.
func TestOthersTaint(t *testing.T) {
	start(t)
	p := admit(t, func(p *patient) {
		p.node.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute}}
	})
	p.wait(t, v1alpha1.RemediationWaiting, v1alpha1.ReasonWaitingForNode)
	p.speak(t, corev1.ConditionTrue)
	p.wait(t, v1alpha1.RemediationRecovered, v1alpha1.ReasonRecovered)
	p.waitNode(t, true)
}

// TestSickAgain: a machine that falls ill again under the same remediation is helped from the beginning.
func TestSickAgain(t *testing.T) {
	g := NewWithT(t)
	start(t)
	p := admit(t)
	p.wait(t, v1alpha1.RemediationWaiting, v1alpha1.ReasonWaitingForNode)
	p.speak(t, corev1.ConditionTrue)
	controllerstest.Wait(t, env, p.remediation, func(g Gomega, r *v1alpha1.BareMetalRemediation) {
		g.Expect(r.Spec.PowerCycle.RecoveredAt).NotTo(BeNil())
	})
	controllerstest.Modify(t, env, p.remediation, func(r *v1alpha1.BareMetalRemediation) {
		r.Spec.PowerCycle.RecoveredAt.Time = r.Spec.PowerCycle.RecoveredAt.Add(-time.Hour)
	})
	p.expire(t)
	p.speak(t, corev1.ConditionUnknown)
	p.judge(t, metav1.ConditionFalse)
	controllerstest.Wait(t, env, p.remediation, func(g Gomega, r *v1alpha1.BareMetalRemediation) {
		g.Expect(r.Status.Phase).To(Equal(v1alpha1.RemediationWaiting))
		g.Expect(r.Spec.PowerCycle.RecoveredAt).To(BeNil())
	})
	g.Expect(p.CommandNames()).To(Equal([]string{"ForceOff", "On", "ForceOff", "On"}))
	g.Expect(p.replaced(t)).To(BeFalse())
}

// TestNoMachine: without an owner nothing is done.
func TestNoMachine(t *testing.T) {
	start(t)
	r := &v1alpha1.BareMetalRemediation{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace(t), Name: "r"}}
	env.Create(t, r)
	p := &patient{remediation: r}
	p.wait(t, v1alpha1.RemediationIdle, v1alpha1.ReasonMachineNotFound)
	NewWithT(t).Expect(r.Finalizers).To(BeEmpty())
}
