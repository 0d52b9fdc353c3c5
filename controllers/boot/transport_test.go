package boot

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

// TestAgentWords: what an agent says that the API server would refuse is unknown, and does not keep the rest of a report from being written.
func TestAgentWords(t *testing.T) {
	g := NewWithT(t)
	g.Expect([]v1alpha1.FirmwareMode{firmwareModeOf("UEFI"), firmwareModeOf("BIOS"), firmwareModeOf("Open\x00Firmware")}).To(
		Equal([]v1alpha1.FirmwareMode{v1alpha1.FirmwareUEFI, v1alpha1.FirmwareBIOS, ""}))
	g.Expect([]v1alpha1.SecureBoot{secureBootOf(agent.SecureBootEnabled), secureBootOf(agent.SecureBootDisabled), secureBootOf("true")}).To(
		Equal([]v1alpha1.SecureBoot{v1alpha1.SecureBootEnabled, v1alpha1.SecureBootDisabled, ""}))
	g.Expect([]v1alpha1.Health{controllers.HealthOf("OK"), controllers.HealthOf("Warning"), controllers.HealthOf("Critical"), controllers.HealthOf("ok")}).To(
		Equal([]v1alpha1.Health{v1alpha1.HealthOK, v1alpha1.HealthWarning, v1alpha1.HealthCritical, ""}))
	for word, want := range map[wire.DiskTransport]wire.DiskTransport{
		"NVMe": wire.TransportNVMe, "NVMeOverFabrics": wire.TransportNVMeOverFabrics, "FibreChannel": wire.TransportFibreChannel,
		"": "", "nvme": wire.TransportOther, "Other": wire.TransportOther,
	} {
		g.Expect(transportOf(word)).To(Equal(want), string(word))
	}
}

// TestAgentSteps: the API server knows each step that a boot server accepts of an agent.
func TestAgentSteps(t *testing.T) {
	g := NewWithT(t)
	content, err := os.ReadFile(filepath.Join(controllerstest.Root(), "config", "crd", "bases", "infrastructure.cluster.x-k8s.io_baremetalboots.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	var crd apiextensionsv1.CustomResourceDefinition
	g.Expect(yaml.Unmarshal(content, &crd)).To(Succeed())
	var want []agent.Step
	for _, step := range crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"].Properties["agent"].Properties["step"].Enum {
		want = append(want, agent.Step(strings.Trim(string(step.Raw), `"`)))
	}
	g.Expect(want).To(ConsistOf(agent.Steps))
}
