package inventory

import (
	"testing"

	. "github.com/onsi/gomega"
)

func TestProviderID(t *testing.T) {
	g := NewWithT(t)
	id := ProviderID("dc", "host-1", "m-1")
	g.Expect(id).To(Equal("baremetal://dc/host-1/m-1"))
	name, ok := HostOfProviderID(id)
	g.Expect(ok).To(BeTrue())
	g.Expect(name).To(Equal("host-1"))
	for _, other := range []string{"", "aws:///us/i-1", "baremetal://", "baremetal://dc//m", "baremetal://dc/host-1"} {
		_, ok := HostOfProviderID(other)
		g.Expect(ok).To(BeFalse(), other)
	}
}
