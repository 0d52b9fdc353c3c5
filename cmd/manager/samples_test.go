package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/yaml"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capbm-io/cluster-api-provider-baremetal/api/bootstrap/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/bootstrap/render"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
)

// securitySamples installs config/samples/security. The API server accepts every field of it.
func securitySamples(t *testing.T) {
	t.Helper()
	g := NewWithT(t)
	providerNamespace(t)
	strict := client.WithFieldValidation(env.Client, "Strict")
	files, err := filepath.Glob(filepath.Join(controllerstest.Root(), "config", "samples", "security", "*.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(files).To(HaveLen(3))
	for _, file := range files {
		for _, o := range decode(t, file) {
			g.Expect(strict.Create(t.Context(), o)).To(Succeed(), file)
			t.Cleanup(func() { NewWithT(t).Expect(env.Client.Delete(context.Background(), o)).To(Succeed()) })
		}
	}
}

// decode returns the objects of a file.
func decode(t *testing.T, file string) []*unstructured.Unstructured {
	t.Helper()
	content, err := os.ReadFile(file)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
	var objects []*unstructured.Unstructured
	for {
		o := &unstructured.Unstructured{}
		if err := decoder.Decode(o); errors.Is(err, io.EOF) {
			return objects
		} else if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		objects = append(objects, o)
	}
}

// TestBootstrapSamples: the API server accepts each sample of config/samples/bootstrap with all its fields, and the objects of a sample refer to one another.
func TestBootstrapSamples(t *testing.T) {
	g := NewWithT(t)
	strict := client.WithFieldValidation(env.Client, "Strict")
	files, err := filepath.Glob(filepath.Join(controllerstest.Root(), "config", "samples", "bootstrap", "*.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(files).To(HaveLen(5))
	readme, err := os.ReadFile(filepath.Join(controllerstest.Root(), "config", "samples", "README.md"))
	g.Expect(err).NotTo(HaveOccurred())
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			g := NewWithT(t)
			namespace := env.Namespace(t)
			objects := map[string]*unstructured.Unstructured{}
			for _, o := range decode(t, file) {
				o.SetNamespace(namespace)
				g.Expect(strict.Create(t.Context(), o)).To(Succeed(), o.GetKind())
				objects[o.GetKind()] = o
			}
			g.Expect(objects).To(HaveLen(4))
			var deployment clusterv1.MachineDeployment
			g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(objects["MachineDeployment"]), &deployment)).To(Succeed())
			spec := deployment.Spec.Template.Spec
			for _, ref := range []clusterv1.ContractVersionedObjectReference{spec.Bootstrap.ConfigRef, spec.InfrastructureRef} {
				g.Expect(objects).To(HaveKey(ref.Kind))
				g.Expect(objects[ref.Kind].GetName()).To(Equal(ref.Name))
				g.Expect(objects[ref.Kind].GroupVersionKind().Group).To(Equal(ref.APIGroup))
			}
			var config bootstrapv1.BareMetalConfigTemplate
			g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(objects["BareMetalConfigTemplate"]), &config)).To(Succeed())
			g.Expect(render.Check(&config.Spec.Template.Spec, field.NewPath("spec"))).To(BeEmpty(), "the webhook accepts it, with the defaults of the API server")
			config.Spec.Template.Spec.Sentinel = "None"
			g.Expect(env.Client.Update(t.Context(), &config)).To(MatchError(ContainSubstring("sentinel")), "the API server validates it")
			g.Expect(string(readme)).To(ContainSubstring("(bootstrap/" + filepath.Base(file) + ")"))
		})
	}
}

// TestSecuritySamples: the sample admission policies refuse what they name in the namespaces of tenants, and nothing elsewhere.
func TestSecuritySamples(t *testing.T) {
	g := NewWithT(t)
	securitySamples(t)
	elsewhere := env.Namespace(t)
	tenants := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "tenant-", Labels: map[string]string{"example.com/baremetal-tenant": "true"}}}
	env.Create(t, tenants)
	host := func(change func(*v1alpha1.BareMetalHost)) client.Object {
		h := &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{GenerateName: "h-"}, Spec: v1alpha1.BareMetalHostSpec{
			BMC: v1alpha1.BMC{Address: "redfish://192.0.2.10", CredentialsSecretName: "bmc"}, BootMACAddresses: []string{"52:54:00:12:34:56"},
		}}
		change(h)
		return h
	}
	at := func(address string) client.Object {
		return host(func(h *v1alpha1.BareMetalHost) { h.Spec.BMC.Address = address })
	}
	boot := func(kernel, initrd string) v1alpha1.BootSource {
		sum := "sha256:" + strings.Repeat("0", 64)
		return v1alpha1.BootSource{
			Kernel: v1alpha1.Artifact{URL: kernel, Checksum: sum}, Initrds: []v1alpha1.Artifact{{URL: initrd, Checksum: sum}}, Persistence: v1alpha1.PersistenceInstalled,
		}
	}
	machine := func(kernel, initrd string) client.Object {
		return &v1alpha1.BareMetalMachine{ObjectMeta: metav1.ObjectMeta{GenerateName: "m-"}, Spec: v1alpha1.BareMetalMachineSpec{Boot: boot(kernel, initrd)}}
	}
	template := func(kernel, initrd string) client.Object {
		o := &v1alpha1.BareMetalMachineTemplate{ObjectMeta: metav1.ObjectMeta{GenerateName: "t-"}}
		o.Spec.Template.Spec.Boot = boot(kernel, initrd)
		return o
	}
	image := func(url string) client.Object {
		m := &v1alpha1.BareMetalMachine{ObjectMeta: metav1.ObjectMeta{GenerateName: "m-"}}
		m.Spec.Image = &v1alpha1.Image{URL: url, Checksum: "sha256:" + strings.Repeat("0", 64)}
		return m
	}
	imageTemplate := func(url string) client.Object {
		o := &v1alpha1.BareMetalMachineTemplate{ObjectMeta: metav1.ObjectMeta{GenerateName: "t-"}}
		o.Spec.Template.Spec.Image = &v1alpha1.Image{URL: url, Checksum: "sha256:" + strings.Repeat("0", 64)}
		return o
	}
	const network, verified, origin = "must be an IP address in 192.0.2.0/24", "must be verified by TLS", "must come from https://images.example/"
	const kernel, initrd = "https://images.example/vmlinuz", "https://images.example/initrd"
	for name, test := range map[string]struct {
		object client.Object
		says   string
	}{
		"a host":                     {at("redfish://192.0.2.10"), ""},
		"with a port and a path":     {at("redfish://192.0.2.10:8443/redfish/v1/Systems/1"), ""},
		"of another network":         {at("redfish://198.51.100.10"), network},
		"by a name":                  {at("redfish://bmc.example"), network},
		"without TLS":                {at("redfish+http://192.0.2.10"), verified},
		"not verified":               {host(func(h *v1alpha1.BareMetalHost) { h.Spec.BMC.InsecureSkipTLSVerify = true }), verified},
		"a machine":                  {machine(kernel, initrd), ""},
		"a kernel of elsewhere":      {machine("http://10.96.0.1/", initrd), origin},
		"an initrd of elsewhere":     {machine(kernel, "https://images.example.org/initrd"), origin},
		"a template":                 {template(kernel, initrd), ""},
		"a template, from elsewhere": {template(kernel, "http://images.example/initrd"), origin},
		"a disk image":               {image("https://images.example/debian.qcow2"), ""},
		"one of a registry":          {image("oci://images.example/debian:13"), ""},
		"one of elsewhere":           {image("https://images.example.org/debian.qcow2"), origin},
		"one of another registry":    {image("oci://images.example.org/debian:13"), origin},
		"its template":               {imageTemplate("https://images.example/debian.qcow2"), ""},
		"its template, of elsewhere": {imageTemplate("http://images.example/debian.qcow2"), origin},
	} {
		for _, namespace := range []string{tenants.Name, elsewhere} {
			create := func() error {
				o := test.object.DeepCopyObject().(client.Object)
				o.SetNamespace(namespace)
				return env.Client.Create(t.Context(), o, client.DryRunAll)
			}
			if test.says == "" || namespace == elsewhere {
				g.Expect(create()).To(Succeed(), "%s in %s", name, namespace)
				continue
			}
			// A policy takes effect a moment after it was created.
			g.Eventually(create).Should(MatchError(ContainSubstring(test.says)), name)
		}
	}
}

// TestNetworkPolicySample: the policy selects the controllers' Pods and no boot server's, and allows traffic to each of their ports.
func TestNetworkPolicySample(t *testing.T) {
	g := NewWithT(t)
	content, err := os.ReadFile(filepath.Join(controllerstest.Root(), "config", "samples", "security", "networkpolicy.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	var policy networkingv1.NetworkPolicy
	g.Expect(yaml.UnmarshalStrict(content, &policy)).To(Succeed())
	var manager appsv1.Deployment
	build(t, "default").get(t, "Deployment", managerName, &manager)
	selector, err := metav1.LabelSelectorAsSelector(&policy.Spec.PodSelector)
	g.Expect(err).NotTo(HaveOccurred())
	for _, o := range append(build(t, "default"), build(t, "additional-boot")...) {
		if o.GetKind() == "Deployment" {
			podLabels, _, err := unstructured.NestedStringMap(o.Object, "spec", "template", "metadata", "labels")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(selector.Matches(labels.Set(podLabels))).To(Equal(o.GetName() == managerName), o.GetName())
		}
	}
	open := map[string]bool{}
	for _, rule := range policy.Spec.Ingress {
		for _, p := range rule.Ports {
			open[p.Port.StrVal] = true
		}
	}
	for name := range ports(&manager) {
		g.Expect(open).To(HaveKey(name))
	}
	g.Expect(open).To(HaveLen(len(ports(&manager))))
}

// TestSecurityDocs: docs/concepts/security.md and docs/reference/accounts.md name every installed account, role and admission policy, and docs/guides/multi-tenancy.md every sample.
func TestSecurityDocs(t *testing.T) {
	g := NewWithT(t)
	root := controllerstest.Root()
	content, err := os.ReadFile(filepath.Join(root, "docs", "concepts", "security.md"))
	g.Expect(err).NotTo(HaveOccurred())
	accounts, err := os.ReadFile(filepath.Join(root, "docs", "reference", "accounts.md"))
	g.Expect(err).NotTo(HaveOccurred())
	content = append(content, accounts...)
	kinds := []string{"ServiceAccount", "Role", "ClusterRole", "ValidatingAdmissionPolicy"}
	for _, o := range build(t, "default") {
		if slices.Contains(kinds, o.GetKind()) {
			g.Expect(string(content)).To(ContainSubstring("`"+o.GetName()+"`"), o.GetKind())
		}
	}
	samples, err := filepath.Glob(filepath.Join(root, "config", "samples", "security", "*.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	readme, err := os.ReadFile(filepath.Join(root, "config", "samples", "README.md"))
	g.Expect(err).NotTo(HaveOccurred())
	guide, err := os.ReadFile(filepath.Join(root, "docs", "guides", "multi-tenancy.md"))
	g.Expect(err).NotTo(HaveOccurred())
	for _, sample := range samples {
		g.Expect(string(guide)).To(ContainSubstring("(../../config/samples/security/" + filepath.Base(sample) + ")"))
		g.Expect(string(readme)).To(ContainSubstring("(security/" + filepath.Base(sample) + ")"))
	}
}
