package matrix

import (
	"context"
	"errors"
	"strings"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/endure/rig"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

// imagePoint is the point of all requests for parts of the image after that for the partition table: one that is repeated has another number.
const imagePoint = "agent image"

var errUnlinked = errors.New("the agent has no link")

// passAgent waits where the life is held, and fails while the agent has no link.
func (l *life) passAgent(ctx context.Context, point string) error {
	if strings.HasPrefix(point, imagePoint) && point != rig.ImagePoint(1) {
		point = imagePoint
	}
	l.pass(ctx, point)
	if point != rig.DiskPoint && l.unlinked.Load() {
		l.failedRequests.Add(1)
		return errUnlinked
	}
	return nil
}

// only says that a fault makes no sense outside of some steps.
func only(names ...string) func(step) string {
	return func(s step) string {
		if s.is(names...) {
			return ""
		}
		return "the agent does not notice"
	}
}

// agentFailed waits until an attempt ended because its agent failed for a reason.
func agentFailed(reason string) func(*life, step) {
	return func(l *life, _ step) {
		l.Helper()
		l.Eventually(func(g Gomega) {
			boot := l.record()
			g.Expect(boot).NotTo(BeNil())
			g.Expect(boot.Status.Problem).NotTo(BeNil())
			g.Expect(boot.Status.Problem.Reason).To(Equal(reason))
		}, stepTimeout).Should(Succeed(), func() string { return l.story() })
	}
}

// agentFaults are those that only an agent meets.
var agentFaults = []fault{
	{name: "agent loses its link", na: only(withAgent...), inject: func(l *life, _ step) {
		l.unlinked.Store(true)
		l.stops = append(l.stops, func() { l.unlinked.Store(false) })
	}, during: func(l *life, _ step) {
		l.Eventually(l.failedRequests.Load, stepTimeout).Should(BeNumerically(">", 1), "the agent did not repeat its request")
	}},
	{name: "disk returns other data", stays: true, na: only(written), inject: func(l *life, _ step) {
		l.Expect(l.server.CorruptDisk()).To(Succeed())
	}, during: agentFailed(wire.ReasonDiskFailed)},
	// A server that boots again gets what is installed then.
	{name: "agent of another version", na: only(writing, erasing, clearing), inject: func(l *life, _ step) {
		l.server.SetAgentVersion(agent.Version + 1)
		l.stops = append(l.stops, func() { l.server.SetAgentVersion(agent.Version) })
		l.extraOns++
		l.server.SetPower(false)
	}, during: agentFailed(wire.ReasonVersionDiffers)},
}
