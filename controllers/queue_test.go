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

// TestDesiredStateChanged: changes by users and Cluster API and the end of a boot enqueue at once; progress of a boot may wait.
func TestDesiredStateChanged(t *testing.T) {
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
		"another part of the spec": {func(h *v1alpha1.BareMetalHost) { h.Generation++; h.Spec.FailureDomain = "rack-2" }, true},
		"it is being deleted":      {func(h *v1alpha1.BareMetalHost) { h.Generation++; h.DeletionTimestamp = &now }, true},
	} {
		t.Run(what, func(t *testing.T) {
			before := &v1alpha1.BareMetalHost{
				ObjectMeta: metav1.ObjectMeta{Name: "h", Generation: 3},
				Spec:       v1alpha1.BareMetalHostSpec{BootMACAddresses: []string{"52:54:00:00:00:01"}},
			}
			after := before.DeepCopy()
			c.change(after)
			NewWithT(t).Expect(controllers.DesiredStateChanged(event.UpdateEvent{ObjectOld: before, ObjectNew: after})).To(Equal(c.asked))
		})
	}
}

// TestBootChanged: a record of what was served may wait; every other change of a boot enqueues at once.
func TestBootChanged(t *testing.T) {
	now := metav1.NewTime(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	for what, c := range map[string]struct {
		change  func(*v1alpha1.BareMetalBoot)
		changed bool
	}{
		"the script was served":  {func(b *v1alpha1.BareMetalBoot) { b.Spec.ScriptAddress, b.Spec.DHCPTime = "192.0.2.1", &now }, false},
		"the data was served":    {func(b *v1alpha1.BareMetalBoot) { b.Spec.DataAddress, b.Spec.DataServedTime = "192.0.2.1", &now }, false},
		"the server is off":      {func(b *v1alpha1.BareMetalBoot) { b.Spec.PoweredOffTime = &now }, true},
		"it is powered on":       {func(b *v1alpha1.BareMetalBoot) { b.Spec.PoweredOnTime = &now }, true},
		"the system reported in": {func(b *v1alpha1.BareMetalBoot) { b.Spec.ReportedTime = &now }, true},
		"the boot failed":        {func(b *v1alpha1.BareMetalBoot) { b.Spec.Failure = &v1alpha1.BootFailure{Reason: "R"} }, true},
		"the next boot":          {func(b *v1alpha1.BareMetalBoot) { b.Spec.Number++ }, true},
		"it is void":             {func(b *v1alpha1.BareMetalBoot) { b.Spec.VoidedTime = &now }, true},
		"a stage was seen":       {func(b *v1alpha1.BareMetalBoot) { b.Status.Stage, b.Generation = v1alpha1.StageDHCP, 0 }, false},
		"it is being deleted":    {func(b *v1alpha1.BareMetalBoot) { b.DeletionTimestamp = &now }, true},
	} {
		t.Run(what, func(t *testing.T) {
			before := &v1alpha1.BareMetalBoot{Spec: v1alpha1.BareMetalBootSpec{Number: 1, Attempt: 1, StartTime: now}}
			after := before.DeepCopy()
			after.Generation++
			c.change(after)
			NewWithT(t).Expect(controllers.BootChanged(event.UpdateEvent{ObjectOld: before, ObjectNew: after})).To(Equal(c.changed))
		})
	}
}
