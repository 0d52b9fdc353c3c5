package host

import (
	"context"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// TestRolloutLeave: a host that cannot start its run gives its slot to the next one. A host whose run is open or may be open keeps it.
func TestRolloutLeave(t *testing.T) {
	resource := v1alpha1.GroupVersion.WithResource("baremetalhosts").GroupResource()
	refused, unknown := apierrors.NewForbidden(resource, "h0", errors.New("no")), apierrors.NewTimeoutError("slow", 1)
	for name, test := range map[string]struct {
		runs  int32
		step  lifecycle.Action
		err   error
		leave bool
	}{
		"no record":                     {0, lifecycle.RecordSettings, unknown, true},
		"the count is refused":          {0, lifecycle.CountSettings, refused, true},
		"the count may be written":      {0, lifecycle.CountSettings, unknown, false},
		"the count was not answered":    {0, lifecycle.CountSettings, context.DeadlineExceeded, false},
		"before the step":               {0, "", nil, true},
		"a later step of a run":         {1, lifecycle.RecordBoot, refused, false},
		"the next reconcile of its run": {1, "", nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			g, now := NewWithT(t), time.Now()
			r := newRollout(nil, lifecycle.Settings{}, nil, "", func(types.NamespacedName) {})
			hostOf := func(name string) *v1alpha1.BareMetalHost {
				return &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: "dc", Name: name}}
			}
			asks := func(host *v1alpha1.BareMetalHost) bool {
				_, ok := r.Acquire(rolloutHost(host, "p"), now, now.Add(runSlot), now)
				return ok
			}
			host := hostOf("h0")
			g.Expect(asks(host)).To(BeTrue())
			host.Spec.ProviderState.SettingsRuns = test.runs // it has no slot from Hold until the next reconcile
			if test.err == nil {
				r.leave(host, now)
			} else {
				r.leaveAfter(host, lifecycle.Step{Action: test.step}, test.err, now)
			}
			g.Expect(asks(hostOf("h1"))).To(Equal(test.leave))
		})
	}
	var off *rollout
	off.leaveAfter(&v1alpha1.BareMetalHost{}, lifecycle.Step{}, refused, time.Now())
}
