package runner

import (
	"context"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/failure"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

// Configurer ends a boot that applied firmware settings: the server has booted. It opens no disk.
type Configurer struct {
	// SecureBoot is the state of Secure Boot in this boot; empty for a BIOS, and if it is unknown.
	SecureBoot wire.SecureBoot
}

// Run carries a plan out.
func (c Configurer) Run(_ context.Context, plan *agent.Plan, _ func(agent.Progress)) agent.Result {
	if plan.Configure == nil {
		return resultOf(failure.New(wire.ReasonPlanInvalid, "the plan has the purpose %s, and nothing to do", plan.Purpose))
	}
	result := resultOf(nil)
	result.SecureBoot = c.SecureBoot
	return result
}
