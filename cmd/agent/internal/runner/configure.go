package runner

import (
	"context"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/failure"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

// Configurer ends a boot that applied firmware settings: the server has booted. It opens no disk.
type Configurer struct{}

// Run carries a plan out.
func (Configurer) Run(_ context.Context, plan *agent.Plan, _ func(agent.Progress)) agent.Result {
	if plan.Configure == nil {
		return resultOf(failure.New(wire.ReasonPlanInvalid, "the plan has the purpose %s, and nothing to do", plan.Purpose))
	}
	return resultOf(nil)
}
