package lifecycle

import (
	"reflect"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// drawView draws any combination of facts, likely and unlikely.
func drawView(t *rapid.T) View {
	flag := func(name string) bool { return rapid.Bool().Draw(t, name) }
	ago := func(name string) time.Time {
		return noon.Add(-time.Duration(rapid.IntRange(0, 4000).Draw(t, name)) * time.Second)
	}
	moment := func(name string) *metav1.Time {
		if flag(name) {
			return nil
		}
		return &metav1.Time{Time: ago(name)}
	}
	v := View{
		Now: noon, Namespace: "dc", Name: "host-1",
		Deleting: flag("deleting"), DeletedForMove: flag("deletedForMove"), Paused: flag("paused"), MoveBlocked: flag("moveBlocked"),
		Furthest: rapid.SampledFrom([]v1alpha1.BootStage{"", v1alpha1.StageDHCP, v1alpha1.StageScript, v1alpha1.StageKernel, v1alpha1.StageReportedIn}).Draw(t, "stage"),
		BMC: BMC{
			Busy: flag("busy"), Inspected: flag("inspected"),
			Power:   rapid.SampledFrom([]v1alpha1.PowerState{"", v1alpha1.PowerOn, v1alpha1.PowerOff}).Draw(t, "power"),
			PowerAt: ago("powerAt"), PowerSince: ago("powerSince"),
			LastPower:   rapid.SampledFrom([]Command{"", CommandPowerOn, CommandShutDown, CommandForceOff}).Draw(t, "command"),
			LastPowerAt: ago("commandAt"), NetworkBootSetAt: ago("netboot"), CleanedAt: ago("cleaned"),
			OverrideStands: flag("stands"), InspectedAt: ago("inspectedAt"),
		},
	}
	v.Spec.Power = rapid.SampledFrom([]v1alpha1.PowerState{"", v1alpha1.PowerOn, v1alpha1.PowerOff}).Draw(t, "want")
	v.Spec.ExternallyProvisioned = flag("external")
	v.AskNow = flag("askNow")
	if flag("lacks") {
		v.BMC.Lacks = []string{"BootPXE"}
	}
	if flag("maintenance") {
		v.Spec.Maintenance = &v1alpha1.Maintenance{Reason: "r"}
	}
	if flag("quarantine") {
		v.Spec.Quarantine = &v1alpha1.Quarantine{Reason: "r"}
	}
	if flag("conflict") {
		v.SharesMACWith = []string{"host-2"}
	}
	if flag("problem") {
		v.BMC.Problem = &BMCProblem{Reason: "r", RetryAt: noon.Add(time.Duration(rapid.IntRange(-60, 60).Draw(t, "retry")) * time.Second)}
	}
	if flag("claimed") {
		v.Spec.ConsumerRef = &v1alpha1.ConsumerReference{Name: "m"}
		v.Consumer = &Consumer{
			Found: flag("found"), Deleting: flag("machineDeleting"), DeletedForMove: flag("machineMoved"), ClusterFound: flag("cluster"),
			Paused: flag("clusterPaused"), BootstrapReady: flag("bootstrap"),
			ProviderID:  rapid.SampledFrom([]string{"", "baremetal://dc/host-1/m", "baremetal://dc/other/m"}).Draw(t, "providerID"),
			Persistence: rapid.SampledFrom([]v1alpha1.BootPersistence{v1alpha1.PersistenceInstalled, v1alpha1.PersistenceEphemeral}).Draw(t, "persistence"),
		}
	}
	if flag("attempt") {
		v.Spec.Boot = &v1alpha1.BootAttempt{
			Attempt: rapid.Int32Range(1, 4).Draw(t, "number"), StartedAt: metav1.NewTime(ago("started")),
			PoweredOffAt: moment("off"), SeededAt: moment("seeded"), ReportedAt: moment("reported"),
		}
		if flag("failed") {
			v.Spec.Boot.Failure = &v1alpha1.BootFailure{Reason: "r"}
		}
	}
	return v
}

func TestNextIsPure(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := drawView(t)
		if a, b := Next(v, DefaultSettings()), Next(v, DefaultSettings()); !reflect.DeepEqual(a, b) {
			t.Fatalf("the same facts gave %+v and %+v", a, b)
		}
	})
}

// TestAbsenceNeverActs: without the machine, its Cluster or its bootstrap data nothing is done to a claimed host.
func TestAbsenceNeverActs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := drawView(t)
		if v.Consumer == nil {
			return
		}
		unknown := !v.Consumer.Found || !v.Consumer.ClusterFound
		unready := !v.Consumer.BootstrapReady && !v.Consumer.Deleting && v.Spec.Boot == nil
		step := Next(v, DefaultSettings())
		if (unknown || unready) && (step.Action.Commands() || step.Action == Release || step.Action == RecordBoot && step.State == StateWaiting) {
			t.Fatalf("%s although something is missing: %+v", step.Action, v)
		}
	})
}

// TestRunningHostsAreLeftAlone: no facts lead to a command to a host that runs its machine, that something else runs, that a
// person works on, or that is paused or being moved, but for the release that the machine's deletion started.
func TestRunningHostsAreLeftAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := drawView(t)
		step := Next(v, DefaultSettings())
		if !step.Action.Commands() {
			return
		}
		released := v.Consumer != nil && v.Consumer.Deleting && !v.Consumer.DeletedForMove && !v.Consumer.Paused && !v.Paused
		switch {
		case v.Spec.Maintenance != nil, v.Spec.ExternallyProvisioned, v.DeletedForMove && v.Deleting:
			t.Fatalf("%s to a host that is not ours to touch: %+v", step.Action, v)
		case v.Provisioned() && !released:
			t.Fatalf("%s to a running host: %+v", step.Action, v)
		case v.Paused && !v.InFlight():
			t.Fatalf("%s to a paused host: %+v", step.Action, v)
		}
	})
}

// TestUnclaimedIsClean: a host is given back only after it was seen powered off, later than any power command, and after its BMC
// was cleaned up, later than anything that was done with it.
func TestUnclaimedIsClean(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := drawView(t)
		if Next(v, DefaultSettings()).Action != Release || v.Spec.ExternallyProvisioned {
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

// TestSeededOnce: no host that was given bootstrap data gets a network boot for the same machine again.
func TestSeededOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := drawView(t)
		if v.Spec.Boot == nil || v.Spec.Boot.SeededAt == nil || !v.Claimed() {
			return
		}
		if boot := BootFor(v, DefaultSettings()); boot == BootNetwork {
			t.Fatalf("a seeded host boots from the network: %+v", v)
		}
		step := Next(v, DefaultSettings())
		if step.Action == RecordBoot && step.Boot.SeededAt == nil {
			t.Fatalf("the record that bootstrap data was given out is lost: %+v", v)
		}
	})
}

// TestWaitsEnd: whoever waits has a moment to look again, or waits for a change that brings the host back by itself.
func TestWaitsEnd(t *testing.T) {
	events := map[State]bool{ // a write to an object, which is watched
		StatePaused: true, StateOrphaned: true, StateReported: true, StateWaiting: true,
	}
	rapid.Check(t, func(t *rapid.T) {
		v := drawView(t)
		step := Next(v, DefaultSettings())
		switch {
		case step.Action != Nothing || !step.Again.IsZero() || v.BMC.Busy || events[step.State]:
		case v.BMC.Problem != nil && v.BMC.Problem.RetryAt.IsZero():
		default:
			t.Fatalf("waits for ever in %s: %+v", step.State, v)
		}
	})
}
