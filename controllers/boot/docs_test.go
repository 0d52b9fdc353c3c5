package boot_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/boot"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed"
)

var yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// TestDocs: the API server accepts every network of docs/reference/bootstrap-data.md, and each is rendered as in testdata/network-config.
func TestDocs(t *testing.T) {
	g := NewWithT(t)
	page, err := os.ReadFile("../../docs/reference/bootstrap-data.md")
	g.Expect(err).NotTo(HaveOccurred())
	namespace := env.Namespace(t)
	blocks := yamlBlock.FindAllStringSubmatch(string(page), -1)
	rendering := []string{"static.yaml", "bond.yaml"}
	for _, block := range blocks {
		if !strings.HasPrefix(block[1], "network:") {
			continue
		}
		g.Expect(rendering).NotTo(BeEmpty(), "a network more than there are files")
		want, err := os.ReadFile(filepath.Join("testdata", "network-config", rendering[0]))
		g.Expect(err).NotTo(HaveOccurred())
		rendering = rendering[1:]
		host := &v1alpha1.BareMetalHost{}
		host.Namespace, host.GenerateName = namespace, "docs-"
		g.Expect(yaml.UnmarshalStrict([]byte(block[1]), &host.Spec)).To(Succeed())
		host.Spec.BMC = v1alpha1.BMC{Address: "redfish://192.0.2.10", CredentialsSecretName: "bmc"}
		host.Spec.BootMACAddresses = []string{"52:54:00:12:34:56"}
		g.Expect(env.Client.Create(t.Context(), host)).To(Succeed())
		network, err := boot.Network(host.Spec.Network)
		g.Expect(err).NotTo(HaveOccurred())
		rendered, ok, err := seed.File(seed.Data{Network: network}, seed.NetworkConfig, "")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(ok).To(BeTrue())
		g.Expect(rendered).To(MatchYAML(want))
		g.Expect(seed.CommandLine(seed.Ignition, network, "http://192.0.2.1")).NotTo(BeEmpty())
	}
	g.Expect(rendering).To(BeEmpty())
}
