package why

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// TestSince: a wait did not begin before the last event that ended each earlier one, although the condition has had its status for longer.
func TestSince(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) *metav1.Time { return new(metav1.NewTime(now.Add(-d))) }
	const year = 365 * 24 * time.Hour
	for name, c := range map[string]struct {
		kind, reason string
		change       func(*v1alpha1.BareMetalHost, *Objects)
		want         time.Duration
	}{
		"nothing is known": {v1alpha1.AvailableCondition, v1alpha1.ReasonInspectionPending, func(*v1alpha1.BareMetalHost, *Objects) {}, year},
		"after a release": {v1alpha1.AvailableCondition, v1alpha1.ReasonInspectionPending, func(h *v1alpha1.BareMetalHost, _ *Objects) {
			h.Spec.ProviderState.LastConsumer = &v1alpha1.LastConsumer{ReleaseTime: *ago(time.Minute)}
		}, time.Minute},
		"since the cleaning began": {v1alpha1.BootedCondition, v1alpha1.ReasonCleaning, func(h *v1alpha1.BareMetalHost, _ *Objects) {
			h.Spec.ProviderState.CleaningStartTime = ago(time.Hour)
		}, time.Hour},
		"since the boot began": {v1alpha1.AvailableCondition, v1alpha1.ReasonConfiguring, func(_ *v1alpha1.BareMetalHost, o *Objects) {
			o.Boot = &v1alpha1.BareMetalBoot{Spec: v1alpha1.BareMetalBootSpec{Number: 1, Purpose: v1alpha1.PurposeConfigure, StartTime: *ago(2 * time.Minute)}}
		}, 2 * time.Minute},
		"a BMC that did not answer before the release": {v1alpha1.BMCReadyCondition, v1alpha1.ReasonBMCUnreachable, func(h *v1alpha1.BareMetalHost, _ *Objects) {
			h.Spec.ProviderState.LastConsumer = &v1alpha1.LastConsumer{ReleaseTime: *ago(time.Minute)}
		}, year},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			old := metav1.Condition{Type: c.kind, Status: metav1.ConditionFalse, Reason: c.reason, Message: "m", LastTransitionTime: *ago(year)}
			ready := old
			ready.Type = v1alpha1.ReadyCondition
			host := &v1alpha1.BareMetalHost{}
			host.Status.Conditions = []metav1.Condition{ready, old}
			o := &Objects{Host: host}
			c.change(host, o)
			found := o.hostFinding()
			g.Expect(found).NotTo(BeNil())
			g.Expect(now.Sub(found.since)).To(Equal(c.want))
		})
	}
}

// TestSinceOfParts: the time of the condition is that of the first part that failed, and says nothing about the one that it names now.
func TestSinceOfParts(t *testing.T) {
	g := NewWithT(t)
	host := &v1alpha1.BareMetalHost{}
	host.Status.Conditions = []metav1.Condition{{Type: v1alpha1.HardwareHealthyCondition, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonDiskUnhealthy, LastTransitionTime: metav1.Now()}}
	found := checkFinding(hostChecks...)(&Objects{Host: host})
	g.Expect(found).NotTo(BeNil())
	g.Expect(found.since).To(BeZero())
}
