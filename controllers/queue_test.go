package controllers_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
)

// TestAsked: what people, Cluster API and the end of a boot change has to be looked at before long; that a boot goes on may wait a moment.
func TestAsked(t *testing.T) {
	now := metav1.NewTime(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	for what, c := range map[string]struct {
		change func(*v1alpha1.BareMetalHost)
		asked  bool
	}{
		"nothing":                  {func(*v1alpha1.BareMetalHost) {}, false},
		"the status":               {func(h *v1alpha1.BareMetalHost) { h.Status.Phase = v1alpha1.PhaseAvailable }, false},
		"a label":                  {func(h *v1alpha1.BareMetalHost) { h.Labels = map[string]string{"a": "b"} }, true},
		"an annotation":            {func(h *v1alpha1.BareMetalHost) { h.Annotations = map[string]string{"a": "b"} }, true},
		"an owner":                 {func(h *v1alpha1.BareMetalHost) { h.OwnerReferences = []metav1.OwnerReference{{Name: "o"}} }, true},
		"the script was given":     {spec(func(b *v1alpha1.BootAttempt) { b.ScriptAddress = "192.0.2.1" }), false},
		"the seed was given":       {spec(func(b *v1alpha1.BootAttempt) { b.SeedAddress, b.SeededAt = "192.0.2.1", &now }), false},
		"the server is off":        {spec(func(b *v1alpha1.BootAttempt) { b.PoweredOffAt = &now }), true},
		"the system reported in":   {spec(func(b *v1alpha1.BootAttempt) { b.ReportedAt = &now }), true},
		"the attempt failed":       {spec(func(b *v1alpha1.BootAttempt) { b.Failure = &v1alpha1.BootFailure{Reason: "R"} }), true},
		"the next attempt":         {spec(func(b *v1alpha1.BootAttempt) { b.Attempt++ }), true},
		"no attempt":               {func(h *v1alpha1.BareMetalHost) { h.Generation++; h.Spec.Boot = nil }, true},
		"another part of the spec": {func(h *v1alpha1.BareMetalHost) { h.Generation++; h.Spec.FailureDomain = "rack-2" }, true},
		"it is being deleted":      {func(h *v1alpha1.BareMetalHost) { h.Generation++; h.DeletionTimestamp = &now }, true},
	} {
		t.Run(what, func(t *testing.T) {
			before := &v1alpha1.BareMetalHost{
				ObjectMeta: metav1.ObjectMeta{Name: "h", Generation: 3},
				Spec:       v1alpha1.BareMetalHostSpec{BootMACAddress: "52:54:00:00:00:01", Boot: &v1alpha1.BootAttempt{Attempt: 1, StartedAt: now}},
			}
			after := before.DeepCopy()
			c.change(after)
			NewWithT(t).Expect(controllers.Asked(event.UpdateEvent{ObjectOld: before, ObjectNew: after})).To(Equal(c.asked))
		})
	}
}

// spec changes the boot attempt.
func spec(change func(*v1alpha1.BootAttempt)) func(*v1alpha1.BareMetalHost) {
	return func(h *v1alpha1.BareMetalHost) {
		h.Generation++
		change(h.Spec.Boot)
	}
}
