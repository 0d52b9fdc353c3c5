package v1alpha1_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
)

// TestSamples: there is a sample of each kind that users write, and the API server accepts all samples with all their fields.
func TestSamples(t *testing.T) {
	g := NewWithT(t)
	namespace := env.Namespace(t)
	strict := client.WithFieldValidation(env.Client, "Strict")
	files, err := filepath.Glob(filepath.Join(controllerstest.Root(), "config", "samples", "*.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(files).NotTo(BeEmpty())
	kinds := []string{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		g.Expect(err).NotTo(HaveOccurred())
		decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
		for {
			var o unstructured.Unstructured
			if err := decoder.Decode(&o); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			o.SetNamespace(namespace)
			kinds = append(kinds, o.GetKind())
			g.Expect(strict.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(&o), client.FieldOwner("samples"))).To(Succeed(), "%s", file)
		}
	}
	want := []string{"Secret"}
	for kind := range env.Scheme.KnownTypes(v1alpha1.GroupVersion) {
		written := kind == "BareMetalBoot" || kind == "BareMetalInspection" || kind == "BareMetalErasure" || kind == "BareMetalSettings" // by the provider
		if strings.HasPrefix(kind, "BareMetal") && !strings.HasSuffix(kind, "List") && !written {
			want = append(want, kind)
		}
	}
	g.Expect(want).To(HaveLen(10))
	g.Expect(kinds).To(ConsistOf(want))
}
