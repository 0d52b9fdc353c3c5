package runner

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

// TestConfigure: the agent of a boot with new firmware settings reports success and nothing else.
func TestConfigure(t *testing.T) {
	g := NewWithT(t)
	none := func(agent.Progress) { t.Error("it reports progress") }
	g.Expect(Configurer{}.Run(t.Context(), &agent.Plan{Purpose: agent.Configure, Configure: &agent.ConfigurePlan{}}, none).Failure).To(BeNil())
	g.Expect(Configurer{}.Run(t.Context(), &agent.Plan{Purpose: agent.Configure}, none).Failure).To(HaveValue(HaveField("Reason", wire.ReasonPlanInvalid)))
}
