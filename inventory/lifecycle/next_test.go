package lifecycle

import (
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// freeView is a verified, powered-off, unclaimed host. Each test changes the facts that it is about.
func freeView(changes ...func(*View)) View {
	v := View{
		Now: noon, Host: Host{Namespace: "dc", Name: "host-1", Spec: v1alpha1.BareMetalHostSpec{BootMACAddresses: []string{"52:54:00:00:00:01"}}, Boot: &v1alpha1.BareMetalBootSpec{}},

		BMC: BMC{
			Inspected: true, InspectedTime: noon.Add(-time.Hour), Power: v1alpha1.PowerOff, PowerAt: noon.Add(-time.Second), PowerSince: noon.Add(-time.Hour),
		},
	}
	for _, change := range changes {
		change(&v)
	}
	return v
}

// claimedView is a claimed host whose machine has bootstrap data.
func claimedView(changes ...func(*View)) View {
	v := freeView()
	v.Host.Spec.ConsumerRef = &v1alpha1.ConsumerReference{Name: "m", ClaimID: "claim-1"}
	v.Consumer = &Consumer{Found: true, ClusterFound: true, BootstrapReady: true, Persistence: v1alpha1.PersistenceInstalled}
	for _, change := range changes {
		change(&v)
	}
	return v
}

// clockSetBack puts the times in the spec into the future.
func clockSetBack(v *View) {
	later := metav1.NewTime(noon.Add(time.Hour))
	v.Host.Boot.StartTime, v.Host.Boot.PoweredOffTime = later, &later
}

func bootingView(changes ...func(*View)) View {
	return claimedView(append([]func(*View){func(v *View) {
		v.Host.MoveBlocked, v.BMC.NetworkBootNumber = true, 1
		off := metav1.NewTime(noon.Add(-time.Minute))
		v.Host.Boot, v.Host.Spec.ProviderState.Boots = &v1alpha1.BareMetalBootSpec{
			Number: 1, Attempt: 1, Purpose: v1alpha1.PurposeProvision, ClaimID: "claim-1", MachineName: "m", StartTime: off, PoweredOffTime: &off, PoweredOnTime: &off,
		}, 1
	}}, changes...)...)
}

func poweredOn(v *View) { v.BMC.Power = v1alpha1.PowerOn }
func ephemeral(v *View) { v.Consumer.Persistence = v1alpha1.PersistenceEphemeral }
func seeded(v *View)    { v.Host.Boot.DataServedTime = &metav1.Time{Time: noon.Add(-30 * time.Second)} }
func writtenDisk(v *View) {
	v.Host.Boot.WrittenDisks = []v1alpha1.WrittenDisk{{Disk: wire.DiskIdentity{SerialNumber: "d1"}, DataOffset: 1 << 30, DataLength: 32 << 20}}
}
func seededLongAgo(v *View) {
	v.Host.Boot.DataServedTime = &metav1.Time{Time: noon.Add(-40 * time.Second)}
}
func deleting(v *View)      { v.Consumer.Deleting = true }
func ownerDeleting(v *View) { v.Consumer.OwnerDeleting = true }
func provisioned(v *View)   { v.Consumer.ProviderID = "baremetal://dc/host-1/m" }
func netbootSet(v *View) {
	v.BMC.NetworkBootSetAt, v.BMC.NetworkBootNumber = noon.Add(-10*time.Second), v.Host.Boot.Number
}
func maintenance(v *View)        { v.Host.Spec.Maintenance = &v1alpha1.Maintenance{Reason: "new fan"} }
func external(v *View)           { v.Host.Spec.ExternallyProvisioned = true }
func quarantined(v *View)        { v.Host.Spec.Quarantine = &v1alpha1.Quarantine{Reason: "Broken"} }
func expired(v *View)            { v.Host.Boot.StartTime = metav1.NewTime(noon.Add(-31 * time.Minute)) }
func notPoweredOff(v *View)      { v.Host.Boot.PoweredOffTime = nil }
func notPoweredOn(v *View)       { v.Host.Boot.PoweredOnTime = nil }
func uncounted(v *View)          { v.Host.Spec.ProviderState.Boots, v.Host.Boot.PoweredOnTime = 0, nil }
func noRecord(v *View)           { v.Host.Boot = nil }
func oldRecord(v *View)          { v.Host.Boot = &v1alpha1.BareMetalBootSpec{} }
func recordOfOtherClaim(v *View) { v.Host.Boot.ClaimID, v.Host.Boot.MachineName = "claim-0", "m-0" }
func voided(v *View)             { v.Host.Boot.VoidedTime = &metav1.Time{Time: noon} }
func unclaimed(v *View)          { v.Host.Spec.ConsumerRef, v.Consumer = nil, nil }
func bootMachinePending(v *View) { v.Claims.BootMachinePending = true }
func moveFree(v *View)           { v.Host.MoveBlocked = false }
func beingDeleted(v *View)       { v.Host.Deleting = true }
func bootDeleting(v *View)       { v.Host.BootDeleting = true }
func noClaimID(v *View)          { v.Host.Spec.ConsumerRef.ClaimID = "" }
func stale(v *View)              { v.BMC.PowerAt = noon.Add(-time.Hour) }
func justOff(v *View)            { v.BMC.PowerSince = v.BMC.PowerAt }
func cleaningBegan(v *View) {
	v.Host.Spec.ProviderState.CleaningStartTime = &metav1.Time{Time: noon.Add(-5 * time.Second)}
}
func cleaned(v *View)     { v.BMC.CleanedAt = noon.Add(-time.Second) }
func overrideSet(v *View) { v.BMC.OverrideSet = true }
func missingCapability(v *View) {
	v.BMC.Missing, v.BMC.InspectedTime = []string{"BootPXE"}, noon.Add(-time.Minute)
}
func retryNow(v *View) { v.Requests.RetryBMC = true }
func reported(v *View) {
	v.Host.MoveBlocked, v.Host.Boot.ReportedTime = false, &metav1.Time{Time: noon}
}
func scriptSeen(v *View) { v.Observed.Furthest.Stage = v1alpha1.StageScript }
func restarted(v *View)  { v.Observed.RestartedAt = noon.Add(time.Minute) }
func nodeLost(v *View)   { v.Observed.NodeLostAt = noon.Add(2 * time.Minute) }
func powerHeld(v *View) {
	v.Host.Spec.PowerHolds = []v1alpha1.PowerHold{{Holder: "anna", Reason: "new disk"}}
}
func forceHeld(v *View) { powerHeld(v); v.Host.Spec.PowerHolds[0].Force = true }
func powerHoldSince(v *View) {
	v.Host.Spec.ProviderState.PowerHoldStartTime = &metav1.Time{Time: noon.Add(-time.Minute)}
}
func powerHeldOff(v *View) {
	powerHoldSince(v)
	v.Host.Spec.ProviderState.PowerHoldOffTime = &metav1.Time{Time: noon.Add(-30 * time.Second)}
}

var errNotPermitted = errors.New("not permitted")

// otherHost is another host of the namespace.
func otherHost(name string) *types.NamespacedName {
	return &types.NamespacedName{Namespace: "dc", Name: name}
}

// anotherServer is what the BMC reports of a server that may have replaced that of the host.
func anotherServer() *Replacement {
	return &Replacement{Reported: inventory.ServerID{SystemUUID: "u2", SerialNumber: "SN2"}, Known: &inventory.ServerID{SystemUUID: "u1", SerialNumber: "SN1"}}
}

// by is a request of a user.
func by(who string) Annotation { return Annotation{Set: true, Value: who} }

func releaseUnfencedRequested(v *View) { v.Requests.ReleaseUnfenced = by("anna: burnt") }
func detached(v *View)                 { v.Requests.Detached = by("anna: moves racks") }
func cycle(v *View) {
	v.Requests.Power = PowerRequests{Cycles: []string{"cycle/anna"}, All: []string{"cycle/anna"}}
}
func powerOnRequested(v *View) {
	v.Requests.Power = PowerRequests{On: []string{"on/anna"}, All: []string{"on/anna"}}
}
func releaseDeadlinePassed(v *View) {
	v.Host.Spec.ReleaseUnfencedAfterSeconds, v.Consumer.DeletingSince = new(int32(3600)), noon.Add(-time.Hour)
}
func namespaceGone(v *View) { v.Host.Deleting, v.Host.NamespaceDeleting = true, true }
func noSecret(v *View) {
	v.BMC.Problem = &BMCProblem{Reason: v1alpha1.ReasonCredentialsMissing, Message: "x"}
}
func inspected(ago time.Duration) func(*View) {
	return func(v *View) { v.BMC.InspectedTime = noon.Add(-ago) }
}
func bmcDown(v *View) {
	v.BMC.Problem = &BMCProblem{Reason: v1alpha1.ReasonBMCUnreachable, Message: "no route", RetryAt: noon.Add(time.Minute)}
}
func commanded(c Command, ago time.Duration) func(*View) {
	return func(v *View) {
		v.BMC.LastPower, v.BMC.LastPowerAt = c, noon.Add(-ago)
		if c == CommandShutDown {
			v.BMC.FirstShutDownAt = noon.Add(-ago)
		}
	}
}

// nextCase is the expected result of Next.
type nextCase struct {
	view   View
	state  State
	action Action
	phase  v1alpha1.HostPhase
	reason string
}

func TestNext(t *testing.T) {
	visited := map[State]bool{}
	names := map[string]bool{}
	for _, cases := range []map[string]nextCase{nextFree, nextAside, nextClaimed, nextBooting, nextAgent, nextInspection, nextRequestedErasure, nextSettings, nextMachineRun, nextRunning, nextPowerHold, nextReleasing, nextIdentity} {
		for name, test := range cases {
			if names[name] {
				t.Errorf("two cases have the name %q", name)
			}
			names[name] = true
			t.Run(name, func(t *testing.T) {
				g := NewWithT(t)
				step := Next(test.view, DefaultSettings())
				g.Expect(step.State).To(Equal(test.state))
				g.Expect(step.Action).To(Equal(test.action), "message: %s", step.Message)
				g.Expect(step.Phase).To(Equal(test.phase))
				g.Expect(step.Reason).To(Equal(test.reason))
				visited[step.State] = true
			})
		}
	}
	for _, line := range table {
		if !visited[line.state] {
			t.Errorf("no test visits the state %s", line.state)
		}
	}
}

// TestPartialInventory: an incomplete inventory is read again soon, a complete one is not.
func TestPartialInventory(t *testing.T) {
	s := Settings{InspectInterval: 24 * time.Hour}
	for partial, want := range map[bool]time.Duration{true: partialInspectInterval, false: s.InspectInterval} {
		v := View{BMC: BMC{Inspected: true, InspectedTime: noon, Partial: partial}}
		if got := v.nextInspection(s).Sub(noon); got != want {
			t.Errorf("partial %t: it is read again after %s", partial, got)
		}
	}
}
