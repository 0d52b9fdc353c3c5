package rules

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	bootstrapv1 "github.com/capbm-io/cluster-api-provider-baremetal/api/bootstrap/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/config/provider"
)

const (
	bootstrapNamespace = "capbm-bootstrap-system"
	bootstrapUser      = "system:serviceaccount:" + bootstrapNamespace + ":capbm-bootstrap-manager"
	// rendering is the namespace and the name of the Cluster, and the beginning of the names of the other objects, of the bootstrap rules.
	rendering = "rendering"
)

// bootstrapConfig is the config of the Machine of the bootstrap rules. Cluster API creates it from a template.
func (s *suite) bootstrapConfig(t *testing.T) (*clusterv1.Machine, *bootstrapv1.BareMetalConfig) {
	t.Helper()
	machine, config := &clusterv1.Machine{}, &bootstrapv1.BareMetalConfig{}
	eventually(t, func(g Gomega) {
		var machines clusterv1.MachineList
		g.Expect(s.plane.Client.List(t.Context(), &machines, client.InNamespace(rendering), client.MatchingLabels{clusterv1.MachineDeploymentNameLabel: rendering})).To(Succeed())
		g.Expect(machines.Items).To(HaveLen(1))
		*machine = machines.Items[0]
		g.Expect(s.plane.Client.Get(t.Context(), types.NamespacedName{Namespace: rendering, Name: machine.Spec.Bootstrap.ConfigRef.Name}, config)).To(Succeed())
	})
	return machine, config
}

// bootstrapBecomes waits until a config and its Machine show a reason.
func (s *suite) bootstrapBecomes(t *testing.T, machine *clusterv1.Machine, config *bootstrapv1.BareMetalConfig, reason string) {
	t.Helper()
	eventually(t, func(g Gomega) {
		g.Expect(s.plane.Client.Get(t.Context(), client.ObjectKeyFromObject(config), config)).To(Succeed())
		ready := conditions.Get(config, bootstrapv1.ReadyCondition)
		g.Expect(ready).NotTo(BeNil())
		g.Expect(ready.Reason).To(Equal(reason), ready.Message)
		if machine == nil {
			return
		}
		g.Expect(s.plane.Client.Get(t.Context(), client.ObjectKeyFromObject(machine), machine)).To(Succeed())
		mirror := conditions.Get(machine, clusterv1.MachineBootstrapConfigReadyCondition)
		g.Expect(mirror).NotTo(BeNil())
		g.Expect([]any{mirror.Status, mirror.Reason, mirror.Message}).To(Equal([]any{ready.Status, ready.Reason, ready.Message}))
	})
}

// bootstrapMachineSpec is that of a Machine with a config, of no template.
func bootstrapMachineSpec(name string) clusterv1.MachineSpec {
	return clusterv1.MachineSpec{
		ClusterName: rendering, InfrastructureRef: infrastructure("BareMetalMachine", name),
		Bootstrap: clusterv1.Bootstrap{ConfigRef: clusterv1.ContractVersionedObjectReference{APIGroup: bootstrapv1.GroupVersion.Group, Kind: "BareMetalConfig", Name: name}},
	}
}

const configTemplate = `
apiVersion: v1
kind: Secret
metadata: {namespace: rendering, name: values, labels: {baremetalconfig.bootstrap.cluster.x-k8s.io/value-secret: ""}}
stringData: {token: "the token"}
---
apiVersion: v1
kind: ConfigMap
metadata: {namespace: rendering, name: values}
data: {site: here}
---
apiVersion: bootstrap.cluster.x-k8s.io/v1alpha1
kind: BareMetalConfigTemplate
metadata: {namespace: rendering, name: rendering}
spec:
  template:
    metadata: {labels: {example.com/of: template}}
    spec:
      values:
      - {name: token, secretKeyRef: {name: values, key: token}}
      - {name: site, configMapKeyRef: {name: values, key: site}}
      userData: |
        #cloud-config
        # <% .Machine.Name %> at <% .Values.site %>, taints <% range .Taints %><% . %><% end %>
      commands:
      - echo <% shellQuote .Values.token %> >"$OUT"
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata: {namespace: rendering, name: rendering}
spec:
  clusterName: rendering
  replicas: 1
  template:
    spec:
      clusterName: rendering
      bootstrap: {configRef: {apiGroup: bootstrap.cluster.x-k8s.io, kind: BareMetalConfigTemplate, name: rendering}}
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: BareMetalMachineTemplate, name: rendering}
`

// bootstrapBehavior follows a config through the steps of the contract's workflow: without a Machine nothing, then what it waits for, then the Secret.
func (s *suite) bootstrapBehavior(t *testing.T) {
	g := NewWithT(t)
	ctx, c := t.Context(), s.plane.Client
	g.Expect(c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: rendering}})).To(Succeed())
	ownerless := &bootstrapv1.BareMetalConfig{ObjectMeta: meta(rendering, "ownerless"), Spec: bootstrapv1.BareMetalConfigSpec{Commands: []string{"true"}}}
	g.Expect(c.Create(ctx, ownerless)).To(Succeed())
	s.createBareCluster(ctx, t, rendering, rendering, &v1alpha1.BareMetalCluster{})
	template := &v1alpha1.BareMetalMachineTemplate{ObjectMeta: meta(rendering, rendering)}
	template.Spec.Template.Spec = s.machineSpec(t)
	g.Expect(c.Create(ctx, template)).To(Succeed())
	g.Expect(s.plane.Apply(ctx, configTemplate)).To(Succeed())
	machine, config := s.bootstrapConfig(t)
	s.bootstrapBecomes(t, machine, config, bootstrapv1.ReasonWaitingForInfrastructure)
	g.Expect(config.OwnerReferences).To(ContainElement(And(HaveField("Kind", "Machine"), HaveField("Name", machine.Name))))
	infra := &v1alpha1.BareMetalCluster{ObjectMeta: meta(rendering, rendering)}
	g.Expect(c.Patch(ctx, infra, merge(`{"spec":{"controlPlaneEndpoint":{"host":"192.0.2.13","port":6443}}}`))).To(Succeed())
	s.bootstrapBecomes(t, machine, config, bootstrapv1.ReasonWaitingForControlPlane)
	g.Expect(apierrors.IsNotFound(c.Get(ctx, client.ObjectKeyFromObject(config), &corev1.Secret{}))).To(BeTrue())
	g.Expect(machine.Spec.Bootstrap.DataSecretName).To(BeNil())
	g.Expect(c.Patch(ctx, config, merge(`{"spec":{"waitFor":"Infrastructure"}}`))).To(Succeed())
	s.bootstrapBecomes(t, machine, config, bootstrapv1.ReasonDataSecretCreated)
	s.get(t, rendering, "ownerless", ownerless)
	g.Expect(ownerless.Status).To(Equal(bootstrapv1.BareMetalConfigStatus{}), "without a Machine nothing is done")
}

func (s *suite) configDefinition(t *testing.T) {
	g := NewWithT(t)
	s.defined(t, "BareMetalConfig", true)
	name := s.field(t, "BareMetalConfig", "status.dataSecretName")
	g.Expect(name.Type).To(Equal("string"))
	g.Expect([]int64{*name.MinLength, *name.MaxLength}).To(Equal([]int64{1, 253}))
	g.Expect(*s.field(t, "BareMetalConfig", "status.initialization").MinProperties).To(BeEquivalentTo(1))
	g.Expect(s.field(t, "BareMetalConfig", "status.initialization.dataSecretCreated").Type).To(Equal("boolean"))
	g.Expect(s.field(t, "BareMetalConfig", "status.ready").Type).To(Equal("boolean"), "the contract v1beta1's")
	for _, mirror := range []string{"status.failureReason", "status.failureMessage"} {
		g.Expect(s.field(t, "BareMetalConfig", mirror).Type).To(Equal("string"), "Cluster API copies it to the Machine")
	}
	s.expectConditions(t, "BareMetalConfig")
}

func (s *suite) configTemplateDefinition(t *testing.T) {
	g := NewWithT(t)
	s.defined(t, "BareMetalConfigTemplate", false)
	g.Expect(s.field(t, "BareMetalConfigTemplate", "spec.template.metadata").Properties).To(And(HaveKey("labels"), HaveKey("annotations")))
	embedded, spec := s.field(t, "BareMetalConfigTemplate", "spec.template.spec"), s.field(t, "BareMetalConfig", "spec")
	g.Expect(spec.Properties).NotTo(BeEmpty())
	for name := range spec.Properties {
		g.Expect(embedded.Properties).To(HaveKey(name))
	}
	_, config := s.bootstrapConfig(t)
	g.Expect(config.Labels).To(HaveKeyWithValue("example.com/of", "template"), "Cluster API created it from the template")
}

// configAPIGroup shows the role that the contract asks for, which Cluster API's own role aggregates, and what it permits.
func (s *suite) configAPIGroup(t *testing.T) {
	g := NewWithT(t)
	role := &rbacv1.ClusterRole{}
	g.Expect(s.plane.Client.Get(t.Context(), types.NamespacedName{Name: bootstrapNamespace + "-aggregated"}, role)).To(Succeed())
	g.Expect(role.Labels).To(HaveKeyWithValue("cluster.x-k8s.io/aggregate-to-manager", "true"))
	for _, resource := range []string{"baremetalconfigs", "baremetalconfigtemplates"} {
		for _, verb := range []string{"create", "delete", "get", "list", "patch", "update", "watch"} {
			g.Expect(granted(role.Rules)).To(ContainElement(rightOf(verb, resource, bootstrapv1.GroupVersion.Group)))
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User:               "system:serviceaccount:capi-system:capi-manager",
				ResourceAttributes: &authorizationv1.ResourceAttributes{Group: bootstrapv1.GroupVersion.Group, Resource: resource, Verb: verb},
			}}
			g.Expect(s.plane.Client.Create(t.Context(), review)).To(Succeed())
			g.Expect(review.Status.Allowed).To(BeTrue(), "%s %s", verb, resource)
		}
	}
}

func (s *suite) bootstrapSecret(t *testing.T) *corev1.Secret {
	t.Helper()
	_, config := s.bootstrapConfig(t)
	secret := &corev1.Secret{}
	s.get(t, rendering, config.Status.DataSecretName, secret)
	return secret
}

// dataSecret shows the four rules for the Secret, and that its name follows from the name of the config.
func (s *suite) dataSecret(t *testing.T) {
	g := NewWithT(t)
	_, config := s.bootstrapConfig(t)
	secret := s.bootstrapSecret(t)
	g.Expect(secret.Name).To(Equal(config.Name))
	g.Expect(secret.Labels).To(HaveKeyWithValue(clusterv1.ClusterNameLabel, rendering))
	g.Expect(secret.OwnerReferences).To(ConsistOf(And(
		HaveField("Kind", "BareMetalConfig"), HaveField("Name", config.Name), HaveField("UID", config.UID), HaveField("Controller", HaveValue(BeTrue())),
	)))
	g.Expect(secret.Data).To(HaveLen(1))
	g.Expect(string(secret.Data["value"])).To(ContainSubstring("# " + config.Name + " at here"))
}

func (s *suite) dataSecretCreated(t *testing.T) {
	g := NewWithT(t)
	machine, config := s.bootstrapConfig(t)
	g.Expect(config.Status.Initialization.DataSecretCreated).To(HaveValue(BeTrue()))
	eventually(t, func(g Gomega) {
		g.Expect(s.plane.Client.Get(t.Context(), client.ObjectKeyFromObject(machine), machine)).To(Succeed())
		g.Expect(machine.Status.Initialization.BootstrapDataSecretCreated).To(HaveValue(BeTrue()))
		g.Expect(machine.Spec.Bootstrap.DataSecretName).To(HaveValue(Equal(config.Status.DataSecretName)))
	})
	g.Expect(config.Status.Ready).To(BeTrue())
}

func (s *suite) configConditions(t *testing.T) {
	g := NewWithT(t)
	machine, config := s.bootstrapConfig(t)
	s.bootstrapBecomes(t, machine, config, bootstrapv1.ReasonDataSecretCreated)
	g.Expect(conditions.IsTrue(machine, clusterv1.MachineBootstrapConfigReadyCondition)).To(BeTrue())
	for _, c := range config.Status.Conditions {
		g.Expect(c.LastTransitionTime.IsZero()).To(BeFalse(), c.Type)
		g.Expect(c.ObservedGeneration).To(Equal(config.Generation), c.Type)
	}
}

// configFailures: what only the user can correct is in the fields of the old contract too, which Cluster API copies to the Machine, and is gone when it is
// corrected.
func (s *suite) configFailures(t *testing.T) {
	g := NewWithT(t)
	ctx, c := t.Context(), s.plane.Client
	source := &corev1.ConfigMap{ObjectMeta: meta(rendering, "failing"), Data: map[string]string{"data": "<% .Values.none %>"}}
	g.Expect(c.Create(ctx, source)).To(Succeed())
	config := &bootstrapv1.BareMetalConfig{ObjectMeta: meta(rendering, "failing"), Spec: bootstrapv1.BareMetalConfigSpec{
		UserDataFrom: &bootstrapv1.ValueSource{ConfigMapKeyRef: &bootstrapv1.KeyReference{Name: "failing", Key: "data"}}, Commands: []string{"true"},
		WaitFor: bootstrapv1.WaitForInfrastructure,
	}}
	g.Expect(c.Create(ctx, config)).To(Succeed())
	g.Expect(c.Create(ctx, &v1alpha1.BareMetalMachine{ObjectMeta: meta(rendering, "failing"), Spec: s.machineSpec(t)})).To(Succeed())
	machine := &clusterv1.Machine{ObjectMeta: meta(rendering, "failing"), Spec: bootstrapMachineSpec("failing")}
	g.Expect(c.Create(ctx, machine)).To(Succeed())
	s.bootstrapBecomes(t, machine, config, bootstrapv1.ReasonTemplateInvalid)
	g.Expect(config.Status.FailureReason).To(Equal(bootstrapv1.ReasonTemplateInvalid))
	eventually(t, func(g Gomega) {
		g.Expect(c.Get(ctx, client.ObjectKeyFromObject(machine), machine)).To(Succeed())
		g.Expect(machine.Status.Deprecated).NotTo(BeNil())
		g.Expect(machine.Status.Deprecated.V1Beta1).NotTo(BeNil())                                                               //nolint:staticcheck // as long as Cluster API copies it
		g.Expect(machine.Status.Deprecated.V1Beta1.FailureMessage).To(HaveValue(ContainSubstring(config.Status.FailureMessage))) //nolint:staticcheck // as above
	})
	g.Expect(c.Patch(ctx, source, merge(`{"data":{"data":"#cloud-config\n"}}`))).To(Succeed())
	s.bootstrapBecomes(t, machine, config, bootstrapv1.ReasonDataSecretCreated)
	g.Expect(config.Status.FailureReason).To(BeEmpty())
	g.Expect(c.Delete(ctx, machine)).To(Succeed())
	s.gone(t, rendering, "failing", machine)
	s.gone(t, rendering, "failing", config)
	s.gone(t, rendering, "failing", &corev1.Secret{})
}

// configInPlace: a change of a config after its data was rendered changes neither the Secret nor the Machine.
func (s *suite) configInPlace(t *testing.T) {
	g := NewWithT(t)
	machine, config := s.bootstrapConfig(t)
	before := s.bootstrapSecret(t)
	g.Expect(s.plane.Client.Patch(t.Context(), config, merge(`{"spec":{"commands":["false"]}}`))).To(Succeed())
	eventually(t, func(g Gomega) {
		g.Expect(s.plane.Client.Get(t.Context(), client.ObjectKeyFromObject(config), config)).To(Succeed())
		g.Expect(config.Status.ObservedGeneration).To(Equal(config.Generation), "the change was seen")
	})
	s.bootstrapBecomes(t, machine, config, bootstrapv1.ReasonDataSecretCreated)
	g.Expect(s.bootstrapSecret(t)).To(Equal(before))
}

// configDryRun: a template is immutable, except for the topology controller's dry run.
func (s *suite) configDryRun(t *testing.T) {
	s.immutableExceptDryRun(t, rendering, func() client.Object {
		template := &bootstrapv1.BareMetalConfigTemplate{ObjectMeta: meta(rendering, "unchanging")}
		template.APIVersion, template.Kind = bootstrapv1.GroupVersion.String(), "BareMetalConfigTemplate"
		template.Spec.Template.Spec.Commands = []string{"true"}
		return template
	}, func(o client.Object) {
		o.(*bootstrapv1.BareMetalConfigTemplate).Spec.Template.Spec.Commands = []string{"false"}
	})
}

// sentinelFile runs the script of the rendered data: the file is there after the commands succeeded, and not after one failed. hack/seedcheck has the same
// with cloud-init.
func (s *suite) sentinelFile(t *testing.T) {
	g := NewWithT(t)
	var parts []struct{ Filename, Content string }
	g.Expect(yaml.Unmarshal(s.bootstrapSecret(t).Data["value"], &parts)).To(Succeed())
	g.Expect(parts).To(HaveLen(2))
	run := func(change func(string) string) (sentinel, out string, err error) {
		dir := t.TempDir()
		script := change(strings.ReplaceAll(parts[1].Content, "/run/cluster-api", dir))
		command := exec.CommandContext(t.Context(), "/bin/sh", "-c", script)
		command.Env = append(os.Environ(), "OUT="+filepath.Join(dir, "out"))
		err = command.Run()
		written, _ := os.ReadFile(filepath.Join(dir, "out"))
		_, missing := os.Stat(filepath.Join(dir, "bootstrap-success.complete"))
		if missing == nil {
			sentinel = "bootstrap-success.complete"
		}
		return sentinel, string(written), err
	}
	sentinel, out, err := run(func(script string) string { return script })
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(out).To(Equal("the token\n"))
	g.Expect(sentinel).NotTo(BeEmpty())
	sentinel, _, err = run(func(script string) string { return strings.Replace(script, "echo 'the token'", "false", 1) })
	g.Expect(err).To(HaveOccurred())
	g.Expect(sentinel).To(BeEmpty())
}

func (s *suite) uninitializedTaint(t *testing.T) {
	NewWithT(t).Expect(string(s.bootstrapSecret(t).Data["value"])).To(ContainSubstring("taints " + clusterv1.NodeUninitializedTaint.Key + ":" + string(clusterv1.NodeUninitializedTaint.Effect)))
}

// configPaused: nothing is rendered for a paused config, and the condition Paused shows it.
func (s *suite) configPaused(t *testing.T) {
	g := NewWithT(t)
	ctx, c := t.Context(), s.plane.Client
	config := &bootstrapv1.BareMetalConfig{
		ObjectMeta: metav1.ObjectMeta{Namespace: rendering, Name: "paused", Annotations: map[string]string{clusterv1.PausedAnnotation: ""}},
		Spec:       bootstrapv1.BareMetalConfigSpec{Commands: []string{"true"}, WaitFor: bootstrapv1.WaitForInfrastructure},
	}
	g.Expect(c.Create(ctx, config)).To(Succeed())
	g.Expect(c.Create(ctx, &v1alpha1.BareMetalMachine{ObjectMeta: meta(rendering, "paused"), Spec: s.machineSpec(t)})).To(Succeed())
	machine := &clusterv1.Machine{ObjectMeta: meta(rendering, "paused"), Spec: bootstrapMachineSpec("paused")}
	g.Expect(c.Create(ctx, machine)).To(Succeed())
	is := func(paused bool) {
		t.Helper()
		eventually(t, func(g Gomega) {
			g.Expect(c.Get(ctx, client.ObjectKeyFromObject(config), config)).To(Succeed())
			pausedCondition(g, config, config.Generation, paused)
		})
	}
	is(true)
	g.Expect(apierrors.IsNotFound(c.Get(ctx, client.ObjectKeyFromObject(config), &corev1.Secret{}))).To(BeTrue())
	g.Expect(c.Patch(ctx, config, merge(`{"metadata":{"annotations":{%q:null}}}`, clusterv1.PausedAnnotation))).To(Succeed())
	is(false)
	s.bootstrapBecomes(t, machine, config, bootstrapv1.ReasonDataSecretCreated)
	g.Expect(c.Delete(ctx, machine)).To(Succeed())
	s.gone(t, rendering, "paused", machine)
}

// bootstrapInstances: a manager with --namespace and --watch-filter renders what both select, and nothing else. Its successor without flags renders the rest.
func (s *suite) bootstrapInstances(t *testing.T) {
	g := NewWithT(t)
	ctx, c := t.Context(), s.plane.Client
	s.plane.StopBootstrap()
	t.Setenv(watchList, "false") // this time client-go lists first
	spec := s.machineSpec(t)
	create := func(name string, labels map[string]string) *bootstrapv1.BareMetalConfig {
		config := &bootstrapv1.BareMetalConfig{
			ObjectMeta: metav1.ObjectMeta{Namespace: rendering, Name: name, Labels: labels},
			Spec:       bootstrapv1.BareMetalConfigSpec{Commands: []string{"true"}, WaitFor: bootstrapv1.WaitForInfrastructure},
		}
		g.Expect(c.Create(ctx, config)).To(Succeed())
		g.Expect(c.Create(ctx, &v1alpha1.BareMetalMachine{ObjectMeta: meta(rendering, name), Spec: spec})).To(Succeed())
		g.Expect(c.Create(ctx, &clusterv1.Machine{ObjectMeta: meta(rendering, name), Spec: bootstrapMachineSpec(name)})).To(Succeed())
		eventually(t, func(g Gomega) {
			g.Expect(c.Get(ctx, client.ObjectKeyFromObject(config), config)).To(Succeed())
			g.Expect(config.OwnerReferences).NotTo(BeEmpty())
		})
		return config
	}
	g.Expect(s.startBootstrap("--namespace="+side, "--watch-filter=blue")).To(Succeed())
	blue, plain := create("blue", map[string]string{clusterv1.WatchLabel: "blue"}), create("plain", nil)
	s.plane.StopBootstrap()
	g.Expect(c.Get(ctx, client.ObjectKeyFromObject(blue), blue)).To(Succeed())
	g.Expect(blue.Status.Conditions).To(BeEmpty(), "of another namespace")
	g.Expect(s.startBootstrap("--namespace="+rendering, "--watch-filter=blue")).To(Succeed())
	s.bootstrapBecomes(t, nil, blue, bootstrapv1.ReasonDataSecretCreated)
	g.Expect(c.Get(ctx, client.ObjectKeyFromObject(plain), plain)).To(Succeed())
	g.Expect(plain.Status.Conditions).To(BeEmpty(), "without the label")
	s.plane.StopBootstrap()
	g.Expect(s.startBootstrap()).To(Succeed())
	s.bootstrapBecomes(t, nil, plain, bootstrapv1.ReasonDataSecretCreated)
}

// bootstrapClusterctl shows that clusterctl installed the bootstrap provider as a separate provider, with everything that its contract requires.
func (s *suite) bootstrapClusterctl(t *testing.T) {
	g := NewWithT(t)
	installed := &unstructured.Unstructured{}
	installed.SetGroupVersionKind(clusterctlv1.GroupVersion.WithKind("Provider"))
	s.get(t, bootstrapNamespace, provider.Bootstrap, installed)
	kind, _, err := unstructured.NestedString(installed.Object, "type")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(kind).To(Equal("BootstrapProvider"))
	folder := filepath.Join(filepath.Dir(filepath.Dir(s.repository())), provider.Bootstrap, filepath.Base(s.repository()))
	g.Expect(s.readFile(t, filepath.Join(folder, "metadata.yaml"))).To(Equal(s.readFile(t, filepath.Join(s.lab.Root, "metadata.yaml"))))
	deployments := 0
	for _, o := range decode(t, s.readFile(t, filepath.Join(folder, "bootstrap-components.yaml"))) {
		g.Expect(o.GetLabels()).To(HaveKeyWithValue(providerLabel, provider.Bootstrap), "%s %s", o.GetKind(), o.GetName())
		if !clusterWide(o) {
			g.Expect(o.GetNamespace()).To(Equal(bootstrapNamespace), "%s %s", o.GetKind(), o.GetName())
		}
		if o.GetKind() == "Deployment" {
			deployments++
			containers, _, err := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(containers).To(ConsistOf(HaveKeyWithValue("name", "manager")))
		}
	}
	g.Expect(deployments).To(Equal(1))
}
