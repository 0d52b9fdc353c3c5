package lifecycle

import (
	"reflect"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
)

// draw draws facts.
type draw struct{ *rapid.T }

func (d draw) flag(name string) bool { return rapid.Bool().Draw(d.T, name) }

func (d draw) ago(name string) time.Time {
	return noon.Add(-time.Duration(rapid.IntRange(0, 4000).Draw(d.T, name)) * time.Second)
}

func (d draw) moment(name string) *metav1.Time {
	if d.flag(name) {
		return nil
	}
	return &metav1.Time{Time: d.ago(name)}
}

// pick draws one of several values. Values that appear more than once are more likely.
func pick[T any](d draw, name string, of ...T) T { return rapid.SampledFrom(of).Draw(d.T, name) }

// drawView draws any combination of facts, likely and unlikely.
func drawView(t *rapid.T) View {
	d := draw{t}
	v := View{
		Now: noon, Host: d.host(), Identity: d.identity(), Claims: d.claims(), BMC: d.bmc(), Consumer: d.consumer(), Observed: d.observed(), PowerLoss: d.powerLoss(),
		BIOS:          d.bios(),
		Provider:      Provider{MediaURL: pick(d, "mediaURL", "", "http://192.0.2.1")},
		QueuePosition: pick(d, "line", nil, nil, &QueuePosition{Number: 37, Booting: 250}),
	}
	if v.Consumer != nil {
		v.Host.Spec.ConsumerRef = &v1alpha1.ConsumerReference{Name: "m", ClaimID: pick(d, "claimID", "claim-1", "claim-1", "claim-1", "")}
		v.Host.Spec.ConsumerRef.BootsBefore = rapid.Int32Range(0, 3).Draw(t, "bootsBefore")
	}
	d.boot(&v)
	d.requests(&v)
	d.settingsRun(&v)
	return v
}

// host draws the host, except for its boot and its consumer.
func (d draw) host() Host {
	return Host{
		Namespace: "dc", Name: "host-1", Spec: d.spec(), Deleting: d.flag("deleting"), DeletedForMove: d.flag("deletedForMove"), NamespaceDeleting: d.flag("namespace"),
		Paused: d.flag("paused"), MoveBlocked: d.flag("moveBlocked"),
	}
}

func (d draw) identity() Identity {
	return Identity{
		Server:          pick(d, "identity", v1alpha1.HostIdentity{}, v1alpha1.HostIdentity{BMC: "192.0.2.1"}),
		NotPermitted:    pick(d, "notPermitted", nil, nil, nil, nil, nil, errNotPermitted),
		MACTakenBy:      pick(d, "macTaken", nil, nil, nil, otherHost("host-2")),
		TakenMAC:        pick(d, "takenMAC", "", "52:54:00:00:00:01"),
		BMCTakenBy:      pick(d, "bmcTaken", nil, nil, nil, otherHost("host-3")),
		HardwareTakenBy: pick(d, "hardwareTaken", nil, nil, nil, otherHost("host-6")),
		Replacement:     pick(d, "replaced", nil, nil, nil, anotherServer()),
	}
}

func (d draw) claims() Claims {
	return Claims{
		SharesConsumerWith: pick(d, "sharesConsumer", nil, nil, nil, []string{"host-4"}),
		DataServedOn:       pick(d, "servedBy", "", "", "", "host-5"),
		UnrecordedConsumer: pick(d, "saidToRun", "", "", "m-0"),
		BootMachinePending: d.flag("bootMachineWaits"),
	}
}

// observed draws what was observed of a boot. An agent is drawn with it, and an image with the boot.
func (d draw) observed() Observed {
	problem := func(reason string) *v1alpha1.BootFailure { return &v1alpha1.BootFailure{Reason: reason, Message: "m"} }
	return Observed{
		Furthest: v1alpha1.ObservedStage{Time: metav1.NewTime(d.ago("seenAt")), Stage: pick(d, "stage",
			"", v1alpha1.StageMedia, v1alpha1.StageDHCP, v1alpha1.StageWaiting, v1alpha1.StageScript, v1alpha1.StageKernel, v1alpha1.StageAgent, v1alpha1.StageData, v1alpha1.StageCommitted,
			v1alpha1.StageAgentDone, v1alpha1.StageReportedIn, v1alpha1.StageNode, v1alpha1.StageBootstrapFailed)},
		Problem: pick(d, "bootProblem",
			nil, nil, problem("r"), problem(v1alpha1.ReasonBootSourceInvalid), problem(wire.ReasonDiskFailed), problem(wire.ReasonCommitUnknown)),
		Media:       pick(d, "media", v1alpha1.ObservedStage{}, v1alpha1.ObservedStage{Stage: v1alpha1.StageMedia, Time: metav1.NewTime(noon), Address: "192.0.2.9"}),
		WaitedAt:    pick(d, "waited", time.Time{}, time.Time{}, d.ago("waitedAt")),
		RestartedAt: pick(d, "restarted", time.Time{}, d.ago("restartedAt")),
		NodeLostAt:  pick(d, "nodeLost", time.Time{}, d.ago("nodeLostAt")),
		Node:        d.node(),
	}
}

func (d draw) powerLoss() PowerLoss {
	return PowerLoss{
		PoweredOffTime: pick(d, "poweredOff", time.Time{}, d.ago("poweredOffTime")), Restore: d.powerRestore(),
		Outage: pick(d, "outage", nil, &Outage{Lost: 2, Unknown: 1}, &Outage{Lost: 2, Running: 1}, &Outage{Lost: 1, Unknown: 2}, &Outage{}),
	}
}

// bmc draws what is known through the BMC.
func (d draw) bmc() BMC {
	b := BMC{
		Busy: d.flag("busy"), Inspected: d.flag("inspected"), InspectedTime: d.ago("inspectedTime"),
		Power:   pick(d, "power", "", v1alpha1.PowerOn, v1alpha1.PowerOff, v1alpha1.PoweringOn, v1alpha1.PoweringOff),
		PowerAt: d.ago("powerAt"), PowerSince: d.ago("powerSince"), PowerNew: d.flag("powerNew"),
		LastPower: pick(d, "command", "", CommandPowerOn, CommandShutDown, CommandForceOff), LastPowerAt: d.ago("commandAt"),
		FailedAt:            pick(d, "failedAt", time.Time{}, time.Time{}, d.ago("failedBefore")),
		FirstShutDownAt:     pick(d, "shutDown", time.Time{}, d.ago("shutDownAt")),
		OffUnansweredAt:     pick(d, "offUnheard", time.Time{}, d.ago("offUnheardAt")),
		ShutDownUnsupported: d.flag("shutDownUnsupported"),
		Methods:             pick(d, "methods", nil, defaultMethods, defaultMethods[:1], defaultMethods[1:], []v1alpha1.BootMethod{}),
		MethodWorked:        pick(d, "worked", "", "", v1alpha1.MethodPXE, v1alpha1.MethodVirtualMedia),
		ModelMethod:         pick(d, "worked on the model", "", "", v1alpha1.MethodUefiHTTP, v1alpha1.MethodVirtualMedia),
		MethodRefused:       pick(d, "refused", nil, nil, &MethodRefusal{Boot: 2, Message: "no"}), MediaInserted: d.flag("inserted"),
		NetworkBootSetAt: d.ago("netboot"), NetworkBootNumber: rapid.Int32Range(0, 3).Draw(d.T, "netbootNumber"), OverrideSet: d.flag("stands"), CleanedAt: d.ago("cleaned"),
		CleanUpFailures: rapid.IntRange(0, 6).Draw(d.T, "cleanUpFailures"), CleanUpTriedAt: d.ago("cleanUpTried"),
		HealthCritical: d.flag("critical"), HealthReadAt: d.ago("healthReadAt"), Override: pick(d, "override", nil, nil, &v1alpha1.BootOverrideStatus{Target: v1alpha1.TargetPXE}, &v1alpha1.BootOverrideStatus{Persistent: true}),
		Missing: pick(d, "lacks", nil, []string{"BootPXE"}), Partial: pick(d, "partial", false, true),
		Health: HealthPoll{Since: d.ago("observedSince"), TriedAt: pick(d, "health", time.Time{}, d.ago("healthTriedAt")), Failures: pick(d, "healthFailures", 0, 1, 9), Soon: d.flag("healthSoon")},
	}
	if d.flag("problem") {
		b.Problem = &BMCProblem{Reason: "r", RetryAt: pick(d, "retry", time.Time{}, noon.Add(-time.Minute), noon, noon.Add(time.Minute))}
	}
	return b
}

// spec draws the host's spec, except for its consumer.
func (d draw) spec() v1alpha1.BareMetalHostSpec {
	s := v1alpha1.BareMetalHostSpec{
		Power: pick(d, "want", "", v1alpha1.PowerOn, v1alpha1.PowerOff), ExternallyProvisioned: d.flag("external"),
		Maintenance: pick(d, "maintenance", nil, &v1alpha1.Maintenance{Reason: "r"}),
		Quarantine:  pick(d, "quarantine", nil, &v1alpha1.Quarantine{Reason: "r"}),
		ProviderState: v1alpha1.HostProviderState{
			PowerHoldStartTime: d.moment("powerHoldStart"), PowerHoldOffTime: d.moment("powerHoldOff"), CleaningStartTime: d.moment("cleaning"),
		},
		BootMethods:    pick(d, "bootMethods", nil, nil, defaultMethods, defaultMethods[2:]),
		BootMode:       pick(d, "bootMode", v1alpha1.BootModeUEFI, v1alpha1.BootModeBIOS),
		Inspection:     pick(d, "inspection", "", v1alpha1.InspectionAgent, v1alpha1.InspectionBoth),
		CleaningPolicy: pick(d, "policy", "", wire.PolicyNone, wire.PolicyMetadata, wire.PolicyPurge, wire.PolicyManual),
	}
	if d.flag("unfencedAfter") {
		s.ReleaseUnfencedAfterSeconds = new(rapid.Int32Range(60, 8000).Draw(d.T, "after"))
	}
	s.WhenPoweredOff = pick(d, "whenPoweredOff", "", v1alpha1.WhenPoweredOffPowerOn)
	if d.flag("held") {
		s.PowerHolds = []v1alpha1.PowerHold{{Holder: "x", Reason: "r", Force: d.flag("force")}}
	}
	return s
}

// boot draws the record of the host's last boot, and spec.providerState.boots. Most records belong to the claim.
func (d draw) boot(v *View) {
	v.Host.Spec.ProviderState.Boots = rapid.Int32Range(0, 3).Draw(d.T, "boots")
	v.Host.BootDeleting = d.flag("bootDeleting")
	v.Host.BootHasForeignFinalizer = v.Host.BootDeleting && d.flag("bootHeld")
	if !d.flag("record") {
		return
	}
	v.Host.Boot = &v1alpha1.BareMetalBootSpec{
		Number:  pick(d, "number", v.Host.Spec.ProviderState.Boots, v.Host.Spec.ProviderState.Boots, v.Host.Spec.ProviderState.Boots, v.Host.Spec.ProviderState.Boots+1, rapid.Int32Range(0, 3).Draw(d.T, "anyNumber")),
		Attempt: rapid.Int32Range(1, 4).Draw(d.T, "attempt"), StartTime: metav1.NewTime(d.ago("started")),
		ClaimID: pick(d, "bootClaim", "claim-1", "claim-1", "claim-1", "claim-0", ""), MachineName: "m",
		PoweredOffTime: d.moment("off"), PoweredOnTime: d.moment("poweredOn"), DataServedTime: d.moment("dataServed"), ReportedTime: d.moment("reported"),
		VoidedTime: pick(d, "voided", nil, nil, nil, &metav1.Time{Time: noon}),
		Failure:    pick(d, "failed", nil, &v1alpha1.BootFailure{Reason: "r", Message: "m"}),
		Purpose:    pick(d, "purpose", v1alpha1.PurposeProvision, v1alpha1.PurposeProvision, v1alpha1.PurposeClean, v1alpha1.PurposeInspect, v1alpha1.PurposeConfigure),
		Method:     pick(d, "method", "", v1alpha1.MethodPXE, v1alpha1.MethodUefiHTTP, v1alpha1.MethodVirtualMedia),
		Agent:      d.flag("agent"), CommitAllowedTime: d.moment("commitAllowed"), AgentDoneTime: d.moment("agentDone"), AgentSecureBoot: pick(d, "agentSecureBoot", "", wire.SecureBootEnabled),
	}
	v.Host.Boot.Agent = v.Host.Boot.Agent || v.Host.Boot.Purpose != v1alpha1.PurposeProvision
	if v.Host.Boot.Purpose == v1alpha1.PurposeClean && d.flag("isHostBoot") {
		v.Host.Boot.ClaimID, v.Host.Boot.MachineName, v.Host.Boot.CleaningPolicy = "uid-1", "", wire.PolicyClear
		v.Host.Boot.ErasureRequest = &v1alpha1.BootErasureRequest{Name: "order-1", SerialNumber: "SN1"}
	}
	if v.Host.Boot.Agent && v.Host.Boot.Number > 1 {
		v.Host.Boot.CommittedNumber = rapid.Int32Range(0, v.Host.Boot.Number-1).Draw(d.T, "committed")
	}
	if d.flag("written") {
		writtenDisk(v)
	}
	if v.Host.Boot.Purpose == v1alpha1.PurposeClean && v.Host.Boot.AgentDoneTime != nil && d.flag("erasureReport") {
		v.Host.Boot.Erasure = erasureReport()
	}
	if d.flag("agentProgress") {
		v.Observed.AgentAt, v.Observed.Agent = d.ago("agentAt"), &v1alpha1.AgentProgress{Step: "Writing"}
	}
}

// node draws the Node that was observed, nil for none.
func (d draw) node() *v1alpha1.ObservedNode {
	readiness := pick(d, "readiness", "", "", v1alpha1.NodeReady, v1alpha1.NodeNotReady, v1alpha1.NodeUnreadable)
	if readiness == "" {
		return pick(d, "node", nil, &v1alpha1.ObservedNode{Name: "m"})
	}
	return &v1alpha1.ObservedNode{
		Name: "m", Readiness: readiness, ReadinessTime: new(metav1.NewTime(d.ago("readinessTime"))), Mismatch: pick(d, "mismatch", nil, nil, &v1alpha1.BootFailure{Reason: "r"}),
	}
}

// consumer draws the machine that has the host, nil for none. A machine that does not exist has no other facts, and one that is not being deleted has
// no DeletingSince.
func (d draw) consumer() *Consumer {
	if d.flag("free") {
		return nil
	}
	c := &Consumer{
		Found: d.flag("found"), Deleting: d.flag("machineDeleting"), DeletedForMove: d.flag("machineMoved"), ClusterFound: d.flag("cluster"),
		OwnerDeleting: d.flag("ownerDeleting"), Paused: d.flag("clusterPaused"), BootstrapReady: d.flag("bootstrap"),
		ProviderID:  pick(d, "providerID", "", "baremetal://dc/host-1/m", "baremetal://dc/other/m"),
		Persistence: pick(d, "persistence", v1alpha1.PersistenceInstalled, v1alpha1.PersistenceEphemeral),
	}
	if c.NeedsIPXE = d.flag("needsIPXE"); d.flag("image") {
		c.Image, c.NeedsIPXE, c.Persistence = true, false, v1alpha1.PersistenceInstalled
	}
	switch since := d.ago("deletingSince"); {
	case !c.Found:
		return &Consumer{}
	case c.Deleting:
		c.DeletingSince = since
	}
	return c
}

// requests draws requests of users by annotations.
func (d draw) requests(v *View) {
	v.Observed.Image.Ready = d.flag("imageReady")
	v.Inspection.Reported, v.Requests.Inspect, v.Host.PausedCluster = d.flag("reportedByAgent"), d.flag("inspectionRequested"), pick(d, "pausedCluster", "", "c")
	v.Erasure = Erasure{
		Request: pick(d, "request", nil, requestFor("SN1")), SerialNumber: pick(d, "serial", "", "SN1", "SN1", "SN2"), Machine: pick(d, "machineOnServer", nil, nil, otherHost("m-1")),
		Record: pick(d, "erasureRecord", ErasureRecord{}, ErasureRecord{Outcome: RecordDue}, ErasureRecord{Outcome: RecordWritten}, ErasureRecord{Outcome: RecordImpossible, Err: errNoKey},
			ErasureRecord{Outcome: RecordFailed, Err: errNoKey}, ErasureRecord{Outcome: RecordUnproven, Err: errNoKey}),
	}
	v.Requests.RetryBMC = d.flag("askNow")
	v.Requests.Detached = pick(d, "detached", Annotation{}, Annotation{}, Annotation{}, by("anna"))
	v.Provider.Hosts = pick(d, "hosts", 1, 10000)
	v.Provider.RunsHere, v.Requests.PowerOffProvider = pick(d, "runsProvider", false, false, true), pick(d, "powerOffProvider", Annotation{}, Annotation{}, by("anna"))
	v.Requests.SettingsEnded = pick(d, "settingsEnded", Annotation{}, Annotation{}, by("anna"))
	v.Requests.ReleaseUnfenced = pick(d, "unfenced", Annotation{}, Annotation{}, Annotation{}, by("anna"))
	v.Requests.Power = PowerRequests{
		Cycles: pick(d, "cycle", nil, []string{"cycle/anna"}), On: pick(d, "on", nil, []string{"on/anna"}),
		Holds: pick(d, "heldByAnnotation", nil, []v1alpha1.PowerHold{{Holder: "y", Reason: "r"}}),
	}
	v.Requests.Power.All = v.Requests.Power.Once()
}

// TestDraw: every fact on which the lifecycle decides is drawn.
func TestDraw(t *testing.T) {
	setFlag(t, "rapid.seed", "1") // some facts are drawn rarely
	drawn := map[string]bool{}
	var look func(name string, v reflect.Value)
	look = func(name string, v reflect.Value) {
		drawn[name] = drawn[name] || !v.IsZero()
		if v.Kind() == reflect.Pointer && !v.IsNil() {
			v = v.Elem()
		}
		switch v.Type() {
		case reflect.TypeFor[View](), reflect.TypeFor[Host](), reflect.TypeFor[Consumer](), reflect.TypeFor[Claims](), reflect.TypeFor[Identity](), reflect.TypeFor[Requests](),
			reflect.TypeFor[PowerRequests](), reflect.TypeFor[BMC](), reflect.TypeFor[Observed](), reflect.TypeFor[PowerLoss](), reflect.TypeFor[Erasure](), reflect.TypeFor[ErasureRecord](),
			reflect.TypeFor[Provider](), reflect.TypeFor[BIOS]():
			for i := range v.NumField() {
				look(name+"."+v.Type().Field(i).Name, v.Field(i))
			}
		default:
		}
	}
	rapid.Check(t, func(t *rapid.T) { look("View", reflect.ValueOf(drawView(t))) })
	words := []string{"View.BMC.CleanUpError"} // no decision depends on it
	for name, was := range drawn {
		if was == slices.Contains(words, name) {
			t.Errorf("%s: drawn %t", name, was)
		}
	}
}

// TestPropertyWitnessesCommandNothing: what is reported about the power of a server changes when its power is read, and nothing else.
func TestPropertyWitnessesCommandNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := drawView(t)
		v.Host.Spec.WhenPoweredOff = pick(draw{t}, "report", "", v1alpha1.WhenPoweredOffReport)
		without := v
		without.Observed.Node, without.PowerLoss.PoweredOffTime = nil, time.Time{}
		s := DefaultSettings()
		got, want := Next(v, s), Next(without, s)
		if got.Action != want.Action && (got.Action != ReadPower && got.Action != Inspect && got.Action != Nothing || want.Action.Commands()) {
			t.Fatalf("%s with a witness, %s without", got.Action, want.Action)
		}
		if got.State != want.State || got.Phase != want.Phase {
			t.Fatalf("%s, %s with a witness, %s, %s without", got.State, got.Phase, want.State, want.Phase)
		}
		if !got.PoweredOffTime.IsZero() && !mayReportOff(v, got.State) {
			t.Fatalf("powered off since %s in %s", got.PoweredOffTime, got.State)
		}
	})
}

// mayReportOff is true if a step to a state may say that the server is off. A pause keeps what was reported.
func mayReportOff(v View, state State) bool {
	if state == StatePaused {
		return v.Provisioned()
	}
	return state == StateProvisioned && !v.BMC.notOff() && v.Consumer.Persistence != v1alpha1.PersistenceEphemeral
}

// TestPropertyPowerOnAfterOutage: the server of a machine without a power hold gets commands only after an outage of its failure domain, and a power-on only when that is recorded.
func TestPropertyPowerOnAfterOutage(t *testing.T) {
	setFlag(t, "rapid.checks", "20000") // most combinations of facts forbid it
	seen := map[Action]int{}
	rapid.Check(t, func(t *rapid.T) {
		v := drawView(t)
		outageLikely(draw{t}, &v)
		step := Next(v, DefaultSettings())
		if step.State != StateProvisioned || !step.Action.Commands() && (step.Action != RecordPowerRestore || step.PowerRestore.EndTime != nil) {
			return
		}
		seen[step.Action]++
		r := v.PowerLoss.Restore
		again := r != nil && r.EndTime == nil && !v.OffSince().After(r.LastPowerOnTime.Time) && v.Now.Sub(r.LastPowerOnTime.Time) < time.Hour
		sends := step.Action == PowerOn
		switch {
		case v.Host.Spec.WhenPoweredOff != v1alpha1.WhenPoweredOffPowerOn, v.Host.Spec.Quarantine != nil, v.Host.Spec.Maintenance != nil, v.Requests.Detached.Set, v.Host.Paused, len(v.powerHolds()) > 0:
			t.Fatalf("%s although nobody wants that", step.Action)
		case v.Consumer.Persistence == v1alpha1.PersistenceEphemeral, v.BMC.Power != v1alpha1.PowerOff, v.BMC.HealthCritical, v.Identity.hasConflict(), v.Identity.Replacement != nil:
			t.Fatalf("%s to a server that must not be powered on", step.Action)
		case !again && (v.PowerLoss.Outage == nil || v.PowerLoss.Outage.Running > 0 || v.PowerLoss.Outage.Lost == 0 || v.PowerLoss.Outage.Unknown > v.PowerLoss.Outage.Lost):
			t.Fatalf("%s without an outage", step.Action)
		case !sends && v.Now.Before(v.OffSince().Add(5*time.Minute)):
			t.Fatalf("%s too early", step.Action)
		case sends && (!again || v.BMC.LastPower == "" && v.BMC.PowerAt.Sub(v.BMC.PowerSince) < 5*time.Second || r.LastPowerOnTime.After(v.Now) || v.Now.Sub(r.LastPowerOnTime.Time) >= time.Minute || !v.BMC.LastPowerAt.Before(r.LastPowerOnTime.Time)):
			t.Fatalf("a power-on that is not recorded")
		case step.Action == RecordPowerRestore && (step.PowerRestore.PowerOns > 2 || v.QueuePosition != nil || v.BMC.OverrideSet || v.BMC.MediaInserted || v.BMC.HealthReadAt.Before(v.OffSince())):
			t.Fatalf("a power-on is recorded that is not allowed")
		}
	})
	for _, action := range []Action{RecordPowerRestore, PowerOn, ClearBootOverride} {
		if seen[action] == 0 {
			t.Errorf("%s was never drawn: %v", action, seen)
		}
	}
}

// outageLikely makes a server that lost its power, and is to be powered on, more likely.
func outageLikely(d draw, v *View) {
	if !d.flag("lost power") || v.Consumer == nil {
		return
	}
	provisioned(v)
	v.Consumer.Found, v.Host.Spec.WhenPoweredOff, v.PowerLoss.PoweredOffTime = true, v1alpha1.WhenPoweredOffPowerOn, noon.Add(-time.Duration(rapid.IntRange(0, 1200).Draw(d.T, "off for"))*time.Second)
	v.Identity = Identity{
		Server: v.Identity.Server, TakenMAC: v.Identity.TakenMAC,
		BMCTakenBy: pick(d, "taken", nil, nil, nil, otherHost("host-9")), Replacement: pick(d, "other server", nil, nil, nil, anotherServer()),
	}
	v.Consumer.Persistence, v.Consumer.Paused, v.Consumer.Deleting, v.Consumer.ClusterFound, v.Consumer.DeletedForMove = v1alpha1.PersistenceInstalled, false, false, true, false
	v.Host.Deleting, v.Host.Paused, v.Host.MoveBlocked, v.Host.Spec.Maintenance, v.Host.Spec.ExternallyProvisioned = false, false, false, nil, false
	v.Host.Spec.PowerHolds, v.Host.Spec.ProviderState.PowerHoldStartTime, v.Requests.Power, v.Requests.Detached, v.Requests.ReleaseUnfenced = nil, nil, PowerRequests{}, Annotation{}, Annotation{}
	v.Host.Boot, v.Host.Spec.ProviderState.Boots = nil, 0
	v.BMC.Problem, v.BMC.Busy, v.BMC.Inspected, v.BMC.Power = nil, false, true, v1alpha1.PowerOff
	v.BMC.OverrideSet, v.BMC.MediaInserted, v.BMC.HealthCritical = pick(d, "left", false, false, true), false, pick(d, "critical now", false, false, false, true)
	v.Host.Spec.Quarantine, v.QueuePosition = pick(d, "quarantine now", nil, nil, nil, &v1alpha1.Quarantine{Reason: "r"}), pick(d, "line now", nil, nil, &QueuePosition{Number: 37, Booting: 250})
	v.PowerLoss.Outage = pick(d, "outage now", v.PowerLoss.Outage, &Outage{Lost: 39})
	v.BMC.HealthReadAt = pick(d, "health read late", v.BMC.HealthReadAt, noon.Add(-2*time.Second), noon.Add(-2*time.Second))
	v.BMC.PowerAt, v.BMC.InspectedTime = noon.Add(-time.Second), pick(d, "inspected late", v.BMC.InspectedTime, noon.Add(-2*time.Second))
}

func (d draw) powerRestore() *v1alpha1.PowerRestore {
	if d.flag("never restored") {
		return nil
	}
	last := pick(d, "poweredOnTime", d.ago("poweredOn"), noon.Add(-time.Duration(rapid.IntRange(0, 90).Draw(d.T, "poweredOnSeconds"))*time.Second))
	return &v1alpha1.PowerRestore{
		LostTime: metav1.NewTime(last.Add(-10 * time.Minute)), LastPowerOnTime: metav1.NewTime(last), Servers: 3,
		PowerOns: rapid.Int32Range(1, 2).Draw(d.T, "powerOns"), EndTime: pick(d, "restored", nil, nil, &metav1.Time{Time: last.Add(3 * time.Minute)}),
	}
}

// TestPropertyTheSameFactsGiveTheSameStep: Next is a function of its arguments, and does not change them.
func TestPropertyTheSameFactsGiveTheSameStep(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := drawView(t)
		before := v
		before.Host.Spec = *v.Host.Spec.DeepCopy()
		if v.Consumer != nil {
			consumer := *v.Consumer
			before.Consumer = &consumer
		}
		before.Requests.Power.All = slices.Clone(v.Requests.Power.All)
		if a, b := Next(v, DefaultSettings()), Next(v, DefaultSettings()); !reflect.DeepEqual(a, b) {
			t.Fatalf("the same facts gave %+v and %+v", a, b)
		}
		NewWithT(t).Expect(v).To(Equal(before), "the facts were changed")
	})
}

// TestPropertyFactsThatAreMissingNeverCauseAnAction: nothing is done to a claimed host whose machine, Cluster or bootstrap data is missing.
func TestPropertyFactsThatAreMissingNeverCauseAnAction(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := drawView(t)
		if wrong := wrongWithAbsence(v, Next(v, DefaultSettings())); wrong != "" {
			t.Fatalf("%s: %+v", wrong, v)
		}
		if v.Consumer == nil || unfencedReleaseDue(v) {
			return // a user requested this release
		}
		unknown := !v.Consumer.Found || !v.Consumer.ClusterFound
		unready := !v.Consumer.BootstrapReady && !v.Consumer.Deleting && v.Host.CurrentBoot() == nil && !v.Host.settingsRunOpen() // a run ends first
		step := Next(v, DefaultSettings())
		if (unknown || unready) && (step.Action.Commands() || step.Action == Release || step.Action == RecordBoot && step.State == StateClaimed) {
			t.Fatalf("%s although something is missing: %+v", step.Action, v)
		}
	})
}

// TestPropertyAnotherServerSaysNothing: a server that may belong to another host, or differs from the recorded inventory, gets no command and is not
// offered, and its BMC's readings change nothing. No server is commanded before its inventory was read.
func TestPropertyAnotherServerSaysNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := drawView(t)
		step := Next(v, DefaultSettings())
		other := v.Identity.NotPermitted != nil || v.Identity.BMCTakenBy != nil || v.Identity.HardwareTakenBy != nil || v.Identity.Replacement != nil
		switch {
		case step.Action.Commands() && (other || !v.BMC.Inspected):
			t.Fatalf("%s to a server that may be another one: %+v", step.Action, v)
		case (other || v.Identity.MACTakenBy != nil) && step.Phase == v1alpha1.PhaseAvailable:
			t.Fatalf("a server that may be another one is offered: %+v", v)
		case v.Identity.MACTakenBy != nil && step.State == StateClaimed && StartsBoot(v, step):
			t.Fatalf("a boot begins on a server whose MAC address is another host's: %+v", v)
		case !other:
			return
		}
		reports := v
		reports.BMC = draw{t}.bmc()
		reports.BMC.Problem, reports.BMC.Busy, reports.BMC.OverrideSet, reports.BMC.Override, reports.BMC.InspectedTime = v.BMC.Problem, v.BMC.Busy, v.BMC.OverrideSet, v.BMC.Override, v.BMC.InspectedTime
		if another := Next(reports, DefaultSettings()); !reflect.DeepEqual(step, another) {
			t.Fatalf("%+v, and %+v if another server reports something else: %+v", step, another, v)
		}
	})
}

// TestPropertyNoBootForADeletedOwner: no boot begins for a machine whose owner is being deleted. A boot in flight continues as usual.
func TestPropertyNoBootForADeletedOwner(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := drawView(t)
		if v.Consumer == nil {
			return
		}
		v.Requests.ReleaseUnfenced = Annotation{} // this request is valid once the owner is being deleted, and is removed before
		stays, leaves := *v.Consumer, *v.Consumer
		stays.OwnerDeleting, leaves.OwnerDeleting = false, true
		v.Consumer = &leaves
		step := Next(v, DefaultSettings())
		if step.State == StateClaimed {
			if step.Action == RecordBoot || step.Action.Commands() {
				t.Fatalf("%s for a machine that is about to go: %+v", step.Action, v)
			}
			return
		}
		v.Consumer = &stays
		if want := Next(v, DefaultSettings()); !reflect.DeepEqual(step, want) {
			t.Fatalf("%+v instead of %+v because the machine is about to go: %+v", step, want, v)
		}
	})
}

// TestPropertyRunningHostsAreLeftAlone: no facts lead to a command to a host that runs its machine, is externally provisioned, in maintenance, paused
// or being moved. The exceptions are a release after the machine's deletion, and power holds.
func TestPropertyRunningHostsAreLeftAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := drawView(t)
		step := Next(v, DefaultSettings())
		if !step.Action.Commands() {
			return
		}
		released := v.Consumer != nil && v.Consumer.Deleting && !v.Consumer.DeletedForMove && !v.Consumer.Paused && !v.Host.Paused
		switch {
		case v.Requests.Detached.Set, v.Host.Spec.Maintenance != nil, v.Host.Spec.ExternallyProvisioned, v.Host.DeletedForMove && v.Host.Deleting:
			t.Fatalf("%s to a host that is not ours to touch: %+v", step.Action, v)
		case v.Provisioned() && !released && len(v.powerHolds()) > 0 && (step.Action == ShutDown || step.Action == ForceOff):
		case v.Provisioned() && !released && len(v.powerHolds()) == 0 && v.Host.Spec.ProviderState.PowerHoldStartTime != nil && step.Action == PowerOn:
		case v.Provisioned() && !released:
			t.Fatalf("%s to a running host: %+v", step.Action, v)
		case v.Host.Paused && !v.InFlight():
			t.Fatalf("%s to a paused host: %+v", step.Action, v)
		}
	})
}

// TestPropertyUnclaimedIsClean: a host is released only after it reads as off, later than any power command, and after its BMC was cleaned up, later
// than any other change to it.
func TestPropertyUnclaimedIsClean(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := drawView(t)
		step := Next(v, DefaultSettings())
		if step.Action != Release || v.Host.Spec.ExternallyProvisioned || step.Quarantine != nil {
			return
		}
		if v.BMC.Power != v1alpha1.PowerOff || !v.BMC.PowerAt.After(v.BMC.LastPowerAt) || !v.Consumer.Deleting {
			t.Fatalf("released without a confirmed power-off: %+v", v)
		}
		if !v.BMC.CleanedAt.After(v.BMC.LastPowerAt) || !v.BMC.CleanedAt.After(v.BMC.NetworkBootSetAt) {
			t.Fatalf("released with a boot override, or an image in the virtual drive: %+v", v)
		}
	})
}

// TestPropertySeededOnce: a host whose bootstrap data was served is never booted from the network again for the same machine.
func TestPropertySeededOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := drawView(t)
		if v.Host.CurrentBoot() == nil || v.Host.Boot.DataServedTime == nil || mayRepeat(*v.Host.Boot) {
			return
		}
		if boot := BootFor(v, DefaultSettings()); boot == BootNetwork || boot == BootAgent {
			t.Fatalf("a seeded host boots from the network: %+v", v)
		}
		step := Next(v, DefaultSettings())
		if step.Action == RecordBoot && step.Boot.DataServedTime == nil && step.Boot.Purpose != v1alpha1.PurposeClean {
			t.Fatalf("the record that bootstrap data was given out is lost: %+v", v)
		}
	})
}

// TestPropertyLostNeedsProof: a machine counts as lost only when its server was off for long, or when firmware requested a boot and the Node was lost
// too. An installed machine is never lost. Requests of firmware never lead to a command.
func TestPropertyLostNeedsProof(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := drawView(t)
		step := Next(v, DefaultSettings())
		if b := step.Boot; b != nil && b.Failure != nil && b.Failure.Reason == v1alpha1.ReasonStateLost && b.DataServedTime != nil && b.ReportedTime == nil &&
			v.BMC.PowerAt.Sub(latest(b.DataServedTime.Time, v.BMC.LastPowerAt)) < minOffForStateLost {
			t.Fatalf("lost in mid-boot by readings from before it got its bootstrap data, or was switched on: %+v", v)
		}
		boot := v.Host.CurrentBoot()
		if step.State != StateLost || boot != nil && boot.Failure != nil {
			return
		}
		restarted := boot != nil && v.Host.Boot.ReportedTime != nil && v.Observed.RestartedAt.After(v.Host.Boot.ReportedTime.Time) && !v.Observed.NodeLostAt.IsZero()
		switch {
		case v.Consumer.Persistence != v1alpha1.PersistenceEphemeral:
			t.Fatalf("an installed machine is lost: %+v", v)
		case v.BMC.Power != v1alpha1.PowerOff && !restarted:
			t.Fatalf("lost without proof: %+v", v)
		case step.Action.Commands():
			t.Fatalf("%s to a machine that is lost: %+v", step.Action, v)
		}
	})
}

// TestPropertyProgressIsSteady: the progress of a boot does not change with time alone, and is not empty once a boot began.
func TestPropertyProgressIsSteady(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := drawView(t)
		step := Next(v, DefaultSettings())
		progress := BootProgress(v, DefaultSettings(), step)
		ends := step.Action == RecordBoot && step.Boot.VoidedTime != nil
		if v.Host.CurrentBoot() != nil && !ends && step.State != StateDeleting && (progress == nil || progress.Reason == "" || progress.Message == "") {
			t.Fatalf("no progress in %s of %+v: %+v", step.State, v, progress)
		}
		later := v
		later.Now = v.Now.Add(time.Second)
		if after := Next(later, DefaultSettings()); after.State == step.State && after.Action == step.Action && step.Action != RecordBoot &&
			after.Reason == step.Reason && after.Message == step.Message && !reflect.DeepEqual(BootProgress(later, DefaultSettings(), after), progress) {
			t.Fatalf("a second later the progress differs: %+v", v)
		}
	})
}

// TestPropertyWaitsEnd: a step that waits has a RequeueAt, or waits for a change that enqueues the host.
func TestPropertyWaitsEnd(t *testing.T) {
	events := map[State]bool{ // waits for a write to a watched object
		StatePaused: true, StateOrphaned: true, StateDetached: true, StateReportedIn: true, StateClaimed: true,
	}
	rapid.Check(t, func(t *rapid.T) {
		v := drawView(t)
		step := Next(v, DefaultSettings())
		switch {
		case step.Action != Nothing || !step.RequeueAt.IsZero() || v.BMC.Busy || events[step.State]:
		case v.BMC.Problem != nil && v.BMC.Problem.RetryAt.IsZero():
		default:
			t.Fatalf("waits for ever in %s: %+v", step.State, v)
		}
	})
}
