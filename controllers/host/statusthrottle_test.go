package host

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// TestUnavailableIsWrittenImmediately: while many hosts boot, a status write during requests to the BMC may wait. It does not wait if the host is
// available and no longer should be: a machine could claim it.
func TestUnavailableIsWrittenImmediately(t *testing.T) {
	for name, test := range map[string]struct {
		available metav1.ConditionStatus
		waits     time.Duration
		phase     v1alpha1.HostPhase
	}{
		"offered":     {metav1.ConditionTrue, 0, v1alpha1.PhaseRegistering},
		"not offered": {metav1.ConditionFalse, 30 * time.Second, v1alpha1.PhaseAvailable},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			scheme := runtime.NewScheme()
			g.Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())
			host := &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: "dc", Name: "h", Generation: 2}}
			host.Status = v1alpha1.BareMetalHostStatus{ObservedGeneration: 1, Phase: v1alpha1.PhaseAvailable, Conditions: []metav1.Condition{
				{Type: v1alpha1.AvailableCondition, Status: test.available, Reason: "Before"},
			}}
			api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(host).WithStatusSubresource(host).Build()
			r, now := &Reconciler{Client: api}, time.Now()
			r.connect(nil, nil)
			for range 20 {
				r.status.throttle.Allow(now)
			}
			step := lifecycle.Step{Action: lifecycle.Inspect, Phase: v1alpha1.PhaseRegistering, Reason: v1alpha1.ReasonInspecting}
			g.Expect(r.status.writeStatus(t.Context(), host, lifecycle.View{Now: now}, step)).To(Equal(test.waits))

			var written v1alpha1.BareMetalHost
			g.Expect(api.Get(t.Context(), client.ObjectKeyFromObject(host), &written)).To(Succeed())
			g.Expect(conditions.IsFalse(&written, v1alpha1.AvailableCondition)).To(BeTrue())
			g.Expect(written.Status.Phase).To(Equal(test.phase))
		})
	}
}
