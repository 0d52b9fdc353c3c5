package webhook

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
)

var env *controllerstest.Env

func TestMain(m *testing.M) { controllerstest.Main(m, &env) }

func machineSpec() v1alpha1.BareMetalMachineSpec {
	return v1alpha1.BareMetalMachineSpec{Boot: v1alpha1.BootSource{
		Kernel:      v1alpha1.Artifact{URL: "http://192.0.2.1/kernel", Checksum: "sha256:" + strings.Repeat("0a", 32)},
		Persistence: v1alpha1.PersistenceInstalled,
	}}
}

func newMachine(namespace, name string) *v1alpha1.BareMetalMachine {
	return &v1alpha1.BareMetalMachine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: machineSpec()}
}

func newMachineTemplate(namespace, name string) *v1alpha1.BareMetalMachineTemplate {
	return &v1alpha1.BareMetalMachineTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1alpha1.BareMetalMachineTemplateSpec{Template: v1alpha1.BareMetalMachineTemplateResource{Spec: machineSpec()}},
	}
}

func newClusterTemplate(namespace, name string) *v1alpha1.BareMetalClusterTemplate {
	return &v1alpha1.BareMetalClusterTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1alpha1.BareMetalClusterTemplateSpec{Template: v1alpha1.BareMetalClusterTemplateResource{
			Spec: v1alpha1.BareMetalClusterSpec{FailureDomains: []clusterv1.FailureDomain{{Name: "rack-1"}}},
		}},
	}
}

// refused checks that the API server refuses an object as invalid, and the message.
func refused(t *testing.T, err error, words ...string) {
	t.Helper()
	g := NewWithT(t)
	g.Expect(apierrors.IsInvalid(err)).To(BeTrue(), "got %v", err)
	for _, w := range words {
		g.Expect(err.Error()).To(ContainSubstring(w))
	}
}

const wantImmutable = "spec.template.spec: Forbidden: cannot be changed, because existing objects were created from it. " +
	"Create a template with another name, and change the references to this one"

// TestTemplatesImmutable: the spec of machines and clusters in a template cannot be changed, but the rest of the template can. The topology controller
// may try a change, with its annotation and in a dry run: one of the two is not enough.
func TestTemplatesImmutable(t *testing.T) {
	env.StartWebhooks(t, controllerstest.InfrastructureWebhooks(), SetupWithManager)
	namespace := env.Namespace(t)
	machines, clusters := newMachineTemplate(namespace, "m"), newClusterTemplate(namespace, "c")
	env.Create(t, machines, clusters)
	changeMachines := func(o client.Object) {
		o.(*v1alpha1.BareMetalMachineTemplate).Spec.Template.Spec.Boot.CommandLine = "quiet"
	}
	changeClusters := func(o client.Object) {
		o.(*v1alpha1.BareMetalClusterTemplate).Spec.Template.Spec.FailureDomains[0].ControlPlane = new(true)
	}
	for _, c := range []struct {
		template client.Object
		change   func(client.Object)
	}{{machines, changeMachines}, {clusters, changeClusters}} {
		t.Run(fmt.Sprintf("%T", c.template), func(t *testing.T) {
			g := NewWithT(t)
			changed := func(annotated bool) client.Object {
				o, ok := c.template.DeepCopyObject().(client.Object)
				g.Expect(ok).To(BeTrue())
				c.change(o)
				if annotated {
					o.SetAnnotations(map[string]string{clusterv1.TopologyDryRunAnnotation: ""})
				}
				return o
			}
			refused(t, env.Client.Update(t.Context(), changed(false)), wantImmutable)
			refused(t, env.Client.Update(t.Context(), changed(false), client.DryRunAll), wantImmutable)
			refused(t, env.Client.Update(t.Context(), changed(true)), wantImmutable)
			g.Expect(env.Client.Update(t.Context(), changed(true), client.DryRunAll)).To(Succeed())
			// Nothing came of all that.
			o := changed(false)
			g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o)).To(Succeed())
			g.Expect(o.GetResourceVersion()).To(Equal(c.template.GetResourceVersion()))
			o.SetLabels(map[string]string{"a": "b"})
			g.Expect(env.Client.Update(t.Context(), o)).To(Succeed())
		})
	}
	controllerstest.Modify(t, env, machines, func(m *v1alpha1.BareMetalMachineTemplate) {
		m.Spec.Template.ObjectMeta.Labels = map[string]string{"rack": "a"}
	})
}

// TestQuantitiesAreCompared: a different notation of the same size is not a change.
func TestQuantitiesAreCompared(t *testing.T) {
	env.StartWebhooks(t, controllerstest.InfrastructureWebhooks(), SetupWithManager)
	template := newMachineTemplate(env.Namespace(t), "m")
	template.Spec.Template.Spec.Hardware.Memory = new(resource.MustParse("2Gi"))
	env.Create(t, template)
	template.Spec.Template.Spec.Hardware.Memory = new(resource.MustParse("2048Mi"))
	NewWithT(t).Expect(env.Client.Update(t.Context(), template)).To(Succeed())
}

// badTemplates are iPXE templates that cannot be rendered, with the error.
func badTemplates() map[string]string {
	return map[string]string{
		"#!ipxe\nkernel {{ .Kernel\n":                          `unclosed action started at line:2`,
		"#!ipxe\n{{ .Krenel }}\n":                              `can't evaluate field Krenel`,
		"#!ipxe\n{{ printf \"%s\" .Kernel }}\n":                `the function printf is not available: only and, eq, index, len, ne, not, or are`,
		"#!ipxe\n{{ nothing }}\n":                              `function "nothing" not defined`,
		"#!ipxe\n{{ index .Initrds 0 }}\n":                     `index out of range`,
		"#!ipxe\n{{ define \"x\" }}{{ end }}\n":                `it must not define other templates`,
		"#!ipxe\n{{ range .MAC }}{{ end }}\n":                  `a template may range over .Initrds only`,
		"#!ipxe\n" + strings.Repeat("{{ .CommandLine }}", 900): `it has more than 65536 bytes`,
	}
}

// TestIPXETemplates: an iPXE template that cannot be rendered is refused in a machine and in a machine template.
func TestIPXETemplates(t *testing.T) {
	env.StartWebhooks(t, controllerstest.InfrastructureWebhooks(), SetupWithManager)
	namespace := env.Namespace(t)
	const remedy = "`kubectl explain baremetalmachine.spec.boot.ipxeTemplate` describes what it can contain"
	line := strings.Repeat("x", 80) // for the script that is too long
	for text, want := range badTemplates() {
		machine, template := newMachine(namespace, "bad"), newMachineTemplate(namespace, "bad")
		machine.Spec.Boot.IPXETemplate, machine.Spec.Boot.CommandLine = text, line
		template.Spec.Template.Spec.Boot.IPXETemplate, template.Spec.Template.Spec.Boot.CommandLine = text, line
		refused(t, env.Client.Create(t.Context(), machine), "spec.boot.ipxeTemplate: Invalid value: ", want, remedy)
		refused(t, env.Client.Create(t.Context(), template), "spec.template.spec.boot.ipxeTemplate: Invalid value: ", want, remedy)
	}
	good := newMachineTemplate(namespace, "good")
	good.Spec.Template.Spec.Boot.IPXETemplate = "#!ipxe\nkernel {{ .Kernel }} {{ .CommandLine }}\n{{ range .Initrds }}initrd {{ . }}\n{{ end }}boot\n"
	env.Create(t, good)

	// The topology controller gets the error of an invalid template in its dry run.
	bad := good.DeepCopy()
	bad.Annotations = map[string]string{clusterv1.TopologyDryRunAnnotation: ""}
	bad.Spec.Template.Spec.Boot.IPXETemplate = "#!ipxe\n{{ .Krenel }}"
	refused(t, env.Client.Update(t.Context(), bad, client.DryRunAll), "Krenel")
}

// TestMachineUpdates: a change to an invalid value is refused. A machine that is already invalid can be updated and deleted. A machine that has booted can
// be created again.
func TestMachineUpdates(t *testing.T) {
	g := NewWithT(t)
	namespace := env.Namespace(t)
	const bad = "#!ipxe\n{{ .Krenel }}"
	old := newMachine(namespace, "old") // of before there were webhooks
	old.Spec.Boot.IPXETemplate = bad
	env.Create(t, old)

	env.StartWebhooks(t, controllerstest.InfrastructureWebhooks(), SetupWithManager)
	controllerstest.Modify(t, env, old, func(m *v1alpha1.BareMetalMachine) { m.Finalizers = []string{v1alpha1.MachineFinalizer} })
	controllerstest.Modify(t, env, old, func(m *v1alpha1.BareMetalMachine) { m.Spec.ProviderID = "baremetal://n/h/old" })
	moved := newMachine(namespace, "moved")
	moved.Spec.Boot.IPXETemplate, moved.Spec.ProviderID = bad, "baremetal://n/h/moved"
	env.Create(t, moved)
	g.Expect(env.Client.Delete(t.Context(), old)).To(Succeed())
	controllerstest.Modify(t, env, old, func(m *v1alpha1.BareMetalMachine) { m.Finalizers = nil })
	env.Gone(t, old)

	machine := newMachine(namespace, "machine")
	env.Create(t, machine)
	machine.Spec.Boot.IPXETemplate = bad
	refused(t, env.Client.Update(t.Context(), machine), "spec.boot.ipxeTemplate: Invalid value: ", "Krenel")

	imaged := newMachine(namespace, "imaged")
	imaged.Spec.Boot = v1alpha1.BootSource{}
	imaged.Spec.Image = &v1alpha1.Image{URL: "http://images.example/a.raw", Checksum: "sha256:" + strings.Repeat("a", 64)}
	env.Create(t, imaged)
	imaged.Spec.Image.URL = "http://images.example/b.raw"
	refused(t, env.Client.Update(t.Context(), imaged), "spec.image: Forbidden: it cannot be changed")
}

// TestWithoutServer: while no webhook server answers, requests that need no validation succeed, and the others fail (failurePolicy Fail).
func TestWithoutServer(t *testing.T) {
	g := NewWithT(t)
	namespace := env.Namespace(t)
	machine, machines, clusters := newMachine(namespace, "m"), newMachineTemplate(namespace, "m"), newClusterTemplate(namespace, "c")
	env.Create(t, machine, machines, clusters)
	env.InstallWebhooks(t, controllerstest.InfrastructureWebhooks())
	g.Expect(env.Client.Create(t.Context(), newMachine(namespace, "new"))).To(MatchError(ContainSubstring("failed calling webhook")))
	controllerstest.Modify(t, env, machine, func(m *v1alpha1.BareMetalMachine) {
		m.Finalizers, m.Spec.ProviderID = []string{v1alpha1.MachineFinalizer}, "baremetal://n/h/m"
	})
	controllerstest.Modify(t, env, machine, func(m *v1alpha1.BareMetalMachine) { m.Finalizers = nil })
	controllerstest.Modify(t, env, machines, func(m *v1alpha1.BareMetalMachineTemplate) { m.Labels = map[string]string{"a": "b"} })
	controllerstest.Modify(t, env, clusters, func(c *v1alpha1.BareMetalClusterTemplate) { c.Labels = map[string]string{"a": "b"} })
	machines.Spec.Template.Spec.Boot.CommandLine = "quiet"
	g.Expect(env.Client.Update(t.Context(), machines)).To(MatchError(ContainSubstring("failed calling webhook")))
}

// TestNoSideEffects: the configuration declares no side effects, and the handlers have no client that could cause one.
func TestNoSideEffects(t *testing.T) {
	g := NewWithT(t)
	for _, handler := range []any{machines{}, machineTemplates{}, clusterTemplates{}} {
		g.Expect(reflect.TypeOf(handler).NumField()).To(BeZero(), "%T", handler)
	}
	names := map[string]bool{}
	for _, c := range env.InstallWebhooks(t, controllerstest.InfrastructureWebhooks()).ValidatingWebhooks {
		for _, w := range c.Webhooks {
			names[w.Name] = true
			g.Expect(w.SideEffects).To(HaveValue(Equal(admissionregistrationv1.SideEffectClassNone)), w.Name)
			g.Expect(w.FailurePolicy).To(HaveValue(Equal(admissionregistrationv1.Fail)), w.Name)
			g.Expect(w.MatchConditions).To(HaveLen(1), w.Name)
		}
	}
	g.Expect(names).To(HaveLen(3))
}

// TestDryRunChangesNothing: a request in a dry run changes nothing in the API server, and gets the same answer as without a dry run.
func TestDryRunChangesNothing(t *testing.T) {
	env.StartWebhooks(t, controllerstest.InfrastructureWebhooks(), SetupWithManager)
	g := NewWithT(t)
	namespace := env.Namespace(t)
	for _, o := range []client.Object{newMachine(namespace, "m"), newMachineTemplate(namespace, "m"), newClusterTemplate(namespace, "c")} {
		g.Expect(env.Client.Create(t.Context(), o, client.DryRunAll)).To(Succeed())
		g.Expect(apierrors.IsNotFound(env.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o))).To(BeTrue(), "%T", o)
	}
	bad := newMachine(namespace, "bad")
	bad.Spec.Boot.IPXETemplate = "#!ipxe\n{{ .Krenel }}"
	refused(t, env.Client.Create(t.Context(), bad, client.DryRunAll), "Krenel")
}

// TestWithoutRequest: a handler without a request in its context returns an error. controller-runtime always passes one.
func TestWithoutRequest(t *testing.T) {
	g := NewWithT(t)
	_, err := machineTemplates{}.ValidateUpdate(t.Context(), newMachineTemplate("n", "m"), newMachineTemplate("n", "m"))
	g.Expect(apierrors.IsInternalError(err)).To(BeTrue())
	_, err = clusterTemplates{}.ValidateUpdate(t.Context(), newClusterTemplate("n", "c"), newClusterTemplate("n", "c"))
	g.Expect(apierrors.IsInternalError(err)).To(BeTrue())
	ctx := admission.NewContextWithRequest(t.Context(), admission.Request{})
	_, err = clusterTemplates{}.ValidateUpdate(ctx, newClusterTemplate("n", "c"), newClusterTemplate("n", "c"))
	g.Expect(err).NotTo(HaveOccurred())
}
