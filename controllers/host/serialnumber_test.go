package host

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
)

// TestSerialNumber: a request to erase is compared with the serial number that the BMC reports. If it reports none, that of an inspection by the agent counts.
func TestSerialNumber(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "dc", Name: "h"}
	report := &v1alpha1.BareMetalInspection{ObjectMeta: meta, Spec: v1alpha1.BareMetalInspectionSpec{Inspection: wire.Inspection{System: wire.InspectedSystem{SerialNumber: "agent"}}}}
	for name, c := range map[string]struct {
		hardware   *v1alpha1.Hardware
		inspection v1alpha1.InspectionPolicy
		report     []client.Object
		want       string
	}{
		"the BMC's": {&v1alpha1.Hardware{SerialNumber: "bmc"}, v1alpha1.InspectionAgent, []client.Object{report}, "bmc"},
		"the BMC reports none any more": {
			&v1alpha1.Hardware{SerialNumber: "earlier", Facts: []v1alpha1.Fact{{Name: string(bmc.FactSerialNumber), State: v1alpha1.FactKnown, Message: keptMessage}}},
			v1alpha1.InspectionAgent, []client.Object{report}, "",
		},
		"the BMC reports none":                {&v1alpha1.Hardware{}, v1alpha1.InspectionBoth, []client.Object{report}, "agent"},
		"the BMC was not read":                {nil, v1alpha1.InspectionAgent, []client.Object{report}, "agent"},
		"no inspection yet":                   {nil, v1alpha1.InspectionAgent, nil, ""},
		"an inspection that nobody wants now": {nil, v1alpha1.InspectionBMC, []client.Object{report}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			r := &erasureRequests{apiReader: fake.NewClientBuilder().WithScheme(controllerstest.FakeScheme()).WithObjects(c.report...).Build(), observations: newObservations()}
			h := &v1alpha1.BareMetalHost{ObjectMeta: meta, Spec: v1alpha1.BareMetalHostSpec{Inspection: c.inspection}}
			r.observations.update(client.ObjectKeyFromObject(h), func(o *hostObservation) { o.hardware = c.hardware })
			g.Expect(r.serialNumber(t.Context(), h)).To(Equal(c.want))
		})
	}
}
