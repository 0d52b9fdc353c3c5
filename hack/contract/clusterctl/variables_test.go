package clusterctl

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/capbm-io/cluster-api-provider-baremetal/config/provider"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/contract/contracttest"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/plane"
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

// TestModeIsRequired: clusterctl fills in no boot server without the mode of its DHCP server, and names the variable.
func TestModeIsRequired(t *testing.T) {
	files := released(contracttest.Context(t, 5*time.Minute), t)
	for file := range bootServers {
		_, err := generateComponents(t, files[file], "CAPBM_BOOT_ADDRESS: 192.0.2.5\nCAPBM_BOOT_NAME: rack-2\n")
		NewWithT(t).Expect(err).To(MatchError(ContainSubstring("[CAPBM_DHCP_MODE]")), file)
	}
}

// customConfig is a configuration of the boot server that a user writes instead of the variables.
var customConfig = &corev1.ConfigMap{
	ObjectMeta: metav1.ObjectMeta{Namespace: "capbm-system", Name: "capbm-boot-config-custom"},
	Data:       map[string]string{"boot.yaml": "networks: [{name: rack-1, mode: authoritative, address: 192.0.2.5, subnet: 192.0.2.0/24}]\n"},
}

// installedConfigs returns the data of the configurations of the boot server, by name.
func (s *story) installedConfigs(t *testing.T) map[string]map[string]string {
	t.Helper()
	var all corev1.ConfigMapList
	NewWithT(t).Expect(s.source.Client.List(s.ctx, &all, client.InNamespace(customConfig.Namespace))).To(Succeed())
	data := map[string]map[string]string{}
	for _, c := range all.Items {
		if strings.HasPrefix(c.Name, "capbm-boot-config") {
			data[c.Name] = c.Data
		}
	}
	return data
}

// upgradeWithoutMode upgrades the provider without the mode of its DHCP server, as after an init with another shell. The upgrade fails with the name of the
// variable. The provider keeps its version, and the boot server both its configurations.
func (s *story) upgradeWithoutMode(t *testing.T) { //nolint:thelper // a step: a failure is to name its line
	g := NewWithT(t)
	g.Expect(s.source.Client.Create(s.ctx, customConfig.DeepCopy())).To(Succeed())
	before := s.installedConfigs(t)
	g.Expect(before).To(HaveLen(2))
	env := []string{"CLUSTERCTL_DISABLE_VERSIONCHECK=true", "CAPBM_BOOT_ADDRESS=192.0.2.1"}
	_, err := proc.Run(s.ctx, env, filepath.Join(project, ".cache", "bin", "clusterctl"), "upgrade", "apply",
		"--infrastructure", "capbm-system/"+provider.Name+":"+plane.NextVersion, "--kubeconfig", s.source.Kubeconfig, "--config", s.lab.Repository.Config)
	g.Expect(err).To(MatchError(ContainSubstring("[CAPBM_DHCP_MODE]")))
	out, err := s.source.Kubectl(s.ctx, "get", "providers.clusterctl.cluster.x-k8s.io", "-A")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(out).To(MatchRegexp(`capbm-system +` + provider.Infrastructure + ` +\S+ +InfrastructureProvider +` + provider.Name + ` +v0\.1\.0`))
	g.Expect(s.installedConfigs(t)).To(Equal(before))
}

// upgradeKeepsCustomConfig checks that the upgrade replaced the configuration of the variables, and kept the one that a user wrote.
func (s *story) upgradeKeepsCustomConfig(t *testing.T) { //nolint:thelper // a step: a failure is to name its line
	g := NewWithT(t)
	g.Expect(s.installedConfigs(t)).To(And(HaveLen(2), HaveKeyWithValue(customConfig.Name, customConfig.Data),
		HaveKeyWithValue("capbm-boot-config", HaveKeyWithValue("boot.yaml", ContainSubstring("mode: proxy")))))
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
