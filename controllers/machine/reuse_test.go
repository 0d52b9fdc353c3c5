package machine_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
)

// ofDeployment makes a claim belong to a MachineDeployment that reuses its hosts.
func ofDeployment(deployment string) func(*controllerstest.Claim) {
	return func(c *controllerstest.Claim) {
		c.Machine.Labels[clusterv1.MachineDeploymentNameLabel] = deployment
		c.BareMetalMachine.Spec.ReuseHost = true
	}
}

// deleteMachine deletes a machine as Cluster API does: first its Machine, which remains until its BareMetalMachine is deleted.
func deleteMachine(t *testing.T, c *controllerstest.Claim) {
	t.Helper()
	controllerstest.Modify(t, env, c.Machine, func(m *clusterv1.Machine) { m.Finalizers = []string{clusterv1.MachineFinalizer} })
	NewWithT(t).Expect(env.Client.Delete(t.Context(), c.Machine)).To(Succeed())
}

// release releases the host as the host controller does: it becomes available a moment later.
func release(t *testing.T, h *v1alpha1.BareMetalHost, name, owner string) {
	t.Helper()
	setAvailability(t, h, metav1.ConditionFalse, v1alpha1.ReasonClaimed)
	controllerstest.Modify(t, env, h, func(h *v1alpha1.BareMetalHost) {
		h.Spec.ConsumerRef, h.Spec.ProviderState.LastConsumer = nil, &v1alpha1.LastConsumer{Name: name, Owner: owner, ReleaseTime: metav1.Now()}
	})
}

func setAvailability(t *testing.T, h *v1alpha1.BareMetalHost, status metav1.ConditionStatus, reason string) {
	t.Helper()
	g := NewWithT(t)
	g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(h), h)).To(Succeed())
	before := h.DeepCopy()
	conditions.Set(h, metav1.Condition{Type: v1alpha1.AvailableCondition, Status: status, Reason: reason})
	g.Expect(env.Client.Status().Patch(t.Context(), h, client.MergeFrom(before))).To(Succeed())
}

func has(host string) func(Gomega, *v1alpha1.BareMetalMachine) {
	return func(g Gomega, m *v1alpha1.BareMetalMachine) {
		g.Expect(m.Status.HostRef).To(HaveValue(HaveField("Name", host)), conditions.GetMessage(m, v1alpha1.HostClaimedCondition))
	}
}

// TestReuse: a machine that reuses its owner's hosts waits for one that is being released, from the deletion of the Machine until the host is
// available, even if another host is free. A machine of another owner does not wait.
func TestReuse(t *testing.T) {
	g := NewWithT(t)
	start(t)
	namespace := env.Namespace(t)
	former := newHost(t, namespace, "h", 20, nil)
	old := env.NewClaim(t, namespace, "old", ofDeployment("md"))
	wait(t, old, has("h"))
	deleteMachine(t, old)
	other := newHost(t, namespace, "a-better", 21, nil)

	next := env.NewClaim(t, namespace, "next", ofDeployment("md"))
	waits := func(g Gomega, m *v1alpha1.BareMetalMachine) {
		for _, kind := range []string{v1alpha1.HostClaimedCondition, v1alpha1.ReadyCondition} {
			reason(kind, v1alpha1.ReasonWaitingForFormerHost)(g, m)
			g.Expect(conditions.GetMessage(m, kind)).To(Equal(
				`Waiting for BareMetalHost "h", which a machine of MachineDeployment/md is releasing: spec.reuseHost asks for a host of that owner`))
		}
		reason(v1alpha1.HostBootedCondition, v1alpha1.ReasonWaitingForHost)(g, m)
	}
	wait(t, next, waits)
	release(t, former, "old", "MachineDeployment/md")
	stranger := env.NewClaim(t, namespace, "stranger", ofDeployment("other")) // created later: shows that the machine was reconciled meanwhile
	wait(t, stranger, has("a-better"))
	wait(t, next, waits)
	setAvailability(t, former, metav1.ConditionTrue, v1alpha1.ReasonAvailable)
	wait(t, next, has("h"))
	g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(other), other)).To(Succeed())
	g.Expect(other.Spec.ConsumerRef.Name).To(Equal("stranger"))
}

// TestReuseHostOutOfService: a host that goes out of service during its release is not waited for.
func TestReuseHostOutOfService(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.BareMetalHost){
		"quarantine":  func(h *v1alpha1.BareMetalHost) { h.Spec.Quarantine = &v1alpha1.Quarantine{Reason: "Broken"} },
		"maintenance": func(h *v1alpha1.BareMetalHost) { h.Spec.Maintenance = &v1alpha1.Maintenance{Reason: "a new disk"} },
		"taint":       func(h *v1alpha1.BareMetalHost) { h.Spec.Taints = []v1alpha1.HostTaint{{Key: "old"}} },
	} {
		t.Run(name, func(t *testing.T) {
			start(t)
			namespace := env.Namespace(t)
			former := newHost(t, namespace, "h", 22, nil)
			old := env.NewClaim(t, namespace, "old", ofDeployment("md"))
			wait(t, old, has("h"))
			deleteMachine(t, old)
			newHost(t, namespace, "spare", 23, nil)
			next := env.NewClaim(t, namespace, "next", ofDeployment("md"))
			wait(t, next, reason(v1alpha1.HostClaimedCondition, v1alpha1.ReasonWaitingForFormerHost))
			controllerstest.Modify(t, env, former, change)
			wait(t, next, has("spare"))
		})
	}
}

// TestReuseTimeout: a machine stops waiting for a former host while another host is free: for a released host that does not become available, and for
// a host that cannot be released because its BMC is not ready.
func TestReuseTimeout(t *testing.T) {
	long := metav1.NewTime(time.Now().Add(-6 * time.Minute))
	for name, stuck := range map[string]func(*testing.T, *v1alpha1.BareMetalHost, metav1.Time){
		"power": func(t *testing.T, h *v1alpha1.BareMetalHost, since metav1.Time) {
			t.Helper()
			setAvailability(t, h, metav1.ConditionFalse, v1alpha1.ReasonPowerChanging)
			controllerstest.Modify(t, env, h, func(h *v1alpha1.BareMetalHost) {
				h.Spec.ConsumerRef, h.Spec.ProviderState.LastConsumer = nil, &v1alpha1.LastConsumer{Name: "old", Owner: "MachineDeployment/md", ReleaseTime: since}
			})
		},
		"BMC": func(t *testing.T, h *v1alpha1.BareMetalHost, since metav1.Time) {
			t.Helper()
			g := NewWithT(t)
			g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(h), h)).To(Succeed())
			before := h.DeepCopy()
			h.Status.Conditions = append(h.Status.Conditions, metav1.Condition{
				Type: v1alpha1.BMCReadyCondition, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonBMCUnreachable, LastTransitionTime: since,
			})
			g.Expect(env.Client.Status().Patch(t.Context(), h, client.MergeFrom(before))).To(Succeed())
		},
	} {
		for when, since := range map[string]metav1.Time{"now": metav1.Now(), "long ago": long} {
			t.Run(name+" "+when, func(t *testing.T) {
				start(t)
				namespace := env.Namespace(t)
				former := newHost(t, namespace, "h", 40, nil)
				old := env.NewClaim(t, namespace, "old", ofDeployment("md"))
				wait(t, old, has("h"))
				deleteMachine(t, old)
				newHost(t, namespace, "spare", 41, nil)
				stuck(t, former, since)
				next := env.NewClaim(t, namespace, "next", ofDeployment("md"))
				if since == long {
					wait(t, next, has("spare"))
				} else {
					wait(t, next, reason(v1alpha1.HostClaimedCondition, v1alpha1.ReasonWaitingForFormerHost))
				}
			})
		}
	}
}

// TestTaintsAndPreferences: taints, tolerations and preferences of the API affect the choice of a host.
func TestTaintsAndPreferences(t *testing.T) {
	start(t)
	namespace := env.Namespace(t)
	plain := func(name string, number int, taints ...v1alpha1.HostTaint) {
		h := newHost(t, namespace, name, number, map[string]string{"host": name})
		if taints != nil {
			controllerstest.Modify(t, env, h, func(h *v1alpha1.BareMetalHost) { h.Spec.Taints = taints })
		}
	}
	plain("c-gpu", 24, v1alpha1.HostTaint{Key: "gpu", Value: "a100"})
	plain("b-old", 25, v1alpha1.HostTaint{Key: "old", Effect: v1alpha1.TaintPreferNoClaim})
	plain("d-plain", 26)
	plain("e-liked", 27)
	claimed := func(name string, change func(*v1alpha1.BareMetalMachineSpec)) *controllerstest.Claim {
		return env.NewClaim(t, namespace, name, func(c *controllerstest.Claim) { change(&c.BareMetalMachine.Spec) })
	}
	wait(t, claimed("likes-e", func(s *v1alpha1.BareMetalMachineSpec) {
		s.Preferences = []v1alpha1.HostPreference{{Weight: 1, HostSelector: v1alpha1.HostSelector{MatchLabels: map[string]v1alpha1.LabelValue{"host": "e-liked"}}}}
	}), has("e-liked"))
	none := func(*v1alpha1.BareMetalMachineSpec) {}
	wait(t, claimed("first", none), has("d-plain"))
	wait(t, claimed("second", none), has("b-old"))
	third := claimed("third", none)
	wait(t, third, func(g Gomega, m *v1alpha1.BareMetalMachine) {
		g.Expect(conditions.GetMessage(m, v1alpha1.HostClaimedCondition)).To(Equal(
			"None of 4 hosts fits: 3 claimed by another machine, 1 with the taint gpu=a100, which tolerations do not name. " +
				`The nearest is "c-gpu": with the taint gpu=a100, which tolerations do not name`))
	})
	wait(t, claimed("tolerant", func(s *v1alpha1.BareMetalMachineSpec) {
		s.Tolerations = []v1alpha1.HostToleration{{Key: "gpu", Operator: corev1.TolerationOpExists}}
	}), has("c-gpu"))
}
