package host_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
)

// TestOperationInProgress: the status shows an operation in progress with its name and start time.
func TestOperationInProgress(t *testing.T) {
	defer start(t)()
	server := controllerstest.NewServer(t, env.Namespace(t), "h", bmctest.Options{})
	register(t, server)
	wait(t, server, phase(v1alpha1.PhaseAvailable))
	misbehave(t, server, bmctest.Slow, -1)
	controllerstest.Modify(t, env, server.Host, annotate(v1alpha1.RetryBMCAnnotation))
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(h.Status.LastOperation).To(HaveValue(And(HaveField("Name", "Inspect"), HaveField("EndTime", BeNil()), HaveField("Outcome", BeEmpty()))))
		g.Expect(h.Status.LastOperation.StartTime.IsZero()).To(BeFalse())
	})
	misbehave(t, server, bmctest.Slow, 0)
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(h.Status.LastOperation).To(HaveValue(And(HaveField("Name", "Inspect"), HaveField("EndTime", Not(BeNil())), HaveField("Outcome", v1alpha1.OperationSucceeded))))
	})
}
