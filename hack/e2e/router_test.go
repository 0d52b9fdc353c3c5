package e2e_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/hack/netns"
)

// advertise answers router solicitations on a network, until the test ends.
func advertise(t *testing.T, w *segment) {
	t.Helper()
	router, err := netns.Advertise(w.bridge, w.prefix)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { NewWithT(t).Expect(router.Close()).To(Succeed()) })
}
