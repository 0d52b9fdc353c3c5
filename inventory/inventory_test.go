package inventory

import (
	"testing"

	. "github.com/onsi/gomega"
)

func TestProviderID(t *testing.T) {
	g := NewWithT(t)
	g.Expect(ProviderID("dc", "host-1", "m-1")).To(Equal("baremetal://dc/host-1/m-1"))
}
