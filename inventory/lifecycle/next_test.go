package lifecycle

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// freeView is a verified, powered-off host that nobody has. The tests change what they are about.
func freeView(changes ...func(*View)) View {
	v := View{
		Now: noon, Namespace: "dc", Name: "host-1",
		Spec: v1alpha1.BareMetalHostSpec{BootMACAddress: "52:54:00:00:00:01"}, Boot: &v1alpha1.BareMetalBootSpec{},
		BMC: BMC{
			Inspected: true, InspectedAt: noon.Add(-time.Hour), Power: v1alpha1.PowerOff, PowerAt: noon.Add(-time.Second), PowerSince: noon.Add(-time.Hour),
		},
	}
	for _, change := range changes {
		change(&v)
	}
	return v
}

// claimedView is a host that a machine has, whose bootstrap data is there.
func claimedView(changes ...func(*View)) View {
	v := freeView()
	v.Spec.ConsumerRef = &v1alpha1.ConsumerReference{Name: "m", ClaimID: "claim-1"}
	v.Consumer = &Consumer{Found: true, ClusterFound: true, BootstrapReady: true, Persistence: v1alpha1.PersistenceInstalled}
	for _, change := range changes {
		change(&v)
	}
	return v
}

// clockSetBack puts what the spec records into the future.
func clockSetBack(v *View) {
	later := metav1.NewTime(noon.Add(time.Hour))
	v.Boot.StartedAt, v.Boot.PoweredOffAt = later, &later
}

func bootingView(changes ...func(*View)) View {
	return claimedView(append([]func(*View){func(v *View) {
		v.MoveBlocked = true
		off := metav1.NewTime(noon.Add(-time.Minute))
		v.Boot, v.Spec.Boots = &v1alpha1.BareMetalBootSpec{
			Number: 1, Attempt: 1, Purpose: v1alpha1.PurposeProvision, ClaimID: "claim-1", MachineName: "m", StartedAt: off, PoweredOffAt: &off, PoweredOnAt: &off,
		}, 1
	}}, changes...)...)
}

func poweredOn(v *View)     { v.BMC.Power = v1alpha1.PowerOn }
func ephemeral(v *View)     { v.Consumer.Persistence = v1alpha1.PersistenceEphemeral }
func seeded(v *View)        { v.Boot.DataServedAt = &metav1.Time{Time: noon.Add(-30 * time.Second)} }
func seededLongAgo(v *View) { v.Boot.DataServedAt = &metav1.Time{Time: noon.Add(-40 * time.Second)} }
func deleting(v *View)      { v.Consumer.Deleting = true }
func ownerDeleting(v *View) { v.Consumer.OwnerDeleting = true }
func provisioned(v *View)   { v.Consumer.ProviderID = "baremetal://dc/host-1/m" }
func netbootSet(v *View)    { v.BMC.NetworkBootSetAt = noon.Add(-10 * time.Second) }
func maintenance(v *View)   { v.Spec.Maintenance = &v1alpha1.Maintenance{Reason: "new fan"} }
func external(v *View)      { v.Spec.ExternallyProvisioned = true }
func quarantined(v *View)   { v.Spec.Quarantine = &v1alpha1.Quarantine{Reason: "Broken"} }
func expired(v *View)       { v.Boot.StartedAt = metav1.NewTime(noon.Add(-31 * time.Minute)) }
func notPoweredOff(v *View) { v.Boot.PoweredOffAt = nil }
func notPoweredOn(v *View)  { v.Boot.PoweredOnAt = nil }
func uncounted(v *View)     { v.Spec.Boots, v.Boot.PoweredOnAt = 0, nil }
func noRecord(v *View)      { v.Boot = nil }
func oldRecord(v *View)     { v.Boot = &v1alpha1.BareMetalBootSpec{} }
func othersRecord(v *View)  { v.Boot.ClaimID, v.Boot.MachineName = "claim-0", "m-0" }
func voided(v *View)        { v.Boot.VoidedAt = &metav1.Time{Time: noon} }
func nobodys(v *View)       { v.Spec.ConsumerRef, v.Consumer = nil, nil }
func moveFree(v *View)      { v.MoveBlocked = false }
func beingDeleted(v *View)  { v.Deleting = true }
func bootDeleting(v *View)  { v.BootDeleting = true }
func noClaimID(v *View)     { v.Spec.ConsumerRef.ClaimID = "" }
func stale(v *View)         { v.BMC.PowerAt = noon.Add(-time.Hour) }
func justOff(v *View)       { v.BMC.PowerSince = v.BMC.PowerAt }
func cleaning(v *View)      { v.Spec.CleaningStartedAt = &metav1.Time{Time: noon.Add(-5 * time.Second)} }
func cleaned(v *View)       { v.BMC.CleanedAt = noon.Add(-time.Second) }
func overrideSet(v *View)   { v.BMC.OverrideStands = true }
func lacking(v *View)       { v.BMC.Lacks, v.BMC.InspectedAt = []string{"BootPXE"}, noon.Add(-time.Minute) }
func askNow(v *View)        { v.AskNow = true }
func reported(v *View)      { v.MoveBlocked, v.Boot.ReportedAt = false, &metav1.Time{Time: noon} }
func scriptSeen(v *View)    { v.Furthest.Stage = v1alpha1.StageScript }
func restarted(v *View)     { v.RestartedAt = noon.Add(time.Minute) }
func nodeLost(v *View)      { v.NodeLostAt = noon.Add(2 * time.Minute) }
func heldBy(v *View)        { v.Spec.PowerHolds = []v1alpha1.PowerHold{{Holder: "anna", Reason: "new disk"}} }
func heldHard(v *View)      { heldBy(v); v.Spec.PowerHolds[0].Force = true }
func heldSince(v *View)     { v.Spec.HeldSince = &metav1.Time{Time: noon.Add(-time.Minute)} }
func heldOff(v *View) {
	heldSince(v)
	v.Spec.HeldOffAt = &metav1.Time{Time: noon.Add(-30 * time.Second)}
}
func letGo(v *View)    { v.ReleaseUnfenced = "anna: burnt" }
func detached(v *View) { v.Detached = "anna: moves racks" }
func cycle(v *View) {
	v.PowerRequests = PowerRequests{Cycles: []string{"cycle/anna"}, All: []string{"cycle/anna"}}
}
func wantedOn(v *View) {
	v.PowerRequests = PowerRequests{On: []string{"on/anna"}, All: []string{"on/anna"}}
}
func waitsAnHour(v *View) {
	v.Spec.ReleaseUnfencedAfterSeconds, v.Consumer.DeletingSince = new(int32(3600)), noon.Add(-time.Hour)
}
func namespaceGone(v *View) { v.Deleting, v.NamespaceDeleting = true, true }
func noSecret(v *View) {
	v.BMC.Problem = &BMCProblem{Reason: v1alpha1.ReasonCredentialsMissing, Message: "x"}
}
func inspected(ago time.Duration) func(*View) {
	return func(v *View) { v.BMC.InspectedAt = noon.Add(-ago) }
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

func TestNext(t *testing.T) {
	for name, test := range map[string]struct {
		view   View
		state  State
		action Action
		phase  v1alpha1.HostPhase
		reason string
	}{
		"a move takes the host away": {claimedView(func(v *View) { v.Deleting, v.DeletedForMove = true, true }), StateLeaving, Forget, v1alpha1.PhaseDeleting, ""},
		"a free host is deleted":     {freeView(func(v *View) { v.Deleting = true }), StateLeaving, Forget, v1alpha1.PhaseDeleting, ""},
		"a paused host is not deleted": {
			freeView(func(v *View) { v.Deleting, v.Paused = true, true }), StatePaused, Nothing, "", v1alpha1.ReasonPaused,
		},
		"a claimed host waits with its deletion": {
			claimedView(func(v *View) { v.Deleting = true }), StateWaiting, Nothing, v1alpha1.PhaseClaimed, v1alpha1.ReasonDeleting,
		},
		"a claimed host whose Machine is about to go": {
			claimedView(ownerDeleting), StateWaiting, Nothing, v1alpha1.PhaseClaimed, v1alpha1.ReasonDeleting,
		},
		"a boot under way for a Machine that is about to go": {
			bootingView(netbootSet, ownerDeleting), StateBooting, PowerOn, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing,
		},
		"the cluster is paused": {claimedView(func(v *View) { v.Consumer.Paused = true }), StatePaused, Nothing, "", v1alpha1.ReasonPaused},
		"the cluster is paused in mid-boot": {
			bootingView(netbootSet, func(v *View) { v.Consumer.Paused = true }), StateBooting, PowerOn, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing,
		},
		"the cluster is paused after the boot, by a move that waits": {
			bootingView(poweredOn, func(v *View) {
				v.Consumer.Paused, v.Boot.ReportedAt = true, &metav1.Time{Time: noon}
			}), StatePaused, AllowMove, "", v1alpha1.ReasonPaused,
		},
		"in maintenance after the boot, and a move waits": {
			bootingView(provisioned, poweredOn, func(v *View) { v.Spec.Maintenance = &v1alpha1.Maintenance{Reason: "fan"} }),
			StateMaintenance, AllowMove, v1alpha1.PhaseMaintenance, v1alpha1.ReasonMaintenance,
		},
		"in maintenance in mid-boot: a move waits": {
			bootingView(poweredOn, func(v *View) { v.Spec.Maintenance = &v1alpha1.Maintenance{Reason: "fan"} }),
			StateMaintenance, Nothing, v1alpha1.PhaseMaintenance, v1alpha1.ReasonMaintenance,
		},
		"quarantined, and a move waits": {
			freeView(func(v *View) { v.MoveBlocked, v.Spec.Quarantine = true, &v1alpha1.Quarantine{Reason: "Broken"} }),
			StateQuarantined, AllowMove, v1alpha1.PhaseQuarantined, v1alpha1.ReasonQuarantined,
		},
		"free, and a move waits": {freeView(func(v *View) { v.MoveBlocked = true }), StateFree, AllowMove, v1alpha1.PhaseAvailable, ""},
		"nobody is there: a move waits": {
			bootingView(poweredOn, func(v *View) { v.Consumer.Found = false }), StateOrphaned, Nothing, v1alpha1.PhaseOrphaned, v1alpha1.ReasonConsumerNotFound,
		},
		"the machine is deleted by a move": {
			claimedView(deleting, poweredOn, func(v *View) { v.Consumer.DeletedForMove = true }), StatePaused, Nothing, "", v1alpha1.ReasonPaused,
		},
		"the machine is not there": {
			claimedView(poweredOn, func(v *View) { v.Consumer.Found = false }), StateOrphaned, Nothing, v1alpha1.PhaseOrphaned, v1alpha1.ReasonConsumerNotFound,
		},
		"the machine is not there in mid-boot": {
			bootingView(func(v *View) { v.Consumer.Found = false }), StateOrphaned, Nothing, v1alpha1.PhaseOrphaned, v1alpha1.ReasonConsumerNotFound,
		},
		"the cluster is not there": {
			claimedView(deleting, poweredOn, func(v *View) { v.Consumer.ClusterFound = false }), StateOrphaned, Nothing, v1alpha1.PhaseOrphaned, v1alpha1.ReasonClusterNotFound,
		},
		"the machine runs elsewhere": {
			claimedView(func(v *View) { v.Consumer.ProviderID = "baremetal://dc/other/m" }), StateOrphaned, Nothing, v1alpha1.PhaseOrphaned, v1alpha1.ReasonConsumerNotFound,
		},
		"maintenance":                 {freeView(maintenance), StateMaintenance, Nothing, v1alpha1.PhaseMaintenance, v1alpha1.ReasonMaintenance},
		"maintenance stops a boot":    {bootingView(maintenance), StateMaintenance, Nothing, v1alpha1.PhaseMaintenance, v1alpha1.ReasonMaintenance},
		"maintenance stops a release": {claimedView(maintenance, deleting, poweredOn), StateMaintenance, Nothing, v1alpha1.PhaseMaintenance, v1alpha1.ReasonMaintenance},
		"externally provisioned":      {freeView(external, poweredOn), StateExternal, Nothing, v1alpha1.PhaseExternallyProvisioned, v1alpha1.ReasonExternallyProvisioned},
		"externally provisioned is released running": {
			claimedView(external, poweredOn, deleting), StateReleasing, Release, v1alpha1.PhaseReleasing, v1alpha1.ReasonReleasing,
		},
		"quarantined":                  {freeView(quarantined, poweredOn), StateQuarantined, Nothing, v1alpha1.PhaseQuarantined, v1alpha1.ReasonQuarantined},
		"quarantined and claimed runs": {claimedView(quarantined, provisioned, poweredOn), StateProvisioned, Nothing, v1alpha1.PhaseProvisioned, ""},

		"a new host is inspected":  {freeView(func(v *View) { v.BMC = BMC{} }), StateFree, Inspect, v1alpha1.PhaseRegistering, v1alpha1.ReasonNotVerified},
		"the BMC is busy":          {freeView(func(v *View) { v.BMC = BMC{Busy: true} }), StateFree, Nothing, v1alpha1.PhaseRegistering, v1alpha1.ReasonNotVerified},
		"the BMC is down":          {freeView(bmcDown), StateFree, Nothing, v1alpha1.PhaseRegistering, v1alpha1.ReasonNotVerified},
		"the BMC is tried again":   {freeView(bmcDown, stale, func(v *View) { v.Now = v.Now.Add(time.Hour) }), StateFree, ReadPower, v1alpha1.PhaseRegistering, v1alpha1.ReasonNotVerified},
		"two hosts have one MAC":   {freeView(func(v *View) { v.SharesMACWith = []string{"host-2"} }), StateFree, Nothing, v1alpha1.PhaseRegistering, v1alpha1.ReasonNotVerified},
		"two hosts have one BMC":   {freeView(func(v *View) { v.SharesBMCWith = []string{"host-2"} }), StateFree, Nothing, v1alpha1.PhaseRegistering, v1alpha1.ReasonNotVerified},
		"available":                {freeView(), StateFree, Nothing, v1alpha1.PhaseAvailable, ""},
		"available while polled":   {freeView(stale), StateFree, ReadPower, v1alpha1.PhaseAvailable, ""},
		"found running":            {freeView(poweredOn), StateFree, Nothing, v1alpha1.PhaseUnavailable, v1alpha1.ReasonPoweredOn},
		"to be powered off":        {freeView(poweredOn, func(v *View) { v.Spec.Power = v1alpha1.PowerOff }), StateFree, ShutDown, v1alpha1.PhaseUnavailable, v1alpha1.ReasonPowerChanging},
		"to be powered on":         {freeView(func(v *View) { v.Spec.Power = v1alpha1.PowerOn }), StateFree, PowerOn, v1alpha1.PhaseUnavailable, v1alpha1.ReasonPowerChanging},
		"free and wanted on":       {freeView(poweredOn, func(v *View) { v.Spec.Power = v1alpha1.PowerOn }), StateFree, Nothing, v1alpha1.PhaseAvailable, ""},
		"shutting down":            {freeView(poweredOn, commanded(CommandShutDown, 10*time.Second), func(v *View) { v.Spec.Power = v1alpha1.PowerOff }), StateFree, Nothing, v1alpha1.PhaseUnavailable, v1alpha1.ReasonPowerChanging},
		"does not shut down":       {freeView(poweredOn, commanded(CommandShutDown, 3*time.Minute), func(v *View) { v.Spec.Power = v1alpha1.PowerOff }), StateFree, ForceOff, v1alpha1.PhaseUnavailable, v1alpha1.ReasonPowerChanging},
		"no bootstrap data":        {claimedView(func(v *View) { v.Consumer.BootstrapReady = false }), StateWaiting, Nothing, v1alpha1.PhaseClaimed, v1alpha1.ReasonWaitingForBootstrapData},
		"claimed, BMC down":        {claimedView(bmcDown), StateWaiting, Nothing, v1alpha1.PhaseClaimed, v1alpha1.ReasonWaitingForBMC},
		"claimed, never inspected": {claimedView(func(v *View) { v.BMC = BMC{} }), StateWaiting, Inspect, v1alpha1.PhaseClaimed, v1alpha1.ReasonPreparing},
		"claimed, MAC conflict":    {claimedView(func(v *View) { v.SharesMACWith = []string{"host-2"} }), StateWaiting, Nothing, v1alpha1.PhaseClaimed, v1alpha1.ReasonMACConflict},
		"claimed, BMC conflict":    {claimedView(func(v *View) { v.SharesBMCWith = []string{"host-2"} }), StateWaiting, Nothing, v1alpha1.PhaseClaimed, v1alpha1.ReasonBMCConflict},
		"a boot begins":            {claimedView(), StateWaiting, RecordBoot, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing},
		"in line":                  {claimedView(inLine), StateWaiting, Nothing, v1alpha1.PhaseClaimed, v1alpha1.ReasonWaitingForBootSlot},
		"in line while polled":     {claimedView(inLine, stale), StateWaiting, ReadPower, v1alpha1.PhaseClaimed, v1alpha1.ReasonWaitingForBootSlot},
		"in line, asked lately":    {claimedView(inLine, func(v *View) { v.BMC.PowerAt = noon.Add(-time.Minute) }), StateWaiting, Nothing, v1alpha1.PhaseClaimed, v1alpha1.ReasonWaitingForBootSlot},
		"in line, found running":   {claimedView(inLine, poweredOn), StateWaiting, Nothing, v1alpha1.PhaseClaimed, v1alpha1.ReasonPoweredOn},

		"booting: switch off":         {bootingView(poweredOn, notPoweredOff), StateBooting, ForceOff, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing},
		"booting: being switched off": {bootingView(poweredOn, notPoweredOff, commanded(CommandForceOff, 5*time.Second)), StateBooting, Nothing, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing},
		"booting: is off":             {bootingView(notPoweredOff), StateBooting, RecordBoot, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing},
		"booting: set the override":   {bootingView(), StateBooting, SetNetworkBoot, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing},
		"booting: switch on":          {bootingView(netbootSet), StateBooting, PowerOn, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing},
		"booting: clock set back":     {bootingView(clockSetBack), StateBooting, SetNetworkBoot, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing},
		"booting: and override set":   {bootingView(clockSetBack, netbootSet), StateBooting, PowerOn, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing},
		"booting: seen, and off again": {
			bootingView(netbootSet, commanded(CommandPowerOn, 5*time.Second), func(v *View) {
				v.BMC.PowerAt, v.BMC.PowerSince = noon.Add(-time.Second), noon.Add(-time.Hour)
				v.Furthest = v1alpha1.ObservedStage{Stage: v1alpha1.StageDHCP, Time: metav1.NewTime(noon.Add(-3 * time.Second))}
			}),
			StateBooting, SetNetworkBoot, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing,
		},
		"booting: seen in the second in which the override was set, and off again": {
			bootingView(commanded(CommandPowerOn, 5*time.Second), func(v *View) {
				v.BMC.NetworkBootSetAt, v.BMC.PowerSince = noon.Add(-5500*time.Millisecond), noon.Add(-time.Hour)
				v.Furthest = v1alpha1.ObservedStage{Stage: v1alpha1.StageDHCP, Time: metav1.NewTime(noon.Add(-6 * time.Second))}
			}),
			StateBooting, SetNetworkBoot, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing,
		},
		"booting: seen since it was read as off": {
			bootingView(netbootSet, commanded(CommandPowerOn, 5*time.Second), func(v *View) {
				v.BMC.PowerAt, v.BMC.PowerSince = noon.Add(-2*time.Second), noon.Add(-time.Hour)
				v.Furthest = v1alpha1.ObservedStage{Stage: v1alpha1.StageDHCP, Time: metav1.NewTime(noon.Add(-3 * time.Second))}
			}),
			StateBooting, Nothing, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing,
		},
		"booting: power read after it": {bootingView(netbootSet, commanded(CommandPowerOn, 0)), StateBooting, ReadPower, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing},
		"booting: being switched on":   {bootingView(netbootSet, commanded(CommandPowerOn, 5*time.Second)), StateBooting, Nothing, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing},
		"booting: does not switch on":  {bootingView(netbootSet, commanded(CommandPowerOn, 25*time.Second)), StateBooting, PowerOn, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing},
		"booting: went off by itself": {
			bootingView(commanded(CommandPowerOn, 40*time.Second), func(v *View) { v.BMC.NetworkBootSetAt = noon.Add(-50 * time.Second) }, justOff),
			StateBooting, SetNetworkBoot, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing,
		},
		"booting: never came on": {
			bootingView(commanded(CommandPowerOn, 40*time.Second), func(v *View) { v.BMC.NetworkBootSetAt = noon.Add(-50 * time.Second) }),
			StateBooting, PowerOn, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing,
		},
		"booting: after a restart":   {bootingView(poweredOn), StateBooting, Nothing, v1alpha1.PhaseBooting, v1alpha1.ReasonWaitingForDHCP},
		"booting: DHCP":              {bootingView(poweredOn, func(v *View) { v.Furthest.Stage = v1alpha1.StageDHCP }), StateBooting, Nothing, v1alpha1.PhaseBooting, v1alpha1.ReasonWaitingForLoader},
		"booting: loader":            {bootingView(poweredOn, func(v *View) { v.Furthest.Stage = v1alpha1.StageLoader }), StateBooting, Nothing, v1alpha1.PhaseBooting, v1alpha1.ReasonWaitingForScript},
		"booting: script":            {bootingView(poweredOn, func(v *View) { v.Furthest.Stage = v1alpha1.StageScript }), StateBooting, Nothing, v1alpha1.PhaseBooting, v1alpha1.ReasonWaitingForKernel},
		"booting: kernel":            {bootingView(poweredOn, func(v *View) { v.Furthest.Stage = v1alpha1.StageKernel }), StateBooting, Nothing, v1alpha1.PhaseBooting, v1alpha1.ReasonWaitingForSeed},
		"booting: seed, status lost": {bootingView(poweredOn, seeded), StateBooting, Nothing, v1alpha1.PhaseBooting, v1alpha1.ReasonWaitingForReport},
		"booting: wrong kernel": {bootingView(poweredOn, func(v *View) {
			v.Problem = &v1alpha1.BootFailure{Reason: v1alpha1.ReasonChecksumMismatch, Message: "x"}
		}), StateBooting, Nothing, v1alpha1.PhaseBooting, v1alpha1.ReasonChecksumMismatch},
		"booting: BMC down":                    {bootingView(bmcDown), StateBooting, Nothing, v1alpha1.PhaseBooting, v1alpha1.ReasonWaitingForBMC},
		"booting: late":                        {bootingView(poweredOn, expired), StateBooting, RecordBoot, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing},
		"booting: late and in line":            {bootingView(poweredOn, expired, inLine, func(v *View) { v.MoveBlocked = false }), StateBooting, Nothing, v1alpha1.PhaseBooting, v1alpha1.ReasonWaitingForBootSlot},
		"booting: late, a move waits":          {bootingView(poweredOn, expired, inLine), StateBooting, AllowMove, v1alpha1.PhaseBooting, v1alpha1.ReasonWaitingForBootSlot},
		"booting: late, last attempt":          {bootingView(poweredOn, expired, func(v *View) { v.Boot.Attempt = 3 }), StateBooting, RecordBoot, v1alpha1.PhaseBootFailed, v1alpha1.ReasonBootTimedOut},
		"the record is missing":                {bootingView(noRecord), StateBootUnknown, AllowMove, v1alpha1.PhaseBootUnknown, v1alpha1.ReasonBootUnknown},
		"the record is missing, no move waits": {bootingView(noRecord, moveFree), StateBootUnknown, Nothing, v1alpha1.PhaseBootUnknown, v1alpha1.ReasonBootUnknown},
		"the record is older than the host":    {bootingView(oldRecord, moveFree), StateBootUnknown, Nothing, v1alpha1.PhaseBootUnknown, v1alpha1.ReasonBootUnknown},
		"the record is another claim's":        {bootingView(othersRecord, moveFree), StateBootUnknown, Nothing, v1alpha1.PhaseBootUnknown, v1alpha1.ReasonBootUnknown},
		"the record is void":                   {bootingView(voided, moveFree), StateBootUnknown, Nothing, v1alpha1.PhaseBootUnknown, v1alpha1.ReasonBootUnknown},
		"the claim has no ID":                  {claimedView(noClaimID), StateBootUnknown, Nothing, v1alpha1.PhaseBootUnknown, v1alpha1.ReasonBootUnknown},
		"the record is missing, installed":     {bootingView(noRecord, moveFree, provisioned), StateProvisioned, Nothing, v1alpha1.PhaseProvisioned, ""},
		"the record is missing, from memory":   {bootingView(noRecord, moveFree, provisioned, ephemeral), StateBootUnknown, Nothing, v1alpha1.PhaseBootUnknown, v1alpha1.ReasonBootUnknown},
		"the record is missing, released":      {bootingView(noRecord, deleting), StateReleasing, RecordCleaning, v1alpha1.PhaseReleasing, v1alpha1.ReasonReleasing},
		"never booted, and no record yet":      {claimedView(noRecord), StateWaiting, RecordBoot, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing},
		"a boot that does not count yet":       {bootingView(uncounted, moveFree), StateBooting, CountBoot, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing},
		"paused before the boot counts": {
			bootingView(uncounted, moveFree, func(v *View) { v.Consumer.Paused = true }), StatePaused, Nothing, "", v1alpha1.ReasonPaused,
		},
		"not recorded that it is powered on": {bootingView(netbootSet, notPoweredOn), StateBooting, RecordBoot, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing},
		"clean, and the boot is not void":    {bootingView(deleting, cleaning, cleaned), StateCleaning, RecordBoot, v1alpha1.PhaseCleaning, v1alpha1.ReasonCleaning},
		"clean, and the boot is void":        {bootingView(deleting, cleaning, cleaned, voided), StateCleaning, Release, v1alpha1.PhaseCleaning, v1alpha1.ReasonCleaning},
		"force-released, the boot is not void": {
			bootingView(deleting, letGo), StateReleasing, RecordBoot, v1alpha1.PhaseReleasing, v1alpha1.ReasonReleasing,
		},
		"free without a record":         {freeView(noRecord), StateFree, RecordBoot, v1alpha1.PhaseRegistering, v1alpha1.ReasonNotVerified},
		"free with an older record":     {freeView(func(v *View) { v.Spec.Boots = 2 }), StateFree, RecordBoot, v1alpha1.PhaseRegistering, v1alpha1.ReasonNotVerified},
		"free, its record is deleted":   {freeView(bootDeleting), StateFree, ForgetBoot, v1alpha1.PhaseRegistering, v1alpha1.ReasonNotVerified},
		"free, and a boot is not void":  {bootingView(nobodys, moveFree), StateFree, Nothing, v1alpha1.PhaseUnavailable, v1alpha1.ReasonBootUnknown},
		"deleted while it boots, off":   {bootingView(nobodys, moveFree, beingDeleted), StateLeaving, RecordBoot, v1alpha1.PhaseDeleting, v1alpha1.ReasonDeleting},
		"deleted while it boots, on":    {bootingView(nobodys, moveFree, beingDeleted, poweredOn), StateLeaving, ForceOff, v1alpha1.PhaseDeleting, v1alpha1.ReasonDeleting},
		"deleted while it boots, void":  {bootingView(nobodys, moveFree, beingDeleted, poweredOn, voided), StateLeaving, Forget, v1alpha1.PhaseDeleting, ""},
		"detached while it boots":       {bootingView(nobodys, moveFree, beingDeleted, poweredOn, detached), StateLeaving, Forget, v1alpha1.PhaseDeleting, ""},
		"its namespace goes, no Secret": {bootingView(nobodys, namespaceGone, poweredOn, noSecret), StateLeaving, Forget, v1alpha1.PhaseDeleting, ""},
		"a person powered it on":        {bootingView(poweredOn, notPoweredOn), StateBooting, RecordBoot, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing},
		"told in the second of the last release": {
			bootingView(func(v *View) {
				v.BMC.NetworkBootSetAt, v.BMC.CleanedAt = v.Boot.PoweredOffAt.Time, v.Boot.PoweredOffAt.Add(time.Millisecond)
			}), StateBooting, SetNetworkBoot, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing,
		},
		"booting: late after the seed": {bootingView(poweredOn, expired, seeded), StateBooting, RecordBoot, v1alpha1.PhaseBootFailed, v1alpha1.ReasonBootTimedOut},
		"booting: read as off before the seed": {
			bootingView(ephemeral, func(v *View) { v.Boot.DataServedAt = &metav1.Time{Time: noon.Add(-3 * time.Second)} }), StateBooting, Nothing, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing,
		},
		"booting: off after the seed":     {bootingView(ephemeral, seededLongAgo), StateBooting, RecordBoot, v1alpha1.PhaseBootFailed, v1alpha1.ReasonStateLost},
		"booting: installed and off":      {bootingView(seeded), StateBooting, PowerOn, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing},
		"boot failed lets a move go on":   {bootingView(poweredOn, func(v *View) { v.Boot.Failure = &v1alpha1.BootFailure{Reason: "R"} }), StateBootFailed, AllowMove, v1alpha1.PhaseBootFailed, "R"},
		"boot failed":                     {bootingView(poweredOn, func(v *View) { v.MoveBlocked, v.Boot.Failure = false, &v1alpha1.BootFailure{Reason: "R"} }), StateBootFailed, Nothing, v1alpha1.PhaseBootFailed, "R"},
		"reported in lets a move go on":   {bootingView(poweredOn, func(v *View) { v.Boot.ReportedAt = &metav1.Time{Time: noon} }), StateReported, AllowMove, v1alpha1.PhaseBooting, v1alpha1.ReasonWaitingForMachine},
		"reported in":                     {bootingView(poweredOn, func(v *View) { v.MoveBlocked, v.Boot.ReportedAt = false, &metav1.Time{Time: noon} }), StateReported, Nothing, v1alpha1.PhaseBooting, v1alpha1.ReasonWaitingForMachine},
		"provisioned":                     {claimedView(provisioned, poweredOn), StateProvisioned, Nothing, v1alpha1.PhaseProvisioned, ""},
		"provisioned lets a move go on":   {bootingView(provisioned, poweredOn), StateProvisioned, AllowMove, v1alpha1.PhaseProvisioned, ""},
		"provisioned, everything unknown": {claimedView(provisioned, func(v *View) { v.BMC = BMC{} }), StateProvisioned, Inspect, v1alpha1.PhaseProvisioned, ""},
		"provisioned, installed and off":  {claimedView(provisioned), StateProvisioned, Nothing, v1alpha1.PhaseProvisioned, ""},
		"state lost":                      {claimedView(provisioned, ephemeral), StateLost, RecordBoot, v1alpha1.PhaseStateLost, v1alpha1.ReasonStateLost},
		"off only just now":               {claimedView(provisioned, ephemeral, func(v *View) { v.BMC.PowerSince = v.BMC.PowerAt }), StateProvisioned, Nothing, v1alpha1.PhaseProvisioned, ""},
		"state lost and on again": {
			bootingView(provisioned, ephemeral, poweredOn, func(v *View) { v.Boot.Failure = &v1alpha1.BootFailure{Reason: v1alpha1.ReasonStateLost} }),
			StateLost, AllowMove, v1alpha1.PhaseStateLost, v1alpha1.ReasonStateLost,
		},
		"firmware asks, and the Node is well": {
			bootingView(provisioned, ephemeral, poweredOn, reported, restarted), StateProvisioned, Nothing, v1alpha1.PhaseProvisioned, "",
		},
		"firmware asks, and the Node is lost": {
			bootingView(provisioned, ephemeral, poweredOn, reported, restarted, nodeLost), StateLost, RecordBoot, v1alpha1.PhaseStateLost, v1alpha1.ReasonStateLost,
		},
		"firmware of an installed machine asks": {
			bootingView(provisioned, poweredOn, reported, restarted, nodeLost), StateProvisioned, Nothing, v1alpha1.PhaseProvisioned, "",
		},
		"firmware asked as the report came": {
			bootingView(provisioned, ephemeral, poweredOn, reported, nodeLost, func(v *View) { v.RestartedAt = noon.Add(restartMargin) }),
			StateProvisioned, Nothing, v1alpha1.PhaseProvisioned, "",
		},
		"the Node is lost, and firmware did not ask": {
			bootingView(provisioned, ephemeral, poweredOn, reported, nodeLost), StateProvisioned, Nothing, v1alpha1.PhaseProvisioned, "",
		},
		"firmware asks before the report": {
			bootingView(ephemeral, poweredOn, seeded, restarted, nodeLost), StateBooting, Nothing, v1alpha1.PhaseBooting, v1alpha1.ReasonWaitingForReport,
		},

		"release: shut down":                {claimedView(provisioned, poweredOn, deleting), StateReleasing, ShutDown, v1alpha1.PhaseReleasing, v1alpha1.ReasonReleasing},
		"release: shutting down":            {claimedView(provisioned, poweredOn, deleting, commanded(CommandShutDown, 10*time.Second)), StateReleasing, Nothing, v1alpha1.PhaseReleasing, v1alpha1.ReasonReleasing},
		"release: does not shut down":       {claimedView(provisioned, poweredOn, deleting, commanded(CommandShutDown, 3*time.Minute)), StateReleasing, ForceOff, v1alpha1.PhaseReleasing, v1alpha1.ReasonReleasing},
		"release: cannot shut down":         {claimedView(provisioned, poweredOn, deleting, func(v *View) { v.BMC.ShutDownUnsupported = true }), StateReleasing, ForceOff, v1alpha1.PhaseReleasing, v1alpha1.ReasonReleasing},
		"release: never came up":            {bootingView(poweredOn, deleting), StateReleasing, ForceOff, v1alpha1.PhaseReleasing, v1alpha1.ReasonReleasing},
		"release: never came up, commanded": {bootingView(poweredOn, deleting, commanded(CommandForceOff, 5*time.Second)), StateReleasing, Nothing, v1alpha1.PhaseReleasing, v1alpha1.ReasonReleasing},
		"release: off, but read long ago":   {claimedView(provisioned, deleting, stale), StateReleasing, ReadPower, v1alpha1.PhaseReleasing, v1alpha1.ReasonReleasing},
		"release: off, read a while ago, and looked at for the first time": {
			claimedView(provisioned, deleting, func(v *View) { v.BMC.PowerAt, v.BMC.PowerNew = noon.Add(-50*time.Second), true }), StateReleasing, RecordCleaning,
			v1alpha1.PhaseReleasing, v1alpha1.ReasonReleasing,
		},
		"release: off, cleaning begins":   {claimedView(provisioned, deleting), StateReleasing, RecordCleaning, v1alpha1.PhaseReleasing, v1alpha1.ReasonReleasing},
		"release: off, to be cleaned up":  {claimedView(provisioned, deleting, cleaning), StateCleaning, CleanUp, v1alpha1.PhaseCleaning, v1alpha1.ReasonCleaning},
		"release: off":                    {claimedView(provisioned, deleting, cleaning, cleaned), StateCleaning, Release, v1alpha1.PhaseCleaning, v1alpha1.ReasonCleaning},
		"release: off, read once":         {claimedView(provisioned, deleting, justOff), StateReleasing, Nothing, v1alpha1.PhaseReleasing, v1alpha1.ReasonReleasing},
		"release: override set, then off": {claimedView(deleting, cleaning, cleaned, func(v *View) { v.BMC.NetworkBootSetAt = noon }), StateCleaning, CleanUp, v1alpha1.PhaseCleaning, v1alpha1.ReasonCleaning},
		"release: off after our command":  {claimedView(provisioned, deleting, justOff, cleaning, cleaned, commanded(CommandForceOff, 5*time.Second)), StateCleaning, Release, v1alpha1.PhaseCleaning, v1alpha1.ReasonCleaning},
		"release: off, but the former process may have switched it on": {
			claimedView(deleting, func(v *View) { v.BMC.PowerSince = v.BMC.PowerAt.Add(-10 * time.Second) }), StateReleasing, Nothing,
			v1alpha1.PhaseReleasing, v1alpha1.ReasonReleasing,
		},
		"release: off, but just switched on": {
			bootingView(deleting, commanded(CommandPowerOn, 10*time.Second)), StateReleasing, Nothing, v1alpha1.PhaseReleasing, v1alpha1.ReasonReleasing,
		},
		"release: media cannot be ejected": {
			claimedView(provisioned, deleting, cleaning, func(v *View) { v.BMC.CleanUpFailures = 4 }), StateCleaning, CleanUp, v1alpha1.PhaseCleaning, v1alpha1.ReasonCleaning,
		},
		"release: media cannot be ejected at all": {
			claimedView(provisioned, deleting, cleaning, func(v *View) { v.BMC.CleanUpFailures = 5 }), StateCleaning, Release, v1alpha1.PhaseCleaning, v1alpha1.ReasonCleaning,
		},
		"release: switched on while it is cleaned": {
			claimedView(provisioned, deleting, cleaning, poweredOn), StateCleaning, RecordCleaning, v1alpha1.PhaseCleaning, v1alpha1.ReasonCleaning,
		},
		"release: cleaning, BMC down": {claimedView(provisioned, deleting, cleaning, bmcDown), StateCleaning, Nothing, v1alpha1.PhaseCleaning, v1alpha1.ReasonWaitingForBMC},
		"release: let go":             {claimedView(provisioned, deleting, poweredOn, bmcDown, letGo), StateReleasing, Release, v1alpha1.PhaseReleasing, v1alpha1.ReasonReleasing},
		"not released, let go":        {claimedView(provisioned, poweredOn, letGo), StateProvisioned, DropRequests, v1alpha1.PhaseProvisioned, ""},
		"about to be deleted, let go": {claimedView(provisioned, poweredOn, letGo, func(v *View) { v.Consumer.OwnerDeleting = true }), StateProvisioned, Nothing, v1alpha1.PhaseProvisioned, ""},
		"detached, let go":            {claimedView(provisioned, poweredOn, letGo, func(v *View) { v.Detached = "anna" }), StateDetached, Nothing, v1alpha1.PhaseDetached, v1alpha1.ReasonDetached},
		"orphaned: let go":            {claimedView(poweredOn, letGo, func(v *View) { v.Consumer.Found = false }), StateReleasing, Release, v1alpha1.PhaseReleasing, v1alpha1.ReasonReleasing},
		"release: overdue":            {claimedView(provisioned, deleting, poweredOn, bmcDown, waitsAnHour), StateReleasing, Release, v1alpha1.PhaseReleasing, v1alpha1.ReasonReleasing},
		"release: not overdue": {
			claimedView(provisioned, deleting, poweredOn, bmcDown, waitsAnHour, func(v *View) { v.Consumer.DeletingSince = noon }), StateReleasing, Nothing,
			v1alpha1.PhaseReleasing, v1alpha1.ReasonWaitingForBMC,
		},
		"detached":              {claimedView(provisioned, poweredOn, detached), StateDetached, Nothing, v1alpha1.PhaseDetached, v1alpha1.ReasonDetached},
		"detached and released": {claimedView(provisioned, poweredOn, detached, deleting), StateDetached, Nothing, v1alpha1.PhaseDetached, v1alpha1.ReasonDetached},
		"detached and deleted":  {claimedView(provisioned, poweredOn, detached, func(v *View) { v.Deleting = true }), StateLeaving, Forget, v1alpha1.PhaseDeleting, ""},
		"goes with its namespace, its Secret went first": {
			claimedView(provisioned, poweredOn, deleting, noSecret, namespaceGone), StateLeaving, Forget, v1alpha1.PhaseDeleting, "",
		},
		"goes with its namespace, its machine went first": {
			claimedView(poweredOn, namespaceGone, func(v *View) { v.Consumer.Found = false }), StateLeaving, Forget, v1alpha1.PhaseDeleting, "",
		},
		"goes with its namespace": {claimedView(provisioned, poweredOn, deleting, namespaceGone), StateReleasing, ShutDown, v1alpha1.PhaseReleasing, v1alpha1.ReasonReleasing},

		"a power cycle is recorded first":      {claimedView(provisioned, poweredOn, cycle), StateHeld, RecordHold, v1alpha1.PhaseHeldOff, v1alpha1.ReasonHeldOff},
		"a power cycle of what is held off":    {claimedView(provisioned, heldBy, heldOff, cycle), StateHeld, RecordHold, v1alpha1.PhaseHeldOff, v1alpha1.ReasonHeldOff},
		"a power cycle of a free host":         {freeView(cycle), StateFree, DropRequests, v1alpha1.PhaseAvailable, ""},
		"a power cycle in maintenance":         {claimedView(provisioned, poweredOn, cycle, maintenance), StateMaintenance, Nothing, v1alpha1.PhaseMaintenance, v1alpha1.ReasonMaintenance},
		"a machine that is off is wanted on":   {claimedView(provisioned, wantedOn), StateHeld, RecordHold, v1alpha1.PhaseHeldOff, v1alpha1.ReasonHeldOff},
		"a machine that is on is wanted on":    {claimedView(provisioned, poweredOn, wantedOn), StateHeld, DropRequests, v1alpha1.PhaseHeldOff, v1alpha1.ReasonHeldOff},
		"a machine is held off, and wanted on": {claimedView(provisioned, heldBy, heldOff, wantedOn), StateHeld, Nothing, v1alpha1.PhaseHeldOff, v1alpha1.ReasonHeldOff},

		"booting: an override that stands": {
			bootingView(poweredOn, overrideSet), StateBooting, Nothing, v1alpha1.PhaseBooting, v1alpha1.ReasonWaitingForDHCP,
		},
		"booting: an override that did its work": {
			bootingView(poweredOn, overrideSet, scriptSeen), StateBooting, ClearBootOverride, v1alpha1.PhaseBooting, v1alpha1.ReasonWaitingForKernel,
		},
		"booting: an override that is gone": {
			bootingView(poweredOn, scriptSeen), StateBooting, Nothing, v1alpha1.PhaseBooting, v1alpha1.ReasonWaitingForKernel,
		},
		"booting: an override that did its work, status lost": {
			bootingView(poweredOn, overrideSet, seeded), StateBooting, ClearBootOverride, v1alpha1.PhaseBooting, v1alpha1.ReasonWaitingForReport,
		},
		"reported in, an override stands": {
			bootingView(poweredOn, overrideSet, reported), StateReported, ClearBootOverride, v1alpha1.PhaseBooting, v1alpha1.ReasonWaitingForMachine,
		},
		"reported in, an override stands, and a move waits meanwhile": {
			bootingView(poweredOn, overrideSet, reported, func(v *View) { v.MoveBlocked, v.BMC.Busy = true, true }), StateReported, AllowMove,
			v1alpha1.PhaseBooting, v1alpha1.ReasonWaitingForMachine,
		},
		"reported in, an override stands, BMC down": {
			bootingView(poweredOn, overrideSet, reported, bmcDown), StateReported, Nothing, v1alpha1.PhaseBooting, v1alpha1.ReasonWaitingForMachine,
		},
		"provisioned, an override stands": {claimedView(provisioned, poweredOn, overrideSet), StateProvisioned, Nothing, v1alpha1.PhaseProvisioned, ""},

		"a hold is recorded first":                {claimedView(provisioned, poweredOn, heldBy), StateHeld, RecordHold, v1alpha1.PhaseHeldOff, v1alpha1.ReasonHeldOff},
		"held: lets a move go on":                 {bootingView(provisioned, poweredOn, heldBy), StateHeld, AllowMove, v1alpha1.PhaseHeldOff, v1alpha1.ReasonHeldOff},
		"held: shut down":                         {claimedView(provisioned, poweredOn, heldBy, heldSince), StateHeld, ShutDown, v1alpha1.PhaseHeldOff, v1alpha1.ReasonHeldOff},
		"held: at once":                           {claimedView(provisioned, poweredOn, heldHard, heldSince), StateHeld, ForceOff, v1alpha1.PhaseHeldOff, v1alpha1.ReasonHeldOff},
		"held: shutting down":                     {claimedView(provisioned, poweredOn, heldBy, heldSince, commanded(CommandShutDown, 10*time.Second)), StateHeld, Nothing, v1alpha1.PhaseHeldOff, v1alpha1.ReasonHeldOff},
		"held: does not shut down":                {claimedView(provisioned, poweredOn, heldBy, heldSince, commanded(CommandShutDown, 3*time.Minute)), StateHeld, ForceOff, v1alpha1.PhaseHeldOff, v1alpha1.ReasonHeldOff},
		"held: at once, while it shuts down":      {claimedView(provisioned, poweredOn, heldHard, heldSince, commanded(CommandShutDown, 10*time.Second)), StateHeld, ForceOff, v1alpha1.PhaseHeldOff, v1alpha1.ReasonHeldOff},
		"held: off, read once":                    {claimedView(provisioned, heldHard, heldSince, justOff, commanded(CommandForceOff, 9*time.Second)), StateHeld, Nothing, v1alpha1.PhaseHeldOff, v1alpha1.ReasonHeldOff},
		"held: off":                               {claimedView(provisioned, heldHard, heldSince, commanded(CommandForceOff, 9*time.Second)), StateHeld, RecordHold, v1alpha1.PhaseHeldOff, v1alpha1.ReasonHeldOff},
		"held: found off":                         {claimedView(provisioned, heldHard, heldSince), StateHeld, RecordHold, v1alpha1.PhaseHeldOff, v1alpha1.ReasonHeldOff},
		"held: just switched on, not off":         {claimedView(provisioned, heldHard, heldSince, commanded(CommandPowerOn, 9*time.Second)), StateHeld, Nothing, v1alpha1.PhaseHeldOff, v1alpha1.ReasonHeldOff},
		"held: BMC down":                          {claimedView(provisioned, heldHard, heldSince, bmcDown), StateHeld, Nothing, v1alpha1.PhaseHeldOff, v1alpha1.ReasonHeldOff},
		"held off":                                {claimedView(provisioned, heldBy, heldOff), StateHeld, Nothing, v1alpha1.PhaseHeldOff, v1alpha1.ReasonHeldOff},
		"held off, after a restart":               {claimedView(provisioned, heldBy, heldOff, func(v *View) { v.BMC = BMC{} }), StateHeld, Inspect, v1alpha1.PhaseHeldOff, v1alpha1.ReasonHeldOff},
		"held off, and somebody switched it on":   {claimedView(provisioned, poweredOn, heldBy, heldOff), StateHeld, RecordHold, v1alpha1.PhaseHeldOff, v1alpha1.ReasonHeldOff},
		"no hold is left: it is not off for good": {claimedView(provisioned, heldOff), StateHeld, RecordHold, v1alpha1.PhaseHeldOff, v1alpha1.ReasonHeldOff},
		"no hold is left: switch on":              {claimedView(provisioned, heldSince), StateHeld, PowerOn, v1alpha1.PhaseHeldOff, v1alpha1.ReasonHeldOff},
		"no hold is left, and from memory":        {claimedView(provisioned, ephemeral, heldSince, justOff), StateHeld, Nothing, v1alpha1.PhaseHeldOff, v1alpha1.ReasonHeldOff},
		"no hold is left: being switched on":      {claimedView(provisioned, heldSince, commanded(CommandPowerOn, 9*time.Second)), StateHeld, Nothing, v1alpha1.PhaseHeldOff, v1alpha1.ReasonHeldOff},
		"no hold is left: on":                     {claimedView(provisioned, poweredOn, heldSince, commanded(CommandPowerOn, 9*time.Second)), StateHeld, RecordHold, v1alpha1.PhaseHeldOff, v1alpha1.ReasonHeldOff},
		"no hold is left: it still shuts down":    {claimedView(provisioned, poweredOn, heldSince, commanded(CommandShutDown, 9*time.Second)), StateHeld, Nothing, v1alpha1.PhaseHeldOff, v1alpha1.ReasonHeldOff},
		"no hold is left: it may shut down unheard": {
			claimedView(provisioned, poweredOn, heldSince, func(v *View) { v.BMC.OffUnheardAt = noon.Add(-time.Minute) }), StateHeld, Nothing, v1alpha1.PhaseHeldOff, v1alpha1.ReasonHeldOff,
		},
		"no hold is left: asked long ago, and switched off just now": {
			claimedView(provisioned, poweredOn, heldSince, func(v *View) {
				v.BMC.FirstShutDownAt, v.BMC.LastPower, v.BMC.LastPowerAt = noon.Add(-time.Hour), CommandForceOff, noon.Add(-2*time.Second)
			}), StateHeld, Nothing, v1alpha1.PhaseHeldOff, v1alpha1.ReasonHeldOff,
		},
		"wanted on, by an old reading it is": {
			claimedView(provisioned, poweredOn, wantedOn, func(v *View) { v.BMC.PowerAt = noon.Add(-4 * time.Minute) }), StateHeld, ReadPower, v1alpha1.PhaseHeldOff, v1alpha1.ReasonHeldOff,
		},
		"no hold is left: never off": {claimedView(provisioned, poweredOn, heldSince), StateHeld, RecordHold, v1alpha1.PhaseHeldOff, v1alpha1.ReasonHeldOff},
		"no hold is left: on, after a restart": {
			claimedView(provisioned, poweredOn, heldSince, func(v *View) { v.BMC.PowerSince = noon.Add(-time.Minute) }), StateHeld, Nothing, v1alpha1.PhaseHeldOff, v1alpha1.ReasonHeldOff,
		},
		"held, and from memory":              {claimedView(provisioned, ephemeral, heldBy, heldOff), StateLost, RecordBoot, v1alpha1.PhaseStateLost, v1alpha1.ReasonStateLost},
		"held, and in maintenance":           {claimedView(provisioned, poweredOn, heldHard, heldSince, maintenance), StateMaintenance, Nothing, v1alpha1.PhaseMaintenance, v1alpha1.ReasonMaintenance},
		"held, and released":                 {claimedView(provisioned, deleting, heldHard, heldOff, cleaning, cleaned), StateCleaning, Release, v1alpha1.PhaseCleaning, v1alpha1.ReasonCleaning},
		"held, and paused":                   {claimedView(provisioned, poweredOn, heldHard, func(v *View) { v.Paused = true }), StatePaused, Nothing, "", v1alpha1.ReasonPaused},
		"held, and free":                     {freeView(heldHard), StateFree, Nothing, v1alpha1.PhaseAvailable, ""},
		"held, and booting":                  {bootingView(heldHard, netbootSet), StateBooting, PowerOn, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing},
		"free, inspected yesterday":          {freeView(inspected(24 * time.Hour)), StateFree, Inspect, v1alpha1.PhaseAvailable, ""},
		"provisioned, inspected yesterday":   {claimedView(provisioned, poweredOn, inspected(24*time.Hour)), StateProvisioned, Inspect, v1alpha1.PhaseProvisioned, ""},
		"claimed, inspected yesterday":       {claimedView(inspected(24 * time.Hour)), StateWaiting, RecordBoot, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing},
		"booting, inspected yesterday":       {bootingView(inspected(24 * time.Hour)), StateBooting, SetNetworkBoot, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing},
		"releasing, inspected yesterday":     {claimedView(deleting, inspected(24*time.Hour)), StateReleasing, RecordCleaning, v1alpha1.PhaseReleasing, v1alpha1.ReasonReleasing},
		"free, incapable ten minutes ago":    {freeView(lacking, inspected(10*time.Minute)), StateFree, Inspect, v1alpha1.PhaseRegistering, v1alpha1.ReasonNotVerified},
		"claimed, incapable ten minutes ago": {claimedView(lacking, inspected(10*time.Minute)), StateWaiting, Inspect, v1alpha1.PhaseClaimed, v1alpha1.ReasonCapabilityMissing},
		"the Secret is missing, and a person wants the BMC asked": {
			freeView(noSecret, askNow), StateFree, Nothing, v1alpha1.PhaseRegistering, v1alpha1.ReasonNotVerified,
		},
		"claimed, and runs although nobody started it, polled": {
			claimedView(poweredOn, stale), StateWaiting, ReadPower, v1alpha1.PhaseClaimed, v1alpha1.ReasonPoweredOn,
		},
		"free, and the BMC cannot boot it": {freeView(lacking), StateFree, Nothing, v1alpha1.PhaseRegistering, v1alpha1.ReasonNotVerified},
		"claimed, and the BMC cannot boot it": {
			claimedView(lacking), StateWaiting, Nothing, v1alpha1.PhaseClaimed, v1alpha1.ReasonCapabilityMissing,
		},
		"the BMC is down, and a person wants it asked": {
			freeView(bmcDown, askNow), StateFree, Inspect, v1alpha1.PhaseRegistering, v1alpha1.ReasonNotVerified,
		},
		"a person wants the BMC of a running host asked": {claimedView(provisioned, poweredOn, askNow), StateProvisioned, Inspect, v1alpha1.PhaseProvisioned, ""},
		"release: paused in mid-boot": {
			bootingView(deleting, poweredOn, func(v *View) { v.Consumer.Paused = true }), StatePaused, Nothing, "", v1alpha1.ReasonPaused,
		},
		"claimed, and runs although nobody started it": {
			claimedView(poweredOn), StateWaiting, Nothing, v1alpha1.PhaseClaimed, v1alpha1.ReasonPoweredOn,
		},
		"claimed, and runs as it should while free": {
			claimedView(poweredOn, func(v *View) { v.Spec.Power = v1alpha1.PowerOn }), StateWaiting, RecordBoot, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing,
		},
		"claimed with another host": {
			claimedView(func(v *View) { v.SharesConsumerWith = []string{"host-2"} }), StateWaiting, Nothing, v1alpha1.PhaseClaimed, v1alpha1.ReasonConsumerConflict,
		},
		"booting: off after the seed, read once": {bootingView(ephemeral, seeded, justOff), StateBooting, Nothing, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing},
		"booting: the next attempt waits for the end of a pause": {
			bootingView(expired, func(v *View) { v.Consumer.Paused, v.MoveBlocked = true, false }), StateBooting, Nothing, v1alpha1.PhaseBooting, v1alpha1.ReasonPaused,
		},
		"booting: a move does not wait for the next attempt": {
			bootingView(expired, func(v *View) { v.Paused, v.MoveBlocked = true, true }), StateBooting, AllowMove, v1alpha1.PhaseBooting, v1alpha1.ReasonPaused,
		},
		"release: BMC down": {claimedView(provisioned, deleting, bmcDown), StateReleasing, Nothing, v1alpha1.PhaseReleasing, v1alpha1.ReasonWaitingForBMC},
	} {
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
	for _, line := range table {
		if !visited[line.state] {
			t.Errorf("no test visits the state %s", line.state)
		}
	}
}

var visited = map[State]bool{}
