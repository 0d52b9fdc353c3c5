package runner

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

// TestConfigure: the agent of a boot with new firmware settings reports success and Secure Boot, and nothing else.
func TestConfigure(t *testing.T) {
	g := NewWithT(t)
	none := func(agent.Progress) { t.Error("it reports progress") }
	g.Expect(Configurer{SecureBoot: wire.SecureBootEnabled}.Run(t.Context(), &agent.Plan{Purpose: agent.Configure, Configure: &agent.ConfigurePlan{}}, none)).To(
		Equal(agent.Result{SecureBoot: wire.SecureBootEnabled}))
	g.Expect(Configurer{}.Run(t.Context(), &agent.Plan{Purpose: agent.Configure}, none).Failure).To(HaveValue(HaveField("Reason", wire.ReasonPlanInvalid)))
}
