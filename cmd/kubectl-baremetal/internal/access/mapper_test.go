package access

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// TestMapper: the mapper names the resource of each kind of the provider as its CRD does. A wrong name would be answered with "not found", as that of an object that does not exist.
func TestMapper(t *testing.T) {
	g := NewWithT(t)
	files, err := filepath.Glob("../../../../config/crd/bases/*.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	more, err := filepath.Glob("../../../../config/bootstrap/crd/bases/*.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(len(files)).To(BeNumerically(">", 10))
	g.Expect(more).NotTo(BeEmpty())
	for _, file := range append(files, more...) {
		content, err := os.ReadFile(file)
		g.Expect(err).NotTo(HaveOccurred())
		var crd apiextensionsv1.CustomResourceDefinition
		g.Expect(yaml.Unmarshal(content, &crd)).To(Succeed())
		mapping, err := NewMapper().RESTMapping(schema.GroupKind{Group: crd.Spec.Group, Kind: crd.Spec.Names.Kind}, crd.Spec.Versions[0].Name)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(mapping.Resource.Resource).To(Equal(crd.Spec.Names.Plural))
		g.Expect(mapping.Scope.Name()).To(Equal(meta.RESTScopeNameNamespace))
	}
}
