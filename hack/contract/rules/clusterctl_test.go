package rules

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/version"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/config/provider"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/proc"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/site"
)

const (
	providerLabel = "cluster.x-k8s.io/provider"
	components    = "infrastructure-components.yaml"
)

// localRepository shows that clusterctl installed this provider from a repository with what one must hold.
func (s *suite) localRepository(t *testing.T) {
	g := NewWithT(t)
	_, err := version.ParseSemantic(filepath.Base(s.repository()))
	g.Expect(err).NotTo(HaveOccurred())
	for _, name := range []string{components, "metadata.yaml", "cluster-template.yaml"} {
		g.Expect(filepath.Join(s.repository(), name)).To(BeARegularFile())
	}
	installed := &unstructured.Unstructured{}
	installed.SetGroupVersionKind(clusterctlv1.GroupVersion.WithKind("Provider"))
	s.get(t, providerNamespace, provider.Infrastructure, installed)
	for field, want := range map[string]string{"type": "InfrastructureProvider", "version": filepath.Base(s.repository()), "providerName": provider.Name} {
		got, _, err := unstructured.NestedString(installed.Object, field)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(got).To(Equal(want))
	}
}

func (s *suite) metadataFile(t *testing.T) *clusterctlv1.Metadata {
	t.Helper()
	m := &clusterctlv1.Metadata{}
	NewWithT(t).Expect(yaml.UnmarshalStrict([]byte(s.readFile(t, filepath.Join(s.lab.Root, "metadata.yaml"))), m)).To(Succeed())
	return m
}

func (s *suite) metadata(t *testing.T) {
	g := NewWithT(t)
	m := s.metadataFile(t)
	g.Expect(m.APIVersion).To(Equal(clusterctlv1.GroupVersion.String()))
	g.Expect(m.Kind).To(Equal("Metadata"))
	g.Expect(m.ReleaseSeries).NotTo(BeEmpty())
	release, err := version.ParseSemantic(filepath.Base(s.repository()))
	g.Expect(err).NotTo(HaveOccurred())
	series := m.GetReleaseSeriesForVersion(release)
	g.Expect(series).NotTo(BeNil(), "the release is of a series that metadata.yaml knows")
	for _, kind := range kinds {
		crd, _ := s.crd(t, kind)
		g.Expect(crd.Labels).To(HaveKey("cluster.x-k8s.io/" + series.Contract))
	}
}

func (s *suite) componentsName(t *testing.T) {
	g := NewWithT(t)
	g.Expect(s.readFile(t, s.lab.Repository.SplitConfig)).To(MatchRegexp(`/`+provider.Infrastructure+`/v[0-9.]+/`+components), "the lab installs the release")
}

func (s *suite) components(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	return decode(t, s.readFile(t, filepath.Join(s.repository(), components)))
}

// clusterWide is true for the kinds of our components that are not namespaced.
func clusterWide(o *unstructured.Unstructured) bool {
	return slices.Contains([]string{
		"Namespace", "CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding", "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration",
		"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
	}, o.GetKind())
}

func (s *suite) componentsNamespace(t *testing.T) {
	g := NewWithT(t)
	namespaces := 0
	for _, o := range s.components(t) {
		if o.GetKind() == "Namespace" {
			namespaces++
			g.Expect(o.GetName()).To(Equal(providerNamespace))
		}
		if clusterWide(o) {
			g.Expect(o.GetNamespace()).To(BeEmpty(), o.GetKind())
		} else {
			g.Expect(o.GetNamespace()).To(Equal(providerNamespace), "%s %s", o.GetKind(), o.GetName())
		}
	}
	g.Expect(namespaces).To(Equal(1))
}

// componentsManager shows the Deployments. That --namespace does what it should is shown by multiTenancy.
func (s *suite) componentsManager(t *testing.T) {
	g := NewWithT(t)
	var deployments []string
	for _, o := range s.components(t) {
		if o.GetKind() != "Deployment" {
			continue
		}
		deployments = append(deployments, o.GetName())
		containers, _, err := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(containers).To(ContainElement(HaveKeyWithValue("name", "manager")))
		g.Expect(containers).To(HaveEach(HaveKeyWithValue("image", MatchRegexp(`^[a-z0-9.-]+\.[a-z]+/.+:.+$`))), "the canonical name of an image names its registry")
		g.Expect(containers).To(HaveEach(HaveKeyWithValue("args", Not(ContainElement(HavePrefix("--namespace"))))), "clusterctl installs a provider for all namespaces")
	}
	g.Expect(deployments).To(ConsistOf("capbm-controller-manager", "capbm-boot"))
}

var variable = regexp.MustCompile(`\$\{ ?([A-Z][A-Z0-9_]*)`)

// documented is true when the docs have a row for a variable.
func documented(docs, name string) bool { return strings.Contains(docs, "\n| `"+name+"` | ") }

// docs returns the page with the variables.
func (s *suite) docs(t *testing.T) string {
	t.Helper()
	return s.readFile(t, filepath.Join(s.lab.Root, "docs", "reference", "variables.md"))
}

func (s *suite) componentsVariables(t *testing.T) {
	g := NewWithT(t)
	docs := s.docs(t)
	found := variable.FindAllStringSubmatch(s.readFile(t, filepath.Join(s.repository(), components)), -1)
	g.Expect(found).NotTo(BeEmpty())
	for _, v := range found {
		g.Expect(v[1]).To(HavePrefix("CAPBM_"))
		g.Expect(documented(docs, v[1])).To(BeTrue(), "%s is not in docs/reference/variables.md", v[1])
	}
}

func (s *suite) componentsLabels(t *testing.T) {
	g := NewWithT(t)
	for _, o := range s.components(t) {
		g.Expect(o.GetLabels()).To(HaveKeyWithValue(providerLabel, provider.Infrastructure), "%s %s", o.GetKind(), o.GetName())
	}
	for _, kind := range append([]string{"BareMetalHost", "BareMetalBoot"}, kinds...) {
		crd, _ := s.crd(t, kind)
		g.Expect(crd.Labels).To(HaveKey(clusterctlv1.ClusterctlLabel), "clusterctl labelled what it installed")
	}
}

// componentsTransformed lets clusterctl put the components into another namespace.
func (s *suite) componentsTransformed(t *testing.T) {
	g := NewWithT(t)
	s.setVariables(t, filepath.Join(s.repository(), components))
	text, err := proc.Run(t.Context(), []string{"CLUSTERCTL_DISABLE_VERSIONCHECK=true"}, filepath.Join(s.lab.Bin, "clusterctl"), "generate", "provider",
		"--infrastructure", provider.Name+":"+filepath.Base(s.repository()), "--target-namespace", "elsewhere", "--config", s.lab.Repository.SplitConfig)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(variable.FindAllString(text, -1)).To(BeEmpty(), "every variable was replaced")
	objects := decode(t, text)
	g.Expect(len(objects)).To(BeNumerically(">=", len(s.components(t))))
	for _, o := range objects {
		what := o.GetKind() + " " + o.GetName()
		g.Expect(o.GetLabels()).To(And(HaveKeyWithValue(providerLabel, provider.Infrastructure), HaveKey(clusterctlv1.ClusterctlLabel)), what)
		switch {
		case o.GetKind() == "Namespace":
			g.Expect(o.GetName()).To(Equal("elsewhere"))
		case !clusterWide(o):
			g.Expect(o.GetNamespace()).To(Equal("elsewhere"), what)
		}
		subjects, _, err := unstructured.NestedSlice(o.Object, "subjects")
		g.Expect(err).NotTo(HaveOccurred())
		for _, subject := range subjects {
			g.Expect(subject).To(HaveKeyWithValue("namespace", "elsewhere"), what)
		}
	}
}

// templates returns the names of the cluster templates in the repository.
func (s *suite) templates(t *testing.T) []string {
	t.Helper()
	return s.files(t, "cluster-template")
}

func (s *suite) files(t *testing.T, prefix string) []string {
	t.Helper()
	g := NewWithT(t)
	entries, err := os.ReadDir(s.repository())
	g.Expect(err).NotTo(HaveOccurred())
	var names []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) {
			names = append(names, e.Name())
		}
	}
	return names
}

// flavor returns the flavor of a cluster template, "" for the default one.
func flavor(file string) string {
	return strings.TrimPrefix(strings.TrimSuffix(strings.TrimPrefix(file, "cluster-template"), ".yaml"), "-")
}

// setVariables gives a value to those variables of a file that have no default.
func (s *suite) setVariables(t *testing.T, path string) {
	t.Helper()
	text := s.readFile(t, path)
	for _, v := range variable.FindAllStringSubmatch(text, -1) {
		if _, set := os.LookupEnv(v[1]); !set && strings.Contains(text, "${"+v[1]+"}") {
			t.Setenv(v[1], "192.0.2.10")
		}
	}
}

// generate returns the objects of a cluster template, for a namespace that is not there.
func (s *suite) generate(t *testing.T, file string) []*unstructured.Unstructured {
	t.Helper()
	g := NewWithT(t)
	s.setVariables(t, filepath.Join(s.repository(), file))
	text, err := s.plane.Clusterctl(t.Context(), "generate", "cluster", "generated", "--infrastructure", provider.Name, "--flavor", flavor(file),
		"--target-namespace", "elsewhere", "--kubernetes-version", site.KubernetesVersion, "--control-plane-machine-count", "3", "--worker-machine-count", "5")
	g.Expect(err).NotTo(HaveOccurred(), file)
	objects := decode(t, text)
	g.Expect(objects).NotTo(BeEmpty(), file)
	return objects
}

func (s *suite) templateNames(t *testing.T) {
	g := NewWithT(t)
	g.Expect(s.templates(t)).To(ContainElement("cluster-template.yaml"))
	docs := s.docs(t)
	for _, file := range s.templates(t) {
		g.Expect(file).To(MatchRegexp(`^cluster-template(-[a-z0-9]+)*\.yaml$`))
		if name := flavor(file); name != "" && !strings.HasPrefix(name, "lab") { // those of the lab are for the lab
			g.Expect(docs).To(ContainSubstring("`"+name+"`"), "the flavor is in no page of the docs")
		}
	}
}

func (s *suite) templateNamespace(t *testing.T) {
	g := NewWithT(t)
	for _, file := range s.templates(t) {
		for _, o := range decode(t, s.readFile(t, filepath.Join(s.repository(), file))) {
			g.Expect(o.GetNamespace()).To(BeElementOf("", "${NAMESPACE}"), file)
			g.Expect(o.GetKind()).NotTo(Equal("Namespace"), "%s: the namespace is there already", file)
		}
		for _, o := range s.generate(t, file) {
			g.Expect(o.GetNamespace()).To(Equal("elsewhere"), "%s: %s %s", file, o.GetKind(), o.GetName())
		}
	}
}

// templateVariables shows the common variables, which are flags of clusterctl, and that the others are documented.
func (s *suite) templateVariables(t *testing.T) {
	g := NewWithT(t)
	docs := s.docs(t)
	for _, file := range s.templates(t) {
		text := s.readFile(t, filepath.Join(s.repository(), file))
		var names []string
		for _, v := range variable.FindAllStringSubmatch(text, -1) {
			names = append(names, v[1])
		}
		g.Expect(names).To(ContainElements("CLUSTER_NAME", "KUBERNETES_VERSION"), file)
		if flavor(file) == "" { // another may be one because of how many machines it has
			g.Expect(names).To(ContainElements("CONTROL_PLANE_MACHINE_COUNT", "WORKER_MACHINE_COUNT"), file)
		}
		for _, name := range names {
			common := slices.Contains([]string{"CLUSTER_NAME", "NAMESPACE", "KUBERNETES_VERSION", "CONTROL_PLANE_MACHINE_COUNT", "WORKER_MACHINE_COUNT"}, name)
			g.Expect(common || strings.HasPrefix(flavor(file), "lab") || documented(docs, name)).To(BeTrue(), "%s: %s is not in docs/reference/variables.md", file, name)
		}
		out, err := json.Marshal(s.generate(t, file))
		g.Expect(err).NotTo(HaveOccurred())
		for name, value := range map[string]string{
			"CLUSTER_NAME": `"generated"`, "KUBERNETES_VERSION": `"` + site.KubernetesVersion + `"`,
			"CONTROL_PLANE_MACHINE_COUNT": `"replicas":3`, "WORKER_MACHINE_COUNT": `"replicas":5`,
		} {
			if slices.Contains(names, name) {
				g.Expect(string(out)).To(ContainSubstring(value), "%s: what the flag of clusterctl says", file)
			}
		}
	}
}

// templateLinks shows that whatever the objects of a template refer to is in the template.
func (s *suite) templateLinks(t *testing.T) {
	g := NewWithT(t)
	for _, file := range s.templates(t) {
		objects := s.generate(t, file)
		there := map[string]bool{}
		for _, o := range objects {
			there[o.GetKind()+"/"+o.GetName()] = true
		}
		links := 0
		for _, o := range objects {
			for _, link := range linksOf(o.Object) {
				links++
				g.Expect(there).To(HaveKey(link), "%s: %s %s refers to it", file, o.GetKind(), o.GetName())
			}
		}
		g.Expect(links).To(BeNumerically(">", 0), file)
	}
}

// linksOf returns the objects, as kind/name, that the fields named ...Ref of an object refer to.
func linksOf(value any) []string {
	var out []string
	switch v := value.(type) {
	case []any:
		for _, item := range v {
			out = append(out, linksOf(item)...)
		}
	case map[string]any:
		for name, item := range v {
			ref, isObject := item.(map[string]any)
			if isObject && strings.HasSuffix(name, "Ref") && ref["kind"] != nil && ref["name"] != nil {
				out = append(out, fmt.Sprintf("%s/%s", ref["kind"], ref["name"]))
				continue
			}
			out = append(out, linksOf(item)...)
		}
	}
	return out
}

// objects returns the objects of a kind of ours in the cluster's namespace.
func (s *suite) objects(t *testing.T, kind string) []unstructured.Unstructured {
	t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(groupVersionOf(kind).WithKind(kind + "List"))
	NewWithT(t).Expect(s.plane.Client.List(t.Context(), list, client.InNamespace(site.Namespace))).To(Succeed())
	return list.Items
}

// move lets clusterctl write what it would move to a folder: all of the cluster, the hosts with their boots, and the Secrets of their BMCs. TestClusterctl of
// hack/contract/clusterctl moves a cluster for real.
func (s *suite) move(t *testing.T) {
	g := NewWithT(t)
	for _, resource := range []string{"baremetalhosts", "baremetalboots", "baremetalinspections", "baremetalerasures"} {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		g.Expect(s.plane.Client.Get(t.Context(), types.NamespacedName{Name: resource + "." + v1alpha1.GroupVersion.Group}, crd)).To(Succeed())
		g.Expect(crd.Labels).To(HaveKey(clusterctlv1.ClusterctlMoveLabel))
	}
	folder, given := t.TempDir(), s.commands()
	_, err := s.plane.Clusterctl(t.Context(), "move", "--to-directory", folder, "-n", site.Namespace)
	g.Expect(err).NotTo(HaveOccurred())
	var moved []string
	entries, err := os.ReadDir(folder)
	g.Expect(err).NotTo(HaveOccurred())
	for _, e := range entries {
		for _, o := range decode(t, s.readFile(t, filepath.Join(folder, e.Name()))) {
			moved = append(moved, o.GetKind()+"/"+o.GetName())
		}
	}
	g.Expect(s.objects(t, "BareMetalBoot")).To(HaveLen(len(s.lab.Rack.Servers())))
	for _, kind := range append([]string{"BareMetalHost", "BareMetalBoot"}, kinds...) {
		for _, o := range s.objects(t, kind) {
			g.Expect(moved).To(ContainElement(kind + "/" + o.GetName()))
		}
	}
	for _, server := range s.lab.Rack.Servers() {
		g.Expect(s.secret(t, server.Name+"-bmc").Labels).To(HaveKey(clusterctlv1.ClusterctlMoveLabel))
		g.Expect(moved).To(ContainElement("Secret/" + server.Name + "-bmc"))
	}
	g.Expect(s.commands()).To(Equal(given), "the pause that a move begins with sent a command to a server")
}
