package machine

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// TestClaimabilityChanged: only changes of hosts that affect who can claim them enqueue the machines that wait.
func TestClaimabilityChanged(t *testing.T) {
	host := func(changes ...func(*v1alpha1.BareMetalHost)) *v1alpha1.BareMetalHost {
		h := &v1alpha1.BareMetalHost{Status: v1alpha1.BareMetalHostStatus{Hardware: &v1alpha1.Hardware{Memory: *resource.NewQuantity(1<<30, resource.BinarySI)}}}
		for _, change := range changes {
			change(h)
		}
		return h
	}
	available := func(reason, message string) func(*v1alpha1.BareMetalHost) {
		return func(h *v1alpha1.BareMetalHost) {
			conditions.Set(h, metav1.Condition{Type: v1alpha1.AvailableCondition, Status: metav1.ConditionFalse, Reason: reason, Message: message})
		}
	}
	for name, test := range map[string]struct {
		before, after *v1alpha1.BareMetalHost
		news          bool
	}{
		"a resync":     {host(), host(), false},
		"its power":    {host(), host(func(h *v1alpha1.BareMetalHost) { h.Status.Power = v1alpha1.PowerOn }), false},
		"its boot":     {host(), host(func(h *v1alpha1.BareMetalHost) { h.Spec.ProviderState.Boots = 1 }), false},
		"its phase":    {host(), host(func(h *v1alpha1.BareMetalHost) { h.Status.Phase = v1alpha1.PhaseAvailable }), false},
		"the message":  {host(available("A", "x")), host(available("A", "y")), false},
		"availability": {host(available("A", "x")), host(available("B", "x")), true},
		"verified": {host(), host(func(h *v1alpha1.BareMetalHost) {
			conditions.Set(h, metav1.Condition{Type: v1alpha1.VerifiedCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonVerified})
		}), true},
		"settings": {host(), host(func(h *v1alpha1.BareMetalHost) { h.Status.SettingsProfile = "p" }), true},
		"labels":   {host(), host(func(h *v1alpha1.BareMetalHost) { h.Labels = map[string]string{"rack": "a"} }), true},
		"taints":   {host(), host(func(h *v1alpha1.BareMetalHost) { h.Spec.Taints = []v1alpha1.HostTaint{{Key: "gpu"}} }), true},
		"domain":   {host(), host(func(h *v1alpha1.BareMetalHost) { h.Spec.FailureDomain = "rack-1" }), true},
		"consumer": {host(), host(func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef = &v1alpha1.ConsumerReference{Name: "m"} }), true},
		"as read":  {host(), host(func(h *v1alpha1.BareMetalHost) { h.Status.Hardware.Memory = resource.MustParse("1Gi") }), false},
		"memory":   {host(), host(func(h *v1alpha1.BareMetalHost) { h.Status.Hardware.Memory = resource.MustParse("2Gi") }), true},
		"health":   {host(), host(func(h *v1alpha1.BareMetalHost) { h.Status.Hardware.Health = "Critical" }), true},
		"detached": {host(), host(func(h *v1alpha1.BareMetalHost) { h.Annotations = map[string]string{v1alpha1.DetachedAnnotation: ""} }), true},
		"kept powered off": {host(), host(func(h *v1alpha1.BareMetalHost) {
			h.Annotations = map[string]string{v1alpha1.PowerHoldPrefix + "anna": ""}
		}), true},
		"an annotation": {host(), host(func(h *v1alpha1.BareMetalHost) { h.Annotations = map[string]string{"example.com/a": ""} }), false},
		"deletion":      {host(), host(func(h *v1alpha1.BareMetalHost) { h.DeletionTimestamp = new(metav1.Now()) }), true},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(claimabilityChanged(test.before, test.after)).To(Equal(test.news))
		})
	}
}

// TestNoHostBackoff: the first diagnoses of a machine follow each other quickly, later ones once a minute. A machine whose requirements changed is
// diagnosed at once.
func TestNoHostBackoff(t *testing.T) {
	g := NewWithT(t)
	var all noHostBackoff
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	m := &v1alpha1.BareMetalMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "dc", Name: "m", Generation: 1}}
	expect := func(domain string, due bool, again time.Duration) {
		t.Helper()
		gotDue, gotAgain := all.due(m, domain, now)
		g.Expect(gotDue).To(Equal(due))
		g.Expect(gotAgain).To(Equal(again))
	}
	expect("", true, time.Second)
	expect("", true, time.Second) // the message was not written, since the reason is missing
	conditions.Set(m, metav1.Condition{Type: v1alpha1.HostClaimedCondition, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNoHostFits})
	now = now.Add(400 * time.Millisecond)
	expect("", false, 600*time.Millisecond)
	for _, seconds := range []int{2, 4, 8, 16, 32, 60, 60} {
		gap := time.Duration(seconds) * time.Second
		now = now.Add(time.Minute)
		expect("", true, gap)
		expect("", false, gap)
	}
	expect("rack-1", true, time.Second)
	m.Generation = 2
	expect("rack-1", true, time.Second)
	all.forget(client.ObjectKeyFromObject(m))
	g.Expect(all.entries).To(BeEmpty())
}
