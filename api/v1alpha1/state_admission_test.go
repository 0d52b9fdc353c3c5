package v1alpha1_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// TestBootsNeverDecrease: the count of boots neither decreases nor disappears, also with the whole of providerState. What has ended is removed.
func TestBootsNeverDecrease(t *testing.T) {
	now := metav1.NewTime(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	for name, c := range map[string]struct {
		before, after v1alpha1.HostProviderState
		refused       bool
	}{
		"it rises":             {v1alpha1.HostProviderState{Boots: 3}, v1alpha1.HostProviderState{Boots: 4}, false},
		"it falls":             {v1alpha1.HostProviderState{Boots: 3}, v1alpha1.HostProviderState{Boots: 2}, true},
		"it disappears":        {v1alpha1.HostProviderState{Boots: 3, PowerHoldStartTime: &now}, v1alpha1.HostProviderState{PowerHoldStartTime: &now}, true},
		"the whole disappears": {v1alpha1.HostProviderState{Boots: 3}, v1alpha1.HostProviderState{}, true},
		"a hold has ended":     {v1alpha1.HostProviderState{Boots: 3, PowerHoldStartTime: &now, PowerHoldOffTime: &now}, v1alpha1.HostProviderState{Boots: 3}, false},
		"a hold has ended on a server that was never booted": {v1alpha1.HostProviderState{PowerHoldStartTime: &now}, v1alpha1.HostProviderState{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			g, host := NewWithT(t), validHost()
			host.Namespace, host.GenerateName, host.Spec.ProviderState = env.Namespace(t), "h-", c.before
			env.Create(t, host)
			host.Spec.ProviderState = c.after
			err := env.Client.Update(t.Context(), host)
			if c.refused {
				g.Expect(err).To(MatchError(ContainSubstring("providerState.boots must not decrease or disappear")))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
		})
	}
}
