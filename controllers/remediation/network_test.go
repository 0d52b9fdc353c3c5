package remediation_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
)

// What kubelets report with containerd and with CRI-O without a network plugin.
const (
	containerdMessage = "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized"
	crioMessage       = "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: No CNI configuration file in /etc/cni/net.d/. Has your network provider started?"
)

// setNodeCondition sets the condition Ready of the Node, as it is since a time after the registration of the Node.
func (p *fixture) setNodeCondition(t *testing.T, status corev1.ConditionStatus, reason, message string, after time.Duration) {
	t.Helper()
	p.setNodeReady(t, status)
	ready := &p.node.Status.Conditions[0]
	ready.Reason, ready.Message, ready.LastTransitionTime = reason, message, metav1.NewTime(p.node.CreationTimestamp.Add(after))
	NewWithT(t).Expect(env.Client.Status().Update(t.Context(), p.node)).To(Succeed())
}

// lackNetwork makes the Node one that was never Ready for want of a network plugin.
func (p *fixture) lackNetwork(t *testing.T) {
	t.Helper()
	p.setNodeCondition(t, corev1.ConditionFalse, "KubeletNotReady", containerdMessage, 0)
}

// addMachineWithReadyNode adds another Machine to the Cluster, whose Node is Ready as Cluster API reports it.
func (p *fixture) addMachineWithReadyNode(t *testing.T) {
	t.Helper()
	g := NewWithT(t)
	other := &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.claim.Machine.Namespace, Name: p.claim.Machine.Name + "-other", Labels: p.claim.Machine.Labels},
		Spec:       *p.claim.Machine.Spec.DeepCopy(),
	}
	g.Expect(env.Client.Create(t.Context(), other)).To(Succeed())
	conditions.Set(other, metav1.Condition{Type: clusterv1.MachineNodeReadyCondition, Status: metav1.ConditionTrue, Reason: "NodeReady"})
	g.Expect(env.Client.Status().Update(t.Context(), other)).To(Succeed())
}

// setHealthCheckReason makes the MachineHealthCheck find the Machine unhealthy for a reason.
func (p *fixture) setHealthCheckReason(t *testing.T, reason string) {
	t.Helper()
	p.setHealthCheck(t, metav1.ConditionFalse)
	g := NewWithT(t)
	g.Eventually(func() error {
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(p.claim.Machine), p.claim.Machine); err != nil {
			return err
		}
		conditions.Get(p.claim.Machine, clusterv1.MachineHealthCheckSucceededCondition).Reason = reason
		return env.Client.Status().Update(t.Context(), p.claim.Machine)
	}).Should(Succeed())
}

// TestNetworkPluginMissing: a machine whose Node was never Ready for want of a network plugin is neither power-cycled nor handed over, and its host is not
// quarantined. One event says so.
func TestNetworkPluginMissing(t *testing.T) {
	for name, test := range map[string]struct {
		change  func(*fixture)
		message string
		after   time.Duration // of the transition, relative to the registration
		reason  string        // of the MachineHealthCheck; empty if its condition was lost
	}{
		"containerd":                        {message: containerdMessage, reason: clusterv1.MachineHealthCheckUnhealthyNodeReason},
		"CRI-O":                             {message: crioMessage, reason: clusterv1.MachineHealthCheckUnhealthyNodeReason},
		"with a warning of the kubelet":     {message: containerdMessage + ". WARNING: CPU hardcapping unsupported", reason: clusterv1.MachineHealthCheckUnhealthyNodeReason},
		"the clock of the server is ahead":  {message: containerdMessage, after: 49 * time.Second, reason: clusterv1.MachineHealthCheckUnhealthyNodeReason},
		"the clock of the server is behind": {message: containerdMessage, after: -49 * time.Second, reason: clusterv1.MachineHealthCheckUnhealthyNodeReason},
		"after a move":                      {message: containerdMessage},
		"no retries":                        {message: containerdMessage, reason: clusterv1.MachineHealthCheckUnhealthyNodeReason, change: func(p *fixture) { p.remediation.Spec.Retries = new(int32(0)) }},
		"in memory": {
			message: containerdMessage, reason: clusterv1.MachineHealthCheckUnhealthyNodeReason,
			change: func(p *fixture) { p.claim.BareMetalMachine.Spec.Boot.Persistence = v1alpha1.PersistenceEphemeral },
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var changes []func(*fixture)
			if test.change != nil {
				changes = append(changes, test.change)
			}
			b := newStepper(t, changes...)
			recorded := events.NewFakeRecorder(10)
			b.r.Recorder = recorded
			b.setNodeCondition(t, corev1.ConditionFalse, "KubeletNotReady", test.message, test.after)
			if test.reason != "" {
				b.setHealthCheckReason(t, test.reason)
			}
			for range 6 {
				b.step(t)
			}
			b.is(g, v1alpha1.RemediationIdle, v1alpha1.ReasonNetworkPluginMissing)
			g.Expect(b.message()).To(And(ContainSubstring("Node "+b.node.Name+" was never Ready"), ContainSubstring("Install a CNI plugin in the workload cluster")))
			g.Expect(b.step(t).RequeueAfter).NotTo(BeZero())
			noPowerHold(g, b.Host)
			g.Expect(b.Host.Spec.Quarantine).To(BeNil())
			g.Expect(b.remediation.Spec.HandOver).To(BeNil())
			g.Expect(b.replaced(t)).To(BeFalse())
			g.Expect(recorded.Events).To(HaveLen(1))
			g.Expect(<-recorded.Events).To(HavePrefix("Warning NetworkPluginMissing Node " + b.node.Name))
		})
	}
}

// TestOtherNotReady: every other machine is remediated.
func TestOtherNotReady(t *testing.T) {
	const late = 51 * time.Second
	for name, change := range map[string]func(*testing.T, *stepper){
		"the Node was Ready": func(t *testing.T, b *stepper) {
			t.Helper()
			b.setNodeCondition(t, corev1.ConditionFalse, "KubeletNotReady", containerdMessage, late)
		},
		"the clock of the server is far behind": func(t *testing.T, b *stepper) {
			t.Helper()
			b.setNodeCondition(t, corev1.ConditionFalse, "KubeletNotReady", containerdMessage, -late)
		},
		"the Node of another machine is Ready": func(t *testing.T, b *stepper) {
			t.Helper()
			b.lackNetwork(t)
			b.addMachineWithReadyNode(t)
		},
		"the kubelet is dead": func(t *testing.T, b *stepper) {
			t.Helper()
			b.setNodeCondition(t, corev1.ConditionUnknown, "KubeletNotReady", containerdMessage, 0)
		},
		"the runtime is down too": func(t *testing.T, b *stepper) {
			t.Helper()
			b.setNodeCondition(t, corev1.ConditionFalse, "KubeletNotReady", "[container runtime is down, "+containerdMessage+"]", 0)
		},
		"the runtime is down": func(t *testing.T, b *stepper) {
			t.Helper()
			b.setNodeCondition(t, corev1.ConditionFalse, "KubeletNotReady", "container runtime is down", 0)
		},
		"another program says so": func(t *testing.T, b *stepper) {
			t.Helper()
			b.setNodeCondition(t, corev1.ConditionFalse, "SomebodyElse", containerdMessage, 0)
		},
		"no condition": func(t *testing.T, b *stepper) {
			t.Helper()
			b.node.Status.Conditions = nil
			NewWithT(t).Expect(env.Client.Status().Update(t.Context(), b.node)).To(Succeed())
		},
		"a user asks for it": func(t *testing.T, b *stepper) {
			t.Helper()
			b.lackNetwork(t)
			controllerstest.Modify(t, env, b.claim.Machine, func(m *clusterv1.Machine) {
				m.Annotations = map[string]string{clusterv1.RemediateMachineAnnotation: ""}
			})
		},
		"the Machine is unhealthy, too": func(t *testing.T, b *stepper) {
			t.Helper()
			b.lackNetwork(t)
			b.setHealthCheckReason(t, clusterv1.MachineHealthCheckUnhealthyMachineReason)
		},
		"the workload cluster does not answer": func(t *testing.T, b *stepper) {
			t.Helper()
			b.lackNetwork(t)
			b.r.Clusters = clusterless(t)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newStepper(t)
			b.setHealthCheckReason(t, clusterv1.MachineHealthCheckUnhealthyNodeReason)
			change(t, b)
			b.steps(t, b.hasPowerHold)
		})
	}
}

// pass makes the time of the power cycle pass, for a fixture without running controllers.
func (b *stepper) pass(t *testing.T) {
	t.Helper()
	controllerstest.Modify(t, env, b.remediation, func(r *v1alpha1.BareMetalRemediation) {
		r.Spec.PowerCycle.StartTime = metav1.NewTime(time.Now().Add(-24 * time.Hour))
	})
	b.unpaused(t, -24*time.Hour)
}

// TestNetworkPluginMissingEnds: when the state of the Node changes, the machine gets the time of a power cycle to recover, and is then power-cycled. With a
// network plugin it recovers.
func TestNetworkPluginMissingEnds(t *testing.T) {
	idle := func(t *testing.T) *stepper {
		t.Helper()
		b := newStepper(t)
		b.lackNetwork(t)
		b.setHealthCheckReason(t, clusterv1.MachineHealthCheckUnhealthyNodeReason)
		b.steps(t, func() bool { return b.remediation.Status.Phase == v1alpha1.RemediationIdle })
		return b
	}
	t.Run("the kubelet dies", func(t *testing.T) {
		b := idle(t)
		b.setNodeReady(t, corev1.ConditionUnknown)
		b.step(t)
		b.is(NewWithT(t), v1alpha1.RemediationWaiting, v1alpha1.ReasonWaitingForNode)
		b.pass(t)
		b.steps(t, b.hasPowerHold)
	})
	t.Run("a network plugin is installed", func(t *testing.T) {
		b := idle(t)
		b.setNodeReady(t, corev1.ConditionTrue)
		b.step(t)
		b.is(NewWithT(t), v1alpha1.RemediationRecovered, v1alpha1.ReasonRecovered)
	})
	t.Run("a user asks for the replacement", func(t *testing.T) {
		b := idle(t)
		controllerstest.Modify(t, env, b.claim.Machine, func(m *clusterv1.Machine) {
			m.Annotations = map[string]string{clusterv1.RemediateMachineAnnotation: ""}
		})
		b.step(t)
		b.is(NewWithT(t), v1alpha1.RemediationWaiting, v1alpha1.ReasonWaitingForNode)
		b.pass(t)
		b.steps(t, b.hasPowerHold)
	})
}

// TestNetworkPluginMissingLater: a power-off that is under way is not interrupted. A machine that is handed over stays handed over.
func TestNetworkPluginMissingLater(t *testing.T) {
	t.Run("in a power cycle", func(t *testing.T) {
		g := NewWithT(t)
		b := newStepper(t)
		b.setHealthCheckReason(t, clusterv1.MachineHealthCheckUnhealthyNodeReason)
		b.steps(t, b.hasPowerHold)
		b.lackNetwork(t)
		b.step(t)
		g.Expect(b.hasPowerHold()).To(BeTrue())
		g.Expect(b.remediation.Status.Phase).To(Equal(v1alpha1.RemediationPoweringOff))
	})
	t.Run("after a hand-over", func(t *testing.T) {
		b := newStepper(t, func(p *fixture) { p.remediation.Spec.Retries = new(int32(0)) })
		b.setHealthCheckReason(t, clusterv1.MachineHealthCheckUnhealthyNodeReason)
		b.steps(t, func() bool { return b.remediation.Status.Phase == v1alpha1.RemediationHandedOver })
		b.lackNetwork(t)
		b.step(t)
		b.handedOver(t)
	})
}
