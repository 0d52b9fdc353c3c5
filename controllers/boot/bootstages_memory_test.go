package boot

import (
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
)

// TestStageQueueForgets: a recorded write stays in memory while the cache may not show it, and no longer.
func TestStageQueueForgets(t *testing.T) {
	g := NewWithT(t)
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	const first, second = 1, 2 // boots
	s := newStageQueue()
	key := func(host int) writeKey {
		return writeKey{types.NamespacedName{Namespace: "dc", Name: strconv.Itoa(host)}, "DHCP"}
	}
	g.Expect(s.startWrite(key(0), first, noon)).To(BeTrue())
	g.Expect(s.startWrite(key(0), first, noon.Add(time.Second))).To(BeFalse())
	g.Expect(s.startWrite(key(0), second, noon.Add(2*time.Second))).To(BeTrue(), "it is another boot")
	s.forget(key(0))
	g.Expect(s.startWrite(key(0), second, noon.Add(3*time.Second))).To(BeTrue(), "its write failed")
	for host := range 10000 {
		s.startWrite(key(host), second, noon.Add(time.Duration(host)*100*time.Millisecond))
	}
	g.Expect(len(s.written)).To(BeNumerically("<=", 1201), "two minutes of them")
}
