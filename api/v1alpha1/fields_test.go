package v1alpha1_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
)

// TestFieldsPage: docs/reference/fields.md says of each top-level field of each spec who writes it, and names no other.
func TestFieldsPage(t *testing.T) {
	g := NewWithT(t)
	root := controllerstest.Root()
	content, err := os.ReadFile(filepath.Join(root, "docs", "reference", "fields.md"))
	g.Expect(err).NotTo(HaveOccurred())
	rows := map[string]string{} // by kind
	for line := range strings.Lines(string(content)) {
		cells := strings.SplitN(line, "|", 3)
		if len(cells) < 3 || !strings.HasPrefix(cells[1], " BareMetal") {
			continue
		}
		for kind := range strings.SplitSeq(cells[1], ",") {
			rows[strings.TrimSpace(kind)] = cells[2]
		}
	}
	files, err := filepath.Glob(filepath.Join(root, "config", "crd", "bases", "*.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	more, err := filepath.Glob(filepath.Join(root, "config", "bootstrap", "crd", "bases", "*.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	for _, file := range append(files, more...) {
		text, err := os.ReadFile(file)
		g.Expect(err).NotTo(HaveOccurred())
		var crd apiextensionsv1.CustomResourceDefinition
		g.Expect(yaml.Unmarshal(text, &crd)).To(Succeed())
		kind := crd.Spec.Names.Kind
		row, found := rows[kind]
		g.Expect(found).To(BeTrue(), kind)
		delete(rows, kind)
		if !strings.Contains(row, "`") { // all of them are the provider's
			g.Expect(row).To(ContainSubstring("| all |"), kind)
			continue
		}
		spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
		if template, ok := spec.Properties["template"]; ok && strings.HasSuffix(kind, "Template") {
			spec = template.Properties["spec"]
		}
		for field := range spec.Properties {
			g.Expect(row).To(ContainSubstring("`"+field+"`"), "%s.spec.%s", kind, field)
		}
		for i, word := range strings.Split(row, "`") {
			known := slices.Contains([]string{"kubectl baremetal erase", "providerID", "powerCycle", "taintedNode", "handOver"}, word) // what a template does not have
			_, is := spec.Properties[word]
			g.Expect(i%2 == 0 || is || known).To(BeTrue(), "%s has no field %s", kind, word)
		}
	}
	g.Expect(rows).To(BeEmpty())
}
