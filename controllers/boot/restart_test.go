package boot

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestDHCPBeforeARestart: a boot server that started after the power-on cannot know whether the server has sent its DHCP request: it does not wait for a request
// that the boot loader will not repeat. A boot server that ran before does.
func TestDHCPBeforeARestart(t *testing.T) {
	g := NewWithT(t)
	a := &admission{}
	poweredOn := metav1.NewTime(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	g.Expect(a.startedAfter(&poweredOn)).To(BeFalse(), "it did not start")
	for after, want := range map[time.Duration]bool{-time.Minute: false, -time.Second: false, 0: true, time.Second: true} {
		a.start(poweredOn.Add(after))
		g.Expect(a.startedAfter(&poweredOn)).To(Equal(want), "%s after the power-on", after)
	}
	g.Expect(a.startedAfter(nil)).To(BeFalse(), "the server is not powered on")
}
