package bootstrap

import (
	"context"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	bootstrapv1 "github.com/capbm-io/cluster-api-provider-baremetal/api/bootstrap/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
)

var env *controllerstest.Env

func TestMain(m *testing.M) { controllerstest.Main(m, &env) }

// world is a worker Machine with its Cluster and its config, as Cluster API creates them.
type world struct {
	namespace string
	cluster   *clusterv1.Cluster
	machine   *clusterv1.Machine
	config    *bootstrapv1.BareMetalConfig
}

const clusterName = "c"

// newWorld makes the objects. create creates them, after the test changed them.
func newWorld(t *testing.T) *world {
	t.Helper()
	namespace := env.Namespace(t)
	labels := map[string]string{clusterv1.ClusterNameLabel: clusterName}
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "m", Labels: labels}
	return &world{
		namespace: namespace,
		cluster: &clusterv1.Cluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: clusterName},
			Spec: clusterv1.ClusterSpec{
				ControlPlaneEndpoint: clusterv1.APIEndpoint{Host: "192.0.2.10", Port: 6443},
				InfrastructureRef:    clusterv1.ContractVersionedObjectReference{APIGroup: v1alpha1.GroupVersion.Group, Kind: "BareMetalCluster", Name: clusterName},
			},
		},
		machine: &clusterv1.Machine{
			ObjectMeta: meta,
			Spec: clusterv1.MachineSpec{
				ClusterName: clusterName, Version: "v1.36.3",
				Bootstrap: clusterv1.Bootstrap{ConfigRef: clusterv1.ContractVersionedObjectReference{
					APIGroup: bootstrapv1.GroupVersion.Group, Kind: "BareMetalConfig", Name: "m",
				}},
				InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: v1alpha1.GroupVersion.Group, Kind: "BareMetalMachine", Name: "m"},
			},
		},
		config: &bootstrapv1.BareMetalConfig{
			ObjectMeta: meta,
			Spec: bootstrapv1.BareMetalConfigSpec{
				UserData: "#cloud-config\n# <% .Machine.Name %> of <% .Cluster.Name %>\n", Commands: []string{"join <% .Cluster.ControlPlaneEndpoint.Host %>"},
			},
		},
	}
}

// create creates the objects, and sets the owner references as Cluster API does. The infrastructure and the control plane of the Cluster are ready.
func (w *world) create(t *testing.T) *world {
	t.Helper()
	w.createCluster(t, true, true)
	w.createMachine(t)
	return w
}

func (w *world) createCluster(t *testing.T, infrastructure, controlPlane bool) {
	t.Helper()
	env.Create(t, w.cluster)
	w.initialize(t, infrastructure, controlPlane)
}

func (w *world) initialize(t *testing.T, infrastructure, controlPlane bool) {
	t.Helper()
	// Cluster API writes the condition in a request before that of the field.
	controllerstest.Wait(t, env, w.cluster, func(g Gomega, c *clusterv1.Cluster) {
		status := metav1.ConditionFalse
		if controlPlane {
			status = metav1.ConditionTrue
		}
		conditions.Set(c, metav1.Condition{Type: clusterv1.ClusterControlPlaneInitializedCondition, Status: status, Reason: "Test"})
		g.Expect(env.Client.Status().Update(t.Context(), c)).To(Succeed())
	})
	controllerstest.Wait(t, env, w.cluster, func(g Gomega, c *clusterv1.Cluster) {
		c.Status.Initialization = clusterv1.ClusterInitializationStatus{InfrastructureProvisioned: new(infrastructure), ControlPlaneInitialized: new(controlPlane)}
		g.Expect(env.Client.Status().Update(t.Context(), c)).To(Succeed())
	})
}

func (w *world) createMachine(t *testing.T) {
	t.Helper()
	env.Create(t, w.machine)
	w.config.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: w.machine.Name, UID: w.machine.UID, Controller: new(true),
	}}
	env.Create(t, w.config)
}

func start(t *testing.T, filter string) {
	t.Helper()
	env.StartManager(t, func(ctx context.Context, mgr ctrl.Manager) error {
		return (&Reconciler{
			Client: mgr.GetClient(), Recorder: mgr.GetEventRecorder("test"), WatchFilter: filter, RetryInterval: 200 * time.Millisecond,
		}).SetupWithManager(ctx, mgr, controller.Options{})
	})
}

// expect waits until the config has a reason, and returns the message.
func (w *world) expect(t *testing.T, reason string) string {
	t.Helper()
	var message string
	controllerstest.Wait(t, env, w.config, func(g Gomega, c *bootstrapv1.BareMetalConfig) {
		for _, name := range []string{bootstrapv1.DataSecretAvailableCondition, bootstrapv1.ReadyCondition} {
			condition := conditions.Get(c, name)
			g.Expect(condition).NotTo(BeNil())
			g.Expect(condition.Reason).To(Equal(reason), condition.Message)
			status := metav1.ConditionFalse
			if reason == bootstrapv1.ReasonDataSecretCreated {
				status = metav1.ConditionTrue
			}
			g.Expect(condition.Status).To(Equal(status))
			g.Expect(condition.ObservedGeneration).To(Equal(c.Generation))
			message = condition.Message
		}
	})
	return message
}

func (w *world) secret(t *testing.T) *corev1.Secret {
	t.Helper()
	secret := &corev1.Secret{}
	NewWithT(t).Expect(env.Client.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: w.config.Name}, secret)).To(Succeed())
	return secret
}

func (w *world) noSecret(t *testing.T) {
	t.Helper()
	err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: w.config.Name}, &corev1.Secret{})
	NewWithT(t).Expect(apierrors.IsNotFound(err)).To(BeTrue())
	NewWithT(t).Expect(w.config.Status.Initialization.DataSecretCreated).To(BeNil())
	NewWithT(t).Expect(w.config.Status.DataSecretName).To(BeEmpty())
	NewWithT(t).Expect(w.config.Status.Ready).To(BeFalse())
}

// TestDataSecret: the Secret has what the contract asks for, and the status names it.
func TestDataSecret(t *testing.T) {
	g := NewWithT(t)
	start(t, "")
	w := newWorld(t).create(t)
	w.expect(t, bootstrapv1.ReasonDataSecretCreated)
	g.Expect(w.config.Status.DataSecretName).To(Equal("m"))
	g.Expect(w.config.Status.Initialization.DataSecretCreated).To(HaveValue(BeTrue()))
	g.Expect(w.config.Status.Ready).To(BeTrue())
	g.Expect(w.config.Status.FailureReason).To(BeEmpty())
	g.Expect(w.config.Status.ObservedGeneration).To(Equal(w.config.Generation))
	secret := w.secret(t)
	g.Expect(secret.Labels).To(Equal(map[string]string{clusterv1.ClusterNameLabel: clusterName}))
	g.Expect(metav1.GetControllerOf(secret)).To(HaveField("UID", w.config.UID))
	g.Expect(secret.Type).To(Equal(clusterv1.ClusterSecretType))
	g.Expect(secret.Immutable).To(HaveValue(BeTrue()))
	g.Expect(secret.Data).To(HaveLen(1))
	g.Expect(string(secret.Data["value"])).To(And(ContainSubstring("# m of c"), ContainSubstring("join 192.0.2.10"), ContainSubstring("bootstrap-success.complete")))
}

func TestIgnitionSecret(t *testing.T) {
	g := NewWithT(t)
	start(t, "")
	w := newWorld(t)
	w.config.Spec.Format, w.config.Spec.UserData = bootstrapv1.FormatIgnition, `{"ignition":{"version":"3.4.0"}}`
	w.create(t)
	w.expect(t, bootstrapv1.ReasonDataSecretCreated)
	g.Expect(w.secret(t).Data).To(HaveKeyWithValue("format", []byte("ignition")))
	g.Expect(w.secret(t).Data).To(HaveLen(2))
}

// TestOnce: data that exists is never rendered again, whatever changes.
func TestOnce(t *testing.T) {
	g := NewWithT(t)
	start(t, "")
	w := newWorld(t).create(t)
	w.expect(t, bootstrapv1.ReasonDataSecretCreated)
	before := w.secret(t)
	controllerstest.Modify(t, env, w.config, func(c *bootstrapv1.BareMetalConfig) {
		c.Spec.UserData, c.Spec.Commands = "#cloud-config\n# another\n", []string{"<% .Values.none %>"}
	})
	w.expect(t, bootstrapv1.ReasonDataSecretCreated) // of the new generation
	controllerstest.Modify(t, env, w.config, func(c *bootstrapv1.BareMetalConfig) { c.Status = bootstrapv1.BareMetalConfigStatus{} })
	g.Expect(env.Client.Status().Update(t.Context(), w.config)).To(Succeed())
	controllerstest.Modify(t, env, w.config, func(c *bootstrapv1.BareMetalConfig) { c.Annotations = map[string]string{"example.com/x": "y"} })
	w.expect(t, bootstrapv1.ReasonDataSecretCreated)
	after := w.secret(t)
	g.Expect(after.UID).To(Equal(before.UID))
	g.Expect(after.ResourceVersion).To(Equal(before.ResourceVersion), "nothing was written")
}

// TestSecretDeleted: a deleted Secret is rendered again until the Machine has booted with it, and never after that.
func TestSecretDeleted(t *testing.T) {
	g := NewWithT(t)
	start(t, "")
	w := newWorld(t).create(t)
	w.expect(t, bootstrapv1.ReasonDataSecretCreated)
	touch := func(value string) {
		controllerstest.Modify(t, env, w.config, func(c *bootstrapv1.BareMetalConfig) { c.Annotations = map[string]string{"example.com/x": value} })
	}
	g.Expect(env.Client.Delete(t.Context(), w.secret(t))).To(Succeed())
	touch("1")
	g.Eventually(func() error {
		return env.Client.Get(t.Context(), client.ObjectKeyFromObject(w.config), &corev1.Secret{})
	}).Should(Succeed())
	booted := func(status bool, providerID string) {
		controllerstest.Modify(t, env, w.machine, func(m *clusterv1.Machine) { m.Spec.ProviderID = providerID })
		controllerstest.Wait(t, env, w.machine, func(g Gomega, m *clusterv1.Machine) {
			m.Status.Initialization.InfrastructureProvisioned = new(status)
			g.Expect(env.Client.Status().Update(t.Context(), m)).To(Succeed())
		})
	}
	booted(true, "")
	g.Expect(env.Client.Delete(t.Context(), w.secret(t))).To(Succeed())
	notAgain := func(command string) {
		t.Helper()
		// The generation shows that the config was reconciled with the change.
		controllerstest.Modify(t, env, w.config, func(c *bootstrapv1.BareMetalConfig) { c.Spec.Commands = []string{command} })
		w.expect(t, bootstrapv1.ReasonDataSecretCreated)
		g.Expect(apierrors.IsNotFound(env.Client.Get(t.Context(), client.ObjectKeyFromObject(w.config), &corev1.Secret{}))).To(BeTrue())
	}
	notAgain("false")
	booted(false, "baremetal://n/h/m") // as after a move
	notAgain("true")
}

// TestOwnerOfOthers: a config whose owner does not refer to it is not reconciled: its user wrote that owner into it.
func TestOwnerOfOthers(t *testing.T) {
	start(t, "")
	for what, change := range map[string]func(*clusterv1.Machine){
		"another name":  func(m *clusterv1.Machine) { m.Spec.Bootstrap.ConfigRef.Name = "other" },
		"another kind":  func(m *clusterv1.Machine) { m.Spec.Bootstrap.ConfigRef.Kind = "KubeadmConfig" },
		"another group": func(m *clusterv1.Machine) { m.Spec.Bootstrap.ConfigRef.APIGroup = "example.com" },
		"a hand-written Secret": func(m *clusterv1.Machine) {
			m.Spec.Bootstrap = clusterv1.Bootstrap{DataSecretName: new("m")}
		},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			change(w.machine)
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "m"}, StringData: map[string]string{"value": "theirs"}}
			env.Create(t, secret)
			w.create(t)
			other := newWorld(t).create(t)
			other.expect(t, bootstrapv1.ReasonDataSecretCreated) // created later, so the first was reconciled
			g := NewWithT(t)
			g.Expect(w.secret(t).ResourceVersion).To(Equal(secret.ResourceVersion))
			g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(w.config), w.config)).To(Succeed())
			g.Expect(w.config.Status).To(Equal(bootstrapv1.BareMetalConfigStatus{}))
		})
	}
}

// TestRestore: the owner and the label that a user or a backup tool removes are restored, if the Secret belongs to the config.
func TestRestore(t *testing.T) {
	g := NewWithT(t)
	start(t, "")
	w := newWorld(t).create(t)
	w.expect(t, bootstrapv1.ReasonDataSecretCreated)
	controllerstest.Modify(t, env, w.machine, func(m *clusterv1.Machine) { m.Spec.Bootstrap.DataSecretName = new("m") }) // as Cluster API does
	for what, change := range map[string]func(*corev1.Secret){
		"no label":                           func(s *corev1.Secret) { s.Labels = nil },
		"no owner":                           func(s *corev1.Secret) { s.OwnerReferences = nil },
		"owner of a UID that does not exist": func(s *corev1.Secret) { s.OwnerReferences[0].UID = "former" },
	} {
		secret := w.secret(t)
		controllerstest.Modify(t, env, secret, change)
		controllerstest.Modify(t, env, w.config, func(c *bootstrapv1.BareMetalConfig) {
			c.Annotations = map[string]string{"example.com/x": strings.ReplaceAll(what, " ", "-")}
		})
		controllerstest.Wait(t, env, secret, func(g Gomega, s *corev1.Secret) {
			g.Expect(s.Labels).To(HaveKeyWithValue(clusterv1.ClusterNameLabel, clusterName), what)
			g.Expect(s.OwnerReferences).To(ConsistOf(And(HaveField("UID", w.config.UID), HaveField("Controller", HaveValue(BeTrue())))), what)
		})
	}
	w.expect(t, bootstrapv1.ReasonDataSecretCreated)
	g.Expect(string(w.secret(t).Data["value"])).To(ContainSubstring("# m of c"))
}

// TestSecretOfOthers: a Secret that is not the config's is never changed, with any owner or none.
func TestSecretOfOthers(t *testing.T) {
	start(t, "")
	for what, change := range map[string]func(*corev1.Secret){
		"a user's": func(*corev1.Secret) {},
		"another object's": func(s *corev1.Secret) {
			s.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "x", Controller: new(true)}}
		},
		"a former config's": func(s *corev1.Secret) {
			s.OwnerReferences = []metav1.OwnerReference{{APIVersion: bootstrapv1.GroupVersion.String(), Kind: configKind, Name: "m", UID: "former", Controller: new(true)}}
		},
		"labeled like ours": func(s *corev1.Secret) {
			s.Labels, s.Type = map[string]string{clusterv1.ClusterNameLabel: clusterName}, clusterv1.ClusterSecretType
		},
		"marked, and not named by the Machine": func(s *corev1.Secret) {
			s.Type, s.Immutable, s.Annotations = clusterv1.ClusterSecretType, new(true), map[string]string{bootstrapv1.ConfigAnnotation: "m"}
		},
		"named by the Machine": func(s *corev1.Secret) {
			s.Type = corev1.SecretTypeBasicAuth
			s.StringData = map[string]string{"username": "u", "password": "p"}
		},
		"named by the Machine, and Cluster API's": func(s *corev1.Secret) { s.Type, s.Immutable = clusterv1.ClusterSecretType, new(true) },
		"named by the Machine, and another config's": func(s *corev1.Secret) {
			s.Type, s.Immutable, s.Annotations = clusterv1.ClusterSecretType, new(true), map[string]string{bootstrapv1.ConfigAnnotation: "other"}
		},
		"named by the Machine, marked, and of another type": func(s *corev1.Secret) {
			s.Immutable, s.Annotations = new(true), map[string]string{bootstrapv1.ConfigAnnotation: "m"}
		},
		"named by the Machine, marked, and mutable": func(s *corev1.Secret) {
			s.Type, s.Annotations = clusterv1.ClusterSecretType, map[string]string{bootstrapv1.ConfigAnnotation: "m"}
		},
	} {
		t.Run(what, func(t *testing.T) {
			g := NewWithT(t)
			w := newWorld(t)
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "m"}, StringData: map[string]string{"value": "theirs"}}
			change(secret)
			env.Create(t, secret)
			owner := metav1.GetControllerOf(secret)
			if owner != nil && owner.Kind != configKind || strings.HasPrefix(what, "named by the Machine") {
				w.machine.Spec.Bootstrap.DataSecretName = new("m") // the Machine does not make it the config's
			}
			w.create(t)
			g.Expect(w.expect(t, bootstrapv1.ReasonSecretConflict)).To(ContainSubstring("Secret m exists and is not this config's"))
			after := w.secret(t)
			g.Expect(after.ResourceVersion).To(Equal(secret.ResourceVersion))
			g.Expect(w.config.Status.Initialization.DataSecretCreated).To(BeNil())
			g.Expect(env.Client.Delete(t.Context(), after)).To(Succeed())
			w.expect(t, bootstrapv1.ReasonDataSecretCreated)
			g.Expect(string(w.secret(t).Data["value"])).To(ContainSubstring("# m of c"))
		})
	}
}

// TestWaits: nothing is rendered before the Cluster has come as far as the spec says.
func TestWaits(t *testing.T) {
	start(t, "")
	t.Run("a worker", func(t *testing.T) {
		w := newWorld(t)
		w.createCluster(t, false, false)
		w.createMachine(t)
		w.expect(t, bootstrapv1.ReasonWaitingForInfrastructure)
		w.noSecret(t)
		w.initialize(t, true, false)
		NewWithT(t).Expect(w.expect(t, bootstrapv1.ReasonWaitingForControlPlane)).To(ContainSubstring("Set spec.waitFor to Infrastructure"))
		w.noSecret(t)
		w.initialize(t, true, true)
		w.expect(t, bootstrapv1.ReasonDataSecretCreated)
	})
	t.Run("a worker that needs no control plane", func(t *testing.T) {
		w := newWorld(t)
		w.config.Spec.WaitFor = bootstrapv1.WaitForInfrastructure
		w.createCluster(t, true, false)
		w.createMachine(t)
		w.expect(t, bootstrapv1.ReasonDataSecretCreated)
	})
	t.Run("a control plane machine", func(t *testing.T) {
		w := newWorld(t)
		w.machine.Labels[clusterv1.MachineControlPlaneLabel] = ""
		w.createCluster(t, true, false)
		w.createMachine(t)
		w.expect(t, bootstrapv1.ReasonDataSecretCreated)
	})
	t.Run("a control plane machine that waits for the first", func(t *testing.T) {
		w := newWorld(t)
		w.machine.Labels[clusterv1.MachineControlPlaneLabel], w.config.Spec.WaitFor = "", bootstrapv1.WaitForControlPlane
		w.createCluster(t, true, false)
		w.createMachine(t)
		w.expect(t, bootstrapv1.ReasonWaitingForControlPlane)
		w.noSecret(t)
	})
}

// TestOwners: without a Machine nothing is written, without a Cluster and with a MachinePool only the condition.
func TestOwners(t *testing.T) {
	start(t, "")
	t.Run("no Machine", func(t *testing.T) {
		w := newWorld(t)
		w.createCluster(t, true, true)
		env.Create(t, w.config)
		other := newWorld(t).create(t)
		other.expect(t, bootstrapv1.ReasonDataSecretCreated) // created later, so the first was reconciled
		w.noSecret(t)
		NewWithT(t).Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(w.config), w.config)).To(Succeed())
		NewWithT(t).Expect(w.config.Status).To(Equal(bootstrapv1.BareMetalConfigStatus{}))
	})
	t.Run("no Cluster", func(t *testing.T) {
		w := newWorld(t)
		w.createMachine(t)
		NewWithT(t).Expect(w.expect(t, bootstrapv1.ReasonClusterNotFound)).To(Equal("Machine m names Cluster c in spec.clusterName, which does not exist"))
		w.noSecret(t)
		w.createCluster(t, true, true)
		w.expect(t, bootstrapv1.ReasonDataSecretCreated)
	})
	t.Run("a MachinePool", func(t *testing.T) {
		w := newWorld(t)
		w.createCluster(t, true, true)
		w.config.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "MachinePool", Name: "p", UID: "p"}}
		env.Create(t, w.config)
		NewWithT(t).Expect(w.expect(t, bootstrapv1.ReasonOwnerUnsupported)).To(ContainSubstring("Use a MachineDeployment"))
		NewWithT(t).Expect(w.config.Status.FailureReason).To(Equal(bootstrapv1.ReasonOwnerUnsupported))
		w.noSecret(t)
	})
	t.Run("a Machine that is deleted", func(t *testing.T) {
		w := newWorld(t)
		w.machine.Finalizers = []string{"example.com/wait"}
		w.createCluster(t, true, true)
		env.Create(t, w.machine)
		NewWithT(t).Expect(env.Client.Delete(t.Context(), w.machine)).To(Succeed())
		w.config.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: "m", UID: w.machine.UID}}
		env.Create(t, w.config)
		controllerstest.Wait(t, env, w.config, func(g Gomega, c *bootstrapv1.BareMetalConfig) {
			g.Expect(conditions.IsFalse(c, clusterv1.PausedCondition)).To(BeTrue())
		})
		other := newWorld(t).create(t)
		other.expect(t, bootstrapv1.ReasonDataSecretCreated)
		w.noSecret(t)
		controllerstest.Modify(t, env, w.machine, func(m *clusterv1.Machine) { m.Finalizers = nil })
	})
}

// TestPausing: nothing is rendered while the config or its Cluster is paused, and the condition Paused shows it.
func TestPausing(t *testing.T) {
	start(t, "")
	for what, pause := range map[string]func(*world, bool){
		"config": func(w *world, paused bool) {
			w.config.Annotations = nil
			if paused {
				w.config.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
			}
		},
		"Cluster": func(w *world, paused bool) { w.cluster.Spec.Paused = new(paused) },
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			pause(w, true)
			w.create(t)
			controllerstest.Wait(t, env, w.config, func(g Gomega, c *bootstrapv1.BareMetalConfig) {
				g.Expect(conditions.IsTrue(c, clusterv1.PausedCondition)).To(BeTrue())
			})
			w.noSecret(t)
			if what == "config" {
				controllerstest.Modify(t, env, w.config, func(*bootstrapv1.BareMetalConfig) { pause(w, false) })
			} else {
				controllerstest.Modify(t, env, w.cluster, func(*clusterv1.Cluster) { pause(w, false) })
			}
			w.expect(t, bootstrapv1.ReasonDataSecretCreated)
			NewWithT(t).Expect(conditions.IsFalse(w.config, clusterv1.PausedCondition)).To(BeTrue())
		})
	}
}

// TestWatchFilter: configs without the label are not reconciled, also when their Machine or Cluster changes.
func TestWatchFilter(t *testing.T) {
	start(t, "mine")
	w, mine, later := newWorld(t), newWorld(t), newWorld(t)
	for _, m := range []*world{mine, later} {
		m.config.Labels = map[string]string{clusterv1.ClusterNameLabel: clusterName, clusterv1.WatchLabel: "mine"}
	}
	w.create(t)
	mine.create(t)
	mine.expect(t, bootstrapv1.ReasonDataSecretCreated)
	// By now the cache has the config without the label, which the change of its Machine enqueues before the last config.
	controllerstest.Modify(t, env, w.machine, func(m *clusterv1.Machine) { m.Annotations = map[string]string{"example.com/x": "y"} })
	later.create(t)
	later.expect(t, bootstrapv1.ReasonDataSecretCreated)
	w.noSecret(t)
}
