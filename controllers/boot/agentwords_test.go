package boot

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
)

// TestAgentWords: what an agent says that the API server would refuse is unknown, and does not keep the rest of a report from being written.
func TestAgentWords(t *testing.T) {
	g := NewWithT(t)
	g.Expect([]wire.FirmwareMode{firmwareModeOf("UEFI"), firmwareModeOf("BIOS"), firmwareModeOf("Open\x00Firmware")}).To(
		Equal([]wire.FirmwareMode{wire.FirmwareUEFI, wire.FirmwareBIOS, ""}))
	g.Expect([]wire.SecureBoot{secureBootOf(wire.SecureBootEnabled), secureBootOf(wire.SecureBootDisabled), secureBootOf("true")}).To(
		Equal([]wire.SecureBoot{wire.SecureBootEnabled, wire.SecureBootDisabled, ""}))
	g.Expect([]wire.Health{controllers.HealthOf("OK"), controllers.HealthOf("Warning"), controllers.HealthOf("Critical"), controllers.HealthOf("ok")}).To(
		Equal([]wire.Health{wire.HealthOK, wire.HealthWarning, wire.HealthCritical, ""}))
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
	var want []wire.AgentStep
	for _, step := range crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"].Properties["agent"].Properties["step"].Enum {
		want = append(want, wire.AgentStep(strings.Trim(string(step.Raw), `"`)))
	}
	g.Expect(want).To(ConsistOf(wire.AgentSteps))
}
