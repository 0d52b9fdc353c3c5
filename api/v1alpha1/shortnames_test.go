package v1alpha1_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
)

// metal3 are the short names of Metal3's baremetal-operator and Cluster API provider, in August 2026.
var metal3 = []any{
	"bmh", "bmhost", "bms", "bes", "bmcevent", "hd", "hfs", "ppimg",
	"m3c", "m3cluster", "metal3c", "m3ct", "m3dc", "m3dataclaim", "metal3dc", "m3d", "m3data", "metal3d", "m3dt", "m3datatemplate", "metal3dt",
	"m3m", "m3machine", "metal3m", "m3mt", "m3machinetemplate", "metal3mt", "m3r", "m3remediation", "m3rt", "m3remediationtemplate", "metal3rt",
}

// tinkerbell are the short names of Tinkerbell, in August 2026. Its Cluster API provider has no short names.
var tinkerbell = []any{"hw", "j", "pol", "t", "tpl", "wf", "wrs"}

// TestShortNames: no short name is one of Metal3's or Tinkerbell's. With both installed, kubectl would show the objects of only one of them.
func TestShortNames(t *testing.T) {
	g := NewWithT(t)
	files, err := filepath.Glob(filepath.Join(controllerstest.Root(), "config", "crd", "bases", "*.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	more, err := filepath.Glob(filepath.Join(controllerstest.Root(), "config", "bootstrap", "crd", "bases", "*.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(files).NotTo(BeEmpty())
	g.Expect(more).NotTo(BeEmpty())
	files = append(files, more...)
	for _, file := range files {
		text, err := os.ReadFile(file)
		g.Expect(err).NotTo(HaveOccurred())
		var crd apiextensionsv1.CustomResourceDefinition
		g.Expect(yaml.Unmarshal(text, &crd)).To(Succeed())
		g.Expect(crd.Spec.Names.ShortNames).NotTo(ContainElement(BeElementOf(slices.Concat(metal3, tinkerbell)...)), crd.Name)
	}
}
