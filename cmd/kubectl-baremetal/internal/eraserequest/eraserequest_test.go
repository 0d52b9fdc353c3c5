package eraserequest

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
)

// TestNew: the request has what the host shows, or the error says why the request makes no sense.
func TestNew(t *testing.T) {
	expires := time.Date(2026, 11, 29, 11, 0, 0, 7, time.UTC)
	waits := metav1.Condition{Type: v1alpha1.AvailableCondition, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonInspectionPending, Message: "the agent has to inspect the server"}
	for name, c := range map[string]struct {
		change func(*v1alpha1.BareMetalHost)
		serial string // that the user names
		agent  string // the serial number in the BareMetalInspection
		refuse string
	}{
		"as the BMC reports":             {},
		"the serial number is confirmed": {serial: " sn-h"},
		"as the agent found":             {change: func(h *v1alpha1.BareMetalHost) { h.Status.Hardware = nil }, agent: "SN-h"},
		"another serial number":          {serial: "SN-2", refuse: `has the serial number "SN-h", not "SN-2"`},
		"no serial number":               {change: func(h *v1alpha1.BareMetalHost) { h.Status.Hardware = nil }, refuse: "Set spec.inspection to Both"},
		"it may not be purgeable":        {change: func(h *v1alpha1.BareMetalHost) { h.Spec.Inspection = v1alpha1.InspectionBMC }, refuse: "use --policy Clear"},
		"a machine has it":               {change: func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef = &v1alpha1.ConsumerReference{Name: "m"} }, refuse: `BareMetalMachine "m" has h`},
		"it is in quarantine":            {change: func(h *v1alpha1.BareMetalHost) { h.Spec.Quarantine = &v1alpha1.Quarantine{Reason: "Smoke"} }, refuse: "quarantine end h"},
		"it is inspected first":          {change: func(h *v1alpha1.BareMetalHost) { h.Status.Conditions = []metav1.Condition{waits} }, refuse: "is to be inspected first"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			host := &v1alpha1.BareMetalHost{
				ObjectMeta: metav1.ObjectMeta{Namespace: "dc", Name: "h", UID: "uid"},
				Spec:       v1alpha1.BareMetalHostSpec{Inspection: v1alpha1.InspectionBoth, ProviderState: v1alpha1.HostProviderState{Boots: 3}},
				Status:     v1alpha1.BareMetalHostStatus{Hardware: &v1alpha1.Hardware{SerialNumber: "SN-h"}},
			}
			if c.change != nil {
				c.change(host)
			}
			scheme := runtime.NewScheme()
			g.Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())
			report := &v1alpha1.BareMetalInspection{ObjectMeta: metav1.ObjectMeta{Namespace: "dc", Name: "h"}}
			report.Spec.System.SerialNumber = c.agent
			k := fake.NewClientBuilder().WithScheme(scheme).WithObjects(report).Build()
			request, err := New(t.Context(), k, host, Wish{Policy: wire.PolicyPurge, SerialNumber: c.serial, ExpireTime: expires})
			if c.refuse != "" {
				g.Expect(err).To(MatchError(ContainSubstring(c.refuse)))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(request.Namespace).To(Equal("dc"))
			g.Expect(request.GenerateName).To(Equal("h-"))
			g.Expect(request.Spec).To(Equal(v1alpha1.BareMetalErasureRequestSpec{
				HostName: "h", HostUID: "uid", SerialNumber: "SN-h", BootsBefore: new(int32(3)), Policy: wire.PolicyPurge, ExpireTime: metav1.NewTime(expires.Truncate(time.Second)),
			}))
		})
	}
}
