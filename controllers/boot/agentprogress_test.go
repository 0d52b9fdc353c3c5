package boot

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
)

// TestProgressLimiter: a step begins at once, an agent that alternates between steps writes no more often than others, and no boot takes from another one.
func TestProgressLimiter(t *testing.T) {
	g := NewWithT(t)
	l, now := newProgressLimiter(), time.Unix(1_000_000, 0)
	hostile, honest := attemptKey{claim: "a", number: 1}, attemptKey{claim: "b", number: 1}
	written := 0
	for n := range 10_000 { // 100 seconds
		if l.allow(hostile, wire.AgentSteps[n%2], now.Add(time.Duration(n)*10*time.Millisecond)) {
			written++
		}
	}
	g.Expect(written).To(BeNumerically("<=", len(wire.AgentSteps)+7))
	now = now.Add(100 * time.Second)
	for _, step := range wire.AgentSteps {
		g.Expect(l.allow(honest, step, now)).To(BeTrue(), step)
		g.Expect(l.allow(honest, step, now)).To(BeFalse(), step)
	}
	last := wire.AgentSteps[len(wire.AgentSteps)-1]
	g.Expect(l.allow(honest, last, now.Add(progressInterval-1))).To(BeFalse())
	g.Expect(l.allow(honest, last, now.Add(progressInterval))).To(BeTrue())
	again := honest
	again.number++
	g.Expect(l.allow(again, last, now)).To(BeTrue(), "another boot of the host")
}
