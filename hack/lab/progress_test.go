package main

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
)

// TestProgressIsChecked: the demo fails if no agent showed the progress of its image. The other steps of an agent are no such progress.
func TestProgressIsChecked(t *testing.T) {
	g := NewWithT(t)
	a := &agents{report: &printer{muted: true}, printed: map[string]string{}}
	boot := &v1alpha1.BareMetalBoot{Spec: v1alpha1.BareMetalBootSpec{Agent: true, Number: 1}}
	shows := func(step wire.AgentStep, total int64) {
		boot.Status.Agent = &v1alpha1.AgentProgress{Number: 1, Step: step, TotalBytes: total, Percent: 42}
		a.show(boot)
	}
	a.show(boot)
	shows(wire.StepReading, 0)
	shows(wire.StepWriting, 0)
	shows(wire.StepVerifying, 100)
	g.Expect(a.check()).To(MatchError(errNoProgress))
	shows(wire.StepWriting, 100)
	shows(wire.StepCommitting, 0)
	g.Expect(a.check()).To(Succeed())
}
