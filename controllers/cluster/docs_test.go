package cluster_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
)

// TestDocs: the example of a BareMetalCluster in docs/guides/choose-servers.md is valid.
func TestDocs(t *testing.T) {
	g := NewWithT(t)
	content, err := os.ReadFile(filepath.Join(controllerstest.Root(), "docs", "guides", "choose-servers.md"))
	g.Expect(err).NotTo(HaveOccurred())
	example := regexp.MustCompile("(?s)```yaml\n([^`]*\nkind: BareMetalCluster\n[^`]*)```").FindSubmatch(content)
	g.Expect(example).NotTo(BeNil())
	infra := &v1alpha1.BareMetalCluster{}
	g.Expect(yaml.UnmarshalStrict(example[1], infra)).To(Succeed())
	infra.Namespace = env.Namespace(t)
	env.Create(t, infra)
}
