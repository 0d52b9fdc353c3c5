package clusterctl

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/proc"
)

// bootServers are the Deployments with a boot server, by the file of the release.
var bootServers = map[string]string{
	"infrastructure-components.yaml": "capbm-boot", "single-pod-components.yaml": "capbm-controller-manager", "boot-components.yaml": "capbm-boot-rack-2",
}

// generateComponents lets clusterctl fill in a file of the release with the variables of a configuration file, and no others.
func generateComponents(t *testing.T, content, config string) (string, error) {
	t.Helper()
	g := NewWithT(t)
	from, variables := filepath.Join(t.TempDir(), "components.yaml"), filepath.Join(t.TempDir(), "clusterctl.yaml")
	g.Expect(os.WriteFile(from, []byte(content), 0o600)).To(Succeed())
	g.Expect(os.WriteFile(variables, []byte(config), 0o600)).To(Succeed())
	env := []string{"CLUSTERCTL_DISABLE_VERSIONCHECK=true", "KUBECONFIG=" + filepath.Join(t.TempDir(), "none")}
	return proc.Run(t.Context(), env, filepath.Join(project, ".cache", "bin", "clusterctl"), "generate", "yaml", "--from", from, "--config", variables)
}

// deployment returns the Deployment with a name.
func deployment(t *testing.T, text, name string) *unstructured.Unstructured {
	t.Helper()
	g := NewWithT(t)
	for document := range strings.SplitSeq(text, "\n---\n") {
		o := &unstructured.Unstructured{}
		g.Expect(yaml.Unmarshal([]byte(document), &o.Object)).To(Succeed())
		if o.GetKind() == "Deployment" && o.GetName() == name {
			return o
		}
	}
	t.Fatalf("no Deployment %s", name)
	return nil
}

// nodeSelector generates every Deployment with a boot server, without a node selector and with one. The API server accepts both.
func (s *story) nodeSelector(t *testing.T) { //nolint:thelper // a step: a failure is to name its line
	g := NewWithT(t)
	files := released(s.ctx, t)
	for _, c := range []struct {
		line string
		want map[string]string
	}{
		{"", nil},
		{`CAPBM_NODE_SELECTOR: "{}"`, nil},
		{`CAPBM_NODE_SELECTOR: "{kubernetes.io/hostname: mgmt-1}"`, map[string]string{"kubernetes.io/hostname": "mgmt-1"}},
		{`CAPBM_NODE_SELECTOR: '{"example.com/boot": "true", rack: a}'`, map[string]string{"example.com/boot": "true", "rack": "a"}},
	} {
		for file, name := range bootServers {
			text, err := generateComponents(t, files[file], fmt.Sprintf("CAPBM_BOOT_ADDRESS: 192.0.2.5\nCAPBM_DHCP_MODE: proxy\nCAPBM_BOOT_NAME: rack-2\n%s\n", c.line))
			g.Expect(err).NotTo(HaveOccurred(), "%s %s", file, c.line)
			d := deployment(t, text, name)
			g.Expect(s.source.Client.Create(s.ctx, d, client.DryRunAll)).To(Succeed(), "%s %s", file, c.line)
			selector, _, err := unstructured.NestedStringMap(d.Object, "spec", "template", "spec", "nodeSelector")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(selector).To(Equal(c.want), "%s %s", file, c.line)
			if name == "capbm-boot" {
				selector, _, err := unstructured.NestedStringMap(deployment(t, text, "capbm-controller-manager").Object, "spec", "template", "spec", "nodeSelector")
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(selector).To(BeEmpty(), "the controllers run on any node")
			}
		}
	}
}
