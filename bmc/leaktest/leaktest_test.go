package leaktest

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// TestAwait: a remaining goroutine is an error, and one that ends late is not.
func TestAwait(t *testing.T) {
	g := NewWithT(t)
	stay := make(chan struct{})
	go func() { <-stay }()
	g.Expect(await(0)).To(MatchError(ContainSubstring("leaktest.TestAwait")))
	time.AfterFunc(time.Second, func() { close(stay) })
	g.Expect(await(time.Minute)).To(Succeed())
}
