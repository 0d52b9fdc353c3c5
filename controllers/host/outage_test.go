package host

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// TestCountNeighbour: what a neighbour says about an outage.
func TestCountNeighbour(t *testing.T) {
	lost := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	at := func(d time.Duration) *metav1.Time { return &metav1.Time{Time: lost.Add(d)} }
	for name, test := range map[string]struct {
		status   v1alpha1.BareMetalHostStatus
		bmcReady bool // if it is not, since before the loss of power
		want     lifecycle.Outage
	}{
		"runs":                             {v1alpha1.BareMetalHostStatus{Phase: v1alpha1.PhaseProvisioned, Power: v1alpha1.PowerOn}, true, lifecycle.Outage{Running: 1}},
		"shuts down":                       {v1alpha1.BareMetalHostStatus{Phase: v1alpha1.PhasePowerHold, Power: v1alpha1.PoweringOff}, true, lifecycle.Outage{Running: 1}},
		"runs something else":              {v1alpha1.BareMetalHostStatus{Phase: v1alpha1.PhaseExternallyProvisioned, Power: v1alpha1.PowerOn}, true, lifecycle.Outage{Running: 1}},
		"is off, and that is not reported": {v1alpha1.BareMetalHostStatus{Phase: v1alpha1.PhaseProvisioned, Power: v1alpha1.PowerOff}, true, lifecycle.Outage{}},
		"its BMC does not answer":          {v1alpha1.BareMetalHostStatus{Phase: v1alpha1.PhaseProvisioned, Power: v1alpha1.PowerOn}, false, lifecycle.Outage{Unknown: 1}},
		"boots":                            {v1alpha1.BareMetalHostStatus{Phase: v1alpha1.PhaseBooting, Power: v1alpha1.PowerOn}, true, lifecycle.Outage{Unknown: 1}},
		"is being erased":                  {v1alpha1.BareMetalHostStatus{Phase: v1alpha1.PhaseCleaning, Power: v1alpha1.PowerOn}, true, lifecycle.Outage{Unknown: 1}},
		"is being released":                {v1alpha1.BareMetalHostStatus{Phase: v1alpha1.PhaseReleasing, Power: v1alpha1.PowerOn}, true, lifecycle.Outage{Running: 1}},
		"was powered on since, and its Node is Ready since then": {
			v1alpha1.BareMetalHostStatus{Phase: v1alpha1.PhaseProvisioned, Power: v1alpha1.PowerOn, PowerRestore: &v1alpha1.PowerRestore{LostTime: *at(-9 * time.Minute), EndTime: at(time.Minute)}}, true, lifecycle.Outage{Lost: 1},
		},
		"was powered on before, and its Node is Ready": {
			v1alpha1.BareMetalHostStatus{Phase: v1alpha1.PhaseProvisioned, Power: v1alpha1.PowerOn, PowerRestore: &v1alpha1.PowerRestore{LostTime: *at(-9 * time.Minute), EndTime: at(-time.Minute)}}, true, lifecycle.Outage{Running: 1},
		},
		"lost its power 15 minutes later": {v1alpha1.BareMetalHostStatus{Phase: v1alpha1.PhaseProvisioned, Power: v1alpha1.PowerOff, PoweredOffTime: at(15 * time.Minute)}, true, lifecycle.Outage{Lost: 1}},
		"lost its power, and its BMC fails": {
			v1alpha1.BareMetalHostStatus{Phase: v1alpha1.PhaseProvisioned, Power: v1alpha1.PowerOff, PoweredOffTime: at(-time.Minute)}, false, lifecycle.Outage{Lost: 1},
		},
		"lost its power an hour before": {v1alpha1.BareMetalHostStatus{Phase: v1alpha1.PhaseProvisioned, Power: v1alpha1.PowerOff, PoweredOffTime: at(-time.Hour)}, true, lifecycle.Outage{}},
		"was powered on since": {
			v1alpha1.BareMetalHostStatus{Phase: v1alpha1.PhaseProvisioned, Power: v1alpha1.PowerOn, PowerRestore: &v1alpha1.PowerRestore{LostTime: *at(0)}}, true, lifecycle.Outage{Lost: 1},
		},
		"was powered on after another outage": {
			v1alpha1.BareMetalHostStatus{Phase: v1alpha1.PhaseProvisioned, Power: v1alpha1.PowerOn, PowerRestore: &v1alpha1.PowerRestore{LostTime: *at(-time.Hour)}}, true, lifecycle.Outage{Running: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			host := &v1alpha1.BareMetalHost{Status: test.status}
			host.Spec.ConsumerRef = &v1alpha1.ConsumerReference{Name: "m"}
			status := metav1.ConditionFalse
			if test.bmcReady {
				status = metav1.ConditionTrue
			}
			conditions.Set(host, metav1.Condition{Type: v1alpha1.BMCReadyCondition, Status: status, Reason: "R", LastTransitionTime: *at(-time.Minute)})
			var got lifecycle.Outage
			countNeighbour(&got, host, lost, 10*time.Minute)
			NewWithT(t).Expect(got).To(Equal(test.want))
		})
	}
}

// TestCountOthers: a host on which nothing should run does not count. A BMC that fails long after a loss of power had shown that its server runs.
func TestCountOthers(t *testing.T) {
	g := NewWithT(t)
	lost := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	host := &v1alpha1.BareMetalHost{Status: v1alpha1.BareMetalHostStatus{Phase: v1alpha1.PhaseAvailable, Power: v1alpha1.PowerOn}}
	var got lifecycle.Outage
	countNeighbour(&got, host, lost, 10*time.Minute)
	g.Expect(got).To(BeZero())
	host.Spec.Maintenance = &v1alpha1.Maintenance{Reason: "R"}
	host.Status.Conditions = []metav1.Condition{{Type: v1alpha1.BMCReadyCondition, Status: metav1.ConditionFalse, LastTransitionTime: metav1.NewTime(lost.Add(time.Hour))}}
	countNeighbour(&got, host, lost, 10*time.Minute)
	g.Expect(got).To(Equal(lifecycle.Outage{Running: 1}))
}
