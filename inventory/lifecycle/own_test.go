package lifecycle

import (
	"testing"

	. "github.com/onsi/gomega"
	"pgregory.net/rapid"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

func runsProvider(v *View) { v.Provider.RunsHere = true }

// TestOwnServer: the server that runs the provider is not switched off, and its condition says so, unless a user allows it.
func TestOwnServer(t *testing.T) {
	g := NewWithT(t)
	s := DefaultSettings()
	for name, v := range map[string]View{
		"a free host with spec.power Off": freeView(poweredOn, func(v *View) { v.Host.Spec.Power = v1alpha1.PowerOff }),
		"a power hold":                    claimedView(provisioned, poweredOn, forceHeld, powerHoldSince),
		"the release":                     claimedView(provisioned, poweredOn, deleting),
	} {
		off := Next(v, s)
		g.Expect(off.Action).To(BeElementOf(ForceOff, ShutDown), name)
		runsProvider(&v)
		step := Next(v, s)
		g.Expect(step.Action).To(Equal(Nothing), name)
		g.Expect(step.Reason).To(Equal(v1alpha1.ReasonRunsProvider), name)
		g.Expect(step.Message).To(ContainSubstring(v1alpha1.PowerOffProviderAnnotation), name)
		g.Expect(step.RequeueAt).NotTo(BeZero(), name)
		v.Requests.PowerOffProvider = by("anna: the rack moves")
		g.Expect(Next(v, s)).To(Equal(off), name)
	}

	free := freeView(poweredOn, func(v *View) { v.Host.Spec.Power = v1alpha1.PowerOn })
	g.Expect(Next(free, s).Phase).To(Equal(v1alpha1.PhaseAvailable))
	runsProvider(&free)
	g.Expect(Next(free, s).Phase).To(Equal(v1alpha1.PhaseUnavailable), "the boot for a machine begins with a power-off")
	g.Expect(Next(free, s).Reason).To(Equal(v1alpha1.ReasonRunsProvider))
}

// TestPropertyOwnServerStaysOn: no facts lead to a command that switches off the server that runs the provider, unless a user allows it. No other
// command is withheld.
func TestPropertyOwnServerStaysOn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := drawView(t)
		step := Next(v, DefaultSettings())
		off := step.Action == ForceOff || step.Action == ShutDown
		if off && v.Provider.RunsHere && !v.Requests.PowerOffProvider.Set {
			t.Fatalf("%s to the provider's own server: %+v", step.Action, v)
		}
		v.Provider.RunsHere = false
		without := Next(v, DefaultSettings()).Action
		if withheld := without == ForceOff || without == ShutDown; step.Action != without && !withheld {
			t.Fatalf("%s instead of %s to the provider's own server: %+v", step.Action, without, v)
		}
	})
}
