package bmctest_test

import (
	"context"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
)

// TestOneSystem: a system that takes its time to end does not run beside that of the next power-on.
func TestOneSystem(t *testing.T) {
	g := NewWithT(t)
	var running, starts atomic.Int32
	ends := make(chan struct{})
	m := bmctest.NewMachine(bmctest.Options{Run: func(ctx context.Context, _ bmc.BootTarget, _ func()) {
		if running.Add(1) > 1 {
			t.Error("two systems run")
		}
		starts.Add(1)
		<-ctx.Done()
		<-ends
		running.Add(-1)
	}})
	m.SetPower(true)
	g.Eventually(starts.Load).Should(BeEquivalentTo(1))
	for range 3 {
		m.SetPower(false)
		m.SetPower(true)
	}
	close(ends)
	g.Eventually(starts.Load).Should(BeEquivalentTo(4))
	m.Close()
	g.Expect(running.Load()).To(BeZero())
}
