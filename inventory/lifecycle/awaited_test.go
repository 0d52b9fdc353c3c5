package lifecycle

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// TestAwaited: the rows for the method and the purpose of a boot count before those of other boots.
func TestAwaited(t *testing.T) {
	for name, test := range map[string]struct {
		boot   *v1alpha1.BareMetalBootSpec
		reason string
		text   string
	}{
		"an unknown boot":          {nil, v1alpha1.ReasonWaitingForDHCP, "the request for a boot file (DHCP)"},
		"every reason has a row":   {nil, v1alpha1.ReasonWaitingForAgent, "the agent's request for its plan (HTTP)"},
		"the preparation":          {&v1alpha1.BareMetalBootSpec{}, v1alpha1.ReasonPreparing, "the request for a boot file (DHCP)"},
		"the BMC reads the medium": {&v1alpha1.BareMetalBootSpec{Method: v1alpha1.MethodVirtualMedia}, v1alpha1.ReasonWaitingForMedia, "the BMC's request for the boot medium (HTTP)"},
		"the image boots":          {&v1alpha1.BareMetalBootSpec{Agent: true}, v1alpha1.ReasonWaitingForReport, "the report of the operating system, or its Node"},
		"no stage":                 {nil, v1alpha1.ReasonBooted, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			awaited, ok := AwaitedFor(test.boot, test.reason)
			g.Expect(ok).To(Equal(test.text != ""))
			g.Expect(awaited.Text).To(Equal(test.text))
		})
	}
	g := NewWithT(t)
	first, ok := AwaitedAfter(&v1alpha1.BareMetalBootSpec{}, v1alpha1.StageStarted)
	g.Expect(ok).To(BeTrue())
	g.Expect(first.Reason).To(Equal(v1alpha1.ReasonWaitingForDHCP))
	_, ok = AwaitedAfter(&v1alpha1.BareMetalBootSpec{}, v1alpha1.StageReportedIn)
	g.Expect(ok).To(BeFalse())
}
