package cluster_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
)

// TestDocs: the example of docs/cluster.md is valid, and the page lists every reason that requires an action of the user.
func TestDocs(t *testing.T) {
	g := NewWithT(t)
	content, err := os.ReadFile(filepath.Join(controllerstest.Root(), "docs", "cluster.md"))
	g.Expect(err).NotTo(HaveOccurred())
	_, rest, _ := strings.Cut(string(content), "```yaml\n")
	example, _, _ := strings.Cut(rest, "```")
	infra := &v1alpha1.BareMetalCluster{}
	g.Expect(yaml.UnmarshalStrict([]byte(example), infra)).To(Succeed())
	infra.Namespace = env.Namespace(t)
	env.Create(t, infra)
	for _, reason := range []string{
		v1alpha1.ReasonEndpointMissing, v1alpha1.ReasonEndpointInvalid, v1alpha1.ReasonEndpointMismatch,
		v1alpha1.ReasonFailureDomainWithoutHosts, v1alpha1.ReasonTooManyFailureDomains, v1alpha1.ReasonKubeconfigRefused,
	} {
		g.Expect(string(content)).To(ContainSubstring("`" + reason + "`"))
	}
}
