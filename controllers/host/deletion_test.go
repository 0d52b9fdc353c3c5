package host_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/redfish"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/host"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/machine"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// shiftedClock is a clock that can be moved forward.
type shiftedClock struct{ by atomic.Int64 }

func (s *shiftedClock) Now() time.Time                  { return time.Now().Add(time.Duration(s.by.Load())) }
func (s *shiftedClock) Since(t time.Time) time.Duration { return s.Now().Sub(t) }
func (s *shiftedClock) forward(by time.Duration)        { s.by.Add(int64(by)) }

// startBoth runs the controllers of hosts and of machines.
func startBoth(t *testing.T, settings lifecycle.Settings) *shiftedClock {
	t.Helper()
	clock := &shiftedClock{}
	pool := bmc.NewPool(map[string]bmc.Driver{redfish.SchemeInsecure: (&redfish.Driver{Permit: bmctest.Loopback}).Driver()}, bmc.PoolOptions{})
	stop := env.StartManager(t, func(ctx context.Context, mgr ctrl.Manager) error {
		if err := (&machine.Reconciler{Client: mgr.GetClient(), APIReader: mgr.GetAPIReader()}).SetupWithManager(ctx, mgr, controller.Options{}); err != nil {
			return err
		}
		return (&host.Reconciler{
			Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Pool: pool, Settings: settings, Clock: clock,
		}).SetupWithManager(ctx, mgr, controller.Options{})
	})
	t.Cleanup(func() {
		stop()
		pool.Close()
	})
	return clock
}

// deletionCase is a claimed host in a certain state.
type deletionCase struct {
	*controllerstest.Server
	claim *controllerstest.Claim
}

// deletionState is a state of a claimed host at the time when the host, or its machine, is deleted.
type deletionState struct {
	// make puts the host into the state. If nil, the host runs its machine.
	make func(*testing.T, *deletionCase)
	// waits are parts of the message after the machine was deleted. If empty, the host is released automatically.
	waits []string
	// exit ends the state.
	exit func(*testing.T, *deletionCase)
	// noProviderID is true if make sets the provider ID of the machine.
	noProviderID bool
	// unfenced is true if the exit leaves the host in quarantine.
	unfenced bool
}

const (
	forceRelease = v1alpha1.ReleaseUnfencedAnnotation + `="who and why"`
	detach       = v1alpha1.DetachedAnnotation + `="who and why"`
)

func changeHost(change func(*v1alpha1.BareMetalHost)) func(*testing.T, *deletionCase) {
	return func(t *testing.T, s *deletionCase) {
		t.Helper()
		controllerstest.Modify(t, env, s.Host, change)
	}
}

// annotate sets an annotation of a host, with a reason.
func annotate(annotation string) func(*v1alpha1.BareMetalHost) {
	return func(h *v1alpha1.BareMetalHost) {
		metav1.SetMetaDataAnnotation(&h.ObjectMeta, annotation, "anna: the rack burns")
	}
}

func unannotate(annotation string) func(*v1alpha1.BareMetalHost) {
	return func(h *v1alpha1.BareMetalHost) { delete(h.Annotations, annotation) }
}

func faulty(fault bmctest.Fault) func(*testing.T, *deletionCase) {
	return func(t *testing.T, s *deletionCase) {
		t.Helper()
		misbehave(t, s.Server, fault, -1)
	}
}

func remove(of func(*deletionCase) client.Object) func(*testing.T, *deletionCase) {
	return func(t *testing.T, s *deletionCase) {
		t.Helper()
		NewWithT(t).Expect(env.Client.Delete(t.Context(), of(s))).To(Succeed())
		env.Gone(t, of(s))
	}
}

func pause(paused bool) func(*testing.T, *deletionCase) {
	return func(t *testing.T, s *deletionCase) {
		t.Helper()
		controllerstest.Modify(t, env, s.claim.Cluster, func(c *clusterv1.Cluster) { c.Spec.Paused = &paused })
	}
}

// deletionStates returns all states.
func deletionStates() map[string]deletionState {
	letGo := changeHost(annotate(v1alpha1.ReleaseUnfencedAnnotation))
	return map[string]deletionState{
		"host paused": {
			make: changeHost(annotate(clusterv1.PausedAnnotation)), waits: []string{"The host is paused", clusterv1.PausedAnnotation},
			exit: changeHost(unannotate(clusterv1.PausedAnnotation)),
		},
		"cluster paused": {make: pause(true), waits: []string{"paused", clusterv1.PausedAnnotation, "spec.paused"}, exit: pause(false)},
		"maintenance": {
			make:  changeHost(func(h *v1alpha1.BareMetalHost) { h.Spec.Maintenance = &v1alpha1.Maintenance{Reason: "new fan"} }),
			waits: []string{"new fan", "spec.maintenance", forceRelease}, exit: changeHost(func(h *v1alpha1.BareMetalHost) { h.Spec.Maintenance = nil }),
		},
		"maintenance, release forced": {
			make:  changeHost(func(h *v1alpha1.BareMetalHost) { h.Spec.Maintenance = &v1alpha1.Maintenance{Reason: "new fan"} }),
			waits: []string{"new fan", "spec.maintenance", forceRelease}, exit: letGo, unfenced: true,
		},
		"detached": {
			make:  changeHost(annotate(v1alpha1.DetachedAnnotation)),
			waits: []string{"anna: the rack burns", v1alpha1.DetachedAnnotation}, exit: changeHost(unannotate(v1alpha1.DetachedAnnotation)),
		},
		"cluster gone": {make: remove(func(s *deletionCase) client.Object { return s.claim.Cluster }), waits: []string{"Cluster", "does not exist", forceRelease}, exit: letGo, unfenced: true},
		"another claim's machine": {
			noProviderID: true, make: func(t *testing.T, s *deletionCase) {
				t.Helper()
				controllerstest.Modify(t, env, s.claim.BareMetalMachine, func(m *v1alpha1.BareMetalMachine) {
					m.Spec.ProviderID = inventory.ProviderID(m.Namespace, "another", m.Name)
				})
			},
			waits: []string{"of another claim", forceRelease}, exit: letGo, unfenced: true,
		},
		"BMC dead": {make: faulty(bmctest.Down), waits: []string{"Waiting for the BMC", forceRelease}, exit: letGo, unfenced: true},
		"credentials missing": {
			make: remove(func(s *deletionCase) client.Object { return s.Secret }), waits: []string{"does not exist", forceRelease}, exit: letGo, unfenced: true,
		},
		"credentials refused": {
			make:  func(_ *testing.T, s *deletionCase) { s.SetPassword("changed at the BMC alone") },
			waits: []string{"Correct username and password", forceRelease}, exit: letGo, unfenced: true,
		},
		"BMC does nothing": {make: faulty(bmctest.PowerIgnored), waits: []string{"being powered off", forceRelease}, exit: letGo, unfenced: true},
		"Machine gone, BMC dead": {
			make: func(t *testing.T, s *deletionCase) {
				t.Helper()
				faulty(bmctest.Down)(t, s)
				remove(func(s *deletionCase) client.Object { return s.claim.Machine })(t, s)
			},
			waits: []string{"Waiting for the BMC", forceRelease}, exit: letGo, unfenced: true,
		},
		"cleaning fails": {make: func(t *testing.T, s *deletionCase) {
			t.Helper()
			insertMedia(t, s.Server)
			misbehave(t, s.Server, bmctest.EjectFails, -1)
		}},
		"waiting": {noProviderID: true, make: func(t *testing.T, s *deletionCase) {
			t.Helper()
			wait(t, s.Server, reason(v1alpha1.BootedCondition, v1alpha1.ReasonPoweredOn))
		}},
		"booting": {noProviderID: true, make: func(t *testing.T, s *deletionCase) {
			t.Helper()
			s.SetPower(false)
			wait(t, s.Server, reason(v1alpha1.BootedCondition, v1alpha1.ReasonWaitingForDHCP))
		}},
		"provisioned": {},
		"external":    {make: changeHost(func(h *v1alpha1.BareMetalHost) { h.Spec.ExternallyProvisioned = true })},
		"quarantined": {make: changeHost(func(h *v1alpha1.BareMetalHost) { h.Spec.Quarantine = &v1alpha1.Quarantine{Reason: "Broken"} })},
		"held": {make: func(t *testing.T, s *deletionCase) {
			t.Helper()
			changeHost(annotate(v1alpha1.PowerHoldPrefix+"anna"))(t, s)
			wait(t, s.Server, func(g Gomega, h *v1alpha1.BareMetalHost) {
				g.Expect(h.Spec.ProviderState.PowerHoldOffTime).NotTo(BeNil())
			})
		}},
		"lost": {make: func(t *testing.T, s *deletionCase) {
			t.Helper()
			controllerstest.ModifyBoot(t, env, s.Host, func(b *v1alpha1.BareMetalBootSpec) {
				b.Failure = &v1alpha1.BootFailure{Reason: v1alpha1.ReasonStateLost, Message: "gone"}
			})
			wait(t, s.Server, phase(v1alpha1.PhaseStateLost))
		}},
		"boot failed": {noProviderID: true, make: func(t *testing.T, s *deletionCase) {
			t.Helper()
			controllerstest.ModifyBoot(t, env, s.Host, func(b *v1alpha1.BareMetalBootSpec) {
				b.Attempt, b.Failure = 2, &v1alpha1.BootFailure{Reason: v1alpha1.ReasonBootTimedOut, Message: "late"}
			})
			wait(t, s.Server, phase(v1alpha1.PhaseBootFailed))
		}},
	}
}

// reachState creates a claimed host and puts it into a state.
func reachState(t *testing.T, state deletionState) *deletionCase {
	t.Helper()
	namespace := env.Namespace(t)
	server := controllerstest.NewServer(t, namespace, "h", bmctest.Options{On: true})
	server.Host.Spec.ConsumerRef = controllerstest.Claimed("m")
	claim := env.NewClaim(t, namespace, "m", func(c *controllerstest.Claim) {
		if !state.noProviderID {
			c.BareMetalMachine.Spec.ProviderID = inventory.ProviderID(namespace, "h", "m")
		}
	})
	register(t, server)
	s := &deletionCase{server, claim}
	if !state.noProviderID {
		wait(t, server, phase(v1alpha1.PhaseProvisioned))
	}
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) { g.Expect(h.Status.Hardware).NotTo(BeNil()) })
	controllerstest.Wait(t, env, claim.BareMetalMachine, func(g Gomega, m *v1alpha1.BareMetalMachine) {
		g.Expect(m.Finalizers).To(ContainElement(v1alpha1.MachineFinalizer))
	})
	if state.make != nil {
		state.make(t, s)
	}
	return s
}

// TestMachineDeletionHasAnExit: a deleted machine is removed automatically, whatever the state of its host. Otherwise the machine and the host say what
// the deletion waits for and how to end the wait, and that ends it.
func TestMachineDeletionHasAnExit(t *testing.T) {
	startBoth(t, controllerstest.Settings())
	for name, state := range deletionStates() {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // they wait most of the time
			g := NewWithT(t)
			s := reachState(t, state)
			m := s.claim.BareMetalMachine
			g.Expect(env.Client.Delete(t.Context(), m)).To(Succeed())
			if state.waits != nil {
				messages := []gomegatypes.GomegaMatcher{}
				for _, word := range state.waits {
					messages = append(messages, ContainSubstring(word))
				}
				wait(t, s.Server, func(g Gomega, h *v1alpha1.BareMetalHost) {
					g.Expect(conditions.IsFalse(h, v1alpha1.ReadyCondition)).To(BeTrue())
					g.Expect(conditions.GetMessage(h, v1alpha1.ReadyCondition)).To(And(messages...))
				})
				controllerstest.Wait(t, env, m, func(g Gomega, m *v1alpha1.BareMetalMachine) {
					g.Expect(conditions.GetMessage(m, v1alpha1.DeletingCondition)).To(And(messages...))
					g.Expect(conditions.GetMessage(m, v1alpha1.ReadyCondition)).To(And(messages...))
				})
				g.Expect(s.Host.Spec.ConsumerRef).NotTo(BeNil())
				state.exit(t, s)
			}
			env.Gone(t, m)
			wait(t, s.Server, func(g Gomega, h *v1alpha1.BareMetalHost) { g.Expect(h.Spec.ConsumerRef).To(BeNil()) })
			if !state.unfenced {
				return
			}
			g.Expect(s.Host.Annotations).NotTo(HaveKey(v1alpha1.ReleaseUnfencedAnnotation))
			g.Expect(s.Host.Spec.Quarantine).To(HaveValue(And(HaveField("Reason", v1alpha1.ReasonReleasedUnfenced),
				HaveField("Message", And(ContainSubstring("anna: the rack burns"), ContainSubstring(`BareMetalMachine "m"`))), HaveField("StartTime", Not(BeNil())))))
			g.Expect(s.On()).To(BeTrue())
			wait(t, s.Server, func(g Gomega, h *v1alpha1.BareMetalHost) {
				g.Expect(conditions.IsTrue(h, v1alpha1.AvailableCondition)).To(BeFalse())
			})
		})
	}
}

// TestHostDeletionHasAnExit: a deleted host that a machine has says that it waits for the machine. Once detached, it is removed immediately, without a command to its server.
// TestHostDeletionNamesItsExit and TestPropertyDetachedHostIsDeletedAtOnce show that for every state.
func TestHostDeletionHasAnExit(t *testing.T) {
	startBoth(t, controllerstest.Settings())
	states := deletionStates()
	for _, name := range []string{"booting", "provisioned", "detached", "host paused", "cluster paused", "cluster gone", "BMC dead", "credentials missing", "held"} {
		state, ok := states[name]
		NewWithT(t).Expect(ok).To(BeTrue(), name)
		t.Run(name, func(t *testing.T) {
			t.Parallel() // they wait most of the time
			g := NewWithT(t)
			s := reachState(t, state)
			if name != "detached" {
				g.Expect(env.Client.Delete(t.Context(), s.Host)).To(Succeed())
				wait(t, s.Server, func(g Gomega, h *v1alpha1.BareMetalHost) {
					g.Expect(conditions.GetReason(h, v1alpha1.ReadyCondition)).To(Equal(v1alpha1.ReasonDeleting))
					g.Expect(conditions.GetMessage(h, v1alpha1.ReadyCondition)).To(And(ContainSubstring(`BareMetalMachine "m"`), ContainSubstring(detach)))
				})
				changeHost(annotate(v1alpha1.DetachedAnnotation))(t, s)
			} else {
				wait(t, s.Server, phase(v1alpha1.PhaseDetached))
				g.Expect(env.Client.Delete(t.Context(), s.Host)).To(Succeed())
			}
			commands := s.CommandNames()
			on := s.On()
			env.Gone(t, s.Host)
			g.Expect(s.CommandNames()).To(Equal(commands))
			g.Expect(s.On()).To(Equal(on))
			g.Expect(env.Client.Delete(t.Context(), s.claim.BareMetalMachine)).To(Succeed())
			if name == "cluster paused" {
				pause(false)(t, s)
			}
			env.Gone(t, s.claim.BareMetalMachine)
		})
	}
}

// TestPausedFreeHostSaysSo: a deleted free host that is paused says that it waits for the end of the pause.
func TestPausedFreeHostSaysSo(t *testing.T) {
	g := NewWithT(t)
	defer start(t)()
	server := controllerstest.NewServer(t, env.Namespace(t), "h", bmctest.Options{})
	register(t, server)
	wait(t, server, phase(v1alpha1.PhaseAvailable))
	controllerstest.Modify(t, env, server.Host, annotate(clusterv1.PausedAnnotation))
	g.Expect(env.Client.Delete(t.Context(), server.Host)).To(Succeed())
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(conditions.GetMessage(h, v1alpha1.ReadyCondition)).To(And(ContainSubstring(clusterv1.PausedAnnotation), ContainSubstring(detach)))
	})
	controllerstest.Modify(t, env, server.Host, unannotate(clusterv1.PausedAnnotation))
	env.Gone(t, server.Host)
}

// TestReleaseUnfencedAfter: with releaseUnfencedAfter, a host that could not be powered off in time is force-released without fencing, and no other
// host.
func TestReleaseUnfencedAfter(t *testing.T) {
	g := NewWithT(t)
	clock := startBoth(t, controllerstest.Settings())
	s := reachState(t, deletionState{make: faulty(bmctest.Down)})
	changeHost(func(h *v1alpha1.BareMetalHost) {
		h.Spec.ReleaseUnfencedAfterSeconds = new(int32(600))
	})(t, s)
	g.Expect(env.Client.Delete(t.Context(), s.claim.BareMetalMachine)).To(Succeed())
	wait(t, s.Server, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(conditions.GetMessage(h, v1alpha1.ReadyCondition)).To(And(ContainSubstring("Waiting for the BMC"), ContainSubstring(forceRelease)))
	})
	clock.forward(5 * time.Minute)
	changeHost(func(h *v1alpha1.BareMetalHost) { h.Labels = map[string]string{"reconcile": "1"} })(t, s)
	g.Consistently(func() *v1alpha1.ConsumerReference {
		g.Expect(env.Client.Get(t.Context(), keyOf(s.Host), s.Host)).To(Succeed())
		return s.Host.Spec.ConsumerRef
	}, time.Second).ShouldNot(BeNil())
	clock.forward(5 * time.Minute)
	changeHost(func(h *v1alpha1.BareMetalHost) { h.Labels = map[string]string{"reconcile": "2"} })(t, s)
	env.Gone(t, s.claim.BareMetalMachine)
	wait(t, s.Server, phase(v1alpha1.PhaseQuarantined))
	g.Expect(s.Host.Spec.Quarantine).To(HaveValue(And(HaveField("Reason", v1alpha1.ReasonReleasedUnfenced),
		HaveField("Message", And(ContainSubstring("spec.releaseUnfencedAfterSeconds is 600"), ContainSubstring(`BareMetalMachine "m"`))))))
}

// TestReleaseUnfencedOfARunningMachine: the annotation has no effect on a machine that is not being deleted, and is not kept until it is.
func TestReleaseUnfencedOfARunningMachine(t *testing.T) {
	g := NewWithT(t)
	startBoth(t, controllerstest.Settings())
	s := reachState(t, deletionState{})
	changeHost(annotate(v1alpha1.ReleaseUnfencedAnnotation))(t, s)
	server := s.Server
	misbehave(t, server, bmctest.Down, -1)
	wait(t, server, reason(v1alpha1.ReadyCondition, v1alpha1.ReasonBMCUnreachable)) // the host was reconciled since
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(h.Annotations).NotTo(HaveKey(v1alpha1.ReleaseUnfencedAnnotation))
		g.Expect(h.Status.LastOperation).To(HaveValue(HaveField("Message", ContainSubstring("delete its Machine first"))))
		phase(v1alpha1.PhaseProvisioned)(g, h)
	})
	g.Expect(server.Host.Spec.ConsumerRef).NotTo(BeNil())
	g.Expect(server.CommandNames()).To(BeEmpty())
}

// TestReleaseUnfencedOfAQuarantinedHost: the quarantine message of a host that was already in quarantine includes both reasons.
func TestReleaseUnfencedOfAQuarantinedHost(t *testing.T) {
	g := NewWithT(t)
	startBoth(t, controllerstest.Settings())
	s := reachState(t, deletionState{make: faulty(bmctest.Down)})
	changeHost(func(h *v1alpha1.BareMetalHost) {
		h.Spec.Quarantine = &v1alpha1.Quarantine{Reason: "RemediationFailed", Message: "it was power-cycled"}
	})(t, s)
	g.Expect(env.Client.Delete(t.Context(), s.claim.BareMetalMachine)).To(Succeed())
	changeHost(annotate(v1alpha1.ReleaseUnfencedAnnotation))(t, s)
	env.Gone(t, s.claim.BareMetalMachine)
	wait(t, s.Server, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(h.Spec.Quarantine).To(HaveValue(And(HaveField("Reason", v1alpha1.ReasonReleasedUnfenced),
			HaveField("Message", And(ContainSubstring("anna: the rack burns"), ContainSubstring("RemediationFailed: it was power-cycled"))))))
	})
}

// TestNamespaceGoes: a deleted namespace with hosts, machines, Clusters and Secrets is removed, in whatever order the objects are deleted. The API
// server of the tests has no namespace controller, so the test deletes the objects.
func TestNamespaceGoes(t *testing.T) {
	startBoth(t, controllerstest.Settings())
	kinds := map[string]client.Object{
		"Secret": &corev1.Secret{}, "Cluster": &clusterv1.Cluster{}, "Machine": &clusterv1.Machine{},
		"BareMetalMachine": &v1alpha1.BareMetalMachine{}, "BareMetalHost": &v1alpha1.BareMetalHost{},
	}
	for name, order := range map[string][]string{
		"Secrets first":  {"Secret", "BareMetalHost", "BareMetalMachine", "Machine", "Cluster"},
		"Cluster first":  {"Cluster", "Machine", "BareMetalMachine", "BareMetalHost", "Secret"},
		"machines first": {"Machine", "BareMetalMachine", "Secret", "Cluster", "BareMetalHost"},
		"hosts first":    {"BareMetalHost", "Secret", "Machine", "Cluster", "BareMetalMachine"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			namespace := populate(t)
			g.Expect(env.Client.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})).To(Succeed())
			for _, kind := range order {
				g.Expect(env.Client.DeleteAllOf(t.Context(), kinds[kind], client.InNamespace(namespace))).To(Succeed())
			}
			g.Eventually(func(g Gomega) {
				var hosts v1alpha1.BareMetalHostList
				var machines v1alpha1.BareMetalMachineList
				g.Expect(env.Client.List(t.Context(), &hosts, client.InNamespace(namespace))).To(Succeed())
				g.Expect(env.Client.List(t.Context(), &machines, client.InNamespace(namespace))).To(Succeed())
				for _, h := range hosts.Items {
					g.Expect(h.Name).To(BeEmpty(), "it waits: %s", conditions.GetMessage(&h, v1alpha1.ReadyCondition))
				}
				g.Expect(machines.Items).To(BeEmpty())
			}, 60*time.Second, 50*time.Millisecond).Should(Succeed())
		})
	}
}

// populate creates a namespace with a free host, a booting host, a host that runs its machine, a host whose BMC is unreachable, and a host in
// maintenance.
func populate(t *testing.T) string {
	t.Helper()
	namespace := env.Namespace(t)
	var last []func()
	for i, name := range []string{"free", "booting", "running", "dead", "kept"} {
		server := controllerstest.NewServer(t, namespace, name, bmctest.Options{On: i >= 2})
		if name == "free" {
			register(t, server)
			last = append(last, func() { wait(t, server, phase(v1alpha1.PhaseAvailable)) })
			continue
		}
		server.Host.Spec.ConsumerRef = controllerstest.Claimed("m-" + name)
		env.NewClaim(t, namespace, "m-"+name, func(c *controllerstest.Claim) {
			if name != "booting" {
				c.BareMetalMachine.Spec.ProviderID = inventory.ProviderID(namespace, name, "m-"+name)
			}
		})
		register(t, server)
		last = append(last, func() {
			if name == "booting" {
				wait(t, server, reason(v1alpha1.BootedCondition, v1alpha1.ReasonWaitingForDHCP))
				return
			}
			wait(t, server, phase(v1alpha1.PhaseProvisioned))
			switch name {
			case "dead":
				misbehave(t, server, bmctest.Down, -1)
			case "kept":
				controllerstest.Modify(t, env, server.Host, func(h *v1alpha1.BareMetalHost) { h.Spec.Maintenance = &v1alpha1.Maintenance{Reason: "new fan"} })
			}
		})
	}
	for _, f := range last {
		f()
	}
	return namespace
}
