package host_test

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
)

// TestSettingsRunSecureBoot: a run enables Secure Boot by one restart, also where the BMC stages it as a BIOS attribute for a job, or in a settings object.
func TestSettingsRunSecureBoot(t *testing.T) {
	t.Cleanup(startProfiles(t, &shiftedClock{}))
	for name, test := range map[string]struct {
		vendor string
		fault  bmctest.Fault
		writes []string
	}{
		"an attribute":      {"Dell Inc.", bmctest.BIOSNeedsJob, []string{"BIOS=SecureBoot:Enabled,WorkloadProfile:LowLatency"}},
		"a settings object": {"", bmctest.SecureBootSettings, []string{"BIOS=WorkloadProfile:LowLatency", "SecureBoot=On"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			namespace := env.Namespace(t)
			profileOf(t, namespace, "WorkloadProfile", "LowLatency", func(s *v1alpha1.BareMetalProfileSpec) { s.SecureBoot = wire.SecureBootEnabled })
			server := controllerstest.NewServer(t, namespace, "h", bmctest.Options{Vendor: test.vendor})
			server.Host.Labels = map[string]string{"profile": "p"}
			server.Host.Spec.BootMode = v1alpha1.BootModeUEFISecureBoot
			misbehave(t, server, test.fault, -1)
			register(t, server)
			wait(t, server, phase(v1alpha1.PhaseConfiguring))
			g.Eventually(server.On, inspectionTimeout).Should(BeTrue())
			boot := controllerstest.BootOf(t, env, server.Host)
			controllerstest.Modify(t, env, boot, func(b *v1alpha1.BareMetalBoot) {
				b.Spec.AgentDoneTime, b.Spec.AgentSecureBoot = new(metav1.Now().Rfc3339Copy()), wire.SecureBootEnabled
			})
			wait(t, server, phase(v1alpha1.PhaseAvailable))
			wait(t, server, reason(v1alpha1.SettingsConformCondition, v1alpha1.ReasonSettingsConform))
			g.Expect(settingsOf(t, server).Spec.Outcome).To(Equal(v1alpha1.SettingsApplied))
			g.Expect(server.CommandNames()).To(ContainElements(test.writes))
			g.Expect(server.Host.Spec.ProviderState.SettingsRuns).To(Equal(int32(1)))
		})
	}
}
