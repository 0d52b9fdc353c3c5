package lifecycle

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// readsOffFor makes the last reading of the power, a second ago, and those before it "off".
func readsOffFor(d time.Duration) func(*View) {
	return func(v *View) { v.BMC.PowerSince = v.BMC.PowerAt.Add(-d) }
}

// nodeSays records what the Node says, and since when.
func nodeSays(readiness v1alpha1.NodeReadiness, ago time.Duration) func(*View) {
	return func(v *View) {
		v.Observed.Node = &v1alpha1.ObservedNode{Name: "m", Number: 1, Readiness: readiness, ReadinessTime: new(metav1.NewTime(noon.Add(-ago)))}
	}
}

func reportedOff(v *View) { v.PowerLoss.PoweredOffTime = noon.Add(-time.Hour) }

// TestPoweredOff: a server of a machine on disk counts as off only if BMC and Node agree.
func TestPoweredOff(t *testing.T) {
	const none, off, disputed, unconfirmed = "", v1alpha1.ReasonPoweredOff, v1alpha1.ReasonPowerDisputed, v1alpha1.ReasonPowerUnconfirmed
	minute := time.Minute
	for name, test := range map[string]struct {
		changes []func(*View)
		reason  string
		again   bool // the power is read again soon
	}{
		"off for less than a minute, and the Node is not Ready": {[]func(*View){readsOffFor(59 * time.Second), nodeSays(v1alpha1.NodeNotReady, minute)}, none, true},
		"off for a minute, and the Node is not Ready":           {[]func(*View){readsOffFor(minute), nodeSays(v1alpha1.NodeNotReady, minute)}, off, false},
		"one reading":                                  {[]func(*View){justOff, nodeSays(v1alpha1.NodeNotReady, time.Hour)}, none, true},
		"the Node is Ready for now":                    {[]func(*View){readsOffFor(119 * time.Second), nodeSays(v1alpha1.NodeReady, time.Hour)}, none, true},
		"the Node stays Ready":                         {[]func(*View){readsOffFor(2 * minute), nodeSays(v1alpha1.NodeReady, 2*minute+time.Second)}, disputed, false},
		"the Node is unreadable for less than 5 min":   {[]func(*View){readsOffFor(time.Hour), nodeSays(v1alpha1.NodeUnreadable, 4*minute)}, none, true},
		"the Node is unreadable for 5 min":             {[]func(*View){readsOffFor(minute), nodeSays(v1alpha1.NodeUnreadable, 5*minute)}, off, false},
		"nothing is known of a Node, for 4 min":        {[]func(*View){readsOffFor(4 * minute)}, none, true},
		"nothing is known of a Node, for 5 min":        {[]func(*View){readsOffFor(5 * minute)}, unconfirmed, false},
		"the Node is that of something else":           {[]func(*View){readsOffFor(4 * minute), nodeSays(v1alpha1.NodeReady, minute), mismatched}, none, true},
		"on, and the Node is not Ready":                {[]func(*View){poweredOn, nodeSays(v1alpha1.NodeNotReady, time.Hour)}, none, false},
		"on, read before the Node stopped to be Ready": {[]func(*View){poweredOn, nodeSays(v1alpha1.NodeNotReady, 0)}, none, true},
		"the BMC does not answer":                      {[]func(*View){bmcDown, readsOffFor(time.Hour), nodeSays(v1alpha1.NodeNotReady, time.Hour)}, none, false},
		"reported, and the BMC does not answer":        {[]func(*View){reportedOff, bmcDown, nodeSays(v1alpha1.NodeNotReady, time.Hour)}, off, false},
		"reported, and the provider restarted":         {[]func(*View){reportedOff, unread, nodeSays(v1alpha1.NodeNotReady, time.Hour)}, off, true},
		"reported, and the server powers on":           {[]func(*View){reportedOff, poweringOn, nodeSays(v1alpha1.NodeNotReady, time.Hour)}, none, false},
		"reported, and on again":                       {[]func(*View){reportedOff, poweredOn, nodeSays(v1alpha1.NodeNotReady, time.Hour)}, none, false},
		"reported, and the Node is Ready again":        {[]func(*View){reportedOff, readsOffFor(time.Hour), nodeSays(v1alpha1.NodeReady, 0)}, none, true},
		"reported, and the Node stays Ready":           {[]func(*View){reportedOff, readsOffFor(time.Hour), nodeSays(v1alpha1.NodeReady, 3*minute)}, disputed, false},
		"the BMC failed half a minute ago":             {[]func(*View){readsOffFor(time.Hour), bmcFailed(30 * time.Second), nodeSays(v1alpha1.NodeNotReady, time.Hour)}, none, true},
		"from memory, and nothing is known of a Node":  {[]func(*View){ephemeral, readsOffFor(time.Second)}, none, true},
		"off before it fetched its bootstrap data":     {[]func(*View){readsOffFor(time.Hour), bootServedJustNow, nodeSays(v1alpha1.NodeNotReady, time.Hour)}, none, true},
		"from memory, off for 20 seconds":              {[]func(*View){ephemeral, reportedOff, readsOffFor(20 * time.Second), nodeSays(v1alpha1.NodeNotReady, time.Hour)}, none, true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			v := claimedView(append([]func(*View){provisioned}, test.changes...)...)
			s := DefaultSettings()
			step := Next(v, s)
			g.Expect(step.State).To(Equal(StateProvisioned))
			g.Expect(step.Reason).To(Equal(test.reason))
			g.Expect(step.PoweredOffTime.IsZero()).To(Equal(test.reason != off))
			g.Expect(step.Action.Commands()).To(BeFalse(), "nothing is commanded")
			soon := step.Action == ReadPower || step.Action == Inspect || !step.RequeueAt.IsZero() && !step.RequeueAt.After(noon.Add(s.ActiveInterval))
			g.Expect(soon).To(Equal(test.again), "%+v", step)
		})
	}
}

func mismatched(v *View) { v.Observed.Node.Mismatch = &v1alpha1.BootFailure{Reason: "R"} }
func unread(v *View)     { v.BMC = BMC{} }
func bmcFailed(ago time.Duration) func(*View) {
	return func(v *View) { v.BMC.FailedAt = noon.Add(-ago) }
}
func poweringOn(v *View) { v.BMC.Power = v1alpha1.PoweringOn }
func bootServedJustNow(v *View) {
	v.Host.Spec.ProviderState.Boots = 1
	v.Host.Boot = &v1alpha1.BareMetalBootSpec{Number: 1, ClaimID: "claim-1", MachineName: "m", DataServedTime: &metav1.Time{Time: noon.Add(-30 * time.Second)}}
}

// TestPoweredOffMessage: the report has the time, the witness and the remedy, and stays the same while the server stays off.
func TestPoweredOffMessage(t *testing.T) {
	g := NewWithT(t)
	v := claimedView(provisioned, readsOffFor(time.Hour), nodeSays(v1alpha1.NodeNotReady, time.Hour))
	first := Next(v, DefaultSettings())
	g.Expect(first.Message).To(And(ContainSubstring("2026-01-01T10:59:59Z"), ContainSubstring(`Node "m" is not Ready`), ContainSubstring(v1alpha1.PowerOnPrefix)))
	v.PowerLoss.PoweredOffTime, v.BMC = first.PoweredOffTime, BMC{} // a restart
	g.Expect(Next(v, DefaultSettings()).Message).To(Equal(first.Message))
}
