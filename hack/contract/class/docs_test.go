package class

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/util/yaml"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

const root = "../../.."

// clusterClass reads the released ClusterClass.
func clusterClass(t *testing.T) *clusterv1.ClusterClass {
	t.Helper()
	g := NewWithT(t)
	content, err := os.ReadFile(filepath.Join(root, "config", "templates", "clusterclasses", "baremetal", "clusterclass.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	var class clusterv1.ClusterClass
	g.Expect(yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), len(content)).Decode(&class)).To(Succeed())
	g.Expect(class.Name).To(Equal("baremetal"), "the folder is named after the class, and the class is its first object")
	return &class
}

// TestDocs: docs/reference/variables.md has a line for each variable with the text of the ClusterClass, and no others.
func TestDocs(t *testing.T) {
	g := NewWithT(t)
	docs, err := os.ReadFile(filepath.Join(root, "docs", "reference", "variables.md"))
	g.Expect(err).NotTo(HaveOccurred())
	_, section, found := strings.Cut(string(docs), "\n## Variables of the ClusterClass\n")
	g.Expect(found).To(BeTrue(), "the page has no section with the variables of the ClusterClass")
	section, _, _ = strings.Cut(section, "\n## ")
	var lines []string
	for line := range strings.Lines(section) {
		if strings.HasPrefix(line, "| `") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	var want []string
	for _, v := range clusterClass(t).Spec.Variables {
		schema := v.Schema.OpenAPIV3Schema
		value := ""
		switch {
		case *v.Required:
			value = "required"
		case schema.Default != nil:
			value = "`" + strings.Trim(string(schema.Default.Raw), `"`) + "`"
		}
		want = append(want, fmt.Sprintf("| `%s` | %s | %s | %s |", v.Name, schema.Type, value, schema.Description))
	}
	g.Expect(lines).To(Equal(want))
}
