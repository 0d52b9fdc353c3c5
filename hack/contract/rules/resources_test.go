package rules

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/cluster-api/util/contract"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capbm-io/cluster-api-provider-baremetal/api/bootstrap/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/plane"
)

// contractLabel says which versions of a CRD speak Cluster API's contract v1beta2.
const contractLabel = "cluster.x-k8s.io/v1beta2"

// kinds are those that Cluster API deals with.
var kinds = []string{
	"BareMetalMachine", "BareMetalMachineTemplate", "BareMetalCluster", "BareMetalClusterTemplate", "BareMetalRemediation", "BareMetalRemediationTemplate",
	"BareMetalConfig", "BareMetalConfigTemplate",
}

// groupVersionOf returns the API group and version of a kind.
func groupVersionOf(kind string) schema.GroupVersion {
	if strings.HasPrefix(kind, "BareMetalConfig") {
		return bootstrapv1.GroupVersion
	}
	return v1alpha1.GroupVersion
}

// crd returns the CustomResourceDefinition that Cluster API looks for by the name that it calculates, and its version that speaks the contract.
func (s *suite) crd(t *testing.T, kind string) (*apiextensionsv1.CustomResourceDefinition, *apiextensionsv1.CustomResourceDefinitionVersion) {
	t.Helper()
	g := NewWithT(t)
	crd, api := &apiextensionsv1.CustomResourceDefinition{}, groupVersionOf(kind)
	g.Expect(s.plane.Client.Get(t.Context(), types.NamespacedName{Name: contract.CalculateCRDName(api.Group, kind)}, crd)).To(Succeed())
	g.Expect(crd.Spec.Names.Kind).To(Equal(kind))
	for i := range crd.Spec.Versions {
		if crd.Spec.Versions[i].Name == api.Version {
			return crd, &crd.Spec.Versions[i]
		}
	}
	t.Fatalf("%s has no version %s", kind, api.Version)
	return nil, nil
}

// field returns the schema of a field of a kind, like spec.providerID, nil if there is none.
func (s *suite) field(t *testing.T, kind, path string) *apiextensionsv1.JSONSchemaProps {
	t.Helper()
	_, version := s.crd(t, kind)
	schema := version.Schema.OpenAPIV3Schema
	for name := range strings.SplitSeq(path, ".") {
		if schema.Type == "array" {
			schema = schema.Items.Schema
		}
		next, ok := schema.Properties[name]
		if !ok {
			return nil
		}
		schema = &next
	}
	return schema
}

func (s *suite) scope(t *testing.T) {
	for _, kind := range kinds {
		crd, _ := s.crd(t, kind)
		NewWithT(t).Expect(crd.Spec.Scope).To(Equal(apiextensionsv1.NamespaceScoped), kind)
	}
}

func (s *suite) standardFields(t *testing.T) {
	g := NewWithT(t)
	scheme := plane.Scheme()
	for _, kind := range kinds {
		for _, name := range []string{"apiVersion", "kind", "metadata"} {
			g.Expect(s.field(t, kind, name)).NotTo(BeNil(), kind+"."+name)
		}
		o, err := scheme.New(groupVersionOf(kind).WithKind(kind))
		g.Expect(err).NotTo(HaveOccurred())
		_, isObject := o.(client.Object)
		g.Expect(isObject).To(BeTrue(), kind)
		list, err := scheme.New(groupVersionOf(kind).WithKind(kind + "List"))
		g.Expect(err).NotTo(HaveOccurred(), "the list of %s is named %[1]sList", kind)
		_, isList := list.(metav1.ListInterface)
		g.Expect(isList).To(BeTrue(), kind)
	}
}

// apiGroup shows that Cluster API's managers may do with our kinds what the contract wants them to be able to.
func (s *suite) apiGroup(t *testing.T) {
	g := NewWithT(t)
	for _, kind := range kinds {
		crd, _ := s.crd(t, kind)
		g.Expect(crd.Spec.Group).To(HaveSuffix("cluster.x-k8s.io"))
		for _, account := range []string{"capi-system:capi-manager", "capi-kubeadm-control-plane-system:capi-kubeadm-control-plane-manager"} {
			for _, verb := range []string{"create", "delete", "get", "list", "patch", "update", "watch"} {
				review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
					User:               "system:serviceaccount:" + account,
					ResourceAttributes: &authorizationv1.ResourceAttributes{Group: crd.Spec.Group, Resource: crd.Spec.Names.Plural, Verb: verb},
				}}
				g.Expect(s.plane.Client.Create(t.Context(), review)).To(Succeed())
				g.Expect(review.Status.Allowed).To(BeTrue(), "%s: %s %s", account, verb, crd.Spec.Names.Plural)
			}
		}
	}
}

func (s *suite) apiVersion(t *testing.T) {
	g := NewWithT(t)
	for _, kind := range kinds {
		crd, _ := s.crd(t, kind)
		g.Expect(crd.Labels).To(HaveKey(contractLabel), kind)
		g.Expect(crd.Labels).NotTo(HaveKey("cluster.x-k8s.io/v1beta1"), "docs/development/contract.md says that this is the one contract")
		served := map[string]bool{}
		for _, v := range crd.Spec.Versions {
			served[v.Name] = v.Served
		}
		for version := range strings.SplitSeq(crd.Labels[contractLabel], "_") {
			g.Expect(served[version]).To(BeTrue(), "%s: the label names %s", kind, version)
		}
	}
	// The purpose of the label: a client that names our kind without a version gets a version of the label.
	g.Expect(s.metadataFile(t).ReleaseSeries).To(ContainElement(HaveField("Contract", strings.TrimPrefix(contractLabel, "cluster.x-k8s.io/"))))
}

func (s *suite) machineDefinition(t *testing.T) {
	g := NewWithT(t)
	s.defined(t, "BareMetalMachine", true)
	id := s.field(t, "BareMetalMachine", "spec.providerID")
	g.Expect(id.Type).To(Equal("string"))
	g.Expect(*id.MinLength).To(BeEquivalentTo(1))
	g.Expect(*id.MaxLength).To(BeEquivalentTo(512))
	s.expectStatus(t, "BareMetalMachine")
	g.Expect(s.field(t, "BareMetalMachine", "status.addresses").Items.Schema.Properties).To(And(HaveKey("type"), HaveKey("address")))
	domain := s.field(t, "BareMetalMachine", "status.failureDomain")
	g.Expect(domain.Type).To(Equal("string"))
	g.Expect(*domain.MaxLength).To(BeEquivalentTo(256))
	g.Expect(s.field(t, "BareMetalMachine", "spec.failureDomain")).To(BeNil(),
		"Cluster API copies the old contract's field over the Machine's: the Machine says where its host is, and the status where it was found")
	for _, mirror := range []string{"status.failureReason", "status.failureMessage"} {
		g.Expect(s.field(t, "BareMetalMachine", mirror).Type).To(Equal("string"), "Cluster API copies it to the Machine")
	}
}

func (s *suite) machineTemplateDefinition(t *testing.T) {
	g := NewWithT(t)
	s.defined(t, "BareMetalMachineTemplate", true) // its status is for the cluster autoscaler
	g.Expect(s.field(t, "BareMetalMachineTemplate", "spec.template.metadata").Properties).To(And(HaveKey("labels"), HaveKey("annotations")))
	embedded, spec := s.field(t, "BareMetalMachineTemplate", "spec.template.spec"), s.field(t, "BareMetalMachine", "spec")
	for name := range spec.Properties {
		g.Expect(embedded.Properties).To(HaveKey(name))
	}
}

func (s *suite) clusterDefinition(t *testing.T) {
	g := NewWithT(t)
	s.defined(t, "BareMetalCluster", true)
	g.Expect(s.field(t, "BareMetalCluster", "spec.controlPlaneEndpoint.host").Type).To(Equal("string"))
	port := s.field(t, "BareMetalCluster", "spec.controlPlaneEndpoint.port")
	g.Expect(port.Type).To(Equal("integer"))
	g.Expect(*port.Maximum).To(BeEquivalentTo(65535))
	s.expectStatus(t, "BareMetalCluster")
	domains := s.field(t, "BareMetalCluster", "status.failureDomains")
	g.Expect(*domains.XListType).To(Equal("map"))
	g.Expect(domains.XListMapKeys).To(Equal([]string{"name"}))
	g.Expect(*domains.MaxItems).To(BeEquivalentTo(100))
	g.Expect(domains.Items.Schema.Properties).To(And(HaveKey("name"), HaveKey("controlPlane"), HaveKey("attributes")))
}

func (s *suite) clusterTemplateDefinition(t *testing.T) {
	g := NewWithT(t)
	s.defined(t, "BareMetalClusterTemplate", false)
	g.Expect(s.field(t, "BareMetalClusterTemplate", "spec.template.metadata").Properties).To(And(HaveKey("labels"), HaveKey("annotations")))
	embedded, spec := s.field(t, "BareMetalClusterTemplate", "spec.template.spec"), s.field(t, "BareMetalCluster", "spec")
	for name := range spec.Properties {
		g.Expect(embedded.Properties).To(HaveKey(name))
	}
	// One can be made from the type that we publish.
	template := &v1alpha1.BareMetalClusterTemplate{ObjectMeta: meta(side, "template")}
	template.Spec.Template.Spec.ControlPlaneEndpoint = v1alpha1.APIEndpoint{Host: "192.0.2.1", Port: 6443}
	g.Expect(s.plane.Client.Create(t.Context(), template)).To(Succeed())
	list := &v1alpha1.BareMetalClusterTemplateList{}
	g.Expect(s.plane.Client.List(t.Context(), list, client.InNamespace(side))).To(Succeed())
	g.Expect(list.Items).To(HaveLen(1))
}

// defined is what every kind of the contract must have.
func (s *suite) defined(t *testing.T, kind string, status bool) {
	t.Helper()
	g := NewWithT(t)
	crd, version := s.crd(t, kind)
	g.Expect(crd.Name).To(Equal(contract.CalculateCRDName(crd.Spec.Group, kind)))
	g.Expect(crd.Spec.Names.ListKind).To(Equal(kind + "List"))
	g.Expect(crd.Spec.Names.Categories).To(ContainElement("cluster-api"))
	g.Expect(version.Served && version.Storage).To(BeTrue())
	g.Expect(version.Subresources != nil && version.Subresources.Status != nil).To(Equal(status), "a subresource for the status")
}

// expectStatus expects of a kind what the contract says of a status.
func (s *suite) expectStatus(t *testing.T, kind string) {
	t.Helper()
	g := NewWithT(t)
	g.Expect(s.field(t, kind, "status.initialization.provisioned").Type).To(Equal("boolean"))
	g.Expect(s.field(t, kind, "status.ready")).To(BeNil(), "Cluster API reads it of providers of the contract v1beta1 alone")
	s.expectConditions(t, kind)
}

func (s *suite) expectConditions(t *testing.T, kind string) {
	t.Helper()
	g := NewWithT(t)
	conditions := s.field(t, kind, "status.conditions")
	g.Expect(*conditions.XListType).To(Equal("map"))
	g.Expect(conditions.XListMapKeys).To(Equal([]string{"type"}))
	for _, field := range []string{"type", "status", "reason", "message", "lastTransitionTime", "observedGeneration"} {
		g.Expect(conditions.Items.Schema.Properties).To(HaveKey(field))
	}
}
