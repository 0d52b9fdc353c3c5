package v1alpha1_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
)

// screen is how many lines `kubectl explain` of a top-level field may print, in 80 columns.
const screen = 60

// TestExplainFitsAScreen: what `kubectl explain` prints of a top-level field of a spec fits a screen, except a BareMetalInspection, which nobody writes.
func TestExplainFitsAScreen(t *testing.T) {
	g := NewWithT(t)
	files, err := filepath.Glob(filepath.Join(controllerstest.Root(), "config", "crd", "bases", "*.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	more, err := filepath.Glob(filepath.Join(controllerstest.Root(), "config", "bootstrap", "crd", "bases", "*.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect([]int{len(files), len(more)}).To(HaveEach(BeNumerically(">", 1)))
	for _, file := range append(files, more...) {
		content, err := os.ReadFile(file)
		g.Expect(err).NotTo(HaveOccurred())
		var crd apiextensionsv1.CustomResourceDefinition
		g.Expect(yaml.Unmarshal(content, &crd)).To(Succeed())
		if crd.Spec.Names.Kind == "BareMetalInspection" {
			continue
		}
		for name, field := range crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties {
			g.Expect(explained(&field)).To(BeNumerically("<=", screen), "%s.spec.%s", crd.Spec.Names.Kind, name)
		}
	}
}

// explained returns how many lines `kubectl explain` prints: a heading, the description, and each field with its own.
func explained(field *apiextensionsv1.JSONSchemaProps) int {
	const heading, indent, column = 6, 4, 80
	lines := heading + wrapped(field.Description, column-indent)
	fields := field.Properties
	if field.Items != nil && field.Items.Schema != nil {
		fields = field.Items.Schema.Properties
	}
	for _, f := range fields {
		lines += 2 + wrapped(f.Description, column-indent)
	}
	return lines
}

func wrapped(text string, column int) int {
	lines := 0
	for line := range strings.SplitSeq(text, "\n") {
		lines++
		at := 0
		for word := range strings.FieldsSeq(line) {
			if at > 0 && at+1+len(word) > column {
				lines, at = lines+1, 0
			}
			at += 1 + len(word)
		}
	}
	return lines
}
